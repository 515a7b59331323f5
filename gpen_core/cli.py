"""The command: flags to options, options to the restorer, outcomes to lines. Prints and exits, and nobody else does.

`cli_photos.py` runs a photo or a folder, `cli_weights.py` has the commands that see to the weights.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gpen_core.cli_batch import run_cluster
from gpen_core.cli_export import run_export_command
from gpen_core.cli_weights import COMMANDS, EXIT_FAILED, EXIT_OK, FetchBar, run_weights_command
from gpen_core.errors import GpenError, OptionError
from gpen_core.evaluation.options import EvaluationOptions
from gpen_core.options import (
    FACE_WORDS,
    BatchOptions,
    ClusterOptions,
    OutputOptions,
    RestoreOptions,
    RuntimeOptions,
    allowed,
)
from gpen_core.version import __version__

if TYPE_CHECKING:
    from gpen_core.restorer import Restorer
    from gpen_core.types import Progress

OPTION_GROUPS: dict[type, str] = {
    RestoreOptions: "what is done",
    OutputOptions: "how it is written",
    BatchOptions: "which photos of a folder",
    RuntimeOptions: "how it runs",
}
BATCH_OPTIONS: dict[str, type] = {
    "options": RestoreOptions,
    "runtime": RuntimeOptions,
    "written": OutputOptions,
    "batch": BatchOptions,
    "cluster": ClusterOptions,
}
EPILOG = """\
Exit status: 0 when every photo was written (also where no face was found, which a note says), 1 when any failed or
Ctrl-C stopped the run, 2 for wrong flags. Existing files are replaced only if this program wrote them, or with
--overwrite-originals. A folder's results come with a manifest.jsonl, by which --skip-existing goes on.

`batch --engine ray` shares a folder out over a cluster. `evaluate --help` tells how to measure models on pictures of
your own. `models`, `download` and `verify` see to the weights; `export` writes a model as a file for other programs."""
EVALUATE_EPILOG = """\
Exit status: 0 when every picture was measured (also where one shows no face, which a note says), 1 when any failed, 2
for wrong flags. Existing files are never replaced."""
METAVARS = {
    "faces": "|".join((*FACE_WORDS, "0,2,...")),
    "weights": "FILE",
    "upscaler_weights": "FILE",
    "pattern": "PATTERN",
    "device": "DEVICE",
    "inputs": "FOLDER",
    "models": "A,B,...",
    "strengths": "A,B,...",
    "metrics": "A,B,...",
    "csv": "FILE.csv",
    "json": "FILE.json",
    "sheet": "FILE.png",
}


def flag_name(field: str) -> str:
    """Name of an option's flag: `min_face_px` -> `--min-face`."""
    return "--" + field.removesuffix("_px").removesuffix("_s").replace("_", "-")


def build_parser(default_input: Path | None, *, has_engines: bool = False) -> argparse.ArgumentParser:
    """The main command's; with engines, that of `batch`, whose folders may be addresses."""
    parser = argparse.ArgumentParser(
        prog="gpen",
        description="Restore the faces in a photo, or in every photo of a folder.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shown_input = f" (default: the example {default_input.name})" if default_input else ""
    parser.add_argument(
        "-i",
        "--input",
        type=str if has_engines else Path,
        default=default_input,
        required=default_input is None,
        metavar="FILE|FOLDER",
        help=f"photo, or folder of photos{shown_input}",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=str if has_engines else Path,
        metavar="FILE|FOLDER",
        help="where the result goes (default: output_<name> in the current folder)",
    )
    groups = {**OPTION_GROUPS, ClusterOptions: "on which machines"} if has_engines else OPTION_GROUPS
    for options, title in groups.items():
        group = parser.add_argument_group(title)
        for field in dataclasses.fields(options):
            _add_flag(group, options, field)
    parser.add_argument(
        "--paste",
        type=Path,
        metavar="FOLDER",
        help="no restoration: put the edited face crops that --save-crops wrote into FOLDER back into the photo; of a"
        " folder of photos, the folder of their results",
    )
    parser.add_argument(
        "--inpaint-mask",
        type=Path,
        metavar="FILE|FOLDER",
        help="for task inpaint: a picture of the photo's size, white where it is to be filled; of a folder of photos, a"
        " folder of such pictures under the photos' names",
    )
    parser.add_argument("--report", type=Path, metavar="FILE.json", help="write what was done to each face as JSON")
    parser.add_argument("--version", action="version", version=f"gpen_core {__version__}")
    return parser


def build_evaluate_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpen evaluate",
        description="Damage good portraits in repeatable ways, restore them, and measure how near they come.",
        epilog=EVALUATE_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    group = parser.add_argument_group("what is measured")
    group.add_argument("--data", required=True, metavar="FOLDER", help=allowed(EvaluationOptions, "data").help)
    for field in dataclasses.fields(EvaluationOptions)[1:]:
        _add_flag(group, EvaluationOptions, field)
    group = parser.add_argument_group(OPTION_GROUPS[RuntimeOptions])
    for field in _evaluate_runtime_fields():
        _add_flag(group, RuntimeOptions, field)
    return parser


def _evaluate_runtime_fields() -> list[dataclasses.Field[Any]]:
    """`--models` takes the place of model and weights, faces run one at a time and without a pause, ungated."""
    unfit = ("model", "task", "weights", "upscaler_weights", "batch_size", "gate", "unload_after_s")
    return [field for field in dataclasses.fields(RuntimeOptions) if field.name not in unfit]


def _add_flag(group: argparse._ArgumentGroup, options: type, field: dataclasses.Field[Any]) -> None:
    limits = allowed(options, field.name)
    shown = "" if field.default is None else f" (default: {_shown(field.default)})"
    name, help_text = flag_name(field.name), f"{limits.help}{shown}"
    if isinstance(field.default, bool):
        group.add_argument(
            name, dest=field.name, action=argparse.BooleanOptionalAction, default=field.default, help=help_text
        )
        return
    metavar = None
    if limits.choices is None:
        metavar = METAVARS.get(field.name)
        if limits.minimum is not None and limits.maximum is not None:
            metavar = "|".join((f"{limits.minimum:g}-{limits.maximum:g}", *limits.words))
    group.add_argument(
        name,
        dest=field.name,
        type=_converter(field),
        default=field.default,
        choices=limits.choices,
        metavar=metavar,
        help=help_text,
    )


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _converter(field: dataclasses.Field[Any]) -> Callable[[str], Any]:
    if field.name in ("tile_px", "overlap_px"):
        return _int_or_auto
    if field.name == "strength":
        return _float_or_auto
    return str if field.default is None else type(field.default)


def _float_or_auto(text: str) -> float | str:
    return text if text == "auto" else float(text)


def _int_or_auto(text: str) -> int | str:
    return text if text == "auto" else int(text)


def main(argv: Sequence[str] | None = None, *, default_input: Path | None = None) -> NoReturn:
    """Run the command and exit with its status."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] == "evaluate":
        _evaluate_main(argv[1:])
    if argv and argv[0] == "batch":
        _batch_main(argv[1:])
    if argv and argv[0] == "export":
        _exit_with(lambda: run_export_command(argv[1:]))
    if argv and argv[0] in COMMANDS:
        _exit_with(lambda: run_weights_command(argv))
    parser = build_parser(default_input)
    args = parser.parse_args(argv)
    try:
        runtime = RuntimeOptions(**_values(args, RuntimeOptions))
        options = RestoreOptions(**_values(args, RestoreOptions))
        written = OutputOptions(**_values(args, OutputOptions))
        batch = BatchOptions(**_values(args, BatchOptions))
    except OptionError as error:
        parser.error(str(error))
    _exit_with(lambda: _run(args, runtime, options, written, batch))


def _batch_main(argv: Sequence[str]) -> NoReturn:
    parser = build_parser(None, has_engines=True)
    args = parser.parse_args(argv)
    try:
        chosen: dict[str, Any] = {name: kind(**_values(args, kind)) for name, kind in BATCH_OPTIONS.items()}
    except OptionError as error:
        parser.error(str(error))
    source, output = args.input, args.output
    if chosen["cluster"].engine == "ray":
        if output is None:
            parser.error("name the folder of the results with -o, since it may be anywhere")
        if args.paste is not None or args.report is not None or args.inpaint_mask is not None:
            parser.error(
                "--paste, --report and --inpaint-mask work on this machine only; with ray, manifest.jsonl is the report"
            )
        _exit_with(lambda: run_cluster(source, output, **chosen))
    args.input, args.output = Path(source), None if output is None else Path(output)
    if args.input.is_file():
        parser.error(f"{source} is a photo; name a folder, or leave out `batch`")
    _exit_with(lambda: _run(args, chosen["runtime"], chosen["options"], chosen["written"], chosen["batch"]))


def _evaluate_main(argv: Sequence[str]) -> NoReturn:
    parser = build_evaluate_parser()
    args = parser.parse_args(argv)
    try:
        runtime = RuntimeOptions(**{field.name: getattr(args, field.name) for field in _evaluate_runtime_fields()})
        options = EvaluationOptions(**_values(args, EvaluationOptions))
    except OptionError as error:
        parser.error(str(error))
    _exit_with(lambda: _run_evaluate(options, runtime))


def _exit_with(run: Callable[[], int]) -> NoReturn:
    try:
        sys.exit(run())
    except GpenError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(EXIT_FAILED)


def _values(args: argparse.Namespace, options: type) -> dict[str, Any]:
    return {field.name: getattr(args, field.name) for field in dataclasses.fields(options)}


def _run(
    args: argparse.Namespace,
    runtime: RuntimeOptions,
    options: RestoreOptions,
    written: OutputOptions,
    batch: BatchOptions,
) -> int:
    # Here and not above: loading torch takes seconds, and --help must not.
    from gpen_core.cli_photos import Request, run_photos
    from gpen_core.restorer import Restorer
    from gpen_core.tasks import TASKS, check_mask

    # Here and not only at the first photo, after the weights were fetched.
    if args.paste is None and args.inpaint_mask is None:
        check_mask(TASKS[runtime.task_name], has_mask=False)
    # Pillow's lines on damaged tags are for programmers; what a photo has lost is said in notes.
    warnings.filterwarnings("ignore", module=r"PIL\.")

    def load() -> Restorer:
        with FetchBar() as bar:
            restorer = Restorer(runtime=runtime, on_progress=bar)
            restorer.prepare(options, bar)
            return restorer

    return run_photos(
        Request(args.input, args.output, args.report, args.paste, args.inpaint_mask, options, written, batch), load
    )


def _run_evaluate(options: EvaluationOptions, runtime: RuntimeOptions) -> int:
    from tqdm import tqdm

    from gpen_core.evaluation.evaluate import evaluate
    from gpen_core.evaluation.report import render_text, write_outputs

    with tqdm(unit="photo", disable=None, file=sys.stderr) as bar:

        def show(progress: Progress) -> None:
            bar.total, bar.n = progress.total, progress.done
            bar.refresh()

        evaluation = evaluate(options, runtime, show)
    print(render_text(evaluation))
    for name in write_outputs(evaluation):
        print(f"written: {name}")
    return EXIT_FAILED if evaluation.has_failures else EXIT_OK
