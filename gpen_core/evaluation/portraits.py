"""The pictures that are evaluated: aligned crops of one face each, good ones and where given their damaged twins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from gpen_core.errors import PhotoError
from gpen_core.evaluation.degrade import LEVELS, degrade, truth_for
from gpen_core.evaluation.region import SIZE_PX, TEMPLATE
from gpen_core.faces.align import align_face, extract_crop, rescale_source, similarity_scale
from gpen_core.faces.detect import FaceDetector
from gpen_core.faces.search import find_faces
from gpen_core.faces.select import skip_reasons
from gpen_core.folders import list_photos
from gpen_core.options import RestoreOptions
from gpen_core.photo.io import read_photo
from gpen_core.types import Affine, Photo, Pixels

GIVEN = "given"
"""Strength of inputs that were not made here."""
MAX_ENLARGEMENT = 1.25
"""A good face that is enlarged more than this for its crop makes a soft truth, and is named."""
MAX_ASPECT_DIFFERENCE = 0.02


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Portrait:
    """One face, aligned to TEMPLATE: (SIZE_PX, SIZE_PX, 3) uint8 RGB each."""

    name: str
    seed: int
    """Place of the photo in its folder: of the noise that is added."""
    truth: Pixels
    damaged: Pixels | None
    """The given input; None where one is to be made."""
    enlargement: float
    """Crop pixels per pixel of the good photo."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Case:
    """One thing to restore."""

    picture: str
    strength: str
    truth: Pixels
    damaged: Pixels


@dataclass(frozen=True, kw_only=True, slots=True)
class Skipped:
    """A photo that was left out, and why."""

    name: str
    reason: str
    is_failure: bool
    """It should have worked: a damaged file, say, and not a landscape."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PortraitSource:
    """Where portraits come from."""

    photos: Sequence[Path]
    inputs: Path | None
    """Folder of damaged twins; None where the inputs are made."""
    is_aligned: bool
    detector: FaceDetector


def list_pictures(folder: Path, limit: int) -> tuple[Path, ...]:
    """The first `limit` photos of a folder by name; 0 takes all.

    Raises:
        PhotoError: there is no such folder, or it holds no photo.
    """
    if not folder.is_dir():
        raise PhotoError(f"There is no folder {folder}; name a folder with pictures.")
    return list_photos(folder).photos[: limit or None]


def read_portraits(source: PortraitSource) -> Iterator[Portrait | Skipped]:
    """One portrait a photo, or why there is none.

    Raises:
        PhotoError: the folder of inputs holds no photo.
    """
    twins = None if source.inputs is None else list_pictures(source.inputs, 0)
    for seed, path in enumerate(source.photos):
        twin = None if twins is None else find_twin(path, twins)
        if twins is not None and twin is None:
            yield Skipped(name=path.name, reason=f"{source.inputs} holds no picture of this name", is_failure=False)
            continue
        try:
            yield _read_portrait(source, path, twin, seed)
        except PhotoError as error:
            yield Skipped(name=path.name, reason=str(error).rstrip("."), is_failure=True)


def find_twin(path: Path, twins: Sequence[Path]) -> Path | None:
    """The file of the same name among `twins`, else the only one that differs in its ending alone."""
    same = [twin for twin in twins if twin.name == path.name] or [twin for twin in twins if twin.stem == path.stem]
    return same[0] if len(same) == 1 else None


def _read_portrait(source: PortraitSource, path: Path, twin: Path | None, seed: int) -> Portrait | Skipped:
    photo = read_photo(path)
    damaged = None if twin is None else read_photo(twin)
    if source.is_aligned:
        truth = to_aligned(photo, path, SIZE_PX)
        crop = None if damaged is None or twin is None else to_aligned(damaged, twin, 1)
        return Portrait(name=path.name, seed=seed, truth=truth, damaged=crop, enlargement=SIZE_PX / photo.width)
    if damaged is not None and twin is not None:
        _check_same_shape(photo, damaged, twin)
    options = RestoreOptions(faces="largest")
    found = find_faces(source.detector, photo.pixels, options)
    reasons = skip_reasons(found.faces, options, photo.width, photo.height)
    if "" not in reasons:
        return Skipped(name=path.name, reason=reasons[0] if reasons else "no face was found", is_failure=False)
    aligned = align_face(photo.pixels, found.faces[reasons.index("")].landmarks, TEMPLATE, SIZE_PX)
    return Portrait(
        name=path.name,
        seed=seed,
        truth=aligned.pixels,
        damaged=None if damaged is None else _twin_crop(damaged, photo, aligned.affine),
        enlargement=similarity_scale(aligned.affine),
    )


def to_aligned(photo: Photo, path: Path, smallest_px: int) -> Pixels:
    """An aligned square as (SIZE_PX, SIZE_PX, 3): area-averaged where it is larger, else bicubic.

    Raises:
        PhotoError: it is no square, or smaller than `smallest_px`.
    """
    if photo.width != photo.height or photo.width < smallest_px:
        raise PhotoError(
            f"{path} is {photo.width} x {photo.height} px, where an aligned crop is a square of {smallest_px} px or "
            "more; leave --aligned out for whole photos."
        )
    interpolation = cv2.INTER_AREA if photo.width > SIZE_PX else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(photo.pixels, (SIZE_PX, SIZE_PX), interpolation=interpolation), dtype=np.uint8)


def _check_same_shape(photo: Photo, damaged: Photo, path: Path) -> None:
    ratio = (damaged.width / photo.width) / (damaged.height / photo.height)
    if abs(ratio - 1.0) > MAX_ASPECT_DIFFERENCE:
        raise PhotoError(
            f"{path} is {damaged.width} x {damaged.height} px and the good photo {photo.width} x {photo.height} px; "
            "they must show the same."
        )


def _twin_crop(damaged: Photo, photo: Photo, affine: Affine) -> Pixels:
    factors = (damaged.width / photo.width, damaged.height / photo.height)
    return extract_crop(damaged.pixels, rescale_source(affine, factors), SIZE_PX)


def make_cases(portrait: Portrait, strengths: Sequence[str]) -> list[Case]:
    """The portrait's given input, or one made at each strength."""
    if portrait.damaged is not None:
        return [Case(picture=portrait.name, strength=GIVEN, truth=portrait.truth, damaged=portrait.damaged)]
    return [
        Case(
            picture=portrait.name,
            strength=name,
            truth=truth_for(portrait.truth, LEVELS[name]),
            damaged=degrade(portrait.truth, LEVELS[name], portrait.seed),
        )
        for name in strengths
    ]
