"""How far half precision is from fp32 on real faces: `python -m benchmarks.precision --data FOLDER --precision bf16`.

Each portrait goes through the network as it is and damaged in four ways, in fp32 and in half precision. The figures
are what `gpen_core.runtime.precision.MEASURED_ERRORS` declares.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from benchmarks.report import print_machine, print_table, write_json
from gpen_core.evaluation.contenders import to_engine
from gpen_core.evaluation.degrade import LEVELS
from gpen_core.evaluation.portraits import Portrait, PortraitSource, list_pictures, make_cases, read_portraits
from gpen_core.models.checkpoint import read_state_dict
from gpen_core.models.weights import resolve_model
from gpen_core.options import RuntimeOptions
from gpen_core.restorer import Restorer
from gpen_core.runtime.engine import fast_generator, from_network, to_network
from gpen_core.runtime.precision import HALF_DTYPES
from gpen_core.types import Pixels

AS_IT_IS = "undamaged"


def damaged_faces(restorer: Restorer, folder: Path, limit: int) -> Iterator[tuple[str, Pixels]]:
    """Damage and (512, 512, 3) face of every portrait in `folder`."""
    photos = list_pictures(folder, limit)
    source = PortraitSource(photos=photos, inputs=None, is_aligned=False, detector=restorer.detector)
    for portrait in read_portraits(source):
        if isinstance(portrait, Portrait):
            yield AS_IT_IS, portrait.truth
            yield from ((case.strength, case.damaged) for case in make_cases(portrait, list(LEVELS)))


def measure(arguments: argparse.Namespace) -> dict[str, list[tuple[float, float]]]:
    """Mean and largest difference in grey levels of each face, by damage; infinite where an answer is not finite."""
    runtime = RuntimeOptions(model=arguments.model, device=arguments.device, precision="fp32")
    restorer = Restorer(runtime=runtime)
    engine = restorer.crop_restorer
    device = torch.device(arguments.device)
    state = read_state_dict(resolve_model(arguments.model).path)
    restore_in_half = fast_generator(state, device=device, half=HALF_DTYPES[arguments.precision])
    differences: dict[str, list[tuple[float, float]]] = {}
    for damage, face in damaged_faces(restorer, arguments.data, arguments.limit):
        crop = to_engine(engine, face)
        full = engine.restore_crops([crop], lambda progress: None).crops[0]
        half = restore_in_half(to_network([crop], device))
        if full is None or not bool(torch.isfinite(half).all()):
            differences.setdefault(damage, []).append((np.inf, np.inf))
            continue
        levels = np.abs(full.astype(int) - from_network(half)[0])
        differences.setdefault(damage, []).append((float(levels.mean()), float(levels.max())))
    return differences


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How far half precision is from fp32 on real faces.")
    parser.add_argument("--data", type=Path, required=True, help="folder of good portraits")
    parser.add_argument("--model", default="starter-256", help="(default: %(default)s)")
    parser.add_argument("--precision", choices=tuple(HALF_DTYPES), default="bf16", help="(default: %(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    parser.add_argument("--limit", type=int, default=0, help="only so many portraits; 0: all (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    machine = print_machine()
    differences = measure(arguments)
    differences["all"] = [entry for entries in differences.values() for entry in entries]
    figures = {
        damage: {
            "faces": len(entries),
            "mean_levels": float(np.mean([mean for mean, _ in entries])),
            "max_levels": max(largest for _, largest in entries),
        }
        for damage, entries in differences.items()
    }
    rows = [
        [damage, str(entry["faces"]), f"{entry['mean_levels']:.3f}", f"{entry['max_levels']:g}"]
        for damage, entry in figures.items()
    ]
    print_table([arguments.model, "faces", f"{arguments.precision} mean", "max"], rows)
    print("Difference from fp32 in grey levels of 255.")
    asked = {"model": arguments.model, "precision": arguments.precision, "device": arguments.device}
    write_json(arguments.json, {"machine": machine, **asked, "figures": figures})


if __name__ == "__main__":
    main()
