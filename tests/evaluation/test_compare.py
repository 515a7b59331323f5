"""One photo under several settings."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from gpen_core.errors import Cancelled, DeviceError, OptionError, PhotoError
from gpen_core.evaluation.compare import compare_settings, difference_in
from gpen_core.evaluation.comparison import Difference, Setting, crop_window
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.restorer import Restorer
from tests.fakes import FakeCropRestorer, FakeDetector, checkerboard, constant, frontal_face

CPU = RuntimeOptions(device="cpu")
FACES = (frontal_face(60, 70, 30), frontal_face(170, 70, 40))


def setting(model="starter-256", **options):
    return Setting(options=RestoreOptions(**options), runtime=replace(CPU, model=model))


class Networks:
    """A fake network a model, and how often each was asked beside its first, gray crop."""

    def __init__(self, **paints):
        self.crops = {name.replace("_", "-"): FakeCropRestorer(paint) for name, paint in paints.items()}

    def __call__(self, runtime, report):
        return Restorer(crop_restorer=self.crops[runtime.model], detector=FakeDetector(*FACES))

    def num_calls(self, model):
        return self.crops[model].num_calls


@pytest.fixture
def photo():
    return np.random.default_rng(0).integers(0, 255, (160, 240, 3), dtype=np.uint8)


def test_settings_of_one_network_share_its_run_and_equal_their_own(photo):
    networks = Networks(starter_256=checkerboard)
    settings = [setting(), setting(strength=0.4), setting(faces="largest"), setting(strength=0.0, faces="0")]
    comparison = compare_settings(networks, photo, settings)
    assert networks.num_calls("starter-256") == 2
    assert [outcome.has_run_network for outcome in comparison.outcomes] == [True, False, False, False]
    for outcome in comparison.outcomes:
        alone = networks(outcome.setting.runtime, None).restore(photo, outcome.setting.options)
        np.testing.assert_array_equal(outcome.photo.pixels, alone.photo.pixels)
        assert outcome.report["strength"] == outcome.setting.options.strength
        assert outcome.report["faces_restored"] == alone.num_shown
        assert outcome.seconds > 0


def test_differences_are_to_the_first_and_none_outside_the_faces(photo):
    networks = Networks(starter_256=constant(200, 200, 200), gpen_bfr_256=checkerboard)
    comparison = compare_settings(networks, photo, [setting(), setting("gpen-bfr-256"), setting(strength=0)])
    first, second, third = comparison.outcomes
    assert comparison.reference == 0
    assert first.inside == Difference(0, 0) and first.outside == Difference(0, 0)
    assert second.outside == third.outside == Difference(0, 0)
    changed = (first.photo.pixels != third.photo.pixels).any(axis=-1)
    levels = np.abs(first.photo.pixels.astype(int) - third.photo.pixels)
    assert third.inside.maximum == levels.max()
    assert 0 < third.inside.mean <= levels[changed].mean()
    # A flat face is less sharp than the noise it covers, a checkerboard sharper.
    assert first.sharpness < comparison.sharpness_before < second.sharpness
    assert third.sharpness == pytest.approx(comparison.sharpness_before)
    np.testing.assert_array_equal(third.photo.pixels, photo)
    assert comparison.places == tuple(face.box.center for face in FACES)


def test_a_setting_that_fails_is_an_outcome(photo):
    networks = Networks(gpen_bfr_256=constant(0, 0, 0))

    def get_restorer(runtime, report):
        if runtime.model == "starter-256":
            raise DeviceError("The device is out of memory; choose smaller tiles.")
        return networks(runtime, report)

    settings = [setting(), setting("gpen-bfr-256"), setting("gpen-bfr-256", faces="7")]
    broken, good, numberless = compare_settings(get_restorer, photo, settings).outcomes
    assert broken.error == "The device is out of memory; choose smaller tiles." and broken.photo is None
    assert good.error == "" and good.inside == Difference(0, 0)
    assert "There is no face 7" in numberless.error


def test_without_a_face_the_whole_picture_is_outside(photo):
    restorer = Restorer(crop_restorer=FakeCropRestorer(checkerboard), detector=FakeDetector())
    comparison = compare_settings(lambda runtime, report: restorer, photo, [setting(), setting(strength=0.5)])
    assert [outcome.inside for outcome in comparison.outcomes] == [None, None]
    assert comparison.outcomes[1].outside == Difference(0, 0) and comparison.sharpness_before is None


def test_memory_is_told_where_a_network_ran(photo):
    comparison = compare_settings(Networks(starter_256=checkerboard), photo, [setting(), setting(strength=0.5)])
    first, second = comparison.outcomes
    assert first.memory_mib is None or first.memory_mib > 10
    assert second.memory_mib is None


def test_the_report_is_json(photo):
    comparison = compare_settings(
        Networks(starter_256=checkerboard), photo, [setting(), setting(strength="auto", scale=1.0)]
    )
    report = json.loads(json.dumps(comparison.to_report()))
    assert report["size"] == [240, 160]
    assert [entry["strength"] for entry in report["settings"]] == [1.0, "auto"]
    assert report["settings"][1]["difference_inside_faces"] == {"mean": 0, "max": 0}


def test_it_stops_when_progress_raises(photo):
    def stop(step):
        raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        compare_settings(Networks(starter_256=checkerboard), photo, [setting(), setting(strength=0.5)], stop)


@pytest.mark.parametrize(
    "settings",
    [[setting()], [setting(strength=value / 10) for value in range(5)], [setting(), setting(scale=2.0)]],
    ids=["too few", "too many", "two scales"],
)
def test_what_cannot_be_compared_is_refused(photo, settings):
    with pytest.raises(OptionError, match="choose"):
        compare_settings(Networks(starter_256=checkerboard), photo, settings)


def test_an_unreadable_photo_is_refused_once():
    with pytest.raises(PhotoError):
        compare_settings(Networks(starter_256=checkerboard), b"no picture", [setting(), setting(strength=0)])


def test_bands_make_no_difference():
    generator = np.random.default_rng(1)
    first, second = generator.integers(0, 255, (2, 600, 20, 3), dtype=np.uint8)
    region = generator.random((600, 20)) < 0.3
    levels = np.abs(first.astype(int) - second)[region]
    assert difference_in(first, second, region) == pytest.approx(Difference(levels.mean(), levels.max()))
    assert difference_in(first, second, np.zeros_like(region)) is None


@pytest.mark.parametrize(
    ("center", "window"),
    [((50, 40), (30, 20, 70, 60)), ((0, 0), (0, 0, 40, 40)), ((239, 159), (200, 120, 240, 160))],
)
def test_windows_lie_inside_the_picture(photo, center, window):
    assert crop_window(photo, center, 40) == window
    assert crop_window(photo, center, 1000) == (0, 0, 240, 160)
