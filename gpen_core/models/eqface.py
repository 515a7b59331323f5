"""EQFace: identity features and a quality score of a 112 px face (Liu and Tan, CVPRW 2021; public code under MIT).

Attribute names that occur in the published checkpoints are frozen (`qualtiy` is theirs).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

WIDTHS = (64, 64, 128, 256, 512)
BLOCKS_OF_100_LAYERS = (3, 13, 30, 3)
NUM_POOLED_FEATURES = WIDTHS[-1] * 7 * 7


class ResidualBlock(nn.Module):
    """Improved residual block of ArcFace: norm, convolution, norm, PReLU, strided convolution, norm."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.res_layer = nn.Sequential(
            nn.BatchNorm2d(in_channels),
            nn.Conv2d(in_channels, out_channels, 3, 1, 1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.PReLU(out_channels),
            nn.Conv2d(out_channels, out_channels, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out_channels),
        )
        self.shortcut_layer = (
            nn.Sequential(nn.Conv2d(in_channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels))
            if stride > 1
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.shortcut_layer is None else self.shortcut_layer(x)
        return cast(Tensor, shortcut + self.res_layer(x))


class Backbone(nn.Module):
    """(N, 3, 112, 112) RGB, (x - 127.5) / 128 -> identity features (N, 512) and pooled ones for the quality head."""

    def __init__(self, blocks: Sequence[int] = BLOCKS_OF_100_LAYERS) -> None:
        super().__init__()
        self.input_layer = nn.Sequential(
            nn.Conv2d(3, WIDTHS[0], 3, 1, 1, bias=False), nn.BatchNorm2d(WIDTHS[0]), nn.PReLU(WIDTHS[0])
        )
        for number, num_blocks in enumerate(blocks, start=1):
            layers = [ResidualBlock(WIDTHS[number - 1], WIDTHS[number], stride=2)]
            layers += [ResidualBlock(WIDTHS[number], WIDTHS[number], stride=1) for _ in range(num_blocks - 1)]
            setattr(self, f"layer{number}", nn.Sequential(*layers))
        self.output_layer = nn.Sequential(nn.BatchNorm2d(WIDTHS[-1]), nn.Flatten())
        self.feature_layer = nn.Sequential(nn.Linear(NUM_POOLED_FEATURES, 512), nn.BatchNorm1d(512))
        self.num_stages = len(blocks)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.input_layer(x)
        for number in range(1, self.num_stages + 1):
            x = getattr(self, f"layer{number}")(x)
        pooled = self.output_layer(x)
        return self.feature_layer(pooled), pooled


class QualityHead(nn.Module):
    """Pooled features (N, 25088) -> quality (N,) in [0, 1], 1 best."""

    def __init__(self) -> None:
        super().__init__()
        self.qualtiy = nn.Sequential(
            nn.Linear(NUM_POOLED_FEATURES, 512, bias=False),
            nn.BatchNorm1d(512),
            nn.ReLU(),
            nn.Linear(512, 2, bias=False),
            nn.Softmax(dim=1),
        )

    def forward(self, pooled: Tensor) -> Tensor:
        return cast(Tensor, self.qualtiy(pooled)[:, 0])
