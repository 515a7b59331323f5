"""Which upscaler is taken, what is said where there is none, and one tile through it."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from modelscope.models.cv.super_resolution.rrdbnet_arch import RRDBNet
from torch import nn

from gpen_core.errors import DeviceError, WeightsError
from gpen_core.models.registry import SPECS
from gpen_core.models.rrdbnet import RrdbConfig
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.photo.background import stream_upscaled
from gpen_core.photo.tiling import plan_cores
from gpen_core.restorer import Restorer
from gpen_core.runtime.upscaler import RrdbUpscaler, Upscalers
from tests.fakes import FakeCropRestorer, FakeDetector, identity, use_basicsr


def ignore(progress):
    pass


def small_network(scale: int) -> RRDBNet:
    network = RRDBNet(3, 3, scale=scale, num_feat=8, num_block=1, num_grow_ch=4).eval().requires_grad_(False)
    for parameter in network.parameters():
        parameter.mul_(3)
    return network


@pytest.fixture
def weights(monkeypatch, tmp_path):
    """Files of all upscalers, with random weights under their names."""
    use_basicsr(monkeypatch)
    monkeypatch.setenv("GPEN_WEIGHTS_DIR", str(tmp_path))
    for spec in [spec for spec in SPECS.values() if spec.role == "upscaler"]:
        monkeypatch.setitem(SPECS, spec.name, replace(spec, sha256=None, num_bytes=None))
        torch.save({"params_ema": small_network(spec.scale).state_dict()}, tmp_path / spec.file_name)
    return tmp_path


def get(runtime=None, **options):
    return Upscalers(runtime or RuntimeOptions(device="cpu")).get(RestoreOptions(**options), ignore)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"scale": 2}, "realesrnet-x2"),
        ({"scale": 1.5}, "realesrnet-x2"),
        ({"scale": 4}, "realesrgan-x4plus"),
        ({"scale": 1, "background": "realesrgan-x2plus"}, "realesrgan-x2plus"),
        ({"scale": 1}, None),
        ({"scale": 2, "background": "off"}, None),
    ],
)
def test_auto_takes_what_suits_the_scale(weights, options, name):
    upscaler, notes = get(**options)
    assert (upscaler.name if upscaler else None) == name
    assert all("unverified" in note for note in notes)


def test_without_weights_or_basicsr_a_note_says_what_was_done_instead(weights, monkeypatch):
    (weights / "RealESRGAN_x4plus.pth").unlink()
    upscaler, _ = get(scale=4)
    assert upscaler.name == "realesrnet-x2"
    monkeypatch.setitem(sys.modules, "basicsr", None)
    for name in ("basicsr.archs", "basicsr.archs.rrdbnet_arch"):
        monkeypatch.delitem(sys.modules, name)
    upscaler, notes = get(scale=4)
    assert upscaler is None
    assert "only resampled (Lanczos)" in notes[-1] and "basicsr" in notes[-1]
    upscaler, notes = get(scale=4, background="realesrgan-x4plus")
    assert upscaler is None
    assert "RealESRGAN_x4plus.pth" in notes[-1]
    monkeypatch.setenv("GPEN_WEIGHTS_DIR", str(weights / "nowhere"))
    upscaler, notes = get(scale=2)
    assert upscaler is None
    assert "`python -m gpen_core download realesrnet-x2`" in notes[-1]


def test_a_file_of_ones_own_may_have_any_shape(weights, tmp_path):
    path = tmp_path / "mine.pth"
    torch.save(small_network(1).state_dict(), path)
    runtime = RuntimeOptions(device="cpu", upscaler_weights=str(path))
    upscaler, notes = get(runtime, scale=2)
    assert (upscaler.name, upscaler.scale, upscaler.multiple_of) == ("mine", 1, 4)
    assert str(path) in notes[0]
    torch.save({"weight": torch.zeros(3)}, path)
    with pytest.raises(WeightsError, match=r"mine\.pth is not an RRDBNet"):
        get(runtime, scale=2)


@pytest.mark.parametrize("scale", [2, 4])
def test_rrdbnet_with_its_exact_halo_gives_the_untiled_result(scale, astronaut):
    network = small_network(scale)
    config = RrdbConfig(scale=scale, num_features=8, num_growth=4, num_blocks=1)
    upscaler = RrdbUpscaler("small", config, lambda: network, torch.device("cpu"), runtime=RuntimeOptions())
    pixels = astronaut[60:150, 170:271]

    def levels(core_px, halo_px):
        plan = plan_cores(101, 90, core_px, halo_px, multiple_of=config.multiple_of)
        return np.concatenate([band.copy() for _, band in stream_upscaled(pixels, upscaler, plan, ignore)])

    untiled = levels(0, 0)
    assert np.ptp(untiled) > 10
    for core_px in (16, 30, 48, 64):
        assert np.abs(levels(core_px, config.halo_px) - untiled).max() / 255 < 1e-5
    assert np.abs(levels(16, 4) - untiled).max() / 255 > 1e-5


class Boom(nn.Module):
    def __init__(self, error: Exception | None) -> None:
        super().__init__()
        self.error = error

    def forward(self, x):
        if self.error:
            raise self.error
        return torch.full((1, 3, x.shape[2] * 2, x.shape[3] * 2), float("nan"))


def boom(error: Exception | None) -> RrdbUpscaler:
    config = RrdbConfig(scale=2, num_features=8, num_growth=4, num_blocks=1)
    return RrdbUpscaler("boom", config, lambda: Boom(error), torch.device("cpu"), runtime=RuntimeOptions())


def test_failures_have_types_that_tell_them_apart():
    tile = np.zeros((8, 8, 3), np.uint8)
    with pytest.raises(MemoryError):
        boom(torch.OutOfMemoryError("CUDA out of memory")).upscale_tile(tile)
    with pytest.raises(DeviceError, match=r"boom failed on cpu \(no kernel\)"):
        boom(RuntimeError("no kernel\nat line 3")).upscale_tile(tile)
    with pytest.raises(DeviceError, match="not finite"):
        boom(None).upscale_tile(tile)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("no kernel"), None])
def test_a_result_whose_upscaler_failed_says_so_and_is_what_it_says(error, astronaut):
    subject = Restorer(detector=FakeDetector(), crop_restorer=FakeCropRestorer(identity), upscaler=boom(error))
    result = subject.restore(astronaut[:101, :77], RestoreOptions(scale=2))
    assert result.photo.pixels.shape == (202, 154, 3)
    np.testing.assert_array_equal(result.photo.pixels, result.before.pixels)
    assert any("only resampled (Lanczos) to 154 x 202 px: boom" in note for note in result.notes)
    assert result.to_report()["background"]["upscaler"] is None
    assert "only resampled" in result.summary()


def test_the_result_names_its_upscaler_and_tiles_and_compares_with_the_plain_photo(weights, astronaut):
    subject = Restorer(
        runtime=RuntimeOptions(device="cpu"), detector=FakeDetector(), crop_restorer=FakeCropRestorer(identity)
    )
    options = RestoreOptions(scale=2, tile_px=32, overlap_px=16)
    result = subject.restore(astronaut[60:150, 170:271], options)
    assert result.photo.pixels.shape == (180, 202, 3)
    background = result.to_report()["background"]
    assert background["upscaler"] == "realesrnet-x2"
    assert background["tile"]["tile_px"] == 32 and background["tile"]["num_tiles"] > 4
    assert any("overlap smaller than exact" in note for note in result.notes)
    assert np.abs(result.before.pixels.astype(int) - result.photo.pixels).mean() > 1
    assert "enlarged by realesrnet-x2" in result.summary()
