"""Which of the faces found are restored, and why the others are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpen_core.errors import OptionError
from gpen_core.faces.align import looks_frontal
from gpen_core.options import RestoreOptions
from gpen_core.types import DetectedFace


def skip_reasons(faces: Sequence[DetectedFace], options: RestoreOptions, width: int, height: int) -> list[str]:
    """For each face why it is left alone, in words for people; empty where it is to be restored.

    Args:
        faces: in their stable order; `options.faces` counts in it.
        options: selection, smallest size, largest count.
        width, height: of the photo in px.

    Raises:
        OptionError: a face number is asked for that does not exist.
    """
    reasons = [_unfit_reason(face, options) for face in faces]
    fit = [index for index, reason in enumerate(reasons) if not reason]
    chosen = _chosen(faces, fit, options, width, height)
    for index in fit:
        if index not in chosen:
            reasons[index] = f"not selected (faces: {options.faces})"
    if len(chosen) > options.max_faces:
        by_size = sorted(chosen, key=lambda index: (-faces[index].box.area, index))
        for index in by_size[options.max_faces :]:
            reasons[index] = f"more than {options.max_faces} faces; the largest were taken"
    return reasons


def _unfit_reason(face: DetectedFace, options: RestoreOptions) -> str:
    shorter_px = min(face.box.width, face.box.height)
    if shorter_px < options.min_face_px:
        return f"too small ({shorter_px:.0f} px; the limit is {options.min_face_px} px)"
    if not looks_frontal(face):
        return "its eyes, nose and mouth do not lie as in a face seen from the front"
    return ""


def _chosen(
    faces: Sequence[DetectedFace], fit: list[int], options: RestoreOptions, width: int, height: int
) -> set[int]:
    numbers = options.face_numbers
    if numbers is not None:
        beyond = [number for number in numbers if number >= len(faces)]
        if beyond and faces:
            raise OptionError(
                f"There is no face {beyond[0]}: {len(faces)} were found, numbered from left to right "
                f"from 0 to {len(faces) - 1}."
            )
        return set(numbers) & set(fit)
    if options.faces == "all" or not fit:
        return set(fit)
    if options.faces == "largest":
        return {max(fit, key=lambda index: faces[index].box.area)}
    middle = np.array([width / 2, height / 2])
    return {min(fit, key=lambda index: float(np.linalg.norm(np.array(faces[index].box.center) - middle)))}
