"""Bring a face to the template and know the way back. Pure geometry on numpy and OpenCV.

All coordinates are (x, y) with the centre of the first pixel at (0, 0).
"""

from __future__ import annotations

import math
from typing import TypeVar

import cv2
import numpy as np
import numpy.typing as npt

from gpen_core.types import Affine, AlignedCrop, DetectedFace, FloatArray, Pixels

Number = TypeVar("Number", np.uint8, np.float32)

TEMPLATE_SIZE_PX = 512
TEMPLATES: dict[str, npt.NDArray[np.float64]] = {
    # GPEN's and ModelScope's pipelines.
    "gpen": np.array(
        [(202.04, 242.88), (309.43, 242.29), (256.08, 303.96), (211.96, 366.83), (300.89, 366.34)],
    ),
    # FFHQ's alignment, as facexlib and the training data of all these networks have it.
    "ffhq": np.array(
        [
            (192.98138, 239.94708),
            (318.90277, 240.1936),
            (256.63416, 314.01935),
            (201.26117, 371.41043),
            (313.08905, 371.15118),
        ],
    ),
    # ArcFace's 112 px template with its shape kept, brought to 512.
    "arcface": (
        np.array([(38.2946, 51.6963), (73.5318, 51.5014), (56.0252, 71.7366), (41.5493, 92.3655), (70.7299, 92.2041)])
        + 0.5
    )
    * (512 / 112)
    - 0.5,
}
"""Left eye, right eye, nose, left and right mouth corner in a crop of `TEMPLATE_SIZE_PX`."""

MAX_MISFIT = 0.3
"""In eye distances. Frontal portraits and group photos stay under 0.16; a full profile or crossed points exceed it."""
MIN_SPREAD = 0.19
"""RMS distance of the points from their middle, in sides of the box: 0.22 to 0.27 in upright portraits."""
ROI_MARGIN_PX = 4
"""Pixels kept around a crop's region, so that interpolation at its rim sees real neighbours."""


def template_points(name: str, size: int) -> npt.NDArray[np.float64]:
    """(5, 2) template in a crop of `size` px; pixel centres scale about the corner, not about the first centre."""
    return (TEMPLATES[name] + 0.5) * (size / TEMPLATE_SIZE_PX) - 0.5


def estimate_similarity(source: FloatArray, target: FloatArray) -> Affine:
    """Rotation, uniform scale and shift that bring (N, 2) `source` to `target` with the least squared error.

    Umeyama, "Least-squares estimation of transformation parameters between two point patterns", PAMI 1991, eq. 40
    to 43. Deterministic, unlike the robust estimators of OpenCV. Never a mirror image.

    Raises:
        ValueError: the source points coincide, or are not finite.
    """
    source_mean, target_mean = source.mean(axis=0), target.mean(axis=0)
    source_centered, target_centered = source - source_mean, target - target_mean
    variance = float(np.mean(np.sum(source_centered**2, axis=1)))
    if not np.isfinite(variance) or variance < 1e-6:
        raise ValueError("the points coincide or are not finite")
    covariance = target_centered.T @ source_centered / len(source)
    u, singular, vt = np.linalg.svd(covariance)
    signs = np.array([1.0, np.sign(np.linalg.det(u) * np.linalg.det(vt)) or 1.0])
    rotation = u @ np.diag(signs) @ vt
    scale = float(singular @ signs) / variance
    linear = scale * rotation
    return np.column_stack((linear, target_mean - linear @ source_mean))


def transform_points(affine: Affine, points: FloatArray) -> npt.NDArray[np.float64]:
    """(N, 2) points through an affine map."""
    moved: npt.NDArray[np.float64] = points @ affine[:, :2].T + affine[:, 2]
    return moved


def invert_affine(affine: Affine) -> Affine:
    """The map the other way."""
    linear = np.linalg.inv(affine[:, :2])
    return np.column_stack((linear, -linear @ affine[:, 2]))


def similarity_scale(affine: Affine) -> float:
    """How many target pixels one source pixel becomes."""
    return math.sqrt(abs(float(np.linalg.det(affine[:, :2]))))


def rescale_source(affine: Affine, factor: float | tuple[float, float]) -> Affine:
    """The map for a source that was resized by `factor` (x, y). The one place that moves pixel centres.

    A pixel centre p becomes (p + 0.5) * factor - 0.5: scaling by s moves centres by 0.5 * (s - 1), not by 0.5 * s.
    """
    factors = np.broadcast_to(np.asarray(factor, dtype=np.float64), (2,))
    linear = affine[:, :2] / factors
    return np.column_stack((linear, affine[:, 2] - affine[:, :2] @ (0.5 - 0.5 / factors)))


def shift_source(affine: Affine, x: float, y: float) -> Affine:
    """The map for a source whose first pixel was pixel (x, y) before."""
    return np.column_stack((affine[:, :2], affine[:, 2] + affine[:, :2] @ np.array([x, y])))


def corner_bounds(inverse_affine: Affine, size: int) -> tuple[int, int, int, int]:
    """(x0, y0, x1, y1) of the pixels that the rim of a `size` px crop reaches; may lie outside the picture."""
    low, high = -0.5, size - 0.5
    corners = transform_points(inverse_affine, np.array([(low, low), (high, low), (high, high), (low, high)]))
    x0, y0 = np.floor(corners.min(axis=0)).astype(int)
    x1, y1 = np.ceil(corners.max(axis=0)).astype(int) + 1
    return int(x0), int(y0), int(x1), int(y1)


def extract_crop(pixels: Pixels, affine: Affine, size: int) -> Pixels:
    """(size, size, 3) crop of a picture through `affine` (picture to crop).

    Where the picture has more pixels than the crop it is first shrunk by area averaging, since OpenCV's warp samples
    single points and would alias. Beyond the rim the picture is mirrored: on faces cut through by the rim the network's
    answer is then nearer to that for the whole face than with black, and seldom farther than with repeated pixels,
    which stand where most of the crop is outside.
    """
    height, width = pixels.shape[:2]
    x0, y0, x1, y1 = corner_bounds(invert_affine(affine), size)
    # At least one real row and column stay, so that a crop wholly outside repeats the nearest rim.
    inside_x0, inside_x1 = _clip_span(x0 - ROI_MARGIN_PX, x1 + ROI_MARGIN_PX, width)
    inside_y0, inside_y1 = _clip_span(y0 - ROI_MARGIN_PX, y1 + ROI_MARGIN_PX, height)
    region = pixels[inside_y0:inside_y1, inside_x0:inside_x1]
    # Where more is missing than there is, mirroring would show the same strip again and again, and takes for ever.
    is_mirrored = (
        max(inside_x0 - x0, x1 - inside_x1) <= inside_x1 - inside_x0
        and max(inside_y0 - y0, y1 - inside_y1) <= inside_y1 - inside_y0
    )
    border = cv2.BORDER_REFLECT_101 if is_mirrored else cv2.BORDER_REPLICATE
    affine = shift_source(affine, inside_x0, inside_y0)
    scale = similarity_scale(affine)
    if scale < 1.0:
        region, factors = shrink(region, scale)
        affine = rescale_source(affine, factors)
    crop = cv2.warpAffine(region, affine, (size, size), flags=cv2.INTER_CUBIC, borderMode=border)
    return np.asarray(crop, dtype=np.uint8)


def shrink(image: npt.NDArray[Number], scale: float) -> tuple[npt.NDArray[Number], tuple[float, float]]:
    """`image` area-averaged by about `scale` (below 1), and the exact factors (x, y) after rounding to whole pixels."""
    height, width = image.shape[:2]
    small_width, small_height = max(1, round(width * scale)), max(1, round(height * scale))
    small = cv2.resize(image, (small_width, small_height), interpolation=cv2.INTER_AREA)
    return np.asarray(small, dtype=image.dtype), (small_width / width, small_height / height)


def _clip_span(start: int, stop: int, length: int) -> tuple[int, int]:
    start = min(max(start, 0), length - 1)
    return start, min(max(stop, start + 1), length)


def align_face(pixels: Pixels, landmarks: FloatArray, template: str, size: int) -> AlignedCrop:
    """The face with these (5, 2) landmarks, brought to a template.

    Raises:
        ValueError: the landmarks coincide or are not finite.
    """
    affine = estimate_similarity(landmarks, template_points(template, size))
    return AlignedCrop(pixels=extract_crop(pixels, affine, size), affine=affine)


def landmark_misfit(landmarks: FloatArray) -> float:
    """How far five landmarks are from a face seen from the front: RMS distance to the template, in eye distances.

    Infinite for landmarks that coincide or are not finite.
    """
    if not np.isfinite(landmarks).all():
        return math.inf
    template = template_points("ffhq", TEMPLATE_SIZE_PX)
    try:
        affine = estimate_similarity(landmarks, template)
    except ValueError:
        return math.inf
    distances = np.linalg.norm(transform_points(affine, landmarks) - template, axis=1)
    eye_distance = float(np.linalg.norm(template[1] - template[0]))
    return float(np.sqrt(np.mean(distances**2))) / eye_distance


def looks_frontal(face: DetectedFace) -> bool:
    """Whether a similarity can bring the face to the template without a bad warp.

    Asks two things: do the five points lie as in a face seen from the front, and do they fill its box as they should.
    Detectors put the points of a face that lies on its side or head together in the middle of a well-placed box.
    """
    if landmark_misfit(face.landmarks) > MAX_MISFIT:
        return False
    distances = np.linalg.norm(face.landmarks - face.landmarks.mean(axis=0), axis=1)
    return float(np.sqrt(np.mean(distances**2))) >= MIN_SPREAD * math.sqrt(face.box.area)
