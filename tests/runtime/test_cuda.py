"""What only a CUDA device can show: `pytest -m gpu`."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from gpen_core.models.gpen import Generator
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.runtime.compile_cache import missing_toolchain
from gpen_core.runtime.device import resolve_placement
from gpen_core.runtime.engine import Engine
from gpen_core.runtime.networks import GeneratorSource

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]
SIZE = 256
WHOLE = RestoreOptions(tile_px=0)


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    generator = Generator(SIZE, narrow=1 / 4)
    for name, parameter in generator.named_parameters():
        if name.endswith("noise.weight"):
            torch.nn.init.constant_(parameter, 0.7)
    path = tmp_path_factory.mktemp("weights") / "generator.pth"
    torch.save(generator.state_dict(), path)
    return path


def engine(weights: Path, **runtime) -> Engine:
    def load() -> Generator:
        generator = Generator(SIZE, narrow=1 / 4)
        generator.load_state_dict(torch.load(weights, weights_only=True))
        return generator

    options = RuntimeOptions(**{"device": "cuda", "precision": "fp32", **runtime})
    return Engine(
        GeneratorSource(load(), weights, load),
        template="ffhq",
        model_name="test",
        strength_coefficients=None,
        placement=resolve_placement(options),
        runtime=options,
    )


def crops(number: int) -> list[np.ndarray]:
    return list(np.random.default_rng(number).integers(0, 256, (number, SIZE, SIZE, 3), np.uint8))


def ignore(progress) -> None:
    pass


def stacked(ran) -> np.ndarray:
    return np.stack(ran.crops).astype(int)


def test_full_precision_gives_the_cpus_pixels(weights):
    on_cpu = stacked(engine(weights, device="cpu").restore_crops(crops(3), ignore, WHOLE))
    on_gpu = stacked(engine(weights).restore_crops(crops(3), ignore, WHOLE))
    assert np.abs(on_cpu - on_gpu).max() <= 1


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_half_precision_stays_near(weights, precision):
    full = stacked(engine(weights).restore_crops(crops(3), ignore, WHOLE))
    ran = engine(weights, precision=precision).restore_crops(crops(3), ignore, WHOLE)
    assert ran.precision == precision
    assert np.abs(stacked(ran) - full).mean() < 1


@pytest.mark.skipif(bool(missing_toolchain(torch.device("cuda"))), reason="no Triton here")
def test_compiled_graphs_serve_every_thread_with_the_same_pixels(weights):
    plain = {number: stacked(engine(weights).restore_crops(crops(number), ignore, WHOLE)) for number in (1, 4, 5)}
    shared = engine(weights, compile=True)
    failures = []

    def work():
        for number in (1, 4, 5):
            ran = shared.restore_crops(crops(number), ignore, WHOLE)
            if not ran.compiled or np.abs(stacked(ran) - plain[number]).max() > 1:
                failures.append((number, ran.notes))

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert failures == []
    assert (shared.compile_counts.compiled, shared.compile_counts.plain_calls) == (2, 0)


def test_memory_is_flat_over_200_calls_and_gone_when_unloaded(weights):
    before = torch.cuda.memory_allocated()
    shared = engine(weights)
    shared.restore_crops(crops(4), ignore)
    loaded = torch.cuda.memory_allocated()
    assert loaded > before
    for number in range(200):
        shared.restore_crops(crops(number % 5 + 1), ignore)
    assert torch.cuda.memory_allocated() == loaded
    shared.unload()
    assert torch.cuda.memory_allocated() == before


def test_a_device_that_is_really_full_answers_with_smaller_steps(weights):
    expected = stacked(engine(weights).restore_crops(crops(16), ignore, WHOLE))
    shared = engine(weights, batch_size=16)
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    try:
        # Enough for the weights and a few crops, not for sixteen.
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 200 * 2**20) / total)
        ran = shared.restore_crops(crops(16), ignore, WHOLE)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert np.abs(stacked(ran) - expected).max() <= 1
    assert any("Memory was short" in note for note in ran.notes)


def test_tf32_is_off_in_full_precision_only_while_it_runs(weights):
    before = torch.backends.cudnn.allow_tf32
    seen = []
    shared = engine(weights)
    shared._networks.get(torch.device("cuda"), None).register_forward_pre_hook(
        lambda *_: seen.append(torch.backends.cudnn.allow_tf32)
    )
    shared.restore_crops(crops(1), ignore)
    assert seen == [False]
    assert torch.backends.cudnn.allow_tf32 == before
