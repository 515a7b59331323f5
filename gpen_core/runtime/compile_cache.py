"""A network compiled once for each batch size, with a plain run wherever compiling does not work."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

Forward = Callable[[Tensor], Tensor]
CPU_COMPILERS = ("g++", "clang++", "c++", "cl")


def missing_toolchain(device: torch.device) -> str:
    """What torch.compile lacks on this machine, in words for people; empty where nothing is known to be missing."""
    if device.type == "cpu" and not any(map(shutil.which, CPU_COMPILERS)):
        return "no C++ compiler was found"
    if device.type == "cuda":
        from torch.utils._triton import has_triton

        return "" if has_triton() else "Triton is not installed"
    return ""


class CompileCache:
    """`forward` of one module, compiled at the first call with each batch size."""

    def __init__(self, module: nn.Module, device: torch.device, *, enabled: bool) -> None:
        self._module = module
        self._device = device
        self._compiled: dict[int, Forward] = {}
        self.fallback_reason = missing_toolchain(device) if enabled else ""
        self.is_enabled = enabled and not self.fallback_reason
        self.num_compilations = 0

    def __call__(self, x: Tensor) -> Tensor:
        """The module's answer; plain where compiling is off or has failed, with the reason in `fallback_reason`."""
        if not self.is_enabled:
            return cast(Tensor, self._module(x))
        try:
            return self._forward_for(x.shape[0])(x)
        except _compile_errors() as error:
            # The wrap never fails, the first call does: this is the first place where a missing part shows.
            self.is_enabled = False
            self.fallback_reason = str(error).strip().splitlines()[0]
            return cast(Tensor, self._module(x))

    def _forward_for(self, batch_size: int) -> Forward:
        if batch_size not in self._compiled:
            mode = "reduce-overhead" if self._device.type == "cuda" else "default"
            self._compiled[batch_size] = torch.compile(self._module.forward, fullgraph=True, dynamic=False, mode=mode)
            self.num_compilations += 1
        return self._compiled[batch_size]


def _compile_errors() -> tuple[type[Exception], ...]:
    from torch._dynamo.exc import TorchDynamoException
    from torch._inductor import exc as inductor_errors

    # torch 2.5 has no InductorError yet; it wraps the same faults in the first kind.
    return TorchDynamoException, getattr(inductor_errors, "InductorError", TorchDynamoException)
