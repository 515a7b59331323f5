"""How much memory faces and photos take, ours against the reference: `python -m benchmarks.memory`.

A generator: the peak of its intermediate results, counted, and what a process of its own takes above its weights. A
photo: what a process of its own takes above the loaded models, from the photo's file to the finished pixels. The
reference is told the faces, ours looks for them. What processes take is as Linux reports it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image

from benchmarks.activations import MIB, peak_activation_mib
from benchmarks.measure import Spread, pair_ratios
from benchmarks.ours import our_generator
from benchmarks.photos import PHOTOS, load_photo
from benchmarks.reference import (
    published_config,
    reference_forward,
    reference_generator,
    reference_starter,
    restore_as_modelscope,
    set_injection_gain,
)
from benchmarks.report import add_common_arguments, print_table, start, write_json
from gpen_core.faces.detect import EmbeddedDetector
from gpen_core.faces.search import find_faces
from gpen_core.models.gpen import Generator
from gpen_core.models.registry import STARTER
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.restorer import Restorer
from gpen_core.types import DetectedFace

Side = Literal["ours", "reference"]
SIDES: tuple[Side, Side] = ("ours", "reference")
STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""Written to `CLEAR_REFS` it sets the peak to what is resident now (`proc_pid_clear_refs(5)`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What the processes share."""

    device: str
    threads: int
    tile_px: int | None
    overlap_px: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """Of one process, in MiB."""

    loaded_mib: float
    """Resident with the models loaded."""
    peak_mib: float
    """Above that at the peak."""
    device_peak_mib: float
    """Intermediate results of a generator, counted (`benchmarks.activations`); for a photo on CUDA, what torch
    allocated above the models; else 0."""


def use_generator(side: Side, size: int, setting: Setting) -> Memory:
    """Load one generator of random weights and run one face through it. Needs a process of its own."""
    torch.set_num_threads(setting.threads)
    device = torch.device(setting.device)
    if side == "reference":
        forward = reference_forward(reference_generator(published_config(size)).to(device))
    else:
        model = Generator.from_config(published_config(size)).requires_grad_(False)
        set_injection_gain(model)
        tiles = {"tile_px": setting.tile_px, "overlap_px": setting.overlap_px}
        forward = our_generator(model.state_dict(), device=device, precision="fp32", compile=False, **tiles)
        del model
    face = torch.rand((1, 3, size, size), device=device) * 2 - 1
    resident: list[dict[str, float]] = []
    # In the same call, the first: ours keeps the memory of its maps for the next.
    device_peak_mib = peak_activation_mib(lambda: resident.append(resident_growth(lambda: forward(face))), device)
    return Memory(**resident[0], device_peak_mib=device_peak_mib)


def use_photo(side: Side, photo: Path, faces: Sequence[DetectedFace], setting: Setting) -> Memory:
    """Load the starter and restore one photo from its file. Needs a process of its own."""
    torch.set_num_threads(setting.threads)
    device = torch.device(setting.device)
    restore: Callable[[], object]
    if side == "reference":
        model = reference_starter().to(device)

        def restore() -> object:
            pixels = np.asarray(Image.open(photo))
            return restore_as_modelscope(
                pixels, faces, model, template=STARTER.template, size=STARTER.size, device=device
            )
    else:
        restorer = Restorer(runtime=RuntimeOptions(model=STARTER.name, device=setting.device))
        # The detector loads itself when it is first asked.
        restorer.detector.detect(np.zeros((32, 32, 3), dtype=np.uint8), threshold=0.9)

        def restore() -> object:
            return restorer.restore(photo)

    if device.type != "cuda":
        return Memory(**resident_growth(restore), device_peak_mib=0.0)
    kept: list[dict[str, float]] = []
    device_peak_mib = peak_activation_mib(lambda: kept.append(resident_growth(restore)), device)
    return Memory(**kept[0], device_peak_mib=device_peak_mib)


def resident_growth(run: Callable[[], object]) -> dict[str, float]:
    """MiB resident before `run`, and at its peak above that."""
    CLEAR_REFS.write_text(RESET_PEAK)
    loaded_mib = _status_mib("VmRSS")
    run()
    return {"loaded_mib": loaded_mib, "peak_mib": _status_mib("VmHWM") - loaded_mib}


def _status_mib(name: str) -> float:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024 / MIB


def measure_in_turn(use: Callable[..., Memory], *arguments: object, repeats: int) -> dict[str, Any]:
    """Fresh processes A B A B, and their figures ready for JSON."""
    measured: dict[Side, list[Memory]] = {side: [] for side in SIDES}
    for _ in range(repeats):
        for side in SIDES:
            with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as process:
                measured[side].append(process.submit(use, side, *arguments).result())
    figures: dict[str, Any] = {}
    for name in Memory.__slots__:
        values = {side: [float(getattr(memory, name)) for memory in measured[side]] for side in SIDES}
        figures[name] = {side: Spread(tuple(values[side])).to_json() for side in SIDES}
        if all(values["reference"]):
            figures[name]["ours_of_reference"] = pair_ratios(values["ours"], values["reference"]).to_json()
    return figures


def table_row(name: str, figures: dict[str, Any]) -> list[str]:
    cells = [name]
    for key in ("device_peak_mib", "peak_mib"):
        medians = {side: figures[key][side]["median"] for side in SIDES}
        share = figures[key].get("ours_of_reference")
        cells += [f"{medians[side]:.0f}" if medians[side] else "-" for side in SIDES]
        cells.append(f"{share['median']:.0%}" if share else "-")
    return cells


def measure_photo(name: str, folder: Path, setting: Setting, repeats: int) -> dict[str, Any]:
    _, pixels = load_photo(name)
    faces = find_faces(EmbeddedDetector(), pixels, RestoreOptions()).faces
    path = folder / f"{Path(name).stem}.jpg"
    Image.fromarray(pixels).save(path, quality=95)
    figures = measure_in_turn(use_photo, path, faces, setting, repeats=repeats)
    return {"photo": name, "width": pixels.shape[1], "height": pixels.shape[0], "faces": len(faces), **figures}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How much memory faces and photos take, ours against the reference.")
    parser.add_argument("--sizes", default="256,512,1024", help="of generators, or nothing (default: %(default)s)")
    parser.add_argument(
        "--photos", default="large", help=f"{', '.join(PHOTOS)}, files, or nothing (default: %(default)s)"
    )
    parser.add_argument("--tile", type=int, metavar="PX", help="ours runs its large levels in tiles of this size")
    parser.add_argument("--overlap", type=int, metavar="PX", help="how far tiles overlap (default: to keep the pixels)")
    add_common_arguments(parser, repeats=2)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    machine = start(arguments)
    setting = Setting(
        device=arguments.device,
        threads=torch.get_num_threads(),
        tile_px=arguments.tile,
        overlap_px=arguments.overlap,
    )
    sizes = [int(size) for size in arguments.sizes.split(",") if size]
    repeats = arguments.repeats
    generators = [{"size": size, **measure_in_turn(use_generator, size, setting, repeats=repeats)} for size in sizes]
    with tempfile.TemporaryDirectory() as folder:
        names = [name for name in arguments.photos.split(",") if name]
        photos = [measure_photo(name, Path(folder), setting, repeats) for name in names]
    rows = [table_row(f"generator {figures['size']}", figures) for figures in generators]
    rows += [table_row(f"{figures['photo']} {figures['width']}x{figures['height']}", figures) for figures in photos]
    headings = ["MiB at the peak", "results: ours", "reference", "share", "process: ours", "reference", "share"]
    print_table(headings, rows)
    print("Results: intermediate ones, weights excluded. Process: above the loaded models.")
    tiles = {"tile_px": arguments.tile, "overlap_px": arguments.overlap}
    write_json(
        arguments.json,
        {"machine": machine, "repeats": repeats, **tiles, "generators": generators, "photos": photos},
    )


if __name__ == "__main__":
    main()
