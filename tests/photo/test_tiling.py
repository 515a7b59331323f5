from __future__ import annotations

import numpy as np
import pytest

from gpen_core.photo.tiling import merge_rows, plan_cores, plan_tiles, plan_windows, read_tile, window_weights


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


SIZES = [(1, 1), (3, 2000), (2000, 3), (333, 517), (101, 101)]
TILES = [(64, 0), (64, 8), (64, 32), (100, 33), (256, 64), (256, 128), (1024, 256)]


def plans(width, height, tile_px, overlap_px):
    return [
        plan_windows(width, height, tile_px, overlap_px),
        plan_cores(width, height, tile_px, overlap_px),
        plan_cores(width, height, tile_px, overlap_px, is_exact=False, multiple_of=4),
    ]


def split_and_merge(pixels, plan, scale=1):
    """Through a network that only enlarges each pixel."""
    merged = np.empty((pixels.shape[0] * scale, pixels.shape[1] * scale, pixels.shape[2]), np.uint8)
    next_row = 0

    def run_row(tiles):
        for tile in tiles:
            seen = read_tile(pixels, tile)
            assert seen.shape[:2] == plan.tile_size[::-1]
            seen = seen.reshape(*seen.shape[:2], -1)
            yield seen.repeat(scale, axis=0).repeat(scale, axis=1).astype(np.float32)

    for y0, band in merge_rows(plan, run_row, scale):
        assert y0 == next_row
        next_row += len(band)
        merged[y0 : y0 + len(band)] = np.rint(band)
    assert next_row == len(merged)
    return merged


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("tile_px", "overlap_px"), TILES)
def test_split_and_merge_give_the_picture_back(size, tile_px, overlap_px):
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    for plan in plans(size[1], size[0], tile_px, overlap_px):
        np.testing.assert_array_equal(split_and_merge(pixels, plan), pixels)


def test_a_large_picture_comes_back_too():
    pixels = np.random.default_rng(0).integers(0, 256, (3000, 4500, 1), np.uint8)
    np.testing.assert_array_equal(split_and_merge(pixels, plan_windows(4500, 3000, 1024, 300)), pixels)


def test_answers_may_be_larger_than_their_tiles():
    pixels = np.random.default_rng(0).integers(0, 256, (37, 91, 3), np.uint8)
    for plan in plans(91, 37, 16, 6):
        enlarged = split_and_merge(pixels, plan, 2)
        np.testing.assert_array_equal(enlarged, np.kron(pixels, np.ones((2, 2, 1), np.uint8)))


@pytest.mark.parametrize("length", [1, 3, 64, 65, 333, 4500])
@pytest.mark.parametrize(("tile_px", "overlap_px"), TILES)
def test_weights_sum_to_one_at_every_pixel(length, tile_px, overlap_px):
    for plan in plans(length, 1, tile_px, overlap_px):
        total = np.zeros(plan.columns[-1][1])
        for (start, stop), weights in zip(plan.columns, window_weights(plan.columns, plan.is_blended, 1), strict=True):
            assert (weights >= 0).all()
            total[start:stop] += weights
        np.testing.assert_allclose(total, 1.0, atol=1e-6)


@pytest.mark.parametrize("overlap_px", [16, 64, 128])
def test_windows_have_no_step_and_no_kink(overlap_px):
    """Where the answers of two tiles differ by 100 levels the picture must not show where they begin."""
    plan = plan_windows(1000, 1, 256, overlap_px)
    weights = window_weights(plan.columns, True, 1)
    blended = np.zeros(plan.columns[-1][1])
    for index, ((start, stop), weight) in enumerate(zip(plan.columns, weights, strict=True)):
        blended[start:stop] += 100 * (index % 2) * weight
    assert np.abs(np.diff(blended)).max() < 100 * 1.6 / overlap_px
    assert np.abs(np.diff(blended, n=2)).max() < 100 * 10 / overlap_px**2


def test_every_core_sees_its_halo_unless_the_picture_ends():
    for multiple_of in (1, 4):
        plan = plan_cores(1000, 700, 128, 37, multiple_of=multiple_of)
        for spans, length in ((plan.columns, 1000), (plan.rows, 700)):
            for (start, stop), weights in zip(spans, window_weights(spans, False, 1), strict=True):
                counted = start + np.flatnonzero(weights)
                assert start == 0 or counted[0] - start >= 37
                assert stop >= length or stop - 1 - counted[-1] >= 37
                assert start % multiple_of == 0


def test_an_error_in_a_tile_is_an_error():
    plan = plan_windows(200, 200, 64, 16)

    def run_row(tiles):
        for tile in tiles:
            if tile.x0 > 0 and tile.y0 > 0:
                raise MemoryError("tile")
            yield np.zeros((64, 64, 3), np.float32)

    with pytest.raises(MemoryError):
        list(merge_rows(plan, run_row, 1))


def test_beyond_the_rim_a_tile_sees_the_picture_mirrored():
    pixels = np.arange(2 * 5 * 3, dtype=np.uint8).reshape(2, 5, 3)
    (tile,) = plan_windows(5, 2, 8, 0).tiles()
    seen = read_tile(pixels, tile)
    assert seen.shape == (8, 8, 3)
    np.testing.assert_array_equal(seen[:2, :5], pixels)
    np.testing.assert_array_equal(seen[:2, 5], pixels[:, 3])
    np.testing.assert_array_equal(seen[2], seen[0])
