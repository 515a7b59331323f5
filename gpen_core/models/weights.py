"""From a model's name to a file that may be loaded: found on this machine, else fetched, verified either way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from gpen_core.cache_dir import CACHE_VARIABLE, cache_folder
from gpen_core.errors import WeightsError
from gpen_core.models.fetch import fetch
from gpen_core.models.places import WEIGHTS_DIR_VARIABLE, is_file, places_of, weights_folder
from gpen_core.models.registry import AUTO_ORDER, STARTER, ModelSpec, find_spec_by_hash, get_spec
from gpen_core.models.sources import OFFLINE_VARIABLE, is_offline, offers_of
from gpen_core.models.verify import (
    WeightsFile,
    found_file,
    has_known_size,
    hash_file,
    identify,
    known_files,
    set_aside,
)
from gpen_core.models.watch import Unobtainable, in_megabytes
from gpen_core.types import OnProgress, Progress

T = TypeVar("T")
Load = Callable[[WeightsFile], T]
"""A strict loader: raises WeightsError where the file's names or shapes are of another network."""

WITHOUT = {
    "generator": f"choose the embedded model {STARTER.name}",
    "detector": "choose the embedded detector",
    "parser": "choose the soft mask",
    "upscaler": "choose another upscaler",
    "judge": "switch the gate off",
}
"""What a person can do without the weights, by role."""


def _ignore_progress(progress: Progress) -> None:
    """Progress that nobody asked for."""


def is_present(spec: ModelSpec) -> bool:
    """Whether a file of the spec's name, and of its size where that is known, is on this machine. Reads none."""
    return find_path(spec) is not None


def find_path(spec: ModelSpec) -> Path | None:
    """The first file of the spec's name, and of its size where that is known; None where there is none."""
    for place in places_of(spec):
        if is_file(place.path) and has_known_size(known_files(spec, place), place.path.stat().st_size):
            return place.path
    return None


def can_be_fetched(spec: ModelSpec) -> bool:
    """Whether a missing file would be asked for somewhere."""
    return bool(offers_of(spec)) and not is_offline()


def best_present() -> ModelSpec:
    """What `auto` means on this machine: the best official generator whose file is here, else the embedded starter."""
    return next((spec for spec in map(get_spec, AUTO_ORDER) if is_present(spec)), STARTER)


def load_model(
    model: str, weights: Path | None, load: Load[T], report: OnProgress = _ignore_progress
) -> tuple[WeightsFile, T]:
    """Find or fetch a generator's file and load it.

    Args:
        model: a registry name, which is fetched where it is missing; or `auto`: the best official model on this
            machine, else the embedded starter. `auto` fetches nothing: the official files are large and not for
            commercial use, so somebody has to ask for them by name.
        weights: a file to use instead of the model's own. With `auto`, a file of known hash is what its hash says; any
            other is taken as an official-style model, aligned to the `gpen` template.
        load: the strict loader.
        report: hears how far a download is.

    Raises:
        WeightsError: there is no file, or it is not what its name says.
    """
    if weights is not None:
        file = _explicit_file(model, weights)
        return file, load(file)
    if model != "auto":
        return load_weights(get_spec(model), load, report)
    passed: list[str] = []
    for name in AUTO_ORDER:
        try:
            found = load_present(get_spec(name), load, passed)
        except WeightsError as error:
            passed.append(str(error))
            continue
        if found is not None:
            return found
    file, loaded = load_weights(STARTER, load)
    why = (
        f"{STARTER.name} was used, because no official GPEN weights {'here fit' if passed else 'are on this machine'}; "
        f"{download_command(get_spec(AUTO_ORDER[0]))} fetches them."
    )
    return replace(file, notes=(*passed, why, *file.notes)), loaded


def load_weights(spec: ModelSpec, load: Load[T], report: OnProgress = _ignore_progress) -> tuple[WeightsFile, T]:
    """Find or fetch a spec's file and load it: the first in order that is what it should be.

    Raises:
        WeightsError: nobody has it; the message names the file, its hash, and where to put it.
    """
    passed: list[str] = []
    found = load_present(spec, load, passed)
    if found is not None:
        return found
    if spec.by_hand_url and not offers_of(spec):
        reason = f"only a person can fetch them, from {spec.by_hand_url}, since no hash is known to check them by"
    elif is_offline():
        reason = f"{OFFLINE_VARIABLE} forbids fetching them"
    elif not can_be_fetched(spec):
        reason = "nobody is known to publish them"
    else:
        try:
            file = fetch(spec, report)
            return replace(file, notes=(*passed, *file.notes)), load(file)
        except Unobtainable as error:
            reason = str(error)
    raise WeightsError(" ".join((*passed, _missing_sentence(spec, reason))))


def load_present(spec: ModelSpec, load: Load[T], passed: list[str]) -> tuple[WeightsFile, T] | None:
    """The first file on this machine that is what it should be, and what it holds; opens no socket.

    Args:
        spec: the model.
        load: the strict loader.
        passed: a sentence is added for each file that was passed over.

    Raises:
        WeightsError: a verified file cannot be loaded, or an embedded one is not whole.
    """
    for file in _files(spec, passed):
        try:
            loaded = load(file)
        except WeightsError as error:
            if file.is_verified:
                raise
            passed.append(str(error))
        else:
            return replace(file, notes=(*passed, *file.notes)), loaded
    return None


def _files(spec: ModelSpec, passed: list[str]) -> Iterator[WeightsFile]:
    for place in places_of(spec):
        if not is_file(place.path):
            continue
        try:
            yield identify(spec, place)
        except WeightsError as error:
            aside = set_aside(place.path) if place.is_ours else None
            passed.append(str(error) + (f" It was set aside as {aside.name}." if aside else ""))
        except OSError as error:
            passed.append(f"The file {place.path} cannot be read ({error.strerror}).")


def resolve_model(model: str, weights: Path | None = None) -> WeightsFile:
    """The file that `load_model` would load, without loading it."""
    return load_model(model, weights, lambda file: None)[0]


def verified_file(spec: ModelSpec, report: OnProgress = _ignore_progress) -> WeightsFile:
    """The file that `load_weights` would load, without loading it."""
    return load_weights(spec, lambda file: None, report)[0]


def download_command(spec: ModelSpec) -> str:
    """The command that fetches a spec's file."""
    return f"`python -m gpen_core download {spec.name}`"


def describe_identity(spec: ModelSpec) -> str:
    """File name, size and hash for people."""
    size = f"{in_megabytes(spec.num_bytes)} MB, " if spec.num_bytes else ""
    return spec.file_name + (f" ({size}sha256 {spec.sha256})" if spec.sha256 else "")


def _missing_sentence(spec: ModelSpec, reason: str) -> str:
    folders = [str(folder) for folder in (cache_folder(), weights_folder()) if folder is not None]
    where = " or ".join(folders or [f"a folder named in {CACHE_VARIABLE} or {WEIGHTS_DIR_VARIABLE}"])
    fetched = f"run {download_command(spec)} where there is a network, " if offers_of(spec) else ""
    return (
        f"The weights of {spec.name} are not on this machine, and {reason}: {fetched}"
        f"put {describe_identity(spec)} into {where}{_without(spec)}."
    )


def _without(spec: ModelSpec) -> str:
    """What else a person can do; there is nothing else where no other model has the task."""
    return f", or {WITHOUT[spec.role]}" if spec.task == STARTER.task else ""


def _explicit_file(model: str, path: Path) -> WeightsFile:
    if not is_file(path):
        raise WeightsError(f"There is no weights file {path}; check the path.")
    sha256 = hash_file(path)
    known = find_spec_by_hash(sha256)
    if model == "auto":
        spec = known or ModelSpec(
            name=path.stem, role="generator", file_name=path.name, licence="unknown", summary="A file of your own."
        )
    else:
        spec = get_spec(model)
    return found_file(spec, path, sha256, is_verified=known == spec)
