"""The command over folders as people use it: killed, stopped, gone on with, pasted."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gpen_core import cli
from gpen_core.photo.io import read_photo
from gpen_core.photo.metadata import is_own_result

ROOT = Path(__file__).parent.parent
SCRIPT = [sys.executable, str(ROOT / "inference_gpen.py")]


def run(capsys, *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return caught.value.code, captured.out, captured.err


def make_folder(folder: Path, examples: Path, num_good: int, num_bad: int) -> dict[str, str]:
    """Small photos of one face, each its own, and broken files between them; their hashes."""
    folder.mkdir()
    with Image.open(examples / "astronaut-small.jpg") as image:
        face = image.convert("RGB").crop((70, 0, 230, 160)).resize((96, 96))
    for number in range(num_good):
        small = face.copy()
        small.putpixel((0, 0), (number % 256, number // 256, 0))
        small.save(folder / f"{number:04d}.png")
    for number in range(num_bad):
        step = max(1, num_good // num_bad)
        (folder / f"{number * step:04d}-bad.jpg").write_bytes(b"not a picture" * number)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def check_killed_and_resumed(tmp_path: Path, examples: Path, num_good: int, num_bad: int) -> None:
    folder, output = tmp_path / "in [1]", tmp_path / "out"
    before = make_folder(folder, examples, num_good, num_bad)
    command = [*SCRIPT, "-i", str(folder), "-o", str(output), "--skip-existing"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(list(output.glob("*.png"))) < num_good / 3:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done_before = {path.name: path.stat().st_mtime_ns for path in output.glob("*.png")}
    assert num_good / 3 <= len(done_before) < num_good
    second = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert second.returncode == 1
    results = {path.name: path for path in output.glob("*.png") if not path.name.startswith(".")}
    assert len(results) == num_good
    assert all(is_own_result(path) for path in results.values())
    assert all(results[name].stat().st_mtime_ns == moment for name, moment in done_before.items())
    failed = [line for line in second.stderr.splitlines() if line.startswith("failed: ")]
    assert len(failed) == num_bad
    lines = (output / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines if line.endswith("}")]
    counts = Counter(record["input"] for record in records if record["status"] in ("restored", "no faces"))
    assert max(counts.values()) == 1
    assert {record["input"] for record in records} == set(before)
    after = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    assert after == before
    shapes = {read_photo(path).pixels.shape for path in results.values()}
    assert shapes == {(96, 96, 3)}
    assert np.array_equal(read_photo(results["0007.png"]).pixels[0, 0], (7, 0, 0))


def test_a_killed_run_is_gone_on_with(tmp_path, examples):
    check_killed_and_resumed(tmp_path, examples, num_good=9, num_bad=2)


@pytest.mark.slow
def test_a_killed_run_over_300_photos_is_gone_on_with(tmp_path, examples):
    check_killed_and_resumed(tmp_path, examples, num_good=280, num_bad=20)


def test_ctrl_c_finishes_what_is_in_work(tmp_path, examples):
    make_folder(tmp_path / "in", examples, 40, 0)
    command = [*SCRIPT, "-i", "in", "-o", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not list((tmp_path / "out").glob("*.png")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "stopping after the photos in work" in err
    assert "photos are left" in err
    assert "Traceback" not in err
    written = sorted(path.name for path in (tmp_path / "out").glob("*.png"))
    assert 1 <= len(written) < 40
    assert out.count(" -> ") == len(written)
    assert not list((tmp_path / "out").glob(".gpen-*"))


def test_recursive_with_pattern_and_limit(tmp_path, examples, capsys):
    for name in ("a.jpg", "sub/b.jpg", "sub/deep [x]/c.jpg", "sub/d.png"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), "gray").save(path)
    code, out, _ = run(
        capsys, "-i", tmp_path / "in", "-o", tmp_path / "in" / "out", "--recursive", "--pattern", "*.JPG"
    )
    assert code == 0
    assert "3 photos: 0 restored, 3 no faces, 0 failed" in out
    assert (tmp_path / "in" / "out" / "sub" / "deep [x]" / "c.jpg").is_file()
    code, out, _ = run(capsys, "-i", tmp_path / "in", "-o", tmp_path / "o2", "--recursive", "--limit", "2")
    assert "2 photos" in out
    code, _, err = run(capsys, "-i", tmp_path / "in", "-o", tmp_path / "o3", "--pattern", "*.tif")
    assert code == 1
    assert "fits the pattern" in err


def test_crops_are_pasted_back_without_a_network(tmp_path, examples, capsys, monkeypatch):
    photo = examples / "group.jpg"
    code, _, _ = run(capsys, "-i", photo, "-o", tmp_path / "out.png", "--save-crops", "--sheet")
    assert code == 0
    assert (tmp_path / "out.png_sheet.jpg").is_file()
    monkeypatch.setattr("gpen_core.restorer.Restorer", lambda **_: pytest.fail("the networks were loaded"))
    code, out, _ = run(capsys, "-i", photo, "-o", tmp_path / "again.png", "--paste", tmp_path / "out.png_faces")
    assert code == 0
    assert "3 face crops" in out
    np.testing.assert_array_equal(read_photo(tmp_path / "again.png").pixels, read_photo(tmp_path / "out.png").pixels)


def test_formats_and_originals(tmp_path, examples, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (40, 30), "gray").save("photo.heic.png")
    assert run(capsys, "-i", "photo.heic.png", "--format", "webp")[0] == 0
    with Image.open("output_photo.heic.webp") as image:
        assert image.format == "WEBP"
    code, _, err = run(capsys, "-i", "photo.heic.png", "-o", "x.png", "--format", "jpeg")
    assert code == 1
    assert "not jpeg" in err
    before = Path("photo.heic.png").read_bytes()
    assert run(capsys, "-i", "photo.heic.png", "-o", "photo.heic.png")[0] == 1
    assert Path("photo.heic.png").read_bytes() == before
    assert run(capsys, "-i", "photo.heic.png", "--overwrite-originals")[0] == 0
    assert is_own_result(Path("photo.heic.png"))


def test_a_damaged_photo_is_restored_when_asked(tmp_path, examples, capsys):
    content = (examples / "group.jpg").read_bytes()
    (tmp_path / "half.jpg").write_bytes(content[: len(content) // 2])
    code, _, err = run(capsys, "-i", tmp_path / "half.jpg", "-o", tmp_path / "o.png")
    assert code == 1
    assert "--accept-damaged" in err
    code, out, _ = run(capsys, "-i", tmp_path / "half.jpg", "-o", tmp_path / "o.png", "--accept-damaged")
    assert code == 0
    assert "is missing" in out
