"""Our generator against the reference, in time, arithmetic, memory and pixels: `python -m benchmarks.generator`.

The reference is ModelScope's Apache-2.0 copy of the authors' generator, one face at a time in fp32, eager and, where
ours is compiled, compiled too. Both have the same random weights. Seconds depend on the machine and on what else it
does, ratios of neighbouring runs far less.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.activations import peak_activation_mib
from benchmarks.measure import Duration, Spread, pair_ratios, time_in_turn
from benchmarks.ours import HALVES, our_generator
from benchmarks.reference import (
    compiled_reference_forward,
    published_config,
    reference_forward,
    reference_generator,
)
from benchmarks.report import add_common_arguments, print_table, start, write_json
from benchmarks.work import flop_per_face, matrix_product

OURS, OURS_SINGLE, REFERENCE, COMPILED_REFERENCE = "ours", "ours, one face", "reference", "compiled reference"
MATRIX_PRODUCT = "matrix product"


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """What is compared."""

    size: int
    batch: int
    is_compiled: bool
    precision: str
    device: torch.device
    tile_px: int | None
    overlap_px: int | None


def random_faces(case: Case) -> Tensor:
    """(batch, 3, size, size) in [-1, 1]."""
    random = torch.Generator().manual_seed(0)
    return (torch.rand((case.batch, 3, case.size, case.size), generator=random) * 2 - 1).to(case.device)


def compare(case: Case, repeats: int) -> dict[str, Any]:
    """All figures of one case, ready for JSON. Seconds are those of one face."""
    model = reference_generator(published_config(case.size))
    state = model.state_dict()

    def build() -> Callable[[Tensor], Tensor]:
        return our_generator(
            state,
            device=case.device,
            precision=case.precision,
            compile=case.is_compiled,
            tile_px=case.tile_px,
            overlap_px=case.overlap_px,
        )

    ours = build()
    reference = reference_forward(model.to(case.device))
    faces = random_faces(case)
    first_s = time.perf_counter()
    answer = ours(faces).float().cpu()
    first_s = time.perf_counter() - first_s
    expected = reference(faces[:1]).cpu()
    contestants: dict[str, Callable[[], object]] = {
        OURS: lambda: ours(faces),
        REFERENCE: lambda: reference(faces[:1]),
    }
    if case.batch > 1:
        contestants[OURS_SINGLE] = lambda: ours(faces[:1])
    compile_failure = ""
    if case.is_compiled:
        compiled_reference = compiled_reference_forward(model)
        compile_failure = failure_of(lambda: compiled_reference(faces[:1]))
        if not compile_failure:
            contestants[COMPILED_REFERENCE] = lambda: compiled_reference(faces[:1])
    product, product_flop = matrix_product(case.device, HALVES[case.precision] or torch.float32)
    durations = time_in_turn({**contestants, MATRIX_PRODUCT: product}, repeats, case.device)
    return {
        "size": case.size,
        "batch": case.batch,
        "mode": "compiled" if case.is_compiled else "eager",
        "precision": case.precision,
        "tile_px": case.tile_px,
        "overlap_px": case.overlap_px,
        "first_call_s": round(first_s, 3),
        "compile_failure": compile_failure,
        **time_figures(case, durations, product_flop),
        **memory_figures(case, contestants, build),
        "max_difference": float((answer[:1] - expected).abs().max()),
        "max_value": float(expected.abs().max()),
    }


def failure_of(call: Callable[[], object]) -> str:
    """Why `call` cannot be compiled, which shows when it first runs; empty where it can."""
    try:
        call()
    except RuntimeError as error:
        return str(error).strip().splitlines()[0]
    return ""


def time_figures(case: Case, durations: dict[str, list[Duration]], product_flop: int) -> dict[str, Any]:
    """Seconds a face, ratios to the reference pair by pair, and how much of the machine's arithmetic is reached."""
    faces_per_call = {OURS: case.batch}
    wall = {
        name: [run.wall_s / faces_per_call.get(name, 1) for run in runs]
        for name, runs in durations.items()
        if name != MATRIX_PRODUCT
    }
    cpu = {name: [run.cpu_s / faces_per_call.get(name, 1) for run in runs] for name, runs in durations.items()}
    flop = flop_per_face(published_config(case.size))
    product_s = [run.wall_s for run in durations[MATRIX_PRODUCT]]
    ours_rate = [flop / seconds / 1e9 for seconds in wall[OURS]]
    product_rate = [product_flop / seconds / 1e9 for seconds in product_s]
    figures: dict[str, Any] = {
        "seconds": {name: Spread(tuple(values)).to_json() for name, values in wall.items()},
        "faster": {name: pair_ratios(wall[name], wall[OURS]).to_json() for name in wall if name != OURS},
        "gflop_per_face": round(flop / 1e9, 1),
        "gflop_per_s": Spread(tuple(ours_rate)).to_json(),
        "matrix_product_gflop_per_s": Spread(tuple(product_rate)).to_json(),
        "share_of_matrix_product": pair_ratios(ours_rate, product_rate).to_json(),
    }
    if case.device.type == "cpu":
        figures["less_cpu_time"] = pair_ratios(cpu[REFERENCE], cpu[OURS]).to_json()
    return figures


def memory_figures(
    case: Case, contestants: dict[str, Callable[[], object]], build: Callable[[], Callable[[Tensor], Tensor]]
) -> dict[str, Any]:
    """Peak MiB of intermediate results; of compiled code only a GPU's allocator tells."""
    if case.device.type == "cpu":
        if case.is_compiled:
            return {"peak_mib": None}
        # One that has never run, since ours keeps the memory of its maps for the next call.
        fresh, faces = build(), random_faces(case)
        contestants = {**contestants, OURS: lambda: fresh(faces)}
    peaks = {name: peak_activation_mib(contestants[name], case.device) for name in (OURS, REFERENCE)}
    return {"peak_mib": {name: round(peak, 1) for name, peak in peaks.items()}}


def table_row(figures: dict[str, Any]) -> list[str]:
    seconds, faster, peaks = figures["seconds"], figures["faster"], figures["peak_mib"]

    def ratio(name: str) -> str:
        if name not in faster:
            return "-"
        spread = faster[name]
        return f"{spread['median']:.2f} ({spread['low']:.2f}-{spread['high']:.2f})"

    memory = [f"{peaks[OURS]:.0f}", f"{peaks[OURS] / peaks[REFERENCE]:.0%}"] if peaks else ["-", "-"]
    return [
        f"{figures['size']} x{figures['batch']} {figures['mode']} {figures['precision']}",
        f"{seconds[OURS]['median']:.3g}",
        ratio(REFERENCE),
        ratio(COMPILED_REFERENCE),
        ratio(OURS_SINGLE),
        f"{figures['gflop_per_s']['median']:.0f}",
        f"{figures['share_of_matrix_product']['median']:.0%}",
        *memory,
        f"{figures['max_difference']:.1e}",
    ]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Our generator against the reference: time, memory, pixels.")
    parser.add_argument("--sizes", default="256,512,1024", help="sides in px (default: %(default)s)")
    parser.add_argument("--batch", default="1", help="faces in one call, such as 1,4 (default: %(default)s)")
    parser.add_argument("--mode", choices=("eager", "compiled"), default="eager", help="ours (default: %(default)s)")
    parser.add_argument("--precision", choices=tuple(HALVES), default="fp32", help="ours (default: %(default)s)")
    parser.add_argument("--tile", type=int, metavar="PX", help="ours runs its large levels in tiles of this size")
    parser.add_argument("--overlap", type=int, metavar="PX", help="how far tiles overlap (default: to keep the pixels)")
    add_common_arguments(parser, repeats=3)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    machine = start(arguments)
    cases = [
        Case(
            size=int(size),
            batch=int(batch),
            is_compiled=arguments.mode == "compiled",
            precision=arguments.precision,
            device=torch.device(arguments.device),
            tile_px=arguments.tile,
            overlap_px=arguments.overlap,
        )
        for size in arguments.sizes.split(",")
        for batch in arguments.batch.split(",")
    ]
    figures = [compare(case, arguments.repeats) for case in cases]
    headings = ["size, faces, how", "s/face", "x reference", "x compiled reference", "x one face a call"]
    print_table([*headings, "GFLOP/s", "of mm", "MiB", "of reference's", "difference"], list(map(table_row, figures)))
    print("Ratios: median and range of neighbouring runs. MiB: peak of intermediate results, weights excluded.")
    for figure in figures:
        if figure["compile_failure"]:
            print(f"The reference of {figure['size']} px did not compile: {figure['compile_failure']}.")
    write_json(arguments.json, {"machine": machine, "repeats": arguments.repeats, "cases": figures})


if __name__ == "__main__":
    main()
