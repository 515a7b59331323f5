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
from typing import cast

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

HALF_LIMIT = 32768.0
"""Activations are kept within this in half precision: finite, and beyond all that a working network uses."""


class PreparedLinear(nn.Module):
    """`EqualizedLinear` with its gains in the weights."""

    weight: Tensor
    bias: Tensor

    def __init__(self, linear: EqualizedLinear) -> None:
        super().__init__()
        gain = ACTIVATION_GAIN if linear.activate else 1.0
        self.register_buffer("weight", linear.weight * (linear.weight_gain * gain))
        self.register_buffer("bias", linear.bias * (linear.lr_multiplier * gain))
        self.activate = linear.activate

    def forward(self, x: Tensor) -> Tensor:
        x = F.linear(x, self.weight, self.bias)
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
        if blurs:
            blur = cast(Blur, blurs[0])
            self.padding = blur.padding
            self.register_buffer("kernel", blur.kernel.to(dtype))

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(self.weight.dtype)
        if self.padding:
            x = filter_channels(x, self.kernel, self.padding)
        return F.leaky_relu_(F.conv2d(x, self.weight, self.bias, stride=self.stride), LEAKY_SLOPE)


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

    def forward(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """(N, D) -> scales of the inputs (N, I), and of the outputs (N, O) with the activation's gain."""
        style = self.linear(w)
        epsilon: Tensor | float = DEMODULATION_EPSILON
        if self.is_normalized:
            peak = style.abs().amax(dim=1, keepdim=True)
            style = style / peak
            epsilon = DEMODULATION_EPSILON / (self.squared_norms * peak.square())
        gain = torch.rsqrt(F.linear(style.square(), self.energy) + epsilon) * ACTIVATION_GAIN
        return style, gain


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

    def forward(self, x: Tensor, w: Tensor, encoder_features: Tensor) -> Tensor:
        dtype = self.weight.dtype
        style, gain = self.modulation(w)
        x = x.to(dtype) * style.to(dtype)[:, :, None, None]
        if self.is_upsampling:
            x = filter_channels(F.conv_transpose2d(x, self.weight, stride=2), self.kernel, padding=1)
        else:
            x = F.conv2d(x, self.weight, padding=1)
        x = x * gain.to(dtype)[:, :, None, None]
        x = torch.cat((x, encoder_features.to(dtype) * self.injection.to(dtype)), dim=1)
        x = x.add_(self.bias.to(dtype)[:, None, None])
        if dtype.itemsize < 4:
            x = x.clamp_(-HALF_LIMIT, HALF_LIMIT)
        return F.leaky_relu_(x, LEAKY_SLOPE)


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
        self.upsample = layer.upsample

    def matrix(self, w: Tensor) -> Tensor:
        """(N, D) style codes -> (N, 3, I) matrices from features to colours."""
        style: Tensor = self.modulation(w)
        return self.weight * style[:, None, :]

    def enlarged(self, rgb: Tensor) -> Tensor:
        """The (N, 3, H, W) image of the level below at this level's size."""
        assert self.upsample is not None
        return cast(Tensor, self.upsample(rgb))

    def forward(self, x: Tensor, w: Tensor, rgb: Tensor | None = None) -> Tensor:
        matrix = self.matrix(w)
        if x.dtype.itemsize < 4:
            # Normalised like every half-precision weight; the factor comes back in fp32.
            peak = matrix.abs().amax(dim=(1, 2), keepdim=True)
            colors = torch.einsum("nchw,noc->nohw", x, (matrix / peak).to(x.dtype)).float() * peak[..., None]
        else:
            colors = torch.einsum("nchw,noc->nohw", x, matrix)
        colors = colors + self.bias[:, None, None]
        return colors if rgb is None else colors + self.enlarged(rgb)
