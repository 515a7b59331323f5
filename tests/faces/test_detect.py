from __future__ import annotations

import numpy as np
import pytest
import torch

from gpen_core.errors import WeightsError
from gpen_core.faces.detect import EmbeddedDetector, FacexlibDetector
from tests.fakes import ASTRONAUT_LANDMARKS


def test_the_embedded_detector_finds_the_face_of_a_portrait(astronaut):
    (face,) = EmbeddedDetector().detect(astronaut, 0.9)
    assert np.linalg.norm(face.landmarks - ASTRONAUT_LANDMARKS, axis=1).mean() < 6
    assert face.box.x0 < face.landmarks[0, 0] < face.landmarks[1, 0] < face.box.x1
    assert 0.9 < face.score <= 1


def test_it_reads_rgb_and_not_bgr(astronaut):
    (rgb,), (bgr,) = (EmbeddedDetector().detect(pixels, 0.5) for pixels in (astronaut, astronaut[:, :, ::-1]))
    assert rgb.score > bgr.score


def test_the_resnet_detector_loads_an_official_style_file(tmp_path, astronaut):
    from facexlib.detection.retinaface import RetinaFace

    network = RetinaFace(network_name="resnet50", device=torch.device("cpu"))
    path = tmp_path / "RetinaFace-R50.pth"
    torch.save({f"module.{key}": value for key, value in network.state_dict().items()}, path)
    detector = FacexlibDetector(path, "cpu")
    # Random weights: what it finds means nothing, but it must be in the agreed form.
    faces = detector.detect(astronaut[:128, :128], 0.0)
    assert faces
    assert faces[0].landmarks.shape == (5, 2)
    assert 0 <= faces[0].score <= 1


def test_a_file_of_another_network_is_refused_as_detector(tmp_path):
    path = tmp_path / "other.pth"
    torch.save(torch.nn.Linear(2, 2).state_dict(), path)
    with pytest.raises(WeightsError, match="RetinaFace-R50"):
        FacexlibDetector(path, "cpu")
