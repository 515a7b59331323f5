"""Time things in turn, so that a busy spell of the machine meets all of them, and compare neighbouring runs."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

SHORTEST_RUN_S = 0.2
"""On a GPU a call is repeated until a run takes this long, so that starting it does not count."""


class Duration(NamedTuple):
    """One call."""

    wall_s: float
    cpu_s: float
    """Time that all threads of this process computed, which other programs on the machine disturb less."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Several figures of one thing, in the order they were taken."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"

    def to_json(self) -> dict[str, float | list[float]]:
        digits = [round(value, 4) for value in self.values]
        return {"median": round(self.median, 4), "low": min(digits), "high": max(digits), "values": digits}


def pair_ratios(numerators: Sequence[float], denominators: Sequence[float]) -> Spread:
    """Each figure over its neighbour. The median of these ratios, not the ratio of medians, is what pairs are for.

    Raises:
        ValueError: not as many on one side as on the other, or none.
    """
    if not numerators:
        raise ValueError("there are no pairs")
    return Spread(tuple(top / bottom for top, bottom in zip(numerators, denominators, strict=True)))


def time_in_turn(
    contestants: Mapping[str, Callable[[], object]], repeats: int, device: torch.device
) -> dict[str, list[Duration]]:
    """Run all contestants once, then `repeats` rounds A B A B; the durations of each one's calls in the rounds.

    The first run of each prepares more than later ones and gives no time.
    """
    num_calls = {}
    for name, call in contestants.items():
        call()
        once_s = _time(call, 1, device).wall_s
        num_calls[name] = 1 if device.type == "cpu" else max(1, math.ceil(SHORTEST_RUN_S / once_s))
    durations: dict[str, list[Duration]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, call in contestants.items():
            durations[name].append(_time(call, num_calls[name], device))
    return durations


def _time(call: Callable[[], object], num_calls: int, device: torch.device) -> Duration:
    _wait(device)
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    for _ in range(num_calls):
        call()
    _wait(device)
    return Duration((time.perf_counter() - wall_s) / num_calls, (time.process_time() - cpu_s) / num_calls)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
