"""Calibrate the automatic strength of a model: `python -m training.calibrate --data FOLDER [--weights FILE]`.

Damages aligned portraits in random ways, restores them, and fits by least squares which blend of damaged and restored
comes nearest to the truth (`gpen_core.faces.condition`). Prints the coefficients for the model's `ModelSpec`, and what
they bring on portraits that the fit did not see. Use portraits the model was not judged by: the training ones.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpen_core.evaluation.contenders import from_engine, to_engine
from gpen_core.evaluation.degrade import DegradationLevel, degrade, truth_for
from gpen_core.evaluation.portraits import to_aligned
from gpen_core.evaluation.region import SIZE_PX, face_region
from gpen_core.faces.condition import measure_condition, strength_features
from gpen_core.folders import list_photos
from gpen_core.options import RuntimeOptions
from gpen_core.photo.io import read_photo
from gpen_core.restorer import Restorer
from gpen_core.runtime.crops import CropRestorer
from gpen_core.types import Pixels

DAMAGES_A_PORTRAIT = 5
DAMAGE_SHARE = 0.7
MIN_ERROR = 2.0
"""Mean squared error in levels below which a face counts as the truth: keeps the weights of clean ones finite."""
RIDGE = 3e-2
HELD_OUT = 4
"""Every so many-th portrait is kept for the test."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One damaged face, its features, and the errors that the blend is fitted to."""

    features: npt.NDArray[np.float64]
    error: float
    """Mean squared distance of the damaged face from the truth, in levels."""
    change: float
    """Mean squared change by the network."""
    best: float
    """Blend in [0, 1] nearest to the truth."""

    def error_at(self, strength: float) -> float:
        """Mean squared distance from the truth at a blend: a parabola through the best one."""
        return self.error - 2 * strength * self.best * self.change + strength**2 * self.change


def random_damage(rng: np.random.Generator) -> DegradationLevel:
    """Anything from hardly touched to worse than the named levels; each kind of damage may also be missing."""

    def sometimes(damaged: float, untouched: float) -> float:
        return damaged if rng.random() < DAMAGE_SHARE else untouched

    return DegradationLevel(
        blur_px=sometimes(rng.uniform(0.1, 2.5), 0.05),
        down=sometimes(rng.uniform(1.0, 4.5), 1.0),
        noise=sometimes(rng.uniform(0, 15), 0.0),
        jpeg_quality=int(sometimes(rng.uniform(35, 95), rng.uniform(95, 100))),
        is_aged=bool(rng.random() < 0.2),
    )


def make_samples(engine: CropRestorer, portraits: list[Pixels], seed: int) -> list[list[Sample]]:
    """For each portrait itself, undamaged, and `DAMAGES_A_PORTRAIT` damaged copies."""
    rng = np.random.default_rng(seed)
    truths: list[Pixels] = []
    inputs: list[Pixels] = []
    for portrait in portraits:
        truths.append(portrait)
        inputs.append(portrait)
        for _ in range(DAMAGES_A_PORTRAIT):
            level = random_damage(rng)
            truths.append(truth_for(portrait, level))
            inputs.append(degrade(portrait, level, int(rng.integers(1 << 31))))
    answers = restore_aligned(engine, inputs)
    flat = [make_sample(*triple, engine.template) for triple in zip(truths, inputs, answers, strict=True)]
    number = 1 + DAMAGES_A_PORTRAIT
    return [flat[start : start + number] for start in range(0, len(flat), number)]


def restore_aligned(engine: CropRestorer, portraits: list[Pixels]) -> list[Pixels]:
    """Portraits through the network alone: no detection, no paste-back, no keeping of tone.

    Raises:
        ValueError: the network gave numbers that are not finite.
    """
    crops = [to_engine(engine, portrait) for portrait in portraits]
    answers = [crop for crop in engine.restore_crops(crops, lambda done: None).crops if crop is not None]
    if len(answers) < len(crops):
        raise ValueError(f"{len(crops) - len(answers)} of {len(crops)} answers of the network are not finite")
    return [from_engine(engine, answer) for answer in answers]


def make_sample(truth: Pixels, damaged: Pixels, restored: Pixels, template: str) -> Sample:
    region = face_region()
    error = truth.astype(np.float64)[region] - damaged[region]
    change = restored.astype(np.float64)[region] - damaged[region]
    change_energy = float(np.mean(change**2))
    return Sample(
        features=strength_features(measure_condition(damaged, restored, template)),
        error=float(np.mean(error**2)),
        change=change_energy,
        best=float(np.clip(np.mean(error * change) / max(change_energy, 1e-6), 0, 1)),
    )


def fit(samples: list[Sample]) -> npt.NDArray[np.float64]:
    """Coefficients of least relative error: a level lost on a clean face weighs more than one on a ruined face."""
    features = np.stack([sample.features for sample in samples])
    best = np.array([sample.best for sample in samples])
    weights = np.sqrt([sample.change / max(sample.error_at(sample.best), MIN_ERROR) for sample in samples])
    rows = np.vstack((features * weights[:, None], RIDGE * np.eye(features.shape[1])))
    solution: npt.NDArray[np.float64] = np.linalg.lstsq(
        rows, np.concatenate((best * weights, np.zeros(features.shape[1]))), rcond=None
    )[0]
    return solution


def mean_psnr(samples: list[Sample], coefficients: npt.NDArray[np.float64] | float) -> float:
    """Mean dB at the predicted blend, or at one blend for all."""
    errors = []
    for sample in samples:
        strength = coefficients if isinstance(coefficients, float) else sample.features @ coefficients
        errors.append(max(sample.error_at(float(np.clip(strength, 0, 1))), MIN_ERROR))
    return float(np.mean(10 * np.log10(255**2 / np.array(errors))))


def main() -> None:
    parser = argparse.ArgumentParser(description="Calibrate the automatic strength of a model.")
    parser.add_argument("--data", type=Path, required=True, help="folder of square portraits, FFHQ-aligned")
    parser.add_argument("--weights", help="weights file of a starter (default: the embedded one)")
    parser.add_argument("--limit", type=int, default=360, help="portraits used (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    runtime = RuntimeOptions(model="starter-256", weights=arguments.weights)
    paths = list_photos(arguments.data).photos[: arguments.limit]
    portraits = [to_aligned(read_photo(path), path, SIZE_PX) for path in paths]
    groups = make_samples(Restorer(runtime=runtime).crop_restorer, portraits, arguments.seed)
    seen = [sample for i, group in enumerate(groups) for sample in group if i % HELD_OUT]
    unseen = [sample for i, group in enumerate(groups) for sample in group if i % HELD_OUT == 0]
    coefficients = fit(seen)
    clean = [sample for sample in unseen if sample.error == 0]
    damaged = [sample for sample in unseen if sample.error > 0]
    for name, part in (("damaged", damaged), ("clean", clean)):
        figures = [mean_psnr(part, 0.0), mean_psnr(part, 1.0), mean_psnr(part, coefficients)]
        print(f"{name}: as it is {figures[0]:.2f} dB, restored {figures[1]:.2f} dB, automatic {figures[2]:.2f} dB")
    print("strength_coefficients=(" + ", ".join(f"{value:.5f}" for value in coefficients) + ")")


if __name__ == "__main__":
    main()
