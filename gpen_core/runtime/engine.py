"""Run the generator over aligned crops: layout, range, precision, batches and memory are hidden here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from gpen_core.errors import DeviceError
from gpen_core.runtime.compile_cache import CompileCache
from gpen_core.runtime.device import Placement, describe_device
from gpen_core.types import Pixels


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RestoredCrops:
    """The generator's answers and what really ran."""

    crops: tuple[Pixels | None, ...]
    """(S, S, 3) RGB each; None where the network gave numbers that are not finite, in fp32 too."""
    precision: str
    compiled: bool
    notes: tuple[str, ...] = ()


class CropRestorer(Protocol):
    """Restores aligned crops."""

    @property
    def size(self) -> int:
        """Side of a crop in px."""
        ...

    @property
    def template(self) -> str:
        """Alignment the crops need."""
        ...

    @property
    def model_name(self) -> str: ...

    @property
    def strength_coefficients(self) -> Sequence[float] | None:
        """Calibration of the automatic strength, None where there is none."""
        ...

    @property
    def device_name(self) -> str: ...

    def restore_crops(self, crops: Sequence[Pixels], on_done: Callable[[int], None]) -> RestoredCrops:
        """Restore (size, size, 3) RGB crops; `on_done` hears how many are finished, and may raise to stop."""
        ...


class Engine:
    """A generator on a device. One call at a time: others wait at the lock."""

    def __init__(
        self,
        generator: nn.Module,
        *,
        size: int,
        template: str,
        model_name: str,
        strength_coefficients: Sequence[float] | None,
        placement: Placement,
        compile: bool,
        batch_size: int,
    ) -> None:
        self.size = size
        self.template = template
        self.model_name = model_name
        self.strength_coefficients = strength_coefficients
        self.device_name = describe_device(placement.device)
        self._generator = generator.to(placement.device).eval()
        self._placement = placement
        self._forward = CompileCache(self._generator, placement.device, enabled=compile)
        self._is_compile_asked = compile
        self._batch_size = batch_size
        self._lock = threading.Lock()

    @property
    def num_compilations(self) -> int:
        return self._forward.num_compilations

    def restore_crops(self, crops: Sequence[Pixels], on_done: Callable[[int], None]) -> RestoredCrops:
        """See `CropRestorer`.

        Raises:
            DeviceError: not even one crop fits into the device's memory.
        """
        restored: list[Pixels | None] = []
        notes: list[str] = []
        batch_size = self._batch_size
        on_done(0)
        while len(restored) < len(crops):
            batch = crops[len(restored) : len(restored) + batch_size]
            try:
                with self._lock, torch.inference_mode():
                    restored += self._run_batch(batch, notes)
            except torch.OutOfMemoryError as error:
                if batch_size == 1:
                    raise DeviceError(
                        f"One face of {self.size} px does not fit into the memory of {self.device_name}; "
                        "choose a smaller model, or the device cpu."
                    ) from error
                batch_size = max(1, batch_size // 2)
                notes.append(f"Memory was short: faces were restored {batch_size} at a time.")
                continue
            on_done(len(restored))
        if self._forward.fallback_reason:
            notes.append(f"The network ran without compilation: {self._forward.fallback_reason}.")
        return RestoredCrops(
            crops=tuple(restored),
            precision=self._placement.precision,
            compiled=self._is_compile_asked and self._forward.is_enabled,
            notes=tuple(dict.fromkeys(notes)),
        )

    def _run_batch(self, crops: Sequence[Pixels], notes: list[str]) -> list[Pixels | None]:
        x = to_network(crops, self._placement.device)
        y = self._run(x)
        is_finite = torch.isfinite(y).flatten(1).all(dim=1)
        if not bool(is_finite.all()) and self._placement.precision != "fp32":
            notes.append(f"{self._placement.precision} gave a broken result; repeated in fp32.")
            y = self._generator(x).float()
            is_finite = torch.isfinite(y).flatten(1).all(dim=1)
        pixels = from_network(y)
        return [crop if ok else None for crop, ok in zip(pixels, is_finite.tolist(), strict=True)]

    def _run(self, x: Tensor) -> Tensor:
        num_crops = x.shape[0]
        if self._forward.is_enabled:
            # Few batch sizes, few compilations: the rest of the batch repeats its last crop.
            padded = 1 << (num_crops - 1).bit_length()
            x = torch.cat((x, x[-1:].expand(padded - num_crops, -1, -1, -1)))
        is_half = self._placement.precision != "fp32"
        with torch.autocast(x.device.type, dtype=self._placement.dtype, enabled=is_half):
            return self._forward(x)[:num_crops].float()


def to_network(crops: Sequence[Pixels], device: torch.device) -> Tensor:
    """(S, S, 3) uint8 RGB crops -> (N, 3, S, S) float32 in [-1, 1]."""
    batch = torch.from_numpy(np.stack(crops)).to(device)
    return batch.permute(0, 3, 1, 2).float().div(127.5).sub(1.0).contiguous()


def from_network(y: Tensor) -> list[Pixels]:
    """(N, 3, S, S) about [-1, 1] -> (S, S, 3) uint8 RGB, rounded (the reference cuts off: half a level darker)."""
    levels = torch.nan_to_num(y.float()).add(1.0).mul(127.5).round().clamp(0, 255).to(torch.uint8)
    return list(levels.permute(0, 2, 3, 1).cpu().numpy())
