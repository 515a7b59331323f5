from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gpen_core.restorer import Restorer

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    np.random.seed(0)


@pytest.fixture(autouse=True)
def no_weights_of_this_machine(monkeypatch, tmp_path_factory):
    """Official weights that happen to lie on a developer's machine must not change what `auto` means here."""
    monkeypatch.setenv("GPEN_WEIGHTS_DIR", str(tmp_path_factory.getbasetemp() / "no-weights"))


@pytest.fixture(scope="session")
def examples() -> Path:
    return EXAMPLES


@pytest.fixture(scope="session")
def astronaut() -> np.ndarray:
    """(512, 512, 3) RGB; one face at `fakes.ASTRONAUT_LANDMARKS`."""
    return np.asarray(Image.open(EXAMPLES / "originals" / "astronaut.jpg").convert("RGB"))


@pytest.fixture(scope="session")
def starter() -> Restorer:
    """The real embedded models."""
    return Restorer("starter-256")
