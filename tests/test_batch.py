from __future__ import annotations

import hashlib
import json
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gpen_core.batch import MAX_PHOTOS_AT_ONCE, restore_file, restore_folder
from gpen_core.errors import Cancelled, PhotoError
from gpen_core.folders import MANIFEST_NAME, check_output, crops_folder_for, list_photos, output_name
from gpen_core.options import BatchOptions, OutputOptions, RestoreOptions, RuntimeOptions
from gpen_core.photo.io import read_photo
from gpen_core.restorer import Restorer
from gpen_core.result import RestoreResult
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
    expected = [path.name for path in list_photos(folder).photos if path.name != "text.jpg"]
    assert written == sorted([*expected, MANIFEST_NAME])
    assert hashes(folder) == before


def test_a_network_that_fails_for_one_photo_does_not_stop_the_others(folder, tmp_path):
    Image.new("RGB", (512, 512)).save(folder / "black.png")

    def boom_at_black(crop):
        if not crop.any():
            raise RuntimeError("boom")
        return crop

    outcomes = run(folder, tmp_path / "out", boom_at_black)
    failed = {outcome.source.name: outcome.error for outcome in outcomes if outcome.status == "failed"}
    assert failed.keys() == {"black.png", "text.jpg"}
    assert failed["black.png"] == "RuntimeError: boom"
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


def test_faces_are_saved_beside_the_result(folder, tmp_path):
    output = tmp_path / "r.png"
    outcome = restore_file(
        restorer(), folder / "a.png", output, OPTIONS, written=OutputOptions(save_crops=True, sheet=True)
    )
    assert (tmp_path / "r.png_sheet.jpg").stat().st_size > 1000
    crops = sorted(path.name for path in crops_folder_for(output).iterdir())
    assert crops == ["face-00-after.png", "face-00-before.png", "face-00.json"]
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


def slow_restorer(seconds: float, batch_size: int = 4) -> Restorer:
    """Its network takes time without computing, as a GPU's does for the CPU."""

    def wait(crop):
        time.sleep(seconds)
        return crop

    return Restorer(
        runtime=RuntimeOptions(batch_size=batch_size),
        detector=FakeDetector(face_at(ASTRONAUT_LANDMARKS)),
        crop_restorer=FakeCropRestorer(wait),
    )


def many(folder: Path, count: int, astronaut) -> tuple[Path, ...]:
    folder.mkdir()
    Image.fromarray(astronaut).save(folder / "0000.jpg", quality=90)
    for number in range(1, count):
        (folder / f"{number:04d}.jpg").write_bytes((folder / "0000.jpg").read_bytes())
    return list_photos(folder).photos


def test_while_the_network_runs_the_next_is_read_and_the_last_is_written(tmp_path, astronaut, monkeypatch):
    photos = many(tmp_path / "in", 6, astronaut)
    restorer = slow_restorer(0, batch_size=1)
    begun, calls, alone = [], [], []
    begin, save = Restorer.begin, RestoreResult.save

    def wait_for(is_so) -> None:
        """`benchmarks.overlap` has the seconds; here it is enough that nobody waits in vain."""
        give_up = time.monotonic() + 30
        while not is_so() and time.monotonic() < give_up:
            time.sleep(0.005)
        if not is_so():
            alone.append(1)

    def counted_begin(self, *args, **named):
        begun.append(1)
        return begin(self, *args, **named)

    def network(crop):
        calls.append(1)
        wait_for(lambda: len(begun) > min(len(calls), len(photos) - 1))
        return crop

    def slow_save(self, path, *args):
        written = len(list(path.parent.glob("*.jpg")))
        wait_for(lambda: len(calls) > min(written + 1, len(photos) - 1))
        return save(self, path, *args)

    monkeypatch.setattr(Restorer, "begin", counted_begin)
    monkeypatch.setattr(RestoreResult, "save", slow_save)
    restorer.crop_restorer.paint = network
    outcomes = list(restore_folder(restorer, photos, tmp_path / "out", OPTIONS))
    assert [outcome.source for outcome in outcomes] == list(photos)
    assert not alone


def test_faces_of_several_photos_go_through_the_network_together(tmp_path, astronaut, monkeypatch):
    photos = many(tmp_path / "in", 12, astronaut)
    restorer, begun, begin = slow_restorer(0), [], Restorer.begin

    def counted(self, *args, **named):
        begun.append(1)
        return begin(self, *args, **named)

    def wait_for_readers(crop):
        give_up = time.monotonic() + 30
        while len(begun) < 9 and time.monotonic() < give_up:
            time.sleep(0.01)
        return crop

    monkeypatch.setattr(Restorer, "begin", counted)
    restorer.crop_restorer.paint = wait_for_readers
    outcomes = list(restore_folder(restorer, photos, tmp_path / "out", OPTIONS))
    assert all(outcome.status == "restored" for outcome in outcomes)
    assert restorer.crop_restorer.num_calls <= 8
    alone = slow_restorer(0).restore(photos[0]).photo.pixels
    np.testing.assert_array_equal(outcomes[5].result.photo.pixels, alone)


def test_few_photos_are_in_memory_at_once(tmp_path, astronaut, monkeypatch):
    photos = many(tmp_path / "in", 40, astronaut)
    seen = []
    most = 0
    begin = Restorer.begin

    def counted(self, *args, **named):
        nonlocal most
        prepared = begin(self, *args, **named)
        seen.append(weakref.ref(prepared.photo.pixels))
        most = max(most, sum(ref() is not None for ref in seen))
        return prepared

    monkeypatch.setattr(Restorer, "begin", counted)
    for _ in restore_folder(slow_restorer(0.005), photos, tmp_path / "out", OPTIONS):
        pass
    assert most <= MAX_PHOTOS_AT_ONCE + 2


def read_manifest(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / MANIFEST_NAME).read_text(encoding="utf-8").splitlines()]


def test_the_manifest_tells_everything(folder, tmp_path):
    run(folder, tmp_path / "out")
    records = {record["input"]: record for record in read_manifest(tmp_path / "out")}
    assert len(records) == 7
    good, bad = records["a.jpg"], records["text.jpg"]
    assert (good["status"], good["output"], good["faces_found"]) == ("restored", "a.jpg", 1)
    assert good["faces"][0]["decision"] == "restored"
    assert len(good["faces"][0]["box"]) == 4
    assert 0 < good["faces"][0]["score"] <= 1
    assert good["seconds"] > 0
    assert good["settings"]["model"] == "fake-256"
    assert good["settings"]["restore"]["strength"] == 1.0
    assert bad["status"] == "failed"
    assert "not a picture" in bad["error"]


def test_a_run_is_gone_on_with(folder, tmp_path):
    output = tmp_path / "out"
    resume = BatchOptions(skip_existing=True)
    outcomes = restore_folder(restorer(), list_photos(folder).photos, output, OPTIONS)
    for _ in range(3):
        next(outcomes)
    outcomes.close()
    with (output / MANIFEST_NAME).open("a") as file:
        file.write('{"program": "gpen_core", "input": "torn')
    (output / "x#1%20y.png").write_bytes(b"")
    second = {o.source.name: o for o in run(folder, output, batch=resume)}
    assert second["IMG_0001.JPEG"].status == "skipped"
    assert second["x#1%20y.png"].status == "restored"
    assert second["text.jpg"].status == "failed"
    lines = (output / MANIFEST_NAME).read_text(encoding="utf-8").splitlines()
    assert sum('"torn' in line for line in lines) == 1
    third = run(folder, output, batch=resume)
    assert [o.status for o in third].count("skipped") == 6
    # Another setting, or another photo under the name, is another result.
    options = RestoreOptions(strength=0.5)
    photos = list_photos(folder).photos
    again = restore_folder(restorer(), photos, output, options, batch=resume)
    assert [o.status for o in again].count("restored") == 6
    Image.new("RGB", (300, 200)).save(folder / "a.png")
    again = restore_folder(restorer(), photos, output, options, batch=resume)
    assert {o.source.name for o in again if o.status != "skipped"} == {"a.png", "text.jpg"}


def test_stopping_writes_what_is_in_work_and_begins_nothing(tmp_path, astronaut):
    photos = many(tmp_path / "in", 30, astronaut)
    stop = threading.Event()
    done = []
    for outcome in restore_folder(slow_restorer(0.02), photos, tmp_path / "out", OPTIONS, stop=stop):
        done.append(outcome)
        stop.set()
    assert 1 <= len(done) < 20
    assert len(list((tmp_path / "out").glob("*.jpg"))) == len(done) == len(read_manifest(tmp_path / "out"))
    assert not list((tmp_path / "out").glob(".gpen-*"))


def test_originals_are_replaced_only_when_that_is_asked_for(folder):
    written = OutputOptions(overwrite_originals=True)
    before = hashes(folder)
    photos = list_photos(folder).photos
    list(restore_folder(restorer(lambda crop: 255 - crop), photos, folder, OPTIONS, written=written))
    after = hashes(folder)
    changed = {Path(name).name for name in before if before[name] != after[name]}
    assert changed == {path.name for path in photos} - {"text.jpg"}
    again = restore_folder(restorer(), photos, folder, OPTIONS, written=written, batch=BatchOptions(skip_existing=True))
    assert [o.status for o in again].count("skipped") == 6
    assert hashes(folder)[str(folder / "a.png")] == after[str(folder / "a.png")]


def test_one_format_for_all(folder, tmp_path):
    outcomes = run(folder, tmp_path / "out", written=OutputOptions(format="webp"))
    names = {o.source.name: o.output.name for o in outcomes if o.output}
    assert names["my photo (2).final.jpeg"] == "my photo (2).final.webp"
    assert {names["a.jpg"], names["a.png"]} == {"a.webp", "a-png.webp"}
    for o in outcomes:
        if o.output:
            with Image.open(o.output) as image:
                assert image.format == "WEBP"


def test_an_output_that_cannot_be_written_is_named(folder, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full)
    outcomes = run(folder, tmp_path / "out")
    assert {o.status for o in outcomes} == {"failed"}
    assert sum("No space left" in o.error for o in outcomes) == 6
