from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gpen_core.batch import (
    check_output,
    crops_folder_for,
    list_photos,
    output_name,
    plan_outputs,
    restore_file,
    restore_folder,
)
from gpen_core.errors import Cancelled, PhotoError
from gpen_core.options import RestoreOptions
from gpen_core.photo.io import read_photo
from gpen_core.restorer import Restorer
from tests.fakes import ASTRONAUT_LANDMARKS, FakeCropRestorer, FakeDetector, face_at, identity

OPTIONS = RestoreOptions()


def restorer(paint=identity) -> Restorer:
    return Restorer(detector=FakeDetector(face_at(ASTRONAUT_LANDMARKS)), crop_restorer=FakeCropRestorer(paint))


@pytest.fixture
def folder(tmp_path, astronaut) -> Path:
    """A folder as people have them: photos in any spelling between other files."""
    folder = tmp_path / "Фото 家族 [1]"
    (folder / "sub").mkdir(parents=True)
    image = Image.fromarray(astronaut)
    for name in ("IMG_0001.JPEG", "a.jpg", "a.png", "my photo (2).final.jpeg", "x#1%20y.png", "тест é.JPG"):
        image.save(folder / name)
    image.save(folder / "sub" / "deeper.png")
    (folder / "text.jpg").write_text("not an image")
    (folder / "notes.txt").write_text("x")
    (folder / "._a.jpg").write_bytes(b"\0\5\x16\7")
    return folder


def hashes(folder: Path) -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def run(folder: Path, output: Path, paint=identity, **options):
    return list(restore_folder(restorer(paint), list_photos(folder).photos, output, OPTIONS, **options))


def test_photos_are_found_by_any_spelling_and_the_rest_is_counted(folder):
    listing = list_photos(folder)
    assert [path.name for path in listing.photos] == [
        "IMG_0001.JPEG",
        "a.jpg",
        "a.png",
        "my photo (2).final.jpeg",
        "text.jpg",
        "x#1%20y.png",
        "тест é.JPG",
    ]
    assert listing.num_ignored == 2


def test_a_folder_without_photos_is_an_error(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(PhotoError, match="holds no photo"):
        list_photos(tmp_path)
    with pytest.raises(PhotoError, match="could not be read"):
        list_photos(tmp_path / "absent")


def test_a_bad_file_does_not_stop_the_others(folder, tmp_path):
    before = hashes(folder)
    outcomes = run(folder, tmp_path / "out")
    assert {outcome.source.name: outcome.status for outcome in outcomes}["text.jpg"] == "failed"
    assert [outcome.status for outcome in outcomes].count("restored") == 6
    failed = next(outcome for outcome in outcomes if outcome.status == "failed")
    assert failed.output is None
    assert "not a picture" in failed.error
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == sorted(path.name for path in list_photos(folder).photos if path.name != "text.jpg")
    assert hashes(folder) == before


def test_a_network_that_fails_for_one_photo_does_not_stop_the_others(folder, tmp_path):
    calls = []

    def boom_once(crop):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("boom")
        return crop

    outcomes = run(folder, tmp_path / "out", boom_once)
    assert [outcome.status for outcome in outcomes].count("failed") == 2
    assert "RuntimeError: boom" in [outcome.error for outcome in outcomes]
    assert not list((tmp_path / "out").glob("*.part"))


def test_stopping_is_not_swallowed(folder, tmp_path):
    def stop(crop):
        raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        run(folder, tmp_path / "out", stop)


def test_a_second_run_replaces_its_own_results_and_nothing_else(folder, tmp_path):
    output = tmp_path / "out"
    run(folder, output)
    (output / "a.jpg").write_bytes((folder / "IMG_0001.JPEG").read_bytes())
    kept = (output / "a.jpg").read_bytes()
    outcomes = {outcome.source.name: outcome for outcome in run(folder, output)}
    assert outcomes["a.png"].status == "restored"
    assert outcomes["a.jpg"].status == "failed"
    assert "was not written by this program" in outcomes["a.jpg"].error
    assert (output / "a.jpg").read_bytes() == kept


def test_results_never_go_into_the_folder_of_the_originals(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    before = hashes(folder)
    for output in (folder, tmp_path / "link", folder / "sub" / ".."):
        with pytest.raises(PhotoError, match="never overwritten"):
            run(folder, output)
    assert hashes(folder) == before


def test_results_below_the_originals_are_not_read_again(folder):
    first = run(folder, folder / "out")
    second = run(folder, folder / "out")
    assert [o.source for o in first] == [o.source for o in second]


def test_an_original_is_never_overwritten(folder, tmp_path):
    photo = folder / "a.png"
    (tmp_path / "link.png").symlink_to(photo)
    for output in (photo, tmp_path / "link.png"):
        with pytest.raises(PhotoError, match="is the original"):
            restore_file(restorer(), photo, output, OPTIONS)
    with pytest.raises(PhotoError, match="was not written by this program"):
        restore_file(restorer(), photo, folder / "a.jpg", OPTIONS)


def test_outputs_that_cannot_work_are_refused_first(folder, tmp_path):
    with pytest.raises(PhotoError, match="no folder"):
        check_output(tmp_path / "absent" / "x.png", [])
    with pytest.raises(PhotoError, match="ends in"):
        check_output(tmp_path / "x.heic", [])
    (tmp_path / "x.png").mkdir()
    with pytest.raises(PhotoError, match="is a folder"):
        check_output(tmp_path / "x.png", [])


def test_names():
    assert output_name(Path("d/my photo (2).final.jpeg")) == "output_my photo (2).final.jpeg"
    assert output_name(Path("d/scan.bmp")) == "output_scan.png"
    assert output_name(Path("d/noending")) == "output_noending.png"
    photos = [Path("a.bmp"), Path("a.gif"), Path("A.png"), Path("a.jpg")]
    outputs = plan_outputs(photos, Path("out"))
    assert [path.name for path in outputs.values()] == ["a.png", "a-1.png", "A-2.png", "a.jpg"]


def test_faces_are_saved_beside_the_result(folder, tmp_path):
    output = tmp_path / "r.png"
    outcome = restore_file(restorer(), folder / "a.png", output, OPTIONS, crops_folder=crops_folder_for(output))
    crops = sorted(path.name for path in (tmp_path / "r.png_faces").iterdir())
    assert crops == ["face-00-after.png", "face-00-before.png"]
    np.testing.assert_array_equal(
        read_photo(tmp_path / "r.png_faces" / "face-00-after.png").pixels, outcome.result.faces[0].restored
    )


def test_each_format_stays_what_it_was(astronaut, tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a.png", "b.jpg", "c.webp", "d.tif", "e.jfif"):
        Image.fromarray(astronaut).save(tmp_path / "in" / name, format={"e.jfif": "JPEG"}.get(name))
    for outcome in run(tmp_path / "in", tmp_path / "out"):
        with Image.open(outcome.source) as before, Image.open(outcome.output) as after:
            assert after.format == before.format
