"""How much arithmetic a face takes, and how fast this machine multiplies matrices."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gpen_core.models.gpen import GeneratorConfig

BLUR_TAPS = 16
MATRIX_SIDE_CPU, MATRIX_SIDE_GPU = 2048, 8192


def flop_per_face(config: GeneratorConfig) -> int:
    """Floating-point operations for one face, 2 a multiply-add: convolutions, resampling filters, linear layers.

    Counted as the network is defined. Winograd's or separable filters do the same with less, so their rate by this
    count may exceed what the machine multiplies matrices at.
    """
    sides, channels = config.sides, config.num_channels
    macs = 3 * channels(sides[-1]) * sides[-1] ** 2
    for side in sides[:-1]:
        wide, narrow = channels(side), channels(2 * side)
        encoder = BLUR_TAPS * narrow * (2 * side + 1) ** 2 + 9 * narrow * wide * side**2
        upsampling = 9 * 2 * wide * narrow * side**2 + BLUR_TAPS * narrow * (2 * side) ** 2
        macs += encoder + upsampling
    for side in sides:
        inputs = channels(side) * (1 if side == sides[0] else 2)
        macs += 9 * inputs * channels(side) * side**2 + 2 * channels(side) * 3 * side**2
    macs += channels(sides[0]) * sides[0] ** 2 * config.style_dim + config.num_mlp_layers * config.style_dim**2
    return 2 * macs


def matrix_product(device: torch.device, dtype: torch.dtype) -> tuple[Callable[[], Tensor], int]:
    """A product of two square matrices to run, and its floating-point operations."""
    side = MATRIX_SIDE_CPU if device.type == "cpu" else MATRIX_SIDE_GPU
    left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    return lambda: torch.mm(left, right), 2 * side**3
