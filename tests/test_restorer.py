"""The whole way, with doubles in the place of the networks, and with the real embedded ones."""

from __future__ import annotations

import threading
from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch
from PIL import Image

from gpen_core.errors import Cancelled, OptionError, PhotoError, WeightsError
from gpen_core.faces.condition import NUM_COEFFICIENTS
from gpen_core.models.gpen import Generator
from gpen_core.models.registry import SPECS
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.photo.background import make_canvas
from gpen_core.photo.color import luma
from gpen_core.photo.texture import measure_grain
from gpen_core.restorer import Restorer
from tests.fakes import (
    ASTRONAUT_LANDMARKS,
    FakeCropRestorer,
    FakeDetector,
    constant,
    face_at,
    frontal_face,
    identity,
)

FACE = face_at(ASTRONAUT_LANDMARKS)


def restorer(paint=identity, faces=(FACE,)) -> Restorer:
    return Restorer(detector=FakeDetector(*faces), crop_restorer=FakeCropRestorer(paint))


def inverted(crop):
    return 255 - crop


def test_an_unchanged_face_gives_the_photo_back(astronaut):
    result = restorer().restore(astronaut)
    np.testing.assert_array_equal(result.photo.pixels, astronaut)
    assert result.num_shown == 1


@pytest.mark.parametrize("face_scale", [0.25, 1, 1.5, 4])
def test_no_seam_and_no_change_on_a_flat_picture(face_scale):
    flat = np.full((900, 900, 3), 200, np.uint8)
    face = face_at((ASTRONAUT_LANDMARKS - ASTRONAUT_LANDMARKS.mean(axis=0)) * face_scale + 450)
    options = RestoreOptions(min_face_px=1)
    painted = restorer(constant(205, 205, 205), (face,)).restore(flat, options).photo.pixels.astype(int)
    assert painted.max() == 205
    for axis in (0, 1):
        step = np.abs(np.take(painted, range(3, 900), axis) - np.take(painted, range(897), axis))
        assert step.max() <= 1
    np.testing.assert_array_equal(restorer(constant(200, 200, 200), (face,)).restore(flat, options).photo.pixels, flat)


@pytest.mark.parametrize("scale", [1, 1.37, 2, 2.5, 4])
@pytest.mark.parametrize("size", [(333, 507), (400, 301)])
def test_the_result_is_exactly_scale_times_the_photo(astronaut, scale, size):
    result = restorer(inverted).restore(astronaut[: size[0], : size[1]], RestoreOptions(scale=scale))
    assert result.photo.pixels.shape == (round(size[0] * scale), round(size[1] * scale), 3)
    assert result.to_report()["size"] == [round(size[1] * scale), round(size[0] * scale)]


def test_pixels_outside_the_faces_are_untouched_and_the_report_says_so(astronaut):
    result = restorer(inverted).restore(astronaut)
    patch = result.composition.patches[0]
    outside = np.ones(astronaut.shape[:2], bool)
    outside[patch.y0 : patch.y1, patch.x0 : patch.x1] = patch.weights == 0
    np.testing.assert_array_equal(result.photo.pixels[outside], astronaut[outside])
    assert (result.photo.pixels[~outside] != astronaut[~outside]).mean() > 0.9
    assert result.to_report()["outside_faces_unchanged"] is True


def test_the_report_would_tell_of_pixels_changed_outside(astronaut):
    result = restorer(inverted).restore(astronaut)
    spoiled = result.photo.pixels.copy()
    spoiled[0, 0] ^= 1
    assert not result.composition.is_outside_untouched(spoiled)


def test_no_face_is_a_note_and_an_unchanged_photo(astronaut):
    for scale in (1, 2):
        result = restorer(faces=()).restore(astronaut, RestoreOptions(scale=scale))
        np.testing.assert_array_equal(result.photo.pixels, make_canvas(astronaut, scale))
        assert result.faces == ()
        note = next(note for note in result.notes if "No face was found" in note)
        assert ("unchanged" in note) == (scale == 1)
        assert "no face found" in result.summary()


def test_gray_and_its_rgb_give_the_same_gray_result(astronaut):
    gray = np.asarray(Image.fromarray(astronaut).convert("L"))
    reddened = restorer(lambda crop: np.clip(crop.astype(int) + np.array([20, 0, 0]), 0, 255).astype(np.uint8))
    from_gray = reddened.restore(gray).photo.pixels
    from_rgb = reddened.restore(np.repeat(gray[:, :, None], 3, axis=2)).photo.pixels
    np.testing.assert_array_equal(from_gray, from_rgb)
    assert (np.ptp(from_gray.astype(int), axis=2) == 0).all()
    assert luma(from_gray).mean() > gray.mean()


def test_sepia_keeps_its_tone_unless_told_otherwise(astronaut):
    gray = np.asarray(Image.fromarray(astronaut).convert("L"))
    sepia = np.clip(gray[..., None] * np.array([1.0, 0.86, 0.67]), 0, 255).astype(np.uint8)
    bluish = restorer(lambda crop: np.clip(crop.astype(int) + np.array([0, 0, 60]), 0, 255).astype(np.uint8))

    def chroma(pixels):
        return float((pixels[..., 0].astype(float) - pixels[..., 2])[90:150, 190:260].mean())

    kept = bluish.restore(sepia).photo.pixels
    assert chroma(kept) == pytest.approx(chroma(sepia), abs=3)
    changed = bluish.restore(sepia, RestoreOptions(keep_tone=False)).photo.pixels
    assert chroma(changed) < chroma(sepia) - 30


@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0])
def test_opacity_comes_back_at_every_strength(astronaut, strength):
    rgba = np.dstack((astronaut, np.tile(np.arange(512) // 2, (512, 1)).astype(np.uint8)))
    result = restorer(inverted).restore(rgba, RestoreOptions(strength=strength))
    np.testing.assert_array_equal(result.photo.alpha, rgba[:, :, 3])
    assert result.photo.pixels.shape == (512, 512, 3)
    if strength == 0:
        np.testing.assert_array_equal(result.photo.pixels, astronaut)
    doubled = restorer(inverted).restore(rgba, RestoreOptions(strength=strength, scale=2))
    assert doubled.photo.alpha.shape == (1024, 1024)


def test_recompose_changes_strength_and_faces_without_a_network(astronaut):
    faces = (FACE, frontal_face(400, 300, 30))
    subject = restorer(inverted, faces)
    full = subject.restore(astronaut)
    calls = subject.detector.num_calls, subject.crop_restorer.num_calls
    none = full.recompose(strength=0)
    np.testing.assert_array_equal(none.photo.pixels, astronaut)
    np.testing.assert_array_equal(full.recompose(faces=()).photo.pixels, astronaut)
    half = full.recompose(strength=0.5)
    assert np.abs(2 * half.photo.pixels.astype(int) - astronaut - full.photo.pixels).max() <= 2
    first = full.recompose(faces=[0])
    assert first.shown == (0,)
    assert first.num_shown == 1
    np.testing.assert_array_equal(first.photo.pixels[250:], astronaut[250:])
    np.testing.assert_array_equal(none.recompose(strength=1).photo.pixels, full.photo.pixels)
    decisions = [face["decision"] for face in first.to_report()["faces"]]
    assert decisions == ["restored", "skipped"]
    assert calls == (subject.detector.num_calls, subject.crop_restorer.num_calls)


def test_recompose_refuses_what_cannot_be(astronaut):
    result = restorer().restore(astronaut)
    with pytest.raises(OptionError, match="strength"):
        result.recompose(strength=2)
    with pytest.raises(OptionError, match="Face 3"):
        result.recompose(faces=[0, 3])


def test_recompose_equals_restoring_with_that_strength(astronaut):
    subject = restorer(inverted)
    for strength in (0.0, 0.3, 1.0):
        direct = subject.restore(astronaut, RestoreOptions(strength=strength))
        np.testing.assert_array_equal(
            direct.photo.pixels, subject.restore(astronaut).recompose(strength=strength).photo.pixels
        )


def test_automatic_strength_is_each_faces_own(astronaut):
    faces = (FACE, frontal_face(400, 300, 30))
    coefficients = [0.0] * (NUM_COEFFICIENTS - 1) + [0.25]
    subject = Restorer(
        detector=FakeDetector(*faces),
        crop_restorer=FakeCropRestorer(inverted, strength_coefficients=coefficients),
    )
    automatic = subject.restore(astronaut, RestoreOptions(strength="auto"))
    quarter = subject.restore(astronaut, RestoreOptions(strength=0.25))
    np.testing.assert_array_equal(automatic.photo.pixels, quarter.photo.pixels)
    assert [face["strength"] for face in automatic.to_report()["faces"]] == [0.25, 0.25]
    assert automatic.to_report()["faces"][0]["condition"]["noise"] > 0
    assert "strength auto (0.25 to 0.25)" in automatic.summary()
    full = automatic.recompose(strength=1)
    np.testing.assert_array_equal(full.photo.pixels, subject.restore(astronaut).photo.pixels)
    np.testing.assert_array_equal(full.recompose(strength="auto").photo.pixels, automatic.photo.pixels)


def test_automatic_strength_of_a_model_without_calibration_is_full_and_said(astronaut):
    result = restorer(inverted).restore(astronaut, RestoreOptions(strength="auto"))
    np.testing.assert_array_equal(result.photo.pixels, restorer(inverted).restore(astronaut).photo.pixels)
    assert any("not calibrated for fake-256" in note for note in result.notes)


def test_chosen_faces_only(astronaut):
    faces = (FACE, frontal_face(400, 300, 30), frontal_face(60, 400, 4))
    result = restorer(inverted, faces).restore(astronaut, RestoreOptions(faces="2"))
    assert [face.decision for face in result.faces] == ["skipped", "skipped", "restored"]
    np.testing.assert_array_equal(result.photo.pixels[:200], astronaut[:200])
    too_small = result.faces[0]
    assert "too small" in too_small.reason
    assert any("Face 0 was skipped: too small" in note for note in result.notes)


def test_a_face_whose_answer_is_broken_is_left_and_named(astronaut):
    result = restorer(lambda crop: None).restore(astronaut)
    np.testing.assert_array_equal(result.photo.pixels, astronaut)
    assert result.faces[0].decision == "failed"
    assert "not finite" in result.notes[0]
    assert result.to_report()["faces_restored"] == 0
    assert "0 of 1 face restored" in result.summary()


def test_a_face_that_cannot_be_pasted_is_not_called_restored(astronaut):
    outside = replace(FACE, landmarks=FACE.landmarks + 5000)
    result = restorer(constant(255, 0, 255), (outside,)).restore(astronaut)
    np.testing.assert_array_equal(result.photo.pixels, astronaut)
    assert (result.faces[0].decision, result.num_shown) == ("skipped", 0)
    assert "outside the photo" in result.to_report()["faces"][0]["reason"]


def test_a_bad_warp_is_never_pasted(astronaut):
    profile = face_at(np.array([(222, 101), (228, 103), (226, 127), (244, 141), (206, 142)], float))
    result = restorer(constant(255, 0, 255), (profile,)).restore(astronaut)
    np.testing.assert_array_equal(result.photo.pixels, astronaut)
    assert result.faces[0].decision == "skipped"


def test_a_face_larger_than_the_model_sees_keeps_its_detail_and_is_named(astronaut):
    large = make_canvas(astronaut, 4)
    result = restorer(faces=(face_at((ASTRONAUT_LANDMARKS + 0.5) * 4 - 0.5),)).restore(large)
    np.testing.assert_array_equal(result.photo.pixels, large)
    assert "Larger in the photo than fake-256 sees a face (256 px): 0" in result.notes[0]


def test_progress_runs_through_all_stages(astronaut):
    heard = []
    restorer(faces=(FACE, frontal_face(400, 300, 30))).restore(astronaut, on_progress=heard.append)
    stages = list(dict.fromkeys(progress.stage for progress in heard))
    assert stages == ["read", "detect", "restore", "blend"]
    assert [progress.done for progress in heard if progress.stage == "restore" and progress.total == 2] == [1, 2]


def tiled_restorer(tmp_path, **options):
    """Over a tiny generator of 128 px, which tiles of 64 px divide."""
    path = tmp_path / "tiny.pth"
    torch.save(Generator(128, style_dim=16, narrow=1 / 16).state_dict(), path)
    return Restorer(runtime=RuntimeOptions(weights=str(path), device="cpu", **options), detector=FakeDetector(FACE))


def test_the_report_says_in_which_tiles_the_network_ran(tmp_path, astronaut):
    subject = tiled_restorer(tmp_path)
    untiled = subject.restore(astronaut, RestoreOptions(tile_px=0))
    assert untiled.to_report()["tile"] is None
    tiled = subject.restore(astronaut, RestoreOptions(tile_px=64))
    assert tiled.to_report()["tile"] == {"tile_px": 64, "overlap_px": tiled.overlap_px}
    assert tiled.overlap_px > 0
    assert not any("approximate" in note for note in tiled.notes)
    assert np.abs(tiled.photo.pixels.astype(int) - untiled.photo.pixels).max() <= 1
    blended = subject.restore(astronaut, RestoreOptions(tile_px=64, overlap_px=0))
    assert blended.to_report()["tile"] == {"tile_px": 64, "overlap_px": 0}
    assert any("tiles were blended with an overlap smaller than exact" in note for note in blended.notes)


def test_the_report_says_in_which_precision_each_face_ran(tmp_path, astronaut):
    subject = restorer(faces=(FACE, frontal_face(60, 400, 4)))
    faces = subject.restore(astronaut).to_report()["faces"]
    assert [(face["decision"], face["precision"]) for face in faces] == [("skipped", None), ("restored", "fp32")]


def test_raising_in_progress_stops_and_the_restorer_goes_on_working(astronaut):
    subject = restorer()

    def stop(progress):
        if progress.stage == "restore":
            raise Cancelled("stopped by the test")

    with pytest.raises(Cancelled):
        subject.restore(astronaut, on_progress=stop)
    assert subject.restore(astronaut).num_shown == 1


def test_unreadable_photos_are_errors(tmp_path):
    path = tmp_path / "text.jpg"
    path.write_text("not an image")
    with pytest.raises(PhotoError, match=r"text\.jpg"):
        restorer().restore(path)


def test_the_photo_given_is_not_changed(astronaut):
    before = astronaut.copy()
    restorer(inverted).restore(before)
    np.testing.assert_array_equal(before, astronaut)


def test_a_weights_file_of_ones_own_runs_at_its_own_size(tmp_path, astronaut):
    path = tmp_path / "mine.pth"
    torch.save(Generator(32, style_dim=16, narrow=1 / 16).state_dict(), path)
    subject = Restorer(runtime=RuntimeOptions(weights=str(path)), detector=FakeDetector(FACE))
    result = subject.restore(astronaut)
    assert subject.crop_restorer.size == 32
    assert result.model == "mine"
    assert any("unverified" in note for note in result.notes)
    with pytest.raises(WeightsError, match=r"32 px.*512 px"):
        Restorer("gpen-bfr-512", RuntimeOptions(weights=str(path)))


class LeftHalf:
    """A parser that sees a face in the left half of every crop."""

    name = "left half"

    def __init__(self):
        self.num_calls = 0

    def parse(self, crop):
        self.num_calls += 1
        outline = np.zeros((512, 512), bool)
        outline[:, :256] = True
        return outline


def test_the_parsing_mask_follows_the_outline(astronaut):
    parser = LeftHalf()
    subject = Restorer(detector=FakeDetector(FACE), crop_restorer=FakeCropRestorer(inverted), parser=parser)
    soft = subject.restore(astronaut)
    assert parser.num_calls == 0 and soft.to_report()["mask"] == "soft"
    parsed = subject.restore(astronaut, RestoreOptions(mask="parsing"))
    assert parser.num_calls == 1 and parsed.to_report()["mask"] == "parsing"
    left, right = np.s_[110:140, 195:205], np.s_[110:140, 250:260]
    assert np.abs(parsed.photo.pixels[left].astype(int) - soft.photo.pixels[left]).mean() < 2
    np.testing.assert_array_equal(parsed.photo.pixels[right], astronaut[right])
    assert (soft.photo.pixels[right] != astronaut[right]).any()
    assert parsed.to_report()["outside_faces_unchanged"] is True
    parsed.recompose(strength=0.5)
    assert parser.num_calls == 1


def test_the_parsing_mask_without_its_weights_is_an_error_that_says_what_to_do(astronaut):
    with pytest.raises(WeightsError, match=r"ParseNet-latest\.pth.*choose the soft mask"):
        restorer().restore(astronaut, RestoreOptions(mask="parsing"))


@pytest.fixture
def r50_file(monkeypatch, tmp_path):
    """Where RetinaFace-R50 would lie, and a stand-in for the network that reads it."""

    class ReadsAnything(FakeDetector):
        name = "retinaface-r50"

        def __init__(self, path, device):
            super().__init__(FACE)
            if path.read_bytes() != b"fits":
                raise WeightsError(f"The file {path} is not RetinaFace-R50.")

    spec = replace(SPECS["retinaface-r50"], sha256=None, num_bytes=None)
    monkeypatch.setitem(SPECS, spec.name, spec)
    monkeypatch.setattr("gpen_core.loading.FacexlibDetector", ReadsAnything)
    monkeypatch.setenv("GPEN_WEIGHTS_DIR", str(tmp_path))
    return tmp_path / "detection_Resnet50_Final.pth"


def test_the_larger_detector_is_the_default_where_its_file_is(r50_file, astronaut):
    def run(**options):
        subject = Restorer(runtime=RuntimeOptions(**options), crop_restorer=FakeCropRestorer(identity))
        return subject.restore(astronaut)

    assert run().detector == "retinaface-mobile"
    with pytest.raises(WeightsError, match=r"RetinaFace-R50\.pth"):
        run(detector="retinaface-r50")
    r50_file.write_bytes(b"fits")
    assert run().detector == "retinaface-r50"
    assert any("detection_Resnet50_Final.pth are unverified" in note for note in run().notes)
    assert run(detector="retinaface-mobile").detector == "retinaface-mobile"
    r50_file.write_bytes(b"does not")
    broken = run()
    assert broken.detector == "retinaface-mobile"
    assert any(str(r50_file) in note for note in broken.notes)


def test_half_precision_on_a_cpu_is_answered_with_a_note(astronaut):
    result = Restorer(runtime=RuntimeOptions(device="cpu", precision="fp16")).restore(astronaut[:64, :64])
    assert result.precision == "fp32"
    assert any("fp16 brings nothing on a CPU" in note for note in result.notes)


def test_two_at_once_give_what_each_gives_alone(starter, examples):
    paths = [examples / "astronaut-small.jpg", examples / "obama-faded.jpg"] * 2
    alone = [starter.restore(path).photo.pixels for path in paths[:2]] * 2
    together: list[np.ndarray | None] = [None] * len(paths)
    # Each restorer works on two photos at a time, and both share the detector's one session.
    restorers = [starter, Restorer("starter-256")]

    def work(index):
        together[index] = restorers[index // 2].restore(paths[index]).photo.pixels

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(paths))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for expected, found in zip(alone, together, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_same_photo_twice_gives_the_same_pixels(starter, examples):
    first, second = (starter.restore(examples / "group.jpg") for _ in range(2))
    np.testing.assert_array_equal(first.photo.pixels, second.photo.pixels)
    assert [face.face.box for face in first.faces] == [face.face.box for face in second.faces]


def test_a_photo_on_its_side_is_restored_like_the_upright_one(starter, examples):
    photo = np.asarray(Image.open(examples / "obama-faded.jpg"))
    upright = starter.restore(photo).photo.pixels
    turned = starter.restore(np.ascontiguousarray(np.rot90(photo))).photo.pixels
    assert np.abs(np.rot90(turned, -1).astype(int) - upright).mean() < 1.0
    assert np.abs(upright.astype(int) - photo).mean() > 0.2


def smoothed(crop):
    return cv2.GaussianBlur(crop, (0, 0), 4)


@pytest.mark.parametrize("is_gray", [False, True])
def test_a_restored_face_gets_the_grain_around_it_when_asked(astronaut, is_gray):
    smooth = cv2.GaussianBlur(astronaut, (0, 0), 2)
    noise = np.random.default_rng(0).normal(0, 12, smooth.shape)
    grainy = np.clip(smooth * 0.8 + 25 + noise, 0, 255).astype(np.uint8)
    if is_gray:
        grainy = np.repeat(np.asarray(Image.fromarray(grainy).convert("L"))[..., None], 3, axis=2)
    face = np.zeros((512, 512), bool)
    face[90:150, 195:255] = True

    def grain(pixels, where):
        return measure_grain(pixels.astype(np.float32), where).luma[0]

    subject = restorer(smoothed)
    bare = subject.restore(grainy)
    matched = subject.restore(grainy, RestoreOptions(grain=True))
    around = grain(grainy, ~face)
    assert grain(bare.photo.pixels, face) < 0.8 * around
    assert grain(matched.photo.pixels, face) == pytest.approx(around, rel=0.12)
    np.testing.assert_array_equal(
        matched.photo.pixels, subject.restore(grainy, RestoreOptions(grain=True)).photo.pixels
    )
    np.testing.assert_array_equal(matched.recompose(strength=0).photo.pixels, grainy)
    assert matched.to_report()["outside_faces_unchanged"] is True
    if is_gray:
        assert (np.ptp(matched.photo.pixels.astype(int), axis=2) == 0).all()


def test_the_colour_lock_keeps_the_colour_of_a_face(astronaut):
    bluish = restorer(lambda crop: np.clip(crop + np.array([0, 0, 40]), 0, 255).astype(np.uint8))
    face = np.s_[90:150, 195:255, 2]
    free = bluish.restore(astronaut).photo.pixels[face].astype(int) - astronaut[face]
    locked = bluish.restore(astronaut, RestoreOptions(lock_color=True)).photo.pixels[face].astype(int) - astronaut[face]
    assert free.mean() > 20
    assert abs(locked.mean()) < 6
