"""Mode whole: any size, any tiles, no seam, nothing that is not asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from gpen_core.errors import DeviceError
from gpen_core.evaluation.seams import borders_of_lines, seam_ratio
from gpen_core.options import RestoreOptions
from gpen_core.restorer import Restorer
from gpen_core.whole import PlainTiles, plan_whole, restore_whole
from tests.fakes import ASTRONAUT_LANDMARKS, FakeCropRestorer, FakeDetector, constant, face_at, identity

FACE = face_at(ASTRONAUT_LANDMARKS)


def restorer(paint=identity, faces=(FACE,), size=64) -> Restorer:
    return Restorer(detector=FakeDetector(*faces), crop_restorer=FakeCropRestorer(paint, size=size))


def inverted(crop):
    return 255 - crop


def moody():
    """Brightens each tile by another amount, as a style code that belongs to the tile does."""
    count = iter(range(10**6))
    return lambda crop: np.clip(crop.astype(int) + 12 * (next(count) % 3), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("size", [(1, 1), (7, 300), (300, 5), (101, 101), (233, 317)])
@pytest.mark.parametrize("options", [{}, {"tile_px": 128}, {"tile_px": 64, "overlap_px": 0}, {"tile_px": 0}])
def test_what_the_network_leaves_alone_stays_to_the_bit(size, options):
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    result = restorer(faces=()).restore(pixels, RestoreOptions(mode="whole", **options))
    np.testing.assert_array_equal(result.photo.pixels, pixels)


@pytest.mark.parametrize("scale", [1, 1.5, 2])
def test_the_whole_picture_is_restored_at_the_size_asked_for(astronaut, scale):
    photo = astronaut[:201, :333]
    result = restorer(inverted).restore(photo, RestoreOptions(mode="whole", scale=scale))
    assert result.photo.pixels.shape == (round(201 * scale), round(333 * scale), 3)
    np.testing.assert_array_equal(result.photo.pixels, 255 - result.composition.canvas)
    report = result.to_report()
    assert report["mode"] == "whole"
    assert report["whole_tile"]["tile_px"] == 64 and report["whole_tile"]["overlap_px"] == 16
    assert report["faces_restored"] == 0
    assert report["outside_faces_unchanged"] is False
    assert f"in {report['whole_tile']['num_tiles']} tiles" in result.summary()


def test_strength_is_one_factor_and_needs_no_network(astronaut):
    subject = restorer(inverted)
    full = subject.restore(astronaut[:200, :200], RestoreOptions(mode="whole"))
    calls = subject.crop_restorer.num_calls
    np.testing.assert_array_equal(full.recompose(strength=0).photo.pixels, astronaut[:200, :200])
    half = full.recompose(strength=0.5).photo.pixels.astype(int)
    assert np.abs(half - 127.5).max() <= 1
    np.testing.assert_array_equal(full.recompose(strength="auto").photo.pixels, full.photo.pixels)
    assert subject.crop_restorer.num_calls == calls


def test_faces_can_be_pasted_over(astronaut):
    large = np.asarray(Image.fromarray(astronaut).resize((1024, 1024)))
    face = face_at((ASTRONAUT_LANDMARKS + 0.5) * 2 - 0.5)
    subject = restorer(constant(30, 60, 90), (face,), size=256)
    result = subject.restore(large, RestoreOptions(mode="both"))
    assert result.num_shown == 1
    assert "and 1 of 1 faces" in result.summary()
    # One constant for the tiles and the face: whatever order they come in, no trace of a paste.
    assert np.abs(result.photo.pixels.astype(int) - (30, 60, 90)).max() <= 1
    switched_off = result.recompose(faces=())
    np.testing.assert_array_equal(switched_off.photo.pixels, result.composition.whole)


@pytest.mark.parametrize("tile_px", [64, 128, 256])
@pytest.mark.parametrize("share", [2, 4, 8])
def test_tiles_that_differ_in_tone_show_no_grid(astronaut, tile_px, share):
    options = RestoreOptions(mode="whole", tile_px=tile_px, overlap_px=tile_px // share)
    plan = plan_whole(512, 512, 64, options)
    borders = borders_of_lines((512, 512), *plan.borders())

    def run(plan):
        painter = FakeCropRestorer(moody(), size=64)
        return restore_whole(astronaut, plan, painter, PlainTiles(), options, lambda step: None).pixels

    assert seam_ratio(run(plan), borders, astronaut) < 1.1
    assert seam_ratio(run(replace(plan, is_blended=False)), borders, astronaut) > 1.15


def test_the_real_model_shows_no_grid(starter, examples):
    photo = np.asarray(Image.open(examples / "originals" / "obama.jpg").resize((320, 400)))
    result = starter.restore(photo, RestoreOptions(mode="whole"))
    plan = plan_whole(320, 400, 256, RestoreOptions(mode="whole"))
    assert (result.photo.pixels != photo).mean() > 0.3
    assert seam_ratio(result.photo.pixels, borders_of_lines(photo.shape[:2], *plan.borders()), photo) < 1.1


def test_a_gray_picture_stays_gray(astronaut):
    gray = np.asarray(Image.fromarray(astronaut[:200, :200]).convert("L"))
    reddened = restorer(lambda crop: np.clip(crop + np.array([20, 0, 0]), 0, 255).astype(np.uint8))
    result = reddened.restore(gray, RestoreOptions(mode="whole"))
    assert (np.ptp(result.photo.pixels.astype(int), axis=2) == 0).all()
    assert (result.photo.pixels[..., 0] != gray).any()


def test_small_faces_and_pictures_without_one_are_warned_of(astronaut):
    small = restorer(size=512).restore(astronaut, RestoreOptions(mode="whole"))
    assert any("Small in tiles of 512 px" in note and "face 0" in note for note in small.notes)
    large = restorer(size=256).restore(astronaut, RestoreOptions(mode="whole"))
    assert not any("Small in tiles" in note for note in large.notes)
    none = restorer(faces=()).restore(astronaut[:100, :100], RestoreOptions(mode="whole"))
    assert any("made for close-ups" in note for note in none.notes)


def test_a_tile_that_fails_is_an_error_and_no_hole(astronaut):
    count = iter(range(100))
    subject = restorer(lambda crop: None if next(count) == 3 else crop)
    with pytest.raises(DeviceError, match=r"not finite in the tile at \d+, \d+"):
        subject.restore(astronaut, RestoreOptions(mode="whole", tile_px=256))


def test_progress_counts_all_tiles(astronaut):
    heard = []
    result = restorer().restore(astronaut[:150, :150], RestoreOptions(mode="whole"), heard.append)
    counted = [(step.done, step.total) for step in heard if step.stage == "restore"]
    total = result.whole_tiles.num_tiles
    assert counted[0] == (0, total)
    assert [done for done, of in counted if of == total] == sorted(done for done, of in counted if of == total)
    assert (total, total) in counted
