"""The counter on what is known beforehand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from benchmarks.activations import ActivationCounter, peak_activation_mib

X = torch.zeros(1, 1, 512, 512)
"""1 MiB."""


def peak(run) -> float:
    with torch.inference_mode():
        return peak_activation_mib(run, torch.device("cpu"))


def sum_of_two() -> torch.Tensor:
    a, b = X + 1, X + 2
    return a + b


def chain_that_frees() -> torch.Tensor:
    a = X + 1
    b = a + 1
    del a
    return torch.cat((b, b))


@pytest.mark.parametrize(
    ("run", "mib"),
    [
        (lambda: X + 1, 1),
        (lambda: ((X + 1) * 2) - 3, 2),
        (sum_of_two, 3),
        (chain_that_frees, 3),
        (lambda: (X + 1).add_(1).relu_().view(-1), 1),
        (lambda: X.view(-1).expand(9, -1).t(), 0),
    ],
    ids=["one", "a chain holds two", "three at once", "freed in between", "in place", "views of what was there"],
)
def test_known_peaks(run, mib):
    assert peak(run) == mib


def test_a_modules_weights_do_not_count():
    module = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 1))
    # The convolution's 4 MiB, ReLU's beside it, and then the last result's beside that.
    assert peak(lambda: module(X)) == pytest.approx(8, abs=0.1)


def test_what_is_freed_is_forgotten():
    counter = ActivationCounter()
    with counter:
        kept = X + 1
        assert counter.live_bytes == 2**20
        del kept
        assert counter.live_bytes == 0
    assert counter.peak_bytes == 2**20


def test_threads_started_meanwhile_count_too():
    kept = []

    def work() -> None:
        with torch.inference_mode():
            kept.append((X + 1) * 2)

    def in_threads() -> None:
        with ThreadPoolExecutor(2) as pool:
            for _ in range(3):
                pool.submit(work).result()

    assert peak(in_threads) == 4
    assert peak(lambda: X + 1) == 1
