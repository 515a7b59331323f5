"""Which weights are on this machine, and whether they are what they should be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpen_core.errors import WeightsError
from gpen_core.models.places import is_file, places_of
from gpen_core.models.registry import ModelSpec
from gpen_core.models.verify import WeightsFile, identify


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightsStatus:
    """What is known of one model's file."""

    spec: ModelSpec
    file: WeightsFile | None
    """The one that would be used; None where there is none."""
    problems: tuple[str, ...]
    """A sentence for each file that would be passed over."""


def inspect_weights(spec: ModelSpec) -> WeightsStatus:
    """Look a spec's files up and hash them. Changes nothing and opens no socket."""
    problems: list[str] = []
    for place in places_of(spec):
        if not is_file(place.path):
            continue
        try:
            return WeightsStatus(spec=spec, file=identify(spec, place), problems=tuple(problems))
        except WeightsError as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"The file {place.path} cannot be read ({error.strerror}).")
    return WeightsStatus(spec=spec, file=None, problems=tuple(problems))


def load_strictly(spec: ModelSpec, path: Path) -> None:
    """Load a file into its network, tensor by tensor, and let it go.

    Raises:
        WeightsError: a name or a shape is not the network's.
    """
    # Here and not above: the table of models needs no torch.
    from gpen_core.faces.detect import FacexlibDetector
    from gpen_core.faces.parse import FacexlibParser
    from gpen_core.models.checkpoint import load_generator
    from gpen_core.models.eqface import Backbone, QualityHead
    from gpen_core.models.rrdbnet import check_upscaler
    from gpen_core.runtime.eqface_judge import load_eqface

    if spec.role == "generator":
        load_generator(path, expected_size=spec.size)
    elif spec.role == "detector":
        FacexlibDetector(path, "cpu")
    elif spec.role == "parser":
        FacexlibParser(path, "cpu")
    elif spec.role == "upscaler":
        check_upscaler(path, spec.scale)
    else:
        load_eqface(Backbone() if spec.name == "eqface-backbone" else QualityHead(), path)
