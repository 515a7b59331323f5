"""Stand-ins for the networks: a detector that says what it is told, restorers and networks with a known answer."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gpen_core.options import RestoreOptions
from gpen_core.runtime.crops import RestoredCrops
from gpen_core.types import Box, DetectedFace, OnProgress, Pixels, Progress

ASTRONAUT_LANDMARKS = np.array([(202, 101), (247, 103), (226, 127), (206, 141), (244, 142)], dtype=float)
"""Of `examples/originals/astronaut.jpg`, by hand."""


def face_at(landmarks: np.ndarray, score: float = 0.99) -> DetectedFace:
    """A face with these (5, 2) landmarks and a box around them."""
    low, high = landmarks.min(axis=0), landmarks.max(axis=0)
    margin = 0.6 * (high - low)
    return DetectedFace(
        box=Box(*map(float, low - margin), *map(float, high + margin)), landmarks=landmarks.astype(float), score=score
    )


def frontal_face(center_x: float, center_y: float, eye_distance: float, score: float = 0.99) -> DetectedFace:
    """A face seen from the front whose eyes' middle lies at the centre."""
    shape = np.array([(-0.5, 0.0), (0.5, 0.0), (0.0, 0.58), (-0.43, 1.04), (0.43, 1.04)])
    return face_at(shape * eye_distance + (center_x, center_y), score)


class FakeDetector:
    """Says its faces, whatever it is shown."""

    name = "fake detector"
    is_single_scale = False

    def __init__(self, *faces: DetectedFace) -> None:
        self.faces = list(faces)
        self.num_calls = 0

    def detect(self, pixels: Pixels, threshold: float) -> list[DetectedFace]:
        self.num_calls += 1
        return [face for face in self.faces if not face.score < threshold]


class FakeCropRestorer:
    """Answers each crop with `paint(crop)`; None stands for numbers that are not finite."""

    model_name = "fake-256"
    device_name = "cpu"

    def __init__(
        self,
        paint: Callable[[Pixels], Pixels | None],
        size: int = 256,
        template: str = "ffhq",
        strength_coefficients: Sequence[float] | None = None,
    ) -> None:
        self.paint = paint
        self.size = size
        self.template = template
        self.strength_coefficients = strength_coefficients
        self.num_calls = 0

    def restore_crops(
        self, crops: Sequence[Pixels], on_progress: OnProgress, options: RestoreOptions | None = None
    ) -> RestoredCrops:
        self.num_calls += 1
        painted = []
        for number, crop in enumerate(crops, start=1):
            painted.append(self.paint(crop))
            on_progress(Progress("restore", number, len(crops)))
        return RestoredCrops(crops=tuple(painted), precision="fp32", compiled=False)


class FakeNetwork(nn.Module):
    """Answers with `answer(x)` and remembers how it was called."""

    def __init__(self, answer: Callable[[Tensor], Tensor], half: torch.dtype | None, calls: list[NetworkCall]) -> None:
        super().__init__()
        self.answer = answer
        self.half_dtype = half
        self.calls = calls

    def forward(self, x: Tensor, tile_px: int = 0, overlap_px: int | None = None) -> Tensor:
        self.calls.append(NetworkCall(x.shape[0], tile_px, overlap_px, x.device.type, self.half_dtype))
        return self.answer(x)


class NetworkCall(NamedTuple):
    batch_size: int
    tile_px: int
    overlap_px: int | None
    device: str
    half: torch.dtype | None


class FakeSource:
    """Builds `FakeNetwork`s. A crop needs 1 MiB for each 1024 of its tile's pixels."""

    def __init__(self, answer: Callable[[Tensor], Tensor], size: int = 16, *, is_streamed: bool = False) -> None:
        self.answer = answer
        self.size = size
        self.is_streamed = is_streamed
        self.calls: list[NetworkCall] = []
        self.num_built = 0

    def is_compilable(self, device: torch.device, half: torch.dtype | None) -> bool:
        return not self.is_streamed

    def build(self, device: torch.device, half: torch.dtype | None) -> FakeNetwork:
        self.num_built += 1
        return FakeNetwork(self.answer, half, self.calls)

    def peak_mib(self, device: torch.device, half: torch.dtype | None, batch_size: int, tile_px: int) -> float:
        return batch_size * (tile_px or self.size) ** 2 / 1024 * (0.5 if half else 1.0)

    def exact_overlap_px(self, device: torch.device, half: torch.dtype | None) -> int:
        return 0 if self.is_streamed else 24


def identity(crop: Pixels) -> Pixels:
    return crop.copy()


def constant(*level: int) -> Callable[[Pixels], Pixels]:
    return lambda crop: np.broadcast_to(np.array(level, dtype=np.uint8), crop.shape).copy()


def checkerboard(crop: Pixels) -> Pixels:
    rows, columns = np.indices(crop.shape[:2]) // 4
    return np.repeat(((rows + columns) % 2 * 255).astype(np.uint8)[:, :, None], 3, axis=2)


def use_basicsr(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put modelscope's copy of RRDBNet where basicsr has it: basicsr builds from source only, and not everywhere."""
    from modelscope.models.cv.super_resolution.rrdbnet_arch import RRDBNet

    names = ("basicsr", "basicsr.archs", "basicsr.archs.rrdbnet_arch")
    for name in names:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules[names[-1]].RRDBNet = RRDBNet


class LocalUpscaler:
    """A small random network of 3x3 convolutions with RRDBNet's way of enlarging: local, so that tiles can be exact."""

    name = "local"

    def __init__(
        self,
        scale: int,
        *,
        largest_px: int | None = None,
        fails_above_px: int | None = None,
        error: Exception | None = None,
        tint: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        generator = torch.Generator().manual_seed(1)
        self.scale = scale
        self.multiple_of = 4 // scale
        # Four convolutions before the enlargement, one after it.
        self.exact_halo_px = 5 * self.multiple_of
        self.shapes: list[tuple[int, ...]] = []
        channels = 3 * self.multiple_of**2
        gain = 1.2 / (9 * channels) ** 0.5
        self._weights = [torch.randn(channels, channels, 3, 3, generator=generator) * gain for _ in range(4)]
        self._last = torch.randn(3, 3, 3, 3, generator=generator) * 0.02
        self._largest_px, self._fails_above_px, self._error, self._tint = largest_px, fails_above_px, error, tint

    def largest_tile_px(self) -> int | None:
        return self._largest_px

    def upscale_tile(self, tile: Pixels) -> np.ndarray:
        self.shapes.append(tile.shape[:2])
        if self._error is not None:
            raise self._error
        if self._fails_above_px is not None and max(tile.shape) > self._fails_above_px:
            raise MemoryError("the tile")
        x = torch.from_numpy(np.ascontiguousarray(tile)).permute(2, 0, 1)[None].float() / 255
        detail = F.pixel_unshuffle(x, self.multiple_of)
        with torch.inference_mode():
            for weight in self._weights:
                detail = torch.tanh(F.conv2d(detail, weight, padding=1))
            y = F.interpolate(x, scale_factor=self.scale) + 0.15 * F.interpolate(detail[:, :3], scale_factor=4)
            y = y + F.conv2d(y, self._last, padding=1)
        return y[0].permute(1, 2, 0).mul(255).add(torch.tensor(self._tint)).clamp(0, 255).numpy()
