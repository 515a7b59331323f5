"""Put restored faces into the canvas.

What is added is not the restored crop but its difference from the canvas seen through the same alignment. So a crop
the network leaves unchanged changes nothing, whatever the resampling between; a face larger than the crop keeps the
fine detail that the crop could not hold; and strength is one factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
import numpy.typing as npt

from gpen_core.faces.align import (
    extract_crop,
    invert_affine,
    rescale_source,
    shrink,
    similarity_scale,
)
from gpen_core.faces.mask import FaceMask
from gpen_core.photo.texture import make_grain, measure_grain
from gpen_core.types import Affine, Pixels

GRAIN_WEIGHT = 0.9
"""A face's own grain is measured where it counts at least this much."""


@dataclass(frozen=True, slots=True, eq=False)
class Patch:
    """One face's change to a rectangle of the canvas."""

    x0: int
    y0: int
    weights: npt.NDArray[np.float32]
    """(h, w) in [0, 1]."""
    change: npt.NDArray[np.float32]
    """(h, w, 3) levels to add at full strength, already multiplied by the weights; never leads out of [0, 255]."""

    @property
    def x1(self) -> int:
        return self.x0 + len(self.weights[0])

    @property
    def y1(self) -> int:
        return self.y0 + len(self.weights)


def make_patch(
    canvas: Pixels,
    restored: Pixels,
    affine: Affine,
    mask: FaceMask,
    *,
    crop: Pixels | None = None,
    is_replacing: bool = False,
) -> Patch | None:
    """The change that a restored crop makes; None where its mask lies wholly outside the canvas.

    Args:
        canvas: (H, W, 3).
        restored: (S, S, 3).
        affine: canvas to crop.
        mask: weights of the crop.
        crop: (S, S, 3), the canvas seen through `affine`, where that is at hand.
        is_replacing: nothing of the canvas stays where the mask is 1, not even detail finer than the crop's.
    """
    height, width = canvas.shape[:2]
    x0, y0, x1, y1 = mask.bounds(affine)
    x0, y0, x1, y1 = max(x0, 0), max(y0, 0), min(x1, width), min(y1, height)
    if x0 >= x1 or y0 >= y1:
        return None
    weights = mask.weights(affine, x0, y0, x1, y1)
    before = canvas[y0:y1, x0:x1].astype(np.float32)
    if is_replacing:
        change = _warp_back(restored.astype(np.float32), affine, x0, y0, x1, y1) - before
    else:
        if crop is None:
            crop = extract_crop(canvas, affine, restored.shape[0])
        change = _warp_back(restored.astype(np.float32) - crop, affine, x0, y0, x1, y1)
    # Clipped here and not after the blend, so that half the strength is half of what full strength shows.
    np.clip(change, -before, 255 - before, out=change)
    change *= weights[:, :, None]
    return Patch(x0, y0, weights, change)


def add_grain(patch: Patch, base: Pixels, seed: int, *, is_toned: bool) -> Patch:
    """The patch with the grain that is around it, measured in `base`, which it changes.

    Args:
        patch: of one face.
        base: (H, W, 3), what the patch is added to.
        seed: the same seed gives the same grain.
        is_toned: the photo has one tone, so the grain has no colour.
    """
    height, width = base.shape[:2]
    margin_x, margin_y = (patch.x1 - patch.x0) // 4, (patch.y1 - patch.y0) // 4
    x0, y0 = max(patch.x0 - margin_x, 0), max(patch.y0 - margin_y, 0)
    x1, y1 = min(patch.x1 + margin_x, width), min(patch.y1 + margin_y, height)
    is_around = np.ones((y1 - y0, x1 - x0), dtype=np.bool_)
    is_around[patch.y0 - y0 : patch.y1 - y0, patch.x0 - x0 : patch.x1 - x0] = patch.weights == 0
    before = base[patch.y0 : patch.y1, patch.x0 : patch.x1].astype(np.float32)
    around = measure_grain(base[y0:y1, x0:x1].astype(np.float32), is_around)
    inside = measure_grain(before + patch.change, patch.weights > GRAIN_WEIGHT)
    if around is None or inside is None:
        return patch
    grain = make_grain(around.missing(inside), patch.weights.shape, seed, is_toned=is_toned)
    change = np.clip(patch.change + grain * patch.weights[:, :, None], -before, 255 - before)
    return replace(patch, change=change)


def _warp_back(
    difference: npt.NDArray[np.float32], affine: Affine, x0: int, y0: int, x1: int, y1: int
) -> npt.NDArray[np.float32]:
    """(S, S, 3) in the crop -> (y1 - y0, x1 - x0, 3) in the canvas, area-averaged where the canvas is coarser."""
    scale = similarity_scale(affine)
    # As the map is used here it runs from canvas to crop, so the crop is the target and its inverse has it as source.
    inverse = invert_affine(affine)
    if scale > 1.0:
        small, factors = shrink(difference, 1.0 / scale)
        difference = small.astype(np.float32)
        inverse = rescale_source(inverse, factors)
    inverse = np.column_stack((inverse[:, :2], inverse[:, 2] - np.array([x0, y0])))
    warped = cv2.warpAffine(
        difference, inverse, (x1 - x0, y1 - y0), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(warped, dtype=np.float32)


def blend_patches(canvas: Pixels, patches: Sequence[Patch], strengths: Sequence[float]) -> Pixels:
    """The canvas with all patches in it, each at its own strength in [0, 1].

    Where faces overlap their changes are averaged by weight, so the order of the patches does not matter. Pixels that
    no patch weighs keep every bit, and strength 0 leaves them all as they are.
    """
    blended: Pixels = canvas.copy()
    for patch in patches:
        total_weights = np.zeros_like(patch.weights)
        total_change = np.zeros_like(patch.change)
        # Every overlap is summed in the same order for each face in it, so that both write the same pixels.
        for other, strength in zip(patches, strengths, strict=True):
            x0, y0 = max(patch.x0, other.x0), max(patch.y0, other.y0)
            x1, y1 = min(patch.x1, other.x1), min(patch.y1, other.y1)
            if x0 >= x1 or y0 >= y1:
                continue
            mine = np.s_[y0 - patch.y0 : y1 - patch.y0, x0 - patch.x0 : x1 - patch.x0]
            theirs = np.s_[y0 - other.y0 : y1 - other.y0, x0 - other.x0 : x1 - other.x0]
            total_weights[mine] += other.weights[theirs]
            total_change[mine] += np.float32(strength) * other.change[theirs]
        region = np.s_[patch.y0 : patch.y1, patch.x0 : patch.x1]
        total_change /= np.maximum(total_weights, 1.0)[:, :, None]
        total_change += canvas[region]
        # A mean of changes that each stay in range does so too, but for rounding.
        np.clip(np.rint(total_change, out=total_change), 0, 255, out=total_change)
        blended[region] = total_change
    return blended
