"""A Hugging Face Space with ZeroGPU lends a GPU for seconds, in a forked process. Only the network goes there.

Elsewhere nothing here is used, and `spaces` is not imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from gpen_core.errors import FAILURES, DeviceError, describe_failure
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.types import OnProgress, Pixels, Progress

if TYPE_CHECKING:
    from gpen_core.restorer import Restorer
    from gpen_core.runtime.crops import CropRestorer, RestoredCrops

Function = TypeVar("Function", bound=Callable[..., Any])

BASE_S, FACE_S, MAX_S = 5, 1, 30
"""Seconds asked for: a first call brings the network onto the GPU, a face takes less than one. Asked for more, visitors
run out of their quota before they have used it."""


def is_here() -> bool:
    return os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")


def on_gpu(function: Function) -> Function:
    """Have a function run in the process that has the GPU."""
    if not is_here():
        return function
    import spaces

    decorated: Function = spaces.GPU(function, duration=seconds_for)
    return decorated


def seconds_for(key: RuntimeOptions, crops: Sequence[Pixels], options: RestoreOptions | None) -> int:
    return min(BASE_S + FACE_S * len(crops), MAX_S)


_NETWORKS: dict[RuntimeOptions, CropRestorer] = {}
"""Known to the forked process as well; what is changed there is lost."""


@on_gpu
def _restore_there(key: RuntimeOptions, crops: Sequence[Pixels], options: RestoreOptions | None) -> RestoredCrops | str:
    """The answers, or why there are none: of an exception, ZeroGPU would show its class alone."""
    try:
        return _NETWORKS[key].restore_crops(crops, lambda step: None, options)
    except FAILURES as error:
        return describe_failure(error)


class LentGpu:
    """A `CropRestorer` whose network runs on the lent GPU."""

    def __init__(self, key: RuntimeOptions, network: CropRestorer) -> None:
        self._key = key
        _NETWORKS[key] = network
        self.size, self.template, self.model_name = network.size, network.template, network.model_name
        self.strength_coefficients, self.device_name = network.strength_coefficients, network.device_name

    def restore_crops(
        self, crops: Sequence[Pixels], on_progress: OnProgress, options: RestoreOptions | None = None
    ) -> RestoredCrops:
        """See `CropRestorer`. Without crops no GPU is asked for, since that costs quota."""
        if not crops:
            return _NETWORKS[self._key].restore_crops(crops, on_progress, options)
        on_progress(Progress("restore", 0, len(crops)))
        try:
            answer = _restore_there(self._key, crops, options)
        except Exception as error:
            message = getattr(error, "message", None)
            if message is None:
                raise
            # A quota used up, or no GPU free: ZeroGPU's own words, which are HTML for a toast.
            raise DeviceError(re.sub(r"<[^>]*>", "", str(message))) from error
        if isinstance(answer, str):
            raise DeviceError(answer)
        on_progress(Progress("restore", len(crops), len(crops)))
        return answer


def load_restorer(runtime: RuntimeOptions, on_progress: OnProgress) -> Restorer:
    """A restorer; on ZeroGPU one whose network alone uses the GPU, uncompiled, since nothing can be compiled there."""
    from gpen_core.restorer import Restorer  # here, because it loads torch

    if not is_here():
        return Restorer(runtime=runtime, on_progress=on_progress)
    there = replace(runtime, device="cuda", compile=False)
    lent = Restorer(runtime=replace(there, detector="retinaface-mobile", gate=False), on_progress=on_progress)
    here = Restorer(
        runtime=replace(there, device="cpu"),
        crop_restorer=LentGpu(there, lent.crop_restorer),
        on_progress=on_progress,
    )
    here.model_sha256 = lent.model_sha256
    return here
