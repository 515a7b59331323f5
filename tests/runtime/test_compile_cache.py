from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from gpen_core.models.fast import FastGenerator
from gpen_core.models.gpen import Generator
from gpen_core.options import RuntimeOptions
from gpen_core.restorer import Restorer
from gpen_core.runtime import compile_cache
from gpen_core.runtime.compile_cache import CompileCache, ProgramKey, missing_toolchain
from gpen_core.runtime.device import Placement
from gpen_core.runtime.engine import Engine, fast_generator
from tests.fakes import FakeDetector, FakeSource, frontal_face

SIZE = 32
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def disk_cache(monkeypatch, tmp_path):
    """Both are put back afterwards, also where torch or we set them meanwhile."""
    monkeypatch.setenv("GPEN_CACHE", str(tmp_path / "gpen"))
    monkeypatch.setenv(compile_cache.DISK_CACHE_VARIABLE, str(tmp_path / "torch"))
    return tmp_path


@pytest.fixture
def quick_compiler(monkeypatch):
    """torch.compile as it is, with its limits and errors, but without the minutes of its code generator."""
    compile = torch.compile

    def capture_only(function, *, mode, **options):
        return compile(function, backend="eager", **options)

    capture_only.__signature__ = compile_cache.inspect.signature(compile)
    monkeypatch.setattr(torch, "compile", capture_only)
    monkeypatch.setattr(compile_cache, "missing_toolchain", lambda device: "")
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def older_torch(quick_compiler, monkeypatch):
    """Before 2.14 torch could not keep compilations apart."""
    compile = torch.compile

    def without_isolation(function, *, fullgraph, dynamic, mode):
        return compile(function, fullgraph=fullgraph, dynamic=dynamic, mode=mode)

    monkeypatch.setattr(torch, "compile", without_isolation)


@pytest.fixture
def fake_compiler(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    monkeypatch.setattr(compile_cache, "missing_toolchain", lambda device: "")


def num_captured() -> int:
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def key(batch_size: int = 1, tile_px: int = 0) -> ProgramKey:
    return ProgramKey(
        model="test", size=SIZE, precision="fp32", batch_size=batch_size, tile_px=tile_px, overlap_px=0, device="cpu"
    )


def engine(answer, *, is_streamed: bool = False) -> tuple[Engine, FakeSource]:
    source = FakeSource(answer, size=SIZE, is_streamed=is_streamed)
    return Engine(
        source,
        template="ffhq",
        model_name="test",
        strength_coefficients=None,
        placement=Placement(device=CPU, precision="fp32"),
        runtime=RuntimeOptions(compile=True),
    ), source


def crops(number: int) -> list[np.ndarray]:
    return list(np.random.default_rng(number).integers(0, 256, (number, SIZE, SIZE, 3), np.uint8))


def ignore(progress) -> None:
    pass


def tiny_weights(folder: Path) -> Path:
    path = folder / "tiny.pth"
    torch.save(Generator(SIZE, style_dim=16, narrow=1 / 16).state_dict(), path)
    return path


def test_ten_photos_with_one_to_five_faces_compile_at_most_twice(quick_compiler, tmp_path):
    detector = FakeDetector()
    runtime = RuntimeOptions(weights=str(tiny_weights(tmp_path)), compile=True, device="cpu")
    subject = Restorer(runtime=runtime, detector=detector)
    before, stages = num_captured(), []
    for number in range(10):
        detector.faces = [frontal_face(40 + 60 * index, 50, 24) for index in range(number % 5 + 1)]
        photo = np.full((100 + 7 * number, 340 + 11 * number, 3), 90, np.uint8)
        result = subject.restore(photo, on_progress=stages.append)
        assert result.num_shown == number % 5 + 1
        assert result.compiled
    counts = subject.crop_restorer.compile_counts
    assert counts.compiled == num_captured() - before == 2
    assert counts.plain_calls == 0
    assert counts.compiled_calls == 2 * sum((1, 2, 1, 1, 2))
    compiling = [step for step in stages if step.stage == "compile"]
    assert [(step.done, step.total) for step in compiling] == [(0, 1), (1, 1)] * 2
    assert {step.detail for step in compiling} == {f"compiling for {SIZE} px, first time only"}


def test_compiling_is_timed_as_a_stage_of_its_own(quick_compiler, tmp_path):
    runtime = RuntimeOptions(weights=str(tiny_weights(tmp_path)), compile=True, device="cpu")
    subject = Restorer(runtime=runtime, detector=FakeDetector(frontal_face(100, 100, 40)))
    photo = np.full((200, 200, 3), 90, np.uint8)
    assert subject.restore(photo).timings["compile"] > 0
    assert "compile" not in subject.restore(photo).timings


@pytest.mark.parametrize("compiler", ["quick_compiler", "older_torch"])
def test_the_ninth_combination_is_compiled_too(compiler, request):
    request.getfixturevalue(compiler)
    network = nn.Conv2d(3, 3, 1).requires_grad_(False)
    cache, before = CompileCache(CPU), num_captured()
    for batch_size in range(1, 13):
        x = torch.rand(batch_size, 3, SIZE, SIZE)
        for _ in range(2):
            y = cache.run(key(batch_size), lambda x: network(x), x)
            torch.testing.assert_close(y, network(x))
    assert cache.fallback_reason == ""
    assert cache.counts.compiled == num_captured() - before == 12
    assert (cache.counts.compiled_calls, cache.counts.plain_calls) == (24, 0)


def test_running_over_torchs_limit_is_said_and_not_silent(older_torch, monkeypatch):
    monkeypatch.setattr(compile_cache, "MOST_PROGRAMS", 2)
    network = nn.Conv2d(3, 3, 1).requires_grad_(False)
    cache = CompileCache(CPU)
    for batch_size in range(1, 5):
        x = torch.rand(batch_size, 3, SIZE, SIZE)
        torch.testing.assert_close(cache.run(key(batch_size), lambda x: network(x), x), network(x))
    assert cache.fallback_reason
    assert (cache.counts.compiled, cache.counts.plain_calls) == (2, 2)


def test_a_program_serves_every_thread(quick_compiler):
    network = nn.Conv2d(3, 3, 1).requires_grad_(False)
    cache, before, x = CompileCache(CPU), num_captured(), torch.rand(1, 3, SIZE, SIZE)

    def work():
        cache.run(key(), lambda x: network(x), x)

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert cache.counts.compiled == num_captured() - before == 1
    assert cache.counts.compiled_calls == 3


@pytest.mark.parametrize(
    ("num_crops", "batch_sizes"),
    [(1, [1]), (2, [1, 1]), (3, [4]), (4, [4]), (5, [4, 1]), (7, [4, 4]), (10, [4, 4, 1, 1])],
)
def test_compiled_batches_are_single_or_full(fake_compiler, num_crops, batch_sizes):
    shared, source = engine(lambda x: x.clone())
    sent = crops(num_crops)
    ran = shared.restore_crops(sent, ignore)
    np.testing.assert_array_equal(np.stack(ran.crops), np.stack(sent))
    assert ran.compiled
    assert [call.batch_size for call in source.calls] == batch_sizes


def test_short_memory_goes_to_single_crops_at_once_when_compiled(fake_compiler):
    def large_batches_do_not_fit(x):
        if x.shape[0] > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return x.clone()

    shared, source = engine(large_batches_do_not_fit)
    ran = shared.restore_crops(crops(3), ignore)
    assert [call.batch_size for call in source.calls] == [4, 1, 1, 1]
    assert ran.compiled
    assert ran.notes == ("Memory was short: faces were restored 1 at a time.",)


def test_a_missing_compiler_means_a_plain_run_and_a_note(monkeypatch):
    monkeypatch.setattr(compile_cache.shutil, "which", lambda name: None)
    shared, source = engine(lambda x: x.clone())
    ran = shared.restore_crops(crops(3), ignore)
    assert not ran.compiled
    assert ran.notes == ("The network ran without compilation: no C++ compiler was found.",)
    assert [call.batch_size for call in source.calls] == [3]


def test_a_network_that_is_faster_plain_is_not_compiled_and_that_is_said(fake_compiler):
    shared, _ = engine(lambda x: x.clone(), is_streamed=True)
    ran = shared.restore_crops(crops(3), ignore)
    assert not ran.compiled
    assert ran.notes == ("The network was not compiled: on a CPU it runs faster as it is.",)


def test_a_compiler_named_to_torch_counts(monkeypatch):
    monkeypatch.setattr(compile_cache.shutil, "which", lambda name: name if name == "my-compiler" else None)
    assert missing_toolchain(CPU)
    monkeypatch.setenv("CXX", "my-compiler")
    assert missing_toolchain(CPU) == ""


def test_missing_triton_is_named_before_anything_runs(monkeypatch):
    monkeypatch.setattr("torch.utils._triton.has_triton", lambda: False)
    assert missing_toolchain(torch.device("cuda")) == "Triton is not installed"
    assert "mps" in missing_toolchain(torch.device("mps"))


def late_errors():
    from torch._dynamo.exc import FailOnRecompileLimitHit, Unsupported

    return [
        Unsupported("graph break in test"),
        FailOnRecompileLimitHit("limit hit in test"),
        RuntimeError("C++ compile error\n\nCommand:\ng++ -O3\n\nOutput:\nmain.cpp:1:2: fatal error: no header in test"),
        OSError("no space left in test"),
        subprocess.CalledProcessError(1, ["ptxas in test"]),
    ]


@pytest.mark.parametrize("error", late_errors(), ids=lambda error: type(error).__name__)
def test_a_compilation_that_fails_at_the_first_call_means_a_plain_run_and_a_note(monkeypatch, error):
    num_tries = []

    def fail_late(function, **options):
        def run(x):
            num_tries.append(1)
            raise error

        return run

    monkeypatch.setattr(torch, "compile", fail_late)
    monkeypatch.setattr(compile_cache, "missing_toolchain", lambda device: "")
    shared, _ = engine(lambda x: x.clone())
    sent = crops(3)
    for _ in range(2):
        ran = shared.restore_crops(sent, ignore)
        np.testing.assert_array_equal(np.stack(ran.crops), np.stack(sent))
        assert not ran.compiled
        assert "in test" in ran.notes[0]
    assert len(num_tries) == 1
    assert shared.compile_counts.plain_calls == 1


def test_what_is_wrong_with_the_network_itself_is_not_hidden(quick_compiler):
    def broken(x):
        return x @ torch.ones(3, 7)

    shared, _ = engine(broken)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        shared.restore_crops(crops(1), ignore)


def test_an_unloaded_network_is_compiled_again(fake_compiler):
    shared, source = engine(lambda x: x.clone())
    for _ in range(2):
        shared.restore_crops(crops(1), ignore)
        shared.unload()
    assert shared.compile_counts.compiled == 2
    assert source.num_built == 3 - 1


def test_compiled_code_is_kept_in_this_programs_cache(monkeypatch, disk_cache, quick_compiler):
    monkeypatch.delenv(compile_cache.DISK_CACHE_VARIABLE)
    CompileCache(CPU).run(key(), lambda x: x + 1, torch.zeros(1, 3, 4, 4))
    assert os.environ[compile_cache.DISK_CACHE_VARIABLE] == str(disk_cache / "gpen" / "compiled")
    assert (disk_cache / "gpen" / "compiled").is_dir()


def test_a_folder_that_the_user_named_to_torch_is_obeyed(disk_cache, quick_compiler):
    CompileCache(CPU).run(key(), lambda x: x + 1, torch.zeros(1, 3, 4, 4))
    assert os.environ[compile_cache.DISK_CACHE_VARIABLE] == str(disk_cache / "torch")
    assert not (disk_cache / "gpen").exists()


def test_a_cache_that_cannot_be_written_stops_nothing(monkeypatch, tmp_path, quick_compiler):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GPEN_CACHE", str(tmp_path / "file"))
    monkeypatch.delenv(compile_cache.DISK_CACHE_VARIABLE)
    cache = CompileCache(CPU)
    cache.run(key(), lambda x: x + 1, torch.zeros(1, 3, 4, 4))
    assert cache.counts.compiled == 1


@pytest.mark.slow
def test_the_compiled_generator_gives_the_same_pixels():
    generator = Generator(SIZE, style_dim=16, narrow=1 / 16).eval().requires_grad_(False)
    x = torch.rand(2, 3, SIZE, SIZE) * 2 - 1
    y = fast_generator(generator.state_dict(), compile=True)(x)
    assert (y - FastGenerator(generator)(x)).abs().max() < 1e-4


SECOND_START = """
import sys, time, torch
from gpen_core.runtime.engine import fast_generator
restore = fast_generator(torch.load(sys.argv[1]), compile=True)
start = time.perf_counter()
restore(torch.zeros(1, 3, 32, 32))
seconds = time.perf_counter() - start
from torch._dynamo.utils import counters
print(seconds, counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"])
"""


@pytest.mark.slow
def test_the_second_start_finds_its_code_on_the_disk(tmp_path):
    weights = tiny_weights(tmp_path)
    environment = {**os.environ, "GPEN_CACHE": str(tmp_path / "cache")}
    environment.pop(compile_cache.DISK_CACHE_VARIABLE, None)

    def start() -> list[float]:
        done = subprocess.run(
            [sys.executable, "-c", SECOND_START, str(weights)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return [float(word) for word in done.stdout.split()]

    first_s, _, num_missed = start()
    assert num_missed >= 1
    second_s, num_hit, num_missed_again = start()
    assert (num_hit >= 1, num_missed_again) == (True, 0)
    assert second_s < first_s / 2
