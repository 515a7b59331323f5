"""Random weights in the official layouts at their true sizes: fetched, resumed, loaded strictly, run."""

from __future__ import annotations

import dataclasses
import hashlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from facexlib.detection.retinaface import RetinaFace
from facexlib.parsing.parsenet import ParseNet
from modelscope.models.cv.super_resolution.rrdbnet_arch import RRDBNet

from gpen_core.inventory import inspect_weights, load_strictly
from gpen_core.models.gpen import Generator
from gpen_core.models.registry import PORTRAIT, PORTRAIT_HIRES, SPECS, get_spec
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.restorer import Restorer
from tests.hub_server import Fault, HubServer

ROOT = Path(__file__).parents[2]
KEY = f"{PORTRAIT}/pytorch_model.pt"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def repositories(tmp_path_factory) -> dict[str, Path]:
    """Both repositories and the release of ParseNet, filled with random numbers."""
    root = tmp_path_factory.mktemp("repositories")
    states = {
        KEY: Generator(512).state_dict(),
        f"{PORTRAIT_HIRES}/pytorch_model.pt": Generator(1024).state_dict(),
        f"{PORTRAIT}/face_detection/RetinaFace-R50.pth": {
            f"module.{key}": value
            for key, value in RetinaFace(network_name="resnet50", device=torch.device("cpu")).state_dict().items()
        },
        f"{PORTRAIT}/super_resolution/realesrnet_x2.pth": {
            name: RRDBNet(3, 3, scale=2, num_feat=32).state_dict() for name in ("params", "params_ema")
        },
        "plain/ParseNet-latest.pth": ParseNet(in_size=512, out_size=512, parsing_ch=19).state_dict(),
    }
    for key, state in states.items():
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, root / key)
    return {key: root / key for key in states}


@pytest.fixture
def hub(repositories, monkeypatch, tmp_path):
    with HubServer() as server:
        server.files = dict(repositories)
        monkeypatch.delenv("GPEN_OFFLINE")
        monkeypatch.setenv("GPEN_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", server.url)
        monkeypatch.setenv("GPEN_MIRROR", f"{server.url}/plain")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "gpen_core", *map(str, arguments)]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True)


def test_files_have_the_sizes_of_the_published_ones(repositories):
    for key, name in (
        (KEY, "gpen-bfr-512"),
        (f"{PORTRAIT}/face_detection/RetinaFace-R50.pth", "retinaface-r50"),
        (f"{PORTRAIT}/super_resolution/realesrnet_x2.pth", "realesrnet-x2"),
        ("plain/ParseNet-latest.pth", "parsenet"),
    ):
        assert repositories[key].stat().st_size == pytest.approx(get_spec(name).num_bytes, rel=0.005)


def test_a_download_killed_at_half_is_gone_on_with_and_used_without_a_network(hub, tmp_path, monkeypatch):
    cache, size = tmp_path / "cache", hub.files[KEY].stat().st_size
    hub.faults[KEY] = Fault("stall", after=size // 2, times=1)
    with subprocess.Popen([sys.executable, "-m", "gpen_core", "download", "gpen-bfr-512"], cwd=ROOT) as process:
        deadline = time.monotonic() + 60
        while not any(path.stat().st_size == size // 2 for path in cache.rglob("*.incomplete")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    assert not list(cache.glob("*.pth"))
    done = command("download", "gpen-bfr-512")
    assert done.returncode == 0, done.stderr
    assert hub.asked == [f"{KEY} 0-", f"{KEY} {size // 2}-"]

    monkeypatch.setenv("MODELSCOPE_ENDPOINT", "http://127.0.0.1:9")
    output = tmp_path / "out.png"
    done = command("-i", "examples/astronaut-small.jpg", "-o", output, "--model", "gpen-bfr-512")
    assert done.returncode == 0, done.stderr
    assert "gpen-bfr-512, cpu" in done.stdout and "unverified" not in done.stdout
    assert output.is_file() and len(hub.asked) == 2


def test_all_of_them_load_and_run_together(hub, monkeypatch, astronaut):
    """As if the hashes of these random files were the published ones."""
    for name, key in (
        ("retinaface-r50", f"{PORTRAIT}/face_detection/RetinaFace-R50.pth"),
        ("realesrnet-x2", f"{PORTRAIT}/super_resolution/realesrnet_x2.pth"),
        ("parsenet", "plain/ParseNet-latest.pth"),
    ):
        digest, size = hashlib.sha256(hub.files[key].read_bytes()).hexdigest(), hub.files[key].stat().st_size
        monkeypatch.setitem(SPECS, name, dataclasses.replace(SPECS[name], sha256=digest, num_bytes=size, urls=()))

    # A detector of random numbers finds what it likes; that it runs in its place is what is shown.
    found = Restorer("gpen-bfr-512", RuntimeOptions(detector="retinaface-r50")).restore(astronaut[:256, :256])
    assert found.detector == "retinaface-r50"
    for name in ("gpen-bfr-512", "gpen-bfr-1024"):
        restorer = Restorer(name, RuntimeOptions(detector="retinaface-mobile"))
        result = restorer.restore(astronaut, RestoreOptions(mask="parsing"))
        assert (result.model, result.num_shown, result.mask) == (name, 1, "parsing")
        assert np.isfinite(result.photo.pixels).all()
        assert not any("unverified" in note for note in result.notes)
    from gpen_core.models.weights import verified_file

    verified_file(get_spec("realesrnet-x2"))
    for name in ("gpen-bfr-512", "gpen-bfr-1024", "retinaface-r50", "parsenet", "realesrnet-x2"):
        status = inspect_weights(get_spec(name))
        assert status.file is not None and status.file.is_verified
        load_strictly(status.spec, status.file.path)
