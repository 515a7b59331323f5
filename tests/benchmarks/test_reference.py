"""The reference's way does what it should, so that a ratio to it means something."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.ours import our_generator
from benchmarks.photos import PHOTOS, group_photo
from benchmarks.reference import (
    reference_forward,
    reference_generator,
    reference_starter,
    restore_as_modelscope,
)
from gpen_core.faces.detect import EmbeddedDetector
from gpen_core.faces.search import find_faces
from gpen_core.models.gpen import GeneratorConfig
from gpen_core.options import RestoreOptions
from tests.fakes import ASTRONAUT_LANDMARKS, face_at

CPU = torch.device("cpu")
SCRIPTS = Path(__file__).parent.parent.parent / "benchmarks"


class Painter(nn.Module):
    """In the place of ModelScope's generator, which gives its answer and something else."""

    def __init__(self, paint) -> None:
        super().__init__()
        self.paint = paint

    def forward(self, x):
        return self.paint(x), None


def pasted(photo, paint):
    return restore_as_modelscope(
        photo, [face_at(ASTRONAUT_LANDMARKS)], Painter(paint), template="ffhq", size=256, device=CPU
    )


def test_its_way_gives_an_unchanged_face_back(astronaut):
    difference = np.abs(pasted(astronaut, lambda x: x).astype(int) - astronaut)
    assert difference.mean() < 0.5
    assert difference[300:].max() == 0


def test_its_way_pastes_what_the_network_gives(astronaut):
    white = pasted(astronaut, torch.ones_like)
    assert (white[75:165, 190:260] == 255).mean() > 0.99
    np.testing.assert_array_equal(white[300:], astronaut[300:])


def test_both_sides_have_the_same_weights():
    small = reference_generator(GeneratorConfig(size=32, style_dim=16, num_mlp_layers=2, narrow=1 / 16))
    for model, size in ((small, 32), (reference_starter(), 256)):
        face = torch.linspace(-1, 1, 3 * size**2).view(1, 3, size, size)
        expected = reference_forward(model)(face)
        ours = our_generator(model.state_dict(), device=CPU, precision="fp32", compile=False)(face)
        assert float((ours - expected).abs().max()) < 1e-4 * float(expected.abs().max())


@pytest.mark.parametrize("name", ["small", "group"])
def test_the_photos_show_the_people_they_should(name):
    num_faces, width, height = PHOTOS[name]
    photo = group_photo(num_faces, width, height)
    assert photo.shape == (height, width, 3)
    assert len(find_faces(EmbeddedDetector(), photo, RestoreOptions()).faces) == num_faces


def test_what_is_carried_is_enough_for_the_reference(tmp_path):
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run(["bash", SCRIPTS / "carry.sh", tmp_path], env=environment, check=True, capture_output=True)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from modelscope.models.cv.image_portrait_enhancement.gpen import FullGenerator\n"
        "from modelscope.models.cv.image_portrait_enhancement.retinaface.detection import RetinaFaceDetection\n"
        "import modelscope, retinaface\n"
        "assert all(module.__file__.startswith(sys.argv[1]) for module in (modelscope, retinaface))"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)


def test_the_script_for_a_gpu_is_sound():
    subprocess.run(["bash", "-n", SCRIPTS / "gpu.sh"], check=True)
