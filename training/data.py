"""Portraits in memory, and an endless, repeatable stream of degraded and true crops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from gpen_core.folders import list_photos
from gpen_core.photo.io import read_photo
from gpen_core.types import FloatArray, Pixels
from training.degradations import Pair, Rng, make_pair

# Changes of a portrait against its template; shares of its side where no unit is named.
MAX_TURN_DEG = 6.0
SCALE_SPREAD = 0.10
STRETCH_SPREAD = 0.06
MAX_SHIFT = 0.04
WARP_DEVIATION = 0.012
WARP_KNOTS = (3, 7)
"""Fewest and most knots along a side of the grid whose displacements bend a face into another one."""
JITTER_SHARE = 0.75


def read_portraits(folder: Path, size: int) -> list[Pixels]:
    """Every picture of a folder by name, shrunk to at most twice `size`.

    Raises:
        ValueError: there is none, or one is no square of at least `size` px.
    """
    portraits = []
    for path in list_photos(folder).photos:
        pixels = read_photo(path).pixels
        height, width = pixels.shape[:2]
        if height != width or height < size:
            raise ValueError(f"{path} is {width} x {height} px, not a square of {size} px or more")
        side = min(height, 2 * size)
        portraits.append(np.asarray(cv2.resize(pixels, (side, side), interpolation=cv2.INTER_AREA), dtype=np.uint8))
    if not portraits:
        raise ValueError(f"{folder} holds no pictures")
    return portraits


def shrink(pixels: Pixels, size: int) -> Pixels:
    """To (size, size), each pixel the mean of its area."""
    return np.asarray(cv2.resize(pixels, (size, size), interpolation=cv2.INTER_AREA), dtype=np.uint8)


def jitter_geometry(pixels: Pixels, rng: Rng) -> Pixels:
    """Mirrored half of the time; mostly turned, scaled, shifted and bent a little.

    Bending moves eyes, nose, mouth and outline against each other: a few hundred people stand for more of them.
    """
    if rng.random() < 0.5:
        pixels = np.ascontiguousarray(pixels[:, ::-1])
    if rng.random() >= JITTER_SHARE:
        return pixels
    sources = _affine_sources(pixels.shape[0], rng) + _bend(pixels.shape[0], rng)
    x, y = cv2.split(sources)
    warped = cv2.remap(pixels, x, y, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT_101)
    return np.asarray(warped, dtype=np.uint8)


def _affine_sources(side: int, rng: Rng) -> FloatArray:
    """(S, S, 2) x and y that each pixel comes from: turned, scaled, stretched along an axis, shifted."""
    turn, shift = np.deg2rad(rng.uniform(-MAX_TURN_DEG, MAX_TURN_DEG)), rng.uniform(-MAX_SHIFT, MAX_SHIFT, 2) * side
    scale, stretch = rng.uniform(-SCALE_SPREAD, SCALE_SPREAD), rng.uniform(-STRETCH_SPREAD, STRETCH_SPREAD) / 2
    factors = np.exp([scale + stretch, scale - stretch])
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) * factors
    y, x = np.mgrid[:side, :side].astype(np.float32) - (side - 1) / 2
    return np.asarray(np.stack([x, y], axis=2) @ matrix.T + (side - 1) / 2 + shift, dtype=np.float32)


def _bend(side: int, rng: Rng) -> FloatArray:
    """(S, S, 2) smooth displacements in px, from random ones at the knots of a coarse grid."""
    knots = int(rng.integers(WARP_KNOTS[0], WARP_KNOTS[1] + 1))
    # Narrow meshes fold at the displacements that wide ones bear.
    deviation = rng.uniform(0.0, 1.0) * WARP_DEVIATION * side * WARP_KNOTS[0] / knots
    coarse = rng.standard_normal((knots, knots, 2), dtype=np.float32) * np.float32(deviation)
    return np.asarray(cv2.resize(coarse, (side, side), interpolation=cv2.INTER_CUBIC), dtype=np.float32)


class DegradedPortraits(Dataset[tuple[Tensor, Tensor]]):
    """Sample `i` is the same whoever asks for it and when. Pictures come as (3, S, S) uint8."""

    def __init__(
        self, portraits: Sequence[Pixels], size: int, seed: int, num_samples: int, damage_size: int | None = None
    ) -> None:
        self._portraits = portraits
        self._size = size
        self._damage_size = damage_size
        self._seed = seed
        self._num_samples = num_samples

    def __len__(self) -> int:
        return self._num_samples

    def pair(self, index: int) -> Pair:
        round_number, place = divmod(index, len(self._portraits))
        order = np.random.default_rng((self._seed, 0, round_number)).permutation(len(self._portraits))
        rng = np.random.default_rng((self._seed, 1, index))
        portrait = jitter_geometry(self._portraits[order[place]], rng)
        return make_pair(shrink(portrait, self._size), rng, self._damage_size)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        pair = self.pair(index)
        return to_tensor(pair.degraded), to_tensor(pair.truth)


def to_tensor(pixels: Pixels) -> Tensor:
    """(S, S, 3) uint8 -> (3, S, S) uint8."""
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


def to_network(pixels: Tensor) -> Tensor:
    """uint8 levels -> float in [-1, 1]."""
    return pixels.float() / 127.5 - 1.0


def to_pixels(pictures: Tensor) -> list[Pixels]:
    """(N, 3, S, S) in [-1, 1] -> (S, S, 3) uint8 each."""
    levels = ((pictures.float() + 1.0) * 127.5).round().clamp(0, 255).to(torch.uint8)
    return [np.asarray(picture.permute(1, 2, 0).numpy(), dtype=np.uint8) for picture in levels.cpu()]


def batches(dataset: DegradedPortraits, indices: Sampler[int], batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of the samples `indices`, made by a process in the background."""
    loader = DataLoader(
        dataset, batch_size, sampler=indices, num_workers=1, prefetch_factor=8, worker_init_fn=_start_worker
    )
    yield from loader


def _start_worker(worker: int) -> None:
    cv2.setNumThreads(1)
