from __future__ import annotations

import numpy as np
import pytest

from gpen_core.faces.align import template_points
from gpen_core.faces.mask import EASE, EllipseMask, ParsedMask, eased_ramp


def whole(template: str, size: int, zoom: float = 1.0) -> np.ndarray:
    """Weights over a canvas that holds exactly the crop, `zoom` canvas px a crop px."""
    affine = np.array([[1 / zoom, 0, 0.5 / zoom - 0.5], [0, 1 / zoom, 0.5 / zoom - 0.5]])
    side = round(size * zoom)
    return EllipseMask(template, size).weights(affine, 0, 0, side, side)


@pytest.mark.parametrize("template", ["ffhq", "gpen"])
@pytest.mark.parametrize("size", [256, 512, 1024])
def test_the_face_counts_fully_and_the_rim_not_at_all(template, size):
    weights = whole(template, size)
    for x, y in template_points(template, size):
        assert weights[round(y), round(x)] == 1
    margin = size // 40
    rim = np.ones_like(weights, bool)
    rim[margin:-margin, margin:-margin] = False
    assert weights[rim].max() == 0


@pytest.mark.parametrize("zoom", [0.1, 0.25, 0.5, 1.0, 4.0])
def test_no_step_is_steeper_than_the_smallest_feather(zoom):
    weights = whole("ffhq", 256, zoom)
    for axis in (0, 1):
        assert np.abs(np.diff(weights, axis=axis)).max() <= 1 / 15 + 1e-4


def test_the_feather_grows_with_the_face():
    def feather_px(zoom):
        row = whole("ffhq", 256, zoom)[round(128 * zoom)]
        return int(((row > 0.02) & (row < 0.98)).sum())

    assert feather_px(8.0) == pytest.approx(2 * feather_px(4.0), rel=0.1)


def test_the_ramp_rises_from_zero_to_one_without_kinks():
    t = np.linspace(-0.5, 1.5, 4001).astype(np.float32)
    ramp = eased_ramp(t)
    slope = np.diff(ramp) / np.diff(t)
    assert ramp[0] == 0
    assert ramp[-1] == 1
    assert slope.min() >= -1e-3
    assert slope.max() == pytest.approx(1 / (1 - EASE), rel=1e-2)
    assert np.abs(np.diff(slope)).max() < 0.02


def parsed(outline: np.ndarray, size: int, zoom: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """The weights with an outline, and those of the ellipse alone."""
    affine = np.array([[1 / zoom, 0, 0.5 / zoom - 0.5], [0, 1 / zoom, 0.5 / zoom - 0.5]])
    side = round(size * zoom)
    mask = ParsedMask(EllipseMask("ffhq", size), outline, size)
    return mask.weights(affine, 0, 0, side, side), whole("ffhq", size, zoom)


@pytest.mark.parametrize("side", [128, 512])
@pytest.mark.parametrize("zoom", [0.25, 1.0, 4.0])
def test_an_outline_only_takes_away(side, zoom):
    everything, ellipse = parsed(np.ones((side, side), bool), 256, zoom)
    assert (everything <= ellipse + 1e-6).all()
    middle = len(ellipse) // 2
    assert everything[middle, middle] == pytest.approx(ellipse[middle, middle], abs=0.02)
    nothing, _ = parsed(np.zeros((side, side), bool), 256, zoom)
    assert nothing.max() == 0


def test_what_the_outline_leaves_out_keeps_no_weight():
    outline = np.zeros((512, 512), bool)
    outline[:, :256] = True
    weights, ellipse = parsed(outline, 512)
    assert ellipse[300, 350] == 1
    assert weights[300, 350] == 0
    assert weights[300, 160] == pytest.approx(1) and ellipse[300, 160] == 1
    # Half way on the outline itself: cut first, blurred after.
    assert weights[300, 255:257].mean() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("zoom", [0.1, 0.25, 1.0, 4.0])
def test_no_outline_makes_a_step_steeper_than_the_smallest_feather(zoom):
    outline = np.zeros((512, 512), bool)
    outline[100:, 200:330] = True
    weights, _ = parsed(outline, 256, zoom)
    for axis in (0, 1):
        assert np.abs(np.diff(weights, axis=axis)).max() <= 1 / 15 + 1e-3


def test_a_face_that_fills_the_crop_ends_softly_at_its_rim():
    class Everything:
        def weights(self, affine, x0, y0, x1, y1):
            return np.ones((y1 - y0, x1 - x0), np.float32)

    identity = np.eye(2, 3)
    weights = ParsedMask(Everything(), np.ones((512, 512), bool), 512).weights(identity, 0, 0, 512, 512)
    row = weights[256]
    assert row[0] < 0.01 and row[256] == pytest.approx(1)
    assert np.abs(np.diff(row)).max() < 0.03


@pytest.mark.parametrize("template", ["ffhq", "gpen"])
@pytest.mark.parametrize("degrees", [0, 20, 45, 160])
@pytest.mark.parametrize("zoom", [0.2, 1.0, 3.0])
def test_nothing_counts_outside_the_bounds_and_they_are_tight(template, degrees, zoom):
    mask = EllipseMask(template, 256)
    angle = np.radians(degrees)
    linear = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]) / zoom
    # The middle of the crop lies at (500, 500) of the canvas.
    affine = np.column_stack((linear, 127.5 - linear @ np.array([500.0, 500.0])))
    x0, y0, x1, y1 = mask.bounds(affine)
    weights = mask.weights(affine, 0, 0, 1000, 1000)
    rows, columns = np.flatnonzero(weights.any(axis=1)), np.flatnonzero(weights.any(axis=0))
    assert x0 <= columns[0] <= x0 + 3
    assert y0 <= rows[0] <= y0 + 3
    assert x1 - 4 <= columns[-1] < x1
    assert y1 - 4 <= rows[-1] < y1
