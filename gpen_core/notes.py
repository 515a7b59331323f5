"""What a result says of its faces, for people."""

from __future__ import annotations

from collections.abc import Sequence

from gpen_core.faces.align import similarity_scale
from gpen_core.faces.condition import LARGE_FACE_FACTOR
from gpen_core.options import RestoreOptions
from gpen_core.photo.background import Background
from gpen_core.runtime.crops import CropRestorer
from gpen_core.types import AlignedCrop, RestoredFace

MAX_NAMED = 5
"""Skipped and failed faces that get a note of their own."""


def face_notes(
    faces: Sequence[RestoredFace], background: Background, restorer: CropRestorer, options: RestoreOptions
) -> list[str]:
    """A sentence for each face that was not restored, and for what limits the others. Mode whole restores no face."""
    if options.mode == "whole" or (options.mode == "both" and not faces):
        return []
    if not faces:
        fate = "unchanged" if options.scale == 1 else "only resampled"
        if background.upscaler is not None:
            fate = f"only enlarged by {background.upscaler}"
        return [f"No face was found, so the photo is {fate}; try a clearer or larger face, or a lower threshold."]
    notes = [f"Face {face.index} was {face.decision}: {face.reason}." for face in faces if face.reason]
    if len(notes) > MAX_NAMED:
        rest = len(notes) - MAX_NAMED
        notes = [*notes[:MAX_NAMED], f"{rest} more faces were skipped or failed; the report names them all."]
    if options.strength == "auto" and restorer.strength_coefficients is None:
        notes.append(f"Automatic strength is not calibrated for {restorer.model_name}, so full strength was used.")
    large = [face.index for face in faces if face.decision == "restored" and _is_large(face.crop)]
    if large:
        which = ", ".join(map(str, large))
        notes.append(
            f"Larger in the photo than {restorer.model_name} sees a face ({restorer.size} px): {which}; "
            "their finest detail was kept as it was."
        )
    return notes


def _is_large(crop: AlignedCrop | None) -> bool:
    return crop is not None and similarity_scale(crop.affine) * LARGE_FACE_FACTOR < 1.0
