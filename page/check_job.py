"""One photo under several settings for one visitor: what is compared, how it is run, and the ZIP of it."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpen_core.errors import FAILURES, Cancelled, PhotoError
from gpen_core.evaluation.comparison import Comparison, Setting
from gpen_core.models.registry import get_spec
from gpen_core.models.weights import best_present, is_present
from gpen_core.options import TILES, PxOrAuto, RestoreOptions, RuntimeOptions, Strength, allowed, default, models_of
from gpen_core.photo.io import megapixels_of
from gpen_core.photo.write import write_photo
from gpen_core.types import OnProgress, Progress
from page.jobs import GetRestorer, Report, Turns

if TYPE_CHECKING:
    from gpen_core.restorer import Restorer

LETTERS = "ABCD"
STRENGTHS: tuple[Strength, ...] = ("auto", *(number / 10 for number in range(11)))
PRECISIONS: tuple[str, ...] = allowed(RuntimeOptions, "precision").choices or ()
MAX_MEGAPIXELS = 24
"""Of a photo: each visitor's pictures are kept, one a setting, until they leave."""
NUMBERS_NAME = "comparison.json"
TOO_LARGE = "The photo has {megapixels} megapixels; the quality check takes up to {limit}, so scale it down first."


class Choice(NamedTuple):
    """One setting as the page's controls hold it."""

    model: str
    strength: Strength
    tile_px: PxOrAuto
    precision: str

    def to_setting(self) -> Setting:
        """Raises OptionError for values that are outside what is allowed."""
        return Setting(
            options=RestoreOptions(strength=self.strength, tile_px=self.tile_px),
            runtime=RuntimeOptions(model=self.model, precision=self.precision),
        )


def presets() -> dict[str, tuple[Choice, ...]]:
    """What people compare most, by name; only what this machine can do without fetching anything."""
    model = best_present()
    plain = Choice(
        model.name,
        default(RestoreOptions, "strength"),
        default(RestoreOptions, "tile_px"),
        default(RuntimeOptions, "precision"),
    )
    strengths: list[Strength] = [1.0, 0.7, 0.4]
    if model.strength_coefficients is not None:
        strengths.append("auto")
    models = [name for name in models_of("restore") if is_present(get_spec(name))]
    tiles: list[PxOrAuto] = [0, 128, 64]
    found = {
        "strengths": tuple(plain._replace(strength=strength) for strength in strengths),
        "models": tuple(plain._replace(model=name) for name in models[: len(LETTERS)]),
        "precision": tuple(plain._replace(precision=name) for name in ("fp32", "fp16")),
        "tiles": tuple(plain._replace(tile_px=tile) for tile in tiles if tile in TILES),
    }
    return {name: choices for name, choices in found.items() if len(choices) > 1}


@dataclass(slots=True, eq=False)
class CheckJob:
    """One comparison; `work` is for `Jobs.run`."""

    get_restorer: GetRestorer
    device: Turns
    photo: Path
    settings: Sequence[Setting]
    current: int = field(default=0)
    """Index of the setting that runs."""

    def work(self, report: Report) -> Comparison:
        """Compare the settings.

        Raises:
            GpenError: the photo cannot be read or is too large, the settings cannot be compared, or it was stopped.
        """
        from gpen_core.evaluation.compare import compare_settings  # here, because it loads torch

        megapixels = megapixels_of(self.photo)
        if megapixels > MAX_MEGAPIXELS:
            raise PhotoError(TOO_LARGE.format(megapixels=f"{megapixels:.0f}", limit=MAX_MEGAPIXELS))
        restorers = {setting.runtime: self._load(setting.runtime, report) for setting in self.settings}

        def get(runtime: RuntimeOptions, on_progress: OnProgress) -> Restorer:
            found = restorers[runtime]
            if isinstance(found, BaseException):
                raise found
            return found

        with self.device.take(report):
            return compare_settings(get, self.photo.read_bytes(), self.settings, report, self._begin)

    def _load(self, runtime: RuntimeOptions, report: Report) -> Restorer | BaseException:
        """The networks, or why they cannot be had, which is that setting's outcome. Nobody waits meanwhile."""
        report(Progress("prepare", 0, 1))
        asked = None if runtime.precision == default(RuntimeOptions, "precision") else runtime.precision
        try:
            return self.get_restorer(runtime.model, report, precision=asked)
        except Cancelled:
            raise
        except FAILURES as error:
            return error

    def _begin(self, index: int) -> None:
        self.current = index

    def share(self, share: float) -> float:
        """How far the whole comparison is, 0 to 1, where the current setting is `share` done."""
        return (self.current + share) / len(self.settings)


def title_of(setting: Setting, settings: Sequence[Setting], say: Callable[..., str]) -> str:
    """The model, and in what else the settings differ.

    Args:
        setting: one of them.
        settings: all of them.
        say: puts a sentence and its values into the visitor's language.
    """
    parts = [setting.runtime.model]
    values: dict[str, Callable[[Setting], object]] = {
        "strength {value}": lambda each: each.options.strength,
        "tiles {value}": lambda each: each.options.tile_px,
        "{value}": lambda each: each.runtime.precision,
    }
    for sentence, read in values.items():
        if len({read(each) for each in settings}) > 1:
            parts.append(say(sentence, value=read(setting)))
    return " · ".join(parts)


def write_zip(comparison: Comparison, stem: str, path: Path) -> None:
    """Each setting's picture in full quality, and the numbers."""
    with tempfile.TemporaryDirectory(prefix="gpen-") as folder, zipfile.ZipFile(path, "w") as container:
        for letter, outcome in zip(LETTERS, comparison.outcomes, strict=False):
            if outcome.photo is None:
                continue
            picture = Path(folder, f"{letter}.png")
            write_photo(outcome.photo, picture, has_ai=True)
            container.write(picture, f"{stem}_{letter}_{outcome.setting.runtime.model}.png")
            picture.unlink()
        numbers = json.dumps(comparison.to_report(), indent=2, ensure_ascii=False)
        container.writestr(NUMBERS_NAME, numbers + "\n")
