"""Is a file what its name says? Sizes and hashes, and the record of what was downloaded."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpen_core.errors import WeightsError
from gpen_core.models.places import Place
from gpen_core.models.registry import ModelSpec

LOCK_NAME = "weights.lock.json"
BROKEN_SUFFIX = ".broken"


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightsFile:
    """A file that may be loaded, and what it is."""

    spec: ModelSpec
    path: Path
    sha256: str
    is_verified: bool
    """The hash is the one publicly known, or the one that ModelScope listed when the file was downloaded."""
    notes: tuple[str, ...] = ()
    """What people should know of how it was found."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """What `weights.lock.json` says of a downloaded file."""

    file: str
    sha256: str
    bytes: int
    source: str
    date: str


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read_records(folder: Path) -> dict[str, Record]:
    """The folder's records by file name; none where the lock file is missing or damaged."""
    try:
        content: Any = json.loads((folder / LOCK_NAME).read_text(encoding="utf-8"))
        return {entry["file"]: Record(**entry) for entry in content["weights"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def write_record(folder: Path, file_name: str, record: Record | None) -> None:
    """Put a file's record in the place of its old one; None takes it out. The caller keeps other writers away."""
    records = read_records(folder)
    records.pop(file_name, None)
    if record is not None:
        records[file_name] = record
    text = json.dumps({"weights": [asdict(records[name]) for name in sorted(records)]}, indent=2)
    temporary = folder / f".{LOCK_NAME}.part"
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(folder / LOCK_NAME)


def known_files(spec: ModelSpec, place: Place) -> dict[str, int | None]:
    """Hash and size of the files that may be at `place`: the published one, and the one that was downloaded there.

    Empty where any file may be there; a size is None where it is not known.
    """
    known: dict[str, int | None] = {}
    if place.sha256 is not None:
        known[place.sha256] = spec.num_bytes
    record = read_records(place.path.parent).get(place.path.name) if place.is_ours else None
    if record is not None:
        known[record.sha256] = record.bytes
    return known


def has_known_size(known: dict[str, int | None], num_bytes: int) -> bool:
    """Whether a file of this size may be one of the known ones. An empty file never is."""
    return num_bytes > 0 and (not known or any(size in (None, num_bytes) for size in known.values()))


def identify(spec: ModelSpec, place: Place) -> WeightsFile:
    """Check size and hash of the file at `place`.

    Raises:
        WeightsError: they are not what is known of it.
        OSError: it cannot be read.
    """
    known = known_files(spec, place)
    num_bytes = place.path.stat().st_size
    if not has_known_size(known, num_bytes):
        expected = " or ".join(str(size) for size in known.values()) or "more"
        raise WeightsError(_not_the_file(spec, place.path, f"it has {num_bytes} bytes, expected {expected}"))
    sha256 = hash_file(place.path)
    if known and sha256 not in known:
        raise WeightsError(_not_the_file(spec, place.path, f"its sha256 is {sha256}, expected {' or '.join(known)}"))
    return found_file(spec, place.path, sha256, is_verified=sha256 in known or sha256 == spec.sha256)


def found_file(spec: ModelSpec, path: Path, sha256: str, *, is_verified: bool) -> WeightsFile:
    """A file with a note where nobody vouches for it."""
    notes = () if is_verified else (f"The weights {path.name} are unverified: their hash is not publicly known.",)
    return WeightsFile(spec=spec, path=path, sha256=sha256, is_verified=is_verified, notes=notes)


def _not_the_file(spec: ModelSpec, path: Path, difference: str) -> str:
    return (
        f"The file {path} is not {spec.name}: {difference}; it is damaged or another file of the same name, "
        "so fetch it again."
    )


def set_aside(path: Path) -> Path | None:
    """Rename a broken file so that nobody takes it for a whole one; None where that cannot be done."""
    aside = path.with_name(path.name + BROKEN_SUFFIX)
    with contextlib.suppress(OSError):
        return path.replace(aside)
    return None
