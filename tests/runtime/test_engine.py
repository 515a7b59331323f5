from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import torch
from torch import nn

from gpen_core.errors import DeviceError
from gpen_core.models.gpen import Generator
from gpen_core.runtime import compile_cache
from gpen_core.runtime.compile_cache import CompileCache
from gpen_core.runtime.device import Placement
from gpen_core.runtime.engine import Engine, from_network, to_network

SIZE = 16
CPU = torch.device("cpu")


def engine(network: nn.Module, *, precision: str = "fp32", compile: bool = False, batch_size: int = 4) -> Engine:
    return Engine(
        network,
        size=SIZE,
        template="ffhq",
        model_name="test",
        strength_coefficients=None,
        placement=Placement(device=CPU, precision=precision),
        compile=compile,
        batch_size=batch_size,
    )


def crops(number: int) -> list[np.ndarray]:
    return list(np.random.default_rng(number).integers(0, 256, (number, SIZE, SIZE, 3), np.uint8))


def ignore(done: int) -> None:
    pass


class Network(nn.Module):
    """Answers what `answer` makes of its input and remembers the batch sizes it saw."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer
        self.batch_sizes: list[int] = []

    def forward(self, x):
        self.batch_sizes.append(x.shape[0])
        return self.answer(x)


def test_levels_survive_the_way_in_and_out():
    every_level = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
    assert to_network([every_level], CPU).min() == -1
    assert to_network([every_level], CPU).max() == 1
    np.testing.assert_array_equal(from_network(to_network([every_level], CPU))[0], every_level)


def test_answers_are_rounded_and_clamped():
    y = torch.tensor([-3.0, -1.0, 0.0, 0.5, 1.0, 9.0]).view(1, 1, 1, 6).expand(1, 3, 1, 6)
    assert from_network(y)[0][0, :, 0].tolist() == [0, 0, 128, 191, 255, 255]


def test_crops_come_back_in_order_and_in_batches():
    network = Network(lambda x: x)
    sent, heard = crops(10), []
    ran = engine(network).restore_crops(sent, heard.append)
    for before, after in zip(sent, ran.crops, strict=True):
        np.testing.assert_array_equal(before, after)
    assert network.batch_sizes == [4, 4, 2]
    assert heard == [0, 4, 8, 10]
    assert (ran.precision, ran.compiled, ran.notes) == ("fp32", False, ())


def test_no_crops_no_call():
    network = Network(lambda x: x)
    assert engine(network).restore_crops([], ignore).crops == ()
    assert network.batch_sizes == []


def test_a_crop_without_numbers_fails_alone():
    def poison(x):
        y = x.clone()
        y[1, 0, 3, 3] = torch.nan
        return y

    ran = engine(Network(poison)).restore_crops(crops(3), ignore)
    assert [crop is None for crop in ran.crops] == [False, True, False]


def test_half_precision_that_breaks_is_repeated_in_full_and_said():
    def break_under_autocast(x):
        return x * torch.inf if torch.is_autocast_enabled("cpu") else x

    sent = crops(2)
    ran = engine(Network(break_under_autocast), precision="bf16").restore_crops(sent, ignore)
    np.testing.assert_array_equal(ran.crops[0], sent[0])
    assert ran.notes == ("bf16 gave a broken result; repeated in fp32.",)


def test_half_precision_of_the_real_generator_stays_near_full():
    generator = Generator(SIZE, style_dim=16, narrow=1 / 16)
    full = engine(generator).restore_crops(crops(2), ignore).crops
    half = engine(generator, precision="bf16").restore_crops(crops(2), ignore).crops
    assert np.abs(np.stack(full).astype(int) - np.stack(half)).max() <= 6


def test_short_memory_makes_smaller_batches_and_is_said():
    def large_batches_do_not_fit(x):
        if x.shape[0] > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return x

    sent = crops(3)
    ran = engine(Network(large_batches_do_not_fit)).restore_crops(sent, ignore)
    np.testing.assert_array_equal(np.stack(ran.crops), np.stack(sent))
    assert "faces were restored 1 at a time" in ran.notes[-1]


def test_memory_too_short_for_one_face_is_an_error_for_people():
    def nothing_fits(x):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(DeviceError, match="does not fit into the memory of cpu"):
        engine(Network(nothing_fits)).restore_crops(crops(2), ignore)


def test_one_call_at_a_time():
    running = []

    def watch(x):
        running.append(1)
        assert len(running) == 1
        time.sleep(0.02)
        running.pop()
        return x

    shared = engine(Network(watch))
    failures = []

    def work():
        try:
            shared.restore_crops(crops(4), ignore)
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_missing_compiler_means_a_plain_run_and_a_note(monkeypatch):
    monkeypatch.setattr(compile_cache.shutil, "which", lambda name: None)
    sent = crops(1)
    ran = engine(Network(lambda x: x), compile=True).restore_crops(sent, ignore)
    np.testing.assert_array_equal(ran.crops[0], sent[0])
    assert not ran.compiled
    assert "no C++ compiler" in ran.notes[0]


def test_a_compilation_that_fails_at_the_first_call_means_a_plain_run_and_a_note(monkeypatch):
    from torch._dynamo.exc import Unsupported

    def fail_late(function, **options):
        def run(x):
            raise Unsupported("graph break in test")

        return run

    monkeypatch.setattr(torch, "compile", fail_late)
    monkeypatch.setattr(compile_cache, "missing_toolchain", lambda device: "")
    ran = engine(Network(lambda x: x), compile=True).restore_crops(crops(1), ignore)
    assert ran.crops[0] is not None
    assert not ran.compiled
    assert "graph break in test" in ran.notes[0]


def test_compiled_batches_have_few_sizes(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    monkeypatch.setattr(compile_cache, "missing_toolchain", lambda device: "")
    network = Network(lambda x: x)
    shared = engine(network, compile=True)
    for number in (1, 2, 3, 4, 5, 7):
        sent = crops(number)
        ran = shared.restore_crops(sent, ignore)
        np.testing.assert_array_equal(np.stack(ran.crops), np.stack(sent))
        assert ran.compiled
    assert set(network.batch_sizes) == {1, 2, 4}
    assert shared.num_compilations == 3


@pytest.mark.slow
def test_the_compiled_generator_gives_the_same_pixels():
    generator = Generator(SIZE, style_dim=16, narrow=1 / 16).eval().requires_grad_(False)
    cache = CompileCache(generator, CPU, enabled=True)
    x = torch.rand(2, 3, SIZE, SIZE) * 2 - 1
    with torch.inference_mode():
        assert (cache(x) - generator(x)).abs().max() < 1e-4
    assert cache.fallback_reason == ""
    assert cache.num_compilations == 1
