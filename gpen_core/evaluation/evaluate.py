"""Restore many pictures with several models and measure each: the file to read first in this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gpen_core.errors import PhotoError
from gpen_core.evaluation.contenders import BASELINES, Contender, load_contenders, restore_crop, sharpen
from gpen_core.evaluation.options import EvaluationOptions, check_outputs
from gpen_core.evaluation.portraits import (
    GIVEN,
    MAX_ENLARGEMENT,
    Case,
    Portrait,
    PortraitSource,
    Skipped,
    list_pictures,
    make_cases,
    read_portraits,
)
from gpen_core.evaluation.region import SIZE_PX, TEMPLATE
from gpen_core.evaluation.scorer import Scorer, Scores, paste_crop
from gpen_core.faces.align import align_face, extract_crop
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.photo.io import read_photo
from gpen_core.result import RestoreResult
from gpen_core.types import OnProgress, Photo, Pixels, Progress

PACKAGES = ("numpy", "opencv-python", "scikit-image", "torch", "torchvision", "basicsr", "pyiqa")


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """The figures of one picture at one strength through one contender."""

    picture: str
    strength: str
    model: str
    scores: Scores


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SheetRow:
    """One line of the contact sheet."""

    label: str
    images: tuple[Pixels | None, ...]
    """(SIZE_PX, SIZE_PX, 3) each, in the order of the sheet's headings; None where a network failed."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Evaluation:
    """What came out, and what it was measured with."""

    options: EvaluationOptions
    rows: tuple[Row, ...]
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]
    contenders: tuple[Mapping[str, Any], ...]
    """Label, weights' hash, device, precision of each model, ready for JSON."""
    machine: Mapping[str, Any]
    sheet_headings: tuple[str, ...]
    sheet_rows: tuple[SheetRow, ...]

    @property
    def num_pictures(self) -> int:
        return len({row.picture for row in self.rows})

    @property
    def has_failures(self) -> bool:
        """Whether a picture that should have worked did not, or a network's answer could not be used."""
        is_broken = any(not row.scores for row in self.rows)
        return is_broken or any(skipped.is_failure for skipped in self.skipped)


def evaluate(options: EvaluationOptions, runtime: RuntimeOptions, on_progress: OnProgress | None = None) -> Evaluation:
    """Restore the pictures with every model and measure what comes out.

    Args:
        options: what to measure, on what.
        runtime: device, precision, detector; its model and weights are not used.
        on_progress: hears how many photos are done; raising in it stops the evaluation.

    Raises:
        GpenError: a folder, model or metric cannot be had, an output file exists, or no picture could be used.
    """
    check_outputs(options)
    photos = list_pictures(Path(options.data), options.limit)
    run = _Run(options, runtime, on_progress, len(photos))
    rows = run.compare_with_truth(photos) if options.truth else run.look_at_photos(photos)
    return run.finish(rows)


class _Run:
    """One evaluation while it runs."""

    def __init__(
        self, options: EvaluationOptions, runtime: RuntimeOptions, on_progress: OnProgress | None, num_photos: int
    ) -> None:
        self._options = options
        self._on_progress = on_progress
        self._num_photos = num_photos
        # First, since metrics that are missing are known at once, and models take seconds.
        self._scorer = Scorer(options.metric_names)
        self._machine = describe_machine()
        self._contenders = load_contenders(
            options.model_choices, runtime, is_measuring_memory="memory" in options.metric_names
        )
        self._skipped: list[Skipped] = []
        self._soft: list[str] = []
        self._sheet_rows: list[SheetRow] = []

    def compare_with_truth(self, photos: Sequence[Path]) -> list[Row]:
        """Restore damaged portraits and compare with the good ones."""
        source = PortraitSource(
            photos=photos,
            inputs=None if self._options.inputs is None else Path(self._options.inputs),
            is_aligned=self._options.aligned,
            detector=self._contenders[0].restorer.detector,
        )
        rows: list[Row] = []
        for num_done, portrait in enumerate(read_portraits(source)):
            self._report(num_done)
            if isinstance(portrait, Skipped):
                self._skipped.append(portrait)
                continue
            self._note_softness(portrait)
            for case in make_cases(portrait, self._options.strength_names):
                rows += self._run_case(case)
        return rows

    def look_at_photos(self, photos: Sequence[Path]) -> list[Row]:
        """Restore whole photos as the program does, and measure each face before and after."""
        rows: list[Row] = []
        for num_done, path in enumerate(photos):
            self._report(num_done)
            try:
                photo = read_photo(path)
            except PhotoError as error:
                self._skipped.append(Skipped(name=path.name, reason=str(error).rstrip("."), is_failure=True))
                continue
            results = {
                contender.label: contender.restorer.restore(photo, RestoreOptions(strength=contender.choice.strength))
                for contender in self._contenders
            }
            rows += self._measure_faces(path.name, photo, results)
        return rows

    def finish(self, rows: Sequence[Row]) -> Evaluation:
        if not rows:
            first = self._skipped[0]
            raise PhotoError(f"No picture of {self._options.data} could be evaluated; {first.name}: {first.reason}.")
        if self._on_progress is not None:
            self._on_progress(Progress("restore", self._num_photos, self._num_photos))
        truth = ("truth",) if self._options.truth else ()
        return Evaluation(
            options=self._options,
            rows=tuple(rows),
            skipped=tuple(self._skipped),
            notes=self._notes(rows),
            contenders=tuple(contender.to_report() for contender in self._contenders),
            machine=self._machine,
            sheet_headings=(*truth, BASELINES[0], *(contender.label for contender in self._contenders)),
            sheet_rows=tuple(self._sheet_rows),
        )

    def _run_case(self, case: Case) -> Iterator[Row]:
        before = case.damaged
        answers: dict[str, Pixels | None] = {}
        for label, pixels in zip(BASELINES, (before, sharpen(before)), strict=True):
            answers[label] = pixels
            scores = self._scorer.score(pixels, before, paste_crop(before, pixels), case.truth)
            yield Row(picture=case.picture, strength=case.strength, model=label, scores=scores)
        for contender in self._contenders:
            answer = restore_crop(contender, before)
            answers[contender.label] = answer.pixels
            scores = {}
            if answer.pixels is not None:
                pasted = paste_crop(before, answer.pixels)
                scores = self._scorer.score(answer.pixels, before, pasted, case.truth)
                scores |= self._costs(contender, answer.seconds)
            yield Row(picture=case.picture, strength=case.strength, model=contender.label, scores=scores)
        images = (case.truth, before, *(answers[contender.label] for contender in self._contenders))
        self._add_to_sheet(f"{case.picture} · {case.strength}", images)

    def _measure_faces(self, name: str, photo: Photo, results: Mapping[str, RestoreResult]) -> Iterator[Row]:
        # What is found and skipped depends on the photo alone, so it is the same for every model.
        found = next(iter(results.values())).faces
        tried = [face for face in found if face.decision != "skipped"]
        if not tried:
            reason = found[0].reason if found else "no face was found"
            self._skipped.append(Skipped(name=name, reason=reason, is_failure=False))
        for face in tried:
            picture = f"{name}#{face.index}"
            aligned = align_face(photo.pixels, face.face.landmarks, TEMPLATE, SIZE_PX)
            before = aligned.pixels
            for label, pixels in zip(BASELINES, (before, sharpen(before)), strict=True):
                pasted = paste_crop(before, pixels)
                scores = self._scorer.score(pasted, before, pasted, None)
                yield Row(picture=picture, strength=GIVEN, model=label, scores=scores)
            images: list[Pixels | None] = [before]
            for contender in self._contenders:
                result = results[contender.label]
                after = extract_crop(result.photo.pixels, aligned.affine, SIZE_PX)
                is_restored = face.index in result.shown
                images.append(after if is_restored else None)
                scores = {}
                if is_restored:
                    scores = self._scorer.score(after, before, after, None)
                    scores |= self._costs(contender, result.timings["restore"] / len(tried))
                yield Row(picture=picture, strength=GIVEN, model=contender.label, scores=scores)
            self._add_to_sheet(picture, images)

    def _costs(self, contender: Contender, seconds: float) -> dict[str, float | None]:
        costs = {"seconds": seconds, "memory_mib": contender.memory_mib}
        wanted = {"seconds": "seconds", "memory": "memory_mib"}
        return {key: costs[key] for metric, key in wanted.items() if metric in self._options.metric_names}

    def _add_to_sheet(self, label: str, images: Sequence[Pixels | None]) -> None:
        if self._options.sheet is not None and len(self._sheet_rows) < self._options.sheet_limit:
            self._sheet_rows.append(SheetRow(label=label, images=tuple(images)))

    def _note_softness(self, portrait: Portrait) -> None:
        if portrait.enlargement > MAX_ENLARGEMENT:
            self._soft.append(f"{portrait.name} ({portrait.enlargement:.1f} times)")

    def _notes(self, rows: Sequence[Row]) -> tuple[str, ...]:
        notes = [f"{skipped.name} was left out: {skipped.reason}." for skipped in self._skipped]
        if self._soft:
            notes.append(f"Enlarged to {SIZE_PX} px, so the truth itself is soft: {', '.join(self._soft)}.")
        for contender in self._contenders:
            num_broken = sum(not row.scores for row in rows if row.model == contender.label)
            if num_broken:
                notes.append(f"{contender.label} gave numbers that are not finite {num_broken} times.")
            if not contender.file.is_verified:
                notes.append(f"The weights of {contender.label} are unverified: their hash is not publicly known.")
        return (*notes, *self._scorer.notes)

    def _report(self, num_done: int) -> None:
        if self._on_progress is not None:
            self._on_progress(Progress("restore", num_done, self._num_photos))


def describe_machine() -> dict[str, Any]:
    """Versions, threads, and how busy the machine is (1, 5 and 15 minutes; empty on Windows)."""
    import torch

    loads = [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else []
    return {
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load_average": loads,
        "versions": {name: found for name in PACKAGES if (found := _version_of(name)) is not None},
    }


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
