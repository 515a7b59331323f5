"""How good the network is on portraits it never saw, at the benchmark's named strengths, and a sheet to look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

from gpen_core.evaluation.degrade import LEVELS, degrade, truth_for
from gpen_core.faces.mask import EllipseMask
from gpen_core.types import FloatArray, Pixels
from training.data import shrink, to_network, to_pixels, to_tensor

TEMPLATE = "ffhq"
BATCH_SIZE = 4
NUM_SHEET_ROWS = 4

Network = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationCase:
    """One portrait at one strength."""

    level: str
    degraded: Pixels
    truth: Pixels


def face_region(size: int) -> FloatArray:
    """(size, size): 1 where a restored face would be pasted at more than half weight, else 0."""
    weights = EllipseMask(TEMPLATE, size).weights(np.eye(2, 3), 0, 0, size, size)
    return (weights > 0.5).astype(np.float32)


def make_cases(portraits: Sequence[Pixels], size: int, number: int) -> list[ValidationCase]:
    """The first `number` portraits at every strength; a portrait's place is the seed of its noise."""
    cases = []
    for name, level in LEVELS.items():
        for seed, portrait in enumerate(portraits[:number]):
            pixels = shrink(portrait, size)
            cases.append(
                ValidationCase(level=name, degraded=degrade(pixels, level, seed), truth=truth_for(pixels, level))
            )
    return cases


@torch.no_grad()
def restore(network: Network, pictures: Sequence[Pixels]) -> list[Pixels]:
    restored: list[Pixels] = []
    for start in range(0, len(pictures), BATCH_SIZE):
        batch = torch.stack([to_tensor(picture) for picture in pictures[start : start + BATCH_SIZE]])
        restored += to_pixels(network(to_network(batch)))
    return restored


def psnr(truth: Pixels, image: Pixels, region: FloatArray) -> float:
    """dB over the region, all three channels together."""
    squares = (truth.astype(np.float32) - image.astype(np.float32)) ** 2
    error = float(squares[region > 0].mean())
    return float(10.0 * np.log10(255.0**2 / max(error, 1e-6)))


def gains(cases: Sequence[ValidationCase], restored: Sequence[Pixels], size: int) -> dict[str, tuple[float, float]]:
    """Mean PSNR before and after, by strength."""
    region = face_region(size)
    results: dict[str, list[tuple[float, float]]] = {}
    for case, image in zip(cases, restored, strict=True):
        pair = (psnr(case.truth, case.degraded, region), psnr(case.truth, image, region))
        results.setdefault(case.level, []).append(pair)
    return {
        name: (float(np.mean([b for b, _ in pairs])), float(np.mean([a for _, a in pairs])))
        for name, pairs in results.items()
    }


def write_sheet(path: Path, cases: Sequence[ValidationCase], restored: Sequence[Pixels]) -> None:
    """Input, answer and truth of some portraits at every strength, the strengths side by side."""
    columns = []
    for level in LEVELS:
        rows = [
            np.hstack((case.degraded, image, case.truth))
            for case, image in zip(cases, restored, strict=True)
            if case.level == level
        ]
        columns.append(np.vstack(rows[:NUM_SHEET_ROWS]))
    cv2.imwrite(str(path), np.hstack(columns)[..., ::-1])
