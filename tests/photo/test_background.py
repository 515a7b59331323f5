from __future__ import annotations

import cv2
import numpy as np
import pytest

from gpen_core.errors import PhotoError
from gpen_core.photo.background import make_canvas, resize_alpha


@pytest.mark.parametrize("scale", [1, 2, 4])
@pytest.mark.parametrize("size", [(1, 1), (101, 101), (333, 517), (3, 200)])
def test_the_canvas_is_exactly_scale_times_the_photo(scale, size):
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    assert make_canvas(pixels, scale).shape == (size[0] * scale, size[1] * scale, 3)
    assert resize_alpha(pixels[..., 0], scale).shape == (size[0] * scale, size[1] * scale)


def test_scale_one_is_the_same_array(astronaut):
    assert make_canvas(astronaut, 1) is astronaut
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
