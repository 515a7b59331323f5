"""A light copy of a photo to look at; the full one stays for the download."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from gpen_core.photo.write import write_photo
from gpen_core.types import Photo

PREVIEW_LONG_SIDE_PX = 2048


def write_preview(photo: Photo, path: str | Path, *, long_side_px: int = PREVIEW_LONG_SIDE_PX) -> None:
    """Write `photo` to `path`, reduced so that no side is longer than `long_side_px`, and without its EXIF.

    Two photos of one size give two previews of one size. What is written, and what may be raised, is as in
    `gpen_core.photo.write.write_photo`: in a JPEG, transparent parts lie on white.
    """
    write_photo(
        Photo(
            pixels=_reduce(photo.pixels, long_side_px),
            alpha=None if photo.alpha is None else _reduce(photo.alpha, long_side_px),
        ),
        path,
    )


def _reduce(pixels: npt.NDArray[np.uint8], long_side_px: int) -> npt.NDArray[np.uint8]:
    height, width = pixels.shape[:2]
    scale = long_side_px / max(height, width)
    if scale >= 1.0:
        return pixels
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
