"""The losses of training: least for equal pictures, more for a larger error."""

from __future__ import annotations

import pytest
import torch

from training.losses import LossShares, coarse_loss, frequency_loss, restoration_loss


@pytest.mark.parametrize("loss", [coarse_loss, frequency_loss])
def test_a_loss_is_least_for_equal_pictures_and_grows_with_the_error(loss):
    generator = torch.Generator().manual_seed(0)
    truth = torch.rand(2, 3, 32, 32, generator=generator) * 2 - 1
    noise = torch.randn(2, 3, 32, 32, generator=generator)
    weights = torch.ones(32, 32)
    equal, little, much = (float(loss(truth + share * noise, truth, weights)) for share in (0.0, 0.2, 0.6))
    assert equal < little < much


def test_shares_add_their_losses():
    truth = torch.zeros(1, 3, 16, 16)
    restored, weights = truth + 0.1, torch.ones(16, 16)
    plain = restoration_loss(restored, truth, weights, LossShares())
    both = restoration_loss(restored, truth, weights, LossShares(coarse=0.5, frequency=0.25))
    expected = plain + 0.5 * coarse_loss(restored, truth, weights) + 0.25 * frequency_loss(restored, truth, weights)
    torch.testing.assert_close(both, expected)
