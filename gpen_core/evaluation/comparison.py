"""What a comparison of settings gives: an outcome a setting, and their figures. Loads no network code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.types import Photo, Pixels

MIN_SETTINGS, MAX_SETTINGS = 2, 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What to do with the photo, and how the network runs."""

    options: RestoreOptions
    runtime: RuntimeOptions


class Difference(NamedTuple):
    """Between two pictures, in grey levels of 255 over pixels and channels."""

    mean: float
    maximum: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SettingOutcome:
    """What one setting made of the photo. All but the first two are empty where it failed."""

    setting: Setting
    error: str = ""
    """Why it failed, in a sentence for people."""
    photo: Photo | None = None
    report: Mapping[str, Any] | None = None
    """See `RestoreResult.to_report`."""
    seconds: float | None = None
    """The whole restoration without loading and compiling; where no network ran, the blending alone."""
    has_run_network: bool = False
    """False where another setting's faces were blended anew."""
    memory_mib: float | None = None
    """In use at most meanwhile, see `reset_peak`; None where that is not known, or no network ran."""
    sharpness: float | None = None
    """Variance of the Laplacian inside the faces, see `metrics.sharpness`; None without a face."""
    inside: Difference | None = None
    """To the first setting that worked, inside the faces; None without a face."""
    outside: Difference | None = None
    """The same in all the rest of the picture; None where the faces fill it."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Comparison:
    """The settings' outcomes, in the order they were given."""

    before: Pixels
    """The photo at the size of the results."""
    outcomes: tuple[SettingOutcome, ...]
    reference: int | None
    """Index of the outcome that the others are compared with; None where all failed."""
    places: tuple[tuple[float, float], ...]
    """(x, y) of each face's middle in result pixels, from left to right."""
    sharpness_before: float | None

    def to_report(self) -> dict[str, Any]:
        """Everything but the pixels, ready for JSON."""
        height, width = self.before.shape[:2]
        return {
            "size": [width, height],
            "reference": self.reference,
            "sharpness_before": _rounded(self.sharpness_before),
            "settings": [_outcome_report(outcome) for outcome in self.outcomes],
        }


def crop_window(pixels: Pixels, center: tuple[float, float], side_px: int) -> tuple[int, int, int, int]:
    """(x0, y0, x1, y1) of the square around a place, moved into the picture, or all of a side that is shorter."""
    height, width = pixels.shape[:2]
    begins = []
    for middle, length in zip(center, (width, height), strict=True):
        begins.append(max(0, min(round(middle - side_px / 2), length - side_px)))
    x0, y0 = begins
    return x0, y0, min(x0 + side_px, width), min(y0 + side_px, height)


def _outcome_report(outcome: SettingOutcome) -> dict[str, Any]:
    return {
        "model": outcome.setting.runtime.model,
        "strength": outcome.setting.options.strength,
        "tile": outcome.setting.options.tile_px,
        "precision": outcome.setting.runtime.precision,
        "error": outcome.error,
        "seconds": _rounded(outcome.seconds),
        "has_run_network": outcome.has_run_network,
        "memory_mib": _rounded(outcome.memory_mib),
        "sharpness": _rounded(outcome.sharpness),
        "difference_inside_faces": _difference_report(outcome.inside),
        "difference_outside_faces": _difference_report(outcome.outside),
        "ran": outcome.report,
    }


def _difference_report(difference: Difference | None) -> dict[str, float] | None:
    return difference and {"mean": round(difference.mean, 4), "max": difference.maximum}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
