"""The generator's high levels on a processor: in bands of rows that stay in its cache, nothing computed twice.

What a level needs of its neighbours is a few rows, so its maps never exist whole: the 3x3 convolutions run by
`gpen_core.models.winograd`, resampling filters as sums of rows and columns, scales, biases and activations while the
rows are still in the cache, the injected features straight into their place beside the convolution's. The same
pixels as in one piece, rounding aside, whatever the height of the bands.

All maps here are (H, W, C) float32 of one face.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gpen_core.models.doubling import DoublingConv
from gpen_core.models.layers import (
    ACTIVATION_GAIN,
    LEAKY_SLOPE,
    BiasedLeakyReLU,
    EqualizedConv,
    StyledConv,
    ToRGB,
)
from gpen_core.models.maps import Workspace
from gpen_core.models.packed import GroupedProduct
from gpen_core.models.prepared import Modulation, PreparedToRGB
from gpen_core.models.winograd import OUTPUT_SCALES, TILE_PX, WinogradConv, transform_weights
from gpen_core.models.workers import Workers

GetRows = Callable[[int, int], Tensor]
"""Rows lo to hi of a map: (hi - lo, W, C)."""
CACHE_BYTES = 1 << 20
"""Element-wise steps work on about this much at a time: a core's second-level cache."""
BAND_BYTES = 4 << 20
"""A band takes about this much, unless a height is asked for."""
LEAST_BAND_PX = 2048
"""Of a band, however wide the maps: each goes through all the weights."""
STRIP_TILES = 64
"""Tiles of a Winograd strip at least: enough rows for its matrix products to be efficient."""
STRIP_VALUES = 1 << 14
"""Tiles times channels of a Winograd strip where channels are few: 36 values of 4 bytes each, 2.4 MB."""


def leaky_relu_(x: Tensor) -> Tensor:
    return F.leaky_relu_(x, LEAKY_SLOPE)


def blur_down_the_rows(x: Tensor, out: Tensor, scratch: Tensor) -> None:
    """Sum each four neighbouring rows with taps 1, 3, 3, 1: (R + 3, W, C) -> (R, W, C)."""
    torch.add(x[:-3], x[3:], out=out)
    torch.add(x[1:-2], x[2:-1], out=scratch)
    out.add_(scratch, alpha=3.0)


def blur_across(x: Tensor, out: Tensor, scratch: Tensor) -> None:
    """The same with each four neighbours in a row: (R, W + 3, C) -> (R, W, C)."""
    torch.add(x[:, :-3], x[:, 3:], out=out)
    torch.add(x[:, 1:-2], x[:, 2:-1], out=scratch)
    out.add_(scratch, alpha=3.0)


def band_height(side: int, channels: int) -> int:
    """Rows of a band by default: a power of two."""
    rows = max(LEAST_BAND_PX // side, BAND_BYTES // (4 * side * channels), TILE_PX)
    return min(side, 1 << rows.bit_length() - 1)


def strip_height(side: int, channels: int, num_threads: int) -> int:
    """Rows that a Winograd convolution of `channels` inputs works on: a power of two, few enough for all threads."""
    tiles = max(STRIP_TILES, STRIP_VALUES // channels)
    rows = max(TILE_PX, min(side // num_threads, tiles * TILE_PX**2 // side))
    return 1 << rows.bit_length() - 1


def rows_in_cache(row: Tensor) -> int:
    """How many rows like this one, of all that a step touches, stay in the cache."""
    return max(1, CACHE_BYTES // (4 * row.numel()))


class StreamedEntry(nn.Module):
    """The encoder's first stage, a 1x1 convolution of the picture: cheap enough to be made again whenever needed."""

    weight: Tensor
    """(3, O)."""
    bias: Tensor

    def __init__(self, stage: nn.Sequential) -> None:
        super().__init__()
        conv, activation = cast(nn.Sequential, stage[0])
        assert isinstance(conv, EqualizedConv) and isinstance(activation, BiasedLeakyReLU)
        weight = conv.weight[:, :, 0, 0] * (conv.weight_gain * ACTIVATION_GAIN)
        self.register_buffer("weight", weight.t().contiguous())
        self.register_buffer("bias", activation.bias * ACTIVATION_GAIN)

    def rows_of(self, picture: Tensor) -> GetRows:
        """For one (3, S, S) picture."""

        def get_rows(lo: int, hi: int) -> Tensor:
            rows = torch.addmm(self.bias, picture[:, lo:hi].flatten(1).t(), self.weight)
            return leaky_relu_(rows).view(hi - lo, picture.shape[2], -1)

        return get_rows


class StreamedStage(nn.Module):
    """An encoder stage that halves the size: blur, 3x3 convolution with stride 2, bias, activation."""

    weight: Tensor
    """(O, I, 3, 3)."""
    bias: Tensor

    def __init__(self, stage: nn.Sequential) -> None:
        super().__init__()
        _, conv, activation = cast(nn.Sequential, stage[0])
        assert isinstance(conv, EqualizedConv) and isinstance(activation, BiasedLeakyReLU)
        # The filter's taps sum to 8 in each direction and should sum to 1.
        weight = conv.weight * (conv.weight_gain * ACTIVATION_GAIN / 64)
        self.register_buffer("weight", weight.contiguous(memory_format=torch.channels_last))
        self.register_buffer("bias", activation.bias * ACTIVATION_GAIN)

    def forward(self, source: GetRows, band_rows: int | None, workers: Workers, out: Tensor) -> None:
        """Fill `out`, (S / 2, S / 2, O), from the rows of a map of S px."""
        half = out.shape[0]
        side = 2 * half
        band_rows = band_rows or band_height(side, 2 * self.weight.shape[1])

        def work(start: int, end: int) -> None:
            in_channels = self.weight.shape[1]
            padded = self.weight.new_zeros(2 * band_rows + 4, side + 4, in_channels)
            blurred = self.weight.new_empty(2 * band_rows + 1, side + 1, in_channels)
            for lo in range(start, end, band_rows):
                count = min(band_rows, end - lo)
                self._read(source, 2 * lo - 2, padded[: 2 * count + 4])
                self._blur(padded[: 2 * count + 4], blurred[: 2 * count + 1])
                maps = blurred[: 2 * count + 1].permute(2, 0, 1)[None]
                rows = F.conv2d(maps, self.weight, self.bias, stride=2)
                out[lo : lo + count] = leaky_relu_(rows)[0].permute(1, 2, 0)

        workers.share(work, half, multiple_of=1)

    @staticmethod
    def _read(source: GetRows, first: int, padded: Tensor) -> None:
        """The map's rows from `first` on, zero outside it: what row r of the outcome reads starts at 2 r - 2."""
        side = padded.shape[1] - 4
        start, end = max(first, 0), min(first + len(padded), side)
        padded[: start - first].zero_()
        padded[end - first :].zero_()
        padded[start - first : end - first, 2:-2] = source(start, end)

    @staticmethod
    def _blur(padded: Tensor, blurred: Tensor) -> None:
        num_rows = min(rows_in_cache(padded[0]), blurred.shape[0])
        down = padded.new_empty(num_rows, *padded.shape[1:])
        scratch = torch.empty_like(down)
        for lo in range(0, blurred.shape[0], num_rows):
            count = min(num_rows, blurred.shape[0] - lo)
            blur_down_the_rows(padded[lo : lo + count + 3], down[:count], scratch[:count])
            blur_across(down[:count], blurred[lo : lo + count], scratch[:count, :-3])


@dataclass(frozen=True, slots=True)
class LevelStyles:
    """What the style code makes of a level's layers, for one face."""

    up_gain: Tensor
    """(C): factor of the doubling convolution's outputs."""
    style: Tensor
    """(2 C): factor of the second convolution's inputs."""
    gain: Tensor
    """(4, 1, 4, C): of its outputs, by their place in a Winograd tile."""
    rgb: Tensor
    """(3, 2 C)."""
    next_style: Tensor | None
    """(2 C): factor of the inputs of the level above; None at the top."""


class StreamedLevel(nn.Module):
    """A decoder level: doubling convolution, convolution, and the level's image."""

    up_weight: Tensor
    """(I, C, 3, 3)."""
    up_bias: Tensor
    """(2 C)."""
    up_injection: Tensor
    bias: Tensor
    """(2 C)."""
    injection: Tensor
    output_scales: Tensor
    """(4, 1, 4, 1)."""

    def __init__(self, up: StyledConv, conv: StyledConv, to_rgb: ToRGB) -> None:
        super().__init__()
        ones = torch.ones(conv.conv.weight.shape[1])
        self.up_modulation = Modulation(up.conv, ones)
        self.modulation = Modulation(conv.conv, ones)
        self.to_rgb = PreparedToRGB(to_rgb)
        # The filter's taps sum to 8 in each direction and should sum to 2.
        up_weight = up.conv.weight[0].transpose(0, 1) * (up.conv.weight_gain / 16)
        self.register_buffer("up_weight", up_weight.contiguous(memory_format=torch.channels_last))
        self.register_buffer("up_bias", up.activate.bias * ACTIVATION_GAIN)
        self.register_buffer("up_injection", up.noise.weight * ACTIVATION_GAIN)
        # No buffer: in oneDNN's order it belongs to the processor.
        self.product = GroupedProduct(transform_weights(conv.conv.weight[0] * conv.conv.weight_gain))
        self.register_buffer("bias", conv.activate.bias * ACTIVATION_GAIN)
        self.register_buffer("injection", conv.noise.weight * ACTIVATION_GAIN)
        scales = torch.tensor(OUTPUT_SCALES)
        self.register_buffer("output_scales", torch.outer(scales, scales)[:, None, :, None])

    def forward(
        self,
        below: Tensor,
        features: GetRows,
        styles: LevelStyles,
        rgb: Tensor,
        band_rows: int | None,
        workers: Workers,
        out: Tensor | None,
        spare: Tensor,
    ) -> None:
        """One face's level.

        Args:
            below: (S / 2, S / 2, I) maps of the level below, scaled by this level's first style.
            features: the encoder's features of this level.
            styles: this level's.
            rgb: (3, S, S) image of the levels below, to which this level's is added in place.
            band_rows: rows worked on at a time, a power of two from 4 up; None chooses.
            workers: share the rows.
            out: (S, S, 2 C), to be filled with the level's maps, scaled by the next level's first style; None at the
                top, where they are needed for the image only.
            spare: flat memory for buffers.
        """
        side, channels = 2 * below.shape[0], self.product.num_out
        band_rows = min(band_rows or band_height(side, 2 * channels), side)
        strip_rows = min(band_rows, strip_height(side, 2 * channels, workers.num_threads))

        def work(start: int, end: int) -> None:
            workspace = Workspace(spare[len(spare) * start // side : len(spare) * end // side])
            conv = WinogradConv(self.product, side, strip_rows // TILE_PX, workspace)
            middle = workspace.take(min(band_rows, end - start) + 2, side + 2, 2 * channels).zero_()
            own_strip = workspace.take(strip_rows if out is None else 0, side, 2 * channels)
            doubling = DoublingConv(below, self.up_weight, min(band_rows, end - start), workspace)
            # `middle` holds a band with a row more on each side, the last two rows of one being the first of the next.
            skipped = 0 if start else 1
            first = start - 1 + skipped
            own = features(first, start + 1)
            self._fill(middle[skipped:2], doubling.start(start)[skipped:], own, styles)
            for lo in range(start, end, band_rows):
                hi = min(lo + band_rows, end)
                if lo > start:
                    middle[:2] = middle[-2:].clone()
                own = features(lo, min(hi + 1, side))
                num_new = len(own) - 1
                self._fill(middle[2 : 2 + num_new], doubling.advance(lo, hi), own[1:], styles)
                middle[2 + num_new : hi - lo + 2].zero_()
                for row in range(lo, hi, strip_rows):
                    rows = slice(row, row + strip_rows)
                    strip = own_strip if out is None else out[rows]
                    convolved = conv(middle[row - lo : row - lo + strip_rows + 2])
                    self._activate(strip, convolved, own[row - lo : row - lo + strip_rows], styles)
                    rgb[:, rows] += self._colors(strip, styles)
                    if styles.next_style is not None:
                        strip.mul_(styles.next_style)

        workers.share(work, side, multiple_of=strip_rows)

    def _fill(self, middle: Tensor, doubled: Tensor, features: Tensor, styles: LevelStyles) -> None:
        """Write the first convolution's answer into rows with a pixel more at each end, which is left as it is.

        Args:
            middle: (R, S + 2, 2 C), where to.
            doubled: (R + 3, S + 1, C), what `DoublingConv` gave, from one row earlier on.
            features: (R, S, C), the encoder's.
            styles: this level's.
        """
        side, channels = middle.shape[1] - 2, self.product.num_out
        bias, feature_bias = self.up_bias.chunk(2)
        num_rows = min(rows_in_cache(middle[0]), middle.shape[0])
        down = doubled.new_zeros(num_rows, side + 3, channels)
        scratch = torch.empty_like(down)
        across = doubled.new_empty(num_rows, side, channels)
        for row in range(0, middle.shape[0], num_rows):
            count = min(num_rows, middle.shape[0] - row)
            rows = doubled[row : row + count + 3]
            blur_down_the_rows(rows, down[:count, 1:-1], scratch[:count, :-2])
            blur_across(down[:count], across[:count], scratch[:count, :-3])
            out = middle[row : row + count, 1:-1]
            torch.addcmul(bias, across[:count], styles.up_gain, out=out[..., :channels])
            torch.addcmul(feature_bias, features[row : row + count], self.up_injection, out=out[..., channels:])
            leaky_relu_(out).mul_(styles.style)

    def _activate(self, strip: Tensor, convolved: Tensor, features: Tensor, styles: LevelStyles) -> None:
        channels = self.product.num_out
        bias, feature_bias = self.bias.chunk(2)
        tiles = strip.view(*convolved.shape[:-1], 2 * channels)
        torch.addcmul(bias, convolved, styles.gain, out=tiles[..., :channels])
        torch.addcmul(feature_bias, features, self.injection, out=strip[..., channels:])
        leaky_relu_(strip)

    def _colors(self, strip: Tensor, styles: LevelStyles) -> Tensor:
        """(R, W, 2 C) -> (3, R, W)."""
        colors = torch.addmm(self.to_rgb.bias[:, None], styles.rgb, strip.flatten(0, 1).t())
        return colors.view(3, *strip.shape[:2])
