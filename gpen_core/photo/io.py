"""Read a picture of any kind into a `Photo`; write one back so that nothing is lost and nothing half-written stays."""

from __future__ import annotations

import io
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError

from gpen_core.errors import PhotoError
from gpen_core.options import OutputOptions
from gpen_core.types import Photo, Pixels
from gpen_core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

PhotoSource: TypeAlias = "str | Path | bytes | Image.Image | npt.NDArray[Any] | Photo"

MAX_MEGAPIXELS = 100
"""Largest picture read; checked from the header, before anything is decoded."""
MAX_OUTPUT_MEGAPIXELS = 400
"""Largest result; about 1.2 GB of pixels."""
BAND_ROWS = 256
"""Rows of a picture that are converted at once."""

FORMAT_BY_SUFFIX = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".jpe": "JPEG",
    ".jfif": "JPEG",
    ".webp": "WEBP",
    ".tif": "TIFF",
    ".tiff": "TIFF",
}
"""What `write_photo` can write."""
READABLE_SUFFIXES = frozenset({*FORMAT_BY_SUFFIX, ".bmp", ".gif", ".mpo", ".avif", ".ppm", ".pgm", ".heic", ".heif"})
"""What a folder is searched for. HEIC is among them so that it is named as unreadable instead of passed over."""

EXIF_ORIENTATION = 0x0112
EXIF_PROCESSING_SOFTWARE = 0x000B
SOFTWARE = "gpen_core"
HEIC_BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")


def read_photo(source: PhotoSource) -> Photo:
    """The picture in `source`, upright, as 8-bit sRGB.

    Args:
        source: path, file content, Pillow image, or array: (H, W), (H, W, 1..4) as gray, gray + alpha, RGB or RGBA;
            uint8, uint16, bool, or float in [0, 1]. A `Photo` is returned as it is.

    Raises:
        PhotoError: it cannot be read, or is larger than `MAX_MEGAPIXELS`.
    """
    if isinstance(source, Photo):
        return source
    if isinstance(source, np.ndarray):
        return _photo_from_array(source)
    if isinstance(source, Image.Image):
        return _photo_from_image(source, name="The picture")
    name = str(source) if isinstance(source, str | Path) else "The uploaded file"
    content = source if isinstance(source, bytes) else _read_bytes(Path(source))
    try:
        with Image.open(io.BytesIO(content)) as image:
            return _photo_from_image(image, name=name)
    except Image.DecompressionBombError as error:
        raise PhotoError(
            f"{name} has more than the {MAX_MEGAPIXELS} megapixels that can be read; scale it down first."
        ) from error
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError) as error:
        raise PhotoError(f"{name} could not be read as a photo: {_reason(content, error)}.") from error


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise PhotoError(f"There is no file {path}; check the path.") from error
    except IsADirectoryError as error:
        raise PhotoError(f"{path} is a folder, not a photo.") from error
    except OSError as error:
        raise PhotoError(f"{path} could not be opened: {error.strerror}.") from error


def _reason(content: bytes, error: Exception) -> str:
    if not content:
        return "the file is empty"
    if content[4:8] == b"ftyp" and content[8:12] in HEIC_BRANDS:
        return "it is a HEIC picture, so convert it to JPEG or PNG first"
    if isinstance(error, UnidentifiedImageError):
        return "it is not a picture in a known format such as JPEG, PNG, WebP or TIFF"
    return f"the file is damaged ({error})"


def _check_megapixels(width: int, height: int, name: str) -> None:
    if width * height > MAX_MEGAPIXELS * 1_000_000:
        raise PhotoError(
            f"{name} has {width * height / 1e6:.0f} megapixels; the limit is {MAX_MEGAPIXELS}, so scale it down first."
        )


def _photo_from_image(image: Image.Image, *, name: str) -> Photo:
    _check_megapixels(*image.size, name)
    notes: list[str] = []
    if getattr(image, "n_frames", 1) > 1 and image.format != "MPO":
        notes.append(f"The file has {getattr(image, 'n_frames', 1)} frames; only the first was restored.")
    image.load()
    dpi = _dpi(image)
    profile = image.info.get("icc_profile")
    exif = image.getexif()
    # Only where there is something to turn: Pillow's function copies the picture in any case.
    upright = ImageOps.exif_transpose(image) if exif.get(EXIF_ORIENTATION, 1) != 1 else image
    color, alpha = _split_alpha(_to_8_bit(upright))
    pixels = _to_srgb(color, profile, notes)
    return Photo(
        pixels=pixels,
        alpha=alpha,
        exif=_exif_to_keep(exif),
        dpi=dpi,
        notes=tuple(notes),
    )


def _dpi(image: Image.Image) -> tuple[float, float] | None:
    dpi = image.info.get("dpi")
    return (float(dpi[0]), float(dpi[1])) if dpi else None


def _exif_to_keep(exif: Image.Exif) -> bytes | None:
    exif.pop(EXIF_ORIENTATION, None)
    return exif.tobytes() if len(exif) else None


def _to_8_bit(image: Image.Image) -> Image.Image:
    """Bring 16-bit, 32-bit and float modes to 8-bit gray by their type's range; other modes unchanged."""
    if image.mode.startswith("I;16"):
        return Image.fromarray(_scale_to_uint8(np.asarray(image).astype(np.uint16)))
    if image.mode in ("I", "F"):
        values = np.asarray(image)
        # These modes carry no range of their own: files hold 0..1, 8-bit or 16-bit numbers in them.
        top = next((limit for limit in (1.0, 255.0, 65535.0) if values.max(initial=0.0) <= limit), values.max())
        if image.mode == "I" and top < 65535.0:
            top = 65535.0
        scale = float(top)
        return Image.fromarray(
            _in_bands(values, lambda band: np.rint(np.clip(np.nan_to_num(band.astype(np.float64) / scale), 0, 1) * 255))
        )
    return image


def _split_alpha(image: Image.Image) -> tuple[Image.Image, npt.NDArray[np.uint8] | None]:
    """The picture, whose own opacity counts no more, and its opacity where it is not opaque all over."""
    has_alpha = "A" in image.getbands() or "a" in image.getbands() or "transparency" in image.info
    if not has_alpha:
        return image, None
    rgba = image if image.mode == "RGBA" else image.convert("RGBA")
    alpha = np.asarray(rgba.getchannel("A"))
    return rgba, None if alpha.min() == 255 else alpha


def _to_srgb(image: Image.Image, profile: bytes | None, notes: list[str]) -> Pixels:
    mode = "RGB" if image.mode == "RGBA" else image.mode
    if profile and mode in ("RGB", "CMYK"):
        try:
            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            transform = ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
            return _rgb_pixels(image, lambda band: ImageCms.applyTransform(band.convert(mode), transform))
        except (ImageCms.PyCMSError, OSError) as error:
            notes.append(f"The file's colour profile could not be used ({error}); colours are taken as sRGB.")
    return _rgb_pixels(image, lambda band: band.convert("RGB"))


def _rgb_pixels(image: Image.Image, convert: Callable[[Image.Image], Image.Image | None]) -> Pixels:
    """(H, W, 3) of a picture, converted in bands: as a whole, a large one would be held three or four times over."""
    width, height = image.size
    pixels = np.empty((height, width, 3), dtype=np.uint8)
    for top in range(0, height, BAND_ROWS):
        bottom = min(top + BAND_ROWS, height)
        pixels[top:bottom] = np.asarray(convert(image.crop((0, top, width, bottom))))
    return pixels


def _scale_to_uint8(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.bool_:
        return np.where(array, 255, 0).astype(np.uint8)
    if array.dtype == np.uint16:
        return _in_bands(array, lambda band: np.rint(band / 257.0))
    if np.issubdtype(array.dtype, np.floating):
        if not np.isfinite(array).all() or array.min(initial=0) < 0 or array.max(initial=0) > 1:
            raise PhotoError("The array holds floats outside [0, 1]; scale it, or give it as uint8.")
        return _in_bands(array, lambda band: np.rint(band * 255.0))
    raise PhotoError(f"The array has type {array.dtype}; give it as uint8, uint16, bool or float in [0, 1].")


def _in_bands(
    array: npt.NDArray[Any], convert: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
) -> npt.NDArray[np.uint8]:
    """`array` converted in bands of rows, so that the numbers in between need no whole picture of their own."""
    converted = np.empty(array.shape, dtype=np.uint8)
    for top in range(0, len(array), BAND_ROWS):
        converted[top : top + BAND_ROWS] = convert(array[top : top + BAND_ROWS])
    return converted


def _photo_from_array(array: npt.NDArray[Any]) -> Photo:
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or not 1 <= array.shape[2] <= 4 or 0 in array.shape:
        raise PhotoError(f"The array has shape {array.shape}; give (H, W) or (H, W, 1 to 4).")
    _check_megapixels(array.shape[1], array.shape[0], "The array")
    values = _scale_to_uint8(array)
    num_channels = values.shape[2]
    color = values[:, :, :3] if num_channels >= 3 else np.repeat(values[:, :, :1], 3, axis=2)
    alpha = values[:, :, -1] if num_channels in (2, 4) else None
    return Photo(
        pixels=np.ascontiguousarray(color),
        alpha=None if alpha is None or alpha.min() == 255 else np.ascontiguousarray(alpha),
    )


def suffix_for(name: str | Path) -> str:
    """Ending of the result's name: that of `name` where it can be written, else `.png`."""
    suffix = Path(name).suffix
    return suffix if suffix.lower() in FORMAT_BY_SUFFIX else ".png"


def check_writable_format(path: Path) -> None:
    """Raise PhotoError where `path`'s ending is none that `write_photo` knows."""
    if path.suffix.lower() not in FORMAT_BY_SUFFIX:
        allowed = ", ".join(FORMAT_BY_SUFFIX)
        raise PhotoError(f"{path} ends in {path.suffix or 'nothing'!r}; choose a name that ends in one of: {allowed}.")


def write_photo(photo: Photo, path: str | Path, output: OutputOptions | None = None) -> tuple[str, ...]:
    """Write `photo` to `path` in the format its ending names: first under a temporary name, then renamed.

    Args:
        photo: what to write; EXIF and DPI are written back, and the file is marked as made by this program.
        path: ends in one of `FORMAT_BY_SUFFIX`. An existing file is replaced.
        output: quality of JPEG (with full colour resolution, 4:4:4) and WebP (lossless at 100).

    Returns:
        Notes on what the format could not hold.

    Raises:
        PhotoError: unknown ending, or the file cannot be written.
    """
    path = Path(path)
    quality = (output or OutputOptions()).quality
    check_writable_format(path)
    format_ = FORMAT_BY_SUFFIX[path.suffix.lower()]
    image, notes = _image_to_write(photo, format_)
    options: dict[str, Any] = {"exif": _marked_exif(photo.exif)}
    if photo.dpi is not None:
        options["dpi"] = photo.dpi
    if format_ == "JPEG":
        options |= {"quality": quality, "subsampling": "4:4:4", "optimize": True}
    elif format_ == "WEBP":
        options |= {"quality": quality, "lossless": quality == 100}
    elif format_ == "PNG":
        # Level 2 takes a quarter of the time of Pillow's default for files a tenth larger.
        options |= {"compress_level": 2}
    elif format_ == "TIFF":
        # libtiff's encoder refuses the nested EXIF blocks that Pillow's own uncompressed writer keeps.
        options |= {"compression": "tiff_deflate" if photo.exif is None else "raw"}
    try:
        _save_atomically(image, path, format_, options)
    except OSError as error:
        raise PhotoError(f"{path} could not be written: {error.strerror or error}.") from error
    return notes


def _image_to_write(photo: Photo, format_: str) -> tuple[Image.Image, tuple[str, ...]]:
    image = Image.fromarray(photo.pixels)
    if photo.alpha is None:
        return image, ()
    alpha = Image.fromarray(photo.alpha)
    if format_ == "JPEG":
        matte = Image.new("RGB", image.size, "white")
        matte.paste(image, mask=alpha)
        return matte, ("JPEG cannot hold transparency; transparent parts were laid on white.",)
    image.putalpha(alpha)
    return image, ()


def _marked_exif(exif: bytes | None) -> bytes:
    marked = Image.Exif()
    if exif is not None:
        marked.load(exif)
    marked[EXIF_PROCESSING_SOFTWARE] = f"{SOFTWARE} {__version__}"
    return marked.tobytes()


def _save_atomically(image: Image.Image, path: Path, format_: str, options: dict[str, Any]) -> None:
    temporary = path.with_name(f".gpen-{secrets.token_hex(8)}.part")
    try:
        with temporary.open("xb") as file:
            image.save(file, format=format_, **options)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def is_own_result(path: Path) -> bool:
    """Whether `path` is a picture that this program wrote, so that a new run may replace it."""
    try:
        with Image.open(path) as image:
            return str(image.getexif().get(EXIF_PROCESSING_SOFTWARE, "")).startswith(SOFTWARE)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return False
