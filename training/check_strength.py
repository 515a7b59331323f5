"""Whether the automatic strength does no harm: `python -m training.check_strength --data FOLDER`.

Damages portraits that neither training nor calibration saw, from hardly to heavily, and compares at every level the
damaged face, its full restoration and the blend that `strength="auto"` chooses.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpen_core.evaluation.contenders import Contender, load_contenders, restore_crop
from gpen_core.evaluation.degrade import LEVELS, DegradationLevel, degrade, truth_for
from gpen_core.evaluation.metrics import psnr
from gpen_core.evaluation.options import ModelChoice
from gpen_core.evaluation.portraits import to_aligned
from gpen_core.evaluation.region import SIZE_PX, face_region
from gpen_core.folders import list_photos
from gpen_core.options import RuntimeOptions
from gpen_core.photo.io import read_photo
from gpen_core.types import Pixels
from training.calibrate import MIN_ERROR

LIGHT_SHARES = (0.15, 0.3, 0.5, 0.75)
"""How much of the light damage the mildest levels have."""
MAX_PSNR_DB = 10 * math.log10(255**2 / MIN_ERROR)
"""Of answers that count as the truth itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Mean dB of one level's faces."""

    level: str
    damaged: float
    restored: float
    automatic: float

    @property
    def loss(self) -> float:
        """What is lost against the better end; negative where both are beaten."""
        return max(self.damaged, self.restored) - self.automatic


def levels_to_check() -> dict[str, DegradationLevel | None]:
    """Undamaged, milder than light, and the named levels."""
    milder = {f"{share:g} of light": milder_than(LEVELS["light"], share) for share in LIGHT_SHARES}
    return {"none": None, **milder, **LEVELS}


def milder_than(level: DegradationLevel, share: float) -> DegradationLevel:
    """Each kind of damage reduced to a share of what it is."""
    return DegradationLevel(
        blur_px=level.blur_px * share,
        down=1 + (level.down - 1) * share,
        noise=level.noise * share,
        jpeg_quality=round(100 - (100 - level.jpeg_quality) * share),
        is_aged=level.is_aged,
    )


def compare(
    portraits: Sequence[Pixels], name: str, level: DegradationLevel | None, full: Contender, automatic: Contender
) -> Comparison:
    """The three answers at one level; a portrait's place is the seed of its noise."""
    figures = []
    for seed, portrait in enumerate(portraits):
        truth = portrait if level is None else truth_for(portrait, level)
        damaged = portrait if level is None else degrade(portrait, level, seed)
        answers = [damaged, *(restore_crop(contender, damaged).pixels for contender in (full, automatic))]
        figures.append([limited_psnr(truth, answer) for answer in answers if answer is not None])
    return Comparison(level=name, **dict(zip(("damaged", "restored", "automatic"), mean_rows(figures), strict=True)))


def limited_psnr(truth: Pixels, answer: Pixels) -> float:
    return min(psnr(truth, answer, face_region()), MAX_PSNR_DB)


def mean_rows(rows: Sequence[Sequence[float]]) -> list[float]:
    return [float(mean) for mean in np.mean(np.array(rows), axis=0)]


def format_table(comparisons: Sequence[Comparison]) -> str:
    lines = ["| damage | as it is | restored | automatic | lost against the better |", "|---|---|---|---|---|"]
    for row in comparisons:
        lines.append(f"| {row.level} | {row.damaged:.2f} | {row.restored:.2f} | {row.automatic:.2f} | {row.loss:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the automatic strength with both of its ends.")
    parser.add_argument("--data", type=Path, required=True, help="folder of square portraits, FFHQ-aligned")
    parser.add_argument("--model", default="starter-256", help="a calibrated model (default: %(default)s)")
    parser.add_argument("--limit", type=int, default=40, help="portraits used (default: %(default)s)")
    arguments = parser.parse_args()
    choices = [ModelChoice.parse(f"{arguments.model}{suffix}") for suffix in ("", "@auto")]
    full, automatic = load_contenders(choices, RuntimeOptions(), is_measuring_memory=False)
    paths = list_photos(arguments.data).photos[: arguments.limit]
    portraits = [to_aligned(read_photo(path), path, SIZE_PX) for path in paths]
    rows = [compare(portraits, name, level, full, automatic) for name, level in levels_to_check().items()]
    damaged, restored, blended = mean_rows([(row.damaged, row.restored, row.automatic) for row in rows])
    rows.append(Comparison(level="mean", damaged=damaged, restored=restored, automatic=blended))
    print(format_table(rows))


if __name__ == "__main__":
    main()
