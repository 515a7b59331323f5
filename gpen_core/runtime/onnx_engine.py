"""Run a generator that `gpen_core.runtime.export` wrote as an ONNX file, by onnxruntime and without torch."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpen_core.errors import DeviceError, WeightsError
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.runtime.crops import RestoredCrops
from gpen_core.types import SIGNED_RANGE, OnProgress, Pixels, Progress, ValueRange

METADATA_PREFIX = "gpen."
ONNX_SUFFIX = ".onnx"
CUDA_PROVIDER = "CUDAExecutionProvider"


class OnnxEngine:
    """A `CropRestorer` over an ONNX file. One batch at a time: others wait at the lock."""

    def __init__(self, path: Path, runtime: RuntimeOptions) -> None:
        """Load the file.

        Args:
            path: written by `python -m gpen_core export`.
            runtime: device, batch size; precision is the file's own.

        Raises:
            WeightsError: it cannot be read, or this program did not write it.
            DeviceError: onnxruntime cannot use the device.
        """
        import onnxruntime

        providers = _providers(runtime.device, onnxruntime.get_available_providers())
        try:
            self._session = onnxruntime.InferenceSession(str(path), providers=providers)
        except Exception as error:
            raise WeightsError(f"{path} could not be read as an ONNX file; export it again.") from error
        words = self._session.get_modelmeta().custom_metadata_map
        about = {key.removeprefix(METADATA_PREFIX): value for key, value in words.items()}
        if "size" not in about:
            raise WeightsError(
                f"{path} is an ONNX file that this program did not write; make one with: python -m gpen_core export"
            )
        self.size = int(about["size"])
        self.template = about["template"]
        self.model_name = about["model"]
        self.model_sha256 = about["sha256"]
        self.precision = about["precision"]
        self.task = about.get("task", "restore")
        self._range = ValueRange(*json.loads(about["value_range"])) if "value_range" in about else SIGNED_RANGE
        self.strength_coefficients: Sequence[float] | None = json.loads(about["strength_coefficients"])
        self.device_name = "cuda (onnxruntime)" if CUDA_PROVIDER in providers else "cpu (onnxruntime)"
        self.notes = _notes(runtime, self.precision)
        self._batch_size = runtime.batch_size
        self._lock = threading.Lock()

    def restore_crops(
        self, crops: Sequence[Pixels], on_progress: OnProgress, options: RestoreOptions | None = None
    ) -> RestoredCrops:
        """See `CropRestorer`. An ONNX file runs untiled; that tiles were asked for is a note."""
        notes = self.notes
        if options is not None and options.mode == "faces" and options.tile_px not in ("auto", 0):
            notes += ("An ONNX file runs untiled, so the size of tiles was not used.",)
        answers: list[Pixels | None] = []
        on_progress(Progress("restore", 0, len(crops)))
        for start in range(0, len(crops), self._batch_size):
            x = to_network(crops[start : start + self._batch_size], self._range)
            with self._lock:
                (y,) = self._session.run(None, {"input": x})
            answers += from_network(np.asarray(y), self._range)
            on_progress(Progress("restore", len(answers), len(crops)))
        return RestoredCrops(crops=tuple(answers), precision=self.precision, compiled=False, notes=notes)


def to_network(crops: Sequence[Pixels], value_range: ValueRange = SIGNED_RANGE) -> npt.NDArray[np.float32]:
    """(S, S, 3) uint8 RGB crops -> (N, 3, S, S) in the range."""
    batch = np.stack(crops).transpose(0, 3, 1, 2).astype(np.float32)
    per_level = np.float32(255 / (value_range.white - value_range.black))
    return np.ascontiguousarray(batch / per_level + np.float32(value_range.black))


def from_network(y: npt.NDArray[np.float32], value_range: ValueRange = SIGNED_RANGE) -> list[Pixels | None]:
    """(N, 3, S, S) about the range -> (S, S, 3) uint8 RGB, rounded; None where a number is not finite."""
    scaled = (np.nan_to_num(y) - value_range.black) * (255 / (value_range.white - value_range.black))
    levels = np.clip(np.rint(scaled), 0, 255).astype(np.uint8).transpose(0, 2, 3, 1)
    return [
        np.ascontiguousarray(crop) if np.isfinite(answer).all() else None
        for crop, answer in zip(levels, y, strict=True)
    ]


def _providers(device: str, available: Sequence[str]) -> list[str]:
    has_cuda = CUDA_PROVIDER in available
    if device.startswith("cuda") and not has_cuda:
        raise DeviceError(
            "This onnxruntime runs on the CPU only; choose --device cpu, or install onnxruntime-gpu for CUDA."
        )
    if device == "mps":
        raise DeviceError("ONNX files run on cpu or cuda, not on mps; choose --device cpu.")
    return [CUDA_PROVIDER, "CPUExecutionProvider"] if has_cuda and device != "cpu" else ["CPUExecutionProvider"]


def _notes(runtime: RuntimeOptions, precision: str) -> tuple[str, ...]:
    notes = []
    if runtime.precision not in ("auto", precision):
        notes.append(f"The ONNX file holds {precision}, so {runtime.precision} was not used.")
    if runtime.compile:
        notes.append("An ONNX file is not compiled; onnxruntime runs it as it is.")
    return tuple(notes)
