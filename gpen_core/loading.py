"""The networks that a restorer holds, loaded as the runtime options say.

torch is imported where a network needs it: an ONNX file and the embedded detector do not.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpen_core.errors import OptionError
from gpen_core.faces.detect import EmbeddedDetector, FaceDetector, FacexlibDetector
from gpen_core.models.registry import get_spec
from gpen_core.models.verify import WeightsFile
from gpen_core.models.weights import load_model, load_present, load_weights, verified_file
from gpen_core.options import RuntimeOptions
from gpen_core.runtime.crops import CropRestorer
from gpen_core.runtime.judge import FaceJudge
from gpen_core.runtime.onnx_engine import ONNX_SUFFIX, OnnxEngine
from gpen_core.tasks import TASKS, Task
from gpen_core.types import OnProgress

if TYPE_CHECKING:
    from gpen_core.runtime.engine import Engine


class LoadedEngine(NamedTuple):
    """GPEN, ready to run."""

    engine: CropRestorer
    model_sha256: str
    task: Task


def load_engine(runtime: RuntimeOptions, report: OnProgress, notes: list[str]) -> LoadedEngine:
    """GPEN from the weights or the ONNX file that the options name.

    Args:
        runtime: as it was asked for.
        report: hears how far a download is.
        notes: what is to know of how it was found and placed is added.

    Raises:
        OptionError: the file is made for another task.
        WeightsError: the weights can neither be found nor fetched, are damaged or of another network.
        DeviceError: no such device.
    """
    weights = Path(runtime.weights) if runtime.weights else None
    if weights is not None and weights.suffix == ONNX_SUFFIX:
        return _load_exported(weights, runtime)
    model = runtime.model_for_task if weights is None else runtime.model
    task = TASKS[runtime.task_name]
    engine, sha256 = _load_weights(model, weights, runtime, task, report, notes)
    return LoadedEngine(engine, sha256, task)


def _load_weights(
    model: str, weights: Path | None, runtime: RuntimeOptions, task: Task, report: OnProgress, notes: list[str]
) -> tuple[Engine, str]:
    from gpen_core.models.checkpoint import load_generator
    from gpen_core.models.gpen import Generator
    from gpen_core.runtime.device import resolve_placement
    from gpen_core.runtime.engine import Engine
    from gpen_core.runtime.networks import GeneratorSource

    def load(file: WeightsFile) -> Generator:
        return load_generator(file.path, expected_size=file.spec.size or None)

    file, generator = load_model(model, weights, load, report)
    placement = resolve_placement(runtime, file.spec.name if file.is_verified else None)
    notes += (*file.notes, *placement.notes)
    engine = Engine(
        GeneratorSource(generator, file.path, lambda: load(file)),
        template=file.spec.template,
        model_name=file.spec.name,
        strength_coefficients=file.spec.strength_coefficients if file.is_verified else None,
        placement=placement,
        runtime=runtime,
        value_range=task.value_range,
    )
    return engine, file.sha256


def _load_exported(path: Path, runtime: RuntimeOptions) -> LoadedEngine:
    exported = OnnxEngine(path, runtime)
    if runtime.task not in ("auto", exported.task):
        raise OptionError(f"{path.name} is made for task {exported.task}, not for {runtime.task}; choose task auto.")
    return LoadedEngine(exported, exported.model_sha256, TASKS[exported.task])


def load_detector(runtime: RuntimeOptions, report: OnProgress, notes: list[str]) -> FaceDetector:
    """The one asked for; `auto` takes RetinaFace-R50 where its file is, else the embedded one. See `load_engine`."""
    if runtime.detector == EmbeddedDetector.name:
        return EmbeddedDetector()
    spec = get_spec(FacexlibDetector.name)

    def load(file: WeightsFile) -> FaceDetector:
        from gpen_core.runtime.device import resolve_placement

        return FacexlibDetector(file.path, str(resolve_placement(runtime).device))

    if runtime.detector == FacexlibDetector.name:
        file, detector = load_weights(spec, load, report)
        notes += file.notes
        return detector
    passed: list[str] = []
    found = load_present(spec, load, passed)
    notes += found[0].notes if found else passed
    return found[1] if found else EmbeddedDetector()


def load_judge(runtime: RuntimeOptions, report: OnProgress, notes: list[str]) -> FaceJudge:
    """The gate's networks. See `load_engine`."""
    from gpen_core.runtime.device import resolve_placement
    from gpen_core.runtime.eqface_judge import EqFaceJudge

    backbone, quality = (verified_file(get_spec(name), report) for name in ("eqface-backbone", "eqface-quality"))
    notes += (*backbone.notes, *quality.notes)
    return EqFaceJudge(backbone.path, quality.path, resolve_placement(runtime).device)
