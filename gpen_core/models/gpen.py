"""The GPEN generator: an encoder whose features feed a StyleGAN2-style decoder (Yang et al., CVPR 2021).

Attribute names that occur in published checkpoints are frozen (a test pins them all); their meaning:

==================================  ================================================================================
checkpoint key                      meaning
==================================  ================================================================================
`ecd{i}`                            encoder stage i; stage 0 keeps the size, each later one halves it, down to 4 x 4
`final_linear`                      flattened 4 x 4 map -> style code z
`generator.style.{1..8}`            mapping network z -> w
`generator.input.input`             constant 4 x 4 start of the decoder
`generator.conv1`, `convs.{i}`      decoder convolutions; even `i` doubles the size, odd `i` keeps it
`*.conv.modulation`                 w -> scale of each input channel
`*.noise.weight`                    gain of the injected encoder features (StyleGAN2 adds noise in this place)
`*.activate.bias`                   bias before the activation, for the 2C channels after injection
`generator.to_rgb1`, `to_rgbs.{i}`  image of each level
`*.kernel`                          resampling filter [1, 3, 3, 1]; constant, but stored by every checkpoint
==================================  ================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from gpen_core.models.layers import (
    ConstantInput,
    EqualizedLinear,
    PixelNorm,
    StyledConv,
    ToRGB,
    encoder_stage,
)

SMALLEST_SIDE = 4
MAPPING_LR_MULTIPLIER = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratorConfig:
    """The numbers that fully define a generator."""

    size: int
    """Height and width of input and output in px: a power of two from 8 up."""
    style_dim: int = 512
    num_mlp_layers: int = 8
    channel_multiplier: int = 2
    """Width of the levels at 64 px and above; published checkpoints use 2 (512, 1024, 2048) and 1 (256)."""
    narrow: float = 1.0
    """Width of all levels."""

    def num_channels(self, side: int) -> int:
        """Feature channels at `side` px."""
        full_width = 512 if side <= 32 else 16384 // side * self.channel_multiplier
        return int(full_width * self.narrow)

    @property
    def sides(self) -> tuple[int, ...]:
        """Side of every level in px, coarse to fine: 4, 8, ..., size."""
        return tuple(2**i for i in range(2, self.size.bit_length()))


class Decoder(nn.Module):
    """StyleGAN2 synthesis with encoder features in the place of noise."""

    def __init__(self, config: GeneratorConfig) -> None:
        super().__init__()
        style_dim = config.style_dim
        mapping = [
            EqualizedLinear(style_dim, style_dim, lr_multiplier=MAPPING_LR_MULTIPLIER, activate=True)
            for _ in range(config.num_mlp_layers)
        ]
        self.style = nn.Sequential(PixelNorm(), *mapping)
        channels = config.num_channels(SMALLEST_SIDE)
        self.input = ConstantInput(channels)
        self.conv1 = StyledConv(channels, channels, style_dim)
        self.to_rgb1 = ToRGB(2 * channels, style_dim, upsample=False)
        self.convs = nn.ModuleList()
        self.to_rgbs = nn.ModuleList()
        for side in config.sides[1:]:
            below, channels = channels, config.num_channels(side)
            self.convs.append(StyledConv(2 * below, channels, style_dim, upsample=True))
            self.convs.append(StyledConv(2 * channels, channels, style_dim))
            self.to_rgbs.append(ToRGB(2 * channels, style_dim))

    def forward(self, z: Tensor, encoder_features: Sequence[Tensor]) -> Tensor:
        """(N, style_dim) code and the features of each level, coarse to fine -> (N, 3, size, size), unclamped."""
        with torch.autocast(z.device.type, enabled=False):
            w = self.style(z.float())
        coarsest, *finer = encoder_features
        x = self.conv1(self.input(z.shape[0]), w, coarsest)
        rgb = self.to_rgb1(x, w)
        for level, features in enumerate(finer):
            x = self.convs[2 * level](x, w, features)
            x = self.convs[2 * level + 1](x, w, features)
            rgb = self.to_rgbs[level](x, w, rgb)
        return cast(Tensor, rgb)


class Generator(nn.Module):
    """GPEN: a degraded aligned face in, the restored face out. Deterministic; no hidden noise.

    Args:
        size: side of the crop in px, a power of two from 8 up; published models have 256, 512, 1024 and 2048.
        style_dim: length of the style codes z and w.
        num_mlp_layers: layers of the mapping network.
        channel_multiplier: width of the levels at 64 px and above.
        narrow: width of all levels.
    """

    def __init__(
        self,
        size: int,
        style_dim: int = 512,
        num_mlp_layers: int = 8,
        channel_multiplier: int = 2,
        narrow: float = 1.0,
    ) -> None:
        super().__init__()
        if size < 8 or size & (size - 1):
            raise ValueError(f"size is {size}; a generator's size is a power of two from 8 up")
        self.config = GeneratorConfig(
            size=size,
            style_dim=style_dim,
            num_mlp_layers=num_mlp_layers,
            channel_multiplier=channel_multiplier,
            narrow=narrow,
        )
        fine_to_coarse = self.config.sides[::-1]
        in_channels = 3
        for i, side in enumerate(fine_to_coarse):
            out_channels = self.config.num_channels(side)
            setattr(self, f"ecd{i}", encoder_stage(in_channels, out_channels, downsample=i > 0))
            in_channels = out_channels
        self.final_linear = nn.Sequential(EqualizedLinear(in_channels * SMALLEST_SIDE**2, style_dim, activate=True))
        self.generator = Decoder(self.config)

    @classmethod
    def from_config(cls, config: GeneratorConfig) -> Generator:
        return cls(config.size, config.style_dim, config.num_mlp_layers, config.channel_multiplier, config.narrow)

    @property
    def size(self) -> int:
        """Side of input and output in px."""
        return self.config.size

    @property
    def encoder_stages(self) -> list[nn.Module]:
        """The stages that checkpoints call `ecd0`, `ecd1`, ...: fine to coarse."""
        return [cast(nn.Module, getattr(self, f"ecd{i}")) for i in range(len(self.config.sides))]

    def encode(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """(N, 3, size, size) in [-1, 1] -> style code z (N, style_dim) and each level's features, coarse to fine."""
        features: list[Tensor] = []
        for stage in self.encoder_stages:
            x = stage(x)
            features.append(x)
        z = self.final_linear(x.flatten(start_dim=1))
        return z, features[::-1]

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, size, size) RGB in [-1, 1] -> (N, 3, size, size) RGB, about [-1, 1] but not clamped."""
        z, features = self.encode(x)
        return cast(Tensor, self.generator(z, features))

    def extra_repr(self) -> str:
        return f"size={self.size}, channel_multiplier={self.config.channel_multiplier}, narrow={self.config.narrow}"
