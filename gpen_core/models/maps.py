"""Where the large maps of a face live while its levels are worked on one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate

import torch
from torch import Tensor

ALIGNMENT = 16
"""Numbers: a line of a processor's cache."""


class MapMemory:
    """One piece of memory, as large as all maps that exist at the same time.

    Memory used again costs nothing, the system's costs more than what is written into it. The encoder's maps stand at
    its start, fine to coarse, and are done with from their end on. The decoder's stand at its end, but for the finest,
    which takes the place of the encoder's coarse ones.
    """

    features: list[Tensor]
    """The encoder's maps, fine to coarse."""
    levels: list[Tensor]
    """The decoder's, coarse to fine. Each may be written when the one before the one before it is done with."""
    spare: list[Tensor]
    """What nobody uses while each of the decoder's maps is written, flat: the place of those to come."""

    def __init__(self, features: Sequence[tuple[int, int]], levels: Sequence[tuple[int, int]]) -> None:
        """Lay the maps out.

        Args:
            features: sides and channels of the encoder's maps, fine to coarse.
            levels: of the decoder's, coarse to fine.
        """
        feature_sizes = [side * side * channels for side, channels in features]
        level_sizes = [side * side * channels for side, channels in levels]
        *coarse_sizes, finest_size = level_sizes or [0]
        before_finest = feature_sizes[0] if feature_sizes else 0
        num_values = max(
            before_finest + finest_size + (coarse_sizes[-1] if coarse_sizes else 0),
            sum(feature_sizes) + sum(coarse_sizes),
        )
        # No inference tensor, which could not be written outside inference mode later on.
        with torch.inference_mode(False):
            memory = torch.empty(num_values)
        starts = [num_values - sum(coarse_sizes[i:]) for i in range(len(coarse_sizes))] + [before_finest]
        self.features = _maps(memory, accumulate(feature_sizes, initial=0), features)
        self.levels = _maps(memory, starts, levels)
        self.spare = [memory[start:] for start in starts[1:-1]] + [memory[:0]] * min(2, len(levels))


class Workspace:
    """Memory for buffers: from a piece that is at hand as long as it lasts, then the system's."""

    def __init__(self, piece: Tensor) -> None:
        """Take a flat piece that nobody else uses meanwhile."""
        self._left = piece

    def take(self, *shape: int) -> Tensor:
        """Without values."""
        num_values = math.prod(shape)
        if num_values > len(self._left):
            return self._left.new_empty(shape)
        taken = self._left[:num_values]
        self._left = self._left[-(-num_values // ALIGNMENT) * ALIGNMENT :]
        return taken.view(shape)


def _maps(memory: Tensor, starts: Iterable[int], shapes: Sequence[tuple[int, int]]) -> list[Tensor]:
    return [
        memory[start : start + side * side * channels].view(side, side, channels)
        for start, (side, channels) in zip(starts, shapes, strict=False)
    ]
