"""From a model's spec to a verified file on this machine."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from gpen_core.errors import WeightsError
from gpen_core.models.registry import AUTO_ORDER, STARTER, ModelSpec, find_spec_by_hash, get_spec

ASSETS = Path(__file__).parent / "assets"
WITHOUT = {
    "generator": f"choose the embedded model {STARTER.name}",
    "detector": "choose the embedded detector",
    "judge": "switch the gate off",
}
"""What a person can do without the weights, by role."""
WEIGHTS_DIR_VARIABLE = "GPEN_WEIGHTS_DIR"


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightsFile:
    """A file that may be loaded, and what it is."""

    spec: ModelSpec
    path: Path
    sha256: str
    is_verified: bool
    """The hash equals the one publicly known for the spec."""


def weights_folder() -> Path:
    """Where downloaded weights are put by hand: `GPEN_WEIGHTS_DIR`, else `~/.cache/gpen_core`."""
    named = os.environ.get(WEIGHTS_DIR_VARIABLE)
    return Path(named) if named else Path.home() / ".cache" / "gpen_core"


def candidate_path(spec: ModelSpec) -> Path:
    """Where the spec's file would be; it need not exist."""
    return (ASSETS if spec.is_embedded else weights_folder()) / spec.file_name


def is_present(spec: ModelSpec) -> bool:
    return candidate_path(spec).is_file()


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def resolve_model(model: str, weights: Path | None = None) -> WeightsFile:
    """The weights file of a generator.

    Args:
        model: a registry name, or `auto`: the best official model present, else the embedded starter.
        weights: a file to use instead of the model's own. With `auto`, a file of known hash is what its hash says; any
            other is taken as an official-style model, aligned to the `gpen` template.

    Raises:
        WeightsError: the file is missing or is not what its name says.
    """
    if weights is not None:
        return _explicit_file(model, weights)
    return verified_file(best_present() if model == "auto" else get_spec(model))


def best_present() -> ModelSpec:
    """What `auto` means on this machine: the best official generator whose file is here, else the embedded starter."""
    return next((spec for spec in map(get_spec, AUTO_ORDER) if is_present(spec)), STARTER)


def _explicit_file(model: str, path: Path) -> WeightsFile:
    if not path.is_file():
        raise WeightsError(f"There is no weights file {path}; check the path.")
    sha256 = hash_file(path)
    known = find_spec_by_hash(sha256)
    if model == "auto":
        spec = known or ModelSpec(
            name=path.stem, role="generator", file_name=path.name, licence="unknown", summary="A file of your own."
        )
    else:
        spec = get_spec(model)
    return WeightsFile(spec=spec, path=path, sha256=sha256, is_verified=known is not None and known == spec)


def verified_file(spec: ModelSpec) -> WeightsFile:
    """The spec's own file, hashed.

    Raises:
        WeightsError: it is not on this machine, or its hash is not the known one.
    """
    path = candidate_path(spec)
    if not path.is_file():
        identity = f" (sha256 {spec.sha256})" if spec.sha256 else ""
        raise WeightsError(
            f"The weights of {spec.name} are not on this machine: put {spec.file_name}{identity} into "
            f"{weights_folder()}, or {WITHOUT[spec.role]}."
        )
    sha256 = hash_file(path)
    if spec.sha256 is not None and sha256 != spec.sha256:
        raise WeightsError(
            f"The file {path} is not {spec.name}: its sha256 is {sha256}, expected {spec.sha256}; "
            "it is damaged or another file of the same name, so fetch it again."
        )
    return WeightsFile(spec=spec, path=path, sha256=sha256, is_verified=spec.sha256 is not None)
