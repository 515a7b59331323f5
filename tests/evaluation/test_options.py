from __future__ import annotations

from pathlib import Path

import pytest

from gpen_core.errors import OptionError
from gpen_core.evaluation.options import METRICS, EvaluationOptions, ModelChoice
from gpen_core.evaluation.scorer import FIGURES, MEANINGS


@pytest.mark.parametrize(
    ("text", "model", "weights", "strength"),
    [
        ("auto", "auto", None, 1.0),
        ("starter-256@0.5", "starter-256", None, 0.5),
        ("gpen-bfr-512@auto", "gpen-bfr-512", None, "auto"),
        ("runs/a.safetensors", "auto", Path("runs/a.safetensors"), 1.0),
        ("starter-256=runs/a.pth@1", "starter-256", Path("runs/a.pth"), 1.0),
    ],
)
def test_a_model_is_a_name_a_file_or_both(text, model, weights, strength):
    choice = ModelChoice.parse(text)
    assert (choice.text, choice.model, choice.weights, choice.strength) == (text, model, weights, strength)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"models": "gfpgan"}, ("gfpgan", "starter-256")),
        ({"models": "retinaface-mobile"}, ("retinaface-mobile", "starter-256")),
        ({"models": "gfpgan=a.pth"}, ("gfpgan=a.pth", "starter-256")),
        ({"models": "starter-256@much"}, ("much", "0 to 1")),
        ({"models": "starter-256@2"}, ("2", "0 to 1")),
        ({"models": ","}, ("No model",)),
        ({"strengths": "light,awful"}, ("awful", "heavy")),
        ({"metrics": "psnr,beauty"}, ("beauty", "ssim")),
        ({"metrics": ""}, ("No metric",)),
        ({"csv": "a.json"}, ("a.json", ".csv")),
        ({"sheet": "a.jpg"}, ("a.jpg", ".png")),
        ({"sheet_limit": 0}, ("sheet_limit", "1 to 100")),
        ({"inputs": "bad", "strengths": "light"}, ("inputs are given",)),
        ({"truth": False, "inputs": "bad"}, ("--inputs", "--no-truth")),
        ({"truth": False, "aligned": True}, ("--aligned", "--no-truth")),
        ({"truth": False, "strengths": "old"}, ("--strengths", "--no-truth")),
        ({"truth": False, "metrics": "niqe,ssim"}, ("ssim", "truth", "niqe, sharpness")),
    ],
)
def test_a_wrong_value_is_one_sentence(values, words):
    with pytest.raises(OptionError) as caught:
        EvaluationOptions(data="folder", **values)
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_metrics_that_apply_are_measured_unless_some_are_named():
    assert EvaluationOptions(data="x").metric_names == (
        "psnr",
        "ssim",
        "niqe",
        "sharpness",
        "color",
        "seam",
        "seconds",
        "memory",
    )
    assert EvaluationOptions(data="x", truth=False).metric_names == ("niqe", "sharpness", "seam", "seconds", "memory")
    assert EvaluationOptions(data="x", metrics="lpips, psnr,lpips").metric_names == ("lpips", "psnr")


def test_every_metric_has_figures_and_a_meaning():
    assert {figure.metric for figure in FIGURES} == set(METRICS) == set(MEANINGS)
