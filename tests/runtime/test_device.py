from __future__ import annotations

import pytest
import torch

from gpen_core.errors import DeviceError
from gpen_core.options import RuntimeOptions
from gpen_core.runtime import device
from gpen_core.runtime.device import resolve_placement


def test_cpu_runs_fp32_and_says_so_where_half_was_asked():
    assert resolve_placement(RuntimeOptions(device="cpu")).notes == ()
    placement = resolve_placement(RuntimeOptions(device="cpu", precision="fp16"))
    assert placement.precision == "fp32"
    assert "fp16 brings nothing on a CPU" in placement.notes[0]


def test_auto_takes_cuda_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    placement = resolve_placement(RuntimeOptions())
    assert placement.device.type == "cuda"
    assert placement.precision == "fp32"
    assert resolve_placement(RuntimeOptions(precision="fp16")).precision == "fp16"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_placement(RuntimeOptions()).device.type == "cpu"


def test_cpu_is_obeyed_on_a_cuda_machine(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_placement(RuntimeOptions(device="cpu")).device.type == "cpu"


@pytest.mark.parametrize("name", ["cuda:7", "mps"])
def test_an_absent_device_is_named(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(DeviceError, match=name):
        resolve_placement(RuntimeOptions(device=name))


def test_devices_are_described_for_people(monkeypatch):
    assert device.describe_device(torch.device("cpu")) == "cpu"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA Test")
    assert device.describe_device(torch.device("cuda")) == "cuda (NVIDIA Test)"
