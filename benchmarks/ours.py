"""The one place that says what `ours` is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from gpen_core.models.checkpoint import build_generator
from gpen_core.models.fast import FastGenerator

HALVES = {"fp32": None, "fp16": torch.float16, "bf16": torch.bfloat16}


def our_generator(
    state: Mapping[str, Tensor],
    *,
    device: torch.device,
    precision: str,
    compile: bool,
    tile_px: int | None = None,
    overlap_px: int | None = None,
) -> Callable[[Tensor], Tensor]:
    """The generator of a checkpoint, (N, 3, S, S) in [-1, 1] -> (N, 3, S, S).

    Args:
        state: tensors under the published checkpoints' names.
        device: where it runs.
        precision: fp32, fp16 or bf16.
        compile: compile for each batch size at its first call.
        tile_px: side of the tiles that the large levels run in; None leaves them whole.
        overlap_px: how far the tiles overlap; None takes what keeps the pixels.
    """
    forward = _fast_generator(state, device, HALVES[precision], compile)
    tiles = {"tile_px": tile_px, "overlap_px": overlap_px}
    return partial(forward, **{name: value for name, value in tiles.items() if value is not None})


def _fast_generator(
    state: Mapping[str, Tensor], device: torch.device, half: torch.dtype | None, compile: bool
) -> Callable[..., Tensor]:
    network = FastGenerator(build_generator(state).to(device), half=half)
    forward = torch.compile(network.forward, dynamic=False) if compile else network.forward

    def restore(x: Tensor, **tiles: int) -> Tensor:
        with torch.inference_mode():
            return forward(x, **tiles)

    return restore
