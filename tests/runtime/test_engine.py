from __future__ import annotations

import gc
import threading
import time
import weakref

import numpy as np
import pytest
import torch

from gpen_core.errors import DeviceError, WeightsError
from gpen_core.models.fast import FastGenerator
from gpen_core.models.gpen import Generator
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.runtime import ladder
from gpen_core.runtime.device import Placement
from gpen_core.runtime.engine import Engine, fast_generator, from_network, to_network
from gpen_core.runtime.networks import GeneratorSource
from tests.fakes import FakeSource

SIZE = 16
CPU = torch.device("cpu")
OTHER = torch.device("meta")
"""Stands for a GPU: a device that is not the CPU and never gives an answer."""


def engine(source, *, precision: str = "fp32", device: torch.device = CPU, **runtime) -> Engine:
    return Engine(
        source,
        template="ffhq",
        model_name="test",
        strength_coefficients=None,
        placement=Placement(device=device, precision=precision),
        runtime=RuntimeOptions(**runtime),
    )


def crops(number: int, size: int = SIZE) -> list[np.ndarray]:
    return list(np.random.default_rng(number).integers(0, 256, (number, size, size, 3), np.uint8))


def ignore(progress) -> None:
    pass


def unchanged(x):
    return x.clone()


def small_generator() -> Generator:
    generator = Generator(SIZE, style_dim=16, narrow=1 / 16).requires_grad_(False).eval()
    for name, parameter in generator.named_parameters():
        if name.endswith("noise.weight"):
            torch.nn.init.constant_(parameter, 0.7)
    return generator


def source_of(generator: Generator, tmp_path) -> GeneratorSource:
    path = tmp_path / "generator.pth"
    path.write_bytes(b"")
    return GeneratorSource(generator, path, lambda: generator)


def test_levels_survive_the_way_in_and_out():
    every_level = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
    assert to_network([every_level], CPU).min() == -1
    assert to_network([every_level], CPU).max() == 1
    np.testing.assert_array_equal(from_network(to_network([every_level], CPU))[0], every_level)


def test_answers_are_rounded_and_clamped():
    y = torch.tensor([-3.0, -1.0, 0.0, 0.5, 1.0, 9.0]).view(1, 1, 1, 6).expand(1, 3, 1, 6)
    assert from_network(y)[0][0, :, 0].tolist() == [0, 0, 128, 191, 255, 255]


def test_crops_come_back_in_order_and_in_batches():
    source = FakeSource(unchanged)
    sent, heard = crops(10), []
    ran = engine(source).restore_crops(sent, heard.append)
    np.testing.assert_array_equal(np.stack(ran.crops), np.stack(sent))
    assert [call.batch_size for call in source.calls] == [4, 4, 2]
    assert [(step.stage, step.done, step.total) for step in heard] == [("restore", n, 10) for n in (0, 4, 8, 10)]
    assert (ran.precision, ran.compiled, ran.notes, ran.device, ran.tile_px) == ("fp32", False, (), None, 0)
    assert ran.precisions == ("fp32",) * 10


def test_no_crops_no_call():
    source = FakeSource(unchanged)
    assert engine(source).restore_crops([], ignore).crops == ()
    assert source.calls == []


def test_a_crop_without_numbers_fails_alone():
    def poison(x):
        y = x.clone()
        y[1, 0, 3, 3] = torch.nan
        return y

    ran = engine(FakeSource(poison)).restore_crops(crops(3), ignore)
    assert [crop is None for crop in ran.crops] == [False, True, False]


def test_only_faces_that_half_precision_breaks_are_repeated_in_full_and_named():
    source = FakeSource(unchanged)

    def break_the_second(x):
        y = x.clone()
        if source.calls[-1].half is not None and len(x) > 1:
            y[1] *= torch.inf
        return y

    source.answer = break_the_second
    sent, shared = crops(3), engine(source, precision="bf16")
    ran = shared.restore_crops(sent, ignore)
    np.testing.assert_array_equal(np.stack(ran.crops), np.stack(sent))
    assert ran.precision == "bf16"
    assert ran.precisions == ("bf16", "fp32", "bf16")
    assert ran.notes == ("bf16 gave a broken result for 1 face, which was repeated in fp32.",)
    assert [(call.batch_size, call.half) for call in source.calls] == [(3, torch.bfloat16), (1, None)]
    # The network in full precision was built for this alone, and does not stay.
    shared.restore_crops(sent, ignore)
    assert source.num_built == 3


def test_half_precision_of_the_real_generator_stays_near_full(tmp_path):
    generator = small_generator()
    full = engine(source_of(generator, tmp_path)).restore_crops(crops(2), ignore).crops
    half = engine(source_of(generator, tmp_path), precision="bf16").restore_crops(crops(2), ignore).crops
    assert np.abs(np.stack(full).astype(int) - np.stack(half)).max() <= 6


class NarrowDevice:
    """A network that runs out of memory beyond a batch or a tile."""

    def __init__(self, *, most_crops=64, largest_tile_px=4096, error=torch.OutOfMemoryError):
        self.most_crops = most_crops
        self.largest_tile_px = largest_tile_px
        self.error = error
        self.source = FakeSource(self.answer, size=256)
        self.tensors: list[weakref.ref] = []

    def answer(self, x):
        call = self.source.calls[-1]
        wasted = torch.zeros(1000)
        self.tensors.append(weakref.ref(wasted))
        if call.batch_size > self.most_crops or (call.tile_px or self.source.size) > self.largest_tile_px:
            raise self.error("CUDA out of memory")
        if call.device == OTHER.type:
            raise self.error("CUDA out of memory")
        return x.clone()

    @property
    def tried(self) -> list[tuple[int, int]]:
        return [(call.batch_size, call.tile_px) for call in self.source.calls]


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError])
def test_short_memory_makes_smaller_batches_then_tiles_and_is_said(error):
    device = NarrowDevice(most_crops=1, largest_tile_px=128, error=error)
    shared = engine(device.source)
    sent = crops(3, 256)
    for _ in range(2):
        # The second call begins at the top again: memory may be free by then.
        device.source.calls.clear()
        ran = shared.restore_crops(sent, ignore)
        np.testing.assert_array_equal(np.stack(ran.crops), np.stack(sent))
        assert device.tried == [(3, 0), (2, 0), (1, 0), (1, 128), (1, 128), (1, 128)]
        assert ran.notes == (
            "Memory was short: faces were restored 2 at a time.",
            "Memory was short: faces were restored 1 at a time.",
            "Memory was short: the network ran in tiles of 128 px.",
        )
        assert (ran.tile_px, ran.overlap_px) == (128, 24)


def test_what_fits_no_device_runs_on_the_cpu_and_that_is_said():
    device = NarrowDevice()
    shared = engine(device.source, device=OTHER, precision="bf16", batch_size=2)
    sent = crops(3, 256)
    for _ in range(2):
        device.source.calls.clear()
        ran = shared.restore_crops(sent, ignore)
        np.testing.assert_array_equal(np.stack(ran.crops), np.stack(sent))
        assert device.tried == [(2, 0), (1, 0), (1, 128), (1, 64), (1, 0), (1, 0), (1, 0)]
        assert [call.half for call in device.source.calls[-4:]] == [torch.bfloat16, None, None, None]
        assert ran.notes[-1] == "The memory of meta was too small: faces were restored on the CPU."
        assert (ran.device, ran.precision) == ("cpu", "fp32")


def test_memory_too_short_for_the_smallest_step_is_an_error_for_people():
    device = NarrowDevice(largest_tile_px=32)
    with pytest.raises(DeviceError, match="One face of 256 px does not fit into the memory of cpu") as caught:
        engine(device.source).restore_crops(crops(2, 256), ignore)
    assert caught.value.__context__ is None


def test_memory_is_flat_after_steps_down_and_failures():
    narrow, hopeless = NarrowDevice(most_crops=1), NarrowDevice(largest_tile_px=32)
    works, fails = engine(narrow.source), engine(hopeless.source)
    for number in (1, 5, 2, 4):
        works.restore_crops(crops(number, 256), ignore)
        with pytest.raises(DeviceError):
            fails.restore_crops(crops(number, 256), ignore)
    tensors = narrow.tensors + hopeless.tensors
    assert len(tensors) > 30
    assert not [tensor for tensor in tensors if tensor() is not None]


def test_an_error_that_is_not_about_memory_is_not_taken_for_one():
    source = FakeSource(unchanged)

    def fail(x):
        raise RuntimeError("shapes do not match")

    source.answer = fail
    with pytest.raises(RuntimeError, match="shapes do not match"):
        engine(source).restore_crops(crops(2), ignore)
    assert len(source.calls) == 1


@pytest.mark.parametrize(
    ("free_mib", "expected"),
    [
        (None, (4, 0)),
        (1000, (4, 0)),
        (300, (2, 0)),
        (150, (1, 0)),
        (40, (1, 128)),
        (1, (1, 64)),
    ],
)
def test_the_automatic_tile_follows_free_memory(monkeypatch, free_mib, expected):
    """One untiled crop of 256 px needs 64 MiB, and six tenths of what is free may be used."""
    monkeypatch.setattr(ladder, "free_memory_mib", lambda device: free_mib)
    source = FakeSource(unchanged, size=256)
    ran = engine(source).restore_crops(crops(4, 256), ignore)
    assert (source.calls[0].batch_size, source.calls[0].tile_px) == expected
    assert ran.tile_px == expected[1]
    assert ran.notes == ()


@pytest.mark.parametrize(
    ("tile_px", "overlap_px", "run_with", "told"),
    [
        (0, "auto", (0, None), (0, 0)),
        (64, "auto", (64, None), (64, 24)),
        (128, 24, (128, None), (128, 24)),
        (128, 64, (128, None), (128, 24)),
        (128, 8, (128, 8), (128, 8)),
        (256, 8, (0, None), (0, 0)),
        (1024, "auto", (0, None), (0, 0)),
    ],
)
def test_tiles_run_as_asked_and_a_small_overlap_is_called_approximate(tile_px, overlap_px, run_with, told):
    source = FakeSource(unchanged, size=256)
    options = RestoreOptions(tile_px=tile_px, overlap_px=overlap_px)
    ran = engine(source).restore_crops(crops(1, 256), ignore, options)
    assert (source.calls[0].tile_px, source.calls[0].overlap_px) == run_with
    assert (ran.tile_px, ran.overlap_px) == told
    assert [note for note in ran.notes if "approximate" in note] == list(ran.notes)
    assert len(ran.notes) == (run_with[1] is not None)


def test_a_streamed_network_takes_rows_as_asked_and_is_always_exact():
    source = FakeSource(unchanged, size=256, is_streamed=True)
    ran = engine(source).restore_crops(crops(1, 256), ignore, RestoreOptions(tile_px=64, overlap_px=8))
    assert (source.calls[0].tile_px, source.calls[0].overlap_px) == (64, None)
    assert (ran.tile_px, ran.overlap_px, ran.notes) == (64, 0, ())


def test_a_streamed_network_that_does_not_fit_is_not_tried_in_tiles():
    device = NarrowDevice(most_crops=0)
    device.source.is_streamed = True
    with pytest.raises(DeviceError):
        engine(device.source).restore_crops(crops(2, 256), ignore)
    assert device.tried == [(2, 0), (1, 0)]


def test_one_call_at_a_time():
    running = []

    def watch(x):
        running.append(1)
        assert len(running) == 1
        time.sleep(0.02)
        running.pop()
        return x.clone()

    shared = engine(FakeSource(watch))
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


def wait_until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_an_idle_network_is_dropped_and_comes_back(tmp_path):
    generator = small_generator()
    path = tmp_path / "generator.pth"
    torch.save(generator.state_dict(), path)
    built = []

    def load():
        again = small_generator()
        again.load_state_dict(torch.load(path))
        built.append(weakref.ref(again))
        return again

    shared = engine(GeneratorSource(load(), path, load), unload_after_s=0.5)
    first = shared.restore_crops(crops(2), ignore).crops
    assert shared.is_loaded
    wait_until(lambda: not shared.is_loaded)
    gc.collect()
    assert built[0]() is None
    np.testing.assert_array_equal(np.stack(shared.restore_crops(crops(2), ignore).crops), np.stack(first))
    assert shared.is_loaded
    assert len(built) == 2
    shared.unload()
    path.write_bytes(b"something else")
    with pytest.raises(WeightsError, match="was changed while the program ran"):
        shared.restore_crops(crops(1), ignore)


def test_a_network_that_is_never_idle_stays():
    source = FakeSource(lambda x: (time.sleep(0.1), x.clone())[1])
    shared = engine(source, unload_after_s=0.3, batch_size=1)
    shared.restore_crops(crops(5), ignore)
    assert shared.is_loaded
    assert source.num_built == 1


def test_fast_generator_gives_the_generators_pixels():
    generator = Generator(64, style_dim=16, narrow=1 / 16).requires_grad_(False).eval()
    x = torch.rand(2, 3, 64, 64) * 2 - 1
    restore = fast_generator(generator.state_dict())
    y = restore(x)
    assert (y.shape, y.dtype, y.device) == (x.shape, torch.float32, CPU)
    torch.testing.assert_close(y, generator(x), rtol=0, atol=1e-4)
    half = fast_generator(generator.state_dict(), half=torch.bfloat16)(x)
    assert half.dtype == torch.float32
    assert 0 < (half - y).abs().max() < 0.1
    with pytest.raises(WeightsError):
        fast_generator({})


@pytest.mark.parametrize(
    ("size", "narrow", "half", "is_streamed"),
    [
        (64, 1 / 2, None, True),
        (64, 1 / 4, None, False),
        (64, 1 / 2, torch.bfloat16, False),
        (64, 1 / 16, None, False),
        (256, 1 / 16, None, False),
    ],
)
def test_a_generator_is_built_as_its_source_promises(tmp_path, size, narrow, half, is_streamed):
    source = source_of(Generator(size, style_dim=16, narrow=narrow), tmp_path)
    network = source.build(CPU, half)
    assert isinstance(network, FastGenerator)
    assert network.is_streamed == is_streamed == (not source.is_compilable(CPU, half))
    assert network.exact_overlap_px == source.exact_overlap_px(CPU, half)
    assert not network.training
    assert not any(parameter.requires_grad for parameter in network.parameters())
