"""The whole picture through GPEN, in overlapping tiles: what the authors do with close-ups and selfies.

The network's style code belongs to a tile, so neighbours differ in tone and detail; windows over their overlap hide
that. Each tile's change is blended, not the tile, so that what the network leaves alone stays to the bit, and a tile
larger than the model sees keeps its finest detail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import cv2
import numpy as np
import numpy.typing as npt

from gpen_core.errors import DeviceError
from gpen_core.options import RestoreOptions
from gpen_core.photo.inpaint_mask import InpaintMask
from gpen_core.photo.tiling import Tile, TilePlan, merge_rows, plan_windows, read_tile
from gpen_core.runtime.crops import CropRestorer, RestoredCrops
from gpen_core.types import DetectedFace, OnProgress, Pixels, Progress, Tiles

Number = TypeVar("Number", np.uint8, np.float32)
FILL_FEATHER_PX = 4.0
"""How far outside a marked part new and old pixels are mixed."""


class TileWork(Protocol):
    """What is done with each tile around the network."""

    @property
    def is_replacing(self) -> bool:
        """The answer takes the picture's place; else what the network changed is added to it."""
        ...

    @property
    def has_labels(self) -> bool:
        """The canvas is a map whose colours are names: between two of them there is no third."""
        ...

    @property
    def canvas_mask(self) -> InpaintMask | None:
        """What of the canvas may change; None: all."""
        ...

    def show(self, seen: Pixels, mask: Pixels | None) -> Pixels:
        """What the network sees of a tile, and of the mask's, both of the network's size."""
        ...

    def settle(self, seen: Pixels, answer: Pixels) -> Pixels:
        """What of its answer counts."""
        ...


MIN_EYE_DISTANCE = 0.1
"""Smallest distance between the eyes, as a share of the tile, at which GPEN sees a face: it was trained at 0.21 to
0.25 of its input."""


class PlainTiles:
    """`TileWork` that leaves everything to the network."""

    is_replacing = has_labels = False
    canvas_mask: InpaintMask | None = None

    def show(self, seen: Pixels, mask: Pixels | None) -> Pixels:
        return seen

    def settle(self, seen: Pixels, answer: Pixels) -> Pixels:
        return answer


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WholePicture:
    """A canvas restored as a whole, and what really ran."""

    pixels: Pixels
    plan: TilePlan
    ran: RestoredCrops
    """Of all tiles, without their crops."""

    @property
    def tiles(self) -> Tiles:
        return Tiles(self.plan.tile_size[0], self.plan.overlap_px, self.plan.num_tiles)


def plan_whole(width: int, height: int, model_px: int, options: RestoreOptions) -> TilePlan:
    """Tiles of a canvas: of the model's size, overlapping by a quarter, unless the options say otherwise."""
    tile_px = model_px if options.tile_px == "auto" else options.tile_px
    if not tile_px:
        # One tile: the network sees the whole picture, made square.
        tile_px = max(width, height)
    overlap_px = tile_px // 4 if options.overlap_px == "auto" else options.overlap_px
    return plan_windows(width, height, tile_px, min(overlap_px, tile_px // 2))


def restore_whole(
    canvas: Pixels,
    plan: TilePlan,
    restorer: CropRestorer,
    work: TileWork,
    options: RestoreOptions,
    report: OnProgress,
) -> WholePicture:
    """The canvas with every tile restored at full strength.

    Args:
        canvas: (H, W, 3) RGB.
        plan: its tiles.
        restorer: GPEN.
        work: what is done with each tile around the network.
        options: as they were asked for.
        report: hears of each finished tile (`restore`).

    Raises:
        DeviceError: the memory is too small, or a tile's numbers are not finite.
    """
    # The tiles of the options are the picture's; the network's own are left to it.
    inner = replace(options, tile_px="auto", overlap_px="auto")
    mask = work.canvas_mask
    answers: list[RestoredCrops] = []
    num_done = 0
    report(Progress("restore", 0, plan.num_tiles))

    def report_row(progress: Progress) -> None:
        if progress.stage == "restore":
            progress = replace(progress, done=num_done + progress.done, total=plan.num_tiles)
        report(progress)

    def run_row(tiles: list[Tile]) -> Iterator[npt.NDArray[np.float32]]:
        nonlocal num_done
        seen = [_resize(read_tile(canvas, tile), restorer.size, has_labels=work.has_labels) for tile in tiles]
        hidden = [None if mask is None else _resize(read_tile(mask.levels, tile), restorer.size) for tile in tiles]
        shown = [work.show(crop, hole) for crop, hole in zip(seen, hidden, strict=True)]
        answer = restorer.restore_crops(shown, report_row, inner)
        answers.append(replace(answer, crops=()))
        for tile, crop, restored in zip(tiles, seen, answer.crops, strict=True):
            if restored is None:
                raise DeviceError(
                    f"{restorer.model_name} gave numbers that are not finite in the tile at {tile.x0}, {tile.y0}; "
                    "choose another tile size, precision fp32, or mode faces."
                )
            settled = work.settle(crop, restored)
            yield _replacement(canvas, settled, tile) if work.is_replacing else _change(crop, settled, tile)
        num_done += len(tiles)

    pixels: Pixels = canvas.copy()
    for y0, change in merge_rows(plan, run_row, 1):
        rows = slice(y0, y0 + len(change))
        if mask is not None:
            change = change * mask.weights(0, rows.start, plan.width, rows.stop, FILL_FEATHER_PX)[:, :, None]
        pixels[rows] = np.clip(np.rint(canvas[rows] + change), 0, 255)
    return WholePicture(pixels=pixels, plan=plan, ran=_summed(answers))


def _change(seen: Pixels, restored: Pixels, tile: Tile) -> npt.NDArray[np.float32]:
    """What the network changed, at the tile's own size."""
    difference = restored.astype(np.float32) - seen
    return _resize(difference, tile.x1 - tile.x0)


def _replacement(canvas: Pixels, restored: Pixels, tile: Tile) -> npt.NDArray[np.float32]:
    """What makes the canvas the network's answer, whatever it was."""
    return _resize(restored.astype(np.float32), tile.x1 - tile.x0) - read_tile(canvas, tile)


def _resize(image: npt.NDArray[Number], size: int, *, has_labels: bool = False) -> npt.NDArray[Number]:
    if image.shape[0] == size:
        return np.ascontiguousarray(image)
    interpolation = cv2.INTER_AREA if image.shape[0] > size else cv2.INTER_CUBIC
    if has_labels:
        interpolation = cv2.INTER_NEAREST_EXACT
    return np.asarray(cv2.resize(image, (size, size), interpolation=interpolation), dtype=image.dtype)


def add_whole(faces: RestoredCrops, whole: RestoredCrops, *, has_faces: bool) -> RestoredCrops:
    """One account of both passes."""
    first = faces if has_faces else whole
    notes = dict.fromkeys((*whole.notes, *faces.notes))
    return replace(first, notes=tuple(notes), compile_s=faces.compile_s + whole.compile_s)


def _summed(answers: Sequence[RestoredCrops]) -> RestoredCrops:
    """One account of several calls."""
    notes = dict.fromkeys(note for answer in answers for note in answer.notes)
    return replace(
        answers[-1],
        notes=tuple(notes),
        precisions=None,
        compiled=all(answer.compiled for answer in answers),
        compile_s=sum(answer.compile_s for answer in answers),
        device=next((answer.device for answer in answers if answer.device), None),
    )


def whole_notes(faces: Sequence[DetectedFace], scale: float, plan: TilePlan) -> list[str]:
    """Warnings where the picture is no close-up: the network was trained on faces that fill its input."""
    if not faces:
        return ["No face was found: mode whole is made for close-ups of faces, and may invent detail elsewhere."]
    smallest_px = MIN_EYE_DISTANCE * plan.tile_size[0]
    small = [index for index, face in enumerate(faces) if face.eye_distance_px * scale < smallest_px]
    if not small:
        return []
    which = ", ".join(map(str, small[:10])) + (", ..." if len(small) > 10 else "")
    return [
        f"Small in tiles of {plan.tile_size[0]} px, and better restored by mode faces or both, or in smaller tiles: "
        f"face {which}."
    ]
