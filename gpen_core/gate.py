"""Leave a face as it was where the judge says that restoring it does harm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpen_core.faces.align import estimate_similarity, extract_crop, template_points, transform_points
from gpen_core.options import RestoreOptions
from gpen_core.runtime.judge import FACE_SIZE_PX, FaceJudge, Verdict
from gpen_core.types import AlignedCrop, Pixels, RestoredFace


def apply_gate(judge: FaceJudge, faces: Sequence[RestoredFace], options: RestoreOptions) -> tuple[RestoredFace, ...]:
    """The same faces, each restored one with the judge's scores, and skipped where these are beyond the limits."""
    judged = [face for face in faces if face.crop is not None and face.restored is not None]
    if not judged:
        return tuple(faces)
    before = [_small_face(face, face.crop, face.crop.pixels) for face in judged if face.crop is not None]
    after = [
        _small_face(face, face.crop, face.restored)
        for face in judged
        if face.crop is not None and face.restored is not None
    ]
    verdicts = dict(zip([face.index for face in judged], judge.judge(before, after), strict=True))
    return tuple(_apply(face, verdicts[face.index], options) if face.index in verdicts else face for face in faces)


def _small_face(face: RestoredFace, crop: AlignedCrop, pixels: Pixels) -> Pixels:
    """(112, 112, 3) of the crop's pixels on the judge's template: the same part of the face before and after."""
    landmarks = transform_points(crop.affine, face.face.landmarks)
    return extract_crop(pixels, estimate_similarity(landmarks, template_points("arcface", FACE_SIZE_PX)), FACE_SIZE_PX)


def _apply(face: RestoredFace, verdict: Verdict, options: RestoreOptions) -> RestoredFace:
    face = replace(face, quality=verdict.quality, identity_distance=verdict.distance)
    if verdict.quality < options.min_quality:
        reason = f"too poor to restore (quality {verdict.quality:.2f}; the limit is {options.min_quality:g})"
    elif verdict.distance > options.max_distance:
        reason = (
            f"it would no longer look like the same person (distance {verdict.distance:.2f}; "
            f"the limit is {options.max_distance:g})"
        )
    else:
        return face
    return replace(face, decision="skipped", reason=reason, restored=None)
