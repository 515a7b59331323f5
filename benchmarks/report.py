"""What the benchmarks say about the machine, and how they print and store their figures."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch


def print_machine() -> dict[str, Any]:
    """Print and return torch's version, its threads and how busy the machine is (1, 5 and 15 minutes; not Windows)."""
    loads = [round(load, 2) for load in os.getloadavg()]
    threads, cores = torch.get_num_threads(), os.cpu_count()
    print(f"torch {torch.__version__}, {threads} threads on {cores} cores, load average {', '.join(map(str, loads))}")
    return {"torch": torch.__version__, "threads": threads, "cores": cores, "load_average": loads}


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Right-aligned columns, each as wide as its widest cell."""
    lines = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def write_json(path: Path | None, figures: Mapping[str, Any]) -> None:
    """Write the figures to `path`, or nothing where it is None."""
    if path is not None:
        path.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
