"""A generator as a file that other programs run: ONNX, or a package compiled ahead of time for one kind of device.

What is written is the form that runs fastest outside a CPU's streamed levels, with the weights' gains worked in. Each
file is run and compared with the network before it gets its name, and says in its metadata how far it is from it.
"""

from __future__ import annotations

import json
import secrets
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpen_core.errors import DeviceError, OptionError, WeightsError
from gpen_core.models.fast import FastGenerator
from gpen_core.models.gpen import Generator
from gpen_core.models.verify import WeightsFile
from gpen_core.options import ExportOptions
from gpen_core.runtime.onnx_engine import METADATA_PREFIX, ONNX_SUFFIX
from gpen_core.runtime.precision import half_dtype
from gpen_core.types import ValueRange
from gpen_core.version import __version__

SUFFIXES = {"onnx": ONNX_SUFFIX, "aoti": ".pt2"}
"""How files of each format end."""
OPSET = 18
LAYOUT = "input and output: (N, 3, S, S) float32 RGB in [{black:g}, {white:g}], S = size"
MAX_DIFFERENCE = {"fp32": 1e-4, "fp16": 0.1, "bf16": 0.5}
"""Of a file that is written, in units of the network's [-1, 1]; beyond, something is wrong with it."""
CHECKED_BATCHES = (1, 2)

Run = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """A file that was written."""

    path: Path
    num_bytes: int
    max_difference: float
    """From the generator in fp32, over pictures of noise, in units of [-1, 1]."""
    metadata: Mapping[str, str]


def export_generator(
    generator: Generator,
    file: WeightsFile,
    path: Path,
    options: ExportOptions,
    device: torch.device,
    *,
    task: str,
    value_range: ValueRange,
) -> Exported:
    """Write a generator as a file of its own.

    Args:
        generator: loaded from `file`, on the CPU.
        file: says what it is, for the metadata.
        path: where to; an existing file there is an error.
        options: format and precision.
        device: what an `aoti` package is compiled for.
        task: what it is for, for the metadata.
        value_range: of its input and output, for the metadata.

    Raises:
        OptionError: the file exists, or its ending is another format's.
        DeviceError: packages that are needed are missing, or there is no compiler.
        WeightsError: what was written does not compute what the network does; it is removed.
    """
    precision = options.precision
    _check_path(path, SUFFIXES[options.format])
    network = FastGenerator(generator, half=half_dtype(precision), is_streamed=False)
    reference = FastGenerator(generator, is_streamed=False)
    metadata = describe(file, generator.config.size, precision, task, value_range)
    part = path.with_name(f".gpen-{secrets.token_hex(8)}{path.suffix}")
    try:
        if options.format == "onnx":
            _write_onnx(network, part)
            difference = _largest_difference(reference, run_onnx(part), network.size)
        else:
            network.to(device)
            _write_package(network, part, metadata, device)
            package = torch._inductor.aoti_load_package(str(part))
            difference = _largest_difference(reference, lambda x: package(x.to(device)).cpu(), network.size)
        if not difference <= MAX_DIFFERENCE[precision]:
            raise WeightsError(
                f"The exported network differs from {file.spec.name} by {difference:.2g}, more than the "
                f"{MAX_DIFFERENCE[precision]:g} that {precision} may; nothing was written."
            )
        if options.format == "onnx":
            metadata = _sign_onnx(part, metadata, difference)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return Exported(path=path, num_bytes=path.stat().st_size, max_difference=difference, metadata=metadata)


def describe(file: WeightsFile, size: int, precision: str, task: str, value_range: ValueRange) -> dict[str, str]:
    """What an exported file says of itself."""
    spec = file.spec
    coefficients = spec.strength_coefficients if file.is_verified else None
    words: dict[str, Any] = {
        "model": spec.name,
        "sha256": file.sha256,
        "licence": spec.licence_text,
        "size": size,
        "template": spec.template,
        "precision": precision,
        "task": task,
        "layout": LAYOUT.format(**value_range._asdict()),
        "value_range": json.dumps(value_range),
        "strength_coefficients": json.dumps(coefficients),
        "exported_by": f"gpen_core {__version__}",
    }
    return {METADATA_PREFIX + name: str(value) for name, value in words.items()}


def _check_path(path: Path, suffix: str) -> None:
    if path.suffix != suffix:
        raise OptionError(f"{path.name} does not end in {suffix}, as files of this format do; name it so.")
    if path.exists():
        raise OptionError(f"{path} exists already; remove it, or choose another name.")
    if not path.parent.is_dir():
        raise OptionError(f"There is no folder {path.parent}; make it, or choose another.")


def _example(size: int, device: torch.device) -> tuple[tuple[Tensor], tuple[dict[int, Any]]]:
    """An input of two faces, whose number is free."""
    return (torch.zeros(2, 3, size, size, device=device),), ({0: torch.export.Dim("faces", min=1, max=64)},)


def _write_onnx(network: FastGenerator, path: Path) -> None:
    try:
        import onnx  # noqa: F401
        import onnxscript  # type: ignore[import-untyped,unused-ignore] # noqa: F401
    except ImportError as error:
        raise DeviceError(
            "Writing ONNX files needs two more packages; install them with: pip install onnx onnxscript"
        ) from error
    inputs, shapes = _example(network.size, torch.device("cpu"))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            network,
            inputs,
            dynamo=True,
            dynamic_shapes=shapes,
            input_names=["input"],
            output_names=["output"],
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    program.save(str(path), external_data=False)


def run_onnx(path: Path) -> Run:
    """An ONNX file as a function, on the CPU."""
    import onnxruntime

    # Threads that wait by spinning would slow down what torch computes beside it.
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda x: torch.from_numpy(np.asarray(session.run(None, {"input": x.numpy()})[0]))


def _sign_onnx(path: Path, metadata: Mapping[str, str], difference: float) -> dict[str, str]:
    """Write the metadata and how far the file is from its network into it."""
    import onnx

    signed = {**metadata, f"{METADATA_PREFIX}max_difference": f"{difference:.3g}"}
    model = onnx.load(path)
    model.producer_name, model.producer_version = "gpen_core", __version__
    for key, value in signed.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.save(model, path)
    return signed


def _write_package(network: FastGenerator, path: Path, metadata: Mapping[str, str], device: torch.device) -> None:
    inputs, shapes = _example(network.size, device)
    try:
        with torch.no_grad():
            program = torch.export.export(network, inputs, dynamic_shapes=shapes)
            torch._inductor.aoti_compile_and_package(
                program,
                package_path=str(path),
                inductor_configs={"aot_inductor.metadata": dict(metadata)},
            )
    except (RuntimeError, OSError) as error:
        raise DeviceError(
            f"The package could not be compiled ({' '.join(str(error).split())[:160]}); it needs a C++ compiler."
        ) from error


def _largest_difference(reference: FastGenerator, run: Run, size: int) -> float:
    noise = torch.Generator().manual_seed(0)
    differences = []
    for num_faces in CHECKED_BATCHES:
        x = torch.rand(num_faces, 3, size, size, generator=noise) * 2 - 1
        with torch.inference_mode():
            differences.append(float((run(x) - reference(x)).abs().max()))
    return max(differences)
