"""How bad a face is, and how much of its restoration is likely to help."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import cv2
import numpy as np
import numpy.typing as npt

from gpen_core.faces.align import similarity_scale
from gpen_core.faces.mask import EllipseMask
from gpen_core.photo.color import luma
from gpen_core.types import Affine, FaceCondition, Pixels

BAND_SIGMAS_PX = (0.7, 1.4, 2.8, 5.6)
"""Gaussians whose differences cut the crop into four octaves, fine to coarse."""
FACE_WEIGHT = 0.5
NOISE_KERNEL = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], dtype=np.float32)
LOG_OFFSET = 0.1
"""Keeps the logarithm of a level finite for flat crops."""
NUM_MEASURES = 7
NUM_COEFFICIENTS = NUM_MEASURES + NUM_MEASURES * (NUM_MEASURES + 1) // 2 + 1
LARGE_FACE_FACTOR = 1.25
"""A face this much larger in the photo than in the crop is seen reduced by the network."""
SHARP_SHARE = 0.14
SHARP_EVENNESS = 0.48
"""Measured on eight portraits: sharp ones have 0.145 to 0.183 and 0.28 to 0.47; blurred by one pixel 0.055 to 0.107;
with noise of 15 levels an evenness of 0.54 to 0.61."""


def measure_condition(crop: Pixels, restored: Pixels, template: str) -> FaceCondition:
    """The condition of a (S, S, 3) crop, given what the network made of it.

    Noise after Immerkaer, "Fast noise variance estimation", CVIU 1996.
    """
    region = _face_region(template, crop.shape[0])
    num_pixels = cv2.countNonZero(region)
    brightness = luma(crop)
    curvature = cv2.filter2D(brightness, -1, NOISE_KERNEL)
    noise = float(np.sqrt(np.pi / 2) / 6 * cv2.norm(curvature, cv2.NORM_L1, region) / num_pixels)
    smoothed = [brightness, *(cv2.GaussianBlur(brightness, (0, 0), sigma) for sigma in BAND_SIGMAS_PX)]
    root = float(np.sqrt(num_pixels))
    bands = tuple(cv2.norm(fine, coarse, cv2.NORM_L2, region) / root for fine, coarse in pairwise(smoothed))
    finest = cv2.absdiff(smoothed[0], smoothed[1])[region > 0]
    evenness = float(np.median(finest)) / max(bands[0], 1e-6)
    change = cv2.norm(restored, crop, cv2.NORM_L2, region) / (root * np.sqrt(3.0))
    return FaceCondition(noise=noise, bands=bands, change=float(change), evenness=evenness)


def is_already_sharp(condition: FaceCondition, affine: Affine) -> bool:
    """Whether a face is sharper in the photo than the model can make it.

    It has clearly more pixels there than in the crop, and they show real detail: noise is as fine, but lies everywhere.

    Args:
        condition: of its crop.
        affine: photo to crop.
    """
    is_larger = similarity_scale(affine) * LARGE_FACE_FACTOR < 1.0
    return is_larger and condition.sharpness >= SHARP_SHARE and condition.evenness <= SHARP_EVENNESS


def strength_features(condition: FaceCondition) -> npt.NDArray[np.float64]:
    """(NUM_COEFFICIENTS,) logarithms of noise, bands, change and evenness, their products with each other, and 1."""
    measures = np.log(np.array([condition.noise, *condition.bands, condition.change, condition.evenness]) + LOG_OFFSET)
    products = np.outer(measures, measures)[np.triu_indices(NUM_MEASURES)]
    return np.concatenate((measures, products, [1.0]))


def predict_strength(condition: FaceCondition, coefficients: Sequence[float]) -> float:
    """The blend in [0, 1] that brings a face nearest to the truth, by a model's own calibration.

    The best blend of crop x and restoration r towards truth t is <t - x, r - x> / |r - x|^2. `training.calibrate` fits
    it by least squares over portraits damaged in random ways, where the truth is known.
    """
    return float(np.clip(strength_features(condition) @ np.asarray(coefficients, dtype=np.float64), 0.0, 1.0))


@lru_cache(maxsize=4)
def _face_region(template: str, size: int) -> npt.NDArray[np.uint8]:
    """(size, size), 1 where a crop shows the face, else 0."""
    weights = EllipseMask(template, size).weights(np.eye(2, 3), 0, 0, size, size)
    return (weights > FACE_WEIGHT).astype(np.uint8)
