"""The network where it is needed: built from its file, placed on a device, dropped when nobody needs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from gpen_core.errors import WeightsError
from gpen_core.models.fast import FastGenerator, exact_overlap_px, is_best_streamed, peak_activation_mib
from gpen_core.models.gpen import Generator

TiledForward = Callable[[Tensor, int, int | None], Tensor]
"""(N, 3, S, S), tile_px (0: untiled) and overlap_px (None: exact) -> (N, 3, S, S) float32."""


class NetworkSource(Protocol):
    """Where a network comes from, and what it needs."""

    @property
    def size(self) -> int:
        """Side of a crop in px."""
        ...

    def is_compilable(self, device: torch.device, half: torch.dtype | None) -> bool:
        """Whether compiled code is faster there than the network as it is."""
        ...

    def build(self, device: torch.device, half: torch.dtype | None) -> nn.Module:
        """A `TiledForward` on `device`, ready to run; with `half`, in mixed precision.

        Raises:
            WeightsError: the weights cannot be read, or are no longer what they were.
        """
        ...

    def peak_mib(self, device: torch.device, half: torch.dtype | None, batch_size: int, tile_px: int) -> float:
        """About what one call takes beside the weights."""
        ...

    def exact_overlap_px(self, device: torch.device, half: torch.dtype | None) -> int:
        """Overlap from which tiles change no pixel."""
        ...


class GeneratorSource:
    """A generator that was loaded once and can be loaded again."""

    def __init__(self, generator: Generator, path: Path, load: Callable[[], Generator]) -> None:
        """Take a generator that was just loaded.

        Args:
            generator: becomes the first network.
            path: its file, which must stay as it is.
            load: loads it again.
        """
        self._first: Generator | None = generator
        self._config = generator.config
        self._path = path
        self._stamp = _stamp(path)
        self._load = load

    @property
    def size(self) -> int:
        return self._config.size

    def is_compilable(self, device: torch.device, half: torch.dtype | None) -> bool:
        return not is_best_streamed(self._config, device, half)

    def build(self, device: torch.device, half: torch.dtype | None) -> nn.Module:
        generator, self._first = self._first or self._load_again(), None
        is_streamed = is_best_streamed(self._config, device, half)
        return FastGenerator(generator, half=half, is_streamed=is_streamed).to(device)

    def _load_again(self) -> Generator:
        if _stamp(self._path) != self._stamp:
            raise WeightsError(f"The file {self._path} was changed while the program ran; start the program again.")
        return self._load()

    def peak_mib(self, device: torch.device, half: torch.dtype | None, batch_size: int, tile_px: int) -> float:
        is_streamed = is_best_streamed(self._config, device, half)
        bytes_per_number = 2 if half else 4
        return peak_activation_mib(
            self._config, batch_size, tile_px, is_streamed=is_streamed, bytes_per_number=bytes_per_number
        )

    def exact_overlap_px(self, device: torch.device, half: torch.dtype | None) -> int:
        return exact_overlap_px(self._config, is_streamed=is_best_streamed(self._config, device, half))


def _stamp(path: Path) -> tuple[int, int] | None:
    """Changes when the file does; None where it is gone."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


class PlacedNetworks:
    """A source's network on each device and in each precision it was asked for in."""

    def __init__(self, source: NetworkSource) -> None:
        self._source = source
        self._placed: dict[tuple[torch.device, torch.dtype | None], nn.Module] = {}

    @property
    def is_empty(self) -> bool:
        return not self._placed

    def get(self, device: torch.device, half: torch.dtype | None) -> nn.Module:
        """The network there, built if need be.

        Raises:
            WeightsError: see `NetworkSource.build`.
        """
        if (device, half) not in self._placed:
            self._placed[device, half] = self._source.build(device, half)
        return self._placed[device, half]

    def keep_only(self, device: torch.device, half: torch.dtype | None) -> bool:
        """Drop all others; whether there were any."""
        others = [key for key in self._placed if key != (device, half)]
        for key in others:
            del self._placed[key]
        return bool(others)

    def clear(self) -> None:
        self._placed.clear()
