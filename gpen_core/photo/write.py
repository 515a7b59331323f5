"""Write a photo so that nothing is lost and nothing half-written stays."""

from __future__ import annotations

import io
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import cv2
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from PIL.TiffImagePlugin import ImageFileDirectory_v2

from gpen_core.errors import PhotoError
from gpen_core.options import OutputOptions
from gpen_core.photo.formats import FORMAT_BY_SUFFIX, check_writable_format
from gpen_core.photo.metadata import marked_exif, marked_xmp
from gpen_core.photo.profile import own_numbers
from gpen_core.photo.repair import PNG_SIGNATURE
from gpen_core.types import Photo

DEEP_FORMATS = ("PNG", "TIFF")
MAX_JPEG_SEGMENT_BYTES = 65_000
TIFF_XMP, TIFF_ICC = 700, 34675
TIFF_UNDEFINED = 7
PNG_LEVEL = 2
"""Takes a quarter of the time of Pillow's default, for files a tenth larger."""


def write_photo(
    photo: Photo, path: str | Path, output: OutputOptions | None = None, *, has_ai: bool = False
) -> tuple[str, ...]:
    """Write `photo` to `path` in the format its ending names: first under a temporary name, then renamed.

    Args:
        photo: what to write; EXIF, XMP and DPI are written back, and the file is marked as made by this program.
            Pictures that came in 16 bit are written so in PNG and TIFF, all in the colour space they came in.
        path: ends in one of `formats.FORMAT_BY_SUFFIX`. An existing file is replaced.
        output: quality, colour resolution and matte of JPEG, quality of WebP (lossless at 100), whether metadata is
            kept.
        has_ai: mark the file as one in which AI repainted a part.

    Returns:
        Notes on what the format could not hold.

    Raises:
        PhotoError: unknown ending, or the file cannot be written.
    """
    path, output = Path(path), output or OutputOptions()
    check_writable_format(path)
    format_ = FORMAT_BY_SUFFIX[path.suffix.lower()]
    notes: list[str] = []
    metadata = _metadata(photo, format_, output, has_ai=has_ai, notes=notes)
    save: Callable[[IO[bytes]], object]
    is_deep = photo.fine is not None and photo.depth == 16
    if is_deep and format_ in DEEP_FORMATS:
        write_deep = _write_deep_png if format_ == "PNG" else _write_deep_tiff
        save = lambda file: write_deep(photo, file, metadata)  # noqa: E731 - one of two ways to write
    else:
        if is_deep:
            notes.append(f"{format_} holds 8 bit a channel; choose PNG or TIFF to keep the photo's 16 bit.")
        image = _image_to_write(photo, format_, output, notes)
        options = {**metadata, **_encoding(format_, output, photo)}
        save = lambda file: image.save(file, format=format_, **options)  # noqa: E731
    try:
        _save_atomically(save, path)
    except (OSError, ValueError, cv2.error) as error:
        raise PhotoError(f"{path} could not be written: {getattr(error, 'strerror', None) or error}.") from error
    return tuple(notes)


def _metadata(photo: Photo, format_: str, output: OutputOptions, *, has_ai: bool, notes: list[str]) -> dict[str, Any]:
    """Pillow's arguments for what stands beside the pixels."""
    exif = None if output.strip_metadata else photo.exif
    xmp = None if output.strip_metadata else photo.xmp
    if format_ == "JPEG":
        for name, block in (("EXIF", exif), ("XMP", xmp)):
            if block is not None and len(block) > MAX_JPEG_SEGMENT_BYTES:
                notes.append(f"The photo's {name} data is larger than JPEG can hold and was left out.")
        exif = None if exif is not None and len(exif) > MAX_JPEG_SEGMENT_BYTES else exif
        xmp = None if xmp is not None and len(xmp) > MAX_JPEG_SEGMENT_BYTES else xmp
    metadata: dict[str, Any] = {"exif": marked_exif(exif)}
    if has_ai:
        xmp = marked_xmp(xmp)
    if xmp is not None:
        metadata |= _xmp_arguments(xmp, format_, metadata["exif"])
    if photo.icc is not None:
        metadata["icc_profile"] = photo.icc
    if photo.dpi is not None:
        metadata["dpi"] = photo.dpi
    return metadata


def _xmp_arguments(xmp: bytes, format_: str, exif: bytes) -> dict[str, Any]:
    if format_ == "PNG":
        text = PngInfo()
        text.add_itxt("XML:com.adobe.xmp", xmp.decode())
        return {"pnginfo": text}
    if format_ == "TIFF":
        # There both are tags of one directory.
        tags = Image.Exif()
        tags.load(exif)
        tags[TIFF_XMP] = xmp
        return {"exif": tags.tobytes()}
    return {"xmp": xmp}


def _encoding(format_: str, output: OutputOptions, photo: Photo) -> dict[str, Any]:
    if format_ == "JPEG":
        # Not `optimize`: it needs the whole file in a buffer that noisy pictures outgrow, and then fails.
        return {"quality": output.quality, "subsampling": output.subsampling}
    if format_ == "WEBP":
        # Exact: colours under full transparency are kept as well.
        return {"quality": output.quality, "lossless": output.quality == 100, "exact": True}
    if format_ == "PNG":
        return {"compress_level": PNG_LEVEL}
    # libtiff's encoder refuses the nested EXIF blocks that Pillow's own uncompressed writer keeps.
    return {"compression": "tiff_deflate" if photo.exif is None or output.strip_metadata else "raw"}


def _image_to_write(photo: Photo, format_: str, output: OutputOptions, notes: list[str]) -> Image.Image:
    image = Image.fromarray(own_numbers(photo, 8))
    if photo.alpha is None:
        return image
    if format_ == "JPEG":
        alpha = image.getchannel("A")
        matte = Image.new("RGB", image.size, output.matte)
        matte.paste(image.convert("RGB"), mask=alpha)
        notes.append(f"JPEG cannot hold transparency; transparent parts were laid on {output.matte}.")
        return matte
    return image


def _write_deep_png(photo: Photo, file: IO[bytes], metadata: dict[str, Any]) -> None:
    """Pixels by OpenCV, since Pillow writes no 16-bit colour; what stands beside them by Pillow, around one pixel."""
    deep = own_numbers(photo, 16)
    order = cv2.COLOR_RGB2BGR if photo.alpha is None else cv2.COLOR_RGBA2BGRA
    ok, encoded = cv2.imencode(".png", cv2.cvtColor(deep, order), [cv2.IMWRITE_PNG_COMPRESSION, PNG_LEVEL])
    if not ok:
        raise OSError("the encoder failed")
    carrier = io.BytesIO()
    Image.new("RGB", (1, 1)).save(carrier, format="PNG", **metadata)
    header_end = len(PNG_SIGNATURE) + 25
    content, carried = encoded.tobytes(), carrier.getvalue()
    beside = carried[header_end : carried.index(b"IDAT") - 4]
    file.write(content[:header_end] + beside + content[header_end:])


def _write_deep_tiff(photo: Photo, file: IO[bytes], metadata: dict[str, Any]) -> None:
    """One uncompressed strip, little-endian (TIFF 6.0): Pillow writes no 16-bit colour, OpenCV no metadata."""
    deep = own_numbers(photo, 16).astype("<u2")
    height, width, channels = deep.shape
    directory = ImageFileDirectory_v2(prefix=b"II")
    exif = Image.Exif()
    exif.load(metadata["exif"])
    for tag, value in exif.items():
        # Pillow names a nested block by its offset, and writes it where it is given as a dictionary.
        directory[tag] = exif.get_ifd(tag) if tag in (0x8769, 0x8825) else value
    directory[256], directory[257] = width, height
    directory[258] = (16,) * channels
    directory[259], directory[262] = 1, 2
    directory[277], directory[278], directory[284] = channels, height, 1
    directory[279] = deep.nbytes
    directory[273] = 0
    if channels == 4:
        directory[338] = 2
    if "dpi" in metadata:
        directory[282], directory[283] = metadata["dpi"]
        directory[296] = 2
    if "icc_profile" in metadata:
        directory.tagtype[TIFF_ICC] = TIFF_UNDEFINED
        directory[TIFF_ICC] = metadata["icc_profile"]
    # Puts where the pixels begin, right behind it, into the directory.
    directory.save(file)
    file.write(deep.tobytes())


def _save_atomically(save: Callable[[IO[bytes]], object], path: Path) -> None:
    temporary = path.with_name(f".gpen-{secrets.token_hex(8)}.part")
    try:
        with temporary.open("xb") as file:
            save(file)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
