"""From the user's words to a device and a number format, with a note where it is not what was asked."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gpen_core.errors import DeviceError
from gpen_core.options import RuntimeOptions
from gpen_core.runtime.precision import choose_precision


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Where and in which precision a network runs."""

    device: torch.device
    precision: str
    """fp32, fp16 or bf16."""
    notes: tuple[str, ...] = ()


def resolve_placement(options: RuntimeOptions, model: str | None = None) -> Placement:
    """The device and precision to run on.

    Args:
        options: device and precision as asked for.
        model: name of a model whose weights are verified, for its measured error in half precision.

    Raises:
        DeviceError: a device was named that this machine lacks.
    """
    device = resolve_device(options.device)
    choice = choose_precision(options.precision, device, model)
    return Placement(device=device, precision=choice.precision, notes=choice.notes)


def resolve_device(text: str) -> torch.device:
    """auto, cpu, cuda, cuda:N or mps -> a device of this machine.

    Raises:
        DeviceError: this machine lacks it.
    """
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
