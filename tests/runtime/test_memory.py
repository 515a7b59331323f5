from __future__ import annotations

import pytest
import torch

from gpen_core.runtime import memory
from gpen_core.runtime.memory import free_memory_mib, is_out_of_memory

CPU = torch.device("cpu")


@pytest.fixture
def system(monkeypatch, tmp_path):
    """Files in the place of Linux's, none of which is there yet."""
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    return tmp_path


def limit_container(system, limit: str, used: int, inactive: int) -> None:
    (system / "memory.max").write_text(f"{limit}\n")
    (system / "memory.current").write_text(f"{used}\n")
    (system / "memory.stat").write_text(f"anon 5\nfile 7\ninactive_file {inactive}\nactive_file 2\n")


def test_a_system_that_does_not_tell_gives_none(system):
    assert free_memory_mib(CPU) is None


def test_what_linux_calls_available_counts(system):
    (system / "meminfo").write_text("MemTotal: 8388608 kB\nMemFree: 1024 kB\nMemAvailable: 2097152 kB\n")
    assert free_memory_mib(CPU) == 2048


def test_a_containers_limit_counts_without_pages_that_can_go(system):
    (system / "meminfo").write_text("MemAvailable: 2097152 kB\n")
    limit_container(system, str(1000 * 2**20), 900 * 2**20, 300 * 2**20)
    assert free_memory_mib(CPU) == 400
    limit_container(system, "max", 900 * 2**20, 0)
    assert free_memory_mib(CPU) == 2048


def test_a_gpus_memory_counts_what_torch_holds_unused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100 * 2**20, 999 * 2**20))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 60 * 2**20)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 40 * 2**20)
    assert free_memory_mib(torch.device("cuda")) == 120


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate"), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 5 GB)"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_the_ways_of_running_out_of_memory_are_known(error, expected):
    assert is_out_of_memory(error) == expected


def test_torchs_own_allocator_error_on_a_cpu_is_known():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
