"""Run the generator over aligned crops: layout, range, precision, batches, memory and compilation are hidden here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from torch import Tensor

from gpen_core.errors import DeviceError
from gpen_core.models.checkpoint import build_generator
from gpen_core.models.fast import FastGenerator, is_best_streamed
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.runtime.compile_cache import CompileCache, CompileCounts, ProgramKey
from gpen_core.runtime.crops import RestoredCrops
from gpen_core.runtime.device import Placement, describe_device
from gpen_core.runtime.idle import IdleTimer
from gpen_core.runtime.ladder import Ladder, Step, describe_descent
from gpen_core.runtime.memory import is_out_of_memory, release_memory
from gpen_core.runtime.networks import NetworkSource, PlacedNetworks, TiledForward
from gpen_core.runtime.precision import exact_fp32, half_dtype
from gpen_core.types import SIGNED_RANGE, OnProgress, Pixels, Progress, ValueRange

NOT_COMPILABLE = "The network was not compiled: on a CPU it runs faster as it is."


@dataclass(slots=True, eq=False)
class _Call:
    """What one call of `restore_crops` has come to."""

    step: Step
    crops: list[Pixels | None] = field(default_factory=list)
    precisions: list[str] = field(default_factory=list)
    devices: list[torch.device] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    num_repeated: int = 0
    is_compiled: bool = True
    compile_s: float = 0.0


class Engine:
    """A generator on a device. The network runs one batch at a time: others wait at the lock."""

    def __init__(
        self,
        source: NetworkSource,
        *,
        template: str,
        model_name: str,
        strength_coefficients: Sequence[float] | None,
        placement: Placement,
        runtime: RuntimeOptions,
        value_range: ValueRange = SIGNED_RANGE,
    ) -> None:
        """Build the network and place it on its device.

        Args:
            source: builds the network.
            template: alignment of its crops.
            model_name: for people.
            strength_coefficients: calibration of the automatic strength.
            placement: device and precision.
            runtime: batch size, compilation, idle time.
            value_range: of the network's input and output.
        """
        self.size = source.size
        self.template = template
        self.model_name = model_name
        self.strength_coefficients = strength_coefficients
        self.device_name = describe_device(placement.device)
        self._range = value_range
        self._source = source
        self._placement = placement
        self._batch_size = runtime.batch_size
        self._half = half_dtype(placement.precision)
        is_compilable = source.is_compilable(placement.device, self._half)
        self._cache = CompileCache(placement.device) if runtime.compile and is_compilable else None
        self._notes = [] if is_compilable or not runtime.compile else [NOT_COMPILABLE]
        self._plans: dict[tuple[int | str, int | str], Step] = {}
        self._networks = PlacedNetworks(source)
        self._lock = threading.Lock()
        self._idle = IdleTimer(runtime.unload_after_s, self.unload)
        # Where the device has no room, the first call finds that out again, goes to the CPU and says so.
        with self._idle.busy(), suppress(torch.OutOfMemoryError):
            self._networks.get(placement.device, self._half)

    @property
    def compile_counts(self) -> CompileCounts:
        """All zero where compilation was not asked for."""
        return self._cache.counts if self._cache else CompileCounts()

    @property
    def is_loaded(self) -> bool:
        """The network is in memory; if not, the next call loads it."""
        return not self._networks.is_empty

    def unload(self) -> None:
        """Free the network's memory. The next call loads it again."""
        with self._lock:
            self._networks.clear()
            if self._cache:
                self._cache.clear()
        release_memory(self._placement.device)

    def restore_crops(
        self, crops: Sequence[Pixels], on_progress: OnProgress, options: RestoreOptions | None = None
    ) -> RestoredCrops:
        """See `CropRestorer`.

        Raises:
            DeviceError: not even one crop, in the smallest tiles, on the CPU, fits into memory.
            WeightsError: the network was unloaded, and its file is no longer what it was.
        """
        options = options or RestoreOptions()
        is_compiling = self._cache is not None and self._cache.is_working
        ladder = Ladder(self._source, self._placement, options, batch_size=self._batch_size, compile=is_compiling)
        with self._idle.busy():
            call = _Call(self._first_step(ladder, options, len(crops)))
            on_progress(Progress("restore", 0, len(crops)))
            try:
                while len(call.crops) < len(crops):
                    left = crops[len(call.crops) :]
                    if self._try_batch(call, left[: call.step.num_taken(len(left))], on_progress):
                        on_progress(Progress("restore", len(call.crops), len(crops)))
                    else:
                        self._descend(ladder, call)
            finally:
                with self._lock:
                    has_dropped = self._networks.keep_only(self._placement.device, self._half)
                if has_dropped:
                    release_memory(self._placement.device)
        return self._answer(call)

    def _first_step(self, ladder: Ladder, options: RestoreOptions, num_crops: int) -> Step:
        if self._cache is None:
            return ladder.first(num_crops)
        # Planned once: free memory changes from photo to photo, and other tiles would have to be compiled.
        asked = options.tile_px, options.overlap_px
        if asked not in self._plans or not self._cache.is_working:
            self._plans[asked] = ladder.first(self._batch_size)
        return self._plans[asked]

    def _try_batch(self, call: _Call, crops: Sequence[Pixels], on_progress: OnProgress) -> bool:
        """Run the next crops; False where memory ran out."""
        try:
            with self._lock, torch.inference_mode(), exact_fp32(call.step.device):
                self._run_batch(call, crops, on_progress)
            return True
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # Not above, where the error still holds on to what was allocated.
        release_memory(call.step.device)
        return False

    def _descend(self, ladder: Ladder, call: _Call) -> None:
        below = ladder.below(call.step)
        if below is None:
            raise DeviceError(
                f"One face of {self.size} px does not fit into the memory of {describe_device(call.step.device)}; "
                "choose a smaller model, or close other programs."
            )
        call.notes.append(describe_descent(call.step, below))
        call.step = below

    def _run_batch(self, call: _Call, crops: Sequence[Pixels], on_progress: OnProgress) -> None:
        step = call.step
        x = to_network(crops, step.device, self._range)
        y = self._forward(call, x, on_progress)
        is_finite = _finite(y)
        precisions = [step.precision] * len(crops)
        if step.half is not None and not all(is_finite):
            broken = [index for index, ok in enumerate(is_finite) if not ok]
            y = y.clone()
            y[broken] = self._network(step.device, None)(x[broken], step.tile_px, step.passed_overlap_px)
            is_finite = _finite(y)
            call.num_repeated += len(broken)
            for index in broken:
                precisions[index] = "fp32"
        call.crops += [crop if ok else None for crop, ok in zip(from_network(y, self._range), is_finite, strict=True)]
        call.precisions += precisions
        call.devices.append(step.device)

    def _network(self, device: torch.device, half: torch.dtype | None) -> TiledForward:
        return cast(TiledForward, self._networks.get(device, half))

    def _forward(self, call: _Call, x: Tensor, on_progress: OnProgress) -> Tensor:
        step, cache, num_crops = call.step, self._cache, x.shape[0]
        network = self._network(step.device, step.half)
        if cache is None or not step.is_compiled:
            call.is_compiled = False
            return network(x, step.tile_px, step.passed_overlap_px)
        num_run = step.num_run(num_crops)
        # Few batch sizes, few compilations: what is missing repeats the last crop.
        x = torch.cat((x, x[-1:].expand(num_run - num_crops, -1, -1, -1)))
        key = ProgramKey(
            model=self.model_name,
            size=self.size,
            precision=step.precision,
            batch_size=num_run,
            tile_px=step.tile_px,
            overlap_px=step.overlap_px,
            device=str(step.device),
        )
        is_first = cache.is_working and not cache.has(key)
        words = f"compiling for {self.size} px, first time only"
        if is_first:
            on_progress(Progress("compile", 0, 1, words))
        before_s = cache.counts.compile_s
        y = cache.run(key, lambda x: network(x, step.tile_px, step.passed_overlap_px), x)
        call.compile_s += cache.counts.compile_s - before_s
        call.is_compiled &= cache.is_working
        if is_first:
            on_progress(Progress("compile", 1, 1, words))
        return y[:num_crops]

    def _answer(self, call: _Call) -> RestoredCrops:
        notes = [*self._notes, *call.notes]
        if call.num_repeated:
            faces = "1 face, which was" if call.num_repeated == 1 else f"{call.num_repeated} faces, which were"
            notes.append(f"{self._placement.precision} gave a broken result for {faces} repeated in fp32.")
        if call.crops and not call.step.is_exact:
            notes.append(
                "The network's tiles were blended with an overlap smaller than exact, so the result is approximate."
            )
        if self._cache and self._cache.fallback_reason:
            notes.append(f"The network ran without compilation: {self._cache.fallback_reason}.")
        devices = list(dict.fromkeys(call.devices))
        is_elsewhere = any(device != self._placement.device for device in devices)
        has_own = not call.precisions or self._placement.precision in call.precisions
        return RestoredCrops(
            crops=tuple(call.crops),
            precision=self._placement.precision if has_own else "fp32",
            compiled=self._cache is not None and call.is_compiled and bool(call.crops),
            notes=tuple(dict.fromkeys(notes)),
            precisions=tuple(call.precisions),
            device=", then ".join(map(describe_device, devices)) if is_elsewhere else None,
            tile_px=call.step.tile_px if call.crops else 0,
            overlap_px=call.step.overlap_px if call.crops else 0,
            compile_s=call.compile_s,
        )


def fast_generator(
    state_dict: Mapping[str, Tensor],
    *,
    device: torch.device | str | None = None,
    half: torch.dtype | None = None,
    compile: bool | None = None,
) -> Callable[[Tensor], Tensor]:
    """The generator of a checkpoint as a plain function, (N, 3, S, S) RGB in [-1, 1] -> (N, 3, S, S) float32.

    Args:
        state_dict: tensors under the published checkpoints' names.
        device: where it runs; None: the CPU.
        half: fp16 or bf16 for the levels that stand it; None: fp32 throughout.
        compile: compile for each batch size at its first call, unless the network runs faster as it is; None: not.

    Raises:
        WeightsError: the tensors are not those of a GPEN generator.
    """
    target = torch.device(device or "cpu")
    generator = build_generator(state_dict)
    is_streamed = is_best_streamed(generator.config, target, half)
    network = FastGenerator(generator, half=half, is_streamed=is_streamed).to(target)
    cache = CompileCache(target) if compile and not is_streamed else None

    def restore(x: Tensor) -> Tensor:
        with torch.inference_mode(), exact_fp32(target):
            if cache is None:
                return cast(Tensor, network(x.to(target)))
            key = ProgramKey(
                model="",
                size=network.size,
                precision=str(half),
                batch_size=x.shape[0],
                tile_px=0,
                overlap_px=0,
                device=str(target),
            )
            return cache.run(key, lambda x: cast(Tensor, network(x)), x.to(target)).clone()

    return restore


def to_network(crops: Sequence[Pixels], device: torch.device, value_range: ValueRange = SIGNED_RANGE) -> Tensor:
    """(S, S, 3) uint8 RGB crops -> (N, 3, S, S) float32 in the range."""
    batch = torch.from_numpy(np.stack(crops)).to(device)
    levels = batch.permute(0, 3, 1, 2).float()
    return levels.div_(255 / (value_range.white - value_range.black)).add_(value_range.black).contiguous()


def from_network(y: Tensor, value_range: ValueRange = SIGNED_RANGE) -> list[Pixels]:
    """(N, 3, S, S) about the range -> (S, S, 3) uint8 RGB, rounded (the reference cuts off: half a level darker)."""
    # In place from here on, in a copy.
    scaled = torch.nan_to_num(y.float()).sub_(value_range.black).mul_(255 / (value_range.white - value_range.black))
    levels = scaled.round_().clamp_(0, 255).to(torch.uint8)
    return list(levels.permute(0, 2, 3, 1).cpu().numpy())


def _finite(y: Tensor) -> list[bool]:
    """Whether each picture has only finite numbers."""
    finite: list[bool] = torch.isfinite(y).flatten(1).all(dim=1).tolist()
    return finite
