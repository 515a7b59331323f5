"""A batch by Ray: the same results, lines and resume as on one machine, from any file system."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gpen_core import cli
from gpen_core.cluster import places, stages
from gpen_core.cluster.places import Place
from gpen_core.errors import PhotoError
from gpen_core.options import BatchOptions, OutputOptions, RestoreOptions, RuntimeOptions
from gpen_core.restorer import Restorer
from tests.fakes import FakeCropRestorer, FakeDetector, constant

pytest.importorskip("pyarrow", reason="the engine ray needs pyarrow, which is not here")


@pytest.fixture
def album(tmp_path, examples) -> Path:
    folder = tmp_path / "album"
    (folder / "1927 [a]").mkdir(parents=True)
    shutil.copy(examples / "astronaut-small.jpg", folder / "b.jpg")
    shutil.copy(examples / "astronaut-small.jpg", folder / "1927 [a]" / "Ж 1.JPG")
    (folder / "c.png").write_bytes(b"no picture")
    (folder / "notes.txt").write_text("x")
    (folder / "._b.jpg").write_bytes(b"x")
    return folder


def names(place, **options) -> list[str]:
    return [file.name for file in place.list_photos(BatchOptions(**options))]


def test_a_place_lists_photos_as_a_folder_does(album):
    place = places.place_of(str(album))
    assert names(place) == ["b.jpg", "c.png"]
    assert names(place, recursive=True) == ["b.jpg", "c.png", "1927 [a]/Ж 1.JPG"]
    assert names(place, recursive=True, pattern="*.JPG") == ["b.jpg", "1927 [a]/Ж 1.JPG"]
    assert names(place, limit=1) == ["b.jpg"]
    own = place.list_photos(BatchOptions())[0].state
    stat = (album / "b.jpg").stat()
    assert own == (stat.st_size, stat.st_mtime_ns)


def test_results_inside_the_photos_folder_are_not_photos(album):
    (album / "restored").mkdir()
    shutil.copy(album / "b.jpg", album / "restored" / "b.jpg")
    place, inside = places.place_of(str(album)), places.place_of(str(album / "restored"))
    found = [file.name for file in place.list_photos(BatchOptions(recursive=True), passed=inside)]
    assert found == ["b.jpg", "c.png", "1927 [a]/Ж 1.JPG"]


def test_an_empty_or_missing_folder_is_said(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(PhotoError, match="holds no photo"):
        places.place_of(str(tmp_path / "empty")).list_photos(BatchOptions())
    with pytest.raises(PhotoError, match="could not be read"):
        places.place_of(str(tmp_path / "missing")).list_photos(BatchOptions())
    with pytest.raises(PhotoError, match="cannot be reached"):
        places.place_of("nosuchthing://bucket/photos")


@pytest.mark.parametrize("address", ["{}", "memory://gpen-test"])
def test_files_and_manifests_of_any_file_system(address, tmp_path):
    place = places.place_of(address.format(tmp_path / "out"))
    assert place.sizes() == {}
    place.write("a/b.txt", b"one")
    place.write("a/b.txt", b"three")
    assert place.read("a/b.txt") == b"three"
    assert place.sizes() == {"a/b.txt": 5}
    place.add_manifest_part('{"input": "x", "status": "failed"}\n{"input": "y", "status": "restored"}\n')
    place.merge_manifest()
    place.add_manifest_part('{"input": "z", "status": "restored"}\n')
    lines = [json.loads(line)["input"] for line in place.merge_manifest().splitlines()]
    assert lines == ["x", "y", "z"]
    assert set(place.sizes()) == {"a/b.txt", "manifest.jsonl"}


def test_a_photo_done_twice_is_told_of_once(tmp_path):
    place = places.place_of(str(tmp_path))
    for _ in range(2):
        place.add_manifest_part('{"input": "x", "status": "restored"}\n')
    assert len(place.merge_manifest().splitlines()) == 1


def test_elsewhere_too_only_own_results_are_replaced(astronaut):
    source, output = Place("memory://gpen-photos"), Place("memory://gpen-results")
    restorer = Restorer(detector=FakeDetector(), crop_restorer=FakeCropRestorer(constant(0, 0, 0)))
    work = stages.Work(
        source=source,
        output=output,
        options=RestoreOptions(),
        written=OutputOptions(),
        runtime=RuntimeOptions(),
        network=stages.Absent.like(restorer.crop_restorer),
        settings="{}",
        notes=(),
    )
    result = restorer.restore(astronaut)
    for _ in range(2):
        assert stages._write(result, "a.png", "in/a.png", work).status == "no faces"
    output.write("in/b.png", b"somebody else's")
    with pytest.raises(PhotoError, match=r"b\.png"):
        stages._write(result, "b.png", "in/b.png", work)
    assert output.read("in/b.png") == b"somebody else's"


def run(capsys, *arguments) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        cli.main([str(argument) for argument in arguments])
    told = capsys.readouterr()
    return int(caught.value.code), told.out, told.err


def test_batch_runs_on_this_machine_by_default(album, tmp_path, capsys):
    code, out, err = run(capsys, "batch", "-i", album, "-o", tmp_path / "out", "--recursive")
    assert code == 1
    assert "3 photos: 2 restored, 0 no faces, 1 failed" in out and "c.png" in err
    assert run(capsys, "batch", "-i", album / "b.jpg", "-o", tmp_path / "out")[0] == 2
    assert run(capsys, "batch", "-i", album, "--engine", "ray")[0] == 2


@pytest.mark.slow
def test_ray_gives_the_same_files_and_goes_on(album, tmp_path, capsys, monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed")
    import torch

    # As many threads as Ray gives a process: another number adds up in another order.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        run(capsys, "batch", "-i", album, "-o", tmp_path / "here", "--recursive", "--model", "starter-256")
    finally:
        torch.set_num_threads(threads)
    ray = ("batch", "--engine", "ray", "-i", album, "-o", tmp_path / "there", "--recursive", "--model", "starter-256")
    code, out, err = run(capsys, *ray)
    assert code == 1
    assert "3 photos: 1 failed, 2 restored" in out and "c.png could not be read" in err
    for name in ("b.jpg", "1927 [a]/Ж 1.JPG"):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    here, there = (
        {record["input"]: record for record in map(json.loads, (tmp_path / place / "manifest.jsonl").open())}
        for place in ("here", "there")
    )
    assert here.keys() == there.keys()
    for name, record in here.items():
        same = ("program", "output", "status", "input_state", "settings")
        assert [record[key] for key in same] == [there[name][key] for key in same]
        assert set(record.get("notes", ())) == set(there[name].get("notes", ()))
    assert not (tmp_path / "there" / "manifest-parts").exists()
    code, out, _ = run(capsys, *ray, "--skip-existing")
    assert "3 photos: 1 failed, 2 skipped" in out
