from __future__ import annotations

import cv2
import numpy as np
import pytest
from PIL import Image

from gpen_core.faces.align import template_points, transform_points
from gpen_core.faces.detect import EmbeddedDetector
from gpen_core.faces.search import LOOK_SIZE_PX, find_faces
from gpen_core.options import RestoreOptions
from gpen_core.types import Box, DetectedFace
from tests.fakes import ASTRONAUT_LANDMARKS, FakeDetector, face_at, frontal_face

OPTIONS = RestoreOptions()


def found(pixels: np.ndarray, options: RestoreOptions = OPTIONS):
    return find_faces(EmbeddedDetector(), np.ascontiguousarray(pixels), options)


def only_face(pixels: np.ndarray) -> DetectedFace:
    faces = found(pixels).faces
    assert len(faces) == 1
    return faces[0]


def enlarged(pixels: np.ndarray, scale: float) -> np.ndarray:
    return cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC if scale > 1 else cv2.INTER_AREA)


def distance_in_eyes(face: DetectedFace, landmarks: np.ndarray) -> float:
    eye_distance = float(np.linalg.norm(landmarks[1] - landmarks[0]))
    return float(np.linalg.norm(face.landmarks - landmarks, axis=1).mean()) / eye_distance


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("astronaut-small.jpg", 1),
        ("astronaut-gray-noisy.png", 1),
        ("obama-faded.jpg", 1),
        ("biden-sepia.jpg", 1),
        ("group.jpg", 3),
    ],
)
def test_every_face_of_the_examples_is_found_once(examples, name, count):
    faces = found(np.asarray(Image.open(examples / name).convert("RGB"))).faces
    assert len(faces) == count
    assert [face.box.center[0] for face in faces] == sorted(face.box.center[0] for face in faces)


def test_the_points_lie_on_eyes_nose_and_mouth(astronaut):
    assert distance_in_eyes(only_face(astronaut), ASTRONAUT_LANDMARKS) < 0.12


@pytest.mark.parametrize("scale", [0.3, 0.5, 2.0, 5.0])
def test_points_are_found_at_every_size(astronaut, scale):
    face = only_face(enlarged(astronaut, scale))
    assert distance_in_eyes(face, (ASTRONAUT_LANDMARKS + 0.5) * scale - 0.5) < 0.15


@pytest.mark.parametrize("long_side", [300, 1400, 4000])
def test_a_face_that_fills_the_picture_is_found_as_one(astronaut, long_side):
    assert found(enlarged(astronaut[45:185, 165:285], long_side / 140)).faces
    face = only_face(enlarged(astronaut[45:185, 165:285], long_side / 140))
    assert face.box.height > 0.6 * long_side


@pytest.mark.parametrize("quarter_turns", [1, 2, 3])
def test_turned_photos_give_the_same_points(astronaut, quarter_turns):
    upright = only_face(astronaut)
    turned = only_face(np.rot90(astronaut, quarter_turns))
    back = {
        1: np.array([[0, -1, 511], [1, 0, 0]], float),
        2: np.array([[-1, 0, 511], [0, -1, 511]], float),
        3: np.array([[0, 1, 0], [-1, 0, 511]], float),
    }[quarter_turns]
    moved = DetectedFace(box=turned.box, landmarks=transform_points(back, turned.landmarks), score=turned.score)
    assert distance_in_eyes(moved, upright.landmarks) < 0.08


def test_a_tilted_face_is_found(astronaut):
    tilted = np.asarray(Image.fromarray(astronaut).rotate(35, Image.Resampling.BICUBIC, expand=True))
    eyes = only_face(tilted).landmarks[:2]
    angle = np.degrees(np.arctan2(*(eyes[1] - eyes[0])[::-1]))
    assert angle == pytest.approx(-35 + 2.5, abs=6)


def test_small_faces_in_a_large_photo_are_found(astronaut):
    photo = np.full((3000, 4500, 3), 128, np.uint8)
    person = enlarged(astronaut[:256, 100:356], 0.25)
    for x, y in ((300, 200), (2200, 1400), (4300, 2900)):
        photo[y : y + 64, x : x + 64] = person
    result = found(photo)
    assert len(result.faces) == 3
    assert result.num_tiles > 1


def test_a_tiny_face_is_found_by_the_last_look(astronaut):
    photo = np.full((3000, 4500, 3), 128, np.uint8)
    photo[1400:1496, 2200:2296] = enlarged(astronaut, 96 / 512)
    assert len(found(photo).faces) == 1


def test_a_crowd_is_found_to_the_last(astronaut):
    crowd = np.full((1536, 2048, 3), 128, np.uint8)
    tile = enlarged(astronaut[:220, 120:340], 150 / 220)
    for k in range(48):
        x, y = k % 8 * 250 + 20, k // 8 * 250 + 20
        crowd[y : y + 150, x : x + 150] = tile
    first, second = found(crowd).faces, found(crowd).faces
    assert len(first) == 48
    assert [face.box for face in first] == [face.box for face in second]


@pytest.mark.parametrize(
    "pixels",
    [
        np.random.default_rng(0).integers(0, 255, (512, 512, 3), np.uint8),
        np.full((300, 400, 3), 90, np.uint8),
        np.zeros((1, 1, 3), np.uint8),
        np.zeros((3, 2000, 3), np.uint8),
        np.zeros((2000, 1, 3), np.uint8),
    ],
    ids=["noise", "flat", "1x1", "2000x3", "1x2000"],
)
def test_nothing_is_found_in_nothing(pixels):
    assert found(pixels).faces == ()


def photo_of(width: int = 600, height: int = 400) -> np.ndarray:
    return np.zeros((height, width, 3), np.uint8)


def test_the_order_is_from_left_to_right_whatever_the_detector_says():
    photo = photo_of()
    faces = [frontal_face(x, y, 20) for x, y in ((500, 60), (60, 300), (250, 90), (400, 200))]
    shuffled = [faces[index] for index in (2, 0, 3, 1)]
    for order in (faces, shuffled):
        result = find_faces(FakeDetector(*order), photo, OPTIONS)
        assert [round(face.eye_center[0]) for face in result.faces] == [60, 250, 400, 500]


def test_one_person_is_found_once():
    photo = photo_of()
    person = frontal_face(200, 150, 60, score=0.97)
    again = frontal_face(206, 153, 57, score=0.95)
    # A part of the face that itself looks like a face.
    part = frontal_face(215, 170, 24, score=0.98)
    neighbour = frontal_face(340, 150, 60)
    for order in ([person, again, part, neighbour], [part, neighbour, again, person]):
        result = find_faces(FakeDetector(*order), photo, OPTIONS)
        assert [face.landmarks[0, 0] for face in result.faces] == [person.landmarks[0, 0], neighbour.landmarks[0, 0]]


def test_impossible_detections_are_dropped_and_counted():
    photo = photo_of()
    good = frontal_face(200, 150, 40)
    bad = [
        DetectedFace(box=Box(np.nan, 0, 10, 10), landmarks=good.landmarks, score=0.99),
        DetectedFace(box=Box(30, 30, 30, 50), landmarks=good.landmarks, score=0.99),
        DetectedFace(box=Box(5000, 30, 5050, 80), landmarks=good.landmarks + 4900, score=0.99),
        DetectedFace(box=good.box, landmarks=np.full((5, 2), np.nan), score=0.99),
    ]
    result = find_faces(FakeDetector(*bad, good), photo, OPTIONS)
    assert len(result.faces) == 1
    assert "4 detections were dropped" in result.notes[0]


def test_thousands_of_detections_end_soon_with_a_note():
    photo = photo_of(1500, 1000)
    rng = np.random.default_rng(0)
    faces = [frontal_face(x, y, 12, score) for x, y, score in rng.uniform((0, 0, 0.9), (1500, 1000, 1), (5000, 3))]
    result = find_faces(FakeDetector(*faces), photo, OPTIONS)
    assert 0 < len(result.faces) <= 1000
    assert "far too many" in " ".join(result.notes)


class SizedDetector:
    """Single-scale: says one thing of pictures of the photo's size, another of the closer look's crop."""

    name = "sized detector"
    is_single_scale = True

    def __init__(self, photo: np.ndarray, face: DetectedFace, look: DetectedFace | None) -> None:
        self.shape, self.face, self.look = photo.shape, face, look

    def detect(self, pixels, threshold):
        if pixels.shape == self.shape:
            return [self.face]
        return [self.look] if self.look is not None and pixels.shape[0] == LOOK_SIZE_PX else []


def test_a_closer_look_gives_better_points():
    photo, face = photo_of(), frontal_face(200, 150, 12)
    look = face_at(template_points("ffhq", LOOK_SIZE_PX) + np.array([0, 4]), score=0.999)
    result = find_faces(SizedDetector(photo, face, look), photo, OPTIONS)
    assert 0 < np.abs(result.faces[0].landmarks - face.landmarks).max() < 2
    assert result.faces[0].box == face.box


@pytest.mark.parametrize("offset", [None, 220])
def test_what_a_closer_look_does_not_confirm_is_dropped_with_a_note(offset):
    photo = photo_of()
    look = None if offset is None else face_at(template_points("ffhq", LOOK_SIZE_PX) * 0.3 + offset, score=0.999)
    result = find_faces(SizedDetector(photo, frontal_face(200, 150, 12), look), photo, OPTIONS)
    assert result.faces == ()
    assert "did not confirm" in result.notes[0]


def test_portraits_upside_down_are_not_taken_for_upright(examples):
    for name in ("obama.jpg", "biden.jpg", "astronaut.jpg"):
        pixels = np.asarray(Image.open(examples / "originals" / name).convert("RGB"))
        face = only_face(np.rot90(pixels, 2))
        assert face.landmarks[:2, 1].mean() > face.landmarks[3:, 1].mean()
