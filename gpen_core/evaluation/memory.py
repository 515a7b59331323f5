"""How much memory one face takes on top of program and weights."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

import numpy as np

from gpen_core.errors import DeviceError
from gpen_core.options import RuntimeOptions
from gpen_core.restorer import Restorer
from gpen_core.runtime.crops import CropRestorer
from gpen_core.runtime.device import resolve_device
from gpen_core.runtime.memory import peak_mib, reset_peak
from gpen_core.types import OnProgress


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
    engine = Restorer(runtime=runtime).crop_restorer
    device = resolve_device(runtime.device)
    loaded_mib = reset_peak(device)
    if loaded_mib is None:
        return None
    restore_gray(engine)
    highest_mib = peak_mib(device)
    return None if highest_mib is None else highest_mib - loaded_mib


def restore_gray(engine: CropRestorer, on_progress: OnProgress | None = None) -> tuple[str, bool]:
    """Run one gray face, which also does all that only the first run does; the precision, and whether compiled."""
    gray = np.full((engine.size, engine.size, 3), 128, dtype=np.uint8)
    ran = engine.restore_crops([gray], on_progress or (lambda step: None))
    return ran.precision, ran.compiled
