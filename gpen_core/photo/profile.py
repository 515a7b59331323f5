"""Between the colours that a file's numbers stand for and sRGB, which the networks see.

A photo in another RGB space than sRGB, a phone's P3 or a scanner's Adobe RGB, is written in that space again. What
8-bit sRGB cannot hold of it, colours beyond sRGB's and the steps of 16 bit, is kept beside the pixels and added on
writing, so that outside the faces the result has the file's own numbers.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageCms

from gpen_core.photo.deep import LEVELS, Fine
from gpen_core.types import Photo, Pixels

BAND_ROWS = 256
"""Rows of a picture that are converted at once."""
PROFILE_ERRORS = (ImageCms.PyCMSError, OSError, TypeError, ValueError)
CONVERTED_MODES = ("RGB", "CMYK", "L", "LAB")

Convert = Callable[[Image.Image], "Image.Image | None"]


def convert_in_bands(image: Image.Image, convert: Convert) -> Pixels:
    """(H, W, 3) of a picture: as a whole, a large one would be held three or four times over."""
    width, height = image.size
    pixels = np.empty((height, width, 3), dtype=np.uint8)
    for top in range(0, height, BAND_ROWS):
        bottom = min(top + BAND_ROWS, height)
        pixels[top:bottom] = np.asarray(convert(image.crop((0, top, width, bottom))))
    return pixels


def rgb_numbers(image: Image.Image) -> Pixels:
    """(H, W, 3) of a picture, whatever they stand for."""
    return convert_in_bands(image, lambda band: band.convert("RGB"))


def is_srgb(profile: bytes) -> bool:
    """Whether a profile names itself sRGB, so that converting would only round.

    Raises:
        PROFILE_ERRORS: it is damaged.
    """
    name = ImageCms.getProfileDescription(ImageCms.ImageCmsProfile(io.BytesIO(profile)))
    return name.strip().lower().startswith("srgb")


def srgb_profile() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def to_srgb(image: Image.Image, profile: bytes, mode: str) -> Pixels:
    """(H, W, 3) in sRGB of a picture whose numbers, as Pillow's `mode`, are in `profile`.

    Raises:
        PROFILE_ERRORS: the profile is damaged or of another kind of picture.
    """
    source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    transform = ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
    return convert_in_bands(image, lambda band: ImageCms.applyTransform(band.convert(mode), transform))


def from_srgb(pixels: Pixels, profile: bytes) -> Pixels:
    """(H, W, 3) sRGB in the numbers of an RGB profile.

    Raises:
        PROFILE_ERRORS: the profile leads to sRGB only, not back.
    """
    target = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    transform = ImageCms.buildTransform(ImageCms.createProfile("sRGB"), target, "RGB", "RGB")
    return convert_in_bands(Image.fromarray(pixels), lambda band: ImageCms.applyTransform(band, transform))


def leftover(numbers: npt.NDArray[Any], pixels: Pixels, profile: bytes) -> Fine:
    """`Photo.fine` of a picture: its own numbers less what its sRGB pixels give in its profile.

    Args:
        numbers: (H, W, 3) uint8 or uint16.
        pixels: (H, W, 3) the same in sRGB.
        profile: theirs.

    Raises:
        PROFILE_ERRORS: the profile leads to sRGB only, not back.
    """
    given = from_srgb(pixels, profile)
    factor = 1 if numbers.dtype == np.uint8 else LEVELS
    fine: Fine = np.empty(numbers.shape, dtype=np.int16) if factor == 1 else np.empty(numbers.shape, dtype=np.int32)
    for top in range(0, len(numbers), BAND_ROWS):
        rows = slice(top, top + BAND_ROWS)
        fine[rows] = numbers[rows].astype(np.int32) - given[rows].astype(np.int32) * factor
    return fine


def own_numbers(photo: Photo, depth: int) -> npt.NDArray[Any]:
    """A photo in the numbers of its file: uint8 or uint16 by `depth`, (H, W, 3), or (H, W, 4) with opacity.

    Args:
        photo: whose `fine` is of the depth it came in.
        depth: 8 or 16. 16 needs a photo that came so.
    """
    levels = photo.pixels if photo.own_profile is None else from_srgb(photo.pixels, photo.own_profile)
    if photo.alpha is not None:
        levels = np.dstack((levels, photo.alpha))
    if photo.fine is None or (depth == 8 and photo.depth == 16 and photo.own_profile is None):
        return levels
    factor = LEVELS if photo.depth == 16 else 1
    numbers = np.empty(levels.shape, dtype=np.uint16 if depth == 16 else np.uint8)
    channels = min(photo.fine.shape[2], levels.shape[2])
    for top in range(0, len(levels), BAND_ROWS):
        rows = slice(top, top + BAND_ROWS)
        band = levels[rows].astype(np.int32) * factor
        band[:, :, :channels] += photo.fine[rows][:, :, :channels]
        np.clip(band, 0, 255 * factor, out=band)
        numbers[rows] = (band + LEVELS // 2) // LEVELS if depth < photo.depth else band
    return numbers
