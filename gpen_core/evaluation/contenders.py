"""What is compared: the input as it is, an unsharp mask, and models."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np

from gpen_core.errors import OptionError
from gpen_core.evaluation.memory import measure_face_memory, restore_gray
from gpen_core.evaluation.options import ModelChoice
from gpen_core.evaluation.region import SIZE_PX, TEMPLATE
from gpen_core.faces.align import estimate_similarity, extract_crop, invert_affine, template_points
from gpen_core.faces.condition import measure_condition, predict_strength
from gpen_core.models.verify import WeightsFile
from gpen_core.models.weights import resolve_model
from gpen_core.options import RuntimeOptions
from gpen_core.restorer import Restorer
from gpen_core.runtime.crops import CropRestorer
from gpen_core.types import Affine, Pixels

UNSHARP_SIGMA_PX = 2.0
UNSHARP_AMOUNT = 1.0
BASELINES = ("input", "unsharp")


def sharpen(image: Pixels) -> Pixels:
    """The unsharp mask: what a picture differs by from its blurred self is added to it. (H, W, 3) uint8 RGB."""
    levels = image.astype(np.float32)
    blurred = cv2.GaussianBlur(levels, (0, 0), UNSHARP_SIGMA_PX)
    return np.clip(np.rint(levels + UNSHARP_AMOUNT * (levels - blurred)), 0, 255).astype(np.uint8)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Contender:
    """A model that is compared, loaded and warm."""

    label: str
    choice: ModelChoice
    restorer: Restorer
    file: WeightsFile
    precision: str
    is_compiled: bool
    memory_mib: float | None
    """What one face takes at its peak; None where it was not measured."""

    def to_report(self) -> dict[str, Any]:
        """All but the network, ready for JSON."""
        return {
            "label": self.label,
            "asked": self.choice.text,
            "model": self.file.spec.name,
            "file": self.file.path.name,
            "sha256": self.file.sha256,
            "is_verified": self.file.is_verified,
            "strength": self.choice.strength,
            "device": self.restorer.crop_restorer.device_name,
            "precision": self.precision,
            "compiled": self.is_compiled,
            "memory_mib": self.memory_mib,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """A crop as a model gives it back."""

    pixels: Pixels | None
    """(SIZE_PX, SIZE_PX, 3); None where the network gave numbers that are not finite."""
    seconds: float
    """Network, blend and layout; without warping to the model's alignment."""


def load_contenders(
    choices: Sequence[ModelChoice], runtime: RuntimeOptions, *, is_measuring_memory: bool
) -> list[Contender]:
    """Load the models. Those of one file share its network and detector.

    Args:
        choices: what was asked for.
        runtime: device, precision and detector; its model and weights are not used.
        is_measuring_memory: also run a face of each in a process of its own.

    Raises:
        GpenError: a model cannot be loaded, or has no automatic strength where that is asked for.
    """
    loaded: dict[tuple[str, str], Contender] = {}
    contenders: list[Contender] = []
    for choice in choices:
        own = replace(runtime, model=choice.model, weights=str(choice.weights) if choice.weights else None)
        file = resolve_model(own.model, choice.weights)
        known = loaded.get((file.sha256, file.spec.name))
        if known is None:
            detector = contenders[0].restorer.detector if contenders else None
            memory_mib = measure_face_memory(own) if is_measuring_memory else None
            restorer = Restorer(runtime=own, detector=detector)
            precision, is_compiled = restore_gray(restorer.crop_restorer)
            known = Contender(
                label="",
                choice=choice,
                restorer=restorer,
                file=file,
                precision=precision,
                is_compiled=is_compiled,
                memory_mib=memory_mib,
            )
            loaded[file.sha256, file.spec.name] = known
        if choice.strength == "auto" and known.restorer.crop_restorer.strength_coefficients is None:
            raise OptionError(f"Automatic strength is not calibrated for {choice.text}; give a number after the @.")
        taken = [*BASELINES, *(contender.label for contender in contenders)]
        contenders.append(replace(known, label=_free_label(file, choice, taken), choice=choice, file=file))
    return contenders


def _free_label(file: WeightsFile, choice: ModelChoice, taken: Sequence[str]) -> str:
    label = choice.weights.stem if choice.weights else file.spec.name
    label += "" if choice.strength == 1.0 else f"@{choice.strength}"
    number, free = 1, label
    while free in taken:
        number += 1
        free = f"{label} ({number})"
    return free


def restore_crop(contender: Contender, damaged: Pixels) -> Answer:
    """One aligned crop through the network and the blend: no detection, no paste-back, no keeping of tone.

    Args:
        contender: the model.
        damaged: (SIZE_PX, SIZE_PX, 3) uint8 RGB, aligned to TEMPLATE.
    """
    engine = contender.restorer.crop_restorer
    crop = to_engine(engine, damaged)
    start = time.perf_counter()
    restored = engine.restore_crops([crop], lambda done: None).crops[0]
    if restored is None:
        return Answer(None, time.perf_counter() - start)
    strength = _strength(contender, crop, restored)
    if strength != 1.0:
        restored = np.rint(crop + strength * (restored.astype(np.float32) - crop)).astype(np.uint8)
    seconds = time.perf_counter() - start
    return Answer(from_engine(engine, restored), seconds)


def to_engine(engine: CropRestorer, crop: Pixels) -> Pixels:
    """(SIZE_PX, SIZE_PX, 3), aligned to TEMPLATE -> (S, S, 3), aligned as the engine needs it.

    An engine of that size and template gets the crop as it is.
    """
    return extract_crop(crop, _affine_to(engine), engine.size) if _is_warped(engine) else crop


def from_engine(engine: CropRestorer, answer: Pixels) -> Pixels:
    """The way back of `to_engine`."""
    return extract_crop(answer, invert_affine(_affine_to(engine)), SIZE_PX) if _is_warped(engine) else answer


def _is_warped(engine: CropRestorer) -> bool:
    return (engine.template, engine.size) != (TEMPLATE, SIZE_PX)


def _affine_to(engine: CropRestorer) -> Affine:
    return estimate_similarity(template_points(TEMPLATE, SIZE_PX), template_points(engine.template, engine.size))


def _strength(contender: Contender, crop: Pixels, restored: Pixels) -> float:
    asked, engine = contender.choice.strength, contender.restorer.crop_restorer
    if asked != "auto":
        return asked
    if engine.strength_coefficients is None:
        return 1.0
    condition = measure_condition(crop, restored, engine.template)
    return predict_strength(condition, engine.strength_coefficients)
