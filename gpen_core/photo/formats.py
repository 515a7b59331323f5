"""Which kinds of picture files are read and written, by ending and by content."""

from __future__ import annotations

from pathlib import Path

from gpen_core.errors import PhotoError

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
SUFFIX_BY_FORMAT = {"png": ".png", "jpeg": ".jpg", "webp": ".webp", "tiff": ".tif"}
"""Ending of a result whose format was asked for by name."""
CAMERA_SUFFIXES = frozenset({".heic", ".heif", ".hif", ".mpo"})
"""Photos that phones and cameras compress with loss; their results are JPEG."""
READABLE_SUFFIXES = frozenset({*FORMAT_BY_SUFFIX, *CAMERA_SUFFIXES, ".bmp", ".gif", ".avif", ".ppm", ".pgm", ".pnm"})
"""What a folder is searched for."""
READ_FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "HEIF", "AVIF", "GIF", "BMP", "PPM")
"""Decoders that a file may reach, whatever it is named. Pillow has more, some of which start other programs."""
SAME = "same"


def suffix_for(name: str | Path, format_: str = SAME) -> str:
    """Ending of the result's name.

    Args:
        name: of the photo.
        format_: `same` keeps the ending where it can be written: camera formats become JPEG, others PNG. A format by
            name keeps the ending where that means it.
    """
    suffix = Path(name).suffix
    known = FORMAT_BY_SUFFIX.get(suffix.lower())
    if format_ == SAME:
        if known:
            return suffix
        return ".jpg" if suffix.lower() in CAMERA_SUFFIXES else ".png"
    return suffix if known == format_.upper() else SUFFIX_BY_FORMAT[format_]


def check_writable_format(path: Path, format_: str = SAME) -> None:
    """Raise PhotoError where `path`'s ending is none that `write_photo` knows, or means another format."""
    known = FORMAT_BY_SUFFIX.get(path.suffix.lower())
    if known is None:
        allowed = ", ".join(FORMAT_BY_SUFFIX)
        raise PhotoError(f"{path} ends in {path.suffix or 'nothing'!r}; choose a name that ends in one of: {allowed}.")
    if format_ not in (SAME, known.lower()):
        raise PhotoError(f"{path} ends in {path.suffix!r}, which is not {format_}; change the name or the format.")
