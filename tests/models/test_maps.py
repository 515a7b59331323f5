from __future__ import annotations

import itertools

import pytest
import torch

from gpen_core.models.fast import FastGenerator
from gpen_core.models.maps import ALIGNMENT, MapMemory, Workspace
from tests.models.test_fast import random_faces, random_generator

FEATURES = [(64, 4), (32, 8), (16, 16)]
LEVELS = [(16, 32), (32, 16), (64, 8)]


def span(maps: torch.Tensor) -> range:
    start = maps.storage_offset()
    return range(start, start + maps.numel())


def test_maps_that_are_needed_at_the_same_time_lie_apart():
    memory = MapMemory(FEATURES, LEVELS)
    for level, spare in enumerate(memory.spare):
        # While a level is written, the one below it and the encoder's maps from its own side up are read.
        num_features = len(FEATURES) - level
        needed = [*memory.features[:num_features], *memory.levels[max(level - 1, 0) : level + 1]]
        for one, other in itertools.combinations([*needed, spare], 2):
            spans = span(one), span(other)
            assert min(spans[0].stop, spans[1].stop) <= max(spans[0].start, spans[1].start)


@pytest.mark.parametrize(("features", "levels"), [([], []), ([(32, 4)], [(32, 8)])])
def test_few_levels_are_laid_out_too(features, levels):
    memory = MapMemory(features, levels)
    assert [tuple(maps.shape) for maps in memory.features] == [(side, side, channels) for side, channels in features]
    assert [tuple(maps.shape) for maps in memory.levels] == [(side, side, channels) for side, channels in levels]
    assert len(memory.spare) == len(levels)


def test_a_workspace_hands_out_its_piece_and_then_new_memory():
    piece = torch.zeros(10 * ALIGNMENT)
    workspace = Workspace(piece)
    for taken in (workspace.take(3, 5), workspace.take(2, ALIGNMENT), workspace.take(100, 100)):
        taken.fill_(1.0)
    assert piece.sum() == 15 + 2 * ALIGNMENT
    assert piece[ALIGNMENT : 3 * ALIGNMENT].eq(1).all()


def test_calls_one_after_the_other_use_the_same_memory_and_do_not_disturb_each_other():
    generator, faces = random_generator(128), random_faces(2, 128)
    alone = [FastGenerator(generator, is_streamed=True)(face[None]) for face in faces]
    network = FastGenerator(generator, is_streamed=True)
    # Memory that inference mode made would not be writable outside it.
    with torch.inference_mode():
        first = network(faces[:1])
        memory = network._memory
    assert torch.equal(network(faces[1:]), alone[1])
    assert network._memory is memory
    assert torch.equal(first, alone[0])
