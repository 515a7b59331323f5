"""A light copy of a photo to look at; the full one stays for the download."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from gpen_core.photo.write import write_photo
from gpen_core.types import Box, Photo, Pixels

PREVIEW_LONG_SIDE_PX = 2048
OUTLINE = (255, 255, 255)
SHOWN, OTHER = (29, 78, 216), (90, 90, 90)
"""Colours of boxes and their labels."""


class Marked(NamedTuple):
    """A face to be pointed at."""

    label: str
    box: Box
    """In pixels of the picture that is reduced."""
    is_shown: bool
    """Blue, else gray."""


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


def write_marked_preview(photo: Photo, marks: Sequence[Marked], path: str | Path) -> None:
    """The same with a box and a label for each mark."""
    pixels = np.ascontiguousarray(_reduce(photo.pixels, PREVIEW_LONG_SIDE_PX))
    if pixels is photo.pixels:
        pixels = pixels.copy()
    for mark in marks:
        _draw(pixels, mark, pixels.shape[1] / photo.width)
    write_photo(Photo(pixels=pixels), path)


def _draw(pixels: Pixels, mark: Marked, scale: float) -> None:
    color = SHOWN if mark.is_shown else OTHER
    line_px = max(2, round(max(pixels.shape) / 500))
    x0, y0, x1, y1 = (round(value * scale) for value in mark.box)
    for shade, width in ((OUTLINE, line_px * 2), (color, line_px)):
        cv2.rectangle(pixels, (x0, y0), (x1, y1), shade, width, cv2.LINE_AA)
    font, size = cv2.FONT_HERSHEY_SIMPLEX, line_px * 0.4
    (width, height), _ = cv2.getTextSize(mark.label, font, size, line_px)
    margin = line_px * 2
    # Inside the box where there is no room above it.
    top = y0 - height - 2 * margin if y0 >= height + 2 * margin else y0
    cv2.rectangle(pixels, (x0, top), (x0 + width + 2 * margin, top + height + 2 * margin), color, cv2.FILLED)
    cv2.putText(pixels, mark.label, (x0 + margin, top + height + margin), font, size, OUTLINE, line_px, cv2.LINE_AA)


def _reduce(pixels: npt.NDArray[np.uint8], long_side_px: int) -> npt.NDArray[np.uint8]:
    height, width = pixels.shape[:2]
    scale = long_side_px / max(height, width)
    if scale >= 1.0:
        return pixels
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
