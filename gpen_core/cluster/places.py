"""Folders that need not be on this machine: whatever pyarrow or fsspec has a file system for."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from gpen_core.errors import DeviceError, PhotoError
from gpen_core.folders import MANIFEST_NAME, fits_pattern, is_photo_name
from gpen_core.options import BatchOptions

PARTS_FOLDER = "manifest-parts"
PLACE_ERRORS = (OSError, ValueError)
"""pyarrow's errors are these, or derive from them."""


@dataclass(frozen=True, slots=True)
class FileAt:
    """A file of a place."""

    name: str
    """Path in the place, with slashes."""
    state: tuple[int, int]
    """Size in bytes and time of change in ns, by which a file that was replaced is noticed."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder: a path of this machine, or an address such as s3://bucket/folder. Travels between machines."""

    address: str

    @property
    def local(self) -> Path | None:
        """The folder where it is on this machine's disks, or on one that all machines share; None elsewhere."""
        return None if "://" in self.address else Path(self.address)

    def list_photos(self, options: BatchOptions, passed: Place | None = None) -> list[FileAt]:
        """The photos in it by name, as `gpen_core.folders.list_photos` finds them.

        Args:
            options: whether to enter folders, and what to leave out.
            passed: a place that is not entered.

        Raises:
            PhotoError: it cannot be read, or holds no photo.
        """
        try:
            files = list(self._files(recursive=options.recursive))
        except PLACE_ERRORS as error:
            raise PhotoError(f"The folder {self.address} could not be read: {error}.") from error
        inside = passed.address.removeprefix(self.address).strip("/") if passed else ""
        is_inside = bool(inside) and passed is not None and passed.address.startswith(self.address)
        photos = [
            file
            for file in files
            if _is_photo(file.name, options) and not (is_inside and file.name.startswith(f"{inside}/"))
        ]
        if not photos:
            raise PhotoError(f"The folder {self.address} holds no photo; name a folder with photos.")
        # The folder's own first, as on this machine.
        photos.sort(key=lambda file: (PurePosixPath(file.name).parent.as_posix() != ".", file.name))
        return photos[: options.limit or None]

    def _files(self, *, recursive: bool) -> Iterator[FileAt]:
        from pyarrow import fs as arrow_fs

        system, root = _open(self.address)
        for info in system.get_file_info(arrow_fs.FileSelector(root, recursive=recursive)):
            if info.type == arrow_fs.FileType.File:
                name = info.path.removeprefix(root).lstrip("/")
                yield FileAt(name, (info.size or 0, info.mtime_ns or 0))

    def sizes(self) -> dict[str, int]:
        """Size in bytes of every file in it by name; empty where there is no such folder yet."""
        try:
            return {file.name: file.state[0] for file in self._files(recursive=True)}
        except FileNotFoundError:
            return {}

    def read(self, name: str) -> bytes:
        """A file's content.

        Raises:
            OSError: it cannot be read.
        """
        system, root = _open(self.address)
        with system.open_input_stream(f"{root}/{name}") as stream:
            return bytes(stream.read())

    def find(self, name: str) -> bytes | None:
        """A file's content; None where there is no such file.

        Raises:
            OSError: it cannot be read.
        """
        try:
            return self.read(name)
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file, under a name of its own first, with the folders it lies in.

        Raises:
            OSError: it cannot be written.
        """
        system, root = _open(self.address)
        path = PurePosixPath(root, name)
        system.create_dir(str(path.parent), recursive=True)
        part = str(path.with_name(f".gpen-{uuid.uuid4().hex}.part"))
        with system.open_output_stream(part) as stream:
            stream.write(content)
        system.move(part, str(path))

    def add_manifest_part(self, lines: str) -> None:
        self.write(f"{PARTS_FOLDER}/{uuid.uuid4().hex}.jsonl", lines.encode())

    def merge_manifest(self) -> bytes:
        """Put what a run, or one that was killed, left in parts behind the manifest's lines; its whole content.

        A photo that was done twice, since the machine that did it first was lost, keeps its last line of the parts.
        """
        system, root = _open(self.address)
        names = sorted(name for name in self.sizes() if name == MANIFEST_NAME or _is_part(name))
        parts = [self.read(name) for name in names if _is_part(name)]
        content = self.read(MANIFEST_NAME) if MANIFEST_NAME in names else b""
        if parts:
            lines = {_photo_of(line): line for part in parts for line in part.splitlines() if line}
            gap = b"\n" if content and not content.endswith(b"\n") else b""
            content = content + gap + b"".join(line + b"\n" for line in lines.values())
            self.write(MANIFEST_NAME, content)
            system.delete_dir(f"{root}/{PARTS_FOLDER}")
        return content


def place_of(text: str) -> Place:
    """A folder that a person named.

    Raises:
        PhotoError: no file system for such an address is installed.
        DeviceError: the packages that all of them need are not.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise DeviceError(
            "The engine ray needs more packages; install them with: pip install -r requirements-ray.txt"
        ) from error
    place = Place(text.rstrip("/") if "://" in text else str(Path(text).resolve()))
    try:
        _open(place.address)
    except (*PLACE_ERRORS, ImportError) as error:
        raise PhotoError(f"{text} cannot be reached: {error}.") from error
    return place


@lru_cache(maxsize=8)
def _open(address: str) -> tuple[Any, str]:
    """File system and path in it. fsspec has many more than pyarrow, once their packages are installed."""
    from pyarrow import fs as arrow_fs

    try:
        system, root = arrow_fs.FileSystem.from_uri(address)
    except ValueError:
        import fsspec

        own, root = fsspec.core.url_to_fs(address)
        system = arrow_fs.PyFileSystem(arrow_fs.FSSpecHandler(own))
    return system, root.rstrip("/")


def _is_photo(name: str, options: BatchOptions) -> bool:
    path = PurePosixPath(name)
    is_hidden = any(part.startswith(".") for part in path.parts[:-1])
    fits = options.pattern is None or fits_pattern(Path(name), options.pattern)
    return is_photo_name(path.name) and not is_hidden and fits


def _is_part(name: str) -> bool:
    return name.startswith(f"{PARTS_FOLDER}/")


def _photo_of(line: bytes) -> str:
    return str(json.loads(line)["input"])
