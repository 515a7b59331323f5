from __future__ import annotations

import numpy as np
import pytest

from gpen_core.evaluation.degrade import LEVELS, degrade, truth_for
from gpen_core.evaluation.options import STRENGTHS


@pytest.mark.parametrize("name", STRENGTHS)
def test_the_same_seed_gives_the_same_pixels(name, astronaut):
    crop = astronaut[:128, :128]
    first, again, other = (degrade(crop, LEVELS[name], seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert first.shape == crop.shape
    assert first.dtype == np.uint8


def test_the_named_strengths_are_the_ones_offered_and_grow(astronaut):
    assert tuple(LEVELS) == STRENGTHS
    crop = astronaut[:256, :256].astype(float)
    errors = [np.abs(degrade(astronaut[:256, :256], LEVELS[name], 0) - crop).mean() for name in STRENGTHS[:3]]
    assert errors == sorted(errors)


def test_the_truth_of_an_old_print_has_its_tone(astronaut):
    assert truth_for(astronaut, LEVELS["heavy"]) is astronaut
    aged = truth_for(np.array([[[0, 0, 0], [255, 255, 255]]], dtype=np.uint8), LEVELS["old"])
    np.testing.assert_array_equal(aged, [[[58, 44, 34], [238, 220, 188]]])
