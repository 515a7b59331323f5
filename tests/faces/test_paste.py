from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gpen_core.faces.align import align_face, rescale_source
from gpen_core.faces.mask import EllipseMask
from gpen_core.faces.paste import Patch, blend_patches, make_patch
from gpen_core.photo.background import make_canvas
from tests.fakes import ASTRONAUT_LANDMARKS, checkerboard, frontal_face


def pasted(photo, landmarks, paint, *, scale=1, strength=1.0, size=256, template="ffhq"):
    crop = align_face(photo, landmarks, template, size)
    canvas = make_canvas(photo, scale)
    mask = EllipseMask(template, size)
    patch = make_patch(canvas, paint(crop.pixels), rescale_source(crop.affine, float(scale)), mask)
    return canvas, blend_patches(canvas, [patch] if patch else [], [strength] if patch else []), patch


@pytest.mark.parametrize("size", [64, 256, 512])
@pytest.mark.parametrize("template", ["ffhq", "gpen"])
def test_an_unchanged_crop_changes_nothing(astronaut, size, template):
    _, blended, _ = pasted(astronaut, ASTRONAUT_LANDMARKS, np.copy, size=size, template=template)
    np.testing.assert_array_equal(blended, astronaut)


@pytest.mark.parametrize("scale", [2, 4])
def test_an_unchanged_crop_changes_an_enlarged_canvas_by_rounding_only(astronaut, scale):
    canvas, blended, _ = pasted(astronaut, ASTRONAUT_LANDMARKS, np.copy, scale=scale)
    assert np.abs(blended.astype(int) - canvas).mean() < 0.1


def test_a_large_sharp_face_keeps_its_detail(astronaut):
    large = make_canvas(astronaut, 4)
    _, blended, _ = pasted(large, (ASTRONAUT_LANDMARKS + 0.5) * 4 - 0.5, np.copy)
    np.testing.assert_array_equal(blended, large)


@pytest.mark.parametrize("scale", [1, 2, 4])
def test_outside_the_face_every_pixel_is_the_canvas(astronaut, scale):
    canvas, blended, patch = pasted(astronaut, ASTRONAUT_LANDMARKS, lambda crop: 255 - crop, scale=scale)
    outside = np.ones(canvas.shape[:2], bool)
    outside[patch.y0 : patch.y1, patch.x0 : patch.x1] = patch.weights == 0
    np.testing.assert_array_equal(blended[outside], canvas[outside])
    assert outside.mean() > 0.8
    assert (blended != canvas).any()


@pytest.mark.parametrize("face_scale", [0.25, 1, 1.5, 4])
@pytest.mark.parametrize("size", [256, 512])
@pytest.mark.parametrize("template", ["ffhq", "gpen"])
def test_no_seam_shows_on_a_flat_picture(face_scale, size, template):
    flat = np.full((900, 900, 3), 200, np.uint8)
    landmarks = (ASTRONAUT_LANDMARKS - ASTRONAUT_LANDMARKS.mean(axis=0)) * face_scale + 450
    _, blended, _ = pasted(flat, landmarks, lambda crop: np.full_like(crop, 205), size=size, template=template)
    levels = blended.astype(int)
    assert levels.max() == 205
    for axis in (0, 1):
        for distance in (1, 2, 3):
            step = np.abs(np.take(levels, range(distance, 900), axis) - np.take(levels, range(900 - distance), axis))
            assert step.max() <= 1
    _, unchanged, _ = pasted(flat, landmarks, lambda crop: np.full_like(crop, 200), size=size, template=template)
    np.testing.assert_array_equal(unchanged, flat)


@pytest.mark.parametrize("scale", [1, 2, 4])
def test_the_face_is_really_pasted(astronaut, scale):
    magenta = np.array([255, 0, 255])
    _, blended, _ = pasted(astronaut, ASTRONAUT_LANDMARKS, lambda crop: np.full_like(crop, magenta), scale=scale)
    x0, y0, x1, y1 = (scale * value for value in (175, 55, 272, 176))
    is_magenta = np.abs(blended[y0:y1, x0:x1].astype(int) - magenta).max(axis=-1) < 24
    assert is_magenta.mean() >= 0.6


def test_a_pattern_fades_before_the_rim_of_the_crop(astronaut):
    flat = np.full_like(astronaut, 128)
    _, blended, patch = pasted(flat, ASTRONAUT_LANDMARKS, checkerboard)
    contrast = np.abs(blended[patch.y0 : patch.y1, patch.x0 : patch.x1].astype(int) - 128).max(axis=-1)
    assert contrast[patch.weights == 1].max() > 60
    assert contrast[patch.weights < 0.1].max() < 26


def test_strength_runs_evenly_from_nothing_to_all(astronaut):
    frames = [
        pasted(astronaut, ASTRONAUT_LANDMARKS, lambda crop: 255 - crop, strength=strength)[1].astype(int)
        for strength in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    np.testing.assert_array_equal(frames[0], astronaut)
    direction = np.sign(frames[-1] - frames[0])
    for before, after in pairwise(frames):
        assert ((after - before) * direction >= 0).all()
    assert np.abs(2 * frames[2] - frames[0] - frames[4]).max() <= 2


def test_faces_across_the_edge_touch_nothing_outside(astronaut):
    for shift in ((-200, -80), (300, 0), (0, 380)):
        _, blended, patch = pasted(astronaut, ASTRONAUT_LANDMARKS + shift, lambda crop: 255 - crop)
        assert blended.shape == astronaut.shape
        assert patch.x0 >= 0
        assert patch.y0 >= 0
        assert patch.x1 <= 512
        assert patch.y1 <= 512


def test_a_face_wholly_outside_is_no_patch(astronaut):
    canvas, blended, patch = pasted(astronaut, ASTRONAUT_LANDMARKS + 5000, np.copy)
    assert patch is None
    np.testing.assert_array_equal(blended, canvas)


def test_neighbours_are_averaged_whatever_their_order():
    flat = np.full((300, 400, 3), 100, np.uint8)
    mask = EllipseMask("ffhq", 256)
    patches: list[Patch] = []
    for x, level in ((150, 200), (210, 40)):
        crop = align_face(flat, frontal_face(x, 130, 60).landmarks, "ffhq", 256)
        patch = make_patch(flat, np.full_like(crop.pixels, level), crop.affine, mask)
        assert patch is not None
        patches.append(patch)
    together = blend_patches(flat, patches, [1.0, 1.0])
    np.testing.assert_array_equal(together, blend_patches(flat, patches[::-1], [1.0, 1.0]))
    assert together.min() >= 40
    assert together.max() <= 200
    assert np.abs(np.diff(together.astype(int), axis=1)).max() < 30
    # In the middle both count the same.
    assert abs(int(together[140, 180, 0]) - 120) <= 8
    left_only = blend_patches(flat, patches, [1.0, 0.0])
    assert left_only[140, 80, 0] == together[140, 80, 0]
    assert left_only.min() == 100


def test_the_canvas_itself_is_never_written_to(astronaut):
    canvas = astronaut.copy()
    canvas.setflags(write=False)
    _, blended, _ = pasted(canvas, ASTRONAUT_LANDMARKS, lambda crop: 255 - crop)
    assert (blended != canvas).any()
