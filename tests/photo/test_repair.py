"""A file without its last bytes is read with a note; one that lost a part of the picture is refused unless asked."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from pillow_heif import register_heif_opener

from gpen_core.errors import PhotoError
from gpen_core.photo.io import read_photo


def saved(pixels: np.ndarray, format_: str, **options) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format_, **options)
    return file.getvalue()


KINDS = {
    "JPEG": ("JPEG", {"quality": 95}),
    "progressive JPEG": ("JPEG", {"quality": 95, "progressive": True}),
    "gray JPEG": ("JPEG", {"quality": 90}),
    "PNG": ("PNG", {}),
}


@pytest.fixture(params=KINDS)
def file(request, astronaut) -> tuple[str, bytes]:
    format_, options = KINDS[request.param]
    pixels = astronaut[:, :, 0] if "gray" in request.param else astronaut
    return request.param, saved(pixels, format_, **options)


def test_a_missing_tail_is_a_note(file):
    whole = read_photo(file[1])
    # Without its last two bytes a PNG still has all its pixels.
    for cut in (90,) if file[0] == "PNG" else (2, 90):
        photo = read_photo(file[1][:-cut])
        assert "ends too early" in photo.notes[0]
        rows = round(0.97 * len(whole.pixels))
        assert np.abs(photo.pixels[:rows].astype(int) - whole.pixels[:rows]).mean() < 0.5


def test_a_missing_half_is_refused_unless_asked(file, astronaut):
    name, content = file
    # A progressive file has all rows early, but blurred: lost is what has not come to its last scans.
    cut = content[: len(content) // (6 if "progressive" in name else 2)]
    with pytest.raises(PhotoError, match="% of the picture is missing"):
        read_photo(cut)
    photo = read_photo(cut, accept_damaged=True)
    assert photo.pixels.shape == astronaut.shape
    assert "missing" in photo.notes[0]
    if name == "JPEG":
        whole = read_photo(content)
        np.testing.assert_array_equal(photo.pixels[:200], whole.pixels[:200])


def test_other_formats_and_damaged_heads_are_refused(astronaut):
    register_heif_opener()
    for format_ in ("WEBP", "TIFF", "AVIF", "HEIF"):
        content = saved(astronaut, format_)
        for accept in (False, True):
            with pytest.raises(PhotoError, match="could not be read"):
                read_photo(content[: len(content) // 2], accept_damaged=accept)
    for format_ in ("JPEG", "PNG"):
        with pytest.raises(PhotoError):
            read_photo(saved(astronaut, format_)[:20], accept_damaged=True)


def test_interlaced_and_paletted_png(astronaut):
    # Pillow writes no interlaced files: this is 8 x 8 gray, all passes in one stored row each.
    import zlib

    from gpen_core.photo.repair import ADAM7, PNG_SIGNATURE, png_chunk

    levels = np.arange(64, dtype=np.uint8).reshape(8, 8)
    raw = b"".join(b"\0" + levels[row, x::sx].tobytes() for x, y, sx, sy in ADAM7 for row in range(y, 8, sy))
    head = PNG_SIGNATURE + png_chunk(b"IHDR", bytes((0, 0, 0, 8, 0, 0, 0, 8, 8, 0, 0, 0, 1)))
    content = head + png_chunk(b"IDAT", zlib.compress(raw)) + png_chunk(b"IEND", b"")
    np.testing.assert_array_equal(read_photo(content).pixels[:, :, 0], levels)
    np.testing.assert_array_equal(read_photo(content[:-20]).pixels[:, :, 0], levels)
    paletted = io.BytesIO()
    Image.fromarray(astronaut).quantize(64).save(paletted, "PNG")
    assert "too early" in read_photo(paletted.getvalue()[:-30]).notes[0]
