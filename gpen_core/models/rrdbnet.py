"""RRDBNet, the background's upscaler: which one a file holds, and the network itself, which is basicsr's.

Wang et al., "ESRGAN: Enhanced super-resolution generative adversarial networks", ECCVW 2018; in the variant of
Real-ESRGAN (Wang et al., ICCVW 2021), which sees small scales through blocks of pixels as channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from gpen_core.errors import WeightsError
from gpen_core.models.basicsr import import_basicsr
from gpen_core.models.checkpoint import describe_differences, read_state_dict

SCALE_BY_CHANNELS = {3: 4, 12: 2, 48: 1}
"""At x2 and x1 the network sees blocks of 2 x 2 and 4 x 4 pixels as channels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RrdbConfig:
    """What an RRDBNet's tensors tell of it."""

    scale: int
    num_features: int
    num_growth: int
    num_blocks: int

    @property
    def multiple_of(self) -> int:
        """Sides of its input are multiples of it: it is the side of a block of pixels."""
        return 4 // self.scale

    @property
    def halo_px(self) -> int:
        """How far it sees: beyond so many input pixels nothing changes an output pixel.

        A block has fifteen 3x3 convolutions; one comes before and one after them, one at twice and three at four times
        their resolution.
        """
        return (15 * self.num_blocks + 4) * self.multiple_of

    def peak_bytes(self, width: int, height: int) -> int:
        """About what one call takes beside the weights: three maps at four times its blocks' resolution."""
        maps = 3.5 * 16 * self.num_features + self.num_features * 6 + self.num_growth * 14
        return int(4 * maps * width * height / self.multiple_of**2)


def infer_rrdb_config(state: Mapping[str, Tensor], path: Path) -> RrdbConfig:
    """The RRDBNet that a state dict belongs to; every name and shape follows from three of them.

    Raises:
        WeightsError: it is of another network.
    """
    first, grown = state.get("conv_first.weight"), state.get("body.0.rdb1.conv1.weight")
    if first is None or grown is None or first.ndim != 4 or grown.ndim != 4:
        raise WeightsError(f"The file {path} is not an RRDBNet upscaler: it lacks that network's first layers.")
    num_blocks = len({key.split(".")[1] for key in state if key.startswith("body.")})
    differences = describe_differences(_tensors(first.shape[1], len(first), len(grown), num_blocks), state)
    if differences is not None:
        raise WeightsError(f"The file {path} is not an RRDBNet upscaler: {differences}.")
    scale = SCALE_BY_CHANNELS.get(first.shape[1])
    if scale is None:
        raise WeightsError(f"The file {path} is an RRDBNet for {first.shape[1]} channels; it must have 3, 12 or 48.")
    return RrdbConfig(scale=scale, num_features=len(first), num_growth=len(grown), num_blocks=num_blocks)


def check_upscaler(path: Path, expected_scale: int) -> None:
    """Check that a file holds an RRDBNet of this scale, as basicsr names its tensors. Needs no basicsr.

    Raises:
        WeightsError: the file cannot be read, or is of another network or scale.
    """
    if infer_rrdb_config(read_state_dict(path), path).scale != expected_scale:
        raise WeightsError(f"The file {path} is an RRDBNet upscaler of another scale than x{expected_scale}.")


def load_rrdbnet(path: Path) -> nn.Module:
    """The network of a file in eval mode: (N, 3, H, W) RGB in [0, 1] -> (N, 3, scale H, scale W).

    Raises:
        WeightsError: the file cannot be read, or is of another network.
        ImportError: basicsr is not installed, or not usable.
    """
    state = read_state_dict(path)
    config = infer_rrdb_config(state, path)
    network: nn.Module = import_basicsr("archs.rrdbnet_arch").RRDBNet(
        num_in_ch=3,
        num_out_ch=3,
        scale=config.scale,
        num_feat=config.num_features,
        num_block=config.num_blocks,
        num_grow_ch=config.num_growth,
    )
    network.load_state_dict({key: value.float() for key, value in state.items()}, strict=True, assign=True)
    return network.requires_grad_(False).eval()


def _tensors(num_in: int, features: int, growth: int, num_blocks: int) -> dict[str, Tensor]:
    """Names and shapes of an RRDBNet's tensors, without their numbers."""
    convolutions = {"conv_first": (num_in, features), "conv_body": (features, features)}
    for block in range(num_blocks):
        for dense in (1, 2, 3):
            for layer in range(1, 6):
                num_out = features if layer == 5 else growth
                convolutions[f"body.{block}.rdb{dense}.conv{layer}"] = (features + (layer - 1) * growth, num_out)
    convolutions |= dict.fromkeys(("conv_up1", "conv_up2", "conv_hr"), (features, features))
    convolutions["conv_last"] = (features, 3)
    tensors: dict[str, Tensor] = {}
    for name, (num_from, num_to) in convolutions.items():
        tensors[f"{name}.weight"] = torch.empty(num_to, num_from, 3, 3, device="meta")
        tensors[f"{name}.bias"] = torch.empty(num_to, device="meta")
    return tensors
