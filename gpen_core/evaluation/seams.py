"""How visible the borders are along which a picture was put together: of tiles, and of pasted faces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from gpen_core.photo.color import luma
from gpen_core.types import FloatArray, Pixels

NEAR_PX = 12
"""A border's own picture: steps this near to it, in the same direction, show what is normal there."""
MIN_STEP_LEVELS = 0.5
"""Added to both steps, so that a perfectly flat picture has a ratio: half a level is invisible."""
HEAT_BLUR_PX = 6.0
"""Of the heat map, which is at its hottest where a border doubles the picture's steps."""


@dataclass(frozen=True, slots=True, eq=False)
class Borders:
    """Where two parts of a picture meet."""

    across: npt.NDArray[np.bool_]
    """(H, W - 1): the step from a pixel to its right neighbour crosses a border."""
    down: npt.NDArray[np.bool_]
    """(H - 1, W): the step from a pixel to the one below crosses a border."""


def borders_of_lines(shape: tuple[int, int], columns: Sequence[int], rows: Sequence[int]) -> Borders:
    """Borders of tiles.

    Args:
        shape: height and width of the picture.
        columns: each x stands for the steps from x - 1 to x.
        rows: each y for the steps from y - 1 to y.
    """
    height, width = shape
    across, down = np.zeros((height, width - 1), dtype=np.bool_), np.zeros((height - 1, width), dtype=np.bool_)
    across[:, [x - 1 for x in columns]] = True
    down[[y - 1 for y in rows]] = True
    return Borders(across, down)


def borders_of_mask(is_inside: npt.NDArray[np.bool_]) -> Borders:
    """The rim of a pasted region, (H, W)."""
    return Borders(is_inside[:, 1:] != is_inside[:, :-1], is_inside[1:] != is_inside[:-1])


def seam_ratio(pixels: Pixels, borders: Borders, before: Pixels | None = None) -> float:
    """Steps across the borders against the picture's own: 1 where they do not show, 2 where they are doubled.

    Steps are of luma, and the picture's own are those beside a border, up to `NEAR_PX` away in the same direction.

    Args:
        pixels: (H, W, 3) RGB.
        borders: where to look; without any the ratio is 1.
        before: the picture without what the borders belong to. A border may happen to lie on an edge of the picture, or
            in the sky; with this, only what was changed makes a seam.
    """
    on, beside, own = (_mean_steps(pixels, borders, before)[key] for key in ("on", "beside", "own"))
    return 1.0 + (on - beside) / (own + MIN_STEP_LEVELS)


def worst_seam_ratio(pixels: Pixels, columns: Sequence[int], rows: Sequence[int], before: Pixels | None) -> float:
    """The largest ratio of any one line through the picture."""
    shape = pixels.shape[0], pixels.shape[1]
    lines = [borders_of_lines(shape, [x], []) for x in columns] + [borders_of_lines(shape, [], [y]) for y in rows]
    return max((seam_ratio(pixels, borders, before) for borders in lines), default=1.0)


def _mean_steps(pixels: Pixels, borders: Borders, before: Pixels | None) -> dict[str, float]:
    """Mean steps in levels: of the change on and beside the borders, and of the picture itself beside them."""
    sums = dict.fromkeys(("on", "beside", "own"), 0.0)
    num_on = num_beside = 0
    changes = _steps(pixels, before)
    for change, own, (is_border, is_beside) in zip(changes, _steps(pixels, None), _places(borders), strict=True):
        sums["on"] += float(change[is_border].sum())
        sums["beside"] += float(change[is_beside].sum())
        sums["own"] += float(own[is_beside].sum())
        num_on, num_beside = num_on + int(is_border.sum()), num_beside + int(is_beside.sum())
    if not num_on or not num_beside:
        return dict.fromkeys(sums, 0.0)
    return {"on": sums["on"] / num_on, "beside": sums["beside"] / num_beside, "own": sums["own"] / num_beside}


def seam_heat_map(pixels: Pixels, borders: Borders, before: Pixels | None = None) -> Pixels:
    """The picture in gray, and over its borders how far they show: blue not at all, red much.

    Arguments as for `seam_ratio`.
    """
    height, width = pixels.shape[:2]
    heat, seen = np.zeros((height, width), dtype=np.float32), np.zeros((height, width), dtype=np.float32)
    changes = _steps(pixels, before)
    for change, own, (is_border, is_beside) in zip(changes, _steps(pixels, None), _places(borders), strict=True):
        excess = _local_mean(change, is_border) - _local_mean(change, is_beside)
        ratio = excess / (_local_mean(own, is_beside) + MIN_STEP_LEVELS)
        weight = _blur(is_border.astype(np.float32))
        heat[: weight.shape[0], : weight.shape[1]] += ratio * weight
        seen[: weight.shape[0], : weight.shape[1]] += weight
    level = np.clip(heat / np.maximum(seen, 1e-6), 0, 1)
    colored = cv2.applyColorMap((level * 255).astype(np.uint8), cv2.COLORMAP_JET)[..., ::-1]
    gray = np.repeat(luma(pixels)[..., None], 3, axis=2)
    share = np.clip(2 * seen / max(float(seen.max()), 1e-6), 0, 1)[..., None]
    return np.asarray(np.rint(gray * (1 - share) + colored * share), dtype=np.uint8)


def _steps(pixels: Pixels, before: Pixels | None) -> tuple[FloatArray, FloatArray]:
    """Size of the steps to the right (H, W - 1) and down (H - 1, W); with `before`, of what was changed."""
    levels = luma(pixels) if before is None else luma(pixels) - luma(before)
    return np.abs(np.diff(levels, axis=1)), np.abs(np.diff(levels, axis=0))


def _places(borders: Borders) -> list[tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]]:
    """For steps to the right and down: which cross a border, and which are beside one."""
    size = 2 * NEAR_PX + 1
    return [
        (is_border, cv2.dilate(is_border.astype(np.uint8), np.ones(shape, np.uint8)).astype(np.bool_) & ~is_border)
        for is_border, shape in ((borders.across, (1, size)), (borders.down, (size, 1)))
    ]


def _local_mean(image: FloatArray, where: npt.NDArray[np.bool_]) -> FloatArray:
    return _blur(image * where) / np.maximum(_blur(where.astype(np.float32)), 1e-3)


def _blur(image: FloatArray) -> FloatArray:
    return np.asarray(cv2.GaussianBlur(image.astype(np.float32), (0, 0), HEAT_BLUR_PX))
