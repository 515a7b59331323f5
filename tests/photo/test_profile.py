"""A photo in another colour space than sRGB is written in its own again, with its own numbers outside the faces."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest
from PIL import Image, ImageCms

from gpen_core.options import OutputOptions, RestoreOptions
from gpen_core.photo import profile as photo_profile
from gpen_core.photo.io import read_photo
from gpen_core.photo.profile import from_srgb, srgb_profile
from gpen_core.photo.write import write_photo
from gpen_core.restorer import Restorer
from tests.fakes import FakeCropRestorer, FakeDetector, constant, frontal_face
from tests.photo.profiles import wide_profile


def write_numbers(numbers, path, profile):
    """A file of these (H, W, 3 or 4) numbers, 8 or 16 bit, with a profile."""
    if numbers.dtype == np.uint8:
        Image.fromarray(numbers).save(path, icc_profile=profile)
        return
    levels = (numbers // 257).astype(np.uint8)
    fine = numbers.astype(np.int32) - levels.astype(np.int32) * 257
    alpha = levels[:, :, 3] if levels.shape[2] == 4 else None
    photo = replace(read_photo(np.ascontiguousarray(levels[:, :, :3])), alpha=alpha, fine=fine, depth=16, icc=profile)
    write_photo(photo, path)


def read_numbers(path):
    """As stored, RGB or RGBA."""
    stored = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    return stored[:, :, [2, 1, 0, 3][: stored.shape[2]]]


@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize(
    ("dtype", "names"),
    [(np.uint8, ("in.png", "out.png")), (np.uint16, ("in.png", "out.tif")), (np.uint16, ("in.tif", "out.png"))],
)
def test_every_number_comes_back_in_the_files_own_space(dtype, names, channels, tmp_path):
    top = np.iinfo(dtype).max
    numbers = np.random.default_rng(0).integers(0, top + 1, (40, 50, channels)).astype(dtype)
    write_numbers(numbers, tmp_path / names[0], wide_profile())
    photo = read_photo(tmp_path / names[0])
    assert not np.array_equal(photo.pixels, (numbers[:, :, :3] // (257 if top > 255 else 1)).astype(np.uint8))
    assert write_photo(photo, tmp_path / names[1]) == ()
    np.testing.assert_array_equal(read_numbers(tmp_path / names[1]), numbers)
    with Image.open(tmp_path / names[1]) as written:
        assert written.info["icc_profile"] == wide_profile()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_outside_the_faces_a_restored_photo_has_its_own_numbers(dtype, astronaut, tmp_path):
    numbers = astronaut.astype(dtype) * (257 if dtype == np.uint16 else 1)
    write_numbers(numbers, tmp_path / "in.png", wide_profile())
    restorer = Restorer(
        detector=FakeDetector(frontal_face(224, 102, 50)), crop_restorer=FakeCropRestorer(constant(90, 60, 200))
    )
    result = restorer.restore(tmp_path / "in.png", RestoreOptions())
    result.save(tmp_path / "out.png")
    written = read_numbers(tmp_path / "out.png")
    assert written.dtype == dtype
    patch = result.composition.patches[0]
    inside = np.zeros(numbers.shape[:2], bool)
    inside[patch.y0 : patch.y1, patch.x0 : patch.x1] = patch.weights > 0
    np.testing.assert_array_equal(written[~inside], numbers[~inside])
    full = patch.weights >= 1
    painted = read_photo(tmp_path / "out.png").pixels[patch.y0 : patch.y1, patch.x0 : patch.x1][full]
    wanted = result.photo.pixels[patch.y0 : patch.y1, patch.x0 : patch.x1][full]
    difference = np.abs(painted.astype(int) - wanted)
    assert np.median(difference) <= 1
    # What is left is how far the original's colours lie beyond sRGB, which the face keeps as the skin around it does.
    assert difference.mean() < 3


def test_a_result_of_another_size_stays_in_its_space(astronaut, tmp_path):
    write_numbers(astronaut, tmp_path / "in.png", wide_profile())
    restorer = Restorer(detector=FakeDetector(), crop_restorer=FakeCropRestorer(constant(0, 0, 0)))
    result = restorer.restore(tmp_path / "in.png", RestoreOptions(scale=2))
    result.save(tmp_path / "out.png")
    written = read_numbers(tmp_path / "out.png")
    assert written.shape[:2] == (1024, 1024)
    small = cv2.resize(written, (512, 512), interpolation=cv2.INTER_AREA)
    assert np.abs(small.astype(int) - astronaut).mean() < 2


@pytest.mark.parametrize("suffix", [".jpg", ".webp"])
def test_formats_of_8_bit_get_the_nearest_numbers(suffix, tmp_path):
    numbers = np.linspace(3000, 60000, 40 * 50 * 3).reshape(40, 50, 3).astype(np.uint16)
    write_numbers(numbers, tmp_path / "in.png", wide_profile())
    notes = write_photo(read_photo(tmp_path / "in.png"), tmp_path / f"out{suffix}", OutputOptions(quality=100))
    assert "16 bit" in notes[0]
    with Image.open(tmp_path / f"out{suffix}") as written:
        assert written.info["icc_profile"] == wide_profile()
        assert np.abs(np.asarray(written).astype(int) - numbers / 257).max() <= (3 if suffix == ".jpg" else 0.5)


def test_a_profile_without_a_way_back_ends_in_srgb_and_says_so(astronaut, tmp_path, monkeypatch):
    def no_way_back(pixels, profile):
        raise ImageCms.PyCMSError("no such table")

    write_numbers(astronaut, tmp_path / "in.png", wide_profile())
    monkeypatch.setattr(photo_profile, "from_srgb", no_way_back)
    photo = read_photo(tmp_path / "in.png")
    assert (photo.own_profile, photo.fine) == (None, None)
    assert photo.icc == srgb_profile()
    assert "way back" in photo.notes[0]


def test_srgb_numbers_are_left_as_they_are(astronaut, tmp_path):
    write_numbers(astronaut, tmp_path / "in.png", srgb_profile())
    photo = read_photo(tmp_path / "in.png")
    np.testing.assert_array_equal(photo.pixels, astronaut)
    assert (photo.own_profile, photo.fine) == (None, None)


def test_there_and_back_is_the_same_to_the_rounding(astronaut):
    back = photo_profile.to_srgb(Image.fromarray(from_srgb(astronaut, wide_profile())), wide_profile(), "RGB")
    assert np.abs(back.astype(int) - astronaut).mean() < 1
