from __future__ import annotations

import numpy as np
import pytest
import torch
from modelscope.models.cv.image_portrait_enhancement.eqface.model_resnet import FaceQuality, ResNet

from gpen_core.errors import WeightsError
from gpen_core.models.eqface import Backbone, QualityHead
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.restorer import Restorer
from gpen_core.runtime.eqface_judge import EqFaceJudge
from gpen_core.runtime.judge import Verdict
from tests.fakes import ASTRONAUT_LANDMARKS, FakeCropRestorer, FakeDetector, face_at, frontal_face

FACES = (face_at(ASTRONAUT_LANDMARKS), frontal_face(400, 300, 30))


class FakeJudge:
    def __init__(self, *verdicts: Verdict) -> None:
        self.verdicts = list(verdicts)
        self.seen: list[tuple[np.ndarray, np.ndarray]] = []

    def judge(self, before, after):
        self.seen += zip(before, after, strict=True)
        return self.verdicts[: len(before)]


def restorer(*verdicts: Verdict) -> Restorer:
    return Restorer(
        detector=FakeDetector(*FACES),
        crop_restorer=FakeCropRestorer(lambda crop: 255 - crop),
        judge=FakeJudge(*verdicts),
    )


GOOD = Verdict(quality=0.8, distance=0.05)


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (Verdict(quality=0.05, distance=0.0), "too poor to restore (quality 0.05; the limit is 0.1)"),
        (Verdict(quality=0.8, distance=0.3), "same person (distance 0.30; the limit is 0.15)"),
    ],
)
def test_a_face_beyond_the_limits_stays_as_it_was_and_is_named(astronaut, verdict, words):
    result = restorer(verdict, GOOD).restore(astronaut)
    assert [face.decision for face in result.faces] == ["skipped", "restored"]
    assert words in result.faces[0].reason
    assert any(words in note for note in result.notes)
    np.testing.assert_array_equal(result.photo.pixels[:200], astronaut[:200])
    told = result.to_report()["faces"]
    assert (told[0]["quality"], told[0]["identity_distance"]) == (verdict.quality, verdict.distance)


def test_the_limits_can_be_moved(astronaut):
    options = RestoreOptions(min_quality=0.0, max_distance=1.0)
    result = restorer(Verdict(quality=0.05, distance=0.9), GOOD).restore(astronaut, options)
    assert result.num_shown == 2


def test_the_judge_sees_the_same_part_of_the_face_before_and_after(astronaut):
    subject = restorer(GOOD, GOOD)
    subject.restore(astronaut)
    before, after = subject.judge.seen[0]
    assert before.shape == after.shape == (112, 112, 3)
    assert np.abs(before.astype(int) + after - 255).mean() < 1


def test_no_face_no_question(astronaut):
    subject = Restorer(detector=FakeDetector(), crop_restorer=FakeCropRestorer(np.copy), judge=FakeJudge())
    assert subject.restore(astronaut).faces == ()
    assert subject.judge.seen == []


def test_without_its_weights_the_gate_says_what_is_missing():
    with pytest.raises(WeightsError, match=r"eqface_backbone\.pth .*switch the gate off"):
        Restorer(runtime=RuntimeOptions(gate=True))


def test_the_network_equals_the_reference_with_random_weights():
    reference, ours = ResNet(num_layers=34).eval(), Backbone(blocks=(3, 4, 6, 3)).eval()
    reference_head, our_head = FaceQuality(512 * 7 * 7).eval(), QualityHead().eval()
    ours.load_state_dict(reference.state_dict(), strict=True)
    our_head.load_state_dict(reference_head.state_dict(), strict=True)
    x = torch.rand(2, 3, 112, 112) * 2 - 1
    with torch.inference_mode():
        expected, expected_pooled = reference(x, True)
        features, pooled = ours(x)
        assert (features - expected).abs().max() < 1e-4
        assert (pooled - expected_pooled).abs().max() < 1e-4
        assert torch.allclose(our_head(pooled), reference_head(expected_pooled)[:, 0], atol=1e-5)


def test_files_load_and_the_same_face_has_no_distance(tmp_path, astronaut):
    backbone, quality = tmp_path / "backbone.pth", tmp_path / "quality.pth"
    torch.save({f"module.{key}": value for key, value in Backbone().state_dict().items()}, backbone)
    torch.save(QualityHead().state_dict(), quality)
    judge = EqFaceJudge(backbone, quality, torch.device("cpu"))
    face = astronaut[40:152, 160:272]
    same, other = judge.judge([face, face], [face, 255 - face])
    assert same.distance == pytest.approx(0, abs=1e-5)
    assert other.distance > same.distance
    assert 0 <= same.quality <= 1
    with pytest.raises(WeightsError, match="does not belong to EQFace"):
        EqFaceJudge(quality, backbone, torch.device("cpu"))
