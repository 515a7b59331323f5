"""The layers GPEN is built of: StyleGAN2's equalised, modulated and resampling convolutions.

Formulas: Karras et al., "Analyzing and Improving the Image Quality of StyleGAN" (CVPR 2020), sections 2.2
(modulation and demodulation) and appendix B (equalised learning rate, resampling filters). Written from the paper;
attribute names that occur in published checkpoints (`weight`, `bias`, `kernel`, `modulation`, `blur`, `conv`,
`noise`, `activate`, `upsample`, `input`) are frozen, all other names are ours.

All feature maps are (N, C, H, W) float.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LEAKY_SLOPE = 0.2
# Restores the variance that a leaky ReLU with slope 0.2 removes, as the checkpoints were trained with.
ACTIVATION_GAIN = math.sqrt(2.0)
DEMODULATION_EPSILON = 1e-8
RESAMPLE_TAPS = (1.0, 3.0, 3.0, 1.0)


def resample_kernel(gain: float) -> Tensor:
    """(4, 4) binomial low-pass filter whose taps sum to `gain`: 1 before shrinking, 4 after zero-insertion by 2."""
    taps = torch.tensor(RESAMPLE_TAPS)
    kernel = torch.outer(taps, taps)
    return kernel * (gain / kernel.sum())


def filter_channels(x: Tensor, kernel: Tensor, padding: int) -> Tensor:
    """Convolve every channel of (N, C, H, W) with the same (4, 4) kernel."""
    channels = x.shape[1]
    return F.conv2d(x, kernel.to(x.dtype).expand(channels, 1, -1, -1), padding=padding, groups=channels)


class PixelNorm(nn.Module):
    """Scale every vector of (N, D) to unit root mean square."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(dim=1, keepdim=True) + 1e-8)


class Blur(nn.Module):
    """Low-pass filter that goes with a change of resolution by 2."""

    kernel: Tensor

    def __init__(self, padding: int, gain: float) -> None:
        super().__init__()
        self.padding = padding
        self.register_buffer("kernel", resample_kernel(gain))

    def forward(self, x: Tensor) -> Tensor:
        return filter_channels(x, self.kernel, self.padding)


class Upsample(nn.Module):
    """Double height and width of an image: zero-insertion and low-pass filter in one transposed convolution."""

    kernel: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kernel", resample_kernel(gain=4.0))

    def forward(self, x: Tensor) -> Tensor:
        channels = x.shape[1]
        kernel = self.kernel.flip(0, 1).to(x.dtype).expand(channels, 1, -1, -1)
        return F.conv_transpose2d(x, kernel, stride=2, padding=1, groups=channels)


class BiasedLeakyReLU(nn.Module):
    """Add a bias to each channel, then leaky ReLU times sqrt(2)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x + self.bias.to(x.dtype)[:, None, None], LEAKY_SLOPE) * ACTIVATION_GAIN


class EqualizedLinear(nn.Module):
    """Linear layer whose stored weights have unit variance and are scaled when used."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        bias_init: float = 0.0,
        lr_multiplier: float = 1.0,
        activate: bool = False,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / lr_multiplier)
        self.bias = nn.Parameter(torch.full((out_features,), bias_init))
        self.weight_gain = lr_multiplier / math.sqrt(in_features)
        self.lr_multiplier = lr_multiplier
        self.activate = activate

    def forward(self, x: Tensor) -> Tensor:
        x = F.linear(x, self.weight * self.weight_gain, self.bias * self.lr_multiplier)
        return F.leaky_relu(x, LEAKY_SLOPE) * ACTIVATION_GAIN if self.activate else x


class EqualizedConv(nn.Module):
    """Convolution without bias whose stored weights have unit variance and are scaled when used."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, *, stride: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_channels, in_channels, kernel_size, kernel_size))
        self.weight_gain = 1.0 / math.sqrt(in_channels * kernel_size**2)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight * self.weight_gain, stride=self.stride)


def encoder_stage(in_channels: int, out_channels: int, *, downsample: bool) -> nn.Sequential:
    """One encoder stage: 1x1 convolution at full size, or blur and 3x3 convolution to half the size."""
    if not downsample:
        layers = [EqualizedConv(in_channels, out_channels, 1), BiasedLeakyReLU(out_channels)]
    else:
        layers = [
            Blur(padding=2, gain=1.0),
            EqualizedConv(in_channels, out_channels, 3, stride=2),
            BiasedLeakyReLU(out_channels),
        ]
    # Two nested containers, since checkpoints name the layers `ecd<stage>.0.<layer>`.
    return nn.Sequential(nn.Sequential(*layers))


class ModulatedConv(nn.Module):
    """Convolution whose input channels are scaled by a style (StyleGAN2, eq. 1 to 3).

    The reference multiplies the style into a copy of the weights for every sample. Scaling the input by the style
    and the output by the demodulation factor is the same function with static weights: no per-sample weight tensor,
    no grouped convolution.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        style_dim: int,
        *,
        demodulate: bool = True,
        upsample: bool = False,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, out_channels, in_channels, kernel_size, kernel_size))
        self.modulation = EqualizedLinear(style_dim, in_channels, bias_init=1.0)
        self.weight_gain = 1.0 / math.sqrt(in_channels * kernel_size**2)
        self.demodulate = demodulate
        self.padding = kernel_size // 2
        self.blur = Blur(padding=1, gain=4.0) if upsample else None

    def demodulation(self, style: Tensor) -> Tensor:
        """(N, in) style -> (N, out) factor that brings every output channel back to unit variance."""
        energy = (self.weight[0] * self.weight_gain).square().sum(dim=(2, 3))
        return torch.rsqrt(F.linear(style.square(), energy) + DEMODULATION_EPSILON)

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        # In fp32 whatever the precision around it: squares of styles leave half precision's range.
        with torch.autocast(x.device.type, enabled=False):
            style = self.modulation(w.float())
            out_gain = self.demodulation(style) if self.demodulate else None
        x = x * style.to(x.dtype)[:, :, None, None]
        weight = self.weight[0] * self.weight_gain
        if self.blur is None:
            x = F.conv2d(x, weight, padding=self.padding)
        else:
            x = self.blur(F.conv_transpose2d(x, weight.transpose(0, 1), stride=2))
        return x if out_gain is None else x * out_gain.to(x.dtype)[:, :, None, None]


class FeatureInjection(nn.Module):
    """Concatenate the encoder's features, times a learned gain, where StyleGAN2 adds noise (GPEN, fig. 3)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor, encoder_features: Tensor) -> Tensor:
        return torch.cat((x, (self.weight * encoder_features).to(x.dtype)), dim=1)


class StyledConv(nn.Module):
    """Modulated 3x3 convolution, injection of encoder features, bias and activation: C channels in, 2 x out back."""

    def __init__(self, in_channels: int, out_channels: int, style_dim: int, *, upsample: bool = False) -> None:
        super().__init__()
        self.conv = ModulatedConv(in_channels, out_channels, 3, style_dim, upsample=upsample)
        self.noise = FeatureInjection()
        self.activate = BiasedLeakyReLU(2 * out_channels)

    def forward(self, x: Tensor, w: Tensor, encoder_features: Tensor) -> Tensor:
        activated: Tensor = self.activate(self.noise(self.conv(x, w), encoder_features))
        return activated


class ToRGB(nn.Module):
    """Modulated 1x1 convolution to three colours, added to the doubled image of the level below."""

    def __init__(self, in_channels: int, style_dim: int, *, upsample: bool = True) -> None:
        super().__init__()
        self.conv = ModulatedConv(in_channels, 3, 1, style_dim, demodulate=False)
        self.bias = nn.Parameter(torch.zeros(1, 3, 1, 1))
        self.upsample = Upsample() if upsample else None

    def forward(self, x: Tensor, w: Tensor, rgb: Tensor | None = None) -> Tensor:
        # The sum over all levels stays in fp32, as in StyleGAN2-ADA: rounding it at each level would show as banding.
        out: Tensor = self.conv(x, w).float() + self.bias.float()
        if rgb is not None and self.upsample is not None:
            with torch.autocast(x.device.type, enabled=False):
                out = out + self.upsample(rgb.float())
        return out


class ConstantInput(nn.Module):
    """The learned (1, C, 4, 4) map that the decoder starts from."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.input = nn.Parameter(torch.randn(1, channels, 4, 4))

    def forward(self, num_samples: int) -> Tensor:
        return self.input.expand(num_samples, -1, -1, -1)
