"""How bad a face is, and how much of its restoration is likely to help."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt

from gpen_core.faces.mask import EllipseMask
from gpen_core.photo.color import luma
from gpen_core.types import FaceCondition, FloatArray, Pixels

BAND_SIGMAS_PX = (0.7, 1.4, 2.8, 5.6)
"""Gaussians whose differences cut the crop into four octaves, fine to coarse."""
FACE_WEIGHT = 0.5
NOISE_KERNEL = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], dtype=np.float32)
LOG_OFFSET = 0.1
"""Keeps the logarithm of a level finite for flat crops."""
NUM_COEFFICIENTS = 13


def measure_condition(crop: Pixels, restored: Pixels, template: str) -> FaceCondition:
    """The condition of a (S, S, 3) crop, given what the network made of it.

    Noise after Immerkaer, "Fast noise variance estimation", CVIU 1996.
    """
    region = _face_region(template, crop.shape[0])
    brightness = luma(crop)
    curvature = cv2.filter2D(brightness, -1, NOISE_KERNEL)
    noise = float(np.sqrt(np.pi / 2) / 6 * np.abs(curvature[region]).mean())
    bands: list[float] = []
    finer: npt.NDArray[np.float32] = brightness.astype(np.float32)
    for sigma in BAND_SIGMAS_PX:
        coarser = np.asarray(cv2.GaussianBlur(brightness, (0, 0), sigma), dtype=np.float32)
        bands.append(_rms((finer - coarser)[region]))
        finer = coarser
    change = _rms((restored.astype(np.float32) - crop)[region])
    return FaceCondition(noise=noise, bands=tuple(bands), change=change)


def strength_features(condition: FaceCondition) -> npt.NDArray[np.float64]:
    """(NUM_COEFFICIENTS,) logarithms of noise, bands and change, their squares, and 1."""
    levels = np.log(np.array([condition.noise, *condition.bands, condition.change]) + LOG_OFFSET)
    return np.concatenate((levels, levels**2, [1.0]))


def predict_strength(condition: FaceCondition, coefficients: Sequence[float]) -> float:
    """The blend in [0, 1] that brings a face nearest to the truth, by a model's own calibration.

    The best blend of crop x and restoration r towards truth t is <t - x, r - x> / |r - x|^2. `training.calibrate` fits
    it by least squares over portraits damaged in random ways, where the truth is known.
    """
    return float(np.clip(strength_features(condition) @ np.asarray(coefficients, dtype=np.float64), 0.0, 1.0))


@lru_cache(maxsize=4)
def _face_region(template: str, size: int) -> npt.NDArray[np.bool_]:
    """(size, size) pixels of a crop that belong to the face."""
    return EllipseMask(template, size).weights(np.eye(2, 3), 0, 0, size, size) > FACE_WEIGHT


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))
