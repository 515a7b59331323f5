"""Cut a large picture into overlapping tiles of one size, and put what became of them together without a seam."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from gpen_core.types import Pixels


class Tile(NamedTuple):
    """A rectangle in picture pixels; (x1, y1) just outside."""

    x0: int
    y0: int
    x1: int
    y1: int


Span = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class TilePlan:
    """How a picture is cut.

    All tiles have one size. The last ones may reach over the picture's rim, where they see it mirrored.
    """

    width: int
    height: int
    columns: tuple[Span, ...]
    rows: tuple[Span, ...]
    overlap_px: int
    """Of neighbours, at least."""
    is_blended: bool
    """Smooth windows over the whole overlap; otherwise each tile counts up to the middle of its overlaps."""

    @property
    def num_tiles(self) -> int:
        return len(self.columns) * len(self.rows)

    @property
    def tile_size(self) -> tuple[int, int]:
        """Width and height of every tile."""
        return self.columns[0][1] - self.columns[0][0], self.rows[0][1] - self.rows[0][0]

    def tiles(self) -> list[Tile]:
        """Row by row."""
        return [Tile(x0, y0, x1, y1) for y0, y1 in self.rows for x0, x1 in self.columns]

    def borders(self) -> tuple[list[int], list[int]]:
        """Columns x and rows y where the step from x - 1 to x, or from y - 1 to y, could show a seam.

        They are where tiles begin, where they end, and the middle of each overlap.
        """
        return _borders(self.columns, self.width), _borders(self.rows, self.height)


def plan_tiles(width: int, height: int, tile_px: int, overlap_px: int) -> list[Tile]:
    """Tiles that cover a picture, row by row, each `tile_px` square or as large as the picture allows.

    Neighbours overlap by at least `overlap_px`, so whatever is smaller than that lies whole inside some tile. Tiles
    are spread evenly: none is a sliver.
    """
    columns = _spread(width, tile_px, overlap_px)
    rows = _spread(height, tile_px, overlap_px)
    return [Tile(x0, y0, x1, y1) for y0, y1 in rows for x0, x1 in columns]


def plan_cores(
    width: int, height: int, core_px: int, halo_px: int, *, is_exact: bool = True, multiple_of: int = 1
) -> TilePlan:
    """For a network that is local: tiles whose cores of about `core_px` see `halo_px` more on each side.

    Args:
        width: of the picture in px.
        height: of the picture in px.
        core_px: side of what a tile answers for; 0 makes the whole picture one tile.
        halo_px: seen around it, cut off at the picture's rim as the untiled network would.
        is_exact: the halo covers all that the network sees, so cores are cut hard; otherwise tiles are blended.
        multiple_of: starts and sizes of tiles are multiples of it.
    """
    m = multiple_of
    padded_width, padded_height = _ceil(width, m), _ceil(height, m)
    overlap_px = 2 * _ceil(halo_px, m)
    tile_px = _ceil(core_px, m) + overlap_px if core_px else _ceil(max(width, height), m)
    overlap_px = min(overlap_px, tile_px - m)
    return TilePlan(
        width=width,
        height=height,
        columns=tuple(_spread(padded_width, tile_px, overlap_px, m)),
        rows=tuple(_spread(padded_height, tile_px, overlap_px, m)),
        overlap_px=overlap_px,
        is_blended=not is_exact,
    )


def plan_windows(width: int, height: int, tile_px: int, overlap_px: int) -> TilePlan:
    """For a network that is not local: square tiles, blended over their overlaps, also where the picture is smaller."""
    return TilePlan(
        width=width,
        height=height,
        columns=tuple(_spread(max(width, tile_px), tile_px, overlap_px)),
        rows=tuple(_spread(max(height, tile_px), tile_px, overlap_px)),
        overlap_px=overlap_px,
        is_blended=True,
    )


def read_tile(pixels: Pixels, tile: Tile) -> Pixels:
    """The tile's pixels; beyond the picture's rim they are mirrored."""
    height, width = pixels.shape[:2]
    inside = pixels[tile.y0 : min(tile.y1, height), tile.x0 : min(tile.x1, width)]
    below, right = tile.y1 - tile.y0 - inside.shape[0], tile.x1 - tile.x0 - inside.shape[1]
    if not below and not right:
        return inside
    return np.asarray(cv2.copyMakeBorder(inside, 0, below, 0, right, cv2.BORDER_REFLECT_101), dtype=np.uint8)


RunRow = Callable[[list[Tile]], Iterator[npt.NDArray[np.float32]]]
"""What becomes of a row of tiles: for each (tile height x scale, tile width x scale, channels)."""


def merge_rows(plan: TilePlan, run_row: RunRow, scale: int) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """What became of the tiles, blended, as bands from top to bottom.

    One row of tiles is held at a time, so that memory grows with the picture's width and never with its height. An
    error in a tile goes through: nothing is left blank.

    Args:
        plan: how the picture is cut.
        run_row: called once a row of tiles.
        scale: how many times larger the answers are than their tiles.

    Yields:
        Its first row, and (h, width x scale, channels) float32.
    """
    widths = window_weights(plan.columns, plan.is_blended, scale)
    heights = window_weights(plan.rows, plan.is_blended, scale)
    num_columns, num_rows = plan.width * scale, plan.height * scale
    carried: npt.NDArray[np.float32] | None = None
    for index, (y0, y1) in enumerate(plan.rows):
        band: npt.NDArray[np.float32] | None = None
        tiles = [Tile(x0, y0, x1, y1) for x0, x1 in plan.columns]
        for tile, answer, across in zip(tiles, run_row(tiles), widths, strict=True):
            if band is None:
                band = np.zeros((answer.shape[0], plan.columns[-1][1] * scale, answer.shape[2]), dtype=np.float32)
            band[:, tile.x0 * scale : tile.x1 * scale] += answer * across[None, :, None]
        assert band is not None
        band *= heights[index][:, None, None]
        if carried is not None:
            band[: len(carried)] += carried
        # What the next row of tiles adds to waits for it.
        next_y0 = plan.rows[index + 1][0] if index + 1 < len(plan.rows) else plan.height
        num_done = (next_y0 - y0) * scale
        carried = band[num_done:].copy()
        yield y0 * scale, band[:num_done][: num_rows - y0 * scale, :num_columns]


def window_weights(spans: tuple[Span, ...], is_blended: bool, scale: int) -> list[npt.NDArray[np.float32]]:
    """Weights of each span along its own pixels; over all spans they sum to one at every pixel.

    Blended ones rise as a raised cosine over the overlap, so that neither a step nor a kink shows.
    """
    length = max(stop for _, stop in spans) * scale
    windows: list[npt.NDArray[np.float64]] = []
    total = np.zeros(length)
    for index, (start, stop) in enumerate(spans):
        centers = np.arange(start * scale, stop * scale) + 0.5
        window = np.ones(len(centers))
        if index > 0:
            window *= _rise(centers, start * scale, spans[index - 1][1] * scale, is_blended)
        if index + 1 < len(spans):
            window *= _rise(-centers, -stop * scale, -spans[index + 1][0] * scale, is_blended)
        windows.append(window)
        total[start * scale : stop * scale] += window
    return [
        (window / total[start * scale : stop * scale]).astype(np.float32)
        for window, (start, stop) in zip(windows, spans, strict=True)
    ]


def _rise(x: npt.NDArray[np.floating[Any]], start: float, stop: float, is_blended: bool) -> npt.NDArray[np.float64]:
    """From 0 at `start` to 1 at `stop`: smoothly, or at once in the middle."""
    if not is_blended or stop <= start:
        return (x > (start + stop) // 2).astype(np.float64)
    t = np.clip((x - start) / (stop - start), 0.0, 1.0)
    rise: npt.NDArray[np.float64] = (1.0 - np.cos(np.pi * t)) / 2.0
    return rise


def _spread(length: int, tile_px: int, overlap_px: int, multiple_of: int = 1) -> list[Span]:
    if not 0 <= overlap_px < tile_px:
        raise ValueError(f"overlap_px is {overlap_px}; it must be from 0 to below tile_px, which is {tile_px}")
    if length <= tile_px:
        return [(0, length)]
    stride = tile_px - overlap_px
    num_tiles = -(-(length - overlap_px) // stride)
    last_start = (length - tile_px) / multiple_of
    starts = [round(i * last_start / (num_tiles - 1)) * multiple_of for i in range(num_tiles)]
    return [(start, start + tile_px) for start in starts]


def _ceil(length: int, multiple_of: int) -> int:
    return -(-length // multiple_of) * multiple_of


def _borders(spans: tuple[Span, ...], length: int) -> list[int]:
    found: set[int] = set()
    for (_, stop), (start, _) in pairwise(spans):
        found |= {start, stop, (start + stop) // 2}
    return sorted(x for x in found if 0 < x < length)
