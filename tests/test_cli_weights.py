"""`models`, `download` and `verify`, and that what they brought is used: from the command, and on the page."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import app
from gpen_core import cli
from gpen_core.models.gpen import Generator
from gpen_core.models.registry import PORTRAIT, SPECS
from gpen_core.options import RuntimeOptions
from gpen_core.types import Progress
from page.jobs import Restorers
from page.site import Site, step_words
from tests.hub_server import HubServer

ROOT = Path(__file__).parents[1]
KEY = f"{PORTRAIT}/pytorch_model.pt"


@pytest.fixture(scope="module")
def generator_file(tmp_path_factory) -> Path:
    """A generator of 512 px, as narrow as can be."""
    path = tmp_path_factory.mktemp("generator") / "pytorch_model.pt"
    torch.save(Generator(512, style_dim=16, num_mlp_layers=2, channel_multiplier=1, narrow=1 / 32).state_dict(), path)
    return path


@pytest.fixture
def hub(monkeypatch, tmp_path, generator_file):
    with HubServer() as server:
        server.files[KEY] = generator_file
        monkeypatch.delenv("GPEN_OFFLINE")
        monkeypatch.setenv("GPEN_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", server.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server


def run(capsys, *arguments) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        cli.main([str(argument) for argument in arguments])
    told = capsys.readouterr()
    return int(caught.value.code), told.out, told.err


def row(table: str, name: str) -> str:
    return next(line for line in table.splitlines() if line.startswith(f"{name} "))


def test_downloaded_once_and_used_ever_after(hub, capsys, tmp_path, examples, monkeypatch):
    code, out, err = run(capsys, "download", "gpen-bfr-512")
    assert code == 0
    assert "gpen-bfr-512: verified, " in out and "fetched from ModelScope" in out
    assert out.count("licence: academic, non-commercial use (the authors publish no licence file") == 1
    assert err == "fetching gpen-bfr-512\n"

    photo, report = examples / "astronaut-small.jpg", tmp_path / "report.json"
    arguments = ("-i", photo, "-o", tmp_path / "out.png", "--report", report, "--model")
    asked = list(hub.asked)

    def refuse(*args, **kwargs):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    for model in ("gpen-bfr-512", "auto"):
        code, out, err = run(capsys, *arguments, model)
        assert (code, err) == (0, "")
        assert "gpen-bfr-512, cpu" in out
        assert json.loads(report.read_text())["model"] == "gpen-bfr-512"
    assert hub.asked == asked
    code, out, _ = run(capsys, "download", "gpen-bfr-512")
    assert code == 0 and "verified" in out and "fetched" not in out


def test_a_model_asked_for_by_name_is_fetched_by_the_restoring_command_too(hub, capsys, tmp_path, examples):
    photo = examples / "astronaut-small.jpg"
    code, out, err = run(capsys, "-i", photo, "-o", tmp_path / "out.png", "--model", "gpen-bfr-512")
    assert code == 0
    assert "gpen-bfr-512, cpu" in out and "note: gpen-bfr-512 was fetched from ModelScope" in out
    assert out.count("licence: academic, non-commercial use") == 1
    assert err == "fetching gpen-bfr-512\n"


def test_the_starter_runs_and_says_why(capsys, tmp_path, examples):
    code, out, _ = run(capsys, "-i", examples / "astronaut-small.jpg", "-o", tmp_path / "out.png")
    assert code == 0
    assert "note: starter-256 was used, because no official GPEN weights are on this machine" in out


def test_the_table_says_what_is_where(hub, capsys, tmp_path):
    code, before, _ = run(capsys, "models")
    assert code == 0
    assert set(SPECS) <= {line.split()[0] for line in before.splitlines()}
    assert row(before, "gpen-bfr-512").split()[1:6] == ["generator", "284", "MB", "no", "-"]
    assert "ModelScope (iic/cv_gpen_image-portrait-enhancement)" in row(before, "gpen-bfr-512")
    assert row(before, "starter-256").split()[4:6] == ["yes", "yes"]
    assert "no licence file" in before
    run(capsys, "download", "gpen-bfr-512")
    (tmp_path / "cache" / "GPEN-BFR-1024.pth").write_bytes(b"by hand")
    _, after, _ = run(capsys, "models")
    assert row(after, "gpen-bfr-512").split()[4:6] == ["yes", "yes"]
    assert row(after, "gpen-bfr-1024").split()[4:6] == ["yes", "no"]
    assert str(tmp_path / "cache" / "GPEN-BFR-512.pth") in after


def test_verify_names_what_is_broken_and_touches_nothing(hub, capsys, tmp_path):
    run(capsys, "download", "gpen-bfr-512")
    code, out, err = run(capsys, "verify")
    assert (code, err) == (0, "")
    assert (
        "gpen-bfr-512: verified, and it fits" in out and "starter-256: verified" in out and "nothing is broken" in out
    )

    cache = tmp_path / "cache"
    (cache / "GPEN-BFR-1024.pth").write_bytes((cache / "GPEN-BFR-512.pth").read_bytes())
    (cache / "RetinaFace-R50.pth").write_bytes(b"half a file")
    before = {path: hashlib.sha256(path.read_bytes()).digest() for path in cache.glob("*.pth*")}
    code, out, err = run(capsys, "verify")
    assert code == 1 and "2 broken" in out
    assert "512 px, but the chosen model has 1024 px" in err and "RetinaFace-R50.pth" in err
    assert {path: hashlib.sha256(path.read_bytes()).digest() for path in cache.glob("*.pth*")} == before
    assert run(capsys, "verify", "gpen-bfr-512")[0] == 0


def test_what_cannot_be_fetched_is_named_and_the_others_go_on(hub, capsys, monkeypatch):
    code, out, err = run(capsys, "download", "gpen-bfr-1024", "gpen-bfr-512", "retinaface-mobile")
    assert code == 1
    assert "failed: The weights of gpen-bfr-1024 are not on this machine" in err and "has no file" in err
    assert "gpen-bfr-512: verified" in out and "retinaface-mobile: comes with this program" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["gpen-512"], "gpen-bfr-512"), ([], "name the models"), (["parsenet", "--all"], "name the models")],
)
def test_wrong_names_are_status_two(capsys, arguments, words):
    code, _, err = run(capsys, "download", *arguments)
    assert code == 2 and words in err


def test_a_download_that_could_not_be_kept_is_not_begun(hub, capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("GPEN_CACHE", str(tmp_path / "file" / "cache"))
    code, _, err = run(capsys, "download", "gpen-bfr-512")
    assert code == 1 and err.count("\n") == 1
    assert err.startswith("error: Nothing was fetched, because the cache folder")
    assert hub.asked == []


def test_the_page_fetches_what_is_chosen_and_shows_how_far_it_is(hub, examples):
    shown = []

    def report(step: Progress) -> None:
        shown.append(step_words(step, "en"))

    restorer = Restorers(RuntimeOptions(device="cpu"))("gpen-bfr-512", report)
    assert restorer.model_name == "gpen-bfr-512"
    words = r"Fetching the weights \(gpen-bfr-512, ([\d.]+) of \1 MB, [\d.]+ MB/s\)"
    assert any(re.fullmatch(words, desc) for _, desc in shown)
    assert all(0 <= share <= 1 for share, _ in shown)
    assert any("fetched from ModelScope" in note for note in restorer.restore(examples / "astronaut-small.jpg").notes)
    report(Progress("fetch", 5, 0, "of unknown size"))


def test_the_page_offers_what_can_be_fetched_and_says_why_the_starter_is_chosen(hub):
    site = Site(lambda model, report, **asked: pytest.fail("building the page asked for a restorer"))
    page = app.build_page(site)
    model = next(part for part in page.get_config_file()["components"] if part["props"].get("elem_id") == "model")
    assert "gpen-bfr-512" in [value for _, value in model["props"]["choices"]]
    assert model["props"]["value"] == "starter-256"
    assert any("no official weights are on this machine" in text for text in site.labels["en"].values())
    assert hub.asked == []


@pytest.mark.slow
def test_the_command_alone_in_the_layout_of_modelscopes_older_cache(generator_file, tmp_path):
    folder = tmp_path / "hub" / PORTRAIT
    folder.mkdir(parents=True)
    (folder / "pytorch_model.pt").write_bytes(generator_file.read_bytes())
    code = (
        "import runpy, socket, sys\n"
        "def refuse(*a, **k): raise AssertionError('a socket was opened')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "sys.argv = ['inference_gpen.py', '-o', sys.argv[1]]\n"
        "runpy.run_path('inference_gpen.py', run_name='__main__')"
    )
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "MODELSCOPE_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "out.jpg"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "gpen-bfr-512" in done.stdout and "unverified" in done.stdout
