"""Put the JSON files of several benchmarks together: `python -m benchmarks.collect STEPS RESULTS`.

Writes `<machine>-<date>.json` with everything, and a short `.md` of the same name, into RESULTS.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

FAILURES = "failures.txt"


def machine_slug(machine: dict[str, Any]) -> str:
    """`NVIDIA H200` -> `nvidia-h200`; the processor's name where there is no GPU."""
    return re.sub(r"[^a-z0-9]+", "-", str(machine.get("gpu") or machine["cpu"]).lower()).strip("-")


def ratio(spread: dict[str, float] | None) -> str:
    return "-" if spread is None else f"{spread['median']:.2f} ({spread['low']:.2f} to {spread['high']:.2f})"


def generator_lines(case: dict[str, Any]) -> Iterator[str]:
    peaks = case["peak_mib"] or {}
    tile = f", tile {case['tile_px']}" if case["tile_px"] else ""
    name = f"{case['size']} px x{case['batch']}, {case['mode']}, {case['precision']}{tile}"
    memory = f"{peaks['ours']:.0f} / {peaks['reference']:.0f}" if peaks else "-"
    faster, milliseconds = case["faster"], 1000 * case["seconds"]["ours"]["median"]
    yield (
        f"| {name} | {milliseconds:.1f} | {ratio(faster['reference'])} | {ratio(faster.get('compiled reference'))} | "
        f"{case['gflop_per_s']['median']:.0f} | {case['share_of_matrix_product']['median']:.0%} | {memory} | "
        f"{case['max_difference']:.1e} |"
    )


def photo_lines(photo: dict[str, Any]) -> Iterator[str]:
    seconds = photo["seconds"]
    yield (
        f"| {photo['photo']} {photo['width']} x {photo['height']}, {photo['faces']} faces | "
        f"{seconds['ours']['median']:.2f} / {seconds['reference']['median']:.2f} | {ratio(photo['faster'])} | "
        f"{ratio(photo['faster_with_detection'])} |"
    )


def render(steps: dict[str, Any], machine: dict[str, Any], failures: list[str]) -> str:
    """The short form, Markdown."""
    cases = [case for step in steps.values() for case in step.get("cases", [])]
    photos = [photo for step in steps.values() for photo in step.get("photos", []) if "faster" in photo]
    takes = [photo for step in steps.values() for photo in step.get("photos", []) if "peak_mib" in photo]
    lines = [", ".join(f"{name} {value}" for name, value in machine.items()), ""]
    if cases:
        lines += [
            "| generator | ms a face | x reference | x compiled reference | GFLOP/s | of mm | MiB, ours / reference | "
            "difference |",
            "|---|---|---|---|---|---|---|---|",
            *(line for case in cases for line in generator_lines(case)),
            "",
        ]
    if photos:
        lines += ["| photo | s, ours / reference | faster | with detection |", "|---|---|---|---|"]
        lines += [*(line for photo in photos for line in photo_lines(photo)), ""]
    for photo in takes:
        peaks = [f"{photo['peak_mib'][side]['median']:.0f}" for side in ("ours", "reference")]
        lines += [f"{photo['photo']}: {' / '.join(peaks)} MiB above the loaded models (ours / reference).", ""]
    for step in steps.values():
        if "first_face_faster" in step:
            lines += [f"- {name}: {spread['median']:.2f} s" for name, spread in step["seconds"].items()]
    lines += [f"- {failure}" for failure in failures]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Put the JSON files of several benchmarks together.")
    parser.add_argument("steps", type=Path, help="folder of the JSON files, one a benchmark")
    parser.add_argument("results", type=Path, help="folder to write to")
    arguments = parser.parse_args()
    paths = sorted(arguments.steps.glob("*.json"))
    steps = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    if not steps:
        parser.error(f"{arguments.steps} holds no results")
    machine = next(iter(steps.values()))["machine"]
    listed = arguments.steps / FAILURES
    failures = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
    date = datetime.now(timezone.utc).date().isoformat()
    arguments.results.mkdir(parents=True, exist_ok=True)
    path = arguments.results / f"{machine_slug(machine)}-{date}.json"
    path.write_text(json.dumps({"failures": failures, "steps": steps}, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(render(steps, machine, failures), encoding="utf-8")
    print(path.with_suffix(".md").read_text(encoding="utf-8"))
    print(f"written: {path}")


if __name__ == "__main__":
    main()
