"""ZeroGPU, as far as a machine without one can tell: its package emulates the device at import."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
import pytest

from gpen_core.errors import DeviceError
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.restorer import Restorer
from page import zero_gpu
from tests.fakes import FakeCropRestorer, FakeDetector, checkerboard, frontal_face
from tests.page.conftest import ASTRONAUT, MODEL, ROOT

KEY = RuntimeOptions(model=MODEL)


@pytest.fixture
def lent() -> Iterator[zero_gpu.LentGpu]:
    yield zero_gpu.LentGpu(KEY, FakeCropRestorer(checkerboard))
    zero_gpu._NETWORKS.clear()


def test_elsewhere_it_is_not_there() -> None:
    assert not zero_gpu.is_here()
    assert zero_gpu.on_gpu(len) is len
    assert "spaces" not in sys.modules


def test_a_lent_gpu_answers_as_the_network_does(lent: zero_gpu.LentGpu) -> None:
    photo = np.random.default_rng(0).integers(0, 255, (160, 240, 3), dtype=np.uint8)
    detector = FakeDetector(frontal_face(60, 70, 30))
    plain = Restorer(crop_restorer=FakeCropRestorer(checkerboard), detector=detector).restore(photo)
    result = Restorer(crop_restorer=lent, detector=detector).restore(photo)
    np.testing.assert_array_equal(result.photo.pixels, plain.photo.pixels)


def test_without_a_face_no_quota_is_used(lent: zero_gpu.LentGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zero_gpu, "_restore_there", None)
    assert lent.restore_crops([], lambda step: None).crops == ()


class QuotaError(Exception):
    message = "Your quota is used up. <a href='https://example.org'>Sign in</a>"


def test_what_zero_gpu_refuses_is_said_in_its_words(lent: zero_gpu.LentGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise QuotaError

    monkeypatch.setattr(zero_gpu, "_restore_there", refuse)
    crop = np.zeros((256, 256, 3), dtype=np.uint8)
    with pytest.raises(DeviceError, match=r"quota is used up\. Sign in$"):
        lent.restore_crops([crop], lambda step: None)


def test_an_error_there_keeps_its_sentence(lent: zero_gpu.LentGpu) -> None:
    def fail(crop: object) -> None:
        raise DeviceError("The memory is too small; choose smaller tiles.")

    zero_gpu._NETWORKS[KEY] = FakeCropRestorer(fail)  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match="choose smaller tiles"):
        lent.restore_crops([np.zeros((256, 256, 3), dtype=np.uint8)], lambda step: None)


def test_little_time_is_asked_for() -> None:
    crop = np.zeros((256, 256, 3), dtype=np.uint8)
    assert zero_gpu.seconds_for(KEY, [crop], RestoreOptions()) <= 10
    assert zero_gpu.seconds_for(KEY, [crop] * 500, None) == zero_gpu.MAX_S


EMULATED = """
import app
from gpen_core.options import RuntimeOptions
from page import zero_gpu
from page.jobs import Restorers
from page.site import Site

assert hasattr(zero_gpu._restore_there, "zerogpu")
page = app.build_page(Site(Restorers(RuntimeOptions())))
assert page._queue.max_size > 1  # unasked, Gradio takes 1 there
restorer = zero_gpu.load_restorer(RuntimeOptions(model="starter-256"), print)
assert restorer.runtime.device == "cpu" and restorer.crop_restorer.device_name.startswith("cuda")
import spaces.zero.wrappers

spaces.zero.wrappers.forked = True  # as in the process that has the GPU
print(restorer.restore("PHOTO").summary())
"""


@pytest.mark.slow
def test_the_page_is_built_and_restores_under_emulation() -> None:
    if find_spec("spaces") is None:
        pytest.skip("the package spaces is not installed")
    environment = {**os.environ, "SPACES_ZERO_GPU": "true", "SPACES_ZERO_DEVICE_API_URL": "http://127.0.0.1:9/"}
    code = EMULATED.replace("PHOTO", str(ASTRONAUT))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "1 of 1 face restored" in done.stdout and "cuda" in done.stdout
