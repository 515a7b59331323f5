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
from gpen_core.types import Pixels
from training.degradations import Pair, Rng, make_pair

# Jitter of a portrait against its template.
MAX_TURN_DEG = 4.0
SCALE_SPREAD = 0.05
MAX_SHIFT = 0.03
JITTER_SHARE = 0.5


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
    """Mirrored half of the time; turned, scaled and shifted a little half of the time."""
    if rng.random() < 0.5:
        pixels = np.ascontiguousarray(pixels[:, ::-1])
    if rng.random() >= JITTER_SHARE:
        return pixels
    side = pixels.shape[0]
    centre = ((side - 1) / 2, (side - 1) / 2)
    turn, scale = rng.uniform(-MAX_TURN_DEG, MAX_TURN_DEG), np.exp(rng.uniform(-SCALE_SPREAD, SCALE_SPREAD))
    affine = cv2.getRotationMatrix2D(centre, turn, scale)
    affine[:, 2] += rng.uniform(-MAX_SHIFT, MAX_SHIFT, 2) * side
    warped = cv2.warpAffine(pixels, affine, (side, side), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT_101)
    return np.asarray(warped, dtype=np.uint8)


class DegradedPortraits(Dataset[tuple[Tensor, Tensor]]):
    """Sample `i` is the same whoever asks for it and when. Pictures come as (3, S, S) uint8."""

    def __init__(self, portraits: Sequence[Pixels], size: int, seed: int, num_samples: int) -> None:
        self._portraits = portraits
        self._size = size
        self._seed = seed
        self._num_samples = num_samples

    def __len__(self) -> int:
        return self._num_samples

    def pair(self, index: int) -> Pair:
        round_number, place = divmod(index, len(self._portraits))
        order = np.random.default_rng((self._seed, 0, round_number)).permutation(len(self._portraits))
        rng = np.random.default_rng((self._seed, 1, index))
        portrait = jitter_geometry(self._portraits[order[place]], rng)
        return make_pair(shrink(portrait, self._size), rng)

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
