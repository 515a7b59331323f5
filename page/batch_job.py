"""Many photos for one visitor: between two of them the device is lent to others. Knows no Gradio."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpen_core.archive import ArchivedPhoto, NamedFile, restore_to_zip
from gpen_core.errors import Cancelled
from gpen_core.types import Progress
from page.jobs import STOPPED, GetRestorer, Report, Step, Turns
from page.values import Chosen

ZIP_NAME = "restored-photos.zip"


@dataclass(slots=True, eq=False)
class BatchJob:
    """One run over a visitor's photos; `work` is for `Jobs.run`, with `stop`."""

    get_restorer: GetRestorer
    device: Turns
    files: Sequence[NamedFile]
    chosen: Chosen
    """What is done to every photo."""
    stop: threading.Event = field(default_factory=threading.Event)
    photos: list[ArchivedPhoto] = field(default_factory=list)
    """What became of those that are done, in order; grows while `work` runs."""

    def work(self, report: Report) -> tempfile.TemporaryDirectory[str]:
        """Restore the photos. The folder returned holds `ZIP_NAME`, and is the caller's to clean up.

        Raises:
            GpenError: the model cannot be had, or it was stopped before the first photo.
        """

        def report_or_stop(step: Step) -> None:
            if self.stop.is_set():
                raise Cancelled(STOPPED)
            report(step)

        report_or_stop(Progress("prepare", 0, 1))
        chosen = self.chosen
        restorer = self.get_restorer(chosen.model, report_or_stop, precision=chosen.precision, compile=chosen.compile)
        restorer.prepare(chosen.options, report_or_stop)
        folder = tempfile.TemporaryDirectory(prefix="gpen-")
        try:
            outcomes = restore_to_zip(
                restorer,
                self.files,
                Path(folder.name, ZIP_NAME),
                chosen.options,
                written=chosen.output,
                stop=self.stop,
                on_progress=report,
            )
            while (photo := self._next(lambda: next(outcomes, None), report_or_stop)) is not None:
                self.photos.append(photo)
        except BaseException:
            folder.cleanup()
            raise
        return folder

    def _next(self, advance: Callable[[], ArchivedPhoto | None], report: Report) -> ArchivedPhoto | None:
        """The next photo, restored in this visitor's turn. Once stopped, nothing of the device is needed."""
        try:
            with self.device.take(report):
                return advance()
        except Cancelled:
            return advance()

    def to_report(self) -> dict[str, Any]:
        """What became of each photo, ready for JSON."""
        counts = {status: sum(photo.status == status for photo in self.photos) for status in COUNTED}
        photos = [
            {
                "name": photo.name,
                "output": photo.output,
                "status": photo.status,
                "faces_restored": photo.num_faces,
                "seconds": round(photo.seconds, 3),
                "notes": list(photo.notes),
                "error": photo.error,
            }
            for photo in self.photos
        ]
        return {"photos": photos, "counts": counts, "notes": list(self.chosen.notes)}


COUNTED = ("restored", "no faces", "failed", "skipped")
