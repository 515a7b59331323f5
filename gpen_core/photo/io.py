"""Read a picture of any kind into a `Photo`, upright and as 8-bit sRGB; `write.py` writes one back."""

from __future__ import annotations

import io
import zlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from gpen_core.errors import PhotoError
from gpen_core.photo.deep import (
    DeepPixels,
    Fine,
    deep_from_array,
    deep_from_image,
    open_deep_tiff,
    split_deep,
    turn_array,
)
from gpen_core.photo.formats import READ_FORMATS
from gpen_core.photo.metadata import BROKEN_EXIF, exif_to_keep, orientation_of, xmp_to_keep
from gpen_core.photo.profile import (
    CONVERTED_MODES,
    PROFILE_ERRORS,
    is_srgb,
    leftover,
    rgb_numbers,
    srgb_profile,
    to_srgb,
)
from gpen_core.photo.repair import MAX_MISSING_SHARE, complete, missing_rows_share
from gpen_core.types import Photo

PhotoSource: TypeAlias = "str | Path | bytes | Image.Image | npt.NDArray[Any] | Photo"

MAX_MEGAPIXELS = 100
"""Largest picture read; checked from the header, before anything is decoded."""
MAX_OUTPUT_MEGAPIXELS = 400
"""Largest result; about 1.2 GB of pixels."""
HEIC_BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")
DECODER_ERRORS = (
    *BROKEN_EXIF,
    UnidentifiedImageError,
    EOFError,
    RuntimeError,
    ArithmeticError,
    zlib.error,
    cv2.error,
)
"""What Pillow, its plugins and OpenCV raise for files that are not what they say; found by mutating files."""


def read_photo(source: PhotoSource, *, accept_damaged: bool | None = None, name: str | None = None) -> Photo:
    """The picture in `source`, upright, as 8-bit sRGB.

    Args:
        source: path, file content, Pillow image, or array: (H, W), (H, W, 1..4) as gray, gray + alpha, RGB or RGBA;
            uint8, uint16, bool, or float in [0, 1]. A `Photo` is returned as it is.
        name: of a file whose content is given, for messages.
        accept_damaged: also take a JPEG or PNG of which more than the last rows is missing; else that is refused.

    Raises:
        PhotoError: it cannot be read, or is larger than `MAX_MEGAPIXELS`.
    """
    if isinstance(source, Photo):
        return source
    if isinstance(source, np.ndarray):
        _check_megapixels(source.shape[1] if source.ndim > 1 else 0, len(source) if source.ndim else 0, "The array")
        return _photo_from_array(source)
    if isinstance(source, Image.Image):
        return _photo_from_image(source, b"", name="The picture")
    is_upload = isinstance(source, bytes) and name is None
    name = str(source) if isinstance(source, str | Path) else name or "The uploaded file"
    content = source if isinstance(source, bytes) else _read_bytes(Path(source))
    try:
        return _photo_from_content(content, name)
    except Image.DecompressionBombError as error:
        raise PhotoError(
            f"{name} has more than the {MAX_MEGAPIXELS} megapixels that can be read; scale it down first."
        ) from error
    except MemoryError as error:
        raise PhotoError(f"{name} is too large for the memory that is free; scale it down first.") from error
    except DECODER_ERRORS as error:
        photo = _read_completed(content, name, is_accepting=bool(accept_damaged), is_file=not is_upload)
        if photo is None:
            raise PhotoError(f"{name} could not be read as a photo: {_reason(content, error)}.") from error
        return photo


def megapixels_of(path: Path) -> float:
    """How large a picture its header says it is; 0 where that cannot be read."""
    _load_decoders()
    try:
        with Image.open(path, formats=READ_FORMATS) as image:
            return image.width * image.height / 1e6
    except (*DECODER_ERRORS, Image.DecompressionBombError):
        return 0.0


@lru_cache(maxsize=1)
def _load_decoders() -> None:
    """Have Pillow load its decoders and that of HEIC; at the first picture, since importing changes nothing."""
    from pillow_heif import register_heif_opener

    Image.init()
    register_heif_opener()


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise PhotoError(f"There is no file {path}; check the path.") from error
    except IsADirectoryError as error:
        raise PhotoError(f"{path} is a folder, not a photo.") from error
    except (OSError, ValueError) as error:
        raise PhotoError(f"{path} could not be opened: {getattr(error, 'strerror', None) or error}.") from error


def _reason(content: bytes, error: Exception) -> str:
    if not content:
        return "the file is empty"
    if content[4:8] == b"ftyp" and content[8:12] in HEIC_BRANDS:
        return "it is a damaged HEIC picture, so export it again, or as JPEG or PNG"
    if isinstance(error, UnidentifiedImageError) and complete(content) is None:
        return "it is not a picture in a known format such as JPEG, PNG, WebP, TIFF or HEIC"
    return f"the file is damaged ({_one_line(error)})"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _read_completed(content: bytes, name: str, *, is_accepting: bool, is_file: bool) -> Photo | None:
    """A photo whose file has lost its end; None where nothing can be made of it.

    Raises:
        PhotoError: more is lost than the last rows, and that was not asked for.
    """
    completed = complete(content)
    if completed is None:
        return None
    try:
        photo = _photo_from_content(completed.content, name)
    except (*DECODER_ERRORS, Image.DecompressionBombError):
        return None
    share = completed.missing_share
    if share is None:
        share = missing_rows_share(completed.content)
    lost = f"{max(share, 0.001):.1%}" if share else "a little"
    if share > MAX_MISSING_SHARE and not is_accepting:
        raise PhotoError(
            f"{name} is damaged: its file ends too early, and {lost} of the picture is missing; get it again from "
            "where it came" + (", or have it restored all the same with --accept-damaged." if is_file else ".")
        )
    note = f"The file ends too early: {lost} of the picture is missing."
    return replace(photo, notes=(note, *photo.notes))


def _check_megapixels(width: int, height: int, name: str) -> None:
    if width * height > MAX_MEGAPIXELS * 1_000_000:
        raise PhotoError(
            f"{name} has {width * height / 1e6:.0f} megapixels; the limit is {MAX_MEGAPIXELS}, so scale it down first."
        )


def _photo_from_content(content: bytes, name: str) -> Photo:
    _load_decoders()
    try:
        image = Image.open(io.BytesIO(content), formats=READ_FORMATS)
    except UnidentifiedImageError:
        # Pillow has no mode for some TIFFs, 32-bit colour for one; OpenCV reads them, but no metadata.
        deep = open_deep_tiff(content, lambda width, height: _check_megapixels(width, height, name))
        if deep is None:
            raise
        return _photo_from_deep(deep)
    with image:
        return _photo_from_image(image, content, name=name)


def _photo_from_image(image: Image.Image, content: bytes, *, name: str) -> Photo:
    _check_megapixels(*image.size, name)
    notes: list[str] = []
    if getattr(image, "n_frames", 1) > 1 and image.format != "MPO":
        notes.append(f"The file has {getattr(image, 'n_frames', 1)} frames; only the first was restored.")
    deep = deep_from_image(image, content)
    if deep is None:
        image.load()
    info = image.info
    orientation, exif = _exif(image, notes)
    photo = replace(
        _photo_from_pillow(image, notes) if deep is None else _photo_from_deep(deep, info.get("icc_profile"), notes),
        exif=exif,
        xmp=xmp_to_keep(info.get("xmp")),
        dpi=_dpi(info.get("dpi")),
    )
    if deep is not None and deep.is_upright:
        orientation = 1
    return replace(_upright(photo, orientation), notes=tuple(notes))


def _exif(image: Image.Image, notes: list[str]) -> tuple[int, bytes | None]:
    try:
        exif = image.getexif()
        # Read before what is kept of it: that takes the tag out.
        return orientation_of(exif), exif_to_keep(exif)
    except BROKEN_EXIF:
        notes.append("The file's EXIF data is damaged and was left out.")
        return 1, None


def _dpi(dpi: Any) -> tuple[float, float] | None:
    try:
        across, down = float(dpi[0]), float(dpi[1])
    except (TypeError, ValueError, IndexError, ZeroDivisionError):
        return None
    return (across, down) if 1 <= across < 65536 and 1 <= down < 65536 else None


def _photo_from_pillow(image: Image.Image, notes: list[str]) -> Photo:
    color, alpha = _split_alpha(image)
    return replace(_in_srgb(color, image.info.get("icc_profile"), notes), alpha=alpha)


def _photo_from_deep(deep: DeepPixels, profile: bytes | None = None, notes: list[str] | None = None) -> Photo:
    color, alpha, fine = split_deep(deep.pixels)
    if profile is None:
        return Photo(pixels=color, alpha=alpha, fine=fine, depth=16)
    is_gray = deep.pixels.shape[2] <= 2
    notes = [] if notes is None else notes
    image = Image.fromarray(color[:, :, 0] if is_gray else color)
    photo = _in_srgb(image, profile, notes, None if is_gray else deep.pixels[:, :, :3])
    if photo.own_profile is not None and photo.fine is not None:
        own: Fine = photo.fine if alpha is None else np.dstack((photo.fine, fine[:, :, 3:])).astype(np.int32)
        return replace(photo, alpha=alpha, fine=own, depth=16)
    is_converted = not np.array_equal(photo.pixels, color)
    if is_converted:
        notes.append("The colours were converted from the file's profile in 8 bit, so the result has 8 bit.")
        return replace(photo, alpha=alpha)
    return replace(photo, alpha=alpha, fine=fine, depth=16)


def _upright(photo: Photo, orientation: int) -> Photo:
    if orientation == 1:
        return photo
    return replace(
        photo,
        pixels=turn_array(photo.pixels, orientation),
        alpha=None if photo.alpha is None else turn_array(photo.alpha, orientation),
        fine=None if photo.fine is None else turn_array(photo.fine, orientation),
    )


def _split_alpha(image: Image.Image) -> tuple[Image.Image, npt.NDArray[np.uint8] | None]:
    """The picture, whose own opacity counts no more, and its opacity where it is not opaque all over."""
    has_alpha = "A" in image.getbands() or "a" in image.getbands() or "transparency" in image.info
    if not has_alpha:
        return image, None
    rgba = image if image.mode == "RGBA" else image.convert("RGBA")
    alpha = np.asarray(rgba.getchannel("A"))
    return rgba, None if alpha.min() == 255 else alpha


def _in_srgb(
    image: Image.Image, profile: bytes | None, notes: list[str], numbers: npt.NDArray[np.uint16] | None = None
) -> Photo:
    """A photo's pixels, its profile, and what 8-bit sRGB does not hold of it.

    Args:
        image: in 8 bit.
        profile: what its numbers are in; None takes them as sRGB.
        notes: get a sentence where the profile is of no use.
        numbers: (H, W, 3) of 16 bit, where it came so.
    """
    mode = "RGB" if image.mode in ("RGBA", "P", "PA") else "L" if image.mode == "LA" else image.mode
    if not profile or mode not in CONVERTED_MODES:
        return Photo(pixels=rgb_numbers(image))
    try:
        if mode == "RGB" and is_srgb(profile):
            return Photo(pixels=rgb_numbers(image), icc=profile)
        pixels = to_srgb(image, profile, mode)
    except PROFILE_ERRORS as error:
        notes.append(f"The file's colour profile could not be used ({_one_line(error)}); colours are taken as sRGB.")
        return Photo(pixels=rgb_numbers(image))
    try:
        if mode == "RGB":
            fine = leftover(rgb_numbers(image) if numbers is None else numbers, pixels, profile)
            return Photo(pixels=pixels, icc=profile, own_profile=profile, fine=fine)
    except PROFILE_ERRORS:
        notes.append("The file's colour profile has no way back from sRGB, so the result is in sRGB.")
    return Photo(pixels=pixels, icc=srgb_profile())


def _photo_from_array(array: npt.NDArray[Any]) -> Photo:
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or not 1 <= array.shape[2] <= 4 or 0 in array.shape:
        raise PhotoError(f"The array has shape {array.shape}; give (H, W) or (H, W, 1 to 4).")
    if array.dtype in (np.uint8, np.bool_):
        levels = np.where(array, 255, 0).astype(np.uint8) if array.dtype == np.bool_ else array
        color = levels[:, :, :3] if levels.shape[2] >= 3 else np.repeat(levels[:, :, :1], 3, axis=2)
        alpha = levels[:, :, -1] if levels.shape[2] in (2, 4) else None
        opaque = alpha is None or alpha.min() == 255
        return Photo(
            pixels=np.ascontiguousarray(color),
            alpha=None if alpha is None or opaque else np.ascontiguousarray(alpha),
        )
    return _photo_from_deep(DeepPixels(deep_from_array(array)))
