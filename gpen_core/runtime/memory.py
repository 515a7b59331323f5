"""How much memory a device has left, and what to do when there is none."""

from __future__ import annotations

from pathlib import Path

import torch

MIB = 2**20
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""Written to `CLEAR_REFS` it sets the peak to what is resident now (Linux, `proc_pid_clear_refs(5)`)."""
OUT_OF_MEMORY_WORDS = ("out of memory", "can't allocate memory", "ALLOC_FAILED")
"""What torch's CPU allocator, cuBLAS, cuDNN and Apple's GPU say in a plain RuntimeError."""


def free_memory_mib(device: torch.device) -> float | None:
    """MiB that can still be taken on a device; None where the system does not tell."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # What torch holds without using it serves as well.
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return (free + held) / MIB
    if device.type == "mps":
        return (torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()) / MIB
    limits = [limit for limit in (_free_in_machine_mib(), _free_in_container_mib()) if limit is not None]
    return min(limits, default=None)


def _free_in_machine_mib() -> float | None:
    try:
        lines = MEMINFO.read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None


def _free_in_container_mib() -> float | None:
    """What a container's limit leaves (cgroup v2); None where there is no limit."""
    try:
        limit = (CGROUP / "memory.max").read_text(encoding="utf-8").strip()
        used = int((CGROUP / "memory.current").read_text(encoding="utf-8"))
        lines = (CGROUP / "memory.stat").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    if limit == "max":
        return None
    # Pages of files that nobody reads count as used, and go when memory is asked for.
    reclaimable = next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)
    return (int(limit) - used + reclaimable) / MIB


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in OUT_OF_MEMORY_WORDS)


def release_memory(device: torch.device) -> None:
    """Give back to the device what torch holds without using it."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()


def reset_peak(device: torch.device) -> float | None:
    """Forget how much was in use at most before; the MiB in use now, None where the system does not tell.

    On a CUDA device what torch has allocated there, else what is resident of this process as Linux reports it.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device) / MIB
    if device.type != "cpu":
        return None
    try:
        CLEAR_REFS.write_text(RESET_PEAK, encoding="ascii")
    except OSError:
        return None
    return _status_mib("VmRSS")


def peak_mib(device: torch.device) -> float | None:
    """MiB in use at most since `reset_peak`, which must have told a number, else None."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / MIB
    return _status_mib("VmHWM") if device.type == "cpu" else None


def _status_mib(name: str) -> float | None:
    try:
        lines = STATUS.read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))
    except (OSError, StopIteration):
        return None
