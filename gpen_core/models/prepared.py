"""The generator's layers with everything that does not depend on the picture worked out once.

Same functions as `gpen_core.models.layers`, rounding aside. Constant gains are folded into the weights: those of the
equalised learning rate, and sqrt(2) of the activation, since leaky_relu(c x) = c leaky_relu(x) for c > 0. With a half
precision the four means of StyleGAN2-ADA (Karras et al., "Training Generative Adversarial Networks with Limited Data",
NeurIPS 2020, appendix) apply: styles and weights are normalised before modulation (demodulation takes the norms out
again), modulation stays in fp32, activations are clamped, and so is the sum of the colour images in fp32.

Maps are (N, C, H, W), best in `torch.channels_last`.
"""

from __future__ import annotations

import math
from typing import TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gpen_core.models.layers import (
    ACTIVATION_GAIN,
    DEMODULATION_EPSILON,
    LEAKY_SLOPE,
    BiasedLeakyReLU,
    Blur,
    EqualizedConv,
    EqualizedLinear,
    ModulatedConv,
    StyledConv,
    ToRGB,
    filter_channels,
)
from gpen_core.models.packed import PackedConv

NATIVE_UP_TO_NUMBERS = 20480
"""Maps of one picture with more numbers than these go to oneDNN (`use_mkldnn` in ATen's Convolution.cpp)."""
ROWS_OF_STYLES = 4
"""On a CPU the linear layers take this many style codes at a time: matrix products of other heights add up in another
order, and a face's pixels should not depend on how many others are restored with it."""
TOGETHER_UP_TO_PX = 32
"""Levels of this side and below take all faces of a call at once: a single one does not keep the cores busy."""
HALF_LIMIT = 32768.0
"""Activations are kept within this in half precision: finite, and beyond all that a working network uses."""


def as_several(x: Tensor) -> Tensor:
    """The maps, twice where they are those of one face, small and on a processor.

    torch has a convolution of its own for these, which is no faster than oneDNN's for two, and rounds otherwise: a
    face's pixels should not depend on how many others are restored with it.
    """
    is_small = x.shape[0] == 1 and x.numel() <= NATIVE_UP_TO_NUMBERS
    return x.expand(2, -1, -1, -1) if is_small and x.device.type == "cpu" and not torch.compiler.is_compiling() else x


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`, ROWS_OF_STYLES rows at a time on a processor."""
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.linear(x, weight, bias)
    return torch.cat([F.linear(rows, weight, bias) for rows in torch.split(x, ROWS_OF_STYLES)])


class PreparedLinear(nn.Module):
    """`EqualizedLinear` with its gains in the weights."""

    weight: Tensor
    bias: Tensor

    def __init__(self, layer: EqualizedLinear) -> None:
        super().__init__()
        gain = ACTIVATION_GAIN if layer.activate else 1.0
        self.register_buffer("weight", layer.weight * (layer.weight_gain * gain))
        self.register_buffer("bias", layer.bias * (layer.lr_multiplier * gain))
        self.activate = layer.activate

    def forward(self, x: Tensor) -> Tensor:
        x = linear(x, self.weight, self.bias)
        return F.leaky_relu_(x, LEAKY_SLOPE) if self.activate else x


class PreparedStage(nn.Module):
    """An encoder stage."""

    weight: Tensor
    """(O, I, 1, 1) or (O, I, 3, 3)."""
    bias: Tensor
    kernel: Tensor

    def __init__(self, stage: nn.Sequential, dtype: torch.dtype) -> None:
        super().__init__()
        *blurs, conv, activation = cast(nn.Sequential, stage[0])
        assert isinstance(conv, EqualizedConv) and isinstance(activation, BiasedLeakyReLU)
        self.stride = conv.stride
        weight = conv.weight * (conv.weight_gain * ACTIVATION_GAIN)
        self.register_buffer("weight", weight.to(dtype, memory_format=torch.channels_last))
        self.register_buffer("bias", (activation.bias * ACTIVATION_GAIN).to(dtype))
        self.padding = 0
        self._packed: PackedConv | None = None
        if blurs:
            blur = cast(Blur, blurs[0])
            self.padding = blur.padding
            self.register_buffer("kernel", blur.kernel.to(dtype))

    def pack(self) -> None:
        """Give the weights away for what is fastest on a processor, one face at a time."""
        self._packed = PackedConv(self.weight, self.bias, stride=self.stride)
        self.weight = self.weight.new_empty(0)

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(self.weight.dtype)
        if self.padding:
            x = filter_channels(x, self.kernel, self.padding)
        if self._packed is not None:
            return F.leaky_relu_(self._packed(x), LEAKY_SLOPE)
        convolved = F.conv2d(as_several(x), self.weight, self.bias, stride=self.stride)[: x.shape[0]]
        return F.leaky_relu_(convolved, LEAKY_SLOPE)


Scales: TypeAlias = tuple[Tensor, Tensor]
"""Of a convolution's inputs (N, I), and of its outputs (N, O)."""


class Modulation(nn.Module):
    """Style code -> scales of a convolution's inputs and outputs, always in fp32."""

    energy: Tensor
    """(O, I): squares of the used weights, summed over the kernel."""
    squared_norms: Tensor
    """(O): what the weights were divided by, squared."""

    def __init__(self, conv: ModulatedConv, norms: Tensor) -> None:
        super().__init__()
        self.linear = PreparedLinear(conv.modulation)
        weight = conv.weight[0].double() * conv.weight_gain / norms.double()[:, None, None, None]
        self.register_buffer("energy", weight.square().sum(dim=(2, 3)).float())
        self.register_buffer("squared_norms", norms.square())
        self.is_normalized = bool((norms != 1).any())

    def forward(self, w: Tensor) -> Scales:
        """(N, D) -> scales of the inputs (N, I), and of the outputs (N, O) with the activation's gain."""
        style = self.linear(w)
        epsilon: Tensor | float = DEMODULATION_EPSILON
        if self.is_normalized:
            peak = style.abs().amax(dim=1, keepdim=True)
            style = style / peak
            epsilon = DEMODULATION_EPSILON / (self.squared_norms * peak.square())
        gain = torch.rsqrt(linear(style.square(), self.energy) + epsilon) * ACTIVATION_GAIN
        return style, gain


class Memory:
    """Where the maps of one layer after the other live in turn; new memory each time where too little is held.

    Memory used again costs nothing; the system's costs more than what is written into it.
    """

    def __init__(self, num_bytes: int = 0) -> None:
        """Hold two pieces of a processor's memory, or nothing."""
        # No inference tensors, which could not be written outside inference mode later on.
        with torch.inference_mode(False):
            self._pieces = [torch.empty(num_bytes, dtype=torch.uint8) for _ in range(2)]

    def twice_the_channels_of(self, maps: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, 2 C, H, W) without values, channels last."""
        n, channels, height, width = maps.shape
        self._pieces.reverse()
        num_bytes = 2 * maps.numel() * maps.element_size()
        if num_bytes <= len(self._pieces[0]):
            flat = self._pieces[0][:num_bytes].view(maps.dtype)
        else:
            flat = maps.new_empty(2 * maps.numel())
        return flat.view(n, height, width, 2 * channels).permute(0, 3, 1, 2)


class PreparedStyledConv(nn.Module):
    """Modulated convolution, injection, bias and activation; C channels in the middle, 2 C out."""

    weight: Tensor
    """(O, I, 3, 3), or (I, O, 3, 3) where it doubles the size."""
    bias: Tensor
    """(2 O): of the convolution's channels and of the injected ones."""
    injection: Tensor
    """(): gain of the injected features."""
    kernel: Tensor

    def __init__(self, layer: StyledConv, dtype: torch.dtype) -> None:
        super().__init__()
        conv = layer.conv
        weight = conv.weight[0] * conv.weight_gain
        norms = torch.ones_like(weight[:, 0, 0, 0])
        if dtype.itemsize < 4:
            norms = weight.flatten(1).abs().amax(dim=1) * math.sqrt(weight[0].numel())
        self.modulation = Modulation(conv, norms)
        weight = weight / norms[:, None, None, None]
        if conv.blur is not None:
            weight = weight.transpose(0, 1)
            self.register_buffer("kernel", conv.blur.kernel.to(dtype))
        self.register_buffer("weight", weight.to(dtype, memory_format=torch.channels_last))
        self.register_buffer("bias", layer.activate.bias * ACTIVATION_GAIN)
        self.register_buffer("injection", layer.noise.weight[0] * ACTIVATION_GAIN)
        self.is_upsampling = conv.blur is not None
        self._packed: PackedConv | None = None

    def pack(self) -> None:
        """Give the weights away for what is fastest on a processor, one face and few pixels at a time.

        Doubling convolutions keep theirs: oneDNN's order of those cannot be undone.
        """
        if not self.is_upsampling:
            self._packed = PackedConv(self.weight, padding=1)
            self.weight = self.weight.new_empty(0)

    def forward(self, x: Tensor, scales: Scales, encoder_features: Tensor, memory: Memory | None = None) -> Tensor:
        """(N, I, H, W) maps, the scales that `modulation` gave, and (N, C, H, W) or (N, C, 2 H, 2 W) features.

        With `memory` the maps that come out live there, until the call after the next.
        """
        dtype = self.weight.dtype
        style, gain = (scale.to(dtype) for scale in scales)
        x = self._convolve(x.to(dtype), style)
        if self.is_upsampling:
            x = filter_channels(x, self.kernel, padding=1)
        x = self._join(x, gain[:, :, None, None], encoder_features.to(dtype), memory or Memory())
        if dtype.itemsize < 4:
            x = x.clamp_(-HALF_LIMIT, HALF_LIMIT)
        return F.leaky_relu_(x, LEAKY_SLOPE)

    def _convolve(self, x: Tensor, style: Tensor) -> Tensor:
        if self._packed is not None:
            return self._packed(x * style[:, :, None, None])
        weight = self.weight
        if x.shape[0] == 1 and x.shape[-1] > TOGETHER_UP_TO_PX and x.numel() > weight.numel():
            # Of one face the weights can be scaled, which are fewer. It rounds otherwise: not where faces share a call.
            weight = weight * (style[0, :, None, None, None] if self.is_upsampling else style[:, :, None, None])
        else:
            x = x * style[:, :, None, None]
        several = as_several(x)
        if self.is_upsampling:
            return F.conv_transpose2d(several, weight, stride=2)[: x.shape[0]]
        return F.conv2d(several, weight, padding=1)[: x.shape[0]]

    def _join(self, x: Tensor, gain: Tensor, features: Tensor, memory: Memory) -> Tensor:
        """Both kinds of channels, scaled and with their biases."""
        bias, feature_bias = self.bias.to(x.dtype)[:, None, None].chunk(2)
        injection = self.injection.to(x.dtype)
        if torch.compiler.is_compiling():
            return torch.cat((torch.addcmul(bias, x, gain), torch.addcmul(feature_bias, features, injection)), dim=1)
        # Straight into their places: on a CPU `cat` runs on one core only.
        joined, channels = memory.twice_the_channels_of(x), x.shape[1]
        torch.addcmul(bias, x, gain, out=joined[:, :channels])
        torch.addcmul(feature_bias, features, injection, out=joined[:, channels:])
        return joined


class PreparedToRGB(nn.Module):
    """Modulated 1x1 convolution to three colours."""

    weight: Tensor
    """(3, I)."""
    bias: Tensor
    """(3)."""

    def __init__(self, layer: ToRGB) -> None:
        super().__init__()
        self.modulation = PreparedLinear(layer.conv.modulation)
        self.register_buffer("weight", layer.conv.weight[0, :, :, 0, 0] * layer.conv.weight_gain)
        self.register_buffer("bias", layer.bias.flatten())

    def matrix(self, w: Tensor) -> Tensor:
        """(N, D) style codes -> (N, 3, I) matrices from features to colours."""
        style: Tensor = self.modulation(w)
        return self.weight * style[:, None, :]

    @staticmethod
    def enlarged(rgb: Tensor) -> Tensor:
        """The (N, 3, H, W) image of the level below at this level's size.

        The filter's taps 1, 3, 3, 1 after zero-insertion are bilinear interpolation in an image with a rim of zeros.
        """
        framed = F.pad(rgb, (1, 1, 1, 1))
        if torch.compiler.is_compiling():
            return F.interpolate(framed, scale_factor=2, mode="bilinear", align_corners=False)[:, :, 2:-2, 2:-2]
        # Up to three times as fast as `interpolate` on a processor.
        n, colors, height, width = rgb.shape
        tall = rgb.new_empty(n, colors, height, 2, width + 2)
        here = framed[:, :, 1:-1]
        torch.lerp(here, framed[:, :, :-2], 0.25, out=tall[:, :, :, 0])
        torch.lerp(here, framed[:, :, 2:], 0.25, out=tall[:, :, :, 1])
        tall = tall.flatten(2, 3)
        large = rgb.new_empty(n, colors, 2 * height, width, 2)
        here = tall[..., 1:-1]
        torch.lerp(here, tall[..., :-2], 0.25, out=large[..., 0])
        torch.lerp(here, tall[..., 2:], 0.25, out=large[..., 1])
        return large.flatten(3)

    def forward(self, x: Tensor, matrix: Tensor, rgb: Tensor | None = None) -> Tensor:
        """(N, I, H, W) maps, what `matrix` gave, and the image of the level below -> (N, 3, H, W) image."""
        bias = self.bias[:, None, None]
        if x.dtype.itemsize < 4:
            # Normalised like every half-precision weight; the factor comes back in fp32.
            peak = matrix.abs().amax(dim=(1, 2), keepdim=True)
            colors = torch.einsum("nchw,noc->nohw", x, (matrix / peak).to(x.dtype)).float() * peak[..., None] + bias
        elif x.shape[0] == 1 and x.device.type == "cpu" and not torch.compiler.is_compiling():
            # Row by row: twice as fast as a convolution.
            colors = torch.matmul(matrix, x[0].transpose(0, 1)).transpose(0, 1)[None] + bias
        else:
            colors = torch.einsum("nchw,noc->nohw", x, matrix) + bias
        return colors if rgb is None else colors + self.enlarged(rgb)
