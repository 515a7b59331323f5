"""The decoder's doubling convolution, rows after rows from the top, no input row convolved twice.

A transposed 3x3 convolution with stride 2 makes row 2 k of its outcome from rows k - 1 and k of its input, and row
2 k + 1 from row k. So a piece of the input gives whole rows but for its first and its last, which are shared with its
neighbours and add up.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from gpen_core.models.maps import Workspace

NUM_KEPT = 5
"""Rows that neighbouring bands share: those that the low-pass filter reads twice, and the unfinished one."""


class DoublingConv:
    """The convolution of one level on one map, a band of rows at a time.

    Rows are numbered as in the outcome, which has 2 H + 1; those beyond it are zero.
    """

    def __init__(self, below: Tensor, weight: Tensor, band_rows: int, workspace: Workspace) -> None:
        """Make the buffer.

        Args:
            below: (H, W, I) map.
            weight: (I, O, 3, 3), best in `torch.channels_last`.
            band_rows: rows of a band at most, a multiple of 4.
            workspace: where the buffer comes from.
        """
        self._below = below
        self._weight = weight
        self._rows = workspace.take(band_rows + NUM_KEPT, 2 * below.shape[1] + 1, weight.shape[1])
        self._end = 0

    def start(self, lo: int) -> Tensor:
        """Begin at row `lo`, a multiple of 4.

        Returns:
            (5, 2 W + 1, O): rows lo - 2 to lo + 2. The next call overwrites them.
        """
        first, self._end = max(lo // 2 - 2, 0), lo // 2 + 2
        around = F.pad(self._convolve(first, self._end), (0, 0, 0, 0, 2 * first - (lo - 4), 0))
        self._rows[-NUM_KEPT:] = around[-NUM_KEPT:]
        return around[2:7]

    def advance(self, lo: int, hi: int) -> Tensor:
        """Go on from row `lo`, where the last call ended, to row `hi`: a band later, or less where that is the end.

        Returns:
            (hi - lo + 3, 2 W + 1, O): rows lo to hi + 2. The next call overwrites them.
        """
        rows = self._rows[: hi - lo + NUM_KEPT]
        self._rows[:NUM_KEPT] = self._rows[-NUM_KEPT:].clone()
        start, self._end = self._end, min(hi // 2 + 2, self._below.shape[0])
        num_made = 0
        if start < self._end:
            made = self._convolve(start, self._end)
            num_made = made.shape[0] - 1
            rows[NUM_KEPT - 1] += made[0]
            rows[NUM_KEPT : NUM_KEPT + num_made] = made[1:]
        rows[NUM_KEPT + num_made :].zero_()
        return rows[: hi - lo + 3]

    def _convolve(self, first: int, last: int) -> Tensor:
        """Rows first to last of the map -> (2 (last - first) + 1, 2 W + 1, O), the outer two unfinished."""
        maps = self._below[first:last].permute(2, 0, 1)[None]
        return F.conv_transpose2d(maps, self._weight, stride=2)[0].permute(1, 2, 0)
