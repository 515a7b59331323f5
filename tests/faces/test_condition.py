from __future__ import annotations

import cv2
import numpy as np
import pytest

from gpen_core.evaluation.degrade import LEVELS, degrade
from gpen_core.faces.align import align_face
from gpen_core.faces.condition import NUM_COEFFICIENTS, measure_condition, predict_strength, strength_features
from gpen_core.models.registry import SPECS
from tests.fakes import ASTRONAUT_LANDMARKS


@pytest.fixture(scope="module")
def crop(astronaut):
    return align_face(astronaut, ASTRONAUT_LANDMARKS, "ffhq", 256).pixels


def test_noise_is_measured_in_levels(crop):
    smooth = cv2.GaussianBlur(crop, (0, 0), 3)
    for sigma in (5.0, 12.0):
        noise = np.random.default_rng(0).normal(0, sigma, smooth.shape[:2])[..., None]
        noisy = np.clip(np.rint(smooth + noise), 0, 255).astype(np.uint8)
        assert measure_condition(noisy, noisy, "ffhq").noise == pytest.approx(sigma, rel=0.15)


def test_blur_lowers_sharpness(crop):
    sharpness = [
        measure_condition(image, image, "ffhq").sharpness
        for image in (crop, cv2.GaussianBlur(crop, (0, 0), 1), cv2.GaussianBlur(crop, (0, 0), 3))
    ]
    assert sharpness[0] > 1.5 * sharpness[1] > 3 * sharpness[2] > 0


def test_change_is_what_the_network_changed(crop):
    darker = np.clip(crop.astype(int) - 7, 0, 255).astype(np.uint8)
    assert measure_condition(crop, crop, "ffhq").change == 0
    assert measure_condition(crop, darker, "ffhq").change == pytest.approx(7, rel=0.1)


def test_a_flat_crop_has_finite_features():
    flat = np.full((64, 64, 3), 90, np.uint8)
    features = strength_features(measure_condition(flat, flat, "ffhq"))
    assert features.shape == (NUM_COEFFICIENTS,)
    assert np.isfinite(features).all()


def test_the_prediction_stays_in_range(crop):
    condition = measure_condition(crop, 255 - crop, "ffhq")
    for constant, expected in ((-5.0, 0.0), (0.3, 0.3), (7.0, 1.0)):
        assert predict_strength(condition, [0.0] * (NUM_COEFFICIENTS - 1) + [constant]) == pytest.approx(expected)


def test_every_calibration_has_its_number_of_coefficients():
    calibrated = [spec for spec in SPECS.values() if spec.strength_coefficients is not None]
    assert all(len(spec.strength_coefficients) == NUM_COEFFICIENTS for spec in calibrated)


def test_the_starter_is_blended_in_more_the_worse_the_face_is(crop, starter):
    coefficients = starter.crop_restorer.strength_coefficients
    assert coefficients is not None
    inputs = [crop, *(degrade(crop, LEVELS[name], 0) for name in ("light", "medium", "heavy"))]
    answers = starter.crop_restorer.restore_crops(inputs, lambda done: None).crops
    strengths = [
        predict_strength(measure_condition(damaged, answer, "ffhq"), coefficients)
        for damaged, answer in zip(inputs, answers, strict=True)
    ]
    clean, light, *bad = strengths
    assert clean < light < min(bad)
    assert min(bad) > 0.7
    # What counts for a good face is how far it moves. This one is a little soft, since its crop enlarges it.
    moved = clean * (answers[0].astype(float) - crop)
    assert clean < 0.6
    assert np.sqrt(np.mean(moved**2)) < 2
