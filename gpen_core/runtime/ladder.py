"""How a call of the network fits into memory, and what is tried next where it does not."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from gpen_core.options import RestoreOptions
from gpen_core.runtime.device import Placement, describe_device
from gpen_core.runtime.memory import free_memory_mib
from gpen_core.runtime.networks import NetworkSource
from gpen_core.runtime.precision import half_dtype

SMALLEST_TILE_PX = 64
"""Smaller tiles take more time and, with what they share, no less memory: counted at 512 px."""
SHARE_OF_FREE = 0.6
"""Of the free memory a call is planned to take at most this much: the need is an estimate, and others take too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """How the network is run."""

    device: torch.device
    precision: str
    batch_size: int
    """Crops in one call, at most."""
    tile_px: int
    """0: untiled."""
    overlap_px: int
    """0 where untiled."""
    is_exact: bool
    """The overlap is large enough for tiles to change no pixel."""
    is_compiled: bool

    @property
    def half(self) -> torch.dtype | None:
        return half_dtype(self.precision)

    @property
    def passed_overlap_px(self) -> int | None:
        """As a `TiledForward` takes it: None is exact."""
        return None if self.is_exact else self.overlap_px

    def num_taken(self, num_left: int) -> int:
        """How many of the crops that are left go into the next call.

        Compiled code exists for one crop and for a full batch only: up to half a batch goes one by one, more is filled
        up.
        """
        if self.is_compiled and num_left * 2 <= self.batch_size:
            return 1
        return min(num_left, self.batch_size)

    def num_run(self, num_taken: int) -> int:
        """How many crops that call has in the end."""
        return self.batch_size if self.is_compiled and num_taken > 1 else num_taken


class Ladder:
    """The steps of one call, from what is planned down to what needs least memory: batch, tiles, CPU."""

    def __init__(
        self, source: NetworkSource, placement: Placement, options: RestoreOptions, *, batch_size: int, compile: bool
    ) -> None:
        self._source = source
        self._placement = placement
        self._options = options
        self._batch_size = batch_size
        self._compile = compile

    def first(self, num_crops: int) -> Step:
        """Where a call for so many crops begins: as large as asked for, or, with tile_px auto, as fits into memory."""
        step = self._tiled(
            Step(
                device=self._placement.device,
                precision=self._placement.precision,
                # Compiled code exists for the full batch only.
                batch_size=self._batch_size if self._compile else max(1, min(self._batch_size, num_crops)),
                tile_px=0,
                overlap_px=0,
                is_exact=True,
                is_compiled=self._compile,
            ),
            0 if self._options.tile_px == "auto" else self._options.tile_px,
        )
        return self._fitting(step, num_crops) if self._options.tile_px == "auto" else step

    def below(self, step: Step) -> Step | None:
        """What needs less memory than `step`; None where nothing does."""
        smaller = self._smaller_on_device(step)
        if smaller is not None or step.device.type == "cpu":
            return smaller
        on_cpu = replace(step, device=torch.device("cpu"), precision="fp32", batch_size=1, is_compiled=False)
        return self._fitting(self._tiled(on_cpu, 0), 1)

    def _smaller_on_device(self, step: Step) -> Step | None:
        if step.batch_size > 1:
            return replace(step, batch_size=1 if step.is_compiled else (step.batch_size + 1) // 2)
        tile_px = (step.tile_px or self._source.size) // 2
        spares_memory = self._source.exact_overlap_px(step.device, step.half) > 0
        return self._tiled(step, tile_px) if spares_memory and tile_px >= SMALLEST_TILE_PX else None

    def _fitting(self, step: Step, num_crops: int) -> Step:
        """The first step from `step` downwards, on its device, that the free memory is expected to hold."""
        free_mib = free_memory_mib(step.device)
        if free_mib is None:
            return step
        smaller: Step | None = step
        while smaller is not None:
            step = smaller
            num_run = step.num_run(step.num_taken(num_crops))
            if self._source.peak_mib(step.device, step.half, num_run, step.tile_px) <= SHARE_OF_FREE * free_mib:
                break
            smaller = self._smaller_on_device(step)
        return step

    def _tiled(self, step: Step, tile_px: int) -> Step:
        """`step` with these tiles, or without any where one would hold the whole crop or the network has none."""
        exact_px = self._source.exact_overlap_px(step.device, step.half)
        # What is not to be compiled runs in bands by itself, always exact: there tile_px is their height.
        has_tiles = exact_px > 0 or not self._source.is_compilable(step.device, step.half)
        if not (has_tiles and 0 < tile_px < self._source.size):
            return replace(step, tile_px=0, overlap_px=0, is_exact=True)
        asked = self._options.overlap_px
        overlap_px = exact_px if asked == "auto" else min(asked, exact_px, tile_px // 2)
        return replace(step, tile_px=tile_px, overlap_px=overlap_px, is_exact=overlap_px >= exact_px)


def describe_descent(before: Step, after: Step) -> str:
    """What changed from one step to the next, for people."""
    if after.device != before.device:
        return f"The memory of {describe_device(before.device)} was too small: faces were restored on the CPU."
    if after.batch_size != before.batch_size:
        return f"Memory was short: faces were restored {after.batch_size} at a time."
    return f"Memory was short: the network ran in tiles of {after.tile_px} px."
