"""The photo at the size of the result, before any face is put in."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from gpen_core.errors import PhotoError
from gpen_core.photo.io import MAX_OUTPUT_MEGAPIXELS
from gpen_core.types import Pixels


def make_canvas(pixels: Pixels, scale: int) -> Pixels:
    """(H, W, 3) -> (scale H, scale W, 3), Lanczos-resampled with pixel centres kept; the same array at scale 1.

    Raises:
        PhotoError: the result would be larger than `MAX_OUTPUT_MEGAPIXELS`.
    """
    height, width = pixels.shape[:2]
    megapixels = height * width * scale**2 / 1e6
    if megapixels > MAX_OUTPUT_MEGAPIXELS:
        raise PhotoError(
            f"At scale {scale} the result would have {megapixels:.0f} megapixels; the limit is "
            f"{MAX_OUTPUT_MEGAPIXELS}, so choose a smaller scale."
        )
    if scale == 1:
        return pixels
    return _resize(pixels, scale)


def resize_alpha(alpha: npt.NDArray[np.uint8] | None, scale: int) -> npt.NDArray[np.uint8] | None:
    """Opacity at the size of the result."""
    return alpha if alpha is None or scale == 1 else _resize(alpha, scale)


def _resize(image: npt.NDArray[np.uint8], scale: int) -> npt.NDArray[np.uint8]:
    size = (image.shape[1] * scale, image.shape[0] * scale)
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_LANCZOS4), dtype=np.uint8)
