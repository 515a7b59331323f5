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
    """Official weights that happen to lie on a developer's machine must not change what `auto` means here.

    Nor may a test reach the network: what serves files of its own takes `GPEN_OFFLINE` away again.
    """
    nowhere = tmp_path_factory.getbasetemp() / "no-weights"
    for name in ("GPEN_CACHE", "GPEN_WEIGHTS_DIR", "MODELSCOPE_CACHE"):
        monkeypatch.setenv(name, str(nowhere / name.lower()))
    monkeypatch.delenv("GPEN_MIRROR", raising=False)
    monkeypatch.setenv("GPEN_OFFLINE", "1")


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
