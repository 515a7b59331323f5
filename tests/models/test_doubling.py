from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from gpen_core.models.doubling import DoublingConv
from gpen_core.models.maps import Workspace

SIDE = 16


def transposed(maps: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """(H, W, I) -> (2 H + 1, 2 W + 1, O), with 8 rows of zeros above and below."""
    doubled = F.conv_transpose2d(maps.permute(2, 0, 1)[None], weight, stride=2)[0].permute(1, 2, 0)
    return F.pad(doubled, (0, 0, 0, 0, 8, 8))


@pytest.mark.parametrize("first_row", [0, 8, 28])
@pytest.mark.parametrize("band_rows", [4, 8, 16, 32])
def test_bands_are_rows_of_the_whole_and_zero_beyond_it(first_row, band_rows):
    maps, weight = torch.randn(SIDE, SIDE, 6), torch.randn(6, 5, 3, 3)
    expected = transposed(maps, weight)
    doubling = DoublingConv(maps, weight, band_rows, Workspace(torch.empty(0)))
    assert torch.allclose(doubling.start(first_row), expected[first_row + 6 : first_row + 11], atol=1e-5)
    for lo in range(first_row, 2 * SIDE, band_rows):
        hi = min(lo + band_rows, 2 * SIDE)
        assert torch.allclose(doubling.advance(lo, hi), expected[lo + 8 : hi + 11], atol=1e-5)
