from __future__ import annotations

import numpy as np
import pytest

from gpen_core.photo.tiling import plan_tiles


@pytest.mark.parametrize(
    ("width", "height", "tile_px", "overlap_px"),
    [(1, 1, 256, 64), (256, 256, 256, 64), (257, 100, 256, 64), (4500, 3000, 1280, 256), (1000, 2000, 256, 0)],
)
def test_tiles_cover_the_picture_and_none_is_a_sliver(width, height, tile_px, overlap_px):
    tiles = plan_tiles(width, height, tile_px, overlap_px)
    covered = np.zeros((height, width), bool)
    for tile in tiles:
        covered[tile.y0 : tile.y1, tile.x0 : tile.x1] = True
        assert tile.x1 - tile.x0 == min(tile_px, width)
        assert tile.y1 - tile.y0 == min(tile_px, height)
    assert covered.all()


def test_whatever_is_smaller_than_the_overlap_is_whole_in_some_tile():
    width, height, overlap_px = 3001, 1777, 200
    tiles = plan_tiles(width, height, 640, overlap_px)
    for x0, y0 in np.random.default_rng(0).integers(0, (width - overlap_px, height - overlap_px), (500, 2)):
        assert any(
            tile.x0 <= x0 and tile.y0 <= y0 and tile.x1 >= x0 + overlap_px and tile.y1 >= y0 + overlap_px
            for tile in tiles
        )


@pytest.mark.parametrize("overlap_px", [-1, 256, 300])
def test_impossible_overlaps_are_refused(overlap_px):
    with pytest.raises(ValueError, match=str(overlap_px)):
        plan_tiles(500, 500, 256, overlap_px)
