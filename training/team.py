"""Processes that train one network together: each works on its share of a batch, then all average their gradients.

On a processor that other programs use too, this is faster than one process with as many threads: threads wait for the
slowest of them after every layer, processes once a step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn


@dataclass(frozen=True, kw_only=True, slots=True)
class Team:
    """This process's place among the others."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def average_gradients(self, parameters: Iterable[nn.Parameter], number: float) -> float:
        """Replace every gradient by the mean over the team; returns the first process's `number` to all."""
        if self.size == 1:
            return number
        gradients = [p.grad for p in parameters if p.grad is not None]
        share = [torch.tensor([number if self.is_first else 0.0])]
        flat = torch.cat([*(g.flatten() for g in gradients), *share])
        dist.all_reduce(flat)
        agreed = float(flat[-1])
        flat /= self.size
        position = 0
        for gradient in gradients:
            gradient.copy_(flat[position : position + gradient.numel()].view_as(gradient))
            position += gradient.numel()
        return agreed

    def wait(self) -> None:
        """Until every process is here."""
        if self.size > 1:
            dist.barrier()


def join(rank: int, size: int, address_file: str) -> Team:
    """Meet the other processes through a file that all can see."""
    dist.init_process_group("gloo", init_method=f"file://{address_file}", rank=rank, world_size=size)
    return Team(rank=rank, size=size)


def leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
