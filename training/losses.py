"""What training minimises: each picture's error, and more as the settings say.

All pictures are (N, 3, H, W) in [-1, 1].
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

# Mean square error that counts as all but perfect: 40 dB. Without it the best inputs would pull hardest.
ERROR_FLOOR = 4.0 * 10 ** (-40 / 10)

COARSE_FACTORS = (2, 4, 8)


@dataclass(frozen=True, kw_only=True, slots=True)
class LossShares:
    """Weights of the additions to the pixels' error; 0 leaves one out."""

    gradient: float = 0.0
    coarse: float = 0.0
    frequency: float = 0.0


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


def coarse_loss(restored: Tensor, truth: Tensor, weights: Tensor) -> Tensor:
    """`error_loss` of the pictures shrunk 2, 4 and 8 times by area, their mean: tones and large shapes."""
    losses = []
    for factor in COARSE_FACTORS:
        small, true = F.avg_pool2d(restored, factor), F.avg_pool2d(truth, factor)
        losses.append(error_loss(small, true, F.avg_pool2d(weights[None, None], factor)[0, 0]))
    return torch.stack(losses).mean()


def frequency_loss(restored: Tensor, truth: Tensor, weights: Tensor) -> Tensor:
    """Mean difference of the Fourier coefficients, orthonormal: every frequency counts the same, however weak it is.

    Jiang et al., "Focal Frequency Loss for Image Reconstruction and Synthesis" (ICCV 2021), without its focal weights.
    """
    error = torch.fft.rfft2((restored - truth) * weights, norm="ortho")
    return torch.hypot(error.real, error.imag).mean()


def restoration_loss(restored: Tensor, truth: Tensor, weights: Tensor, shares: LossShares) -> Tensor:
    """The loss of `training.train`.

    Args:
        restored, truth: pictures.
        weights: (H, W), how much each pixel counts.
        shares: of what is added to the error of the pixels.
    """
    loss = error_loss(restored, truth, weights)
    parts = ((shares.gradient, gradient_loss), (shares.coarse, coarse_loss), (shares.frequency, frequency_loss))
    for share, part in parts:
        if share:
            loss = loss + share * part(restored, truth, weights)
    return loss
