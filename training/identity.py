"""Start from the identity: an untrained network that returns its input, so that training only learns the repair."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from gpen_core.models.gpen import Generator
from gpen_core.models.layers import ACTIVATION_GAIN, LEAKY_SLOPE, EqualizedConv, FeatureInjection, ToRGB

NUM_COLOURS = 3
# The 3x3 convolutions of encoder and decoder.
HIDDEN_WEIGHT = re.compile(r"ecd\d+\.0\.1\.weight|generator\.conv1\.conv\.weight|generator\.convs\.\d+\.conv\.weight")


@torch.no_grad()
def make_identity(generator: Generator) -> None:
    """Let the input pass through the first encoder stage, the last injection and the last to-RGB layer unchanged.

    Six channels of the first stage carry plus and minus RGB. A leaky ReLU f is not the identity, but f(x) - f(-x) is
    (1 + slope) x, so the last to-RGB layer gets x back as a difference of two channels. Everything else that reaches
    the picture has weight zero at first, and learns from the first step on.

    Raises:
        ValueError: the finest level has fewer than six channels.
    """
    channels = generator.config.num_channels(generator.size)
    if channels < 2 * NUM_COLOURS:
        raise ValueError(f"the finest level has {channels} channels; the identity needs {2 * NUM_COLOURS}")
    for module in generator.modules():
        if isinstance(module, FeatureInjection):
            module.weight.fill_(1.0)
        if isinstance(module, ToRGB):
            module.conv.weight.zero_()
            module.conv.modulation.weight.zero_()
    plus_minus = torch.cat((torch.eye(NUM_COLOURS), -torch.eye(NUM_COLOURS)))
    first = generator.get_submodule("ecd0.0.0")
    assert isinstance(first, EqualizedConv)
    first.weight[: 2 * NUM_COLOURS] = plus_minus[:, :, None, None] / first.weight_gain
    last = list(generator.generator.to_rgbs)[-1]
    assert isinstance(last, ToRGB)
    last.conv.weight[0, :, channels : channels + 2 * NUM_COLOURS, 0, 0] = plus_minus.T / (
        _difference_gain() * last.conv.weight_gain
    )


def _difference_gain() -> float:
    """g(x) - g(-x) = gain * x, where g is the activation applied twice: in the encoder and after the injection."""
    return ACTIVATION_GAIN**2 * (1.0 + LEAKY_SLOPE**2)


@torch.no_grad()
def centre_kernels(generator: Generator, pictures: Tensor) -> None:
    """Let the untrained 3x3 convolutions see detail only: their kernels sum to zero, and the encoder's keep unit scale.

    The picture's even parts take the identity's way. With random kernels they fill all features, too, and training
    first has to cancel them: with centred ones bad pictures gained twice as much in the first 1,200 samples.

    Args:
        generator: untrained; it returns its input before and after.
        pictures: some training pictures, (N, 3, size, size) in [-1, 1].
    """
    for name, parameter in generator.named_parameters():
        if HIDDEN_WEIGHT.fullmatch(name):
            parameter.sub_(parameter.mean(dim=(-2, -1), keepdim=True))
    first, *others = generator.encoder_stages
    features = first(pictures)
    for stage in others:
        stage.get_parameter("0.1.weight").div_(stage(features).std())
        features = stage(features)


def new_generator(
    size: int, channel_multiplier: int, narrow: float, style_dim: int, num_mlp_layers: int, seed: int
) -> Generator:
    """An untrained generator that returns its input."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        generator = Generator(size, style_dim, num_mlp_layers, channel_multiplier, narrow)
    make_identity(generator)
    return generator
