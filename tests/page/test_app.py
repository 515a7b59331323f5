"""The command that serves the page."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from page import texts
from tests.page.conftest import ASTRONAUT, MODEL, ROOT
from tests.page.test_api import restore_by_http

IMPORT_WITHOUT_SOCKETS = """
import asyncio, socket, sys, threading

def refuse(*args, **kwargs):
    raise AssertionError(f"the import used the network: {args}")

socket.socket.connect = socket.socket.connect_ex = socket.socket.bind = refuse
socket.getaddrinfo = socket.create_connection = refuse
import app

assert "torch" not in sys.modules, "the import loaded torch"
assert threading.active_count() == 1, threading.enumerate()
"""


def test_import_launches_nothing(tmp_path: Path) -> None:
    environment = os.environ | {"GRADIO_TEMP_DIR": str(tmp_path)}
    before = set(ROOT.iterdir())
    answer = subprocess.run(
        [sys.executable, "-c", IMPORT_WITHOUT_SOCKETS], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert (answer.returncode, answer.stdout) == (0, ""), answer.stderr
    assert {path.name for path in set(ROOT.iterdir()) - before} <= {"__pycache__"}
    assert list(tmp_path.iterdir()) == []


def test_command_serves_the_page_and_leaves_no_photo_and_no_name_behind(tmp_path: Path) -> None:
    """Behind a proxy that does not exist, as many machines have one, and stopped as a service is stopped."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_PROXY", "no_proxy")}
    environment |= {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9", "TMPDIR": str(tmp_path)}
    environment["PYTHONUNBUFFERED"] = "1"
    environment.pop("GRADIO_TEMP_DIR", None)
    command = [sys.executable, "app.py", "--port", str(port), "--device", "cpu"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as page:
        assert page.stdout is not None
        try:
            # Gradio's last line comes after its check of its own server, which is what a proxy breaks.
            printed = next((line for line in page.stdout if "public link" in line), "the page ended at its start")
            assert "public link" in printed
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                f"http://127.0.0.1:{port}/"
            ) as answer:
                assert texts.TITLE in answer.read().decode()
            names = ("Grandma-1912.jpg", "Grandpa-1912.jpg")
            for name, content in zip(names, (ASTRONAUT.read_bytes(), b"no photo"), strict=True):
                (tmp_path / name).write_bytes(content)
            file, _ = restore_by_http(f"http://127.0.0.1:{port}/", tmp_path / names[0])
            assert file["orig_name"] == f"Grandma-1912_{MODEL}.jpg"
            with pytest.raises(ValueError, match="could not be read"):
                restore_by_http(f"http://127.0.0.1:{port}/", tmp_path / names[1])
        finally:
            page.send_signal(signal.SIGTERM)
            printed, _ = page.communicate(timeout=60)
    assert "Grand" not in printed, "the log names a photo"
    assert page.returncode == 0
    assert list(tmp_path.glob("gpen-*")) == []


def test_command_names_a_wrong_device() -> None:
    answer = subprocess.run([sys.executable, "app.py", "--device", "tpu"], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 2
    assert "device is 'tpu'; choose auto, cpu, cuda" in answer.stderr
