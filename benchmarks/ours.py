"""The one place that says what `ours` is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from gpen_core.models.checkpoint import build_generator
from gpen_core.models.fast import FastGenerator, is_best_streamed
from gpen_core.runtime.engine import fast_generator

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
        compile: compile for each batch size at its first call, where that is faster.
        tile_px: side of the tiles that the large levels run in, uncompiled; None leaves them whole.
        overlap_px: how far the tiles overlap; None takes what keeps the pixels.
    """
    half = HALVES[precision]
    if tile_px is None:
        return fast_generator(state, device=device, half=half, compile=compile)
    generator = build_generator(state)
    is_streamed = is_best_streamed(generator.config, device, half)
    network = FastGenerator(generator, half=half, is_streamed=is_streamed).to(device)

    def restore_in_tiles(x: Tensor) -> Tensor:
        with torch.inference_mode():
            return network(x, tile_px, overlap_px)  # type: ignore[no-any-return]

    return restore_in_tiles
