"""The background's upscaler on this machine: which one, whether it can run, and one tile through it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from gpen_core.errors import DeviceError, WeightsError
from gpen_core.models.checkpoint import read_state_dict
from gpen_core.models.registry import ModelSpec, get_spec
from gpen_core.models.rrdbnet import RrdbConfig, infer_rrdb_config, load_rrdbnet
from gpen_core.models.verify import WeightsFile
from gpen_core.models.weights import download_command, load_present, load_weights
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.runtime.device import describe_device, resolve_device
from gpen_core.runtime.idle import IdleTimer
from gpen_core.runtime.memory import free_memory_mib, is_out_of_memory, release_memory
from gpen_core.runtime.precision import exact_fp32
from gpen_core.types import OnProgress, Pixels

SHARE_OF_FREE = 0.6
"""Of the free memory a tile is planned to take at most this much."""
DOUBLING, FOURFOLD = ("realesrnet-x2", "realesrgan-x2plus"), ("realesrgan-x4plus",)


class RrdbUpscaler:
    """An RRDBNet on a device, in fp32; an `Upscaler` of `gpen_core.photo.background`.

    One tile at a time: others wait at the lock.
    """

    def __init__(
        self,
        name: str,
        config: RrdbConfig,
        load: Callable[[], nn.Module],
        device: torch.device,
        *,
        runtime: RuntimeOptions,
    ) -> None:
        """Args:
        name: for people.
        config: of the network.
        load: builds it, again after a pause.
        device: where it runs.
        runtime: for the pause after which its memory is freed.
        """
        self.name = name
        self.scale = config.scale
        self.multiple_of = config.multiple_of
        self.exact_halo_px = config.halo_px
        self._config = config
        self._load = load
        self._device = device
        self._network: nn.Module | None = None
        self._lock = threading.Lock()
        self._idle = IdleTimer(runtime.unload_after_s, self.unload)

    def unload(self) -> None:
        """Free the network's memory. The next tile loads it again."""
        with self._lock:
            self._network = None
        release_memory(self._device)

    def largest_tile_px(self) -> int | None:
        """See `gpen_core.photo.background.Upscaler`."""
        free_mib = free_memory_mib(self._device)
        if free_mib is None:
            return None
        return int((SHARE_OF_FREE * free_mib * 2**20 / self._config.peak_bytes(1024, 1024)) ** 0.5 * 1024)

    def upscale_tile(self, tile: Pixels) -> npt.NDArray[np.float32]:
        """See `gpen_core.photo.background.Upscaler`."""
        with self._idle.busy():
            try:
                with self._lock, torch.inference_mode(), exact_fp32(self._device):
                    return self._run(tile)
            except (RuntimeError, MemoryError) as error:
                is_too_large, reason = is_out_of_memory(error), str(error).strip().split("\n")[0]
            # Not above, where the error still holds on to what was allocated.
            release_memory(self._device)
            if is_too_large:
                raise MemoryError(f"a tile of {tile.shape[1]} x {tile.shape[0]} px")
            raise DeviceError(f"{self.name} failed on {describe_device(self._device)} ({reason}).")

    def _run(self, tile: Pixels) -> npt.NDArray[np.float32]:
        if self._network is None:
            self._network = self._load().to(self._device)
        x = torch.from_numpy(np.ascontiguousarray(tile)).to(self._device).permute(2, 0, 1)[None].float().div(255.0)
        y = self._network(x)[0]
        if not bool(torch.isfinite(y).all()):
            raise DeviceError(f"{self.name} gave numbers that are not finite.")
        levels: npt.NDArray[np.float32] = y.clamp(0, 1).mul(255.0).permute(1, 2, 0).cpu().numpy()
        return levels


class Upscalers:
    """The upscalers of one program, each loaded at its first use."""

    def __init__(self, runtime: RuntimeOptions) -> None:
        self._runtime = runtime
        self._loaded: dict[str, tuple[RrdbUpscaler, tuple[str, ...]]] = {}
        self._lock = threading.Lock()

    def get(self, options: RestoreOptions, report: OnProgress) -> tuple[RrdbUpscaler | None, tuple[str, ...]]:
        """The upscaler that these options ask for, and notes; None where none can be had, which a note explains.

        Raises:
            WeightsError: the user's own file is not an RRDBNet.
        """
        if options.background == "off" or (options.background == "auto" and options.scale == 1):
            return None, ()
        with self._lock:
            if self._runtime.upscaler_weights is not None:
                return self._own(Path(self._runtime.upscaler_weights))
            if options.background == "auto":
                return self._best_present(options.scale)
            return self._named(get_spec(options.background), report)

    def _own(self, path: Path) -> tuple[RrdbUpscaler | None, tuple[str, ...]]:
        if str(path) not in self._loaded:
            config = infer_rrdb_config(read_state_dict(path), path)
            upscaler, notes = self._usable(path.stem, config, path, (f"The upscaler {path} is a file of your own.",))
            if upscaler is None:
                return None, notes
            self._loaded[str(path)] = upscaler, notes
        return self._loaded[str(path)]

    def _best_present(self, scale: float) -> tuple[RrdbUpscaler | None, tuple[str, ...]]:
        passed: list[str] = []
        for name in (*DOUBLING, *FOURFOLD) if scale <= 2 else (*FOURFOLD, *DOUBLING):
            if name in self._loaded:
                return self._loaded[name]
            try:
                found = load_present(get_spec(name), _config_of, passed)
            except WeightsError as error:
                passed.append(str(error))
                continue
            if found is not None:
                return self._keep(*found, tuple(passed))
        command = download_command(get_spec(DOUBLING[0]))
        return None, (
            *passed,
            f"{RESAMPLED}, because no upscaler's weights are on this machine; {command} fetches one.",
        )

    def _named(self, spec: ModelSpec, report: OnProgress) -> tuple[RrdbUpscaler | None, tuple[str, ...]]:
        if spec.name in self._loaded:
            return self._loaded[spec.name]
        try:
            file, config = load_weights(spec, _config_of, report)
        except WeightsError as error:
            return None, (f"{RESAMPLED}: {error}",)
        return self._keep(file, config, ())

    def _keep(
        self, file: WeightsFile, config: RrdbConfig, passed: tuple[str, ...]
    ) -> tuple[RrdbUpscaler | None, tuple[str, ...]]:
        upscaler, notes = self._usable(file.spec.name, config, file.path, (*passed, *file.notes))
        if upscaler is None:
            return None, notes
        self._loaded[file.spec.name] = upscaler, notes
        return upscaler, notes

    def _usable(
        self, name: str, config: RrdbConfig, path: Path, notes: tuple[str, ...]
    ) -> tuple[RrdbUpscaler | None, tuple[str, ...]]:
        """The upscaler, unless the network cannot be built: basicsr is not part of this program."""
        try:
            first: list[nn.Module] = [load_rrdbnet(path)]
        except ImportError as error:
            return None, (*notes, f"{RESAMPLED}, because {name} needs basicsr, which cannot be imported ({error}).")

        def load() -> nn.Module:
            return first.pop() if first else load_rrdbnet(path)

        device = resolve_device(self._runtime.device)
        return RrdbUpscaler(name, config, load, device, runtime=self._runtime), notes


RESAMPLED = "The background was only resampled (Lanczos)"


def _config_of(file: WeightsFile) -> RrdbConfig:
    config = infer_rrdb_config(read_state_dict(file.path), file.path)
    if config.scale != file.spec.scale:
        raise WeightsError(
            f"The file {file.path} is an RRDBNet upscaler of x{config.scale}, but {file.spec.name} is one of "
            f"x{file.spec.scale}; fetch it again."
        )
    return config
