"""What runs on the machines of a cluster: a photo is read and searched, its faces restored, the result written.

The three parts are `Restorer.begin`, `restore_crops` and `finish`, as in a batch on one machine. What fails becomes the
photo's outcome; what a lost machine had in hand Ray gives to another.
"""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gpen_core.batch import PhotoOutcome, write_result
from gpen_core.cluster.places import Place
from gpen_core.errors import FAILURES, PhotoError, describe_failure
from gpen_core.folders import check_output
from gpen_core.manifest import make_line
from gpen_core.options import OutputOptions, RestoreOptions, RuntimeOptions
from gpen_core.photo.io import read_photo
from gpen_core.prepared import NetworkAnswer, PreparedPhoto
from gpen_core.restorer import Restorer
from gpen_core.result import RestoreResult
from gpen_core.runtime.crops import CropRestorer, RestoredCrops
from gpen_core.types import OnProgress, Pixels

Row = dict[str, Any]
Batch = dict[str, Any]
"""Columns of several rows."""


@dataclass(frozen=True, kw_only=True)
class Absent:
    """A crop restorer that is elsewhere: all that reading and writing need to know of it."""

    size: int
    template: str
    model_name: str
    device_name: str
    strength_coefficients: tuple[float, ...] | None

    @classmethod
    def like(cls, restorer: CropRestorer) -> Absent:
        coefficients = restorer.strength_coefficients
        return cls(
            size=restorer.size,
            template=restorer.template,
            model_name=restorer.model_name,
            device_name=restorer.device_name,
            strength_coefficients=None if coefficients is None else tuple(coefficients),
        )

    def restore_crops(
        self, crops: Sequence[Pixels], on_progress: OnProgress, options: RestoreOptions | None = None
    ) -> RestoredCrops:
        raise RuntimeError("the network is on another machine")


@dataclass(frozen=True, kw_only=True)
class Work:
    """What all machines of a run know."""

    source: Place
    output: Place
    options: RestoreOptions
    written: OutputOptions
    runtime: RuntimeOptions
    network: Absent
    settings: str
    """Of the manifest, as JSON."""
    notes: tuple[str, ...]
    """Of the network's weights, which every result says."""


@lru_cache(maxsize=1)
def _front(runtime: RuntimeOptions, network: Absent) -> Restorer:
    """One a process: finds faces and pastes them, without GPEN."""
    return Restorer(runtime=runtime, crop_restorer=network)


def prepare(row: Row, work: Work) -> Row:
    """Read a photo and find its faces."""
    name = row["name"]
    try:
        content = work.source.read(name)
        photo = read_photo(content, accept_damaged=work.options.accept_damaged, name=name)
        prepared = _front(work.runtime, work.network).begin(photo, work.options)
    except FAILURES as error:
        return {**row, "prepared": b"", "error": describe_failure(error)}
    return {**row, "prepared": pickle.dumps(prepared), "error": ""}


class Network:
    """GPEN in a process of its own; the faces of several photos go through it together."""

    def __init__(self, work: Work) -> None:
        self._restorer = Restorer(runtime=work.runtime)

    def __call__(self, batch: Batch) -> Batch:
        """Adds the network's answers, pickled as the prepared photos are: a column holds one type only."""
        answers = np.full(len(batch["name"]), b"", dtype=object)
        errors = batch["error"].astype(object)
        ready = {index: pickle.loads(prepared) for index, prepared in enumerate(batch["prepared"]) if prepared}
        for index, answer in self._restore(ready).items():
            if isinstance(answer, NetworkAnswer):
                answers[index] = pickle.dumps(answer)
            else:
                errors[index] = answer
        return {**batch, "answer": answers, "error": errors}

    def _restore(self, photos: dict[int, PreparedPhoto]) -> dict[int, NetworkAnswer | str]:
        """The answer for each photo, or why it failed."""
        if not photos:
            return {}
        try:
            return dict(zip(photos, self._restorer.restore_crops(list(photos.values())), strict=True))
        except FAILURES as error:
            if len(photos) == 1:
                return dict.fromkeys(photos, describe_failure(error))
        # One of them did that: each for itself shows which.
        return {key: answer for one in photos.items() for key, answer in self._restore(dict([one])).items()}


def finish(batch: Batch, work: Work) -> Batch:
    """Write results and their lines of the manifest; what became of each photo."""
    settings, lines, outcomes = json.loads(work.settings), [], []
    for index in range(len(batch["name"])):
        name, output, error = (str(batch[column][index]) for column in ("name", "output", "error"))
        result, status = None, "failed"
        notes: tuple[str, ...] = ()
        if not error:
            try:
                result = _finished(pickle.loads(batch["prepared"][index]), pickle.loads(batch["answer"][index]), work)
                outcome = _write(result, name, output, work)
                status, notes = outcome.status, outcome.notes
            except FAILURES as failure:
                result, error = None, describe_failure(failure)
        lines.append(
            make_line(
                name,
                status,
                state=[int(number) for number in batch["state"][index]],
                output=None if error else output,
                error=error,
                result=result,
                settings=settings,
            )
        )
        summary = "" if result is None else result.summary()
        outcomes.append({"name": name, "output": output, "status": status, "error": error, "summary": summary})
        outcomes[-1]["notes"] = "\n".join(notes)
    work.output.add_manifest_part("".join(lines))
    return {column: np.array([outcome[column] for outcome in outcomes], dtype=object) for column in outcomes[0]}


def _finished(prepared: PreparedPhoto, answer: NetworkAnswer, work: Work) -> RestoreResult:
    front = _front(work.runtime, work.network)
    # This process may not be the one that searched the photo.
    front.prepare(work.options)
    result = front.finish(prepared, answer)
    return replace(result, notes=tuple(dict.fromkeys((*work.notes, *result.notes))))


def _write(result: RestoreResult, name: str, output: str, work: Work) -> PhotoOutcome:
    local = work.output.local
    if local is not None:
        path = local / output
        path.parent.mkdir(parents=True, exist_ok=True)
        originals = [work.source.local / name] if work.source.local else []
        check_output(path, originals, overwrite_originals=work.written.overwrite_originals)
        return write_result(result, Path(name), path, work.written)
    with tempfile.TemporaryDirectory(prefix="gpen-") as folder:
        path = Path(folder, Path(output).name)
        there = work.output.find(output)
        if there is not None:
            # Fetched, so that what decides whether it may be replaced is what decides so on this machine.
            path.write_bytes(there)
        check_output(path, [], overwrite_originals=work.written.overwrite_originals)
        outcome = write_result(result, Path(name), path, work.written)
        for file in Path(folder).rglob("*"):
            if file.is_file():
                below = file.relative_to(folder).as_posix()
                try:
                    work.output.write(str(Path(output).parent / below), file.read_bytes())
                except OSError as error:
                    raise PhotoError(f"{below} could not be written: {error}.") from error
        return outcome
