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
        line = make_line(
            self._name(photo),
            status,
            state=_state(photo),
            output=None if output is None else output.relative_to(self._folder).as_posix(),
            error=error,
            result=result,
            settings=self._settings,
        )
        try:
            with self._lock, self.path.open("a", encoding="utf-8") as file:
                # A run that was killed may have left half a line.
                file.write("\n" + line if self._is_torn else line)
                self._is_torn = False
        except OSError as error:
            raise PhotoError(f"{self.path} could not be written: {error.strerror}.") from error

    def _name(self, photo: Path) -> str:
        return photo.relative_to(self._root).as_posix()


def make_line(
    photo: str,
    status: str,
    *,
    state: list[int] | None,
    output: str | None,
    error: str,
    result: RestoreResult | None,
    settings: dict[str, Any],
) -> str:
    """A manifest's line, with its end.

    Args:
        photo: path in the folder of the photos, with slashes.
        status: what became of it.
        state: size and time of change of its file.
        output: path in the output folder.
        error: why it failed.
        result: what was done.
        settings: see `settings_of`.
    """
    record: dict[str, Any] = {
        "program": f"{SOFTWARE} {__version__}",
        "input": photo,
        "output": output,
        "status": status,
        "error": error,
        "input_state": state,
        **({} if result is None else result.to_report()),
        "settings": settings,
    }
    return json.dumps(record, ensure_ascii=False) + "\n"


def settings_of(
    options: RestoreOptions, written: OutputOptions, model: str, model_sha256: str | None, task: str
) -> dict[str, Any]:
    """What decides how a result looks, ready for JSON."""
    return {
        "model": model,
        "model_sha256": model_sha256,
        "task": task,
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
    """The records of a file, and whether it ends within a line. Lines that are no JSON are passed over."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}, False
    except OSError as error:
        raise PhotoError(f"{path} could not be read: {error.strerror}.") from error
    return parse_records(content, settings), bool(content) and not content.endswith(b"\n")


def parse_records(content: bytes, settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The last record of each photo in a manifest's content. Of the settings it keeps whether they are these."""
    records: dict[str, dict[str, Any]] = {}
    for line in content.split(b"\n"):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("input"), str):
            # What a restart does not ask for is not kept: a manifest of thousands is long.
            kept = {name: record.get(name) for name in ("status", "output", "input_state")}
            records[record["input"]] = {**kept, "settings": record.get("settings") == settings}
    return records
