"""The photos that are restored: groups made of the example portraits, or files."""

from __future__ import annotations

import math
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from gpen_core.photo.io import read_photo
from gpen_core.types import Pixels

ORIGINALS = Path(__file__).parent.parent / "examples" / "originals"
HEADS = {"astronaut": (105, 0, 345, 240), "obama": (165, 0, 715, 550), "biden": (180, 0, 800, 620)}
"""Left, top, right, bottom of a square around each head."""
FILL = 0.9
"""Share of its place in the photo that a head's square fills."""
BACKGROUND_LEVEL = 120
PHOTOS = {"small": (3, 640, 360), "group": (29, 1328, 568), "large": (12, 6000, 4000)}
"""Faces, width and height: one to try a benchmark with, one like the well-known group of 1927, one of 24 megapixels."""


def load_photo(name: str) -> tuple[str, Pixels]:
    """Name and pixels of one of `PHOTOS`, or of the file of that name."""
    if name in PHOTOS:
        return name, group_photo(*PHOTOS[name])
    return Path(name).stem, read_photo(name).pixels


def group_photo(num_faces: int, width: int, height: int) -> Pixels:
    """(height, width, 3) RGB with so many heads in rows of equal places, every other one mirrored."""
    num_columns = math.ceil(math.sqrt(num_faces * width / height))
    num_rows = math.ceil(num_faces / num_columns)
    place_width, place_height = width / num_columns, height / num_rows
    side = int(FILL * min(place_width, place_height))
    photo = np.full((height, width, 3), BACKGROUND_LEVEL, dtype=np.uint8)
    heads = [_head(name, side) for name in HEADS]
    for index in range(num_faces):
        row, column = divmod(index, num_columns)
        x = int(column * place_width + (place_width - side) / 2)
        y = int(row * place_height + (place_height - side) / 2)
        head = heads[index % len(heads)]
        photo[y : y + side, x : x + side] = head[:, ::-1] if index % 2 else head
    return photo


def _head(name: str, side: int) -> Pixels:
    with Image.open(ORIGINALS / f"{name}.jpg") as image:
        pixels = np.asarray(image.convert("RGB").crop(HEADS[name]))
    interpolation = cv2.INTER_AREA if side < pixels.shape[0] else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(pixels, (side, side), interpolation=interpolation), dtype=np.uint8)
