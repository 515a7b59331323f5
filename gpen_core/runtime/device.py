"""From the user's words to a device and a number format, with a note where it is not what was asked."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gpen_core.errors import DeviceError
from gpen_core.options import RuntimeOptions

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Where and in which precision a network runs."""

    device: torch.device
    precision: str
    """fp32, fp16 or bf16."""
    notes: tuple[str, ...] = ()

    @property
    def dtype(self) -> torch.dtype:
        return DTYPES[self.precision]


def resolve_placement(options: RuntimeOptions) -> Placement:
    """The device and precision to run on.

    Raises:
        DeviceError: a device was named that this machine lacks.
    """
    device = _resolve_device(options.device)
    # GPEN lacks the means by which StyleGAN2-ADA keeps half precision sound, and worse faces are publicly reported:
    # half precision is used only where it is asked for.
    precision = "fp32" if options.precision == "auto" else options.precision
    if precision != "fp32" and device.type == "cpu":
        note = f"{precision} brings nothing on a CPU, so fp32 was used."
        return Placement(device=device, precision="fp32", notes=(note,))
    return Placement(device=device, precision=precision)


def _resolve_device(text: str) -> torch.device:
    if text == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(text)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise DeviceError(
            f"This machine has no device {text} that torch can use ({torch.cuda.device_count()} CUDA devices found); "
            "choose cpu, or install a CUDA build of torch."
        )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise DeviceError("This machine has no Apple GPU (mps) that torch can use; choose cpu.")
    return device


def describe_device(device: torch.device) -> str:
    """Device for people: `cpu`, or `cuda (NVIDIA ...)`."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return str(device)
