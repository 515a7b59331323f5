from __future__ import annotations

import sys

import cv2
import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from gpen_core.errors import OptionError, WeightsError
from gpen_core.evaluation.contenders import Contender, load_contenders, restore_crop, sharpen
from gpen_core.evaluation.memory import measure_face_memory
from gpen_core.evaluation.options import ModelChoice
from gpen_core.evaluation.region import SIZE_PX, face_region
from gpen_core.faces.condition import NUM_COEFFICIENTS
from gpen_core.models.places import ASSETS
from gpen_core.models.registry import STARTER
from gpen_core.models.weights import verified_file
from gpen_core.options import RuntimeOptions
from gpen_core.restorer import Restorer
from tests.fakes import FakeCropRestorer, FakeDetector, constant, identity

CPU = RuntimeOptions(device="cpu")


def contender(crop_restorer: FakeCropRestorer, text: str = "starter-256") -> Contender:
    return Contender(
        label=text,
        choice=ModelChoice.parse(text),
        restorer=Restorer(detector=FakeDetector(), crop_restorer=crop_restorer),
        file=verified_file(STARTER),
        precision="fp32",
        is_compiled=False,
        memory_mib=None,
    )


@pytest.fixture(scope="module")
def crop(astronaut) -> np.ndarray:
    """Smooth, so that a warp there and back loses next to nothing."""
    return cv2.GaussianBlur(astronaut[:SIZE_PX, 100 : 100 + SIZE_PX], (0, 0), 4)


def test_strength_blends_between_input_and_answer(crop):
    half = restore_crop(contender(FakeCropRestorer(constant(0, 0, 0)), "starter-256@0.5"), crop).pixels
    np.testing.assert_allclose(half, crop / 2, atol=0.5)
    none = restore_crop(contender(FakeCropRestorer(constant(0, 0, 0)), "starter-256@0"), crop).pixels
    np.testing.assert_array_equal(none, crop)


def test_automatic_strength_is_the_models_own_calibration(crop):
    always_half = [0.0] * (NUM_COEFFICIENTS - 1) + [0.5]
    fake = FakeCropRestorer(constant(0, 0, 0), strength_coefficients=always_half)
    np.testing.assert_allclose(restore_crop(contender(fake, "starter-256@auto"), crop).pixels, crop / 2, atol=0.5)


def test_a_model_of_another_size_and_template_sees_its_own_and_is_brought_back(crop):
    seen = []

    def remember(pixels):
        seen.append(pixels)
        return pixels

    answer = restore_crop(contender(FakeCropRestorer(remember, size=512, template="gpen")), crop)
    assert seen[0].shape == (512, 512, 3)
    region = face_region()
    assert np.abs(answer.pixels[region].astype(int) - crop[region]).mean() < 0.5
    assert answer.seconds > 0


def test_an_answer_that_is_not_finite_is_no_picture(crop):
    assert restore_crop(contender(FakeCropRestorer(lambda pixels: None)), crop).pixels is None


def test_the_crop_of_the_models_own_kind_is_not_resampled(crop):
    np.testing.assert_array_equal(restore_crop(contender(FakeCropRestorer(identity)), crop).pixels, crop)


def test_the_unsharp_mask_raises_contrast_at_edges_only():
    edge = np.full((32, 32, 3), 100, dtype=np.uint8)
    edge[:, 16:] = 150
    sharper = sharpen(edge)
    assert sharper[0, 0, 0] == 100
    assert sharper[16, 15, 0] < 95
    assert sharper[16, 16, 0] > 155


def test_models_of_one_file_share_its_network_and_have_names_of_their_own(tmp_path):
    copy = tmp_path / "mine.safetensors"
    copy.write_bytes((ASSETS / STARTER.file_name).read_bytes())
    choices = [
        ModelChoice.parse(text) for text in ("auto", "starter-256", "auto@0.5", f"starter-256={copy}", str(copy))
    ]
    contenders = load_contenders(choices, CPU, is_measuring_memory=False)
    labels = [contender.label for contender in contenders]
    assert labels == ["starter-256", "starter-256 (2)", "starter-256@0.5", "mine", "mine (2)"]
    assert len({id(contender.restorer) for contender in contenders}) == 1
    report = contenders[3].to_report()
    assert (report["file"], report["sha256"]) == ("mine.safetensors", STARTER.sha256)
    assert report["is_verified"] is True


def test_what_cannot_be_loaded_is_one_sentence():
    for text, words in (("absent.pth", "absent.pth"), ("gpen-bfr-512", "GPEN-BFR-512.pth")):
        with pytest.raises(WeightsError, match=words):
            load_contenders([ModelChoice.parse(text)], CPU, is_measuring_memory=False)


def test_automatic_strength_needs_the_weights_it_was_calibrated_for(tmp_path):
    other = tmp_path / "other.safetensors"
    save_file(load_file(ASSETS / STARTER.file_name), other, metadata={"note": "another hash"})
    with pytest.raises(OptionError, match="not calibrated"):
        load_contenders([ModelChoice.parse(f"starter-256={other}@auto")], CPU, is_measuring_memory=False)
    (contender,) = load_contenders([ModelChoice.parse(f"starter-256={other}")], CPU, is_measuring_memory=False)
    assert contender.to_report()["is_verified"] is False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells")
def test_a_face_takes_some_memory():
    memory_mib = measure_face_memory(CPU)
    assert memory_mib is not None
    # One 256 px level of 64 channels in fp32 is 16 MiB.
    assert 10 < memory_mib < 1000
