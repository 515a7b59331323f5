"""Cut a large picture into overlapping tiles of one size."""

from __future__ import annotations

from typing import NamedTuple


class Tile(NamedTuple):
    """A rectangle in picture pixels; (x1, y1) just outside."""

    x0: int
    y0: int
    x1: int
    y1: int


def plan_tiles(width: int, height: int, tile_px: int, overlap_px: int) -> list[Tile]:
    """Tiles that cover a picture, row by row, each `tile_px` square or as large as the picture allows.

    Neighbours overlap by at least `overlap_px`, so whatever is smaller than that lies whole inside some tile. Tiles
    are spread evenly: none is a sliver.
    """
    columns = _spread(width, tile_px, overlap_px)
    rows = _spread(height, tile_px, overlap_px)
    return [Tile(x0, y0, x1, y1) for y0, y1 in rows for x0, x1 in columns]


def _spread(length: int, tile_px: int, overlap_px: int) -> list[tuple[int, int]]:
    if not 0 <= overlap_px < tile_px:
        raise ValueError(f"overlap_px is {overlap_px}; it must be from 0 to below tile_px, which is {tile_px}")
    if length <= tile_px:
        return [(0, length)]
    stride = tile_px - overlap_px
    num_tiles = -(-(length - overlap_px) // stride)
    last_start = length - tile_px
    starts = [round(i * last_start / (num_tiles - 1)) for i in range(num_tiles)]
    return [(start, start + tile_px) for start in starts]
