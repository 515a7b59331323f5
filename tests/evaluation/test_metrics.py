"""Each metric against values that can be worked out by hand."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from gpen_core.errors import OptionError, WeightsError
from gpen_core.evaluation import metrics
from gpen_core.evaluation.region import SIZE_PX, face_region, mask_weights
from gpen_core.evaluation.scorer import Scorer, paste_crop
from gpen_core.models.basicsr import REMOVED_MODULE

EVERYWHERE = np.ones((32, 32), dtype=bool)


def flat(*color: int, size: int = 32) -> np.ndarray:
    return np.full((size, size, 3), color, dtype=np.uint8)


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    return np.random.default_rng(3).integers(40, 200, (32, 32, 3)).astype(np.uint8)


def test_psnr_of_ten_levels_more_is_28_13_db(noise):
    assert metrics.psnr(noise, noise + 10, EVERYWHERE) == pytest.approx(28.13, abs=0.005)
    assert metrics.psnr(noise, noise, EVERYWHERE) == metrics.MAX_PSNR_DB


def test_only_the_region_counts(noise):
    region = EVERYWHERE.copy()
    region[:, 16:] = False
    changed = noise.copy()
    changed[:, 24:] += 50
    assert metrics.psnr(noise, changed, region) == metrics.MAX_PSNR_DB
    assert metrics.ssim(noise, changed, region) == pytest.approx(1.0)
    assert metrics.ssim(noise, changed, ~region) < 0.99


def test_ssim_is_one_for_equal_pictures_and_less_for_others(noise):
    assert metrics.ssim(noise, noise, EVERYWHERE) == pytest.approx(1.0)
    assert metrics.ssim(noise, noise[::-1], EVERYWHERE) < 0.2


def test_sharpness_of_stripes_is_the_variance_of_their_laplacian():
    stripes = flat(0, 0, 0)
    stripes[:, ::2] = 20
    # Each pixel's Laplacian is twice the step to its left and right neighbours: 40 or -40.
    assert metrics.sharpness(stripes, EVERYWHERE) == pytest.approx(1600.0, rel=1e-4)
    assert metrics.sharpness(flat(9, 9, 9), EVERYWHERE) == 0.0


def test_color_shift_is_that_of_cielab():
    assert metrics.color_shift(flat(99, 99, 99), flat(99, 99, 99), EVERYWHERE) == (0.0, 0.0)
    # sRGB red is a = 80.09, b = 67.20 (D65); black is 0, 0.
    a_shift, b_shift = metrics.color_shift(flat(0, 0, 0), flat(255, 0, 0), EVERYWHERE)
    assert (a_shift, b_shift) == (pytest.approx(80.09, abs=0.05), pytest.approx(67.20, abs=0.05))
    a_shift, b_shift = metrics.color_shift(flat(120, 120, 120), flat(120, 120, 100), EVERYWHERE)
    assert b_shift > 5
    assert abs(a_shift) < b_shift / 2


def test_seam_is_zero_for_identical_pictures_and_the_step_for_a_step(noise):
    ramp = np.full((32, 32), 0.5, dtype=np.float32)
    assert metrics.seam_change(noise, noise, ramp) == 0.0
    stepped = noise.copy()
    stepped[:, 16:] += 16
    # One of 32 columns has a step of 16 more than before.
    assert metrics.seam_change(noise, stepped, ramp) == pytest.approx(0.5)
    assert metrics.seam_change(noise, noise + 16, ramp) == 0.0


def test_seam_looks_at_the_ramp_only(noise):
    weights = np.ones((32, 32), dtype=np.float32)
    weights[:, :8] = 0.5
    stepped = noise.copy()
    stepped[:, 16:] += 16
    assert metrics.seam_change(noise, stepped, weights) == 0.0


def test_the_face_region_is_about_half_of_the_crop_and_a_paste_leaves_the_rest(astronaut):
    assert 0.4 < face_region().mean() < 0.5
    crop = astronaut[:SIZE_PX, :SIZE_PX]
    pasted = paste_crop(crop, 255 - crop)
    outside = mask_weights() == 0
    np.testing.assert_array_equal(pasted[outside], crop[outside])
    assert (pasted[face_region()] != crop[face_region()]).any()


def test_without_basicsr_niqe_is_a_note_and_no_figure(monkeypatch, astronaut):
    monkeypatch.setitem(sys.modules, "basicsr", None)
    scorer = Scorer(["niqe", "sharpness"])
    crop = astronaut[:SIZE_PX, :SIZE_PX]
    scores = scorer.score(crop, crop, crop, None)
    assert scores["niqe"] is None
    assert scores["sharpness"] > 0
    assert len(scorer.notes) == 1
    assert "basicsr" in scorer.notes[0]


def test_niqe_is_asked_in_bgr_and_may_have_no_answer(monkeypatch):
    seen = []

    def calculate_niqe(image, crop_border):
        assert crop_border == 0
        # What basicsr imports and torchvision no longer has.
        from torchvision.transforms.functional_tensor import rgb_to_grayscale

        assert callable(rgb_to_grayscale)
        seen.append(tuple(image[0, 0]))
        if image.max() == image.min():
            raise np.linalg.LinAlgError("SVD did not converge")
        return np.float64(4.5)

    package, module = types.ModuleType("basicsr"), types.ModuleType("basicsr.metrics")
    module.calculate_niqe = calculate_niqe
    monkeypatch.setitem(sys.modules, "basicsr", package)
    monkeypatch.setitem(sys.modules, "basicsr.metrics", module)
    monkeypatch.delitem(sys.modules, REMOVED_MODULE, raising=False)
    niqe = metrics.load_niqe()
    assert niqe(flat(1, 2, 3)) == 4.5
    assert niqe(flat(7, 7, 7)) is None
    assert seen[0] == (3, 2, 1)


def test_lpips_without_pyiqa_or_its_weights_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyiqa", None)
    with pytest.raises(OptionError, match=r"lpips needs pyiqa.*install it\.$"):
        Scorer(["lpips"])

    def create_metric(name, device):
        raise OSError("no network")

    pyiqa = types.ModuleType("pyiqa")
    pyiqa.create_metric = create_metric
    monkeypatch.setitem(sys.modules, "pyiqa", pyiqa)
    with pytest.raises(WeightsError, match="no network"):
        Scorer(["lpips"])


def test_lpips_gets_the_picture_first_and_levels_from_zero_to_one(monkeypatch):
    pyiqa = types.ModuleType("pyiqa")
    pyiqa.create_metric = lambda name, device: lambda image, truth: (image - truth).mean()
    monkeypatch.setitem(sys.modules, "pyiqa", pyiqa)
    assert metrics.load_lpips()(flat(0, 0, 0), flat(255, 255, 255)) == pytest.approx(1.0)
