"""`gpen evaluate` as a person runs it."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gpen_core import cli
from gpen_core.evaluation.region import SIZE_PX
from gpen_core.models.registry import STARTER

ROOT = Path(__file__).parent.parent.parent
QUICK = "psnr,ssim,niqe,sharpness,color,seam,seconds"


def run(capsys, *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        cli.main(["evaluate", *(str(argument) for argument in arguments), "--device", "cpu"])
    captured = capsys.readouterr()
    return caught.value.code, captured.out, captured.err


@pytest.fixture
def two_portraits(tmp_path, examples) -> Path:
    folder = tmp_path / "good"
    folder.mkdir()
    for name in ("astronaut.jpg", "obama.jpg"):
        shutil.copy(examples / "originals" / name, folder)
    return folder


def test_portraits_are_damaged_restored_and_measured(tmp_path, two_portraits, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "basicsr", None)
    files = {kind: tmp_path / f"figures.{kind}" for kind in ("csv", "json", "png")}
    code, out, _ = run(
        capsys,
        *("--data", two_portraits, "--models", "starter-256", "--strengths", "heavy", "--metrics", QUICK),
        *("--csv", files["csv"], "--json", files["json"], "--sheet", files["png"], "--sheet-limit", "1"),
    )
    assert code == 0, out
    table = [line.split() for line in out.splitlines() if line.startswith("heavy")]
    assert [line[:2] for line in table] == [["heavy", model] for model in ("input", "unsharp", "starter-256")]
    assert "note: NIQE was not measured: basicsr cannot be imported" in out
    assert "the truth itself is soft: astronaut.jpg" in out

    with files["csv"].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 3
    assert {row["niqe"] for row in rows} == {""}
    before, after = (
        np.mean([float(r["psnr"]) for r in rows if r["model"] == model]) for model in ("input", "starter-256")
    )
    assert after > before
    assert f"{after:.2f}" in out

    told = json.loads(files["json"].read_text())
    assert told["models"][0]["sha256"] == STARTER.sha256
    assert told["models"][0]["device"] == "cpu"
    assert {"torch", "numpy"} <= set(told["machine"]["versions"])
    assert "load_average" in told["machine"]
    assert len(told["pictures"]) == len(rows)
    mean = next(m for m in told["means"] if (m["strength"], m["model"]) == ("heavy", "starter-256"))
    assert mean["num_pictures"] == 2
    assert mean["psnr"] == pytest.approx(after, abs=1e-3)

    with Image.open(files["png"]) as sheet:
        assert sheet.width >= 3 * SIZE_PX
        assert SIZE_PX < sheet.height < 2 * SIZE_PX
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figures.csv", "figures.json", "figures.png", "good"]


def test_given_inputs_are_compared_with_their_good_twins(tmp_path, two_portraits, capsys):
    inputs = tmp_path / "bad"
    inputs.mkdir()
    with Image.open(two_portraits / "obama.jpg") as photo:
        photo.resize((photo.width // 3, photo.height // 3)).save(inputs / "obama.png")
    code, out, _ = run(capsys, "--data", two_portraits, "--inputs", inputs, "--metrics", "psnr")
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines() if line.startswith("given")][2] == ["given", "starter-256"]
    assert "note: astronaut.jpg was left out" in out


def test_own_photos_need_no_truth(tmp_path, examples, capsys):
    folder = tmp_path / "own"
    folder.mkdir()
    shutil.copy(examples / "group.jpg", folder)
    (folder / "broken.jpg").write_text("not an image")
    figures, sheet = tmp_path / "own.csv", tmp_path / "own.png"
    code, out, _ = run(
        capsys,
        *("--data", folder, "--no-truth", "--metrics", "sharpness,seam,seconds", "--csv", figures, "--sheet", sheet),
    )
    assert code == 1
    assert "note: broken.jpg was left out" in out
    with figures.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["picture"] for row in rows if row["model"] == "input"] == [f"group.jpg#{n}" for n in range(3)]
    assert {float(row["seam"]) for row in rows if row["model"] == "input"} == {0.0}
    assert all(float(row["seconds"]) > 0 for row in rows if row["model"] == "starter-256")
    with Image.open(sheet) as picture:
        assert 2 * SIZE_PX <= picture.width < 3 * SIZE_PX


def test_nothing_to_measure_is_an_error(tmp_path, capsys):
    Image.new("RGB", (64, 64), "gray").save(tmp_path / "wall.png")
    code, _, err = run(capsys, "--data", tmp_path, "--metrics", "psnr")
    assert code == 1
    assert err.splitlines()[-1].startswith("error: No picture of ")
    assert "wall.png: no face was found" in err


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--models", "gfpgan"], 2, "no model or weights file 'gfpgan'"),
        (["--strengths", "awful"], 2, "no strength 'awful'"),
        (["--metrics", "beauty"], 2, "no metric 'beauty'"),
        (["--csv", "figures.txt"], 2, "ends in .csv"),
        (["--models", "absent.pth"], 1, "no weights file absent.pth"),
        (["--models", "gpen-bfr-512"], 1, "GPEN-BFR-512.pth"),
        (["--json", "there.json"], 1, "there.json exists"),
        (["--sheet", "absent/a.png"], 1, "no folder"),
        (["--data", "absent"], 1, "no folder absent"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(arguments, status, words, two_portraits, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.json").write_text("{}")
    code, out, err = run(capsys, "--data", two_portraits, *arguments)
    assert code == status
    assert words in err
    last = err.strip().splitlines()[-1]
    assert words in last
    assert "error: " in last
    assert out == ""
    assert (tmp_path / "there.json").read_text() == "{}"


def test_help_answers_without_numpy_and_the_main_help_names_it():
    probe = (
        "import sys, gpen_core.cli as cli\n"
        "try: cli.main(['evaluate', '--help'])\n"
        "except SystemExit as done: code = done.code\n"
        "heavy = {'torch', 'numpy', 'cv2', 'PIL', 'skimage', 'tqdm'} & set(sys.modules)\n"
        "print('HEAVY', sorted(heavy), code)"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "HEAVY [] 0" in done.stdout, done.stdout + done.stderr
    assert "--no-truth" in done.stdout
    assert "evaluate --help" in cli.build_parser(None).format_help()
