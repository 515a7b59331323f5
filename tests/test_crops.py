"""Crops go out with their place and come back, edited or not; a sheet shows before and after."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from gpen_core.crops import make_sheet, paste_crops, save_crops
from gpen_core.errors import PhotoError
from gpen_core.options import RestoreOptions
from gpen_core.photo.io import read_photo
from gpen_core.restorer import Restorer
from tests.fakes import ASTRONAUT_LANDMARKS, FakeCropRestorer, FakeDetector, checkerboard, face_at, frontal_face


@pytest.fixture
def result(astronaut):
    faces = (face_at(ASTRONAUT_LANDMARKS), frontal_face(60, 400, 30))
    restorer = Restorer(detector=FakeDetector(*faces), crop_restorer=FakeCropRestorer(checkerboard))
    return restorer.restore(astronaut)


def test_pasting_unedited_crops_gives_the_result(result, tmp_path):
    save_crops(result, tmp_path / "faces")
    pasted, notes = paste_crops(result.original, tmp_path / "faces", RestoreOptions())
    np.testing.assert_array_equal(pasted.pixels, result.photo.pixels)
    assert "2 face crops" in notes[0]
    half, _ = paste_crops(result.original, tmp_path / "faces", RestoreOptions(strength=0.5))
    np.testing.assert_array_equal(half.pixels, result.recompose(strength=0.5).photo.pixels)
    doubled, _ = paste_crops(result.original, tmp_path / "faces", RestoreOptions(scale=2))
    assert doubled.width == 1024


def test_an_edited_crop_changes_its_face_only_and_a_deleted_one_is_left_out(result, tmp_path):
    save_crops(result, tmp_path)
    path = tmp_path / "face-00-after.png"
    Image.fromarray(255 - read_photo(path).pixels).save(path)
    (tmp_path / "face-01-after.png").unlink()
    pasted, _ = paste_crops(result.original, tmp_path, RestoreOptions())
    changed = (pasted.pixels != result.original.pixels).any(axis=2)
    patch = result.composition.patches[0]
    inside = np.zeros_like(changed)
    inside[patch.y0 : patch.y1, patch.x0 : patch.x1] = patch.weights > 0
    assert changed.any()
    assert not changed[~inside].any()


def test_the_place_says_how_the_crop_lies_in_the_photo(result, tmp_path, astronaut):
    from gpen_core.faces.align import extract_crop

    save_crops(result, tmp_path)
    place = json.loads((tmp_path / "face-01.json").read_text())
    crop = extract_crop(astronaut, np.array(place["affine"]), place["crop_size"])
    np.testing.assert_array_equal(crop, read_photo(tmp_path / "face-01-before.png").pixels)


def test_crops_that_do_not_fit_are_refused(result, tmp_path, astronaut):
    with pytest.raises(PhotoError, match="holds no face crops"):
        paste_crops(result.original, tmp_path, RestoreOptions())
    save_crops(result, tmp_path)
    with pytest.raises(PhotoError, match="belongs to a photo of"):
        paste_crops(read_photo(astronaut[:300]), tmp_path, RestoreOptions())
    Image.new("RGB", (64, 64)).save(tmp_path / "face-00-after.png")
    with pytest.raises(PhotoError, match="must stay 256 x 256"):
        paste_crops(result.original, tmp_path, RestoreOptions())
    for broken in ("", "[]", "{}", '{"affine": [[0,0,0],[0,0,0]]}'):
        (tmp_path / "face-00.json").write_text(broken)
        with pytest.raises(PhotoError):
            paste_crops(result.original, tmp_path, RestoreOptions())


def test_a_sheet_shows_the_photo_and_each_face_twice(result):
    sheet = make_sheet(result)
    height, width = sheet.shape[:2]
    assert width > 2 * 512
    assert height > 512 + 2 * 256
    assert (sheet == 255).all(axis=2).mean() < 0.5
