"""What a result says of its faces, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpen_core.faces.align import similarity_scale
from gpen_core.faces.condition import LARGE_FACE_FACTOR
from gpen_core.faces.paste import Patch
from gpen_core.options import RestoreOptions
from gpen_core.photo.background import Background
from gpen_core.photo.inpaint_mask import InpaintMask
from gpen_core.prepared import NetworkAnswer, PreparedPhoto
from gpen_core.result import Composition
from gpen_core.runtime.crops import CropRestorer
from gpen_core.tasks import Task
from gpen_core.types import AlignedCrop, RestoredFace
from gpen_core.whole import whole_notes

FILLED_FROM = 0.5
"""Weight from which a marked pixel counts as filled."""
NAMED_SHARE = 0.01
"""Share of a mask from which it is said that it was left."""
MAX_NAMED = 5
"""Skipped and failed faces that get a note of their own."""


def result_notes(
    prepared: PreparedPhoto,
    answer: NetworkAnswer,
    faces: Sequence[RestoredFace],
    composition: Composition,
    restorer: CropRestorer,
    loading_notes: Sequence[str],
) -> tuple[str, ...]:
    """All that a result has to say, once each.

    Args:
        prepared: the photo.
        answer: what the network answered; `ran` tells of both passes.
        faces: what became of each.
        composition: what was pasted.
        restorer: GPEN.
        loading_notes: what is to know of how the networks were found and placed.
    """
    task, options, whole = prepared.task, prepared.options, answer.whole
    notes = [*prepared.photo.notes, *loading_notes, *prepared.background.notes, *prepared.found.notes]
    notes += answer.ran.notes
    notes += prepared.notes
    if whole is None:
        notes += mask_notes(prepared.canvas_mask, composition.patches.values())
    elif not task.takes_label_map:
        notes += whole_notes(prepared.found.faces, options.scale, whole.plan)
    if task.note and (composition.patches or whole is not None):
        notes.append(task.note)
    return tuple(dict.fromkeys((*notes, *face_notes(faces, prepared.background, restorer, options, task))))


def face_notes(
    faces: Sequence[RestoredFace],
    background: Background,
    restorer: CropRestorer,
    options: RestoreOptions,
    task: Task,
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
    if large and task.name == "restore":
        which = ", ".join(map(str, large))
        notes.append(
            f"Larger in the photo than {restorer.model_name} sees a face ({restorer.size} px): {which}; "
            "their finest detail was kept as it was."
        )
    return notes


def _is_large(crop: AlignedCrop | None) -> bool:
    return crop is not None and similarity_scale(crop.affine) * LARGE_FACE_FACTOR < 1.0


def mask_notes(mask: InpaintMask | None, patches: Iterable[Patch]) -> list[str]:
    """How much of what an inpainting mask marks no face has filled."""
    if mask is None:
        return []
    is_left = mask.is_marked
    num_marked = int(is_left.sum())
    for patch in patches:
        is_left[patch.y0 : patch.y1, patch.x0 : patch.x1] &= patch.weights < FILLED_FROM
    share = int(is_left.sum()) / max(num_marked, 1)
    if share < NAMED_SHARE:
        return []
    return [f"{share:.0%} of what the mask marks lies outside the faces that were filled, and stayed as it was."]
