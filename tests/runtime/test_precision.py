from __future__ import annotations

import pytest
import torch

from gpen_core.runtime import precision
from gpen_core.runtime.precision import MeasuredError, choose_precision, exact_fp32, half_dtype

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def measured(monkeypatch):
    """A model that half precision suits, and one that it does not."""
    monkeypatch.setattr(
        precision,
        "MEASURED_ERRORS",
        {
            ("good", "fp16"): MeasuredError(0.05, 1.0, 40),
            ("good", "bf16"): MeasuredError(0.2, 1.0, 40),
            ("coarse", "fp16"): MeasuredError(0.05, 9.0, 40),
            ("coarse", "bf16"): MeasuredError(0.2, 2.0, 40),
        },
    )


def with_cuda(monkeypatch, *capability):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)


def with_bf16(monkeypatch, has):
    monkeypatch.setattr(precision, "has_bf16_instructions", lambda: has)


def test_full_precision_needs_no_words(measured, monkeypatch):
    for device in (CPU, CUDA):
        assert choose_precision("fp32", device, "good") == precision.PrecisionChoice("fp32")


@pytest.mark.parametrize(
    ("model", "capability", "expected"),
    [
        ("good", (8, 0), "fp16"),
        ("good", (7, 0), "fp16"),
        ("good", (6, 1), "fp32"),
        ("coarse", (9, 0), "fp32"),
        ("unknown", (9, 0), "fp32"),
        (None, (9, 0), "fp32"),
    ],
)
def test_auto_takes_half_only_where_it_gains_and_was_measured_invisible(
    measured, monkeypatch, model, capability, expected
):
    with_cuda(monkeypatch, *capability)
    assert choose_precision("auto", CUDA, model) == precision.PrecisionChoice(expected)


def test_auto_on_a_cpu_takes_bf16_only_with_its_instructions(measured, monkeypatch):
    with_bf16(monkeypatch, True)
    assert choose_precision("auto", CPU, "good").precision == "bf16"
    assert choose_precision("auto", CPU, "coarse").precision == "fp32"
    with_bf16(monkeypatch, False)
    assert choose_precision("auto", CPU, "good").precision == "fp32"


@pytest.mark.parametrize(
    ("asked", "capability", "words"),
    [("fp16", (6, 1), "capability 6.1"), ("bf16", (7, 5), "capability 7.5")],
)
def test_devices_without_tensor_cores_run_fp32_and_say_so(measured, monkeypatch, asked, capability, words):
    with_cuda(monkeypatch, *capability)
    choice = choose_precision(asked, CUDA, "good")
    assert choice.precision == "fp32"
    assert words in choice.notes[0]
    assert "no tensor cores" in choice.notes[0]


def test_a_cpu_runs_no_fp16_and_bf16_only_with_its_instructions(measured, monkeypatch):
    assert choose_precision("fp16", CPU, "good").notes == ("fp16 brings nothing on a CPU, so fp32 was used.",)
    with_bf16(monkeypatch, False)
    choice = choose_precision("bf16", CPU, "good")
    assert choice.precision == "fp32"
    assert "AVX512-BF16" in choice.notes[0]
    with_bf16(monkeypatch, True)
    assert choose_precision("bf16", CPU, "good").precision == "bf16"


def test_half_precision_that_runs_says_how_far_it_is_from_full(measured, monkeypatch):
    with_cuda(monkeypatch, 8, 0)
    assert choose_precision("fp16", CUDA, "coarse").notes == (
        "fp16 was used as asked; over 40 faces it was 0.05 grey levels from fp32 on average, 9 at most.",
    )
    assert "was not measured for this model" in choose_precision("fp16", CUDA, "unknown").notes[0]
    assert "was not measured for this model" in choose_precision("bf16", CUDA, None).notes[0]


def test_instructions_are_read_as_words(monkeypatch, tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    monkeypatch.setattr(precision, "CPUINFO", cpuinfo)
    assert not precision.has_bf16_instructions()
    cpuinfo.write_text("flags\t\t: avx512f avx512_bf16x\n")
    assert not precision.has_bf16_instructions()
    for flag in ("avx512_bf16", "amx_bf16"):
        cpuinfo.write_text(f"flags\t\t: avx512f {flag}\n\nprocessor : 1\n")
        assert precision.has_bf16_instructions()


def test_words_become_dtypes():
    assert [half_dtype(word) for word in ("fp32", "fp16", "bf16")] == [None, torch.float16, torch.bfloat16]


def switches() -> list[object]:
    return [precision._read_switch(owner, name) for owner, name, _ in precision._tf32_switches()]


def allow_by_the_newer_name():
    torch.backends.cuda.matmul.fp32_precision = "tf32"


def forbid_half_of_it_by_the_newer_name():
    torch.backends.cudnn.conv.fp32_precision = "ieee"


HAS_NEWER_NAMES = hasattr(torch.backends.cuda.matmul, "fp32_precision")


@pytest.mark.parametrize(
    "host",
    [
        lambda: None,
        lambda: torch.set_float32_matmul_precision("high"),
        lambda: setattr(torch.backends.cudnn, "allow_tf32", False),
        *((allow_by_the_newer_name, forbid_half_of_it_by_the_newer_name) if HAS_NEWER_NAMES else ()),
    ],
)
def test_tf32_is_off_inside_and_as_the_host_program_left_it_afterwards(host):
    untouched = switches()
    try:
        host()
        outside = switches()
        with exact_fp32(CPU):
            assert switches() == outside
        with pytest.raises(ValueError, match="in test"), exact_fp32(CUDA):
            assert torch.backends.cuda.matmul.allow_tf32 is False
            assert torch.backends.cudnn.allow_tf32 is False
            raise ValueError("in test")
        assert switches() == outside
    finally:
        for (owner, name, _), value in zip(precision._tf32_switches(), untouched, strict=True):
            setattr(owner, name, value)
    assert switches() == untouched
