from __future__ import annotations

import numpy as np
import pytest
import torch

from gpen_core.errors import WeightsError
from gpen_core.faces.detect import EmbeddedDetector, FacexlibDetector, anchor_boxes
from tests.fakes import ASTRONAUT_LANDMARKS


def test_the_embedded_detector_finds_the_face_of_a_portrait(astronaut):
    (face,) = EmbeddedDetector().detect(astronaut, 0.9)
    assert np.linalg.norm(face.landmarks - ASTRONAUT_LANDMARKS, axis=1).mean() < 6
    assert face.box.x0 < face.landmarks[0, 0] < face.landmarks[1, 0] < face.box.x1
    assert 0.9 < face.score <= 1


def test_it_reads_rgb_and_not_bgr(astronaut):
    (rgb,), (bgr,) = (EmbeddedDetector().detect(pixels, 0.5) for pixels in (astronaut, astronaut[:, :, ::-1]))
    assert rgb.score > bgr.score


def test_the_resnet_detector_loads_an_official_style_file_and_finds_what_facexlib_finds(tmp_path, astronaut):
    from facexlib.detection.retinaface import RetinaFace

    network = RetinaFace(network_name="resnet50", device=torch.device("cpu"))
    # Random weights: what it finds means nothing, but it must be the same. Small ones, so that few scores are equal.
    for layer in network.ClassHead.requires_grad_(False):
        layer.conv1x1.weight *= 1e-4
    path = tmp_path / "RetinaFace-R50.pth"
    torch.save({f"module.{key}": value for key, value in network.state_dict().items()}, path)
    detector = FacexlibDetector(path, "cpu")
    pixels = astronaut[:100, :130]
    faces = detector.detect(pixels, 0.5)
    with torch.inference_mode():
        expected = network.detect_faces(pixels[:, :, ::-1], conf_threshold=0.5)
    assert len(faces) == len(expected) > 10
    for face, row in zip(faces, expected, strict=True):
        np.testing.assert_allclose((*face.box, face.score), row[:5], rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(face.landmarks.ravel() + 0.5, row[5:], rtol=1e-4, atol=1e-3)
    assert detector.detect(pixels, 0.99) == []


@pytest.mark.parametrize("size", [(320, 320), (101, 650), (8, 9)])
def test_anchors_are_facexlibs(size):
    from facexlib.detection.retinaface import generate_config
    from facexlib.detection.retinaface_utils import PriorBox

    expected = PriorBox(generate_config("resnet50"), image_size=size).forward()
    np.testing.assert_array_equal(anchor_boxes(*size), expected.numpy())


def test_a_file_of_another_network_is_refused_as_detector(tmp_path):
    path = tmp_path / "other.pth"
    torch.save(torch.nn.Linear(2, 2).state_dict(), path)
    with pytest.raises(WeightsError, match="RetinaFace-R50"):
        FacexlibDetector(path, "cpu")
