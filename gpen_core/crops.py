"""A result's faces as files of their own: crops to edit and paste back, and a sheet to look at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gpen_core.errors import PhotoError
from gpen_core.faces.align import TEMPLATES, rescale_source
from gpen_core.faces.mask import EllipseMask
from gpen_core.faces.paste import blend_patches, make_patch
from gpen_core.folders import check_output
from gpen_core.options import OutputOptions, RestoreOptions
from gpen_core.photo.background import make_canvas, resize_alpha
from gpen_core.photo.deep import resize_fine
from gpen_core.photo.io import read_photo
from gpen_core.photo.write import write_photo
from gpen_core.result import RestoreResult
from gpen_core.types import Photo, Pixels, RestoredFace

BEFORE, AFTER = "before", "after"
SHEET_PHOTO_PX = 900
"""Longer side of the whole photo on a sheet."""
SHEET_FACE_PX = 256
SHEET_GAP_PX = 12
SHEET_LABEL_PX = 22
MAX_SHEET_FACES = 40
"""A sheet with more would be higher than JPEG allows, and nobody would look at it."""


def save_crops(result: RestoreResult, folder: Path) -> None:
    """Write each restored face as `face-<index>-before.png` and `-after.png`, and where it belongs as `.json`.

    The `.json` holds `affine`, the (2, 3) similarity from photo to crop on pixel centres. Without faces, nothing is
    written.
    """
    if not result.restored_faces:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for face in result.restored_faces:
        if face.crop is None or face.restored is None:
            continue
        stem = f"face-{face.index:02d}"
        for moment, pixels in ((BEFORE, face.crop.pixels), (AFTER, face.restored)):
            path = folder / f"{stem}-{moment}.png"
            check_output(path, [])
            write_photo(Photo(pixels=pixels), path, has_ai=moment == AFTER)
        place = {
            "face": face.index,
            "photo_size": [result.original.width, result.original.height],
            "crop_size": face.crop.pixels.shape[0],
            "template": result.template,
            "affine": face.crop.affine.tolist(),
            "box": list(face.face.box),
            "landmarks": face.face.landmarks.tolist(),
            "strength": result.composition.strength_of(face.index, result.strength),
            "mask": result.mask,
            "model": result.model,
        }
        temporary = folder / f".{stem}.json.part"
        temporary.write_text(json.dumps(place, indent=2) + "\n", encoding="utf-8")
        temporary.replace(folder / f"{stem}.json")


def paste_crops(photo: Photo, folder: Path, options: RestoreOptions) -> tuple[Photo, tuple[str, ...]]:
    """Put the `-after.png` crops of a folder, edited or not, back into the photo they were cut from.

    Args:
        photo: the one that `save_crops`' result was made from.
        folder: what `save_crops` wrote; crops may be edited or deleted, but not resized.
        options: scale, and strength; `auto` takes what each face was restored with.

    Returns:
        The photo, and notes.

    Raises:
        PhotoError: no crops there, or not this photo's.
    """
    canvas = make_canvas(photo.pixels, options.scale)
    factors = (canvas.shape[1] / photo.width, canvas.shape[0] / photo.height)
    patches, strengths, notes = [], [], []
    for name, place, crop in _read_crops(folder, photo):
        affine = rescale_source(np.array(place["affine"], dtype=np.float64), factors)
        patch = make_patch(canvas, crop, affine, EllipseMask(place["template"], place["crop_size"]))
        if patch is None:
            notes.append(f"{name} lies outside the photo and was left out.")
            continue
        patches.append(patch)
        strengths.append(float(place["strength"] if options.strength == "auto" else options.strength))
        if place.get("mask") == "parsing":
            notes.append(f"{name} was pasted within an ellipse; its outline is not kept with the crops.")
    pixels = blend_patches(canvas, patches, strengths)
    pasted = replace(
        photo,
        pixels=pixels,
        alpha=resize_alpha(photo.alpha, options.scale),
        fine=resize_fine(photo.fine, pixels.shape[1], pixels.shape[0]),
    )
    return pasted, (f"{len(patches)} face crops from {folder} were pasted.", *notes)


def _read_crops(folder: Path, photo: Photo) -> Iterator[tuple[str, dict[str, Any], Pixels]]:
    places = sorted(folder.glob("face-*.json")) if folder.is_dir() else []
    if not places:
        raise PhotoError(f"{folder} holds no face crops; name the <output>_faces folder of a run with --save-crops.")
    for path in places:
        image = path.with_name(f"{path.stem}-{AFTER}.png")
        if not image.exists():
            continue
        place = _read_place(path)
        if place["photo_size"] != [photo.width, photo.height]:
            raise PhotoError(
                f"{path.name} belongs to a photo of {place['photo_size']} px, not of "
                f"{photo.width} x {photo.height} px; name the photo that the crops were cut from."
            )
        crop, size = read_photo(image).pixels, place["crop_size"]
        if crop.shape[:2] != (size, size):
            raise PhotoError(f"{image} is {crop.shape[1]} x {crop.shape[0]} px; crops must stay {size} x {size} px.")
        yield image.name, place, crop


def _read_place(path: Path) -> dict[str, Any]:
    try:
        place: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        is_valid = (
            np.array(place["affine"], dtype=np.float64).shape == (2, 3)
            and abs(np.linalg.det(np.array(place["affine"])[:, :2])) > 0
            and place["template"] in TEMPLATES
            and 16 <= place["crop_size"] <= 4096
            and 0 <= float(place["strength"]) <= 1
            and len(place["photo_size"]) == 2
        )
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise PhotoError(f"{path} cannot be read as the place of a face ({type(error).__name__}).") from error
    if not is_valid:
        raise PhotoError(f"{path} does not say where a face belongs; make the crops anew with --save-crops.")
    return place


def write_sheet(result: RestoreResult, path: Path) -> None:
    """Write before and after side by side: the whole photo, then each restored face, as a JPEG."""
    check_output(path, [])
    write_photo(Photo(pixels=make_sheet(result)), path, OutputOptions(), has_ai=result.has_ai)


def make_sheet(result: RestoreResult) -> Pixels:
    """(H, W, 3) picture with labels."""
    rows = [("before", _fitted(result.before.pixels, SHEET_PHOTO_PX), _fitted(result.photo.pixels, SHEET_PHOTO_PX))]
    for face in result.restored_faces[:MAX_SHEET_FACES]:
        if face.crop is not None and face.restored is not None:
            pair = (_fitted(face.crop.pixels, SHEET_FACE_PX), _fitted(face.restored, SHEET_FACE_PX))
            rows.append((f"face {face.index}, before", *pair))
    width = max(before.shape[1] + after.shape[1] for _, before, after in rows) + 3 * SHEET_GAP_PX
    height = sum(before.shape[0] + SHEET_LABEL_PX + SHEET_GAP_PX for _, before, _ in rows) + SHEET_GAP_PX
    sheet = Image.new("RGB", (width, height), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(14)
    y = SHEET_GAP_PX
    for label, before, after in rows:
        right = SHEET_GAP_PX * 2 + before.shape[1]
        draw.text((SHEET_GAP_PX, y), label, fill="black", font=font)
        draw.text((right, y), "after", fill="black", font=font)
        y += SHEET_LABEL_PX
        sheet.paste(Image.fromarray(before), (SHEET_GAP_PX, y))
        sheet.paste(Image.fromarray(after), (right, y))
        y += before.shape[0] + SHEET_GAP_PX
    return np.asarray(sheet)


def face_pair(result: RestoreResult, face: RestoredFace) -> Pixels:
    """(S, 2 S + gap, 3): a restored face before and after at the network's size, at the strength it is shown with.

    A face that is switched off is seen at the strength that it would have.
    """
    assert face.crop is not None and face.restored is not None
    before, strength = face.crop.pixels, np.float32(result.composition.strength_of(face.index, result.strength))
    after = np.rint(before + strength * (face.restored.astype(np.float32) - before)).astype(np.uint8)
    gap = np.full((before.shape[0], SHEET_GAP_PX, 3), 255, np.uint8)
    return np.concatenate((before, gap, after), axis=1)


def _fitted(pixels: Pixels, long_side_px: int) -> Pixels:
    height, width = pixels.shape[:2]
    scale = min(1.0, long_side_px / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
