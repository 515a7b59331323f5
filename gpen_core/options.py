"""Every option a person can set: the only place that knows defaults, bounds, choices and help texts.

The command's flags and the page's controls are made from these fields; a test holds them to it. Pure Python, so that
`--help` answers without loading numpy or torch.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from gpen_core.errors import OptionError


@dataclass(frozen=True, kw_only=True, slots=True)
class Allowed:
    """What a field accepts. Bounds include both ends."""

    help: str
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    choices: tuple[Any, ...] | None = None
    words: tuple[str, ...] = ()
    """Accepted beside the numbers."""

    def check(self, name: str, value: Any) -> None:
        if value in self.words:
            return
        if self.choices is not None and value not in self.choices:
            allowed = ", ".join(str(choice) for choice in self.choices)
            raise OptionError(f"{name} is {value!r}; choose one of: {allowed}.")
        if self.minimum is not None and self.maximum is not None and value is not None:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not self.minimum <= value <= self.maximum:
                words = "".join(f", or {word}" for word in self.words)
                raise OptionError(
                    f"{name} is {value!r}; choose a number from {self.minimum:g} to {self.maximum:g}{words}."
                )


def option(default: Any, help: str, **limits: Any) -> Any:
    """A dataclass field that knows what it accepts: its default, its help text, and the limits of `Allowed`."""
    return field(default=default, metadata={"allowed": Allowed(help=help, **limits)})


def allowed(options: type, name: str) -> Allowed:
    """Help, bounds and choices of one field of an options class."""
    by_name = {entry.name: entry for entry in dataclasses.fields(options)}
    limits: Allowed = by_name[name].metadata["allowed"]
    return limits


def default(options: type, name: str) -> Any:
    """Default of one field of an options class."""
    return next(entry.default for entry in dataclasses.fields(options) if entry.name == name)


def check_all(options: Any) -> None:
    """Raise OptionError for the first field whose value is outside what it allows."""
    for entry in dataclasses.fields(options):
        entry.metadata["allowed"].check(entry.name, getattr(options, entry.name))


Strength: TypeAlias = float | Literal["auto"]
PxOrAuto: TypeAlias = int | Literal["auto"]
"""A length in px."""
TILES = ("auto", 0, 16, 32, 64, 128, 256, 512, 1024)
"""What the network's own levels can be cut into."""
FACE_WORDS = ("all", "largest", "center")
RESTORING_MODELS = ("auto", "starter-256", "gpen-bfr-256", "gpen-bfr-512", "gpen-bfr-1024", "gpen-bfr-2048")
TASK_MODELS = {
    "colorize": "gpen-colorization-1024",
    "inpaint": "gpen-inpainting-1024",
    "seg2face": "gpen-seg2face-512",
}
"""The model of each other task."""
MODELS = (*RESTORING_MODELS, *TASK_MODELS.values())
DETECTORS = ("auto", "retinaface-mobile", "retinaface-r50")
TEMPLATES = ("auto", "ffhq", "gpen")
MASKS = ("soft", "parsing")
MODES = ("faces", "whole", "both")
BACKGROUNDS = ("auto", "off", "realesrnet-x2", "realesrgan-x2plus", "realesrgan-x4plus")
FORMATS = ("same", "png", "jpeg", "webp", "tiff")
SUBSAMPLINGS = ("4:4:4", "4:2:2", "4:2:0")
MATTES = ("white", "gray", "black")
SHARP_FACES = ("weaken", "skip", "restore")


@dataclass(frozen=True, kw_only=True, slots=True)
class RestoreOptions:
    """What to do with one photo. Checked on construction.

    Raises:
        OptionError: a value is outside what is allowed.
    """

    strength: Strength = option(
        1.0,
        "0 gives the photo as it was, 1 the full restoration, auto chooses for each face",
        minimum=0.0,
        maximum=1.0,
        step=0.05,
        words=("auto",),
    )
    mode: str = option(
        "faces",
        "faces: each face is restored and put back; whole: the model runs over the whole picture in tiles, made for"
        " close-ups and selfies; both: whole, and the faces over it",
        choices=MODES,
    )
    scale: float = option(
        1.0,
        "size of the result: exactly this many times the photo's width and height",
        minimum=1.0,
        maximum=4.0,
        step=0.25,
    )
    background: str = option(
        "auto",
        "what enlarges all that is no face; auto: the best upscaler on this machine, at scales above 1; off:"
        " resampling; one asked for by name is fetched if need be; all need basicsr",
        choices=BACKGROUNDS,
    )
    background_strength: float = option(
        1.0, "how much of the upscaler's work counts: 0 is plain resampling", minimum=0.0, maximum=1.0, step=0.05
    )
    faces: str = option("all", "which faces: all, largest, center, or numbers from left to right such as 0,2")
    threshold: float = option(
        0.9,
        "how sure the detector must be; lower finds more faces and more mistakes",
        minimum=0.1,
        maximum=0.99,
        step=0.01,
    )
    min_face_px: int = option(
        16, "leave faces alone whose box is narrower or lower than this in the photo", minimum=1, maximum=10000
    )
    max_faces: int = option(100, "restore at most this many faces, the largest first", minimum=1, maximum=1000)
    template: str = option(
        "auto", "alignment template; auto takes the one the model was trained with", choices=TEMPLATES
    )
    mask: str = option(
        "soft",
        "where a restored face counts: soft is an ellipse, parsing also follows face and hair (needs ParseNet)",
        choices=MASKS,
    )
    grain: bool = option(False, "restored faces get the grain that is around them", choices=(True, False))
    lock_color: bool = option(
        False, "restored faces keep the photo's colours, and only their detail changes", choices=(True, False)
    )
    sharp_faces: str = option(
        "weaken",
        "what is done to a face that is already sharper than the model's: weaken restores it by half",
        choices=SHARP_FACES,
    )
    accept_damaged: bool = option(
        False, "also restore photos of which a part is missing in the file", choices=(True, False)
    )
    keep_tone: bool = option(True, "gray photos stay gray and sepia photos keep their tone", choices=(True, False))
    min_quality: float = option(
        0.1, "with the gate: leave faces alone that it finds poorer than this", minimum=0.0, maximum=1.0, step=0.05
    )
    max_distance: float = option(
        0.15, "with the gate: leave faces alone whose identity would move farther", minimum=0.0, maximum=2.0, step=0.05
    )
    tile_px: PxOrAuto = option(
        "auto",
        "size of tiles; 0: none. In mode faces, of the network's large levels, in mode whole of the picture (auto: the"
        " model's size), and of the background's upscaler (auto: as memory asks): smaller ones need less memory",
        minimum=0,
        maximum=2048,
        step=64,
        words=("auto",),
    )
    overlap_px: PxOrAuto = option(
        "auto",
        "how far tiles overlap; auto: in mode faces so far that they change no pixel, otherwise a quarter of the tile;"
        " less is faster and approximate",
        minimum=0,
        maximum=1024,
        step=8,
        words=("auto",),
    )

    def __post_init__(self) -> None:
        check_all(self)
        if self.face_numbers is None and self.faces not in FACE_WORDS:
            raise OptionError(
                f"faces is {self.faces!r}; choose {', '.join(FACE_WORDS)}, or numbers separated by commas such as 0,2."
            )
        if self.mode == "faces" and self.tile_px not in TILES:
            raise OptionError(f"tile_px is {self.tile_px}; choose one of: {', '.join(map(str, TILES))}.")
        if self.tile_px != "auto" and self.tile_px != int(self.tile_px):
            raise OptionError(f"tile_px is {self.tile_px}; choose auto, or a whole number.")
        tile_px, overlap_px = (0 if value == "auto" else value for value in (self.tile_px, self.overlap_px))
        if tile_px and overlap_px > tile_px // 2:
            raise OptionError(
                f"overlap_px is {self.overlap_px}; choose auto, or at most half of tile_px, which is {self.tile_px}."
            )

    @property
    def face_numbers(self) -> tuple[int, ...] | None:
        """The numbers asked for, or None where `faces` is a word."""
        if not isinstance(self.faces, str) or not re.fullmatch(r"\s*\d+\s*(,\s*\d+\s*)*", self.faces):
            return None
        return tuple(int(number) for number in self.faces.split(","))


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeOptions:
    """How the network runs on this machine. Checked on construction.

    Raises:
        OptionError: a value is outside what is allowed.
    """

    model: str = option(
        "auto",
        "auto takes the best model whose weights are on this machine; one asked for by name is fetched if need be",
        choices=MODELS,
    )
    task: str = option(
        "auto",
        "colorize: gray faces get colours; inpaint: what a mask marks is painted anew; seg2face: a map of face parts"
        " becomes a face; auto: what the model is made for, restore unless another is named",
        choices=("auto", "restore", *TASK_MODELS),
    )
    weights: str | None = option(None, "a weights file of your own instead of the model's")
    upscaler_weights: str | None = option(
        None, "a weights file of your own, of an RRDBNet of any shape, instead of the background's upscaler"
    )
    detector: str = option(
        "auto",
        "what finds the faces; auto takes retinaface-r50 where its weights are, else the embedded retinaface-mobile",
        choices=DETECTORS,
    )
    device: str = option("auto", "auto, cpu, cuda, cuda:1 or mps; auto takes a CUDA device where there is one")
    precision: str = option(
        "auto",
        "number format of the network; auto takes fp32 unless a faster one was measured to look the same",
        choices=("auto", "fp32", "fp16", "bf16"),
    )
    compile: bool = option(
        False, "compile the network: the first photo takes longer, the next ones less", choices=(True, False)
    )
    gate: bool = option(
        False,
        "leave a face as it was where EQFace no longer sees the same person; needs its weights",
        choices=(True, False),
    )
    batch_size: int = option(4, "faces restored in one call of the network", minimum=1, maximum=64)
    unload_after_s: int = option(
        0, "free the network's memory after this many seconds without a photo; 0 keeps it", minimum=0, maximum=86400
    )

    def __post_init__(self) -> None:
        check_all(self)
        if not isinstance(self.device, str) or not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", self.device):
            raise OptionError(f"device is {self.device!r}; choose auto, cpu, cuda, cuda:N or mps.")
        if self.task != "auto" and self.model not in ("auto", *models_of(self.task)):
            raise OptionError(
                f"model is {self.model!r}, which is not made for task {self.task}; choose auto, or one of: "
                f"{', '.join(models_of(self.task))}."
            )

    @property
    def task_name(self) -> str:
        """The task asked for, or the one that the model is made for."""
        if self.task != "auto":
            return self.task
        return next((task for task, model in TASK_MODELS.items() if model == self.model), "restore")

    @property
    def model_for_task(self) -> str:
        """The model asked for; of other tasks than restore, their only one."""
        return TASK_MODELS.get(self.task_name, self.model)


def models_of(task: str) -> tuple[str, ...]:
    """Names of the models made for a task, without `auto`."""
    return (TASK_MODELS[task],) if task in TASK_MODELS else RESTORING_MODELS[1:]


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputOptions:
    """How a result is written. Checked on construction.

    Raises:
        OptionError: a value is outside what is allowed.
    """

    format: str = option(
        "same", "format of the results; same keeps the photo's where it can be written", choices=FORMATS
    )
    quality: int = option(95, "quality of JPEG and WebP results", minimum=1, maximum=100, step=1)
    subsampling: str = option("4:4:4", "colour resolution of JPEG results; 4:4:4 is full", choices=SUBSAMPLINGS)
    matte: str = option("white", "what transparent parts are laid on in JPEG results", choices=MATTES)
    strip_metadata: bool = option(
        False, "leave out EXIF (place, date, camera) and XMP; the mark that AI was used stays", choices=(True, False)
    )
    overwrite_originals: bool = option(
        False, "put results in the place of the originals, which are then gone", choices=(True, False)
    )
    save_crops: bool = option(
        False,
        "also write each face before and after, and where it belongs, into <output>_faces",
        choices=(True, False),
    )
    sheet: bool = option(
        False,
        "also write <output>_sheet.jpg: before and after side by side, whole and each face",
        choices=(True, False),
    )

    def __post_init__(self) -> None:
        check_all(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchOptions:
    """Which photos of a folder are restored. Checked on construction.

    Raises:
        OptionError: a value is outside what is allowed.
    """

    recursive: bool = option(
        False, "also the folders inside the folder; the results mirror them", choices=(True, False)
    )
    pattern: str | None = option(None, "only photos whose name fits, such as 'IMG_*.jpg'; case does not matter")
    limit: int = option(0, "at most this many photos, the first by name; 0: all", minimum=0, maximum=100_000_000)
    skip_existing: bool = option(
        False,
        "go on where an earlier run stopped: photos that have their result are not done again",
        choices=(True, False),
    )

    def __post_init__(self) -> None:
        check_all(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterOptions:
    """How Ray shares a batch out. Checked on construction.

    Raises:
        OptionError: a value is outside what is allowed.
    """

    engine: str = option(
        "local",
        "local for this machine; ray for a cluster, or for folders such as s3://bucket/photos",
        choices=("local", "ray"),
    )
    actors: int = option(
        0, "networks that run at the same time; 0: as many as the cluster has room for", minimum=0, maximum=100_000
    )
    gpus_per_actor: float = option(
        0.0, "share of a GPU that a network takes: 1, or 0.5 for two on one; 0 runs on CPUs", minimum=0.0, maximum=8.0
    )
    cpus_per_actor: float = option(1.0, "CPU cores that a network takes", minimum=0.1, maximum=256.0)

    def __post_init__(self) -> None:
        check_all(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportOptions:
    """A model as a file that other programs run. Checked on construction.

    Raises:
        OptionError: a value is outside what is allowed.
    """

    format: str = option(
        "onnx",
        "onnx for onnxruntime and the like; aoti for a package that PyTorch compiled ahead of time for the device",
        choices=("onnx", "aoti"),
    )
    precision: str = option(
        "fp32", "of the levels that stand half precision; input and output are fp32", choices=("fp32", "fp16", "bf16")
    )

    def __post_init__(self) -> None:
        check_all(self)
        if self.format == "onnx" and self.precision == "bf16":
            raise OptionError(
                "precision is 'bf16'; an ONNX file holds fp32 or fp16, since few programs run bf16 there."
            )
