"""Nothing of a visitor's photos stays: after many runs, failing ones too, the folders are as they were."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

import app
from tests.page.conftest import ASTRONAUT, MODEL, Served

NUM_RUNS = 50
SWEEP_S, LIFE_S = 1, 1
pytestmark = pytest.mark.slow


@pytest.fixture
def swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A page that keeps files for a second."""
    monkeypatch.setattr(app, "CACHE_SWEEP_S", SWEEP_S)
    monkeypatch.setattr(app, "CACHE_LIFE_S", LIFE_S)
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "gradio"))
    (tmp_path / "own").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "own"))
    server = Served(tmp_path / "own")
    yield server
    server.page.close(verbose=False)


def files_in(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def test_folders_are_as_they_were_after_many_runs(swept: Served, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no picture")
    client = Client(swept.url, download_files=tmp_path / "client", verbose=False)
    good, bad = handle_file(str(ASTRONAUT)), handle_file(str(broken))
    calls: list[dict[str, Any]] = [
        {"api_name": "/restore", "photo": good, "model": MODEL},
        {"api_name": "/restore", "photo": bad, "model": MODEL},
        {"api_name": "/restore", "photo": good, "model": MODEL, "scale": 77},
        {"api_name": "/restore_batch", "photos": [good, bad], "model": MODEL},
        {"api_name": "/restore_batch", "photos": [good], "model": MODEL, "format": "bmp"},
    ]
    before, own_before = files_in(tmp_path / "gradio"), files_in(tmp_path / "own")
    num_threads = threading.active_count()
    num_failed = 0
    for number in range(NUM_RUNS):
        try:
            client.predict(**calls[number % len(calls)])
        except AppError:
            num_failed += 1
    assert num_failed == NUM_RUNS * 3 // len(calls)
    assert files_in(tmp_path / "own") == own_before
    deadline = time.monotonic() + 20
    while files_in(tmp_path / "gradio") != before and time.monotonic() < deadline:
        time.sleep(SWEEP_S / 2)
    assert files_in(tmp_path / "gradio") == before
    assert threading.active_count() <= num_threads + 8
