"""Pictures with more than 8 bits a channel: read at their depth, split into 8 bits and the rest.

The networks see 8 bits. What 16-bit pixels hold beyond them is kept beside and added again on writing, so that
outside the faces the result has the photo's own 16-bit numbers.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image
from PIL.TiffImagePlugin import ImageFileDirectory_v2

from gpen_core.errors import PhotoError
from gpen_core.photo.repair import PNG_SIGNATURE
from gpen_core.types import Pixels

Fine: TypeAlias = npt.NDArray[np.int16] | npt.NDArray[np.int32]
LEVELS = 257
"""16-bit steps in one 8-bit step: 65535 / 255."""
BAND_ROWS = 256
"""Rows that are split at once."""
TIFF_STARTS = (b"II*\0", b"MM\0*")
TIFF_WIDTH, TIFF_HEIGHT, TIFF_BITS = 256, 257, 258
PNG_DEPTH_BYTE, PNG_COLOR_BYTE = 24, 25
PNG_MANY_CHANNELS = (2, 4, 6)


@dataclass(frozen=True, slots=True, eq=False)
class DeepPixels:
    """A decoded picture of 16 bits a channel."""

    pixels: npt.NDArray[np.uint16]
    """(H, W, 1..4): gray, gray + alpha, RGB or RGBA."""
    is_upright: bool = False
    """The decoder has applied the orientation already."""


def deep_from_image(image: Image.Image, content: bytes) -> DeepPixels | None:
    """The picture at its depth; None where 8 bits hold it all.

    Args:
        image: opened, not yet loaded.
        content: its file; empty where there is none.
    """
    if image.mode.startswith("I;16"):
        return DeepPixels(np.asarray(image).astype(np.uint16)[:, :, None], is_upright=image.format == "TIFF")
    if image.mode in ("I", "F"):
        return DeepPixels(_from_open_range(np.asarray(image))[:, :, None], is_upright=image.format == "TIFF")
    # Pillow reads these, but keeps the upper 8 bits only.
    is_png = content.startswith(PNG_SIGNATURE) and content[PNG_DEPTH_BYTE] == 16
    if is_png and content[PNG_COLOR_BYTE] in PNG_MANY_CHANNELS:
        return _decode(content)
    if image.format == "TIFF" and image.mode in ("RGB", "RGBA"):
        bits = getattr(image, "tag_v2", {}).get(TIFF_BITS, (8,))
        return _decode(content) if max(bits) > 8 else None
    return None


def open_deep_tiff(content: bytes, check_size: Callable[[int, int], None]) -> DeepPixels | None:
    """A TIFF that Pillow has no mode for, float colour say; None where it is no TIFF or OpenCV cannot read it either.

    Args:
        content: the file.
        check_size: raises where width and height in px are too much; asked before decoding.
    """
    if content[:4] not in TIFF_STARTS:
        return None
    directory = ImageFileDirectory_v2(content[:8])
    file = io.BytesIO(content)
    file.seek(directory.next)
    directory.load(file)
    check_size(int(directory[TIFF_WIDTH]), int(directory[TIFF_HEIGHT]))
    return _decode(content)


def _decode(content: bytes) -> DeepPixels | None:
    """OpenCV turns TIFFs by their tag and leaves PNGs as they are."""
    with _quiet_opencv():
        decoded = cv2.imdecode(np.frombuffer(content, dtype=np.uint8), cv2.IMREAD_UNCHANGED)
    if decoded is None:
        return None
    array = np.asarray(decoded)
    if array.ndim == 2:
        array = array[:, :, None]
    order = {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}[array.shape[2]]
    is_tiff = content[:4] in TIFF_STARTS
    if array.dtype == np.uint8:
        return DeepPixels(array[:, :, order].astype(np.uint16) * LEVELS, is_upright=is_tiff)
    if array.dtype == np.uint16:
        return DeepPixels(array[:, :, order].astype(np.uint16), is_upright=is_tiff)
    return DeepPixels(_from_open_range(array[:, :, order]), is_upright=is_tiff)


@contextmanager
def _quiet_opencv() -> Iterator[None]:
    """OpenCV writes a line to stderr for each TIFF tag it does not know, whatever the caller makes of the picture."""
    before = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        cv2.utils.logging.setLogLevel(before)


def _from_open_range(array: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """Numbers of a type without a range of its own: files hold 0..1, 8-bit or 16-bit numbers in them."""
    is_float = np.issubdtype(array.dtype, np.floating)
    values = array.astype(np.float32 if is_float else np.float64)
    np.nan_to_num(values, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    largest = float(values.max(initial=0.0))
    if is_float:
        top = next((limit for limit in (1.0, 255.0, 65535.0) if largest <= limit), largest)
    else:
        top = max(65535.0, largest)
    values *= 65535 / top
    return np.rint(np.clip(values, 0, 65535, out=values), out=values).astype(np.uint16)


def deep_from_array(array: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """uint16, or float in [0, 1], as 16 bit.

    Raises:
        PhotoError: another type, or floats outside.
    """
    if array.dtype == np.uint16:
        return array
    if np.issubdtype(array.dtype, np.floating):
        if not np.isfinite(array).all() or array.min(initial=0) < 0 or array.max(initial=0) > 1:
            raise PhotoError("The array holds floats outside [0, 1]; scale it, or give it as uint8.")
        return np.rint(array.astype(np.float64) * 65535.0).astype(np.uint16)
    raise PhotoError(f"The array has type {array.dtype}; give it as uint8, uint16, bool or float in [0, 1].")


def split_deep(
    deep: npt.NDArray[np.uint16],
) -> tuple[Pixels, npt.NDArray[np.uint8] | None, npt.NDArray[np.int16]]:
    """(H, W, 1..4) of 16 bit -> RGB and opacity in 8 bit, None where it is full, and what they leave: `Photo.fine`."""
    height, width, num_channels = deep.shape
    has_alpha = num_channels in (2, 4) and bool(deep[:, :, -1].min() < 65535)
    order = [0, 0, 0] if num_channels <= 2 else [0, 1, 2]
    channels = [*order, num_channels - 1] if has_alpha else order
    levels = np.empty((height, width, len(channels)), dtype=np.uint8)
    fine = np.empty(levels.shape, dtype=np.int16)
    for top in range(0, height, BAND_ROWS):
        rows = slice(top, top + BAND_ROWS)
        band = deep[rows][:, :, channels].astype(np.int32)
        levels[rows] = (band + LEVELS // 2) // LEVELS
        fine[rows] = band - levels[rows].astype(np.int32) * LEVELS
    if not has_alpha:
        return levels, None, fine
    return np.ascontiguousarray(levels[:, :, :3]), np.ascontiguousarray(levels[:, :, 3]), fine


def resize_fine(fine: Fine | None, width: int, height: int) -> Fine | None:
    """`Photo.fine` at the size of the result."""
    if fine is None or fine.shape[:2] == (height, width):
        return fine
    resized = cv2.resize(fine.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR)
    whole = np.rint(resized)
    return whole.astype(np.int16) if fine.dtype == np.int16 else whole.astype(np.int32)


def turn_array(array: npt.NDArray[Any], orientation: int) -> npt.NDArray[Any]:
    """(H, W, ...) as stored under an EXIF orientation, 1 to 8, turned upright."""
    if orientation >= 5:
        array = array.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        array = array[::-1]
    if orientation in (2, 3, 6, 7):
        array = array[:, ::-1]
    return np.ascontiguousarray(array)
