"""Start from narrower weights: a wider generator that answers as the narrower one does.

Chen et al., "Net2Net: Accelerating Learning via Knowledge Transfer" (ICLR 2016), whose wider network is the same
function, too; there new channels are copies, here they are random and what reads them starts at zero, so that no two
of them learn the same.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gpen_core.models.gpen import Generator
from gpen_core.models.layers import BiasedLeakyReLU, ConstantInput, EqualizedConv, EqualizedLinear, ModulatedConv

FIRST_CONV = "generator.conv1.conv"


@torch.no_grad()
def widen(narrow: Generator, wide: Generator) -> None:
    """Give `wide` the weights of `narrow`; its channels beyond those stay random and are not read yet.

    Raises:
        ValueError: they differ in more than width, or a level of `wide` has fewer channels.
    """
    _check(narrow, wide)
    for name, module in wide.named_modules():
        source = narrow.get_submodule(name)
        if isinstance(module, ModulatedConv) and isinstance(source, ModulatedConv):
            # But for the first, decoder convolutions read the features of decoder and encoder, one after the other.
            blocks = 1 if name == FIRST_CONV else 2
            _widen_kernels(source.weight[0], module.weight[0], blocks)
            _widen_rows(source.modulation, module.modulation, blocks)
        elif isinstance(module, EqualizedConv) and isinstance(source, EqualizedConv):
            _widen_kernels(source.weight, module.weight, 1)
        elif isinstance(module, BiasedLeakyReLU) and isinstance(source, BiasedLeakyReLU):
            blocks = 2 if name.startswith("generator.") else 1
            module.bias[_places(len(source.bias), len(module.bias), blocks)] = source.bias
        elif isinstance(module, ConstantInput) and isinstance(source, ConstantInput):
            module.input[:, : source.input.shape[1]] = source.input
        elif isinstance(module, EqualizedLinear) and isinstance(source, EqualizedLinear):
            if not name.endswith(".modulation"):
                _widen_columns(source, module)
        else:
            for key, parameter in module.named_parameters(recurse=False):
                parameter.copy_(source.get_parameter(key))


def _check(narrow: Generator, wide: Generator) -> None:
    old, new = narrow.config, wide.config
    same = ("size", "style_dim", "num_mlp_layers")
    differing = [name for name in same if getattr(old, name) != getattr(new, name)]
    if differing:
        raise ValueError(f"the weights to start from have another {', '.join(differing)} than the settings")
    for side in new.sides:
        if new.num_channels(side) < old.num_channels(side):
            raise ValueError(
                f"the weights to start from have {old.num_channels(side)} channels at {side} px, more than the "
                f"{new.num_channels(side)} of the settings; raise channel_multiplier or narrow"
            )


def _places(old: int, new: int, blocks: int) -> Tensor:
    """Where the old channels lie among the new, in as many equal blocks."""
    within = torch.arange(old // blocks)
    return torch.cat([within + block * (new // blocks) for block in range(blocks)])


def _widen_kernels(old: Tensor, new: Tensor, blocks: int) -> None:
    """(out, in, k, k): the old outputs read the old inputs alone; new outputs read all, and see detail only."""
    # Stored weights are divided by the root of the number of inputs.
    kept = old * math.sqrt(new.shape[1] / old.shape[1])
    if new.shape[-1] > 1:
        new.sub_(new.mean(dim=(-2, -1), keepdim=True))
    new.mul_(kept.std() / new.std().clamp_min(1e-8))
    rows = torch.zeros_like(new[: len(old)])
    rows[:, _places(old.shape[1], new.shape[1], blocks)] = kept
    new[: len(old)] = rows


def _widen_rows(old: EqualizedLinear, new: EqualizedLinear, blocks: int) -> None:
    """Scales of a convolution's inputs; those of new ones start at one, whatever the style."""
    places = _places(len(old.bias), len(new.bias), blocks)
    new.weight.zero_()
    new.bias.fill_(1.0)
    new.weight[places], new.bias[places] = old.weight, old.bias


def _widen_columns(old: EqualizedLinear, new: EqualizedLinear) -> None:
    """A linear layer on more inputs, of which the first are the old ones."""
    num_old, num_new = old.weight.shape[1], new.weight.shape[1]
    new.weight.zero_()
    new.weight[:, :num_old] = old.weight * math.sqrt(num_new / num_old)
    new.bias.copy_(old.bias)
