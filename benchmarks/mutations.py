"""Small valid pictures of every kind, and ways to break them."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image
from pillow_heif import register_heif_opener

from gpen_core.errors import PhotoError
from gpen_core.photo.io import read_photo
from gpen_core.photo.write import write_photo

SIZE_PX = 24
LENGTHS = (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\0\0\xff\xff")


def seeds() -> dict[str, bytes]:
    """One file of each format and depth, 24 px wide."""
    register_heif_opener()
    pixels = np.random.default_rng(0).integers(0, 256, (SIZE_PX, SIZE_PX, 4)).astype(np.uint8)
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "TestCam"
    exif.get_ifd(0x8825)[2] = (48.0, 12.0, 30.0)
    rgb, rgba = Image.fromarray(pixels[:, :, :3]), Image.fromarray(pixels)
    files = {
        "jpeg": _saved(rgb, "JPEG", exif=exif, xmp=b"<rdf:RDF></rdf:RDF>"),
        "progressive": _saved(rgb, "JPEG", progressive=True),
        "cmyk": _saved(rgb.convert("CMYK"), "JPEG"),
        "png": _saved(rgba, "PNG", exif=exif),
        "palette": _saved(rgb.quantize(16), "PNG", transparency=3),
        "webp": _saved(rgba, "WEBP", exif=exif),
        "tiff": _saved(rgb, "TIFF", compression="tiff_lzw"),
        "gif": _saved(rgb, "GIF", save_all=True, append_images=[rgb.rotate(90)]),
        "bmp": _saved(rgb, "BMP"),
        "ppm": _saved(rgb, "PPM"),
        "avif": _saved(rgb, "AVIF"),
        "heic": _saved(rgb, "HEIF"),
        "float tiff": _saved(Image.fromarray(pixels[:, :, 0].astype(np.float32)), "TIFF"),
    }
    deep = pixels.astype(np.uint16) * 250
    for suffix in (".png", ".tiff"):
        files[f"deep {suffix}"] = cv2.imencode(suffix, deep)[1].tobytes()
    files["float colour tiff"] = cv2.imencode(".tiff", deep[:, :, :3].astype(np.float32))[1].tobytes()
    return files


def _saved(image: Image.Image, format_: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format_, **options)
    return file.getvalue()


def mutate(content: bytes, rng: random.Random, other: bytes) -> bytes:
    """The file with some bytes changed, a part cut out, repeated, or taken from another file."""
    broken = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        kind = rng.randrange(6)
        # Heads decide more than pixels do.
        place = rng.randrange(min(len(broken), 64)) if rng.random() < 0.5 else rng.randrange(len(broken))
        if kind == 0:
            broken[place] = rng.randrange(256)
        elif kind == 1:
            broken[place] ^= 1 << rng.randrange(8)
        elif kind == 2:
            broken[place : place + 4] = rng.choice(LENGTHS)
        elif kind == 3:
            del broken[place : place + rng.randrange(1, 64)]
        elif kind == 4:
            begin = rng.randrange(len(other))
            broken[place:place] = other[begin : begin + rng.randrange(1, 64)]
        else:
            del broken[max(1, place) :]
        broken = broken or bytearray(b"\0")
    return bytes(broken)


def check(content: bytes, folder: Path) -> str:
    """Read the file and write what came of it; `read`, or `refused` in one of our sentences. All else is an error."""
    try:
        photo = read_photo(content)
    except PhotoError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 600
        return "refused"
    assert photo.pixels.ndim == 3
    assert photo.pixels.shape[2] == 3
    assert photo.pixels.dtype == np.uint8
    if photo.width * photo.height < 100_000 and max(photo.width, photo.height) < 16_000:
        for suffix in (".png", ".jpg", ".webp", ".tif"):
            write_photo(photo, folder / f"out{suffix}", has_ai=True)
    return "read"
