from __future__ import annotations

import cv2
import numpy as np
import pytest
from PIL import Image

from gpen_core.errors import Cancelled, DeviceError, PhotoError
from gpen_core.options import RestoreOptions
from gpen_core.photo.background import make_background, make_canvas, resize_alpha, stream_upscaled
from gpen_core.photo.color import detect_tone
from gpen_core.photo.tiling import plan_cores
from tests.fakes import LocalUpscaler

SCALES = [1, 1.01, 1.37, 2, 2.5, 3, 4]


def ignore(progress):
    pass


def background(pixels, upscaler, tone=None, report=ignore, **options):
    return make_background(pixels, upscaler, tone, RestoreOptions(**options), report)


@pytest.fixture
def photo(astronaut):
    return astronaut[20:220, 140:300]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("size", [(1, 1), (101, 101), (33, 57), (3, 200)])
def test_the_canvas_is_exactly_scale_times_the_photo(scale, size):
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    expected = round(size[0] * scale), round(size[1] * scale)
    assert make_canvas(pixels, scale).shape == (*expected, 3)
    assert resize_alpha(pixels[..., 0], scale).shape == expected
    for network in (LocalUpscaler(2), LocalUpscaler(4)):
        assert background(pixels, network, scale=scale).canvas.shape == (*expected, 3)


def test_scale_one_is_the_same_array(astronaut):
    assert make_canvas(astronaut, 1) is astronaut
    assert background(astronaut, None).canvas is astronaut
    assert resize_alpha(None, 4) is None


def test_pixel_centres_are_kept(astronaut):
    smooth = cv2.GaussianBlur(astronaut, (0, 0), 3)
    for scale in (2, 4):
        back = cv2.resize(make_canvas(smooth, scale), None, fx=1 / scale, fy=1 / scale, interpolation=cv2.INTER_AREA)
        assert np.abs(back.astype(int) - smooth).max() <= 2


def test_a_result_that_is_too_large_is_refused_with_the_numbers():
    flat = np.broadcast_to(np.zeros(3, np.uint8), (9000, 9000, 3))
    with pytest.raises(PhotoError, match=r"1296 megapixels.*400"):
        make_canvas(flat, 4)


def levels(pixels, network, tile_px, halo_px, is_exact=True):
    plan = plan_cores(
        pixels.shape[1], pixels.shape[0], tile_px, halo_px, is_exact=is_exact, multiple_of=network.multiple_of
    )
    return np.concatenate([band.copy() for _, band in stream_upscaled(pixels, network, plan, ignore)])


@pytest.mark.parametrize("scale", [2, 4])
def test_with_the_exact_halo_tiles_change_nothing(photo, scale):
    """For every tile size; the network's numbers are compared, not the rounded pixels."""
    pixels = photo[:90, :121]
    network = LocalUpscaler(scale)
    untiled = levels(pixels, network, 0, 0)
    for tile_px in (8, 17, 32, 64, 100, 512):
        tiled = levels(pixels, network, tile_px, network.exact_halo_px)
        assert np.abs(tiled - untiled).max() / 255 < 1e-5
    too_small = levels(pixels, network, 32, 2)
    assert np.abs(too_small - untiled).max() / 255 > 1e-4


def test_an_overlap_smaller_than_exact_is_blended_and_said(photo):
    network = LocalUpscaler(2)
    exact = background(photo, network, scale=2, tile_px=64, overlap_px=16)
    untiled = background(photo, network, scale=2)
    np.testing.assert_array_equal(exact.canvas, untiled.canvas)
    assert untiled.tiles is None and untiled.notes == ()
    assert exact.tiles[:2] == (64, network.exact_halo_px) and exact.notes == ()
    rough = background(photo, network, scale=2, tile_px=64, overlap_px=2)
    assert rough.tiles[:2] == (64, 2)
    assert any("smaller than exact" in note for note in rough.notes)


def test_tiles_are_chosen_by_memory_and_halved_where_that_was_wrong(photo):
    planned = background(photo, LocalUpscaler(2, largest_px=130), scale=2)
    assert planned.tiles.tile_px == 64
    network = LocalUpscaler(2, fails_above_px=130)
    met = background(photo, network, scale=2)
    assert met.tiles.tile_px == 64
    assert met.notes == ("Memory was short: the background ran in tiles of 64 px.",)
    np.testing.assert_array_equal(met.canvas, planned.canvas)
    np.testing.assert_array_equal(met.canvas, background(photo, LocalUpscaler(2), scale=2).canvas)


@pytest.mark.parametrize("scale", [1.5, 2, 4])
def test_an_upscaler_that_fails_is_named_and_the_canvas_is_what_the_note_says(photo, scale):
    for network in (LocalUpscaler(2, fails_above_px=0), LocalUpscaler(2, error=DeviceError("It broke."))):
        failed = background(photo[:101, :77], network, scale=scale)
        np.testing.assert_array_equal(failed.canvas, make_canvas(photo[:101, :77], scale))
        assert failed.upscaler is None and failed.tiles is None
        (note,) = failed.notes
        assert note.startswith(f"The background was only resampled (Lanczos) to {round(77 * scale)} x")
        assert "memory" in note or "It broke." in note


def test_strength_mixes_with_the_resampled_photo(photo):
    network = LocalUpscaler(2)
    plain, full = make_canvas(photo, 2), background(photo, network, scale=2).canvas
    assert np.abs(full.astype(int) - plain).mean() > 1
    none = background(photo, network, scale=2, background_strength=0)
    np.testing.assert_array_equal(none.canvas, plain)
    half = background(photo, network, scale=2, background_strength=0.5).canvas
    assert np.abs(2 * half.astype(int) - plain - full).max() <= 1


def test_gray_stays_gray(photo):
    gray = np.repeat(np.asarray(Image.fromarray(photo).convert("L"))[..., None], 3, axis=2)
    tinted = LocalUpscaler(2, tint=(25, 0, 0))
    assert np.ptp(background(gray, tinted, scale=2).canvas.astype(int), axis=2).max() >= 20
    assert np.ptp(background(gray, tinted, detect_tone(gray), scale=2).canvas.astype(int), axis=2).max() == 0


def test_only_a_row_of_tiles_is_held_and_the_device_sees_one(photo):
    network = LocalUpscaler(2)
    tall = np.concatenate([photo] * 3)
    plan = plan_cores(160, 600, 64, 4)
    bands = [band.nbytes for _, band in stream_upscaled(tall, network, plan, ignore)]
    assert len(bands) == len(plan.rows)
    assert max(bands) <= plan.tile_size[1] * 2 * 160 * 2 * 3 * 4
    assert set(network.shapes) == {(72, 72)}


def test_each_tile_is_reported_and_raising_stops(photo):
    heard = []
    background(photo, LocalUpscaler(2), report=heard.append, scale=2, tile_px=128)
    assert [(step.done, step.total) for step in heard] == [(done, 4) for done in range(5)]
    assert {step.stage for step in heard} == {"background"}

    def stop(progress):
        if progress.done == 2:
            raise Cancelled("stopped by the test")

    with pytest.raises(Cancelled):
        background(photo, LocalUpscaler(2), report=stop, scale=2, tile_px=128)


def test_a_network_of_another_scale_is_followed_by_a_resize(photo):
    small = background(photo, LocalUpscaler(4), scale=1.5).canvas
    reference = cv2.resize(photo, (240, 300), interpolation=cv2.INTER_CUBIC)
    assert np.abs(small.astype(int) - reference).mean() < 20
    huge = background(np.zeros((6000, 6000, 3), np.uint8), LocalUpscaler(4), scale=1.1)
    assert any("576 megapixels" in note for note in huge.notes)
