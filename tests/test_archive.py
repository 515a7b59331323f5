"""Photos from anywhere into one ZIP."""

from __future__ import annotations

import json
import threading
import zipfile
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from gpen_core.archive import ArchiveLimits, NamedFile, restore_to_zip
from gpen_core.errors import Cancelled, OptionError
from gpen_core.options import OutputOptions, RestoreOptions
from gpen_core.photo.io import read_photo
from gpen_core.restorer import Restorer
from tests.fakes import FakeCropRestorer, FakeDetector, constant, frontal_face

OPTIONS = RestoreOptions()


@pytest.fixture
def restorer():
    detector = FakeDetector(frontal_face(60, 50, 30))
    return Restorer(crop_restorer=FakeCropRestorer(constant(255, 0, 0)), detector=detector)


@pytest.fixture
def uploads(tmp_path):
    """Each in a folder of its own, as a page keeps them; two of one name, one that is no picture."""
    names = ("a.png", "B.jpg", "broken.jpg", "A.PNG")
    files = []
    for number, name in enumerate(names):
        path = tmp_path / "uploads" / str(number) / name
        path.parent.mkdir(parents=True)
        if name == "broken.jpg":
            path.write_bytes(b"no picture")
        else:
            Image.fromarray(np.full((100, 120, 3), 40 * number, dtype=np.uint8)).save(path)
        files.append(NamedFile(path, name))
    return files


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    return folder / "results.zip"


def test_every_photo_has_its_own_result_and_the_broken_one_its_reason(restorer, uploads, target):
    photos = list(restore_to_zip(restorer, uploads, target, OPTIONS))
    assert [(photo.name, photo.status, photo.num_faces) for photo in photos] == [
        ("a.png", "restored", 1),
        ("B.jpg", "restored", 1),
        ("broken.jpg", "failed", 0),
        ("A-1.PNG", "restored", 1),
    ]
    with zipfile.ZipFile(target) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == ["A-1.PNG", "B.jpg", "a.png", "failures.txt", "manifest.jsonl"]
        failures = archive.read("failures.txt").decode()
        assert failures.startswith("broken.jpg: ") and "could not be read as a photo" in failures
        lines = [json.loads(line) for line in archive.read("manifest.jsonl").splitlines()]
        assert {line["input"]: line["status"] for line in lines} == {photo.name: photo.status for photo in photos}
        assert str(target.parent) not in failures + archive.read("manifest.jsonl").decode()
        for name, upload in (("a.png", uploads[0]), ("A-1.PNG", uploads[3])):
            alone = restorer.restore(upload.path.read_bytes(), OPTIONS)
            np.testing.assert_array_equal(np.asarray(Image.open(BytesIO(archive.read(name)))), alone.photo.pixels)
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    np.testing.assert_array_equal(read_photo(uploads[0].path).pixels, 0)


def test_what_lies_beside_a_result_comes_too(restorer, uploads, target):
    list(restore_to_zip(restorer, uploads[:1], target, OPTIONS, written=OutputOptions(save_crops=True, sheet=True)))
    with zipfile.ZipFile(target) as archive:
        assert {"a.png", "a.png_sheet.jpg", "a.png_faces/face-00-after.png"} <= set(archive.namelist())


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (ArchiveLimits(max_photos=1), "At most 1 photos"),
        (ArchiveLimits(max_megapixels=0.02), "At most 0.02 megapixels"),
        (ArchiveLimits(max_mib=0), "the ZIP holds at most 0 MB"),
        (ArchiveLimits(min_free_mib=10**9), "disk of the server is nearly full"),
    ],
)
def test_what_is_beyond_the_limits_is_named(uploads, target, limits, words):
    crops = FakeCropRestorer(constant(255, 0, 0))
    restorer = Restorer(crop_restorer=crops, detector=FakeDetector(frontal_face(60, 50, 30)))
    many = [uploads[0]] * 20
    photos = list(restore_to_zip(restorer, many, target, OPTIONS, limits=limits))
    restored = [photo for photo in photos if photo.status == "restored"]
    left_out = [photo for photo in photos if photo.status == "skipped"]
    assert len(photos) == len({photo.name for photo in photos}) == 20
    assert restored and left_out and all(words in photo.error for photo in left_out)
    with zipfile.ZipFile(target) as archive:
        assert {photo.output for photo in restored} <= set(archive.namelist())
        assert archive.read("failures.txt").decode().count(words) == len(left_out)


def test_stopped_it_keeps_what_is_finished(uploads, target):
    stop = threading.Event()
    num_calls = 0

    def paint(crop):
        nonlocal num_calls
        num_calls += 1
        if num_calls == 3:
            stop.set()
        return np.zeros_like(crop)

    detector = FakeDetector(frontal_face(60, 50, 30), frontal_face(50, 60, 20))
    restorer = Restorer(crop_restorer=FakeCropRestorer(paint), detector=detector)
    photos = list(restore_to_zip(restorer, [uploads[0]] * 30, target, OPTIONS, stop=stop))
    done = {photo.output for photo in photos if photo.status == "restored"}
    skipped = [photo for photo in photos if photo.status == "skipped"]
    assert len(done) + len(skipped) == 30 and len(skipped) > 20
    assert all("stopped" in photo.error for photo in skipped)
    with zipfile.ZipFile(target) as archive:
        assert archive.testzip() is None
        assert {name for name in archive.namelist() if name.endswith(".png")} == done


def test_left_in_the_midst_nothing_stays(restorer, uploads, target):
    photos = restore_to_zip(restorer, uploads, target, OPTIONS)
    next(photos)
    photos.close()
    assert list(target.parent.iterdir()) == []

    def refuse(step):
        raise Cancelled("gone")

    with pytest.raises(Cancelled):
        list(restore_to_zip(restorer, uploads, target, OPTIONS, on_progress=refuse))
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "kept"),
    [("../../etc/x.png", "x.png"), ("C:\\photos\\y.png", "y.png"), (".z.png", "z.png"), ("老照片.png",) * 2],
)
def test_names_lead_nowhere(restorer, uploads, target, name, kept):
    (photo,) = restore_to_zip(restorer, [NamedFile(uploads[0].path, name)], target, OPTIONS)
    assert photo.output == kept
    with zipfile.ZipFile(target) as archive:
        assert kept in archive.namelist()


def test_no_photos_is_an_error(restorer, target):
    with pytest.raises(OptionError, match="no photos"):
        list(restore_to_zip(restorer, [], target, OPTIONS))
