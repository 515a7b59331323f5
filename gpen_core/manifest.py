"""What a batch did, one JSON line a photo, from which it can be gone on with and looked into."""

from __future__ import annotations

import dataclasses
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpen_core.errors import PhotoError
from gpen_core.folders import MANIFEST_NAME
from gpen_core.options import OutputOptions, RestoreOptions
from gpen_core.photo.metadata import SOFTWARE, is_own_result
from gpen_core.version import __version__

if TYPE_CHECKING:
    from gpen_core.result import RestoreResult

DONE = ("restored", "no faces")


class Manifest:
    """The file of one output folder. Lines are only added; of several for one photo the last one counts."""

    def __init__(self, folder: Path, root: Path, settings: dict[str, Any]) -> None:
        """Read what earlier runs wrote.

        Args:
            folder: where the results and the manifest are.
            root: the folder of the photos; they are named by their path in it.
            settings: what this run does, see `settings_of`.

        Raises:
            PhotoError: the file cannot be read.
        """
        self.path = folder / MANIFEST_NAME
        self._folder, self._root = folder, root
        # As JSON gives them back.
        self._settings = json.loads(json.dumps(settings))
        self._lock = threading.Lock()
        self._records, self._is_torn = _read(self.path, self._settings)

    def is_done(self, photo: Path, output: Path) -> bool:
        """Whether the photo has its result: by the last line about it, else by the mark in the result's file."""
        try:
            if output.stat().st_size == 0:
                return False
            record = self._records.get(self._name(photo))
            if record is None or record.get("status") == "skipped":
                return is_own_result(output)
            is_same_photo = is_own_result(output) if output == photo else record.get("input_state") == _state(photo)
            is_same_output = record.get("output") == output.relative_to(self._folder).as_posix()
            return record.get("status") in DONE and bool(record.get("settings")) and is_same_photo and is_same_output
        except OSError:
            return False

    def add_skipped(self, photo: Path, output: Path) -> None:
        """Append a line for a photo whose result was there, unless a run before has told how it came to be."""
        if self._name(photo) not in self._records:
            self.add(photo, "skipped", output=output)

    def add(
        self, photo: Path, status: str, *, output: Path | None, error: str = "", result: RestoreResult | None = None
    ) -> None:
        """Append a line. May be called from any thread.

        Raises:
            PhotoError: it cannot be written.
        """
        record: dict[str, Any] = {
            "program": f"{SOFTWARE} {__version__}",
            "input": self._name(photo),
            "output": None if output is None else output.relative_to(self._folder).as_posix(),
            "status": status,
            "error": error,
            "input_state": _state(photo),
            **({} if result is None else result.to_report()),
            "settings": self._settings,
        }
        line = json.dumps(record, ensure_ascii=False) + "\n"
        try:
            with self._lock, self.path.open("a", encoding="utf-8") as file:
                # A run that was killed may have left half a line.
                file.write("\n" + line if self._is_torn else line)
                self._is_torn = False
        except OSError as error:
            raise PhotoError(f"{self.path} could not be written: {error.strerror}.") from error

    def _name(self, photo: Path) -> str:
        return photo.relative_to(self._root).as_posix()


def settings_of(
    options: RestoreOptions, written: OutputOptions, model: str, model_sha256: str | None
) -> dict[str, Any]:
    """What decides how a result looks, ready for JSON."""
    return {
        "model": model,
        "model_sha256": model_sha256,
        "restore": dataclasses.asdict(options),
        "output": dataclasses.asdict(written),
    }


def _state(photo: Path) -> list[int] | None:
    """Size and time of change, by which a photo that was replaced since is noticed."""
    try:
        stat = photo.stat()
    except OSError:
        return None
    return [stat.st_size, stat.st_mtime_ns]


def _read(path: Path, settings: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], bool]:
    """The last record of each photo, and whether the file ends within a line. Lines that are no JSON are passed over.

    Of the settings a record keeps whether they are these.
    """
    records: dict[str, dict[str, Any]] = {}
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return records, False
    except OSError as error:
        raise PhotoError(f"{path} could not be read: {error.strerror}.") from error
    for line in content.split(b"\n"):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("input"), str):
            # What a restart does not ask for is not kept: a manifest of thousands is long.
            kept = {name: record.get(name) for name in ("status", "output", "input_state")}
            records[record["input"]] = {**kept, "settings": record.get("settings") == settings}
    return records, bool(content) and not content.endswith(b"\n")
