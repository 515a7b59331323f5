"""The starter as an ONNX file in onnxruntime beside ours:  python -m benchmarks.exported [--repeats N] [--json FILE]

Both take the same faces in turn, A B A B, on the CPU.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.report import add_common_arguments, print_table, start, write_json
from gpen_core.models.checkpoint import load_generator, read_state_dict
from gpen_core.models.registry import STARTER
from gpen_core.models.verify import WeightsFile
from gpen_core.models.weights import load_weights
from gpen_core.options import ExportOptions
from gpen_core.runtime.engine import fast_generator
from gpen_core.runtime.export import export_generator, run_onnx
from gpen_core.types import SIGNED_RANGE

NUM_FACES = (1, 4)


def seconds_of(run: Callable[[Tensor], Tensor], x: Tensor) -> float:
    began = time.perf_counter()
    run(x)
    return time.perf_counter() - began


def compare(
    ours: Callable[[Tensor], Tensor], exported: Callable[[Tensor], Tensor], num_faces: int, repeats: int
) -> Any:
    """Milliseconds a face of both, their ratio pair by pair, and how far they differ."""
    x = torch.rand(num_faces, 3, STARTER.size, STARTER.size, generator=torch.Generator().manual_seed(1)) * 2 - 1
    difference = float((ours(x) - exported(x)).abs().max())
    pairs = [(seconds_of(ours, x), seconds_of(exported, x)) for _ in range(repeats)]
    ratios = [other / own for own, other in pairs]
    own_ms, other_ms = (1e3 * statistics.median(column) / num_faces for column in zip(*pairs, strict=True))
    return {
        "faces": num_faces,
        "ours_ms": own_ms,
        "onnxruntime_ms": other_ms,
        "ratio": statistics.median(ratios),
        "ratio_range": (min(ratios), max(ratios)),
        "max_difference": difference,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_common_arguments(parser, repeats=10)
    arguments = parser.parse_args()
    machine = start(arguments)

    def load(file: WeightsFile) -> Any:
        return load_generator(file.path), fast_generator(read_state_dict(file.path))

    file, (generator, ours) = load_weights(STARTER, load)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "starter.onnx")
        cpu = torch.device("cpu")
        export_generator(generator, file, path, ExportOptions(), cpu, task="restore", value_range=SIGNED_RANGE)
        exported = run_onnx(path)
        cases = [compare(ours, exported, num_faces, arguments.repeats) for num_faces in NUM_FACES]
    rows = [
        [
            str(case["faces"]),
            f"{case['ours_ms']:.1f}",
            f"{case['onnxruntime_ms']:.1f}",
            f"{case['ratio']:.2f} ({case['ratio_range'][0]:.2f}-{case['ratio_range'][1]:.2f})",
            f"{case['max_difference']:.1e}",
        ]
        for case in cases
    ]
    print_table(("faces in a call", "ours ms/face", "onnxruntime ms/face", "ours is faster", "difference"), rows)
    write_json(arguments.json, {"machine": machine, "cases": cases})


if __name__ == "__main__":
    main()
