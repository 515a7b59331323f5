"""The photo at the size of the result, before any face is put in: resampled, or through an upscaler in tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np
import numpy.typing as npt

from gpen_core.errors import DeviceError, PhotoError
from gpen_core.options import RestoreOptions
from gpen_core.photo.color import Tone
from gpen_core.photo.io import MAX_OUTPUT_MEGAPIXELS
from gpen_core.photo.tiling import Tile, TilePlan, merge_rows, plan_cores, read_tile
from gpen_core.types import OnProgress, Pixels, Progress, Tiles

RESAMPLED = "The background was only resampled (Lanczos)"
SMALLEST_TILE_PX = 64
"""What a tile answers for, at least, where memory is short; sizes that are chosen here are multiples of it."""
BAND_PX = 256
"""Rows that are blended at a time."""


class Upscaler(Protocol):
    """A network that enlarges pictures, tile by tile."""

    @property
    def name(self) -> str: ...

    @property
    def scale(self) -> int:
        """How many times larger it makes a tile."""
        ...

    @property
    def multiple_of(self) -> int:
        """Sides of tiles are multiples of it."""
        ...

    @property
    def exact_halo_px(self) -> int:
        """How far it sees around a pixel of its input."""
        ...

    def largest_tile_px(self) -> int | None:
        """Side of the largest square tile that free memory is expected to hold; None where that is unknown."""
        ...

    def upscale_tile(self, tile: Pixels) -> npt.NDArray[np.float32]:
        """(h, w, 3) RGB -> (scale h, scale w, 3) levels in [0, 255].

        Raises:
            MemoryError: the tile is too large for the device's memory.
            DeviceError: it failed otherwise; the message says how.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Background:
    """The canvas and how it came to be."""

    canvas: Pixels
    upscaler: str | None = None
    """What enlarged it; None where it was only resampled."""
    tiles: Tiles | None = None
    """Of the upscaler: what a tile answers for, and what it sees around that; None where it saw the photo whole."""
    notes: tuple[str, ...] = ()


def output_size(width: int, height: int, scale: float) -> tuple[int, int]:
    """Width and height of the result: exactly scale x the photo's, rounded to whole pixels."""
    return round(width * scale), round(height * scale)


def make_canvas(pixels: Pixels, scale: float) -> Pixels:
    """(H, W, 3) -> (scale H, scale W, 3), Lanczos-resampled with pixel centres kept; the same array at scale 1.

    Raises:
        PhotoError: the result would be larger than `MAX_OUTPUT_MEGAPIXELS`.
    """
    height, width = pixels.shape[:2]
    megapixels = height * width * scale**2 / 1e6
    if megapixels > MAX_OUTPUT_MEGAPIXELS:
        raise PhotoError(
            f"At scale {scale:g} the result would have {megapixels:.0f} megapixels; the limit is "
            f"{MAX_OUTPUT_MEGAPIXELS}, so choose a smaller scale."
        )
    return _resize(pixels, output_size(width, height, scale))


def resize_alpha(alpha: npt.NDArray[np.uint8] | None, scale: float) -> npt.NDArray[np.uint8] | None:
    """Opacity at the size of the result."""
    return alpha if alpha is None else _resize(alpha, output_size(alpha.shape[1], alpha.shape[0], scale))


def make_background(
    pixels: Pixels, upscaler: Upscaler | None, tone: Tone | None, options: RestoreOptions, report: OnProgress
) -> Background:
    """The canvas, through `upscaler` where there is one. Where that fails, the canvas is resampled and a note says why.

    Args:
        pixels: (H, W, 3) RGB.
        upscaler: None resamples only.
        tone: of a gray or sepia photo, which the upscaler must not change.
        options: scale, background_strength, tile_px, overlap_px.
        report: hears of each tile.

    Raises:
        PhotoError: the result would be too large.
    """
    height, width = pixels.shape[:2]
    canvas = make_canvas(pixels, options.scale)
    if upscaler is None:
        return Background(canvas=canvas)
    megapixels = width * height * upscaler.scale**2 / 1e6
    if megapixels > MAX_OUTPUT_MEGAPIXELS:
        why = f"{upscaler.name} would make {megapixels:.0f} megapixels of it, above the limit of "
        return Background(canvas=canvas, notes=(f"{RESAMPLED}: {why}{MAX_OUTPUT_MEGAPIXELS}.",))
    try:
        upscaled, plan, core_px, halo_px, notes = _upscale(pixels, upscaler, options, report)
    except DeviceError as error:
        return Background(canvas=canvas, notes=(f"{RESAMPLED} to {canvas.shape[1]} x {canvas.shape[0]} px: {error}",))
    upscaled = _resize(upscaled, (canvas.shape[1], canvas.shape[0]))
    if plan.num_tiles > 1 and plan.is_blended:
        notes = (*notes, "The background's tiles were blended with an overlap smaller than exact.")
    return Background(
        canvas=_blend(canvas, upscaled, tone, options.background_strength),
        upscaler=upscaler.name,
        tiles=Tiles(core_px, halo_px, plan.num_tiles) if plan.num_tiles > 1 else None,
        notes=notes,
    )


def _upscale(
    pixels: Pixels, upscaler: Upscaler, options: RestoreOptions, report: OnProgress
) -> tuple[Pixels, TilePlan, int, int, tuple[str, ...]]:
    """The picture enlarged, the plan, size and halo of its tiles, and notes; smaller tiles where memory runs out."""
    height, width = pixels.shape[:2]
    core_px = _first_core_px(width, height, upscaler, options)
    notes: tuple[str, ...] = ()
    while True:
        halo_px, is_exact = _halo(core_px, upscaler, options)
        plan = plan_cores(width, height, core_px, halo_px, is_exact=is_exact, multiple_of=upscaler.multiple_of)
        try:
            upscaled = upscale_tiled(pixels, upscaler, plan, report)
        except MemoryError:
            smaller_px = (core_px or max(width, height)) // 2 // SMALLEST_TILE_PX * SMALLEST_TILE_PX
            if smaller_px < SMALLEST_TILE_PX:
                raise DeviceError(
                    f"{upscaler.name} ran out of memory, even in its smallest tiles; close other programs."
                ) from None
            core_px = smaller_px
            notes = (f"Memory was short: the background ran in tiles of {core_px} px.",)
        else:
            return upscaled, plan, core_px, halo_px, notes


def _first_core_px(width: int, height: int, upscaler: Upscaler, options: RestoreOptions) -> int:
    """What was asked for; with `auto` the whole picture, or the largest tile that free memory is expected to hold."""
    if options.tile_px != "auto":
        return options.tile_px
    largest_px = upscaler.largest_tile_px()
    if largest_px is None or width * height <= largest_px**2:
        return 0
    # The tile is the core and a quarter of it on each side.
    core_px = int(largest_px / 1.5) // SMALLEST_TILE_PX * SMALLEST_TILE_PX
    return max(core_px, SMALLEST_TILE_PX)


def _halo(core_px: int, upscaler: Upscaler, options: RestoreOptions) -> tuple[int, bool]:
    """How far a tile sees around its core, and whether that is all the network can see."""
    exact_px = upscaler.exact_halo_px
    halo_px = core_px // 4 if options.overlap_px == "auto" else options.overlap_px
    return min(halo_px, exact_px), halo_px >= exact_px


def upscale_tiled(pixels: Pixels, upscaler: Upscaler, plan: TilePlan, report: OnProgress) -> Pixels:
    """(H, W, 3) -> (s H, s W, 3) through the network in tiles, with s its own scale. See `stream_upscaled`."""
    height, width = pixels.shape[:2]
    upscaled: Pixels = np.empty((height * upscaler.scale, width * upscaler.scale, 3), dtype=np.uint8)
    for y0, band in stream_upscaled(pixels, upscaler, plan, report):
        upscaled[y0 : y0 + len(band)] = np.rint(band)
    return upscaled


def stream_upscaled(
    pixels: Pixels, upscaler: Upscaler, plan: TilePlan, report: OnProgress
) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """The enlarged picture in bands: first row and (h, s W, 3) levels. Only a row of tiles is held at a time.

    Raises:
        MemoryError: a tile is too large.
        DeviceError: the network failed.
    """
    num_done = 0
    report(Progress("background", 0, plan.num_tiles))

    def run_row(tiles: list[Tile]) -> Iterator[npt.NDArray[np.float32]]:
        nonlocal num_done
        for tile in tiles:
            yield upscaler.upscale_tile(read_tile(pixels, tile))
            num_done += 1
            report(Progress("background", num_done, plan.num_tiles))

    return merge_rows(plan, run_row, upscaler.scale)


def _blend(canvas: Pixels, upscaled: Pixels, tone: Tone | None, strength: float) -> Pixels:
    """`upscaled` in the photo's tone, mixed with `canvas`. Band by band: floats take four times a picture's memory."""
    if tone is None and strength == 1:
        return upscaled
    blended: Pixels = np.empty_like(canvas)
    for y0 in range(0, len(canvas), BAND_PX):
        rows = slice(y0, y0 + BAND_PX)
        before, after = canvas[rows], upscaled[rows]
        if tone is not None:
            after = tone.recolor(before, after)
        blended[rows] = np.rint(before + np.float32(strength) * (after.astype(np.float32) - before))
    return blended


def _resize(image: npt.NDArray[np.uint8], size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """To `size` (width, height): by area where it shrinks, else Lanczos; the same array where nothing changes."""
    width, height = image.shape[1], image.shape[0]
    if size == (width, height):
        return image
    interpolation = cv2.INTER_AREA if size[0] < width or size[1] < height else cv2.INTER_LANCZOS4
    return np.asarray(cv2.resize(image, size, interpolation=interpolation), dtype=np.uint8)
