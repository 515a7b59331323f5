"""GPEN's other tasks: what the network sees, what of its answer counts, and what is said where that cannot be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from gpen_core import cli
from gpen_core.errors import OptionError, PhotoError, WeightsError
from gpen_core.models.gpen import Generator
from gpen_core.models.registry import SPECS
from gpen_core.options import TASK_MODELS, RestoreOptions, RuntimeOptions, models_of
from gpen_core.photo.color import luma
from gpen_core.restorer import Restorer
from gpen_core.tasks import TASKS
from tests.fakes import ASTRONAUT_LANDMARKS, FakeCropRestorer, FakeDetector, constant, face_at, identity

EXACT = RestoreOptions(strength=1)
FACE = face_at(ASTRONAUT_LANDMARKS)


class Seen:
    """An answer that remembers what it was asked."""

    def __init__(self, answer) -> None:
        self.crops, self.answer = [], answer

    def __call__(self, crop):
        self.crops.append(crop.copy())
        return self.answer(crop)


def restorer(task, answer=identity, *, faces=(FACE,), size=256) -> Restorer:
    return Restorer(
        runtime=RuntimeOptions(task=task), detector=FakeDetector(*faces), crop_restorer=FakeCropRestorer(answer, size)
    )


def marked(photo, *boxes):
    mask = np.zeros(photo.shape[:2], np.uint8)
    for x0, y0, x1, y1 in boxes:
        mask[y0:y1, x0:x1] = 255
    return mask


# --- which task, which model ---


def test_each_task_has_its_model_and_each_model_its_task():
    assert set(TASKS) == {"restore", *TASK_MODELS}
    for task, model in TASK_MODELS.items():
        assert SPECS[model].task == task
        assert RuntimeOptions(task=task).model_for_task == model
        assert RuntimeOptions(model=model).task_name == task
    assert all(SPECS[model].task == "restore" for model in models_of("restore"))
    assert RuntimeOptions().task_name == "restore"
    assert RuntimeOptions().model_for_task == "auto"


@pytest.mark.parametrize(
    ("task", "model"), [("colorize", "gpen-bfr-512"), ("restore", "gpen-inpainting-1024"), ("inpaint", "starter-256")]
)
def test_a_model_of_another_task_is_refused(task, model):
    with pytest.raises(OptionError) as caught:
        RuntimeOptions(task=task, model=model)
    assert model in str(caught.value)
    assert models_of(task)[0] in str(caught.value)


@pytest.mark.parametrize("task", TASK_MODELS)
def test_without_its_file_a_task_says_where_to_get_it_and_where_to_put_it(task):
    with pytest.raises(WeightsError) as caught:
        Restorer(runtime=RuntimeOptions(task=task))
    message, spec = str(caught.value), SPECS[TASK_MODELS[task]]
    assert spec.by_hand_url in message
    assert f"put {spec.file_name} into " in message
    assert "starter" not in message


def test_models_lists_them_as_fetched_by_hand(capsys):
    with pytest.raises(SystemExit):
        cli.main(["models"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    for model in TASK_MODELS.values():
        row = next(row for row in rows if row[0] == model)
        assert row[3] == "no"
        assert row[-2:] == ["by", "hand"]


# --- colorize ---


def test_colorize_shows_gray_and_keeps_every_brightness(astronaut):
    gray = np.repeat(np.asarray(Image.fromarray(astronaut).convert("L"))[..., None], 3, axis=2)
    paint = Seen(lambda crop: np.clip(crop + np.array([40, -20, 10]), 0, 255).astype(np.uint8))
    result = restorer("colorize", paint).restore(gray, EXACT)
    (seen,) = paint.crops
    assert (np.ptp(seen, axis=2) == 0).all()
    after = result.photo.pixels
    assert np.ptp(after, axis=2).max() > 40
    # By no more than rounding, but where a pixel beside a brighter one has no room for the colour of both.
    moved = np.abs(luma(after) - luma(gray))
    assert np.quantile(moved, 0.999) < 1
    assert moved.max() < 6
    assert result.task == "colorize"
    assert "1 of 1 face colorized" in result.summary()
    assert any("guess" in note for note in result.notes)
    assert result.to_report()["outside_faces_unchanged"]


def test_colorize_of_a_whole_picture(astronaut):
    gray = np.repeat(astronaut[:256, :256, 1:2], 3, axis=2)
    result = restorer("colorize", constant(200, 100, 50)).restore(gray, replace(EXACT, mode="whole"))
    after = result.photo.pixels
    assert np.abs(luma(after) - luma(gray)).max() < 1
    has_room = (gray[..., 0] > 100) & (gray[..., 0] < 170)
    assert has_room.mean() > 0.1
    assert (after[..., 0].astype(int) - after[..., 2])[has_room].min() > 140


def test_options_without_a_use_are_named(astronaut):
    options = replace(EXACT, lock_color=True, sharp_faces="skip")
    result = restorer("colorize").restore(astronaut, options)
    assert "Not used for task colorize: lock_color, sharp_faces." in result.notes
    assert not result.options.lock_color
    assert not any("Not used" in note for note in restorer("colorize").restore(astronaut, EXACT).notes)


# --- inpaint ---


def test_inpaint_fills_what_is_marked_and_nothing_else(astronaut):
    x0, y0, x1, y1 = box = (215, 110, 235, 135)
    paint = Seen(constant(10, 200, 30))
    result = restorer("inpaint", paint).restore(astronaut, EXACT, inpaint_mask=marked(astronaut, box))
    (seen,) = paint.crops
    share_white = (seen == 255).all(axis=2).mean()
    assert 0.01 < share_white < 0.2
    after = result.photo.pixels
    assert (after[y0:y1, x0:x1] == (10, 200, 30)).all()
    outside = np.ones(after.shape[:2], bool)
    outside[y0 - 6 : y1 + 6, x0 - 6 : x1 + 6] = False
    np.testing.assert_array_equal(after[outside], astronaut[outside])
    assert result.to_report()["outside_faces_unchanged"]
    assert "1 of 1 face filled" in result.summary()
    assert any("invented" in note for note in result.notes)
    np.testing.assert_array_equal(result.recompose(strength=0).photo.pixels, astronaut)


def test_nothing_of_a_scratch_stays_in_a_face_larger_than_the_crop(astronaut):
    """The change of a crop would leave what is finer than its pixels."""
    large = np.asarray(Image.fromarray(astronaut).resize((2048, 2048)))
    noisy = large.copy()
    box = (860, 440, 940, 520)
    noisy[440:520, 860:940] = np.random.default_rng(0).integers(0, 256, (80, 80, 3))
    face = face_at((ASTRONAUT_LANDMARKS + 0.5) * 4 - 0.5)
    subject = restorer("inpaint", constant(90, 90, 90), faces=(face,), size=64)
    after = subject.restore(noisy, EXACT, inpaint_mask=marked(noisy, box)).photo.pixels
    assert (after[440:520, 860:940] == 90).all()


def test_inpaint_keeps_the_tone_of_a_gray_photo_also_under_a_coloured_scratch(astronaut):
    gray = np.repeat(np.asarray(Image.fromarray(astronaut).convert("L"))[..., None], 3, axis=2)
    mask = marked(gray, (215, 110, 235, 135))
    after = restorer("inpaint", constant(200, 40, 40)).restore(gray, EXACT, inpaint_mask=mask).photo.pixels
    assert np.ptp(after, axis=2).max() == 0


def test_faces_without_a_mark_are_left_alone_and_marks_without_a_face_are_named(astronaut):
    other = face_at(ASTRONAUT_LANDMARKS + np.array([180, 250]))
    paint = Seen(constant(0, 0, 0))
    mask = marked(astronaut, (215, 110, 235, 135), (0, 480, 60, 512))
    result = restorer("inpaint", paint, faces=(FACE, other)).restore(astronaut, EXACT, inpaint_mask=mask)
    assert [face.decision for face in result.faces] == ["restored", "skipped"]
    assert result.faces[1].reason == "the mask marks nothing of it"
    assert len(paint.crops) == 1
    assert any(note.startswith("79% of what the mask marks") for note in result.notes)
    np.testing.assert_array_equal(result.photo.pixels[470:], astronaut[470:])


def test_inpaint_of_a_whole_picture(astronaut):
    picture = astronaut[:300, :300]
    mask = marked(picture, (100, 120, 160, 200))
    subject = restorer("inpaint", constant(10, 200, 30), faces=())
    after = subject.restore(picture, replace(EXACT, mode="whole"), inpaint_mask=mask).photo.pixels
    assert (after[120:200, 100:160] == (10, 200, 30)).all()
    outside = np.ones(after.shape[:2], bool)
    outside[112:208, 92:168] = False
    np.testing.assert_array_equal(after[outside], picture[outside])


def test_inpaint_into_a_larger_result(astronaut):
    mask = marked(astronaut, (215, 110, 235, 135))
    subject = restorer("inpaint", constant(10, 200, 30))
    result = subject.restore(astronaut, replace(EXACT, scale=2.0), inpaint_mask=mask)
    assert (result.photo.pixels[222:268, 432:468] == (10, 200, 30)).all()
    assert result.photo.width == 1024


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (np.zeros((512, 512), np.uint8), "marks nothing"),
        (np.full((512, 500), 255, np.uint8), "500 x 512 px"),
        (np.full((512, 512, 4), np.array([255, 255, 255, 0])), "marks nothing"),
    ],
)
def test_a_mask_that_cannot_be_used_is_refused(astronaut, mask, words):
    with pytest.raises(PhotoError, match=words):
        restorer("inpaint").restore(astronaut, EXACT, inpaint_mask=np.asarray(mask, np.uint8))


def test_a_mask_is_needed_for_inpainting_and_for_nothing_else(astronaut):
    with pytest.raises(OptionError, match="needs a mask"):
        restorer("inpaint").restore(astronaut, EXACT)
    with pytest.raises(OptionError, match="no use for one"):
        restorer("restore").restore(astronaut, EXACT, inpaint_mask=marked(astronaut, (0, 0, 9, 9)))


# --- seg2face ---


def test_seg2face_answers_with_the_network_s_picture_and_searches_no_face():
    labels = np.random.default_rng(1).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    paint = Seen(constant(120, 60, 30))
    subject = restorer("seg2face", paint, size=64)
    result = subject.restore(labels, EXACT)
    np.testing.assert_array_equal(paint.crops[0], labels)
    assert (result.photo.pixels == (120, 60, 30)).all()
    assert subject.detector.num_calls == 0
    assert any("nobody's" in note for note in result.notes)
    assert "whole picture drawn in 1 tiles" in result.summary()


def test_a_map_of_another_size_keeps_its_labels():
    labels = np.random.default_rng(1).integers(0, 3, (96, 96, 1)).repeat(3, axis=2).astype(np.uint8) * 100
    paint = Seen(constant(120, 60, 30))
    result = restorer("seg2face", paint, size=64).restore(labels, EXACT)
    assert set(np.unique(paint.crops[0])) == {0, 100, 200}
    assert (result.photo.pixels == (120, 60, 30)).all()
    with pytest.raises(PhotoError, match="90 x 96 px"):
        restorer("seg2face", paint, size=64).restore(labels[:, :90], EXACT)


# --- with networks ---


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    torch.manual_seed(3)
    network = Generator(64, style_dim=16, num_mlp_layers=2, channel_multiplier=1, narrow=0.25).eval()
    path = tmp_path_factory.mktemp("weights") / "random-64.pth"
    torch.save(network.state_dict(), path)
    return path, network


def own(path, task, *faces) -> Restorer:
    return Restorer(runtime=RuntimeOptions(task=task, weights=str(path)), detector=FakeDetector(*faces))


def test_seg2face_speaks_to_its_network_in_0_to_1(weights):
    """As `face_gan.py` of the authors does without `is_norm`, but for its cutting off of fractions."""
    path, network = weights
    labels = np.random.default_rng(2).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    after = own(path, "seg2face").restore(labels, EXACT).photo.pixels
    x = torch.from_numpy(labels).permute(2, 0, 1)[None] / 255
    with torch.inference_mode():
        expected = network(x).clamp(0, 1)[0].permute(1, 2, 0).numpy() * 255
    assert np.abs(after - expected).max() < 0.51
    assert np.ptp(expected) > 20


def test_the_others_speak_in_minus_1_to_1(weights, astronaut):
    """`FaceColorization.process` of the authors for a picture of the network's size, whose brightness is then kept."""
    path, network = weights
    gray = np.repeat(astronaut[100:164, 190:254, 1:2], 3, axis=2)
    after = own(path, "colorize").restore(gray, replace(EXACT, mode="whole")).photo.pixels
    x = torch.from_numpy(gray.copy()).permute(2, 0, 1)[None] / 127.5 - 1
    with torch.inference_mode():
        answer = np.rint((network(x).clamp(-1, 1)[0].permute(1, 2, 0).numpy() + 1) * 127.5)
    expected = answer + (luma(gray) - luma(answer.astype(np.uint8)))[..., None]
    has_room = (expected >= 0).all(axis=2) & (expected <= 255).all(axis=2)
    assert has_room.mean() > 0.3
    assert np.abs(after - expected)[has_room].max() < 1.01


@pytest.mark.parametrize("task", TASK_MODELS)
def test_the_command_runs_every_task(task, weights, tmp_path, astronaut, capsys):
    path, _ = weights
    photo, mask, out = tmp_path / "in.png", tmp_path / "mask.png", tmp_path / "out.png"
    Image.fromarray(astronaut[:300, :300]).save(photo)
    Image.fromarray(marked(astronaut[:300, :300], (215, 110, 235, 135))).save(mask)
    given = ["--inpaint-mask", str(mask)] if task == "inpaint" else []
    with pytest.raises(SystemExit) as ended:
        cli.main(["-i", str(photo), "-o", str(out), "--weights", str(path), "--task", task, *given])
    assert ended.value.code == 0
    assert TASKS[task].done in capsys.readouterr().out
    assert not np.array_equal(np.asarray(Image.open(out)), astronaut[:300, :300])


def test_the_command_fills_a_folder_with_a_mask_for_each_photo(weights, tmp_path, astronaut, capsys):
    path, _ = weights
    photos, masks = tmp_path / "in", tmp_path / "masks"
    photos.mkdir()
    masks.mkdir()
    for name in ("a", "b", "c"):
        Image.fromarray(astronaut[:300, :300]).save(photos / f"{name}.png")
    for name in ("a", "c"):
        Image.fromarray(marked(astronaut[:300, :300], (215, 110, 235, 135))).save(masks / f"{name}.gif")
    arguments = ["-i", str(photos), "-o", str(tmp_path / "out"), "--weights", str(path), "--task", "inpaint"]
    with pytest.raises(SystemExit) as ended:
        cli.main([*arguments, "--inpaint-mask", str(masks)])
    told = capsys.readouterr()
    assert ended.value.code == 1
    assert "3 photos: 2 restored" in told.out
    assert "There is no mask for b.png" in told.err
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 1
    assert "needs a mask" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        cli.main([*arguments, "--inpaint-mask", str(masks / "a.gif")])
    assert "a folder's a folder" in capsys.readouterr().err


def test_an_exported_network_knows_its_task(weights, tmp_path):
    pytest.importorskip("onnxscript", reason="writing ONNX needs onnxscript")
    path, _ = weights
    exported = tmp_path / "drawer.onnx"
    with pytest.raises(SystemExit) as ended:
        cli.main(["export", "--weights", str(path), "--task", "seg2face", "-o", str(exported)])
    assert ended.value.code == 0
    labels = np.random.default_rng(2).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    subject = Restorer(runtime=RuntimeOptions(weights=str(exported)), detector=FakeDetector())
    assert subject.task.name == "seg2face"
    before = own(path, "seg2face").restore(labels, EXACT).photo.pixels
    assert np.abs(subject.restore(labels, EXACT).photo.pixels.astype(int) - before).max() <= 1
    with pytest.raises(OptionError, match="made for task seg2face"):
        Restorer(runtime=RuntimeOptions(weights=str(exported), task="colorize"), detector=FakeDetector())
