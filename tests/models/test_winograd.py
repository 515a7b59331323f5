from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from gpen_core.models.maps import Workspace
from gpen_core.models.packed import GroupedProduct
from gpen_core.models.winograd import OUTPUT_SCALES, WinogradConv, transform_weights


def winograd(x: torch.Tensor, weight: torch.Tensor, num_tile_rows: int) -> torch.Tensor:
    """(H, W, I) -> (H, W, O), strip by strip."""
    height, width, _ = x.shape
    conv = WinogradConv(GroupedProduct(transform_weights(weight)), width, num_tile_rows, Workspace(torch.empty(0)))
    scales = torch.tensor(OUTPUT_SCALES)
    padded = F.pad(x, (0, 0, 1, 1, 1, 1))
    strips = [
        conv(padded[row : row + conv.num_rows + 2]) * torch.outer(scales, scales)[:, None, :, None]
        for row in range(0, height, conv.num_rows)
    ]
    return torch.cat([strip.reshape(conv.num_rows, width, -1) for strip in strips])


@pytest.mark.parametrize(("side", "in_channels", "out_channels", "num_tile_rows"), [(16, 8, 8, 1), (32, 64, 24, 4)])
def test_it_is_a_convolution_as_exact_as_a_direct_one(side, in_channels, out_channels, num_tile_rows):
    x = torch.randn(side, side, in_channels)
    weight = torch.randn(out_channels, in_channels, 3, 3) / (3 * in_channels**0.5)
    exact = F.conv2d(x.double().permute(2, 0, 1)[None], weight.double(), padding=1)[0].permute(1, 2, 0)
    direct = F.conv2d(x.permute(2, 0, 1)[None], weight, padding=1)[0].permute(1, 2, 0)
    error = (winograd(x, weight, num_tile_rows) - exact).abs().max()
    assert error < 1e-5
    assert error < 8 * (direct - exact).abs().max()


def test_the_height_of_strips_changes_nothing():
    x, weight = torch.randn(32, 32, 16), torch.randn(4, 16, 3, 3)
    assert torch.allclose(winograd(x, weight, 1), winograd(x, weight, 8), atol=1e-5)
