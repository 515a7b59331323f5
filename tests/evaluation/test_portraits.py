from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gpen_core.errors import PhotoError
from gpen_core.evaluation.metrics import psnr
from gpen_core.evaluation.portraits import (
    GIVEN,
    Portrait,
    PortraitSource,
    Skipped,
    find_twin,
    list_pictures,
    make_cases,
    read_portraits,
)
from gpen_core.evaluation.region import SIZE_PX, face_region
from tests.fakes import ASTRONAUT_LANDMARKS, FakeDetector, face_at


def read(folder: Path, inputs: Path | None = None, *, is_aligned: bool = False, faces=(ASTRONAUT_LANDMARKS,)) -> list:
    detector = FakeDetector(*map(face_at, faces))
    photos = list_pictures(folder, 0)
    return list(read_portraits(PortraitSource(photos=photos, inputs=inputs, is_aligned=is_aligned, detector=detector)))


@pytest.fixture
def good(tmp_path, astronaut) -> Path:
    folder = tmp_path / "good"
    folder.mkdir()
    Image.fromarray(astronaut).save(folder / "a.png")
    return folder


@pytest.fixture
def bad(tmp_path) -> Path:
    folder = tmp_path / "bad"
    folder.mkdir()
    return folder


def test_the_largest_face_of_a_photo_is_aligned(good):
    small = (ASTRONAUT_LANDMARKS - 200) / 4 + 400
    (portrait,) = read(good, faces=(small, ASTRONAUT_LANDMARKS))
    (same,) = read(good)
    assert isinstance(portrait, Portrait)
    np.testing.assert_array_equal(portrait.truth, same.truth)
    assert portrait.truth.shape == (SIZE_PX, SIZE_PX, 3)
    assert portrait.enlargement == pytest.approx(1.4, abs=0.15)


def test_a_photo_without_a_face_is_named_and_is_no_failure(good):
    assert read(good, faces=()) == [Skipped(name="a.png", reason="no face was found", is_failure=False)]


def test_a_damaged_twin_of_another_size_is_aligned_like_the_good_photo(good, bad, astronaut):
    Image.fromarray(astronaut).resize((256, 256), Image.Resampling.BOX).save(bad / "a.jpg", quality=95)
    (portrait,) = read(good, bad)
    assert psnr(portrait.truth, portrait.damaged, face_region()) > 30
    (case,) = make_cases(portrait, ["light", "heavy"])
    assert case.strength == GIVEN
    np.testing.assert_array_equal(case.damaged, portrait.damaged)


def test_aligned_squares_are_taken_as_they_are(good, bad, astronaut):
    Image.fromarray(astronaut).resize((64, 64)).save(bad / "a.png")
    (portrait,) = read(good, bad, is_aligned=True, faces=())
    expected = astronaut.reshape(256, 2, 256, 2, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(portrait.truth, expected, atol=0.51)
    assert portrait.damaged.shape == portrait.truth.shape


@pytest.mark.parametrize(
    ("size", "is_aligned", "words"),
    [((300, 200), True, "leave --aligned out"), ((300, 200), False, "must show the same")],
)
def test_pictures_that_do_not_fit_are_failures(good, bad, size, is_aligned, words):
    Image.new("RGB", size).save(bad / "a.png")
    (skipped,) = read(good, bad, is_aligned=is_aligned)
    assert skipped.is_failure
    assert words in skipped.reason


def test_small_squares_make_no_truth(good):
    Image.new("RGB", (200, 200)).save(good / "a.png")
    (skipped,) = read(good, is_aligned=True)
    assert "200 x 200" in skipped.reason


def test_a_photo_without_a_twin_is_left_out(good, bad):
    Image.new("RGB", (512, 512)).save(bad / "b.png")
    (skipped,) = read(good, bad)
    assert "no picture of this name" in skipped.reason
    assert not skipped.is_failure


def test_twins_go_by_name_then_by_stem():
    twins = [Path("x/a.png"), Path("x/a.jpg"), Path("x/b.webp")]
    assert find_twin(Path("a.png"), twins) == Path("x/a.png")
    assert find_twin(Path("b.png"), twins) == Path("x/b.webp")
    assert find_twin(Path("a.tif"), twins) is None


def test_folders_are_checked(tmp_path, good):
    with pytest.raises(PhotoError, match="no folder"):
        list_pictures(tmp_path / "absent", 0)
    with pytest.raises(PhotoError, match="no folder"):
        read(good, tmp_path / "absent")
