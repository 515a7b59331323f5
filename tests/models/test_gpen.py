"""The generator against the reference implementation and the published checkpoints' keys."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from modelscope.models.cv.image_portrait_enhancement.gpen import FullGenerator

from gpen_core.models.checkpoint import build_generator
from gpen_core.models.gpen import Generator
from gpen_core.models.layers import resample_kernel

DATA = Path(__file__).parent.parent / "data"
PUBLISHED = {
    "GPEN-BFR-256": (256, 1, 0.5),
    "GPEN-BFR-512": (512, 2, 1.0),
    "GPEN-BFR-1024": (1024, 2, 1.0),
    "GPEN-BFR-2048": (2048, 2, 1.0),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_keys_and_shapes_are_those_of_the_published_checkpoints(name):
    size, channel_multiplier, narrow = PUBLISHED[name]
    with torch.device("meta"):
        generator = Generator(size, channel_multiplier=channel_multiplier, narrow=narrow)
    ours = {key: list(value.shape) for key, value in generator.state_dict().items()}
    assert ours == json.loads((DATA / "state_dict_keys.json").read_text())[name]


@pytest.mark.parametrize("name", ["gpen_size64", "gpen_size128_cm2"])
def test_output_equals_the_stored_reference(name):
    stored = np.load(DATA / f"{name}.npz")
    state = {key.removeprefix("state/"): torch.from_numpy(stored[key]) for key in stored if key.startswith("state/")}
    generator = build_generator(state)
    with torch.inference_mode():
        output = generator(torch.from_numpy(stored["input"]))
    # 5e-6 measured: sums in another order, nothing more.
    np.testing.assert_allclose(output.numpy(), stored["output"], atol=1e-4, rtol=0)


@pytest.mark.parametrize(("size", "channel_multiplier", "narrow"), [(256, 1, 0.5), (512, 2, 0.125)])
def test_output_equals_the_reference_with_random_weights(size, channel_multiplier, narrow):
    reference = FullGenerator(size, 512, 8, channel_multiplier, narrow=narrow).eval()
    for key, parameter in reference.named_parameters():
        if key.endswith("noise.weight"):
            # Fresh models inject nothing; trained ones do.
            parameter.data.normal_()
    ours = Generator(size, channel_multiplier=channel_multiplier, narrow=narrow).eval()
    ours.load_state_dict(reference.state_dict(), strict=True)
    reference.load_state_dict(ours.state_dict(), strict=True)
    x = torch.rand(2, 3, size, size) * 2 - 1
    with torch.inference_mode():
        expected, _ = reference(x)
        first, second = ours(x), ours(x)
    assert expected.abs().max() > 0.5
    assert (first - expected).abs().max() < 1e-4
    assert torch.equal(first, second)


def test_each_sample_of_a_batch_is_independent():
    generator = Generator(32, style_dim=16, narrow=1 / 16).eval()
    x = torch.rand(3, 3, 32, 32) * 2 - 1
    with torch.inference_mode():
        batch = generator(x)
        alone = torch.cat([generator(sample[None]) for sample in x])
    assert torch.allclose(batch, alone, atol=1e-5)


def test_resampling_kernels_keep_brightness():
    assert resample_kernel(1.0).sum() == pytest.approx(1.0)
    assert resample_kernel(4.0).sum() == pytest.approx(4.0)
    generator = Generator(32, style_dim=16, narrow=1 / 16)
    assert torch.equal(generator.state_dict()["ecd1.0.0.kernel"], resample_kernel(1.0))
    assert torch.equal(generator.state_dict()["generator.to_rgbs.0.upsample.kernel"], resample_kernel(4.0))


@pytest.mark.parametrize("size", [0, 4, 100, 257])
def test_a_size_that_is_no_power_of_two_is_refused(size):
    with pytest.raises(ValueError, match=str(size)):
        Generator(size)
