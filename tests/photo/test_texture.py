from __future__ import annotations

import numpy as np
import pytest

from gpen_core.photo.color import luma
from gpen_core.photo.texture import Grain, lock_color, make_grain, measure_grain


def test_white_noise_is_measured_and_made_again():
    noise = np.random.default_rng(0).normal(0, 10, (200, 200, 3)).astype(np.float32)
    everywhere = np.ones((200, 200), bool)
    grain = measure_grain(120 + noise, everywhere)
    made = make_grain(grain, (200, 200), 1, is_toned=False)
    again = measure_grain(120 + made, everywhere)
    np.testing.assert_allclose(again.luma, grain.luma, rtol=0.1)
    np.testing.assert_allclose(again.chroma, grain.chroma, rtol=0.1)
    assert abs(made.mean()) < 0.3


def test_edges_are_no_grain(astronaut):
    picture = np.zeros((200, 200, 3), np.float32)
    picture[:, 100:] = 200
    picture += 25
    assert max(measure_grain(picture, np.ones((200, 200), bool)).luma) < 0.1


def test_too_little_to_see_is_no_grain():
    assert measure_grain(np.full((10, 10, 3), 100, np.float32), np.ones((10, 10), bool)) is None
    assert measure_grain(np.full((90, 90, 3), 255, np.float32), np.ones((90, 90), bool)) is None


def test_a_toned_photo_gets_grain_without_colour():
    made = make_grain(Grain((8, 3), (5, 2)), (64, 64), 0, is_toned=True)
    assert (np.ptp(made, axis=2) == 0).all()
    colored = make_grain(Grain((0, 0), (5, 2)), (64, 64), 0, is_toned=False)
    assert np.abs(luma(colored)).max() < 0.01
    assert np.ptp(colored, axis=2).max() > 3


def test_missing_is_the_rest_of_the_power():
    missing = Grain((5, 1), (4, 0)).missing(Grain((3, 2), (4, 0)))
    assert missing.luma == pytest.approx((4, 0))
    assert missing.chroma == pytest.approx((0, 0))


def test_the_colour_lock_keeps_colour_and_lets_detail_through(astronaut):
    crop = astronaut[30:286, 100:356]
    np.testing.assert_array_equal(lock_color(crop, crop), crop)
    detail = np.random.default_rng(0).normal(0, 8, (256, 256, 1))
    tinted = np.clip(crop * 0.8 + (40, 0, 10) + detail, 0, 255).astype(np.uint8)
    locked = lock_color(crop, tinted).astype(float)

    def tint(pixels):
        return np.array([(pixels[..., c] - luma(pixels)).mean() for c in range(3)])

    assert np.abs(tint(tinted) - tint(crop.astype(float))).max() > 10
    assert np.abs(tint(locked) - tint(crop.astype(float))).max() < 3
    assert np.corrcoef(np.diff(luma(locked)).ravel(), np.diff(luma(tinted)).ravel())[0, 1] > 0.95
