"""The adversarial phase: a network that learns to tell restored faces from true ones, and what that asks of GPEN.

Discriminator, logistic loss and lazy R1 penalty are StyleGAN2's (Karras et al. 2020), which GPEN's authors train with.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.team import Team

R1_GAMMA = 10.0
R1_EVERY = 16
"""The penalty is taken every so many steps, and counts so many times as much."""
GROUP_SIZE = 4
"""Pictures whose spread the discriminator sees together, so that it notices where all look the same."""
LEAK = 0.2


class DownBlock(nn.Module):
    """Half the resolution, with a short cut; both ways weigh the same."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(in_channels, in_channels, 3, padding=1)
        self.second = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.short = nn.Conv2d(in_channels, out_channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = F.leaky_relu(self.first(x), LEAK)
        y = F.avg_pool2d(F.leaky_relu(self.second(y), LEAK), 2)
        short: Tensor = self.short(F.avg_pool2d(x, 2))
        return (y + short) / math.sqrt(2)


class Discriminator(nn.Module):
    """(N, 3, S, S) RGB in [-1, 1] -> (N,) logits, high for true pictures."""

    def __init__(self, size: int, width: int) -> None:
        """Build it with random weights.

        Args:
            size: side of its pictures, a power of two of at least 8.
            width: channels at full resolution; they double to eight times as many.
        """
        super().__init__()
        num_blocks = int(math.log2(size)) - 2
        channels = [min(width * 2**level, width * 8) for level in range(num_blocks + 1)]
        self.colours = nn.Conv2d(3, channels[0], 1)
        self.blocks = nn.ModuleList(DownBlock(*pair) for pair in pairwise(channels))
        self.last = nn.Conv2d(channels[-1] + 1, channels[-1], 3, padding=1)
        self.logit = nn.Linear(channels[-1] * 16, 1)

    def forward(self, pictures: Tensor) -> Tensor:
        x = F.leaky_relu(self.colours(pictures), LEAK)
        for block in self.blocks:
            x = block(x)
        x = F.leaky_relu(self.last(torch.cat((x, _spread(x)), dim=1)), LEAK)
        logits: Tensor = self.logit(x.flatten(1))
        return logits[:, 0]


def _spread(x: Tensor) -> Tensor:
    """(N, 1, H, W) mean deviation within each group of pictures."""
    group = math.gcd(x.shape[0], GROUP_SIZE)
    grouped = x.view(group, -1, *x.shape[1:]).float()
    deviation = (grouped.var(dim=0, unbiased=False) + 1e-8).sqrt().mean(dim=(1, 2, 3))
    return deviation.repeat(group).view(-1, 1, 1, 1).expand(-1, 1, *x.shape[2:]).to(x.dtype)


def generator_loss(logits: Tensor) -> Tensor:
    """Low where restored pictures pass for true ones."""
    return F.softplus(-logits).mean()


def discriminator_loss(true_logits: Tensor, restored_logits: Tensor) -> Tensor:
    """Low where true and restored pictures are told apart."""
    return F.softplus(-true_logits).mean() + F.softplus(restored_logits).mean()


def r1_penalty(discriminator: nn.Module, truth: Tensor) -> Tensor:
    """Mean squared slope of the logits at true pictures (Mescheder et al. 2018)."""
    pictures = truth.detach().requires_grad_(True)
    (slope,) = torch.autograd.grad(discriminator(pictures).sum(), pictures, create_graph=True)
    return slope.square().sum(dim=(1, 2, 3)).mean()


class Adversary:
    """The discriminator and its optimiser: what a step changes and a checkpoint keeps."""

    def __init__(self, size: int, width: int, learning_rate: float, team: Team, device: torch.device) -> None:
        """Args:
        size: side of the pictures.
        width: see `Discriminator`.
        learning_rate: of Adam, without momentum, as StyleGAN2 has it.
        team: processes whose gradients are averaged.
        device: where it runs.
        """
        self.network = Discriminator(size, width).to(device)
        self._optimizer = torch.optim.Adam(self.network.parameters(), lr=learning_rate, betas=(0.0, 0.99))
        self._team = team
        self.step = 0

    def loss(self, restored: Tensor) -> Tensor:
        """What the generator is told. Its parameters get the gradient, the discriminator's none."""
        self.network.requires_grad_(False)
        loss = generator_loss(self.network(restored))
        self.network.requires_grad_(True)
        return loss

    def train_step(self, restored: Tensor, truth: Tensor) -> float:
        """One update of the discriminator; its loss, without the penalty."""
        loss = discriminator_loss(self.network(truth), self.network(restored.detach()))
        told = float(loss.detach())
        if self.step % R1_EVERY == 0:
            loss = loss + (R1_GAMMA / 2 * R1_EVERY) * r1_penalty(self.network, truth)
        torch.autograd.backward(loss)
        self._team.average_gradients(self.network.parameters(), 0.0)
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.step += 1
        return told

    def state(self) -> dict[str, Any]:
        return {"network": self.network.state_dict(), "optimizer": self._optimizer.state_dict(), "step": self.step}

    def load_state(self, state: dict[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.step = int(state["step"])
