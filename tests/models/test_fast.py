"""The prepared generator against the plain one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.activations import peak_activation_mib as counted_activation_mib
from gpen_core.faces.align import align_face
from gpen_core.models.checkpoint import load_generator
from gpen_core.models.fast import FastGenerator, peak_activation_mib
from gpen_core.models.gpen import Generator, GeneratorConfig
from gpen_core.models.places import ASSETS
from gpen_core.models.registry import STARTER
from gpen_core.runtime.engine import from_network, to_network
from tests.fakes import ASTRONAUT_LANDMARKS


def random_generator(size: int, channel_multiplier: int = 2, narrow: float = 0.25) -> Generator:
    """With features injected, as in trained ones, and biases that tell a wrong one."""
    generator = Generator(size, channel_multiplier=channel_multiplier, narrow=narrow).eval().requires_grad_(False)
    for name, parameter in generator.named_parameters():
        if name.endswith("noise.weight"):
            parameter.fill_(0.7)
        elif name.endswith("bias"):
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return generator


def random_faces(number: int, size: int) -> torch.Tensor:
    return torch.rand(number, 3, size, size) * 2 - 1


@torch.inference_mode()
def difference(one, other, x) -> float:
    expected = one(x)
    assert expected.abs().max() > 0.5
    return float((other(x) - expected).abs().max())


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize(
    ("size", "channel_multiplier", "narrow"),
    [(8, 2, 0.25), (32, 2, 0.25), (64, 2, 0.125), (128, 1, 0.25), (256, 1, 0.25), (512, 2, 0.125), (1024, 2, 0.125)],
)
def test_it_is_the_same_function(size, channel_multiplier, narrow, is_streamed):
    plain = random_generator(size, channel_multiplier, narrow)
    fast = FastGenerator(plain, is_streamed=is_streamed)
    assert fast.is_streamed == (is_streamed and size >= 32)
    assert difference(plain, fast, random_faces(2 if size <= 256 else 1, size)) < 1e-4


@pytest.mark.parametrize("tile_px", [0, 4, 8, 32, 128, 512])
def test_bands_of_any_height_give_the_same_pixels(tile_px):
    fast = FastGenerator(random_generator(256), is_streamed=True)
    x = random_faces(1, 256)
    assert difference(fast, lambda x: fast(x, tile_px), x) < 1e-5


@pytest.mark.parametrize("tile_px", [16, 64, 128])
def test_tiles_with_the_exact_overlap_give_the_same_pixels(tile_px):
    fast = FastGenerator(random_generator(256, narrow=0.0625), is_streamed=False)
    x = random_faces(2, 256)
    assert fast.exact_overlap_px == 16
    assert difference(fast, lambda x: fast(x, tile_px), x) < 1e-5
    assert difference(fast, lambda x: fast(x, tile_px, 64), x) < 1e-5


def test_the_exact_overlap_is_enough_at_any_size():
    fast = FastGenerator(random_generator(512, narrow=0.0625), is_streamed=False)
    assert difference(fast, lambda x: fast(x, 64), random_faces(1, 512)) < 1e-5


@pytest.mark.parametrize("overlap_px", [0, 8])
def test_tiles_with_a_smaller_overlap_are_near(overlap_px):
    fast = FastGenerator(random_generator(256, narrow=0.0625), is_streamed=False)
    x = random_faces(1, 256)
    expected, answer = fast(x), fast(x, 128, overlap_px)
    far_from_the_edge = list(range(100)) + list(range(156, 256))
    assert torch.allclose(answer[:, :, far_from_the_edge], expected[:, :, far_from_the_edge], atol=1e-5)
    assert (answer - expected).abs().max() > 1e-4


@pytest.mark.parametrize("num_threads", [1, 2, 3, 40])
def test_any_number_of_threads_gives_the_same_pixels_and_is_left_as_it_was(num_threads):
    before = torch.get_num_threads()
    fast = FastGenerator(random_generator(128), is_streamed=True)
    x = random_faces(1, 128)
    expected = fast(x)
    torch.set_num_threads(num_threads)
    try:
        answer = fast(x)
        assert torch.get_num_threads() == num_threads
    finally:
        torch.set_num_threads(before)
    assert torch.allclose(answer, expected, atol=1e-5)


@pytest.mark.parametrize(("narrow", "is_streamed"), [(0.25, True), (0.25, False), (0.0625, False)])
def test_a_faces_pixels_do_not_depend_on_those_restored_with_it(narrow, is_streamed):
    network, x = FastGenerator(random_generator(64, narrow=narrow), is_streamed=is_streamed), random_faces(6, 64)
    together = network(x)
    for count in (1, 2, 3):
        apart = torch.cat([network(part) for part in x.split(count)])
        assert torch.equal(apart, together)


def test_wide_generators_are_streamed_on_a_cpu_and_others_are_not():
    assert FastGenerator(random_generator(64, narrow=0.5)).is_streamed
    assert not FastGenerator(random_generator(64, narrow=0.25)).is_streamed
    assert not FastGenerator(random_generator(64, narrow=0.5), half=torch.bfloat16).is_streamed


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_near(dtype):
    plain = random_generator(64)
    fast = FastGenerator(plain, half=dtype)
    x = random_faces(1, 64)
    assert 0 < difference(plain, fast, x) < (0.1 if dtype is torch.bfloat16 else 0.01)
    assert fast(x).dtype is torch.float32


def test_weights_beyond_half_precisions_range_do_no_harm():
    plain = random_generator(64)
    for conv in plain.generator.convs:
        # Demodulation takes these factors out again, but a plain conversion to half precision does not survive them.
        conv.conv.weight.mul_(1e6)
        conv.conv.modulation.weight.mul_(1e3)
        conv.conv.modulation.bias.mul_(1e3)
    fast = FastGenerator(plain, half=torch.float16)
    assert difference(plain, fast, random_faces(1, 64)) < 0.02


@pytest.mark.parametrize("is_streamed", [True, False])
def test_the_generator_it_was_made_of_is_left_alone(is_streamed):
    plain = random_generator(64)
    before = {key: value.clone() for key, value in plain.state_dict().items()}
    x = random_faces(1, 64)
    fast = FastGenerator(plain, is_streamed=is_streamed)
    fast(x)
    assert all(torch.equal(value, before[key]) for key, value in plain.state_dict().items())


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_real_face_differs_by_less_than_one_level(astronaut, is_streamed):
    plain = load_generator(ASSETS / STARTER.file_name)
    fast = FastGenerator(plain, is_streamed=is_streamed)
    crop = align_face(astronaut, np.array(ASTRONAUT_LANDMARKS), STARTER.template, plain.size)
    x = to_network([crop.pixels], torch.device("cpu"))
    assert difference(plain, fast, x) < 1e-4
    levels = [from_network(network(x))[0].astype(int) for network in (plain, fast)]
    assert np.abs(levels[0] - levels[1]).max() <= 1


@pytest.mark.parametrize(("is_streamed", "tile_px"), [(True, 0), (False, 0), (False, 64)])
def test_the_memory_it_needs_is_known_beforehand(is_streamed, tile_px):
    generator = random_generator(512, narrow=0.25)
    fast = FastGenerator(generator, is_streamed=is_streamed)
    x = random_faces(1, 512)
    counted = counted_activation_mib(lambda: fast(x, tile_px), torch.device("cpu"))
    expected = peak_activation_mib(generator.config, 1, tile_px, is_streamed=is_streamed)
    assert 0.7 * counted < expected < 1.6 * counted


PUBLISHED = {
    256: GeneratorConfig(size=256, channel_multiplier=1, narrow=0.5),
    512: GeneratorConfig(size=512),
    1024: GeneratorConfig(size=1024),
}


@pytest.mark.parametrize(
    ("size", "is_streamed", "batch_size", "tile_px", "bytes_per_number", "counted_mib"),
    [
        (256, False, 1, 0, 4, 64),
        (256, False, 2, 0, 4, 127),
        (256, False, 1, 64, 4, 42),
        (512, False, 1, 0, 4, 507),
        (512, False, 1, 0, 2, 255),
        (512, False, 1, 256, 4, 401),
        (512, False, 1, 64, 4, 217),
        (512, False, 1, 64, 2, 112),
        (1024, False, 1, 0, 4, 1022),
        (1024, False, 1, 64, 4, 325),
        (256, True, 1, 0, 4, 38),
        (512, True, 1, 0, 4, 157),
        (512, True, 2, 0, 4, 160),
        (1024, True, 1, 0, 4, 291),
    ],
)
def test_the_estimated_memory_is_near_what_was_counted(
    monkeypatch, size, is_streamed, batch_size, tile_px, bytes_per_number, counted_mib
):
    """Counted by following every result of torch's operations in one thread."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    estimate = peak_activation_mib(
        PUBLISHED[size], batch_size, tile_px, is_streamed=is_streamed, bytes_per_number=bytes_per_number
    )
    assert 0.85 * counted_mib <= estimate <= 1.35 * counted_mib
