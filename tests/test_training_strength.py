"""Calibrating and checking the automatic strength."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from gpen_core.evaluation.degrade import LEVELS
from gpen_core.faces.align import align_face
from gpen_core.faces.condition import NUM_COEFFICIENTS
from tests.fakes import ASTRONAUT_LANDMARKS
from training import check_strength
from training.calibrate import Sample, fit, mean_psnr


def test_the_best_blends_are_found_again_where_the_features_tell_them():
    random = np.random.default_rng(0)
    truth = np.zeros(NUM_COEFFICIENTS)
    truth[[0, 3, -1]] = 0.1, -0.1, 0.5
    features = np.hstack((random.uniform(-2, 2, (400, NUM_COEFFICIENTS - 1)), np.ones((400, 1))))
    samples = [Sample(features=row, error=200.0, change=300.0, best=float(row @ truth)) for row in features]
    found = fit(samples)
    assert np.abs(found - truth).max() < 0.01
    assert mean_psnr(samples, found) > max(mean_psnr(samples, 0.0), mean_psnr(samples, 1.0)) + 0.5


def test_milder_damage_is_less_of_every_kind():
    light = LEVELS["light"]
    assert check_strength.milder_than(light, 1.0) == light
    half = check_strength.milder_than(light, 0.5)
    assert (half.blur_px, half.down, half.noise, half.jpeg_quality) == (0.3, 1.25, 2.0, 92)


def test_a_real_face_is_better_off_than_with_either_end_for_all(astronaut, tmp_path, monkeypatch, capsys):
    crop = align_face(astronaut, ASTRONAUT_LANDMARKS, "ffhq", 256).pixels
    Image.fromarray(crop).save(tmp_path / "face.png")
    monkeypatch.setattr("sys.argv", ["check_strength", "--data", str(tmp_path)])
    check_strength.main()
    _, _, *lines = capsys.readouterr().out.splitlines()
    rows = {cells[1].strip(): [float(cell) for cell in cells[2:6]] for cells in (line.split("|") for line in lines)}
    assert list(rows) == ["none", "0.15 of light", "0.3 of light", "0.5 of light", "0.75 of light", *LEVELS, "mean"]
    damaged, restored, automatic, _ = rows.pop("mean")
    assert automatic > max(damaged, restored)
    assert rows["heavy"][1] > rows["heavy"][0] + 1.0
    assert max(rows[level][3] for level in LEVELS) < 0.1
    assert all(values[2] >= values[1] - 0.1 for values in rows.values())
    assert all(values[3] == pytest.approx(max(values[:2]) - values[2], abs=0.011) for values in rows.values())
