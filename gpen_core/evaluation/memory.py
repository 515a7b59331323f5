"""How much memory one face takes on top of program and weights."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from gpen_core.errors import DeviceError
from gpen_core.options import RuntimeOptions
from gpen_core.restorer import Restorer
from gpen_core.runtime.crops import CropRestorer

MIB = 2**20
STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""Written to `CLEAR_REFS` it sets the peak to what is resident now (Linux, `proc_pid_clear_refs(5)`)."""


def measure_face_memory(runtime: RuntimeOptions) -> float | None:
    """MiB that the first face takes at its peak, in a process of its own; None where the system does not tell.

    On a CPU the growth of the resident memory as Linux reports it: from process to process it differs by a fifth. On a
    CUDA device what torch allocated.

    Raises:
        GpenError: the model cannot be loaded.
        DeviceError: the process was ended, as Linux does when memory runs out.
    """
    # Fresh, since memory that an earlier face has freed would be used again and not be seen.
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as process:
        try:
            return process.submit(_load_and_measure, runtime).result()
        except BrokenProcessPool as error:
            raise DeviceError("The process that measures a face's memory was ended; leave memory out.") from error


def _load_and_measure(runtime: RuntimeOptions) -> float | None:
    import torch

    from gpen_core.runtime.device import resolve_device

    engine = Restorer(runtime=runtime).crop_restorer
    device = resolve_device(runtime.device)
    if device.type == "cuda":
        loaded = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        restore_gray(engine)
        return (torch.cuda.max_memory_allocated(device) - loaded) / MIB
    try:
        CLEAR_REFS.write_text(RESET_PEAK)
        loaded_kib = _status_kib("VmRSS")
    except OSError:
        return None
    restore_gray(engine)
    return (_status_kib("VmHWM") - loaded_kib) / 1024


def restore_gray(engine: CropRestorer) -> tuple[str, bool]:
    """Run one gray face, which also does all that only the first run does; the precision, and whether compiled."""
    gray = np.full((engine.size, engine.size, 3), 128, dtype=np.uint8)
    ran = engine.restore_crops([gray], lambda done: None)
    return ran.precision, ran.compiled


def _status_kib(name: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1])
