"""What the benchmarks say about the machine, and how they print and store their figures."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

CPU_INFO = Path("/proc/cpuinfo")


def add_common_arguments(parser: argparse.ArgumentParser, *, repeats: int) -> None:
    """Flags that all benchmarks have: device, repeats, threads, file to write."""
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=repeats, help="rounds of A B (default: %(default)s)")
    parser.add_argument("--threads", type=int, help="threads of torch (default: its own choice)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")


def start(arguments: argparse.Namespace) -> dict[str, Any]:
    """Set the threads that were asked for; print and return what the machine is."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    return print_machine(arguments.device)


def print_machine(device: str = "cpu") -> dict[str, Any]:
    """Print and return what the machine is and how busy (load over 1, 5 and 15 minutes; not on Windows)."""
    machine: dict[str, Any] = {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    if device.startswith("cuda"):
        machine["gpu"] = torch.cuda.get_device_name(device)
        machine["cuda"] = torch.version.cuda
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    return machine


def cpu_name() -> str:
    """As Linux names it; the architecture elsewhere."""
    lines = CPU_INFO.read_text(encoding="utf-8").splitlines() if CPU_INFO.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Right-aligned columns, each as wide as its widest cell."""
    lines = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def write_json(path: Path | None, figures: Mapping[str, Any]) -> None:
    """Write the figures, and the command they come from, to `path`; nothing where it is None."""
    if path is not None:
        # Of files their names: where they lie is nobody's business.
        arguments = [Path(argument).name if "/" in argument else argument for argument in sys.argv[1:]]
        content = {"command": Path(sys.argv[0]).stem, "arguments": arguments, **figures}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
