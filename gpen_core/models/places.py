"""Where weights may lie on this machine, in the order they are looked for. Opens no file and no socket."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpen_core.cache_dir import CACHE_VARIABLE, cache_folder
from gpen_core.errors import WeightsError
from gpen_core.models.registry import HubFile, ModelSpec

ASSETS = Path(__file__).parent / "assets"
WEIGHTS_DIR_VARIABLE = "GPEN_WEIGHTS_DIR"
# ModelScope renamed the owner of its repositories; older caches still have the first name.
OLD_OWNERS = {"iic": "damo"}


@dataclass(frozen=True, slots=True)
class Place:
    """A path where a model's file may be."""

    path: Path
    sha256: str | None
    """What a file of this name must have; None where that is not publicly known."""
    is_ours: bool = False
    """In our own cache, where a broken file may be set aside."""


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder that can be written."""

    folder: Path
    problem: str = ""
    """Why it is a temporary one."""


def weights_folder() -> Path | None:
    """The folder named in `GPEN_WEIGHTS_DIR`. Only read."""
    named = os.environ.get(WEIGHTS_DIR_VARIABLE)
    return Path(named).absolute() if named else None


def writable_cache() -> Cache:
    """Our cache where it can be written, else a temporary folder that goes when this process ends.

    Raises:
        WeightsError: nor can that be written.
    """
    folder = cache_folder()
    problem = "there is no home folder to keep the weights in"
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return Cache(folder)
        except OSError as error:
            problem = f"the cache folder {folder} cannot be written ({error.strerror})"
    try:
        temporary = Path(_temporary_folder().name)
    except OSError as error:
        raise WeightsError(
            f"The weights cannot be kept, because {problem}, and there is no temporary folder either; "
            f"name a folder that can be written in {CACHE_VARIABLE}."
        ) from error
    return Cache(temporary, problem)


@functools.cache
def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="gpen-weights-")


def places_of(spec: ModelSpec) -> Iterator[Place]:
    """Where the spec's file may be, the first to be preferred: our cache, the user's folder, ModelScope's cache."""
    if spec.is_embedded:
        yield Place(ASSETS / spec.file_name, spec.sha256)
        return
    names = (spec.file_name, *spec.other_names)
    for folder in _own_folders():
        yield from (Place(folder / name, spec.sha256, is_ours=True) for name in names)
    named = weights_folder()
    if named is not None:
        yield from (Place(named / name, spec.sha256) for name in names)
        for file in spec.hub_files:
            yield from (Place(root / file.path, _hash_of(spec, file)) for root in _copies_of_repository(named, file))
    for file in spec.hub_files:
        for snapshot in _modelscope_snapshots(file.repo):
            yield Place(snapshot / file.path, _hash_of(spec, file))


def _own_folders() -> Iterator[Path]:
    folder = cache_folder()
    if folder is not None:
        yield folder
    if _temporary_folder.cache_info().currsize:
        yield Path(_temporary_folder().name)


def _hash_of(spec: ModelSpec, file: HubFile) -> str | None:
    return spec.sha256 if file.is_as_released else None


def _copies_of_repository(folder: Path, file: HubFile) -> Iterator[Path]:
    """A repository copied into the folder, or the folder itself.

    Two repositories call their generator `pytorch_model.pt`, so only their folders' names tell the two apart.
    """
    name = file.repo.split("/")[1]
    yield folder / name
    if folder.name == name or "/" in file.path:
        yield folder


def _modelscope_snapshots(repo: str) -> Iterator[Path]:
    """Folders in which past and present versions of ModelScope's client keep a repository."""
    named = os.environ.get("MODELSCOPE_CACHE")
    root = Path(named) if named else Path(os.path.expanduser("~"), ".cache", "modelscope")  # noqa: PTH111 - never raises
    owner, name = repo.split("/")
    for known_owner in filter(None, (owner, OLD_OWNERS.get(owner))):
        snapshots = root / "models" / f"{known_owner}--{name}" / "snapshots"
        yield from (snapshots / revision for revision in ("master", "main"))
        yield from sorted(snapshots.glob("*"))
        for parent in ("models", "hub/models", "hub", ""):
            yield root / parent / known_owner / name


def is_file(path: Path) -> bool:
    """Whether there is a file, also where the folder may not be entered."""
    try:
        return path.is_file()
    except OSError:
        return False
