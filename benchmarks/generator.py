"""Our generator against the reference, in time, memory and pixels: `python -m benchmarks.generator`.

The reference is ModelScope's Apache-2.0 copy of the authors' generator. Both run on the CPU, one face at a time, with
random weights. Seconds depend on the machine and on what else it does, ratios of neighbouring runs far less. Memory is
read as Linux reports it.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.report import print_machine, print_table, write_json
from gpen_core.models.checkpoint import build_generator
from gpen_core.models.gpen import Generator, GeneratorConfig

INJECTION_GAIN = 0.7
"""New generators have 0 here, so that the decoder would not see the encoder's features."""
MIB = 2**20

Side = Literal["ours", "reference"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """Resident memory of a process that loads a generator and runs one face, in MiB."""

    loaded_mib: float
    """With the weights loaded, before the face."""
    peak_mib: float

    @property
    def face_mib(self) -> float:
        """What the face takes on top of program and weights."""
        return self.peak_mib - self.loaded_mib


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """Seconds for one face, medians of all runs, and how far the answers differ."""

    ours_s: float
    reference_s: float
    speedup: float
    """Reference over ours: median of the ratios of neighbouring runs."""
    cpu_ratio: float
    """The same of the time that all threads computed, which other programs on the machine disturb less."""
    max_difference: float
    """Largest absolute difference; one grey level is 1 / 127.5."""
    max_value: float
    """Largest absolute value of the reference's answer, which random weights do not keep within [-1, 1]."""


def build(side: Side, size: int) -> nn.Module:
    """A generator as wide as the published one of `size` px, with random weights, ready to run."""
    config = GeneratorConfig(size=size, channel_multiplier=1 if size <= 256 else 2, narrow=0.5 if size <= 256 else 1.0)
    if side == "ours":
        model: nn.Module = Generator.from_config(config)
    else:
        # Here, so that the process that measures our memory does without it.
        from modelscope.models.cv.image_portrait_enhancement.gpen import FullGenerator

        widths = {"channel_multiplier": config.channel_multiplier, "narrow": config.narrow}
        model = FullGenerator(size, config.style_dim, config.num_mlp_layers, **widths)
    for name, parameter in model.named_parameters():
        if name.endswith("noise.weight"):
            nn.init.constant_(parameter, INJECTION_GAIN)
    return model.requires_grad_(False).eval()


def random_face(size: int) -> Tensor:
    """(1, 3, size, size) in [-1, 1]."""
    return torch.rand((1, 3, size, size), generator=torch.Generator().manual_seed(0)) * 2 - 1


class Run(NamedTuple):
    """One face through a model."""

    answer: Tensor
    """(1, 3, size, size)."""
    wall_s: float
    cpu_s: float


def run(model: nn.Module, face: Tensor) -> Run:
    with torch.inference_mode():
        start, cpu_start = time.perf_counter(), time.process_time()
        answer = model(face)
        wall_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu_start
    # The reference wraps its answer in a tuple.
    return Run(answer[0] if isinstance(answer, tuple) else answer, wall_s, cpu_s)


def compare_time(size: int, num_repeats: int) -> Timing:
    """Run both models on the same weights in turn, so that a busy spell of the machine meets both."""
    torch.manual_seed(0)
    reference = build("reference", size)
    ours = build_generator(reference.state_dict())
    face = random_face(size)
    # The first run of each, which prepares more than the later ones, gives the pixels and no time.
    our_answer, reference_answer = run(ours, face).answer, run(reference, face).answer
    pairs = [(run(ours, face), run(reference, face)) for _ in range(num_repeats)]
    return Timing(
        ours_s=statistics.median(ours_run.wall_s for ours_run, _ in pairs),
        reference_s=statistics.median(reference_run.wall_s for _, reference_run in pairs),
        speedup=statistics.median(reference_run.wall_s / ours_run.wall_s for ours_run, reference_run in pairs),
        cpu_ratio=statistics.median(reference_run.cpu_s / ours_run.cpu_s for ours_run, reference_run in pairs),
        max_difference=float((our_answer - reference_answer).abs().max()),
        max_value=float(reference_answer.abs().max()),
    )


def use_memory(side: Side, size: int, num_threads: int) -> Memory:
    """Load one model and run one face. Only a fresh process gives a meaningful peak."""
    torch.set_num_threads(num_threads)
    model, face = build(side, size), random_face(size)
    num_pages = int(Path("/proc/self/statm").read_text().split()[1])
    loaded_mib = num_pages * resource.getpagesize() / MIB
    run(model, face)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Memory(loaded_mib=loaded_mib, peak_mib=peak_kib * 1024 / MIB)


def measure_memory(side: Side, size: int, num_repeats: int) -> Memory:
    """The middle one of several processes: at 256 px the allocator alone makes 20 % of difference."""
    measured = []
    for _ in range(num_repeats):
        with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as process:
            measured.append(process.submit(use_memory, side, size, torch.get_num_threads()).result())
    return sorted(measured, key=lambda memory: memory.face_mib)[num_repeats // 2]


def table_row(size: int, timing: Timing, ours: Memory, reference: Memory) -> list[str]:
    seconds = [f"{timing.ours_s:.2f}", f"{timing.reference_s:.2f}"]
    ratios = [f"{timing.speedup:.2f}x", f"{timing.cpu_ratio:.2f}x"]
    memory = [f"{ours.face_mib:.0f}", f"{reference.face_mib:.0f}", f"{reference.face_mib / ours.face_mib:.2f}x"]
    return [str(size), *seconds, *ratios, *memory, f"{timing.max_difference:.1e}", f"{timing.max_value:.1f}"]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Our generator against the reference: time, memory, pixels.")
    parser.add_argument("--sizes", default="256,512,1024", help="sides in px (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each; medians count (default: %(default)s)")
    parser.add_argument("--threads", type=int, help="threads of torch (default: its own choice)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    machine = print_machine()
    repeats = arguments.repeats
    # All memory first: Linux hands the peak of a process down to those it starts, so this one must still be small.
    ours = {size: measure_memory("ours", size, repeats) for size in sizes}
    reference = {size: measure_memory("reference", size, repeats) for size in sizes}
    timings = {size: compare_time(size, repeats) for size in sizes}
    headings = ["size", "ours s", "reference s", "faster", "less CPU", "ours MiB", "reference MiB", "smaller"]
    rows = [table_row(size, timings[size], ours[size], reference[size]) for size in sizes]
    print_table([*headings, "difference", "of at most"], rows)
    print("Seconds and peak MiB, on top of program and weights, for one face; largest difference of the answers.")
    figures = [
        {"size": size, **asdict(timings[size]), "ours": asdict(ours[size]), "reference": asdict(reference[size])}
        for size in sizes
    ]
    write_json(arguments.json, {"machine": machine, "repeats": repeats, "sizes": figures})


if __name__ == "__main__":
    main()
