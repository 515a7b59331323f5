"""3x3 convolution, stride 1, by Winograd's minimal filtering F(4x4, 3x3): 2.25 instead of 9 products an output.

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (CVPR 2016). The interpolation points 0,
+-sqrt(1/2), +-sqrt(2) and infinity, in place of their 0, +-1, +-2, keep the rounding error where a direct convolution
has it (chosen by measurement, after Barabasz et al., "Error analysis and improving the accuracy of Winograd
convolution", 2020).

All maps are (H, W, C) float32 with C contiguous, so that every step runs along contiguous channels. Work is done in
strips that fit a processor's cache; the element-wise steps write into buffers that live as long as one convolution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gpen_core.models.maps import Workspace
from gpen_core.models.packed import GroupedProduct

TILE_PX = 4
"""Outputs of one tile in each direction; it reads TILE_PX + 2 inputs."""
NUM_POINTS = 6
_A, _B = math.sqrt(0.5), math.sqrt(2.0)
# The inverse transform leaves these factors out (`invert`); whoever uses its result multiplies them back, together with
# a factor that is due anyway. The last point's factor is taken out of the weights' transform.
OUTPUT_SCALES = (1.0, _A, 0.5, _A / 2)
_LAST_POINT_GAIN = 2.0 / _A


def transform_weights(weight: Tensor) -> Tensor:
    """(O, I, 3, 3) weights -> (36, I, O) float32, one matrix for each pair of interpolation points."""
    points = (0.0, _A, -_A, _B, -_B)
    rows = []
    for i, point in enumerate(points):
        scale = 1.0 / math.prod(point - other for j, other in enumerate(points) if j != i)
        rows.append([scale, scale * point, scale * point**2])
    rows.append([0.0, 0.0, _LAST_POINT_GAIN])
    transform = torch.tensor(rows, dtype=torch.float64)
    out_channels, in_channels = weight.shape[:2]
    transformed = torch.einsum("ka,oiab,lb->klio", transform, weight.double(), transform)
    return transformed.reshape(NUM_POINTS**2, in_channels, out_channels).float().contiguous()


def transform_inputs(d: Sequence[Tensor], out: Sequence[Tensor], scratch: Sequence[Tensor]) -> None:
    """Six neighbouring inputs -> their values at the six points, in one direction.

    Args:
        d: six tensors of one shape.
        out: six tensors of that shape.
        scratch: four more.
    """
    p, q, r, s = scratch
    torch.sub(d[4], d[2], alpha=2.0, out=p)
    torch.sub(d[3], d[1], alpha=2.0, out=q)
    torch.sub(d[4], d[2], alpha=0.5, out=r)
    torch.sub(d[3], d[1], alpha=0.5, out=s)
    torch.add(p, q, alpha=_A, out=out[1])
    torch.sub(p, q, alpha=_A, out=out[2])
    torch.add(r, s, alpha=_B, out=out[3])
    torch.sub(r, s, alpha=_B, out=out[4])
    torch.sub(d[0], d[2], alpha=0.5, out=q)
    torch.add(p, q, out=out[0])
    torch.sub(d[5], d[3], alpha=0.5, out=q)
    torch.sub(q, s, alpha=2.0, out=out[5])


def invert(m: Sequence[Tensor], out: Sequence[Tensor], scratch: Sequence[Tensor]) -> None:
    """Values at the six points -> four neighbouring outputs, in one direction, each divided by its OUTPUT_SCALES."""
    sum_a, difference_a, sum_b, difference_b = scratch
    torch.add(m[1], m[2], out=sum_a)
    torch.sub(m[1], m[2], out=difference_a)
    torch.add(m[3], m[4], out=sum_b)
    torch.sub(m[3], m[4], out=difference_b)
    torch.add(sum_a, sum_b, out=out[0])
    out[0].add_(m[0])
    torch.add(difference_a, difference_b, alpha=2.0, out=out[1])
    torch.add(sum_a, sum_b, alpha=4.0, out=out[2])
    torch.add(difference_a, difference_b, alpha=8.0, out=out[3])
    out[3].add_(m[5])


class WinogradConv:
    """The convolution of one layer on strips of one width."""

    def __init__(self, product: GroupedProduct, width: int, num_tile_rows: int, workspace: Workspace) -> None:
        """Make the buffers.

        Args:
            product: of what `transform_weights` gave.
            width: of the outputs in px, a multiple of TILE_PX.
            num_tile_rows: rows of tiles in a strip, TILE_PX rows of outputs each.
            workspace: where the buffers come from.
        """
        in_channels, out_channels = product.num_in, product.num_out
        rows, columns = num_tile_rows, width // TILE_PX
        self.num_rows = rows * TILE_PX
        self._product = product
        new = workspace.take
        down = new(NUM_POINTS, rows, width + 2, in_channels)
        up = new(TILE_PX, NUM_POINTS, rows, columns, out_channels)
        self._values = new(rows, columns, NUM_POINTS**2, in_channels)
        self._out = new(rows, TILE_PX, columns, TILE_PX, out_channels)
        # What the steps read and write, taken apart once and not at every call.
        self._down = down.unbind()
        end = TILE_PX * (columns - 1) + 1
        self._across = [down[:, :, j : j + end : TILE_PX] for j in range(NUM_POINTS)]
        by_point = _by_point(self._values)
        self._by_point = by_point.unbind(1)
        self._up = up.unbind()
        self._up_across = up.unbind(1)
        self._outputs = [self._out[:, :, :, j].transpose(0, 1) for j in range(TILE_PX)]
        self._scratch_down = new(4, rows, width + 2, in_channels).unbind()
        self._scratch_across = new(4, NUM_POINTS, rows, columns, in_channels).unbind()
        self._scratch_up = new(4, NUM_POINTS, rows, columns, out_channels).unbind()
        self._scratch_out = new(4, TILE_PX, rows, columns, out_channels).unbind()

    def __call__(self, padded: Tensor) -> Tensor:
        """Convolve one strip.

        Args:
            padded: (num_rows + 2, width + 2, I), the strip with one more px on each side.

        Returns:
            (num_rows / 4, 4, width / 4, 4, O): the outputs, each divided by the OUTPUT_SCALES of its place in the tile
            (second and fourth dimension). The next call overwrites it.
        """
        end = padded.shape[0] - NUM_POINTS + 1
        rows = [padded[j : j + end : TILE_PX] for j in range(NUM_POINTS)]
        transform_inputs(rows, self._down, self._scratch_down)
        transform_inputs(self._across, self._by_point, self._scratch_across)
        products = _by_point(self._product(self._values))
        invert(products.unbind(), self._up, self._scratch_up)
        invert(self._up_across, self._outputs, self._scratch_out)
        return self._out


def _by_point(values: Tensor) -> Tensor:
    """(R, C, 36, I) -> (6, 6, R, C, I): by the points down the rows, and across them."""
    rows, columns, _, channels = values.shape
    return values.view(rows, columns, NUM_POINTS, NUM_POINTS, channels).permute(2, 3, 0, 1, 4)
