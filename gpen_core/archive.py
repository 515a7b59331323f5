"""Photos that came from anywhere, restored into one ZIP: bounded, stoppable, and nothing half-written."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpen_core.errors import Cancelled, OptionError
from gpen_core.folders import MANIFEST_NAME, crops_folder_for, sheet_for, unique_names
from gpen_core.options import OutputOptions, RestoreOptions
from gpen_core.photo.io import megapixels_of
from gpen_core.types import OnProgress, Progress

if TYPE_CHECKING:
    from gpen_core.batch import PhotoOutcome, Status
    from gpen_core.restorer import Restorer

FAILURES_NAME = "failures.txt"
MIB = 2**20
STOPPED = "Not restored, since the run was stopped before its turn."
FULL_ZIP = "Not restored, since the ZIP holds at most {size} MB; send it with the next."
FULL_DISK = "Not restored, since the disk of the server is nearly full."
TOO_MANY = "At most {limit} photos are restored in one run; send this one with the next."
TOO_LARGE = "At most {limit} megapixels are restored in one run; send this one with the next."


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveLimits:
    """How much one run may do. Photos beyond it are named and left out."""

    max_photos: int = 100
    max_megapixels: float = 1000.0
    """Of all results together."""
    max_mib: int = 2000
    """Of the ZIP."""
    min_free_mib: int = 500
    """Left on the disk."""


class NamedFile(NamedTuple):
    """A photo's file, and the name its owner knows it by."""

    path: Path
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchivedPhoto:
    """What became of one photo. Light, so that a list of them can be kept."""

    name: str
    """Unique among those of its run."""
    output: str | None
    """Its result's name in the ZIP; None where it has none."""
    status: Status
    """`skipped` where it was left out or its turn did not come."""
    num_faces: int = 0
    """Restored."""
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    error: str = ""
    """Why it failed or was left out, in a sentence for people."""


def restore_to_zip(
    restorer: Restorer,
    photos: Sequence[NamedFile],
    archive: Path,
    options: RestoreOptions,
    *,
    written: OutputOptions | None = None,
    limits: ArchiveLimits | None = None,
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
) -> Iterator[ArchivedPhoto]:
    """Restore photos into a ZIP, with `manifest.jsonl` (see `gpen_core.manifest`) and `failures.txt` where any failed.

    Yields one outcome a photo; those left out come last. The ZIP is there when the iterator is exhausted, and not at
    all when it is closed before.

    Args:
        restorer: holds the networks.
        photos: their files, which stay as they are; names that clash get a number.
        archive: the ZIP, which is replaced; its folder is used for what is in the works.
        options: what to do.
        written: how results are written, and what else is.
        limits: how much may be done.
        stop: once set, no other photo is begun, and the ZIP holds what is finished.
        on_progress: hears each photo's own stages, from several threads; raising in it ends everything without a ZIP.

    Raises:
        OptionError: no photos.
    """
    from gpen_core.batch import restore_folder  # here, because it loads torch

    if not photos:
        raise OptionError("There are no photos to restore; add some first.")
    ending = _Ending(stop or threading.Event(), on_progress)
    with tempfile.TemporaryDirectory(prefix=".gpen-", dir=archive.parent) as folder, _open_zip(archive) as container:
        run = _Run(Path(folder), container, limits or ArchiveLimits(), ending.now)
        staged = run.stage(photos, float(options.scale))
        outcomes = restore_folder(
            restorer,
            staged,
            run.results,
            options,
            root=run.originals,
            written=written,
            stop=ending.now,
            load=Path.read_bytes,
            on_progress=ending.report,
        )
        # Closed before the folder goes, since what is being written needs it.
        with closing(outcomes):
            for outcome in outcomes if staged else ():
                yield run.add(outcome)
        yield from run.left_over(staged)
        run.add_reports()


class _Ending:
    """Brings the run to its end once the caller has stopped it, or no more fits."""

    def __init__(self, stop: threading.Event, on_progress: OnProgress | None) -> None:
        self.now = threading.Event()
        self._stop, self._on_progress = stop, on_progress

    def report(self, step: Progress) -> None:
        """Ends what is in the works, all but the blending of photos that the network has finished."""
        if self._stop.is_set():
            self.now.set()
        if self.now.is_set() and step.stage != "blend":
            raise Cancelled("Stopped.")
        if self._on_progress is not None:
            self._on_progress(step)


@contextmanager
def _open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """A ZIP that is whole or absent. Stored, not deflated: pictures are compressed already."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as container:
            yield container
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class _Run:
    """The files of one run, and what became of them."""

    def __init__(self, folder: Path, container: zipfile.ZipFile, limits: ArchiveLimits, end: threading.Event) -> None:
        self.originals, self.results = folder / "originals", folder / "results"
        self.originals.mkdir()
        self._container, self._limits, self._end = container, limits, end
        self._done: set[Path] = set()
        self._beyond: list[ArchivedPhoto] = []
        self._failures: list[str] = []
        self._reason = STOPPED

    def stage(self, photos: Sequence[NamedFile], scale: float) -> list[Path]:
        """Each photo that is within the limits under a name of its own in one folder."""
        staged: list[Path] = []
        megapixels = 0.0
        for photo, name in zip(photos, unique_names([photo.name for photo in photos]), strict=True):
            size = megapixels_of(photo.path) * scale**2
            if len(staged) >= self._limits.max_photos:
                self._leave_out(name, TOO_MANY.format(limit=self._limits.max_photos))
            elif megapixels + size > self._limits.max_megapixels:
                self._leave_out(name, TOO_LARGE.format(limit=f"{self._limits.max_megapixels:g}"))
            else:
                megapixels += size
                staged.append(_link(photo.path, self.originals / name))
        return staged

    def _leave_out(self, name: str, reason: str) -> None:
        self._beyond.append(ArchivedPhoto(name=name, output=None, status="skipped", error=reason))

    def add(self, outcome: PhotoOutcome) -> ArchivedPhoto:
        """Move a photo's files into the ZIP, so that the disk holds them once."""
        self._done.add(outcome.source)
        for path in _files_of(outcome.output):
            self._container.write(path, path.relative_to(self.results).as_posix())
            path.unlink()
        self._check_space()
        result = outcome.result
        photo = ArchivedPhoto(
            name=outcome.source.name,
            output=None if outcome.output is None else outcome.output.relative_to(self.results).as_posix(),
            status=outcome.status,
            num_faces=0 if result is None else result.num_shown,
            seconds=0.0 if result is None else result.seconds,
            notes=outcome.notes,
            error=self._without_folder(outcome.error),
        )
        self._note_failure(photo)
        return photo

    def _check_space(self) -> None:
        size = self._container.fp.tell() if self._container.fp is not None else 0
        if size > self._limits.max_mib * MIB:
            self._reason = FULL_ZIP.format(size=self._limits.max_mib)
        elif shutil.disk_usage(self.results).free < self._limits.min_free_mib * MIB:
            self._reason = FULL_DISK
        else:
            return
        self._end.set()

    def left_over(self, staged: Sequence[Path]) -> Iterator[ArchivedPhoto]:
        stopped = [
            ArchivedPhoto(name=path.name, output=None, status="skipped", error=self._reason)
            for path in staged
            if path not in self._done
        ]
        for photo in (*stopped, *self._beyond):
            self._note_failure(photo)
            yield photo

    def _without_folder(self, text: str) -> str:
        """Where the server keeps the files is nobody's business."""
        return text.replace(f"{self.results}{os.sep}", "").replace(f"{self.originals}{os.sep}", "")

    def _note_failure(self, photo: ArchivedPhoto) -> None:
        if photo.error:
            self._failures.append(f"{photo.name}: {photo.error}\n")

    def add_reports(self) -> None:
        manifest = self.results / MANIFEST_NAME
        if manifest.exists():
            text = self._without_folder(manifest.read_text(encoding="utf-8"))
            self._container.writestr(MANIFEST_NAME, text, zipfile.ZIP_DEFLATED)
        if self._failures:
            self._container.writestr(FAILURES_NAME, "".join(self._failures))


def _link(source: Path, target: Path) -> Path:
    try:
        os.link(source, target)
    except OSError:  # another disk, or one that knows no links
        shutil.copyfile(source, target)
    return target


def _files_of(output: Path | None) -> list[Path]:
    """A photo's result and what lies beside it."""
    if output is None:
        return []
    candidates = (output, sheet_for(output), *sorted(crops_folder_for(output).glob("*")))
    return [path for path in candidates if path.is_file()]
