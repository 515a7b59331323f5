"""The command as a person runs it, in its own process where that matters."""

from __future__ import annotations

import dataclasses
import json
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from gpen_core import cli
from gpen_core.cli_photos import stage_shower
from gpen_core.options import BatchOptions, OutputOptions, RestoreOptions, RuntimeOptions
from gpen_core.photo.io import read_photo
from gpen_core.types import Progress
from gpen_core.version import __version__

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "inference_gpen.py"


def command(*arguments: str | Path, cwd: Path, script: tuple[str, ...] = (str(SCRIPT),)):
    return subprocess.run(
        [sys.executable, *script, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False
    )


def run(capsys, *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return caught.value.code, captured.out, captured.err


def test_without_arguments_the_example_is_restored_into_the_current_folder(tmp_path, examples):
    done = command(cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["output_group.jpg"]
    assert "3 of 3 faces restored" in done.stdout
    assert read_photo(tmp_path / "output_group.jpg").pixels.shape == read_photo(examples / "group.jpg").pixels.shape
    assert command(cwd=tmp_path).returncode == 0


def test_help_and_version_answer_without_torch(tmp_path):
    probe = (
        "import sys, gpen_core.cli as cli\n"
        "try: cli.main([sys.argv[1], *(['-i', 'x'] if False else [])])\n"
        "except SystemExit as done: code = done.code\n"
        "heavy = {'torch', 'numpy', 'cv2', 'PIL', 'gradio', 'onnxruntime'} & set(sys.modules)\n"
        "print('HEAVY', sorted(heavy), code)"
    )
    for flag in ("--help", "--version"):
        done = command(flag, cwd=tmp_path, script=("-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{probe}"))
        assert "HEAVY [] 0" in done.stdout, done.stdout + done.stderr
    assert command("--version", cwd=tmp_path).stdout.strip() == f"gpen_core {__version__}"


def test_the_module_is_the_same_command(tmp_path):
    done = command("--version", cwd=ROOT, script=("-m", "gpen_core"))
    assert done.stdout.strip() == f"gpen_core {__version__}"
    assert command(cwd=ROOT, script=("-m", "gpen_core")).returncode == 2


def test_flags_have_the_defaults_of_the_options(tmp_path):
    args = cli.build_parser(None).parse_args(["-i", "photo.jpg"])
    for options in (RestoreOptions, RuntimeOptions, OutputOptions, BatchOptions):
        for field in dataclasses.fields(options):
            assert getattr(args, field.name) == field.default


def test_every_flag_reaches_its_option():
    line = (
        "-i x --model starter-256 --strength 0.5 --scale 2 --faces 0,2 --device cpu --precision bf16 --tile 512 "
        "--overlap 64 --compile --no-keep-tone --threshold 0.7 --min-face 30 --max-faces 3 --template gpen "
        "--batch-size 2 --quality 80 --weights w.pth --mode both --background off --background-strength 0.3 --grain "
        "--lock-color --upscaler-weights u.pth"
    )
    args = cli.build_parser(None).parse_args(shlex.split(line))
    assert (args.strength, args.scale, args.faces, args.tile_px, args.overlap_px) == (0.5, 2, "0,2", 512, 64)
    assert (args.compile, args.keep_tone, args.threshold, args.min_face_px) == (True, False, 0.7, 30)
    assert (args.max_faces, args.template, args.batch_size, args.quality) == (3, "gpen", 2, 80)
    assert (args.model, args.device, args.precision, args.weights) == ("starter-256", "cpu", "bf16", "w.pth")
    assert (args.mode, args.background, args.background_strength) == ("both", "off", 0.3)
    assert (args.grain, args.lock_color, args.upscaler_weights) == (True, True, "u.pth")
    args = cli.build_parser(None).parse_args(["-i", "x", "--tile", "auto", "--overlap", "auto", "--unload-after", "60"])
    assert (args.tile_px, args.overlap_px, args.unload_after_s) == ("auto", "auto", 60)
    assert cli.build_parser(None).parse_args(["-i", "x", "--strength", "auto"]).strength == "auto"


def test_compiling_is_shown_beside_the_bar():
    shown = []
    bar = SimpleNamespace(set_postfix_str=shown.append)
    show = stage_shower(bar)
    show(Progress("compile", 0, 1, "compiling for 512 px, first time only"))
    show(Progress("restore", 2, 5))
    assert shown == ["compiling for 512 px, first time only", "restore 2/5"]


def test_one_photo_with_report_and_crops(tmp_path, examples, capsys, starter):
    output, report = tmp_path / "out.png", tmp_path / "r.json"
    code, out, _ = run(
        capsys, "-i", examples / "group.jpg", "-o", output, "--report", report, "--save-crops", "--faces", "1"
    )
    assert code == 0
    assert "1 of 3 faces restored" in out
    assert "note: Face 0 was skipped: not selected" in out
    told = json.loads(report.read_text())
    assert told["output"] == str(output)
    assert [face["decision"] for face in told["faces"]] == ["skipped", "restored", "skipped"]
    for key in ("model", "device", "precision", "scale", "notes", "seconds"):
        assert key in told
    assert all(len(face["box"]) == 4 and 0 < face["score"] <= 1 for face in told["faces"])
    assert told["outside_faces_unchanged"] is True
    assert len(list((tmp_path / "out.png_faces").iterdir())) == 3
    expected = starter.restore(examples / "group.jpg", RestoreOptions(faces="1")).photo.pixels
    np.testing.assert_array_equal(read_photo(output).pixels, expected)


def test_strength_zero_gives_the_photo_back(tmp_path, examples, capsys):
    output = tmp_path / "out.png"
    code, _, _ = run(capsys, "-i", examples / "astronaut-small.jpg", "-o", output, "--strength", "0")
    assert code == 0
    np.testing.assert_array_equal(
        read_photo(output).pixels, np.asarray(Image.open(examples / "astronaut-small.jpg").convert("RGB"))
    )


def test_a_folder_with_a_bad_file(tmp_path, examples, capsys):
    folder = tmp_path / "in [1]"
    folder.mkdir()
    (folder / "good.JPG").write_bytes((examples / "astronaut-small.jpg").read_bytes())
    Image.new("RGB", (64, 64), "gray").save(folder / "empty.png")
    (folder / "text.jpg").write_text("not an image")
    (folder / "notes.txt").write_text("x")
    code, out, err = run(capsys, "-i", folder, "-o", tmp_path / "out", "--report", tmp_path / "r.json")
    assert code == 1
    assert "3 photos: 1 restored, 1 no faces, 1 failed; 1 other files ignored" in out
    assert "note: No face was found" in out
    assert "failed: text.jpg" in err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["empty.png", "good.JPG", "manifest.jsonl"]
    told = json.loads((tmp_path / "r.json").read_text())
    assert [entry["status"] for entry in told] == ["no faces", "restored", "failed"]
    assert "not a picture" in told[2]["error"]
    (folder / "text.jpg").unlink()
    assert run(capsys, "-i", folder, "-o", tmp_path / "out")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-i", "absent.jpg"], "no file or folder absent.jpg"),
        (["-i", "text.jpg"], "could not be read as a photo"),
        (["-i", "photo.png", "-o", "photo.png"], "never overwritten"),
        (["-i", "photo.png", "-o", "other.png"], "not written by this program"),
        (["-i", "photo.png", "-o", "x.heic"], "ends in '.heic'"),
        (["-i", "photo.png", "-o", "absent/x.png"], "no folder absent"),
        (["-i", "photo.png", "--report", "absent/r.json"], "no folder"),
        (["-i", "photo.png", "--report", "other.png"], "must end in .json"),
        (["-i", "photo.png", "--detector", "retinaface-r50"], "RetinaFace-R50.pth"),
        (["-i", "photo.png", "--weights", "absent.pth"], "no weights file absent.pth"),
        (["-i", "photo.png", "--model", "gpen-bfr-512"], "GPEN-BFR-512.pth"),
        (["-i", "photo.png", "--faces", "4"], "no face 4"),
        (["-i", "empty"], "holds no photo"),
        (["-i", "folder", "-o", "folder"], "never overwritten"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_status_one(arguments, words, tmp_path, monkeypatch, capsys, astronaut):
    monkeypatch.chdir(tmp_path)
    Image.fromarray(astronaut).save("photo.png")
    Image.fromarray(astronaut).save("other.png")
    Path("text.jpg").write_text("not an image")
    Path("empty").mkdir()
    Path("folder").mkdir()
    Image.fromarray(astronaut).save("folder/a.png")
    before = {path: path.read_bytes() for path in Path().rglob("*.png")}
    code, _, err = run(capsys, *arguments)
    assert code == 1
    assert words in err
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in Path().rglob("*.png")} == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--strength", "2"], "0 to 1"),
        (["--strength", "much"], "--strength"),
        (["--scale", "5"], "1 to 4"),
        (["--mode", "all"], "--mode"),
        (["--background", "esrgan"], "--background"),
        (["--faces", "some"], "largest"),
        (["--device", "gpu"], "cuda"),
        (["--tile", "many"], "--tile"),
        (["--quality", "0"], "1 to 100"),
    ],
)
def test_wrong_flags_are_status_two(arguments, words, capsys):
    code, _, err = run(capsys, "-i", "photo.jpg", *arguments)
    assert code == 2
    assert words in err
