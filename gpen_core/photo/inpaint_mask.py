"""Which part of a photo is to be painted anew: a picture of the photo's size in which that part is white."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from gpen_core.errors import PhotoError
from gpen_core.photo.color import luma
from gpen_core.photo.io import PhotoSource, read_photo
from gpen_core.types import Photo, Pixels

WHITE_FROM = 128
"""Luma times opacity from which a pixel of the mask is white."""
MIN_FEATHER_PX = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class InpaintMask:
    """The marked part of a picture."""

    levels: Pixels
    """(H, W, 3), 255 where it is marked, else 0: a picture, so that it can be cropped as the photo is."""

    @property
    def is_marked(self) -> npt.NDArray[np.bool_]:
        """(H, W)."""
        return np.asarray(self.levels[..., 0] > 0)

    def resized(self, width: int, height: int) -> InpaintMask:
        """For the picture at another size; whatever is touched stays marked."""
        if self.levels.shape[:2] == (height, width):
            return self
        levels = cv2.resize(self.levels, (width, height), interpolation=cv2.INTER_LINEAR)
        return InpaintMask(np.where(np.asarray(levels) > 0, np.uint8(255), np.uint8(0)))

    def weights(self, x0: int, y0: int, x1: int, y1: int, feather_px: float) -> npt.NDArray[np.float32]:
        """(y1 - y0, x1 - x0) weights of new pixels in a rectangle: 1 where marked, falling to 0 over the feather.

        Args:
            x0, y0, x1, y1: the rectangle, (x1, y1) just outside.
            feather_px: how far outside the marked part new and old are mixed; 2 at least.
        """
        feather_px = max(feather_px, MIN_FEATHER_PX)
        margin = int(np.ceil(feather_px)) + 1
        height, width = self.levels.shape[:2]
        left, top = max(x0 - margin, 0), max(y0 - margin, 0)
        around = self.levels[top : min(y1 + margin, height), left : min(x1 + margin, width), 0]
        if not around.any():
            return np.zeros((y1 - y0, x1 - x0), dtype=np.float32)
        distance = cv2.distanceTransform((around == 0).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
        inside = np.asarray(distance)[y0 - top : y1 - top, x0 - left : x1 - left]
        weights: npt.NDArray[np.float32] = np.clip(1.0 - inside / (feather_px + 1.0), 0.0, 1.0).astype(np.float32)
        return weights


def read_inpaint_mask(source: PhotoSource, photo: Photo) -> InpaintMask:
    """The mask in `source`, for a photo.

    Args:
        source: what `read_photo` reads: white or light is marked, black and transparent is not.
        photo: what is to be painted anew.

    Raises:
        PhotoError: it cannot be read, is of another size, or marks nothing.
    """
    mask = read_photo(source)
    if (mask.width, mask.height) != (photo.width, photo.height):
        raise PhotoError(
            f"The mask is {mask.width} x {mask.height} px and the photo {photo.width} x {photo.height} px; "
            "paint it in a copy of the photo, so that both have one size."
        )
    opacity = 1.0 if mask.alpha is None else mask.alpha.astype(np.float32) / 255.0
    is_marked = luma(mask.pixels) * opacity >= WHITE_FROM
    if not is_marked.any():
        raise PhotoError("The mask marks nothing; paint white in it what is to be filled, and the rest black.")
    return InpaintMask(np.repeat((is_marked * np.uint8(255))[..., None], 3, axis=2))
