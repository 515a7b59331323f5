"""Many photos: while the network restores one, the next is read and the last is written. One outcome a photo."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from gpen_core.crops import save_crops, write_sheet
from gpen_core.errors import FAILURES, Cancelled, PhotoError, describe_failure
from gpen_core.folders import check_output, crops_folder_for, plan_outputs, sheet_for
from gpen_core.manifest import Manifest, settings_of
from gpen_core.options import BatchOptions, OutputOptions, RestoreOptions
from gpen_core.photo.io import PhotoSource, megapixels_of
from gpen_core.prepared import NetworkAnswer, PreparedPhoto
from gpen_core.restorer import Restorer
from gpen_core.result import RestoreResult
from gpen_core.types import OnProgress

Status: TypeAlias = Literal["restored", "no faces", "failed", "skipped"]
MAX_READERS, MAX_WRITERS = 4, 2
MAX_PHOTOS_AT_ONCE = 12
MAX_MEGAPIXELS_AT_ONCE = 64
"""Photos read ahead and not yet written, together and at the result's size; a larger one goes alone."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PhotoOutcome:
    """What became of one file."""

    source: Path
    output: Path | None
    """The file written, or found; None where it failed."""
    status: Status
    notes: tuple[str, ...] = ()
    error: str = ""
    """Why it failed, in a sentence for people."""
    result: RestoreResult | None = None


def restore_file(
    restorer: Restorer,
    source: Path,
    output: Path,
    options: RestoreOptions,
    *,
    written: OutputOptions | None = None,
    on_progress: OnProgress | None = None,
    inpaint_mask: Path | None = None,
) -> PhotoOutcome:
    """Restore one file into another.

    Args:
        restorer: holds the networks.
        source: the photo.
        output: where the result goes; an earlier result of this program is replaced.
        options: what to do.
        written: how the result is written, and what else is.
        on_progress: see `Restorer.restore`.
        inpaint_mask: see `Restorer.restore`.

    Raises:
        GpenError: see `Restorer.restore`, `check_output` and `write_photo`.
    """
    written = written or OutputOptions()
    check_output(output, [source], overwrite_originals=written.overwrite_originals)
    result = restorer.restore(source, options, on_progress, inpaint_mask=inpaint_mask)
    return write_result(result, source, output, written)


def write_result(result: RestoreResult, source: Path, output: Path, written: OutputOptions) -> PhotoOutcome:
    """A result's file, and its crops and sheet where they are asked for; the outcome of every engine.

    Raises:
        PhotoError: it cannot be written.
    """
    if written.save_crops:
        save_crops(result, crops_folder_for(output))
    if written.sheet:
        write_sheet(result, sheet_for(output))
    notes = (*result.notes, *result.save(output, written))
    status: Status = "restored" if result.num_shown or result.whole_tiles else "no faces"
    return PhotoOutcome(source=source, output=output, status=status, notes=notes, result=result)


def restore_folder(
    restorer: Restorer,
    photos: Sequence[Path],
    output_folder: Path,
    options: RestoreOptions,
    *,
    root: Path | None = None,
    written: OutputOptions | None = None,
    batch: BatchOptions | None = None,
    stop: threading.Event | None = None,
    load: Callable[[Path], PhotoSource] | None = None,
    inpaint_masks: Path | None = None,
    on_progress: OnProgress | None = None,
) -> Generator[PhotoOutcome, None, None]:
    """Restore photos into a folder, which is made if need be, and note each in its `manifest.jsonl`.

    Yields one outcome a photo, in order. A photo that fails is an outcome; it does not stop the others. Their faces go
    through the network together, up to its batch size; memory does not grow with the number of photos.

    Args:
        restorer: holds the networks.
        photos: what `list_photos` found.
        output_folder: the results lie in it as the photos do in `root`, under the same names.
        options: what to do.
        root: the folder of the photos; None takes that of the first.
        written: how results are written, and what else is.
        batch: whether photos that have their result are passed over.
        stop: once set, those that the network has restored are written, and no other is.
        load: what a photo is read from, in the place of its path; with its content, messages name no path.
        inpaint_masks: for the task `inpaint`, the folder of the masks, named as the photos are, in any format.
        on_progress: hears each photo's own stages, from several threads; raising in it stops everything, or where
            `stop` is set, all but the writing.

    Raises:
        PhotoError: the output folder is the folder of the photos, or cannot be made.
    """
    written, batch = written or OutputOptions(), batch or BatchOptions()
    root = root or (photos[0].parent if photos else Path())
    outputs = plan_outputs(photos, root, output_folder, written.format)
    _check_folders(photos, outputs, output_folder, written)
    settings = settings_of(options, written, restorer.model_name, restorer.model_sha256, restorer.task.name)
    manifest = Manifest(output_folder, root, settings)
    masks = None if inpaint_masks is None else _Masks(inpaint_masks, root)
    run = _Run(restorer, options, written, manifest, load or Path, masks, on_progress)
    try:
        yield from run.outcomes(outputs, is_resuming=batch.skip_existing, stop=stop or threading.Event())
    finally:
        run.close()


def _check_folders(
    photos: Sequence[Path], outputs: dict[Path, Path], output_folder: Path, written: OutputOptions
) -> None:
    originals = {photo.resolve() for photo in photos}
    is_among = any(photo.parent.resolve() == outputs[photo].parent.resolve() for photo in photos)
    if not written.overwrite_originals and (is_among or any(path.resolve() in originals for path in outputs.values())):
        raise PhotoError(
            f"{output_folder} holds the originals, which are never overwritten unasked; choose another output, or add "
            "--overwrite-originals."
        )
    try:
        for folder in {output_folder, *(path.parent for path in outputs.values())}:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PhotoError(f"The folder {output_folder} could not be made: {error.strerror}.") from error


class _Masks:
    """The masks of a folder of photos: each lies where its photo does, under its name up to the ending."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._folder, self._root = folder, root
        self._lock = threading.Lock()
        self._known: dict[Path, dict[str, Path]] = {}

    def of(self, photo: Path) -> Path:
        place = self._folder / photo.relative_to(self._root)
        with self._lock:
            if place.parent not in self._known:
                files = sorted((path for path in place.parent.glob("*") if path.is_file()), reverse=True)
                self._known[place.parent] = {path.stem: path for path in files}
            found = self._known[place.parent].get(place.stem)
        if found is None:
            raise PhotoError(f"There is no mask for {photo.name} in {place.parent}; give it the photo's name.")
        return found


@dataclass(slots=True, eq=False)
class _Job:
    """One photo on its way."""

    source: Path
    output: Path
    megapixels: float = 0.0
    begun: Future[PreparedPhoto] | None = None
    finished: Future[PhotoOutcome] | None = None
    outcome: PhotoOutcome | None = None


@dataclass(slots=True, eq=False)
class _Run:
    """The work in progress. Only the calling thread changes it; the pools' threads get one job's part each."""

    restorer: Restorer
    options: RestoreOptions
    written: OutputOptions
    manifest: Manifest
    load: Callable[[Path], PhotoSource]
    masks: _Masks | None
    on_progress: OnProgress | None
    reading: deque[_Job] = field(default_factory=deque)
    writing: deque[_Job] = field(default_factory=deque)
    readers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(min(MAX_READERS, os.cpu_count() or 1), "gpen-read")
    )
    writers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(MAX_WRITERS, "gpen-write"))

    def outcomes(
        self, outputs: dict[Path, Path], *, is_resuming: bool, stop: threading.Event
    ) -> Iterator[PhotoOutcome]:
        waiting = deque(outputs.items())
        while waiting or self.reading or self.writing:
            if stop.is_set():
                waiting.clear()
                for job in self.reading:
                    if job.begun is not None:
                        job.begun.cancel()
                self.reading.clear()
            while waiting and self._has_room(waiting[0][0]):
                self._start(*waiting.popleft(), is_resuming=is_resuming)
            if self.reading:
                try:
                    self._run_network(self._next_group())
                except Cancelled:
                    if not stop.is_set():
                        raise
                    # These photos are given up; those that the network finished before are still written.
            while self.writing and (self._is_full() or not self.reading or self._is_finished(self.writing[0])):
                yield self._result_of(self.writing.popleft())

    def close(self) -> None:
        """Let what has begun come to its end; files are whole or absent in any case."""
        self.readers.shutdown(wait=True, cancel_futures=True)
        self.writers.shutdown(wait=True, cancel_futures=True)

    def _size_of(self, photo: Path) -> float:
        return megapixels_of(photo) * float(self.options.scale) ** 2

    def _has_room(self, photo: Path) -> bool:
        jobs = (*self.reading, *self.writing)
        if not jobs:
            return True
        taken = sum(job.megapixels for job in jobs)
        return len(jobs) < MAX_PHOTOS_AT_ONCE and taken + self._size_of(photo) <= MAX_MEGAPIXELS_AT_ONCE

    def _is_full(self) -> bool:
        jobs = (*self.reading, *self.writing)
        return len(jobs) >= MAX_PHOTOS_AT_ONCE or sum(job.megapixels for job in jobs) >= MAX_MEGAPIXELS_AT_ONCE

    @staticmethod
    def _is_finished(job: _Job) -> bool:
        return job.finished is None or job.finished.done()

    def _start(self, source: Path, output: Path, *, is_resuming: bool) -> None:
        job = _Job(source, output)
        if is_resuming and self.manifest.is_done(source, output):
            job.outcome = PhotoOutcome(source=source, output=output, status="skipped")
            self.manifest.add_skipped(source, output)
        else:
            job.megapixels = self._size_of(source)
            job.begun = self.readers.submit(self._begin, source, output)
        self.reading.append(job)

    def _begin(self, source: Path, output: Path) -> PreparedPhoto:
        check_output(output, [source], overwrite_originals=self.written.overwrite_originals)
        mask = None if self.masks is None else self.masks.of(source)
        return self.restorer.begin(self.load(source), self.options, self.on_progress, inpaint_mask=mask)

    def _next_group(self) -> list[_Job]:
        """The next photo, and those after it that are read already, up to the network's batch of faces."""
        group = [self.reading.popleft()]
        num_faces = self._num_faces(group[0])
        while self.reading and num_faces < self.restorer.batch_size:
            begun = self.reading[0].begun
            if begun is not None and not begun.done():
                break
            group.append(self.reading.popleft())
            num_faces += self._num_faces(group[-1])
        return group

    def _num_faces(self, job: _Job) -> int:
        """Waits until the photo is read. A failure becomes the job's outcome."""
        if job.begun is None:
            return 0
        try:
            return len(job.begun.result().crops)
        except Cancelled:
            raise
        except FAILURES as error:
            job.begun, job.outcome = None, self._failure(job.source, error)
            return 0

    def _run_network(self, group: list[_Job]) -> None:
        ready = [job for job in group if job.begun is not None]
        try:
            answers = self._restore(ready)
        except Cancelled:
            raise
        except FAILURES:
            # One of them did that: each for itself shows which.
            for job in ready:
                self._restore_alone(job)
        else:
            for job, answer in zip(ready, answers, strict=True):
                self._finish(job, answer)
        self.writing.extend(group)

    def _restore(self, jobs: Sequence[_Job]) -> Sequence[NetworkAnswer]:
        prepared = [job.begun.result() for job in jobs if job.begun is not None]
        return self.restorer.restore_crops(prepared, self.on_progress) if prepared else []

    def _restore_alone(self, job: _Job) -> None:
        try:
            (answer,) = self._restore([job])
        except Cancelled:
            raise
        except FAILURES as error:
            job.outcome = self._failure(job.source, error)
        else:
            self._finish(job, answer)

    def _finish(self, job: _Job, answer: NetworkAnswer) -> None:
        assert job.begun is not None
        prepared, job.begun = job.begun.result(), None
        job.finished = self.writers.submit(self._finish_and_write, prepared, answer, job.source, job.output)

    def _finish_and_write(
        self, prepared: PreparedPhoto, answer: NetworkAnswer, source: Path, output: Path
    ) -> PhotoOutcome:
        outcome = write_result(self.restorer.finish(prepared, answer), source, output, self.written)
        # At once, so that a run that is killed knows nearly all it has done.
        self.manifest.add(outcome.source, outcome.status, output=output, result=outcome.result)
        return outcome

    def _result_of(self, job: _Job) -> PhotoOutcome:
        if job.outcome is not None:
            return job.outcome
        assert job.finished is not None
        try:
            return job.finished.result()
        except Cancelled:
            raise
        except FAILURES as error:
            return self._failure(job.source, error)

    def _failure(self, source: Path, error: BaseException) -> PhotoOutcome:
        message = describe_failure(error)
        outcome = PhotoOutcome(source=source, output=None, status="failed", error=message)
        self.manifest.add(source, outcome.status, output=None, error=message)
        return outcome
