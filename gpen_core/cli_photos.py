"""The command over a photo or a folder of them: what is restored, pasted, printed and reported."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from gpen_core.batch import PhotoOutcome, restore_file, restore_folder
from gpen_core.cli_weights import EXIT_FAILED, EXIT_OK
from gpen_core.crops import paste_crops
from gpen_core.errors import PhotoError
from gpen_core.folders import (
    OUTPUT_PREFIX,
    check_output,
    crops_folder_for,
    list_photos,
    output_name,
    plan_outputs,
)
from gpen_core.options import BatchOptions, OutputOptions, RestoreOptions
from gpen_core.photo.formats import check_writable_format
from gpen_core.photo.io import read_photo
from gpen_core.photo.write import write_photo
from gpen_core.restorer import Restorer
from gpen_core.types import OnProgress, Progress


@dataclass(frozen=True, slots=True)
class Request:
    """What a person asked for."""

    input: Path
    output: Path | None
    report: Path | None
    paste: Path | None
    inpaint_mask: Path | None
    options: RestoreOptions
    written: OutputOptions
    batch: BatchOptions


def run_photos(request: Request, load: Callable[[], Restorer]) -> int:
    """Do it, print what became of each photo, and give the exit status.

    Args:
        request: the photo or the folder, and the options.
        load: loads the networks; called once what can be checked before is.
    """
    report = request.report
    if report is not None and not report.absolute().parent.is_dir():
        raise PhotoError(f"There is no folder {report.absolute().parent} to write the report into; make it first.")
    if report is not None and report.suffix.lower() != ".json":
        raise PhotoError(f"The report {report} must end in .json, so that it never takes a photo's place.")
    if not request.input.exists():
        raise PhotoError(f"There is no file or folder {request.input}; check the path.")
    mask = request.inpaint_mask
    if mask is not None and (not mask.exists() or mask.is_dir() != request.input.is_dir()):
        kind = "folder" if request.input.is_dir() else "picture"
        raise PhotoError(f"There is no {kind} {mask} with the mask; a photo's is a picture, a folder's a folder.")
    if request.paste is not None:
        return _paste(request, request.paste)
    return (_run_folder if request.input.is_dir() else _run_file)(request, load)


def _run_file(request: Request, load: Callable[[], Restorer]) -> int:
    output = _output_file(request)
    # Before the networks are loaded: a wrong name should not cost seconds.
    check_output(output, [request.input], overwrite_originals=request.written.overwrite_originals)
    restorer = load()
    with tqdm(total=1, unit="photo", disable=None, leave=False, file=sys.stderr) as bar:
        outcome = restore_file(
            restorer,
            request.input,
            output,
            request.options,
            written=request.written,
            on_progress=stage_shower(bar),
            inpaint_mask=request.inpaint_mask,
        )
    _print_outcome(outcome, request.input.name)
    _write_report(request.report, _report(outcome))
    return EXIT_OK


def _output_file(request: Request) -> Path:
    format_ = request.written.format
    if request.output is None and request.written.overwrite_originals:
        return request.input
    output = request.output or Path(output_name(request.input, format_))
    if output.is_dir():
        output = output / output_name(request.input, format_)
    check_writable_format(output, format_)
    return output


def _output_folder(request: Request) -> Path:
    if request.output is None and request.written.overwrite_originals:
        return request.input
    return request.output or Path(OUTPUT_PREFIX + request.input.resolve().name)


def _run_folder(request: Request, load: Callable[[], Restorer]) -> int:
    output = _output_folder(request)
    listing = list_photos(request.input, request.batch, output=output)
    restorer = load()
    counts = {"restored": 0, "no faces": 0, "skipped": 0, "failed": 0}
    reports: list[dict[str, Any]] = []
    failures: list[str] = []
    with (
        tqdm(total=len(listing.photos), unit="photo", disable=None, file=sys.stderr) as bar,
        _stop_on_interrupt() as stop,
    ):
        outcomes = restore_folder(
            restorer,
            listing.photos,
            output,
            request.options,
            root=request.input,
            written=request.written,
            batch=request.batch,
            stop=stop,
            inpaint_masks=request.inpaint_mask,
            on_progress=stage_shower(bar),
        )
        for outcome in outcomes:
            counts[outcome.status] += 1
            name = outcome.source.relative_to(request.input).as_posix()
            if request.report is not None:
                reports.append(_report(outcome))
            if outcome.status == "failed":
                failures.append(f"{name}: {outcome.error}")
            with bar.external_write_mode(file=sys.stdout):
                _print_outcome(outcome, name)
            bar.update()
    _write_report(request.report, reports)
    num_left = len(listing.photos) - sum(counts.values())
    summary = ", ".join(f"{count} {status}" for status, count in counts.items() if count or status != "skipped")
    ignored = f"; {listing.num_ignored} other files ignored" if listing.num_ignored else ""
    print(f"{len(listing.photos)} photos: {summary}{ignored}. Results are in {output}.")
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    if stop.is_set():
        print(f"stopped; {num_left} photos are left, which --skip-existing goes on with", file=sys.stderr)
    return EXIT_FAILED if failures or stop.is_set() else EXIT_OK


@contextmanager
def _stop_on_interrupt() -> Iterator[threading.Event]:
    """Ctrl-C sets the event, so that photos in work are finished; a second one breaks off at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def on_interrupt(*_: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        print("stopping after the photos in work; Ctrl-C again stops at once", file=sys.stderr)

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def _paste(request: Request, folder: Path) -> int:
    """Edited crops back into their photos; no network is loaded. Of a folder, photos without crops are passed over."""
    if not request.input.is_dir():
        pairs = {request.input: (_output_file(request), folder)}
    else:
        output = _output_folder(request)
        listing = list_photos(request.input, request.batch, output=output)
        format_ = request.written.format
        outputs = plan_outputs(listing.photos, request.input, output, format_)
        cut_from = plan_outputs(listing.photos, request.input, folder, format_)
        pairs = {
            photo: (outputs[photo], crops_folder_for(cut_from[photo]))
            for photo in listing.photos
            if crops_folder_for(cut_from[photo]).is_dir()
        }
        if not pairs:
            raise PhotoError(f"{folder} holds no face crops of these photos; name the results of a --save-crops run.")
    failures = 0
    for photo, (path, crops) in pairs.items():
        try:
            _paste_one(request, photo, path, crops)
        except PhotoError as error:
            if not request.input.is_dir():
                raise
            failures += 1
            print(f"failed: {photo.name}: {error}", file=sys.stderr)
    return EXIT_FAILED if failures else EXIT_OK


def _paste_one(request: Request, photo: Path, output: Path, crops: Path) -> None:
    if request.input.is_dir():
        output.parent.mkdir(parents=True, exist_ok=True)
    check_output(output, [photo], overwrite_originals=request.written.overwrite_originals)
    original = read_photo(photo, accept_damaged=request.options.accept_damaged)
    pasted, notes = paste_crops(original, crops, request.options)
    notes = (*original.notes, *notes, *write_photo(pasted, output, request.written, has_ai=True))
    print(f"{photo.name} -> {output}")
    for note in notes:
        print(f"  note: {note}")


def stage_shower(bar: Any) -> OnProgress:
    """Shows what is being done beside tqdm's bar: compiling takes a minute in which it does not move."""

    def show(progress: Progress) -> None:
        bar.set_postfix_str(progress.detail or f"{progress.stage} {progress.done}/{progress.total}")

    return show


def _print_outcome(outcome: PhotoOutcome, name: str) -> None:
    if outcome.status == "skipped":
        print(f"{name}: skipped, its result is there")
        return
    if outcome.result is None:
        print(f"{name}: failed")
        return
    print(f"{name} -> {outcome.output}: {outcome.result.summary()}")
    for note in outcome.notes:
        print(f"  note: {note}")


def _report(outcome: PhotoOutcome) -> dict[str, Any]:
    head: dict[str, Any] = {
        "input": str(outcome.source),
        "output": str(outcome.output) if outcome.output else None,
        "status": outcome.status,
    }
    if outcome.result is None:
        return {**head, "error": outcome.error, "faces": [], "notes": []}
    return {**head, **outcome.result.to_report(), "notes": list(outcome.notes)}


def _write_report(path: Path | None, report: Any) -> None:
    if path is None:
        return
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise PhotoError(f"The report {path} could not be written: {error.strerror}.") from error
