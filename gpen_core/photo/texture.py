"""Make a restored face sit in its photo: the grain around it, and the colours it had."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from gpen_core.photo.color import LUMA_WEIGHTS, to_levels
from gpen_core.types import Pixels

FloatImage = npt.NDArray[np.float32]
OCTAVE_SIGMAS_PX = (0.0, 0.7, 1.4)
"""Gaussians between which the two finest octaves lie: film grain and sensor noise are there."""
MIN_SAMPLES = 256
"""Fewer pixels tell nothing of the grain."""
SMOOTH_SHARE = 0.5
"""Share of the pixels, the smoothest, that grain is measured on: edges and hair are none."""
NORMAL_MAD = 0.6745
"""Median of the absolute value of a normal variable with standard deviation 1."""
COLOR_LOCK_SIGMA = 1 / 16
"""Standard deviation of what counts as low frequency, as a share of a crop's side."""


@dataclass(frozen=True, slots=True)
class Grain:
    """Standard deviations in levels, in the two finest octaves, fine to coarse."""

    luma: tuple[float, float]
    chroma: tuple[float, float]
    """Of red minus luma and blue minus luma, together."""

    def missing(self, present: Grain) -> Grain:
        """What must be added to `present` to reach this."""
        return Grain(_missing(self.luma, present.luma), _missing(self.chroma, present.chroma))


def _missing(wanted: tuple[float, float], present: tuple[float, float]) -> tuple[float, float]:
    fine, coarse = (float(np.sqrt(max(0.0, w**2 - p**2))) for w, p in zip(wanted, present, strict=True))
    return fine, coarse


def measure_grain(pixels: FloatImage, where: npt.NDArray[np.bool_]) -> Grain | None:
    """The grain of a picture's smooth parts; None where too few pixels show any.

    Robust standard deviation (Donoho's median rule) over the smoothest half, by the gradient of the blurred picture.

    Args:
        pixels: (h, w, 3) levels.
        where: (h, w), what is measured.
    """
    if int(where.sum()) < MIN_SAMPLES:
        return None
    luma = pixels @ LUMA_WEIGHTS
    smooth = cv2.GaussianBlur(luma, (0, 0), 2.0)
    gradient = np.hypot(cv2.Sobel(smooth, cv2.CV_32F, 1, 0), cv2.Sobel(smooth, cv2.CV_32F, 0, 1))
    # Burnt-out and black pixels have lost their grain and say nothing of it.
    is_usable = where & (luma > 4) & (luma < 251)
    if int(is_usable.sum()) < MIN_SAMPLES:
        return None
    is_usable &= gradient <= np.quantile(gradient[is_usable], SMOOTH_SHARE)
    chroma = np.stack((pixels[..., 0] - luma, pixels[..., 2] - luma), axis=-1)
    return Grain(_deviations(luma, is_usable), _deviations(chroma, is_usable))


def _deviations(image: FloatImage, where: npt.NDArray[np.bool_]) -> tuple[float, float]:
    fine, coarse = (float(np.median(np.abs(octave[where]))) / NORMAL_MAD for octave in _octaves(image))
    return fine, coarse


def _octaves(image: FloatImage) -> tuple[FloatImage, FloatImage]:
    blurred = [image if sigma == 0 else cv2.GaussianBlur(image, (0, 0), sigma) for sigma in OCTAVE_SIGMAS_PX]
    return blurred[0] - blurred[1], blurred[1] - blurred[2]


def make_grain(grain: Grain, shape: tuple[int, int], seed: int, *, is_toned: bool) -> FloatImage:
    """(h, w, 3) levels with zero mean and this grain, the same for the same seed.

    Chroma leaves the luma as it is. With `is_toned` all channels get the same, so that a gray photo stays gray.
    """
    rng = np.random.default_rng(seed)
    luma = _noise(rng, (*shape, 1), grain.luma)[..., None]
    if is_toned or max(grain.chroma) == 0:
        return np.repeat(luma, 3, axis=2)
    red, blue = (_noise(rng, (*shape, 1), grain.chroma) for _ in range(2))
    green = -(LUMA_WEIGHTS[0] * red + LUMA_WEIGHTS[2] * blue) / LUMA_WEIGHTS[1]
    return np.asarray(luma + np.stack((red, green, blue), axis=-1), dtype=np.float32)


def _noise(rng: np.random.Generator, shape: tuple[int, ...], deviations: tuple[float, float]) -> FloatImage:
    """Noise whose octaves have these standard deviations: white noise for the finest, and blurred for the next."""
    sources = [rng.standard_normal(shape[:2], dtype=np.float32) for _ in deviations]
    sources[1] = np.asarray(cv2.GaussianBlur(sources[1], (0, 0), OCTAVE_SIGMAS_PX[1]), dtype=np.float32)
    gains = np.array([[max(float(octave.std()), 1e-6) for octave in _octaves(source)] for source in sources])
    # Both sources reach into both octaves: powers add up, so the two amounts follow from a 2 x 2 system.
    powers = np.linalg.solve((gains**2).T, np.square(deviations))
    fine, coarse = np.sqrt(np.maximum(powers, 0.0))
    return np.asarray(fine * sources[0] + coarse * sources[1], dtype=np.float32)


def lock_color(crop: Pixels, restored: Pixels) -> Pixels:
    """`restored` with the large-scale colour of `crop`: a and b of CIE Lab, below the lock's frequency.

    A crop that was not changed stays as it is, to the level.
    """
    before, after = (cv2.cvtColor(image.astype(np.float32) / 255.0, cv2.COLOR_RGB2LAB) for image in (crop, restored))
    shift = cv2.GaussianBlur(before - after, (0, 0), COLOR_LOCK_SIGMA * len(crop))
    shift[..., 0] = 0.0
    moved = cv2.cvtColor(after + shift, cv2.COLOR_LAB2RGB) - cv2.cvtColor(after, cv2.COLOR_LAB2RGB)
    return to_levels(restored + 255.0 * moved)
