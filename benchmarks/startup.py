"""How long it takes until something happens: `python -m benchmarks.startup`.

Every figure is of fresh processes: importing, `--help`, the page answering, the first face (ours with the search for
it, the reference told where it is), and the command with `--compile`, first with an empty cache of compiled code, then
with what the first run left there.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import Spread, pair_ratios
from benchmarks.report import add_common_arguments, print_table, start, write_json
from gpen_core.models.registry import STARTER

ROOT = Path(__file__).parent.parent
PHOTO = ROOT / "examples" / "astronaut-small.jpg"
LONGEST_WAIT_S = 120.0
INDUCTOR_CACHE = "TORCHINDUCTOR_CACHE_DIR"

PYTHON, IMPORT, HELP, PAGE = "python alone", "import gpen_core", "gpen --help", "page answers"
OURS, REFERENCE = "first face, ours", "first face, reference"
COLD, WARM = "compiled face, empty cache", "compiled face, second process"

RESTORE_AS_REFERENCE = f"""
import numpy as np, torch
from PIL import Image
from benchmarks.reference import reference_starter, restore_as_modelscope
from gpen_core.types import Box, DetectedFace
points = np.array([(127, 63), (154, 65), (141, 79), (129, 88), (153, 89)], dtype=float)
face = DetectedFace(box=Box(110, 35, 170, 110), landmarks=points, score=1.0)
pixels = np.asarray(Image.open({str(PHOTO)!r}).convert("RGB"))
device = torch.device("DEVICE")
model = reference_starter().to(device)
restore_as_modelscope(pixels, [face], model, template={STARTER.template!r}, size={STARTER.size}, device=device)
"""


def seconds_of(arguments: Sequence[str], environment: dict[str, str] | None = None) -> float:
    """Wall time of one Python process.

    Raises:
        subprocess.CalledProcessError: it failed; its output goes to ours.
    """
    start_s = time.perf_counter()
    command = [sys.executable, *arguments]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **(environment or {})}, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start_s


def seconds_to_page() -> float:
    """From starting `app.py` to its first answer.

    Raises:
        TimeoutError: none came within `LONGEST_WAIT_S`.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start_s = time.perf_counter()
    page = subprocess.Popen(
        [sys.executable, "app.py", "--host", "127.0.0.1", "--port", str(port)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    # Without the proxy that a machine may have set for everything.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        while time.perf_counter() - start_s < LONGEST_WAIT_S:
            try:
                opener.open(f"http://127.0.0.1:{port}/", timeout=10).close()
                return time.perf_counter() - start_s
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.02)
    finally:
        page.terminate()
        page.wait()
    raise TimeoutError(f"The page did not answer within {LONGEST_WAIT_S:.0f} s.")


def contestants(device: str, folder: Path) -> dict[str, Callable[[], float]]:
    """What is measured in turn, each giving its seconds."""
    command = ["-m", "gpen_core", "--model", STARTER.name, "--device", device, "--input", str(PHOTO)]
    command += ["--output", str(folder / "restored.png")]
    reference = RESTORE_AS_REFERENCE.replace("DEVICE", device)
    return {
        PYTHON: lambda: seconds_of(["-c", "pass"]),
        IMPORT: lambda: seconds_of(["-c", "import gpen_core"]),
        HELP: lambda: seconds_of(["-m", "gpen_core", "--help"]),
        PAGE: seconds_to_page,
        OURS: lambda: seconds_of(command),
        REFERENCE: lambda: seconds_of(["-c", reference]),
    }


def measure_compiled(device: str, folder: Path) -> dict[str, float]:
    """Two processes that share a fresh cache of compiled code."""
    command = ["-m", "gpen_core", "--model", STARTER.name, "--device", device, "--compile", "--input", str(PHOTO)]
    command += ["--output", str(folder / "compiled.png")]
    environment = {INDUCTOR_CACHE: str(folder / "compiled")}
    return {name: seconds_of(command, environment) for name in (COLD, WARM)}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How long it takes until something happens.")
    parser.add_argument("--no-page", action="store_true", help="leave the page out, where Gradio is not installed")
    parser.add_argument("--no-compile", action="store_true", help="leave the compiled processes out")
    add_common_arguments(parser, repeats=3)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    machine = start(arguments)
    with tempfile.TemporaryDirectory() as folder:
        calls = contestants(arguments.device, Path(folder))
        if arguments.no_page:
            del calls[PAGE]
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(arguments.repeats):
            for name, call in calls.items():
                seconds[name].append(call())
        compiled = {} if arguments.no_compile else measure_compiled(arguments.device, Path(folder))
    spreads = {name: Spread(tuple(values)) for name, values in seconds.items()}
    spreads |= {name: Spread((value,)) for name, value in compiled.items()}
    faster = pair_ratios(seconds[REFERENCE], seconds[OURS])
    rows = [[name, str(spread)] for name, spread in spreads.items()]
    print_table(["from the start of a process", "seconds"], rows)
    print(f"First face, reference over ours: {faster}.")
    figures: dict[str, Any] = {name: spread.to_json() for name, spread in spreads.items()}
    write_json(
        arguments.json,
        {"machine": machine, "repeats": arguments.repeats, "seconds": figures, "first_face_faster": faster.to_json()},
    )


if __name__ == "__main__":
    main()
