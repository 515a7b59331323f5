from __future__ import annotations

import math
from dataclasses import replace

import cv2
import numpy as np
import pytest

from gpen_core.faces.align import (
    TEMPLATES,
    align_face,
    estimate_similarity,
    extract_crop,
    invert_affine,
    landmark_misfit,
    looks_frontal,
    rescale_source,
    shift_source,
    similarity_scale,
    template_points,
    transform_points,
)
from gpen_core.photo.background import make_canvas
from tests.fakes import ASTRONAUT_LANDMARKS, face_at


def similarity(scale: float, degrees: float, x: float, y: float) -> np.ndarray:
    c, s = scale * math.cos(math.radians(degrees)), scale * math.sin(math.radians(degrees))
    return np.array([[c, -s, x], [s, c, y]])


@pytest.mark.parametrize("scale", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("degrees", [0, 35, 90, 180, -120])
def test_an_exact_similarity_is_found_again(scale, degrees):
    true = similarity(scale, degrees, 40.0, -70.0)
    found = estimate_similarity(ASTRONAUT_LANDMARKS, transform_points(true, ASTRONAUT_LANDMARKS))
    np.testing.assert_allclose(found, true, atol=1e-8)
    assert similarity_scale(found) == pytest.approx(scale)


def test_the_estimate_is_the_least_squares_one():
    target = template_points("ffhq", 512)
    best = estimate_similarity(ASTRONAUT_LANDMARKS, target)

    def error(affine):
        return float(np.sum((transform_points(affine, ASTRONAUT_LANDMARKS) - target) ** 2))

    rng = np.random.default_rng(0)
    for _ in range(200):
        c, s, x, y = rng.normal(0, (1e-2, 1e-2, 1.0, 1.0))
        other = best + np.array([[c, -s, x], [s, c, y]])
        assert error(other) >= error(best)


def test_a_mirrored_face_is_not_mirrored_back():
    mirrored = ASTRONAUT_LANDMARKS * (-1, 1)
    affine = estimate_similarity(mirrored, template_points("ffhq", 256))
    assert np.linalg.det(affine[:, :2]) > 0


@pytest.mark.parametrize("points", [np.zeros((5, 2)), np.full((5, 2), 7.0), np.full((5, 2), np.nan)])
def test_points_that_coincide_are_refused(points):
    with pytest.raises(ValueError, match="coincide"):
        estimate_similarity(points, template_points("ffhq", 256))
    assert landmark_misfit(points) == math.inf


def test_templates_scale_about_pixel_corners():
    for name, points in TEMPLATES.items():
        np.testing.assert_allclose(template_points(name, 512), points)
        np.testing.assert_allclose((template_points(name, 256) + 0.5) * 2, points + 0.5)


def test_inverse_and_shift():
    affine = similarity(1.7, 20, 5, 6)
    points = np.array([(0.0, 0.0), (10.0, 3.0), (-4.0, 8.0)])
    back = transform_points(invert_affine(affine), transform_points(affine, points))
    np.testing.assert_allclose(back, points, atol=1e-9)
    np.testing.assert_allclose(
        transform_points(shift_source(affine, 3, 2), points - (3, 2)), transform_points(affine, points)
    )


@pytest.mark.parametrize("factor", [2.0, 4.0, 0.5])
def test_rescaling_keeps_pixel_centres(factor):
    affine = similarity(0.8, 10, 5, 6)
    photo_points = np.array([(0.0, 0.0), (10.0, 3.0)])
    canvas_points = (photo_points + 0.5) * factor - 0.5
    np.testing.assert_allclose(
        transform_points(rescale_source(affine, factor), canvas_points), transform_points(affine, photo_points)
    )


@pytest.mark.parametrize("scale", [2, 4])
def test_a_crop_of_the_canvas_shows_what_a_crop_of_the_photo_shows(astronaut, scale):
    crop = align_face(astronaut, ASTRONAUT_LANDMARKS, "ffhq", 256)
    from_canvas = extract_crop(make_canvas(astronaut, scale), rescale_source(crop.affine, float(scale)), 256)
    difference = from_canvas.astype(float) - crop.pixels
    assert np.abs(difference).mean() < 2.0
    # Half a pixel of the canvas, which facexlib is off by, raises the mean difference by a third and more.
    off = rescale_source(crop.affine, float(scale))
    off[:, 2] += off[:, :2] @ (-0.5, -0.5)
    shifted = extract_crop(make_canvas(astronaut, scale), off, 256).astype(float) - crop.pixels
    assert np.abs(difference).mean() < np.abs(shifted).mean()


def test_landmarks_land_on_the_template(astronaut):
    crop = align_face(astronaut, ASTRONAUT_LANDMARKS, "gpen", 512)
    moved = transform_points(crop.affine, ASTRONAUT_LANDMARKS)
    assert np.linalg.norm(moved - TEMPLATES["gpen"], axis=1).max() < 25
    assert crop.pixels.shape == (512, 512, 3)


def test_shrinking_averages_areas_instead_of_aliasing():
    stripes = np.zeros((1600, 1600, 3), np.uint8)
    stripes[:, ::2] = 200
    crop = extract_crop(stripes, similarity(0.1, 0, 0, 0), 128)
    assert np.abs(crop.astype(int) - 100).max() <= 2


def test_beyond_the_rim_the_picture_is_mirrored_and_far_beyond_repeated(astronaut):
    crop = extract_crop(astronaut, similarity(1.0, 0, 100, 0), 256)
    np.testing.assert_array_equal(crop[:, :100], crop[:, 200:100:-1])
    most = extract_crop(astronaut, similarity(1.0, 0, 200, 0), 256)
    np.testing.assert_array_equal(most[:, :200], np.repeat(most[:, 200:201], 200, axis=1))
    far = extract_crop(np.full((20, 30, 3), 77, np.uint8), similarity(1.0, 30, 5000, 5000), 64)
    np.testing.assert_array_equal(far, np.full_like(far, 77))


def test_a_turned_photo_gives_the_same_crop(astronaut):
    upright = align_face(astronaut, ASTRONAUT_LANDMARKS, "ffhq", 256).pixels
    turned = np.ascontiguousarray(np.rot90(astronaut))
    turned_landmarks = np.stack((ASTRONAUT_LANDMARKS[:, 1], 511 - ASTRONAUT_LANDMARKS[:, 0]), axis=1)
    difference = align_face(turned, turned_landmarks, "ffhq", 256).pixels.astype(int) - upright
    assert np.abs(difference).max() <= 2


def test_only_faces_seen_from_the_front_look_frontal():
    assert looks_frontal(face_at(ASTRONAUT_LANDMARKS))
    assert looks_frontal(face_at(transform_points(similarity(3, 170, 0, 0), ASTRONAUT_LANDMARKS)))
    profile = np.array([(222, 101), (228, 103), (226, 127), (244, 141), (206, 142)], float)
    assert not looks_frontal(face_at(profile))
    mouth_above_eyes = ASTRONAUT_LANDMARKS[[3, 4, 2, 0, 1]]
    assert not looks_frontal(face_at(mouth_above_eyes))
    middle = ASTRONAUT_LANDMARKS.mean(axis=0)
    huddled = replace(face_at(ASTRONAUT_LANDMARKS), landmarks=(ASTRONAUT_LANDMARKS - middle) * 0.4 + middle)
    assert not looks_frontal(huddled)


def test_enlarging_is_smooth(astronaut):
    small = cv2.resize(astronaut, (64, 64), interpolation=cv2.INTER_AREA)
    crop = extract_crop(small, similarity(4.0, 0, 1.5, 1.5), 256)
    reference = cv2.resize(small, (256, 256), interpolation=cv2.INTER_CUBIC)
    assert np.abs(crop.astype(int) - reference)[8:-8, 8:-8].max() <= 3
