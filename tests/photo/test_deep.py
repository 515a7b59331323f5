"""16-bit pictures come in at their depth, are seen in 8 bit, and go out with every bit they had."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from gpen_core.errors import PhotoError
from gpen_core.options import RestoreOptions
from gpen_core.photo import io as photo_io
from gpen_core.photo.deep import split_deep, turn_array
from gpen_core.photo.io import read_photo
from gpen_core.photo.profile import own_numbers
from gpen_core.photo.write import write_photo
from gpen_core.restorer import Restorer
from gpen_core.types import Photo
from tests.fakes import FakeCropRestorer, FakeDetector, constant, frontal_face


@pytest.fixture(scope="module")
def deep() -> np.ndarray:
    """(90, 80, 4) of 16 bit."""
    return np.random.default_rng(3).integers(0, 65536, (90, 80, 4)).astype(np.uint16)


def test_split_and_join_give_every_number_back():
    every = np.arange(65536, dtype=np.uint16).reshape(256, 256, 1)
    levels, alpha, fine = split_deep(every)
    assert alpha is None
    np.testing.assert_array_equal(levels[:, :, 0], np.rint(every[:, :, 0] / 257))
    np.testing.assert_array_equal(own_numbers(Photo(pixels=levels, fine=fine, depth=16), 16)[:, :, :1], every)


@pytest.mark.parametrize("suffix", [".png", ".tif"])
@pytest.mark.parametrize("channels", [3, 4])
def test_colour_files_keep_every_bit(deep, suffix, channels, tmp_path):
    bgr = deep[:, :, [2, 1, 0, 3][:channels]]
    cv2.imwrite(str(tmp_path / f"in{suffix}"), bgr)
    photo = read_photo(tmp_path / f"in{suffix}")
    assert photo.pixels.dtype == np.uint8
    np.testing.assert_array_equal(own_numbers(photo, 16), deep[:, :, :channels])
    for name in ("out.png", "out.tif"):
        assert write_photo(photo, tmp_path / name) == ()
        written = cv2.imread(str(tmp_path / name), cv2.IMREAD_UNCHANGED)
        np.testing.assert_array_equal(written, bgr)
    notes = write_photo(photo, tmp_path / "out.webp")
    assert "16 bit" in notes[0]


def test_float_colour_tiff(tmp_path):
    values = np.linspace(0, 1, 60 * 70 * 3, dtype=np.float32).reshape(60, 70, 3)
    cv2.imwrite(str(tmp_path / "float.tif"), values)
    photo = read_photo(tmp_path / "float.tif")
    expected = np.rint(values[:, :, ::-1].astype(float) * 65535)
    # Float has 24 bits, so the last of 16 may round the other way.
    np.testing.assert_allclose(own_numbers(photo, 16), expected, atol=1)


def test_a_large_float_tiff_is_refused_before_decoding(tmp_path, monkeypatch):
    cv2.imwrite(str(tmp_path / "float.tif"), np.zeros((200, 300, 3), np.float32))
    monkeypatch.setattr(photo_io, "MAX_MEGAPIXELS", 0.05)
    monkeypatch.setattr(cv2, "imdecode", lambda *_: pytest.fail("decoded"))
    with pytest.raises(PhotoError, match="megapixels"):
        read_photo(tmp_path / "float.tif")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turns_of_arrays_are_those_of_exif(orientation, tmp_path):
    stored = np.random.default_rng(1).integers(0, 256, (5, 4, 3)).astype(np.uint8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    Image.fromarray(stored).save(file, "PNG", exif=exif)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(file)))
    np.testing.assert_array_equal(turn_array(stored, orientation), expected)


@pytest.mark.parametrize("orientation", [1, 3, 6])
@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_turned_deep_photos_come_in_upright(orientation, suffix, deep, tmp_path):
    exif = Image.Exif()
    exif[0x010F] = "TestCam"
    photo = read_photo(np.ascontiguousarray(deep[:, :, :3]))
    path = tmp_path / f"in{suffix}"
    write_photo(photo, path)
    content = bytearray(path.read_bytes())
    if suffix == ".png":
        carrier = io.BytesIO()
        exif[0x0112] = orientation
        Image.new("RGB", (1, 1)).save(carrier, "PNG", exif=exif)
        chunk = carrier.getvalue()
        start = chunk.index(b"eXIf") - 4
        length = int.from_bytes(chunk[start : start + 4], "big") + 12
        pixels = content.index(b"IDAT") - 4
        content[pixels:pixels] = chunk[start : start + length]
    else:
        _set_tiff_orientation(content, orientation)
    back = read_photo(bytes(content))
    expected = turn_array(deep[:, :, :3], orientation)
    np.testing.assert_array_equal(own_numbers(back, 16), expected)


def _set_tiff_orientation(content: bytearray, orientation: int) -> None:
    """Make ProcessingSoftware (11), which precedes the sizes, the orientation tag, which few readers want sorted."""
    start = int.from_bytes(content[4:8], "little") + 2
    assert int.from_bytes(content[start : start + 2], "little") == 11
    entries = [bytes(content[start + 12 * k : start + 12 * k + 12]) for k in range(content[start - 2])]
    tag = (0x0112).to_bytes(2, "little") + (3).to_bytes(2, "little") + (1).to_bytes(4, "little")
    entries[0] = tag + orientation.to_bytes(4, "little")
    entries.sort(key=lambda entry: int.from_bytes(entry[:2], "little"))
    content[start : start + 12 * len(entries)] = b"".join(entries)


def test_restoring_keeps_16_bit_outside_the_faces(deep, tmp_path):
    cv2.imwrite(str(tmp_path / "in.png"), np.tile(deep[:, :, :3], (3, 3, 1)))
    face = frontal_face(130, 120, 24)
    restorer = Restorer(detector=FakeDetector(face), crop_restorer=FakeCropRestorer(constant(90, 10, 60)))
    result = restorer.restore(tmp_path / "in.png", RestoreOptions())
    assert result.num_shown == 1
    result.save(tmp_path / "out.png")
    before = cv2.imread(str(tmp_path / "in.png"), cv2.IMREAD_UNCHANGED)
    after = cv2.imread(str(tmp_path / "out.png"), cv2.IMREAD_UNCHANGED)
    assert after.dtype == np.uint16
    patch = result.composition.patches[0]
    inside = np.zeros(before.shape[:2], bool)
    inside[patch.y0 : patch.y1, patch.x0 : patch.x1] = patch.weights > 0
    np.testing.assert_array_equal(before[~inside], after[~inside])
    assert (before[inside] != after[inside]).any()
    doubled = restorer.restore(tmp_path / "in.png", RestoreOptions(scale=2))
    doubled.save(tmp_path / "twice.tif")
    assert cv2.imread(str(tmp_path / "twice.tif"), cv2.IMREAD_UNCHANGED).dtype == np.uint16
