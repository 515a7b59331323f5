"""What a Hugging Face Space reads before it runs `app.py`."""

from __future__ import annotations

import re
from typing import Any

import gradio
import pytest
import yaml

from tests.page.conftest import ROOT

COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}


@pytest.fixture(scope="module")
def front_matter() -> dict[str, Any]:
    text = (ROOT / "space" / "front-matter.yml").read_text(encoding="utf-8")
    begin, block, end = text.split("---\n")
    assert (begin, end.strip()) == ("", "")
    return dict(yaml.safe_load(block))


def test_front_matter_is_what_a_space_takes(front_matter: dict[str, Any]) -> None:
    assert front_matter["sdk"] == "gradio"
    assert (ROOT / front_matter["app_file"]).is_file()
    assert isinstance(front_matter["python_version"], str)  # 3.10 as a number would be 3.1
    assert len(front_matter["short_description"]) <= 60
    assert {front_matter["colorFrom"], front_matter["colorTo"]} <= COLOURS
    assert front_matter["license"] == "apache-2.0"


def test_gradio_is_the_tested_one(front_matter: dict[str, Any]) -> None:
    major_minor = front_matter["sdk_version"].rsplit(".", 1)[0]
    requirements = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    assert f"gradio>={major_minor},<" in requirements
    assert gradio.__version__.split(".")[0] == major_minor.split(".")[0]


def test_system_packages_are_those_the_readme_names() -> None:
    packages = (ROOT / "packages.txt").read_text(encoding="utf-8").split()
    assert packages and all(re.fullmatch(r"[a-z0-9.+-]+", package) for package in packages)
    assert " ".join(packages) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_torch_is_one_that_zero_gpu_knows() -> None:
    text = (ROOT / "space" / "pre-requirements.txt").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert line == "torch>=2.8,<2.12"
