from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from gpen_core.photo.color import GRAY, detect_tone, luma


def sepia(astronaut: np.ndarray) -> np.ndarray:
    gray = np.asarray(Image.fromarray(astronaut).convert("L"))
    return np.clip(gray[..., None] * np.array([1.0, 0.86, 0.67]), 0, 255).astype(np.uint8)


def test_gray_sepia_and_colour_are_told_apart(astronaut):
    gray = np.repeat(luma(astronaut).astype(np.uint8)[..., None], 3, axis=2)
    assert detect_tone(gray) is GRAY
    assert detect_tone(sepia(astronaut)) not in (None, GRAY)
    assert detect_tone(astronaut) is None


def test_one_coloured_pixel_makes_a_photo_not_gray():
    gray = np.full((64, 64, 3), 90, np.uint8)
    gray[5, 7, 0] = 91
    assert detect_tone(gray) is not GRAY


@pytest.mark.parametrize("make", [sepia, lambda a: np.repeat(luma(a).astype(np.uint8)[..., None], 3, axis=2)])
def test_recoloured_crops_have_the_photos_tone(astronaut, make):
    photo = make(astronaut)
    tone = detect_tone(photo)
    crop = photo[40:200, 140:300]
    tinted = np.clip(crop.astype(int) + np.array([40, 10, 0]), 0, 255).astype(np.uint8)
    recolored = tone.recolor(crop, tinted)
    np.testing.assert_allclose(recolored, tone.apply(luma(recolored)), atol=4)
    assert luma(recolored).mean() > luma(crop).mean() + 8
    np.testing.assert_array_equal(tone.recolor(crop, crop), crop)


def test_a_print_in_two_colours_has_a_tone():
    pixels = np.empty((40, 60, 3), np.uint8)
    pixels[:, :30], pixels[:, 30:] = (200, 180, 140), (40, 30, 20)
    tone = detect_tone(pixels)
    assert tone is not None
    np.testing.assert_allclose(tone.apply(luma(pixels)), pixels, atol=0.5)
