"""Values that travel between the steps. Frozen; arrays in them are never written to after construction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Pixels: TypeAlias = npt.NDArray[np.uint8]
"""(H, W, 3) RGB, or (S, S, 3) for a crop."""
FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
Affine: TypeAlias = npt.NDArray[np.float64]
"""(2, 3) matrix on pixel coordinates (x, y); the centre of the first pixel is (0, 0)."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Photo:
    """An upright picture in sRGB and what else its file held."""

    pixels: Pixels
    """(H, W, 3) RGB."""
    alpha: npt.NDArray[np.uint8] | None = None
    """(H, W) opacity, 255 opaque; None where the picture has none."""
    exif: bytes | None = None
    """EXIF block without orientation and thumbnail."""
    xmp: bytes | None = None
    """XMP packet in UTF-8, its orientation reset."""
    icc: bytes | None = None
    """The profile that the result is written with; None where the file had none."""
    own_profile: bytes | None = None
    """The same where it is another RGB space than sRGB: the result's numbers are in it, as the file's were."""
    fine: npt.NDArray[np.int16] | npt.NDArray[np.int32] | None = None
    """(H, W, 3), or (H, W, 4) with opacity: the file's own numbers less what the pixels give for them; None where the
    pixels hold all."""
    depth: int = 8
    """Bits of the file's numbers, 8 or 16."""
    dpi: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()
    """What reading changed, in words for people."""

    @property
    def height(self) -> int:
        return int(self.pixels.shape[0])

    @property
    def width(self) -> int:
        return int(self.pixels.shape[1])


class Box(NamedTuple):
    """Corners in photo pixels; (x0, y0) is inside, (x1, y1) just outside."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        return self.y1 - self.y0

    @property
    def area(self) -> float:
        return max(0.0, self.width) * max(0.0, self.height)

    @property
    def center(self) -> tuple[float, float]:
        return (self.x0 + self.x1) / 2, (self.y0 + self.y1) / 2


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DetectedFace:
    """A face in photo pixels."""

    box: Box
    landmarks: npt.NDArray[np.float64]
    """(5, 2) x, y of left eye, right eye, nose, left and right mouth corner, as seen in the picture."""
    score: float
    """How sure the detector is, 0 to 1."""

    @property
    def eye_distance_px(self) -> float:
        return float(np.hypot(*(self.landmarks[1] - self.landmarks[0])))

    @property
    def eye_center(self) -> npt.NDArray[np.float64]:
        center: npt.NDArray[np.float64] = (self.landmarks[0] + self.landmarks[1]) / 2
        return center


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AlignedCrop:
    """A face brought to the template."""

    pixels: Pixels
    """(S, S, 3) RGB."""
    affine: Affine
    """Photo to crop, a similarity."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FaceCondition:
    """What is seen of the damage in an aligned crop, over the face."""

    noise: float
    """Estimated standard deviation of the noise in levels of 255; fine texture counts as noise too."""
    bands: tuple[float, ...]
    """Root mean square of each octave of detail in levels, fine to coarse."""
    change: float
    """Root mean square of what the network changed, in levels."""
    evenness: float
    """Median over root mean square of the finest octave: 0.67 for noise, which is everywhere, and below 0.48 for a
    sharp picture, whose fine detail lies along edges and hair."""

    @property
    def sharpness(self) -> float:
        """Share of the finest octave in all detail, 0 to 1. A sharp crop has about 0.2, a blurred one under 0.05."""
        return float(self.bands[0] / max(sum(self.bands), 1e-6))


class ValueRange(NamedTuple):
    """What black and white are to a network."""

    black: float
    white: float


SIGNED_RANGE = ValueRange(-1.0, 1.0)
UNIT_RANGE = ValueRange(0.0, 1.0)


class Tiles(NamedTuple):
    """How a picture was cut for a network."""

    tile_px: int
    overlap_px: int
    num_tiles: int


Decision: TypeAlias = Literal["restored", "skipped", "failed"]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RestoredFace:
    """What became of one detected face."""

    index: int
    """Number of the face, counted from the left, from 0."""
    face: DetectedFace
    decision: Decision
    reason: str = ""
    """Why it was skipped or failed, in words for people."""
    crop: AlignedCrop | None = None
    condition: FaceCondition | None = None
    quality: float | None = None
    """The gate's score of the face before restoration, 0 to 1; None without the gate."""
    identity_distance: float | None = None
    """The gate's cosine distance between the face before and after; None without the gate."""
    best_strength: float | None = None
    """What `strength="auto"` takes, 0 to 1; None where the model is not calibrated for it."""
    restored: Pixels | None = None
    """(S, S, 3) RGB, the network's answer at full strength; None unless the decision is `restored`."""
    precision: str | None = None
    """fp32, fp16 or bf16: what its answer was computed in; None where the network did not see it."""


Stage: TypeAlias = Literal["fetch", "prepare", "read", "background", "detect", "compile", "restore", "blend"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a restoration is: `done` of `total` steps of `stage`; of `fetch`, bytes, and 0 in all where unknown."""

    stage: Stage
    done: int
    total: int
    detail: str = ""
    """What just happens, in words for people: how much of which file is there, say."""


OnProgress: TypeAlias = Callable[[Progress], None]
"""Called from the restoring thread. Raising in it stops the restoration."""
