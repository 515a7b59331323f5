"""Find the faces in a photo of any size, in a stable order, each person once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from gpen_core.faces.align import (
    estimate_similarity,
    extract_crop,
    invert_affine,
    looks_frontal,
    rescale_source,
    shift_source,
    similarity_scale,
    template_points,
    transform_points,
)
from gpen_core.faces.detect import FaceDetector
from gpen_core.options import RestoreOptions
from gpen_core.photo.tiling import plan_tiles
from gpen_core.types import Affine, Box, DetectedFace, Pixels

BASE_LONG_SIDE_PX = 1536
"""A photo is first searched at this size: faces from 16 to about 600 px in it are found."""
SMALL_LONG_SIDE_PX = 384
SMALL_CANVAS_PX = 640
"""Close-ups: anchors end at 512 px, and parts of a larger face pass for faces. So every photo is also searched at this
size, in the middle of a gray canvas."""
TILED_LONG_SIDE_PX = 3072
"""A larger photo is searched again at up to this size in tiles, for faces that the first pass makes too small."""
TILE_PX = 1280
TILE_OVERLAP_PX = 256
ENLARGED_FACTOR = 1.6
ENLARGED_LONG_SIDES_PX = (640, 7168)
"""Where nothing was found: the photo enlarged, within these limits, for faces under the smallest anchor."""
PADDING_LEVEL = 117
LOOK_SIZE_PX = 320
"""Each detection is looked at again in an upright crop of this size: that confirms it, turns a face that was taken for
upside down, and gives small and tilted faces points that are good to a fraction of a pixel."""
LOOK_MIN_SCORE = 0.5
LOOK_SURE_SCORE = 0.998
"""Upright faces look this sure upright; upside-down ones never do, and are looked at the other way round too."""
LOOK_MAX_SHIFT = 0.4
LOOK_MAX_SHIFT_TILTED = 0.8
LOOK_MAX_SHIFT_UPSIDE_DOWN = 1.6
"""In eye distances: a look that lands farther off has found another face. Measured on portraits and a group of 29:
true faces within 0.11, parts of faces beyond 0.6 or not at all."""
UPRIGHT_DEGREES = 25.0
REFINE_GAIN = 1.2
"""Points are taken from the second look where it sees this many times the pixels of the first, or for a tilted face."""
SIZE_BONUS = 0.1
"""Added to the score for each doubling of size when detections of one person compete: a part of a face loses to it."""
PART_AREA = 0.4
"""A detection centred inside another that is this much smaller is a part of that face, not a person of its own."""
DUPLICATE_IOU = 0.45
DUPLICATE_EYE_SHIFT = 0.6
"""Two detections are one person where their boxes overlap this much, or their eyes lie this close, in eye distances."""
MAX_CANDIDATES = 1000
"""More detections than this in one photo are noise; the surest are looked at."""
RIM_PX = 3
"""A box this close to a tile's inner rim is cut off; the neighbouring tile has the whole face."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FoundFaces:
    """The faces of a photo and how they were found."""

    faces: tuple[DetectedFace, ...]
    """From left to right (by the box's centre; higher ones first where equal), in photo pixels."""
    notes: tuple[str, ...] = ()
    num_tiles: int = 0
    """Tiles of the second pass; 0 where one pass was enough."""
    tile_px: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """The photo as one detection pass sees it."""

    pixels: Pixels
    to_photo: Affine
    is_cut: tuple[bool, bool, bool, bool] = (False, False, False, False)
    """Left, top, right, bottom rim runs through the photo."""


def find_faces(detector: FaceDetector, pixels: Pixels, options: RestoreOptions) -> FoundFaces:
    """All faces of a photo, each person once, from left to right.

    With a single-scale detector the photo is searched at several sizes, turned where it shows no face upright, and
    each detection must be confirmed by a closer look.

    Args:
        detector: what to search with.
        pixels: (H, W, 3) RGB.
        options: threshold.
    """
    search = _Search(detector, pixels, options)
    photo = _View(pixels, _identity())
    notes: list[str] = []
    tiles: list[_View] = []
    if detector.is_single_scale:
        # Each size from the next larger one: to reduce a large photo takes about as long as to look at it.
        middle = _resized(photo, TILED_LONG_SIDE_PX)
        base = _resized(middle, BASE_LONG_SIDE_PX)
        # Where one pass shows the whole photo, tiles would show nothing else.
        tiles = _cut(middle, search.tile_px, search.overlap_px) if base is not middle else []
        found = search.run([base, _small(base), *tiles])
        faces = _confirm(detector, pixels, found)
        if not any(map(looks_frontal, faces)):
            # What was found until now stays only where harder looks show no face that stands upright in them.
            harder, degrees = _search_harder(search, photo, base)
            confirmed = _confirm(detector, pixels, harder)
            if confirmed:
                found, faces = harder, confirmed
                notes += [f"The faces were found after turning the photo by {degrees} degrees."] if degrees else []
        if len(faces) < len(found):
            notes.append(f"{len(found) - len(faces)} detections were dropped: a closer look did not confirm them.")
    else:
        faces = [face for face, _ in search.run([photo])]
    if search.num_dropped:
        notes.append(f"{search.num_dropped} detections were dropped: empty, outside the photo, or far too many.")
    return FoundFaces(
        faces=tuple(sorted(faces, key=lambda face: (*face.box.center, -face.score))),
        notes=tuple(notes),
        num_tiles=len(tiles),
        tile_px=search.tile_px if tiles else 0,
    )


_Found: TypeAlias = list[tuple[DetectedFace, float]]
"""Faces in photo pixels, each with the scale (view px / photo px) it was found at."""


class _Search:
    """Detection passes over one photo."""

    def __init__(self, detector: FaceDetector, pixels: Pixels, options: RestoreOptions) -> None:
        self.tile_px = TILE_PX
        self.overlap_px = TILE_OVERLAP_PX
        self.num_dropped = 0
        self._detector = detector
        self._pixels = pixels
        self._threshold = options.threshold

    def run(self, views: Iterable[_View]) -> _Found:
        """Distinct faces over all views, the strongest first."""
        candidates: _Found = []
        for view in views:
            scale = 1.0 / similarity_scale(view.to_photo)
            for face in self._detector.detect(view.pixels, self._threshold):
                if _is_cut_off(face, view):
                    continue
                face = _move_face(face, view.to_photo)
                if _is_possible(face, self._pixels):
                    candidates.append((face, scale))
                else:
                    self.num_dropped += 1
        candidates.sort(key=_strength_order)
        self.num_dropped += max(0, len(candidates) - MAX_CANDIDATES)
        return _drop_duplicates(candidates[:MAX_CANDIDATES])


def _search_harder(search: _Search, photo: _View, base: _View) -> tuple[_Found, int]:
    """For a photo that shows no face at first sight: enlarged, then turned. Also the degrees it was turned by."""
    found = search.run(_enlarged_tiles(photo, search))
    if any(looks_frontal(face) for face, _ in found):
        return found, 0
    best: tuple[_Found, int] = ([], 0)
    for quarter_turns in (1, 2, 3):
        turned = _turned(base, quarter_turns)
        found = search.run([turned, _small(turned)])
        if _plausibility(found) > _plausibility(best[0]):
            best = (found, 90 * quarter_turns)
    return best


def _plausibility(found: _Found) -> tuple[int, float]:
    """How many faces can be restored, and their scores' sum, to compare two searches."""
    plausible = [face.score for face, _ in found if looks_frontal(face)]
    return len(plausible), sum(plausible)


def _strength_order(entry: tuple[DetectedFace, float]) -> tuple[float, ...]:
    face = entry[0]
    return -(face.score + SIZE_BONUS * math.log2(face.box.area) / 2), *face.box


def _resized(view: _View, long_side_px: int, *, enlarge: bool = False) -> _View:
    """The view at `long_side_px`; as it is where that would enlarge it, unless this is wanted."""
    height, width = view.pixels.shape[:2]
    scale = long_side_px / max(height, width)
    if scale >= 1.0 and not enlarge:
        return view
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    interpolation = cv2.INTER_AREA if scale < 1.0 else cv2.INTER_CUBIC
    resized = np.asarray(cv2.resize(view.pixels, size, interpolation=interpolation), dtype=np.uint8)
    return _View(resized, rescale_source(view.to_photo, (size[0] / width, size[1] / height)))


def _small(view: _View) -> _View:
    small = _resized(view, SMALL_LONG_SIDE_PX)
    height, width = small.pixels.shape[:2]
    left, top = (SMALL_CANVAS_PX - width) // 2, (SMALL_CANVAS_PX - height) // 2
    canvas = np.full((SMALL_CANVAS_PX, SMALL_CANVAS_PX, 3), PADDING_LEVEL, dtype=np.uint8)
    canvas[top : top + height, left : left + width] = small.pixels
    return _View(canvas, shift_source(small.to_photo, -left, -top))


def _turned(view: _View, quarter_turns: int) -> _View:
    """The view turned counter-clockwise."""
    height, width = view.pixels.shape[:2]
    back: dict[int, list[list[float]]] = {
        1: [[0, -1, width - 1], [1, 0, 0]],
        2: [[-1, 0, width - 1], [0, -1, height - 1]],
        3: [[0, 1, 0], [-1, 0, height - 1]],
    }
    turned = np.ascontiguousarray(np.rot90(view.pixels, quarter_turns))
    return _View(turned, _chain(view.to_photo, np.array(back[quarter_turns], dtype=np.float64)))


def _enlarged_tiles(photo: _View, search: _Search) -> list[_View]:
    smallest_px, largest_px = ENLARGED_LONG_SIDES_PX
    long_side_px = max(photo.pixels.shape[:2])
    target_px = max(smallest_px, min(round(ENLARGED_FACTOR * long_side_px), largest_px))
    if target_px <= long_side_px:
        return []
    return _cut(_resized(photo, target_px, enlarge=True), search.tile_px, search.overlap_px)


def _cut(view: _View, tile_px: int, overlap_px: int) -> list[_View]:
    height, width = view.pixels.shape[:2]
    return [
        _View(
            view.pixels[tile.y0 : tile.y1, tile.x0 : tile.x1],
            shift_source(view.to_photo, tile.x0, tile.y0),
            (tile.x0 > 0, tile.y0 > 0, tile.x1 < width, tile.y1 < height),
        )
        for tile in plan_tiles(width, height, tile_px, overlap_px)
    ]


def _identity() -> Affine:
    return np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def _chain(outer: Affine, inner: Affine) -> Affine:
    """First `inner`, then `outer`."""
    linear = outer[:, :2] @ inner[:, :2]
    return np.column_stack((linear, outer[:, :2] @ inner[:, 2] + outer[:, 2]))


def _is_cut_off(face: DetectedFace, view: _View) -> bool:
    height, width = view.pixels.shape[:2]
    box = face.box
    touches = (box.x0 < RIM_PX, box.y0 < RIM_PX, box.x1 > width - RIM_PX, box.y1 > height - RIM_PX)
    return any(cut and touch for cut, touch in zip(view.is_cut, touches, strict=True))


def _move_face(face: DetectedFace, affine: Affine) -> DetectedFace:
    """The face in the pixels that `affine` leads to; its box becomes the upright box around the moved one."""
    box = face.box
    # Corners are counted from the rim of the first pixel, affine maps from its centre.
    corners = np.array([(box.x0, box.y0), (box.x1, box.y0), (box.x1, box.y1), (box.x0, box.y1)]) - 0.5
    moved = transform_points(affine, corners) + 0.5
    return DetectedFace(
        box=Box(*map(float, moved.min(axis=0)), *map(float, moved.max(axis=0))),
        landmarks=transform_points(affine, face.landmarks),
        score=face.score,
    )


def _is_possible(face: DetectedFace, pixels: Pixels) -> bool:
    height, width = pixels.shape[:2]
    box = face.box
    if not (np.isfinite(box).all() and np.isfinite(face.landmarks).all() and np.isfinite(face.score)):
        return False
    overlaps_photo = box.x0 < width and box.y0 < height and box.x1 > 0 and box.y1 > 0
    return box.width >= 1 and box.height >= 1 and overlaps_photo


def _drop_duplicates(candidates: _Found) -> _Found:
    """One detection a person: the strongest of them, which comes first."""
    kept: _Found = []
    for face, scale in candidates:
        if not any(_is_same_person(face, other) for other, _ in kept):
            kept.append((face, scale))
    return kept


def _is_same_person(a: DetectedFace, b: DetectedFace) -> bool:
    small, large = sorted((a.box, b.box), key=lambda box: box.area)
    x, y = small.center
    is_inside = large.x0 < x < large.x1 and large.y0 < y < large.y1
    if is_inside and small.area < PART_AREA * large.area:
        return True
    width = min(a.box.x1, b.box.x1) - max(a.box.x0, b.box.x0)
    height = min(a.box.y1, b.box.y1) - max(a.box.y0, b.box.y0)
    shared = max(0.0, width) * max(0.0, height)
    if shared > DUPLICATE_IOU * (a.box.area + b.box.area - shared):
        return True
    shift = float(np.linalg.norm(a.eye_center - b.eye_center))
    return shift < DUPLICATE_EYE_SHIFT * max(a.eye_distance_px, b.eye_distance_px)


def _confirm(detector: FaceDetector, pixels: Pixels, found: _Found) -> list[DetectedFace]:
    looks = (_look_again(detector, pixels, face, scale) for face, scale in found)
    return [face for face in looks if face is not None]


def _look_again(detector: FaceDetector, pixels: Pixels, face: DetectedFace, found_scale: float) -> DetectedFace | None:
    """The face with the best points two looks give; None where a face that seems frontal is not confirmed.

    Args:
        detector: what to look with.
        pixels: the photo.
        face: as first found.
        found_scale: view px / photo px it was found at.
    """
    if not looks_frontal(face):
        # Left for the selection to skip by name: a profile is a person, whom no crop would confirm.
        return face
    tilted = abs(_roll_degrees(face)) > UPRIGHT_DEGREES
    template = template_points("ffhq", LOOK_SIZE_PX)
    shift = LOOK_MAX_SHIFT_TILTED if tilted else LOOK_MAX_SHIFT
    upright = _look(detector, pixels, face, template, shift)
    if upright is None or upright.score < LOOK_SURE_SCORE:
        upside_down = _look(detector, pixels, face, LOOK_SIZE_PX - 1.0 - template, LOOK_MAX_SHIFT_UPSIDE_DOWN)
        if upside_down is not None and (upright is None or upside_down.score > upright.score):
            return replace(face, landmarks=upside_down.landmarks)
    if upright is None:
        return None
    if tilted:
        # Once more from better points: detectors are trained on upright faces and misplace the points of tilted ones.
        upright = _look(detector, pixels, upright, template, LOOK_MAX_SHIFT) or upright
    look_scale = similarity_scale(estimate_similarity(face.landmarks, template))
    if tilted or look_scale > REFINE_GAIN * found_scale:
        return replace(face, landmarks=upright.landmarks)
    return face


def _look(
    detector: FaceDetector, pixels: Pixels, face: DetectedFace, template: npt.NDArray[np.float64], max_shift: float
) -> DetectedFace | None:
    """What the detector sees in a crop where the face should lie on `template`, in photo pixels.

    Of several frontal faces the one nearest to where it was expected; None beyond `max_shift` eye distances of it.
    Nearness is that of the points, or, where the template stands on its head and with it the points, of their middle.
    """
    affine = estimate_similarity(face.landmarks, template)
    crop = extract_crop(pixels, affine, LOOK_SIZE_PX)
    looks = [look for look in detector.detect(crop, LOOK_MIN_SCORE) if looks_frontal(look)]
    if not looks:
        return None
    expected = transform_points(affine, face.landmarks)
    if template[0, 1] > template[3, 1]:
        middle = expected.mean(axis=0)
        shifts = [float(np.linalg.norm(look.landmarks.mean(axis=0) - middle)) for look in looks]
    else:
        shifts = [float(np.linalg.norm(look.landmarks - expected, axis=1).mean()) for look in looks]
    nearest = int(np.argmin(shifts))
    if shifts[nearest] > max_shift * face.eye_distance_px * similarity_scale(affine):
        return None
    return _move_face(looks[nearest], invert_affine(affine))


def _roll_degrees(face: DetectedFace) -> float:
    """How far the eyes' line is turned from level, -180 to 180."""
    x, y = face.landmarks[1] - face.landmarks[0]
    return math.degrees(math.atan2(y, x))
