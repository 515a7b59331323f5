"""What training minimises: each picture's error, plus a little of the error between neighbouring pixels.

All pictures are (N, 3, H, W) in [-1, 1].
"""

from __future__ import annotations

import torch
from torch import Tensor

# Mean square error that counts as all but perfect: 40 dB. Without it the best inputs would pull hardest.
ERROR_FLOOR = 4.0 * 10 ** (-40 / 10)


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """(N, C, H, W) values and (H, W) weights -> (N,) means."""
    return (values * weights).mean(dim=(1, 2, 3)) / weights.mean()


def error_loss(restored: Tensor, truth: Tensor, weights: Tensor) -> Tensor:
    """Mean over pictures of the root of their mean square error.

    The root is taken picture by picture, so each pulls on the network equally hard. The mean square error over a batch
    is all but decided by its worst pictures and lets good ones become softer; the error in decibels is dominated by
    the best ones, and the bad ones are learnt slowly.
    """
    errors = weighted_mean((restored - truth).square(), weights)
    return torch.sqrt(errors + ERROR_FLOOR).mean()


def gradient_loss(restored: Tensor, truth: Tensor, weights: Tensor) -> Tensor:
    """Mean difference of the steps from each pixel to its neighbours: keeps edges sharp."""
    error = restored - truth
    across = weighted_mean(error.diff(dim=3).abs(), weights[:, 1:])
    down = weighted_mean(error.diff(dim=2).abs(), weights[1:])
    return (across + down).mean()


def restoration_loss(restored: Tensor, truth: Tensor, weights: Tensor, gradient_weight: float) -> Tensor:
    """The loss of `training.train`.

    Args:
        restored, truth: pictures.
        weights: (H, W), how much each pixel counts.
        gradient_weight: of `gradient_loss`; 0 leaves it out.
    """
    loss = error_loss(restored, truth, weights)
    return loss + gradient_weight * gradient_loss(restored, truth, weights) if gradient_weight else loss
