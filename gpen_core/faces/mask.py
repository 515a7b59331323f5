"""How much of a restored face counts at each pixel."""

from __future__ import annotations

from typing import Protocol

import cv2
import numpy as np
import numpy.typing as npt

from gpen_core.faces.align import (
    corner_bounds,
    invert_affine,
    rescale_source,
    shift_source,
    similarity_scale,
    template_points,
    transform_points,
)
from gpen_core.photo.inpaint_mask import InpaintMask
from gpen_core.types import Affine

# The ellipse in eye distances from the point between the eyes, measured on FFHQ-aligned portraits: from above the
# hairline to under the chin, ear to ear. In an FFHQ crop it stays 14 px (of 512) clear of the rim, in a GPEN crop 46.
CENTER_DOWN = 0.25
RADIUS_ACROSS = 1.70
RADIUS_DOWN = 1.79
FEATHER = 0.36
MIN_FEATHER_PX = 18.0
"""In result pixels, however small the face: a restored tone 5 levels off then changes by under one level over 3 px."""
EASE = 0.15
"""Share of the ramp that is rounded off at each end, so that no kink shows."""
HOLE_FEATHER = 1 / 128
"""How far outside a marked part new and old pixels are mixed, as a share of the crop's side."""
HOLE_RIM = 1 / 32
"""Share of the side over which a filled part fades out at the crop's rim."""
PARSED_BLUR = 15.6 / 512
"""Standard deviation of an outline's blur, as a share of the crop's side: facexlib's two passes of 11 px in one."""
PARSED_RIM = 2.5 * PARSED_BLUR
"""Share of the side that an outline loses at each rim before the blur, which then has faded where the crop ends."""


class FaceMask(Protocol):
    """Weights of a restored crop."""

    def bounds(self, affine: Affine) -> tuple[int, int, int, int]:
        """(x0, y0, x1, y1) of the canvas outside which all weights are zero; may reach beyond the canvas.

        Args:
            affine: canvas to crop.
        """
        ...

    def weights(self, affine: Affine, x0: int, y0: int, x1: int, y1: int) -> npt.NDArray[np.float32]:
        """(y1 - y0, x1 - x0) weights in [0, 1] for a rectangle of the canvas; zero outside the crop.

        Args:
            affine: canvas to crop.
            x0, y0, x1, y1: the rectangle in canvas pixels, (x1, y1) just outside.
        """
        ...


class EllipseMask:
    """A soft ellipse over the face. The feather grows with the face and lies inside the crop."""

    def __init__(self, template: str, size: int) -> None:
        left_eye, right_eye, _, left_mouth, right_mouth = template_points(template, size)
        eye_center = (left_eye + right_eye) / 2
        down = (left_mouth + right_mouth) / 2 - eye_center
        self._center = eye_center + CENTER_DOWN * down
        self._eye_distance_px = float(np.linalg.norm(right_eye - left_eye))
        self._radii = np.array([RADIUS_ACROSS, RADIUS_DOWN]) * self._eye_distance_px

    def bounds(self, affine: Affine) -> tuple[int, int, int, int]:
        inverse = invert_affine(affine)
        center = transform_points(inverse, self._center[None])[0]
        # The circle of radius 1, stretched to the ellipse and brought to the canvas, reaches this far along each axis.
        reach = np.hypot(*(inverse[:, :2] * self._radii).T)
        x0, y0 = np.floor(center - reach).astype(int)
        x1, y1 = np.ceil(center + reach).astype(int) + 1
        return int(x0), int(y0), int(x1), int(y1)

    def weights(self, affine: Affine, x0: int, y0: int, x1: int, y1: int) -> npt.NDArray[np.float32]:
        x = np.arange(x0, x1, dtype=np.float32)[None, :]
        y = np.arange(y0, y1, dtype=np.float32)[:, None]
        matrix = affine.astype(np.float32)
        across = (matrix[0, 0] * x + matrix[0, 1] * y + (matrix[0, 2] - np.float32(self._center[0]))) / self._radii[0]
        down = (matrix[1, 0] * x + matrix[1, 1] * y + (matrix[1, 2] - np.float32(self._center[1]))) / self._radii[1]
        scale = similarity_scale(affine)
        feather_px = max(FEATHER * self._eye_distance_px / scale, MIN_FEATHER_PX)
        # Its gradient is nowhere above one px per px: 1 - r falls by at most 1 / (smallest radius) per crop pixel.
        depth_px = (1.0 - np.hypot(across, down)) * (float(self._radii.min()) / scale)
        return eased_ramp(depth_px.astype(np.float32) / np.float32(feather_px))


class HoleMask:
    """What an inpainting mask marks of a crop; it fades out at the crop's rim."""

    def __init__(self, mask: InpaintMask, size: int) -> None:
        """The mask of one crop.

        Args:
            mask: of the canvas.
            size: side of the crop in px.
        """
        self._mask = mask
        self._size = size

    def bounds(self, affine: Affine) -> tuple[int, int, int, int]:
        return corner_bounds(invert_affine(affine), self._size)

    def weights(self, affine: Affine, x0: int, y0: int, x1: int, y1: int) -> npt.NDArray[np.float32]:
        marked = self._mask.weights(x0, y0, x1, y1, HOLE_FEATHER * self._size / similarity_scale(affine))
        x = np.arange(x0, x1, dtype=np.float32)[None, :]
        y = np.arange(y0, y1, dtype=np.float32)[:, None]
        matrix = affine.astype(np.float32)
        across = matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2]
        down = matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2]
        last = np.float32(self._size - 1)
        depth_px = np.minimum(np.minimum(across, last - across), np.minimum(down, last - down))
        return np.minimum(marked, eased_ramp(depth_px / np.float32(HOLE_RIM * self._size)))


class ParsedMask:
    """A soft mask, and nothing beyond the outline of face and hair that a parser drew."""

    def __init__(self, soft: FaceMask, outline: npt.NDArray[np.bool_], size: int) -> None:
        """The mask of one crop.

        Args:
            soft: what the outline can only take away from.
            outline: (P, P), where the crop shows face or hair, seen at P px.
            size: side of the crop in px.
        """
        self._soft = soft
        self._size = size
        side = len(outline)
        rim = max(1, round(PARSED_RIM * side))
        # Cut before the blur, so that the cut is soft too.
        self._outline = np.zeros(outline.shape, dtype=np.float32)
        self._outline[rim:-rim, rim:-rim] = outline[rim:-rim, rim:-rim]

    def bounds(self, affine: Affine) -> tuple[int, int, int, int]:
        return self._soft.bounds(affine)

    def weights(self, affine: Affine, x0: int, y0: int, x1: int, y1: int) -> npt.NDArray[np.float32]:
        side = len(self._outline)
        to_outline = invert_affine(rescale_source(invert_affine(affine), side / self._size))
        # A blurred edge rises by at most 1 / (sqrt(2 pi) sigma) a pixel; the soft mask's by 1 / ((1 - EASE) feather).
        min_blur_px = (1.0 - EASE) * MIN_FEATHER_PX / np.sqrt(2 * np.pi) * similarity_scale(to_outline)
        sigma = max(PARSED_BLUR * side, float(min_blur_px))
        blurred = cv2.GaussianBlur(self._outline, (0, 0), sigma, borderType=cv2.BORDER_CONSTANT)
        warped = cv2.warpAffine(
            blurred, shift_source(to_outline, x0, y0), (x1 - x0, y1 - y0), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        )
        # Weights too small to change a level would only make more pixels count as touched.
        parsed = np.where(warped < 1 / 512, 0.0, warped)
        return np.minimum(self._soft.weights(affine, x0, y0, x1, y1), parsed).astype(np.float32)


def eased_ramp(t: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """0 below 0, 1 above 1, straight between but for a parabola over `EASE` at each end.

    The steepest slope is 1 / (1 - EASE).
    """
    t = np.clip(t, 0.0, 1.0)
    low = np.minimum(t, EASE)
    high = np.minimum(1.0 - t, EASE)
    rounding = (EASE - low) ** 2 - (EASE - high) ** 2
    ramp: npt.NDArray[np.float32] = (t - EASE / 2 + rounding / (2 * EASE)) / np.float32(1.0 - EASE)
    return np.clip(ramp, 0.0, 1.0).astype(np.float32)
