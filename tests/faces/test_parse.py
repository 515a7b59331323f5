from __future__ import annotations

import numpy as np
import pytest
import torch
from facexlib.parsing.parsenet import ParseNet

from gpen_core.errors import WeightsError
from gpen_core.faces.parse import FACE_CLASSES, FacexlibParser


@pytest.fixture(scope="module")
def network() -> ParseNet:
    return ParseNet(in_size=512, out_size=512, parsing_ch=19).eval()


def test_an_official_style_file_loads_and_tells_face_from_the_rest(network, tmp_path, astronaut, monkeypatch):
    path = tmp_path / "ParseNet-latest.pth"
    torch.save(network.state_dict(), path)
    parser = FacexlibParser(path, "cpu")
    seen = []

    def answer(batch):
        """A band of pixels for each class, in the place of 469 GFLOP of random weights."""
        seen.append(batch)
        scores = torch.zeros(1, 19, 512, 512)
        for number in range(19):
            scores[0, number, 20 * number : 20 * number + 20] = 1
        return scores, batch

    monkeypatch.setattr(parser._network, "forward", answer)
    for size in (256, 512, 1024):
        outline = parser.parse(np.full((size, size, 3), (255, 0, 128), np.uint8))
        assert outline.shape == (512, 512)
        shown = {number for number in range(19) if outline[20 * number + 10].all()}
        assert shown == set(FACE_CLASSES)
        assert {17, 18, 14, 0}.isdisjoint(shown) and 13 in shown
    assert seen[0].shape == (1, 3, 512, 512)
    assert seen[0][0, :, 100, 100].tolist() == pytest.approx([1, -1, 1 / 255], abs=1e-3)


def test_a_file_of_another_network_is_refused(tmp_path):
    path = tmp_path / "other.pth"
    torch.save(torch.nn.Linear(2, 2).state_dict(), path)
    with pytest.raises(WeightsError, match="not ParseNet"):
        FacexlibParser(path, "cpu")
