"""The seam metric against pictures whose seams are known."""

from __future__ import annotations

import numpy as np
import pytest

from gpen_core.evaluation.seams import borders_of_lines, borders_of_mask, seam_heat_map, seam_ratio, worst_seam_ratio


def stepped(picture: np.ndarray, levels: int, x: int) -> np.ndarray:
    changed = picture.astype(int)
    changed[:, x:] += levels
    return np.clip(changed, 0, 255).astype(np.uint8)


@pytest.fixture
def calm(astronaut) -> np.ndarray:
    """The photo with room for ten levels more."""
    return (astronaut * 0.9).astype(np.uint8)


def test_a_picture_that_nobody_touched_has_no_seam(astronaut):
    borders = borders_of_lines((512, 512), [100, 256, 300], [200])
    assert seam_ratio(astronaut, borders, astronaut) == 1.0
    assert seam_ratio(astronaut, borders) == pytest.approx(1.0, abs=0.15)
    assert seam_ratio(astronaut, borders_of_lines((512, 512), [], [])) == 1.0


@pytest.mark.parametrize("levels", [2, 5, 20])
def test_a_step_along_a_line_is_seen_the_more_the_higher_it_is(calm, levels):
    borders = borders_of_lines((512, 512), [256], [])
    beside = np.abs(np.diff(calm.astype(float).mean(axis=2), axis=1))[:, 243:268].mean()
    ratio = seam_ratio(stepped(calm, levels, 256), borders, calm)
    assert ratio == pytest.approx(1 + levels / (beside + 0.5), rel=0.1)
    assert seam_ratio(stepped(calm, levels, 300), borders, calm) < 1.01


def test_a_flat_picture_shows_half_a_level():
    flat = np.full((64, 64, 3), 120, np.uint8)
    assert seam_ratio(stepped(flat, 1, 32), borders_of_lines((64, 64), [32], [])) == pytest.approx(3.0, abs=0.1)


def test_the_worst_line_is_found_among_others(calm):
    changed = stepped(calm, 10, 256)
    assert worst_seam_ratio(changed, [100, 256, 400], [80], calm) > 1.5
    assert worst_seam_ratio(changed, [100, 400], [80], calm) < 1.01


def test_the_rim_of_a_paste_is_a_border(calm):
    is_inside = np.zeros((512, 512), bool)
    is_inside[100:300, 150:350] = True
    pasted = calm.copy()
    pasted[is_inside] += 8
    assert seam_ratio(pasted, borders_of_mask(is_inside), calm) > 1.5


def test_the_heat_map_is_red_where_the_seam_is(calm):
    changed = calm.copy()
    changed[:256, 256:] += 20
    heat = seam_heat_map(changed, borders_of_lines((512, 512), [256], []), calm).astype(int)
    assert heat.shape == calm.shape
    assert (heat[50:200, 254:258, 0] - heat[50:200, 254:258, 2]).mean() > 80
    assert (heat[320:480, 254:258, 2] - heat[320:480, 254:258, 0]).mean() > 80
    gray = heat[:, 50:150]
    assert (np.ptp(gray, axis=2) == 0).all()
