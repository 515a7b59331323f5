"""Aligned portraits through a network, as `training.calibrate` needs them. To measure a model: `gpen evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpen_core.evaluation.contenders import from_engine, to_engine
from gpen_core.evaluation.portraits import to_aligned
from gpen_core.evaluation.region import SIZE_PX, face_region
from gpen_core.photo.io import read_photo
from gpen_core.runtime.engine import CropRestorer
from gpen_core.types import Pixels

__all__ = ["face_region", "read_portrait", "restore_aligned"]


def read_portrait(path: Path) -> Pixels:
    """(SIZE_PX, SIZE_PX, 3) uint8 RGB, shrunk by area averaging.

    Raises:
        PhotoError: the file cannot be read, or is no square of SIZE_PX or more.
    """
    return to_aligned(read_photo(path), path, SIZE_PX)


def restore_aligned(engine: CropRestorer, portraits: Sequence[Pixels]) -> list[Pixels]:
    """Portraits through the network alone: no detection, no paste-back, no keeping of tone.

    Raises:
        ValueError: the network gave numbers that are not finite.
    """
    crops = [to_engine(engine, portrait) for portrait in portraits]
    answers = [crop for crop in engine.restore_crops(crops, lambda done: None).crops if crop is not None]
    if len(answers) < len(crops):
        raise ValueError(f"{len(crops) - len(answers)} of {len(crops)} answers of the network are not finite")
    return [from_engine(engine, answer) for answer in answers]
