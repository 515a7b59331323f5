"""Which number format a network runs in: what was asked, what the device gains, and what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

HALF_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def half_dtype(precision: str) -> torch.dtype | None:
    """fp16 or bf16 -> what `FastGenerator` takes; None for fp32."""
    return HALF_DTYPES.get(precision)


@dataclass(frozen=True, slots=True)
class MeasuredError:
    """How far half precision is from fp32 on real faces, in grey levels of 255."""

    mean_levels: float
    max_levels: float
    num_faces: int

    @property
    def is_invisible(self) -> bool:
        """Small enough for `auto` to take it unasked: no pixel moves by more than rounding could."""
        return self.max_levels <= AUTO_MAX_LEVELS


AUTO_MAX_LEVELS = 1.0
MEASURED_ERRORS: Mapping[tuple[str, str], MeasuredError] = {
    ("starter-256", "fp16"): MeasuredError(mean_levels=0.02, max_levels=1.0, num_faces=200),
    ("starter-256", "bf16"): MeasuredError(mean_levels=0.24, max_levels=2.0, num_faces=200),
}
"""By model and precision, from `python -m benchmarks.precision` on a CPU. A model that is not here was not measured."""
CPUINFO = Path("/proc/cpuinfo")
SMALLEST_CAPABILITY = {"fp16": (7, 0), "bf16": (8, 0)}
"""CUDA devices from here on have tensor cores for the format."""


@dataclass(frozen=True, slots=True)
class PrecisionChoice:
    """The format to run in, and why where it is not plainly what was asked."""

    precision: str
    """fp32, fp16 or bf16."""
    notes: tuple[str, ...] = ()


def choose_precision(asked: str, device: torch.device, model: str | None) -> PrecisionChoice:
    """The format to run a model in.

    Half precision that was asked for runs wherever the device gains from it; `auto` takes it only where it was also
    measured to be invisible.

    Args:
        asked: auto, fp32, fp16 or bf16.
        device: where the network runs.
        model: its name in `MEASURED_ERRORS`; None for weights that nobody measured.
    """
    if asked == "fp32":
        return PrecisionChoice("fp32")
    if asked == "auto":
        return PrecisionChoice(_fastest_invisible(device, model))
    reason = why_no_gain(asked, device)
    if reason:
        return PrecisionChoice("fp32", (f"{asked} {reason}, so fp32 was used.",))
    return PrecisionChoice(asked, (_describe_error(asked, model),))


def _fastest_invisible(device: torch.device, model: str | None) -> str:
    for precision in ("fp16", "bf16"):
        error = MEASURED_ERRORS.get((model or "", precision))
        if error is not None and error.is_invisible and not why_no_gain(precision, device):
            return precision
    return "fp32"


def why_no_gain(precision: str, device: torch.device) -> str:
    """Why half precision is of no use on a device, as the end of a sentence; empty where it is of use."""
    if device.type == "cpu":
        # Measured on two cores with AVX512-BF16: bf16 takes 0.7 of fp32's time at 256 px and 0.9 at 512 px, fp16 six
        # times as long.
        if precision == "fp16":
            return "brings nothing on a CPU"
        return "" if has_bf16_instructions() else "brings nothing on a CPU without AVX512-BF16 or AMX"
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        if capability < SMALLEST_CAPABILITY[precision]:
            return (
                f"brings nothing on a CUDA device of capability {capability[0]}.{capability[1]}, "
                "which has no tensor cores for it"
            )
    return ""


def has_bf16_instructions() -> bool:
    """Whether this CPU multiplies bf16 numbers itself."""
    try:
        words = CPUINFO.read_text(encoding="utf-8").split()
    except OSError:
        return False
    return "avx512_bf16" in words or "amx_bf16" in words


def _describe_error(precision: str, model: str | None) -> str:
    error = MEASURED_ERRORS.get((model or "", precision))
    if error is None:
        return f"{precision} was used as asked; how far it is from fp32 was not measured for this model."
    return (
        f"{precision} was used as asked; over {error.num_faces} faces it was {error.mean_levels:.2f} grey levels from "
        f"fp32 on average, {error.max_levels:g} at most."
    )


@contextmanager
def exact_fp32(device: torch.device) -> Iterator[None]:
    """Inside, fp32 on a CUDA device means fp32.

    torch lets convolutions round their inputs to TF32 unless told otherwise, and a host program may allow it for
    matrix products too. Both switches belong to the process, so they are put back afterwards.
    """
    switches = _tf32_switches() if device.type == "cuda" else []
    before = [_read_switch(owner, name) for owner, name, _ in switches]
    try:
        for owner, name, exact in switches:
            setattr(owner, name, exact)
        yield
    finally:
        for (owner, name, _), value in zip(switches, before, strict=True):
            if value is not None:
                setattr(owner, name, value)


def _tf32_switches() -> list[tuple[Any, str, Any]]:
    """Owner, name and exact value of each switch."""
    matmul: Any = torch.backends.cuda.matmul
    cudnn: Any = torch.backends.cudnn
    switches: list[tuple[Any, str, Any]] = [(matmul, "allow_tf32", False), (cudnn, "allow_tf32", False)]
    # torch 2.9 has the same settings by other names too. Both are set: an older one that says otherwise cannot be read,
    # by torch itself either.
    if hasattr(matmul, "fp32_precision"):
        switches += [(part, "fp32_precision", "ieee") for part in (matmul, cudnn.conv, cudnn.rnn)]
    return switches


def _read_switch(owner: Any, name: str) -> Any:
    """None where a host program has set the newer name only, so that the older one cannot be read."""
    try:
        return getattr(owner, name)
    except RuntimeError:
        return None
