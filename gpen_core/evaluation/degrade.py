"""Make good portraits bad in four named, repeatable ways: blur, shrink, noise, JPEG, enlarge."""

from __future__ import annotations

import io
from dataclasses import dataclass

import cv2
import numpy as np
from PIL import Image

from gpen_core.photo.color import luma, to_levels
from gpen_core.types import Pixels


@dataclass(frozen=True, kw_only=True, slots=True)
class DegradationLevel:
    """How bad a picture becomes. Pixels are those of the picture given."""

    blur_px: float
    """Standard deviation of the Gaussian blur."""
    down: float
    """Width and height are divided by this before noise and JPEG."""
    noise: float
    """Standard deviation of the noise of each channel, in levels of 255."""
    jpeg_quality: int
    is_aged: bool = False
    """Sepia and faded like an old print. The truth is so too: giving it new colours is not the task."""


LEVELS = {
    "light": DegradationLevel(blur_px=0.6, down=1.5, noise=4.0, jpeg_quality=85),
    "medium": DegradationLevel(blur_px=1.2, down=2.5, noise=8.0, jpeg_quality=65),
    "heavy": DegradationLevel(blur_px=2.0, down=4.0, noise=12.0, jpeg_quality=45),
    "old": DegradationLevel(blur_px=1.5, down=3.0, noise=10.0, jpeg_quality=60, is_aged=True),
}
# RGB that black and white become on an old print: contrast has faded to 70 %, the paper has yellowed.
AGED_BLACK = np.array([58, 44, 34], dtype=np.float32)
AGED_WHITE = np.array([238, 220, 188], dtype=np.float32)


def truth_for(pixels: Pixels, level: DegradationLevel) -> Pixels:
    """What a perfect restoration of `degrade(pixels, level, seed)` gives: (H, W, 3) uint8 RGB."""
    if not level.is_aged:
        return pixels
    brightness = luma(pixels)[..., None] / 255.0
    return to_levels(AGED_BLACK + brightness * (AGED_WHITE - AGED_BLACK))


def degrade(pixels: Pixels, level: DegradationLevel, seed: int) -> Pixels:
    """The picture as a bad camera, a small file or an old print keeps it.

    Args:
        pixels: (H, W, 3) uint8 RGB.
        level: one of `LEVELS`, or another.
        seed: of the noise; the same arguments give the same pixels.

    Returns:
        (H, W, 3) uint8 RGB.
    """
    height, width = pixels.shape[:2]
    image = truth_for(pixels, level).astype(np.float32)
    blurred = cv2.GaussianBlur(image, (0, 0), sigmaX=level.blur_px)
    small_size = (max(1, round(width / level.down)), max(1, round(height / level.down)))
    small = np.asarray(cv2.resize(blurred, small_size, interpolation=cv2.INTER_AREA), dtype=np.float32)
    noise = np.random.default_rng(seed).normal(0.0, level.noise, small.shape)
    stored = _through_jpeg(to_levels(small + noise), level.jpeg_quality)
    return np.asarray(cv2.resize(stored, (width, height), interpolation=cv2.INTER_CUBIC), dtype=np.uint8)


def _through_jpeg(pixels: Pixels, quality: int) -> Pixels:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="JPEG", quality=quality)
    return np.asarray(Image.open(file), dtype=np.uint8)
