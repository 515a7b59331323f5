"""Weights in the order in which oneDNN, torch's library for processors, takes them.

torch hands oneDNN weights in torch's order, which are sorted anew at every call: for maps of few pixels that takes
longer than the products, and the general matrix product, which would sort nothing, reaches three quarters of the
processor's rate. `torch.compile` has the weights sorted once; these are the operators that it calls for that.

The order depends on the size of the maps and on how many threads may work, so weights are sorted at the first call, and
sorted anew should that change.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

OPERATORS = ("_reorder_convolution_weight", "_convolution_pointwise")


def can_pack() -> bool:
    """Whether torch was built with oneDNN and offers its operators, on a processor where that was measured to pay."""
    if platform.machine().lower() not in {"x86_64", "amd64"}:
        return False
    is_built = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    return is_built and all(hasattr(torch.ops.mkldnn, name) for name in OPERATORS)


class PackedConv:
    """A convolution, with weights that are its own."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, *, stride: int = 1, padding: int = 0, groups: int = 1
    ) -> None:
        """As `torch.nn.functional.conv2d` has them: (O, I / groups, K, K) weights, (O) biases."""
        self._weight, self._bias = weight, bias
        self._stride, self._padding, self._groups = [stride] * 2, [padding] * 2, groups
        self._is_packing = can_pack()
        self._sorted_for: tuple[Sequence[int], int] | None = None
        self._lock = threading.Lock()

    def __call__(self, x: Tensor) -> Tensor:
        """(N, I, H, W) maps, channels last."""
        if not self._is_packing:
            return F.conv2d(x, self._weight, self._bias, self._stride, self._padding, groups=self._groups)
        convolve = cast(Any, torch.ops.mkldnn._convolution_pointwise)
        settings = self._padding, self._stride, [1, 1], self._groups
        return cast(Tensor, convolve(x, self._sorted(x), self._bias, *settings, "none", [], ""))

    def _sorted(self, x: Tensor) -> Tensor:
        wanted = x.shape, torch.get_num_threads()
        with self._lock:
            if self._sorted_for != wanted:
                plain = self._weight if self._sorted_for is None else self._weight.to_dense()
                sort = cast(Any, torch.ops.mkldnn._reorder_convolution_weight)
                settings = self._padding, self._stride, [1, 1], self._groups
                self._weight = sort(plain, *settings, list(x.shape))
                self._sorted_for = wanted
            return self._weight


class GroupedProduct:
    """Several matrix products at a time: G groups, each with I values in and O out at every place."""

    def __init__(self, matrices: Tensor) -> None:
        """Take (G, I, O) float32 matrices."""
        self._num_groups, self.num_in, self.num_out = matrices.shape
        self._conv: PackedConv | None = None
        self._matrices = matrices
        if can_pack():
            weight = matrices.transpose(1, 2).reshape(-1, self.num_in, 1, 1)
            self._conv = PackedConv(weight, groups=self._num_groups)
            del self._matrices

    def __call__(self, values: Tensor) -> Tensor:
        """(R, C, G, I) contiguous values -> (R, C, G, O)."""
        rows, columns, groups, num_in = values.shape
        if self._conv is None:
            products = torch.bmm(values.view(-1, groups, num_in).transpose(0, 1), self._matrices)
            return products.view(groups, rows, columns, self.num_out).permute(1, 2, 0, 3)
        maps = self._conv(values.view(1, rows, columns, groups * num_in).permute(0, 3, 1, 2))
        return maps.permute(0, 2, 3, 1).view(rows, columns, groups, self.num_out)
