"""Networks compiled once for each way they are run in, with a plain run wherever compiling does not work.

`torch.compile` counts recompilations for each code object, so all networks of one class share a budget of eight and
the ninth combination would run plain without a word. Here every combination has its own budget, and running over it
is an error that is reported.
"""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from gpen_core.cache_dir import cache_folder
from gpen_core.runtime.memory import is_out_of_memory

Forward = Callable[[Tensor], Tensor]
CPU_COMPILERS = ("g++", "clang++", "c++", "cl")
MODES = {"cuda": "reduce-overhead"}
"""On a CPU the default mode: freezing the weights was no faster, took twice as long to start from the disk and keeps
them twice; max-autotune changed nothing."""
NUM_FIRST_CALLS = {"cuda": 3}
"""reduce-overhead compiles at the first call, records a CUDA graph at the second and replays it from the third on."""
MOST_PROGRAMS = 1024
DISK_CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramKey:
    """What compiled code is good for; another value needs other code."""

    model: str
    size: int
    precision: str
    batch_size: int
    tile_px: int
    overlap_px: int
    device: str


@dataclass(slots=True)
class CompileCounts:
    """What happened so far."""

    compiled: int = 0
    """Programs that were compiled."""
    compiled_calls: int = 0
    plain_calls: int = 0
    compile_s: float = 0.0
    """Seconds that first calls took, failed ones too."""


def missing_toolchain(device: torch.device) -> str:
    """What torch.compile lacks on this machine, in words for people; empty where nothing is known to be missing."""
    if device.type == "cpu":
        compilers = (os.environ.get("CXX", ""), *CPU_COMPILERS)
        return "" if any(map(shutil.which, filter(None, compilers))) else "no C++ compiler was found"
    if device.type == "cuda":
        from torch.utils._triton import has_triton

        return "" if has_triton() else "Triton is not installed"
    return f"torch cannot compile for {device.type}"


class CompileCache:
    """Compiled programs by key. One call at a time."""

    def __init__(self, device: torch.device) -> None:
        self.fallback_reason = missing_toolchain(device)
        self.counts = CompileCounts()
        self._programs: dict[ProgramKey, Forward] = {}
        # One thread for all: CUDA graphs belong to the thread that recorded them, and a server's threads come and go.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gpen-compiled")

    @property
    def is_working(self) -> bool:
        """Nothing has failed so far; else `fallback_reason` says what."""
        return not self.fallback_reason

    def has(self, key: ProgramKey) -> bool:
        return key in self._programs

    def run(self, key: ProgramKey, forward: Forward, x: Tensor) -> Tensor:
        """`forward(x)`, compiled at the first call with a key; plain where compiling has failed.

        The answer is overwritten by the next call.
        """
        if self.is_working and not self.has(key):
            y = self._first_call(key, forward, x)
            if y is not None:
                return y
        if not self.is_working:
            self.counts.plain_calls += 1
            return forward(x)
        self.counts.compiled_calls += 1
        return self._thread.submit(_run, self._programs[key], x).result()

    def clear(self) -> None:
        """Drop all programs, and with them what they hold of the network."""
        self._programs.clear()

    def _first_call(self, key: ProgramKey, forward: Forward, x: Tensor) -> Tensor | None:
        """Compile and run; None where that fails, as a missing part shows only here and not when wrapping."""
        start = time.perf_counter()
        try:
            program, y = self._thread.submit(_compile_and_run, forward, x).result()
        except _first_call_errors() as error:
            if is_out_of_memory(error):
                raise
            self.fallback_reason = _reason(error)
            self.clear()
            return None
        finally:
            self.counts.compile_s += time.perf_counter() - start
        self._programs[key] = program
        self.counts.compiled += 1
        self.counts.compiled_calls += 1
        return y


def _reason(error: Exception) -> str:
    """The compiler's own line where it is quoted, else the first."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return next((line.strip() for line in lines if " error: " in line), lines[0])


def _compile_and_run(forward: Forward, x: Tensor) -> tuple[Forward, Tensor]:
    _keep_on_disk()
    options: dict[str, Any] = {"fullgraph": True, "dynamic": False, "mode": MODES.get(x.device.type, "default")}
    # Since torch 2.14; before, `_own_limits` alone has to do.
    if "isolate_recompiles" in inspect.signature(torch.compile).parameters:
        options["isolate_recompiles"] = True
    # In the thread that compiles: torch keeps changed settings for each thread.
    with _own_limits():
        program = torch.compile(forward, **options)
        for _ in range(NUM_FIRST_CALLS.get(x.device.type, 1)):
            y = _run(program, x)
    return program, y


def _run(program: Forward, x: Tensor) -> Tensor:
    with torch.inference_mode():
        if x.device.type == "cuda":
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        return program(x)


def _keep_on_disk() -> None:
    """Compiled code outlives the process, in this program's cache folder unless the user named another to torch.

    torch reads the folder from this variable only, and sets it itself at its first compilation.
    """
    folder = cache_folder()
    if folder is None or DISK_CACHE_VARIABLE in os.environ:
        return
    try:
        (folder / "compiled").mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    os.environ[DISK_CACHE_VARIABLE] = str(folder / "compiled")


def _own_limits() -> AbstractContextManager[Any]:
    """Inside, a code object may be compiled as often as needed, and not compiling is an error."""
    from torch._dynamo import config

    # By the names of torch from 2.5 on.
    wanted: dict[str, Any] = {
        "recompile_limit": MOST_PROGRAMS,
        "cache_size_limit": MOST_PROGRAMS,
        "accumulated_recompile_limit": MOST_PROGRAMS,
        "accumulated_cache_size_limit": MOST_PROGRAMS,
        "fail_on_recompile_limit_hit": True,
        "fail_on_cache_limit_hit": True,
    }
    known = {name: value for name, value in wanted.items() if hasattr(config, name)}
    return cast("AbstractContextManager[Any]", config.patch(known))


def _first_call_errors() -> tuple[type[Exception], ...]:
    # From compilers and drivers beneath torch come errors of every usual kind; what is wrong with the network itself
    # shows again in the plain run. Looked up and not imported: that import may be what failed.
    limit_hit = getattr(sys.modules.get("torch._dynamo.exc"), "FailOnRecompileLimitHit", RuntimeError)
    return RuntimeError, OSError, ImportError, AssertionError, AttributeError, subprocess.SubprocessError, limit_hit
