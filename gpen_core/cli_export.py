"""The command that writes a model as a file for other programs: `export`. Prints, as `cli.py` does."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from gpen_core.cli_weights import EXIT_OK, FetchBar
from gpen_core.errors import OptionError
from gpen_core.options import ExportOptions, RuntimeOptions, allowed, default

DESCRIPTION = """\
Write a model as a file that other programs run: `onnx` for onnxruntime and the like, `aoti` as a package that PyTorch
compiled ahead of time for this kind of device (a Space's GPU, say). The file is run and compared before it is kept."""


def run_export_command(argv: Sequence[str]) -> int:
    """Run `export`; its exit status.

    Raises:
        OptionError: the file exists, or its ending or precision does not fit the format.
        WeightsError: the model's file cannot be had, or what was written is not the model.
        DeviceError: what writing needs is not on this machine.
    """
    parser = argparse.ArgumentParser(prog="gpen export", description=DESCRIPTION)
    for kind, names in (
        (RuntimeOptions, ("model", "task", "weights", "device")),
        (ExportOptions, ("format", "precision")),
    ):
        for name in names:
            limits, value = allowed(kind, name), default(kind, name)
            shown = f"{limits.help} (default: {value})" if value else limits.help
            parser.add_argument(f"--{name}", choices=limits.choices, default=value, help=shown)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="(default: <model>-<precision>.onnx or .pt2)")
    args = parser.parse_args(argv)
    try:
        runtime = RuntimeOptions(model=args.model, task=args.task, weights=args.weights, device=args.device)
        options = ExportOptions(format=args.format, precision=args.precision)
    except OptionError as error:
        parser.error(str(error))
    return _export(runtime, options, args.output)


def _export(runtime: RuntimeOptions, options: ExportOptions, path: Path | None) -> int:
    from gpen_core.models.checkpoint import load_generator
    from gpen_core.models.weights import load_model
    from gpen_core.runtime.device import resolve_device
    from gpen_core.runtime.export import SUFFIXES, export_generator
    from gpen_core.tasks import TASKS

    with FetchBar() as bar:
        file, generator = load_model(
            runtime.model if runtime.weights else runtime.model_for_task,
            Path(runtime.weights) if runtime.weights else None,
            lambda file: load_generator(file.path, expected_size=file.spec.size or None),
            bar,
        )
    path = path or Path(f"{file.spec.name}-{options.precision}{SUFFIXES[options.format]}")
    task = TASKS[runtime.task_name]
    device = resolve_device(runtime.device)
    exported = export_generator(generator, file, path, options, device, task=task.name, value_range=task.value_range)
    size = f"{exported.num_bytes / 1e6:.1f} MB"
    print(f"{path}: {file.spec.name}, {options.precision}, {size}, differs by {exported.max_difference:.2g} at most")
    print(f"licence: {file.spec.licence_text}")
    for note in file.notes:
        print(f"note: {note}")
    return EXIT_OK
