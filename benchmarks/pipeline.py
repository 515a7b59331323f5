"""Whole photos, ours against the reference's way: `python -m benchmarks.pipeline`.

The reference's way is that of `benchmarks.reference`. Both sides have the same weights and are told the same faces, so
that only restoring and putting back differ; a second figure adds to each side its own search for faces. Photos come as
arrays: reading and writing files is on neither side.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from benchmarks.measure import Spread, pair_ratios, time_in_turn
from benchmarks.photos import PHOTOS, load_photo
from benchmarks.reference import (
    published_config,
    reference_detector,
    reference_generator,
    reference_starter,
    restore_as_modelscope,
)
from benchmarks.report import add_common_arguments, print_table, start, write_json
from gpen_core.models.registry import STARTER
from gpen_core.options import RuntimeOptions, default
from gpen_core.restorer import Restorer
from gpen_core.types import DetectedFace, Pixels

OURS, OURS_SEARCHING = "ours", "ours with detection"
REFERENCE, REFERENCE_SEARCHING = "reference", "reference with detection"
STARTER_SIZE = 256


class KnownFaces:
    """A detector that has found these faces already."""

    name = "known faces"
    is_single_scale = False

    def __init__(self, faces: Sequence[DetectedFace]) -> None:
        self._faces = faces

    def detect(self, pixels: Pixels, threshold: float) -> Sequence[DetectedFace]:
        return self._faces


@dataclass(frozen=True, kw_only=True, slots=True)
class Models:
    """The same weights on both sides."""

    runtime: RuntimeOptions
    ours: Restorer
    reference: nn.Module


def load_models(arguments: argparse.Namespace, folder: Path) -> Models:
    """The starter's weights at 256 px; at another size random ones as wide as the published model's."""
    size = arguments.size
    runtime = RuntimeOptions(
        device=arguments.device,
        compile=arguments.mode == "compiled",
        precision=arguments.precision,
        batch_size=arguments.batch,
    )
    if size == STARTER_SIZE:
        runtime = replace(runtime, model=STARTER.name)
        model = reference_starter()
    else:
        runtime = replace(runtime, weights=str(folder / f"random-{size}.safetensors"))
        model = reference_generator(published_config(size))
        save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, str(runtime.weights))
    return Models(runtime=runtime, ours=Restorer(runtime=runtime), reference=model.to(arguments.device))


def compare(name: str, pixels: Pixels, models: Models, arguments: argparse.Namespace) -> dict[str, Any]:
    """All figures of one photo, ready for JSON."""
    device = torch.device(arguments.device)
    searching = models.ours
    found = searching.restore(pixels)
    faces = [face.face for face in found.faces if face.decision == "restored"]
    told = Restorer(runtime=models.runtime, detector=KnownFaces(faces), crop_restorer=searching.crop_restorer)
    detect = reference_detector(device)
    template, size = searching.crop_restorer.template, searching.crop_restorer.size

    def restore_as_reference() -> Pixels:
        return restore_as_modelscope(pixels, faces, models.reference, template=template, size=size, device=device)

    contestants: dict[str, Callable[[], object]] = {
        OURS: lambda: told.restore(pixels),
        REFERENCE: restore_as_reference,
    }
    if not arguments.no_detection:
        contestants |= {
            OURS_SEARCHING: lambda: searching.restore(pixels),
            REFERENCE_SEARCHING: lambda: (detect(pixels), restore_as_reference()),
        }
    durations = time_in_turn(contestants, arguments.repeats, device)
    wall = {side: [run.wall_s for run in runs] for side, runs in durations.items()}
    cpu = {side: [run.cpu_s for run in runs] for side, runs in durations.items()}
    ours, reference = told.restore(pixels), restore_as_reference()
    difference = np.abs(ours.photo.pixels.astype(np.int16) - reference)
    return {
        "photo": name,
        "width": pixels.shape[1],
        "height": pixels.shape[0],
        "faces": len(faces),
        "model_size": size,
        "mode": "compiled" if ours.compiled else "eager",
        "precision": ours.precision,
        "seconds": {side: Spread(tuple(values)).to_json() for side, values in wall.items()},
        "faster": pair_ratios(wall[REFERENCE], wall[OURS]).to_json(),
        "less_cpu_time": pair_ratios(cpu[REFERENCE], cpu[OURS]).to_json(),
        "faster_with_detection": None
        if arguments.no_detection
        else pair_ratios(wall[REFERENCE_SEARCHING], wall[OURS_SEARCHING]).to_json(),
        "our_stages_s": {stage: round(seconds, 4) for stage, seconds in searching.restore(pixels).timings.items()},
        "mean_difference_levels": round(float(difference.mean()), 3),
        "notes": list(ours.notes),
    }


def table_row(figures: dict[str, Any]) -> list[str]:
    def ratio(spread: dict[str, float] | None) -> str:
        return "-" if spread is None else f"{spread['median']:.2f} ({spread['low']:.2f}-{spread['high']:.2f})"

    return [
        f"{figures['photo']} {figures['width']}x{figures['height']}",
        str(figures["faces"]),
        f"{figures['model_size']} {figures['mode']} {figures['precision']}",
        f"{figures['seconds'][OURS]['median']:.2f}",
        f"{figures['seconds'][REFERENCE]['median']:.2f}",
        ratio(figures["faster"]),
        ratio(figures["less_cpu_time"]),
        ratio(figures["faster_with_detection"]),
        " ".join(f"{stage} {seconds:.2f}" for stage, seconds in figures["our_stages_s"].items()),
    ]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Whole photos, ours against the reference's way.")
    parser.add_argument("--photos", default="group,large", help=f"{', '.join(PHOTOS)}, or files (default: %(default)s)")
    parser.add_argument(
        "--size", type=int, default=STARTER_SIZE, help="256 takes the starter, others random weights (default: 256)"
    )
    parser.add_argument("--mode", choices=("eager", "compiled"), default="eager", help="ours (default: %(default)s)")
    parser.add_argument("--precision", default="fp32", help="ours (default: %(default)s)")
    parser.add_argument(
        "--batch",
        type=int,
        default=default(RuntimeOptions, "batch_size"),
        help="faces that ours restores in one call (default: %(default)s)",
    )
    parser.add_argument("--no-detection", action="store_true", help="leave the second figure out")
    add_common_arguments(parser, repeats=3)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    machine = start(arguments)
    with tempfile.TemporaryDirectory() as folder:
        models = load_models(arguments, Path(folder))
        photos = [load_photo(name) for name in arguments.photos.split(",")]
        figures = [compare(name, pixels, models, arguments) for name, pixels in photos]
    headings = ["photo", "faces", "network", "ours s", "reference s", "faster", "less CPU", "faster with detection"]
    print_table([*headings, "our stages with detection, s"], list(map(table_row, figures)))
    print("Ratios: median and range of neighbouring runs.")
    write_json(arguments.json, {"machine": machine, "repeats": arguments.repeats, "photos": figures})


if __name__ == "__main__":
    main()
