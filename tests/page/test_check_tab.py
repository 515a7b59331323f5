"""The quality check: the same numbers as the core's, pictures at one zoom, and everything by keyboard too."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from gpen_core.errors import DeviceError, OptionError, PhotoError
from gpen_core.evaluation.compare import compare_settings
from gpen_core.evaluation.comparison import Comparison
from gpen_core.options import RestoreOptions, RuntimeOptions, allowed
from gpen_core.photo.io import read_photo
from page import check_job
from page.check_job import CheckJob, Choice, presets, title_of
from page.check_numbers import numbers_html, summary_html
from page.check_tab import chosen_settings, viewer_value
from page.jobs import Jobs
from page.languages import say
from tests.page.conftest import GROUP, MODEL, Served, Visit, pixels_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SETTINGS = [Choice(MODEL, strength, "auto", "auto").to_setting() for strength in (1.0, 0.7, 0.4, "auto")]


@pytest.fixture(scope="module")
def comparing(browser: Browser, served: Served) -> Iterator[Visit]:
    """A visitor who has compared the group photo under four strengths."""
    visit = Visit(browser, served.url)
    page = visit.page
    page.get_by_role("tab", name="Quality check").click()
    page.set_input_files("#check_photo input[type=file]", GROUP)
    page.wait_for_selector("#check_photo img")
    page.click("#check_run")
    page.locator("#check_status", has_text="4 settings compared on 3 faces.").wait_for()
    page.wait_for_function("[...document.querySelectorAll('#check_viewer img')].every(image => image.naturalWidth)")
    yield visit
    visit.context.close()


@pytest.fixture
def check(comparing: Visit) -> Iterator[Visit]:
    """The same visitor, back at 100 %."""
    comparing.page.click("[data-zoom=native]")
    yield comparing
    assert comparing.complaints == []


@pytest.fixture(scope="module")
def comparison(served: Served) -> Comparison:
    """What the core says to the same."""
    return compare_settings(lambda runtime, report: served.restorer, GROUP.read_bytes(), SETTINGS)


def test_numbers_and_pictures_are_the_cores(check: Visit, comparison: Comparison) -> None:
    page = check.page
    rows = page.locator("#check_numbers tbody tr").all()
    assert len(rows) == 4
    for row, outcome in zip(rows, comparison.outcomes, strict=True):
        text = row.inner_text()
        assert f"{outcome.sharpness:.0f} (" in text and "starter-256 · cpu" in text
        if outcome is not comparison.outcomes[0]:
            assert outcome.inside is not None
            assert f"by {outcome.inside.mean:.2f} of 255 on average, {outcome.inside.maximum} at most" in text
            assert "nowhere" in text
    for index, outcome in enumerate(comparison.outcomes):
        source = page.locator("#check_viewer .own").nth(index).get_attribute("src")
        shown = np.asarray(Image.open(io.BytesIO(check.context.request.get(source).body())).convert("RGB"))
        assert shown.shape[1] == 1024 and shown.shape[0] == comparison.before.shape[0]
        assert outcome.photo is not None
        np.testing.assert_array_equal(shown, outcome.photo.pixels[:, :1024])


def test_the_zip_holds_pictures_and_numbers(check: Visit, served: Served, comparison: Comparison) -> None:
    check.page.locator("#check_download:enabled").wait_for()
    with check.page.expect_download() as caught:
        check.page.click("#check_download")
    assert caught.value.suggested_filename == "group_comparison.zip"
    with zipfile.ZipFile(caught.value.path()) as archive:
        report = json.loads(archive.read("comparison.json"))
        assert [entry["strength"] for entry in report["settings"]] == [1.0, 0.7, 0.4, "auto"]
        with archive.open("group_D_starter-256.png") as file:
            assert comparison.outcomes[3].photo is not None
            np.testing.assert_array_equal(pixels_of(file), comparison.outcomes[3].photo.pixels)  # type: ignore[arg-type]
    assert served.own_folders() == []


def transforms(visit: Visit) -> set[str]:
    found = visit.page.evaluate(
        "[...document.querySelectorAll('#check_viewer .plane')].map(each => each.style.transform)"
    )
    return set(found)


def test_all_pictures_move_and_zoom_together_by_keyboard(check: Visit) -> None:
    page = check.page
    page.locator("#check_viewer .view").nth(1).focus()
    (begin,) = transforms(check)
    assert begin.endswith("scale(1)")
    page.keyboard.press("ArrowRight")
    (moved,) = transforms(check)
    x_begin, x_moved = (float(re.findall(r"-?[\d.]+", text)[0]) for text in (begin, moved))
    assert x_moved == pytest.approx(x_begin - 60)
    page.keyboard.press("+")
    assert page.locator("#check_viewer .level").inner_text() == "200 %"
    (zoomed,) = transforms(check)
    assert zoomed.endswith("scale(2)")
    page.keyboard.press("0")
    assert transforms(check) == {moved}
    viewer = page.locator("#check_viewer .viewer")
    page.keyboard.down(" ")
    assert "before" in (viewer.get_attribute("class") or "")
    page.keyboard.up(" ")
    assert "before" not in (viewer.get_attribute("class") or "")
    page.keyboard.press("d")
    assert page.locator("[data-look=difference]").get_attribute("aria-pressed") == "true"


def test_pictures_move_by_mouse_and_a_click_centres(check: Visit) -> None:
    page = check.page
    (begin,) = transforms(check)
    box = page.locator("#check_viewer .view").nth(0).bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 30, y - 20, steps=3)
    page.mouse.up()
    (dragged,) = transforms(check)
    page.mouse.click(x - 30, y - 20)
    (centred,) = transforms(check)
    positions = [list(map(float, re.findall(r"-?[\d.]+", text)[:2])) for text in (begin, dragged, centred)]
    np.testing.assert_allclose(np.subtract(positions[1], positions[0]), (-30, -20), atol=1)
    np.testing.assert_allclose(np.subtract(positions[2], positions[1]), (30, 20), atol=1)


def test_another_face_needs_no_network(check: Visit, served: Served) -> None:
    num_calls = served.crops.num_calls
    (begin,) = transforms(check)
    check.page.get_by_label("Face 3", exact=True).check()
    check.page.wait_for_function(
        f"document.querySelector('#check_viewer .plane').style.transform !== {json.dumps(begin)}"
    )
    assert served.crops.num_calls == num_calls


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_serious_barrier_and_no_sideways_scroll(browser: Browser, served: Served, scheme: str, width: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    viewport = {"width": width, "height": 900}
    visitor = Visit(browser, f"{served.url}?__theme={scheme}", viewport=viewport, locale="zh-TW")
    page = visitor.page
    page.get_by_role("tab", name="品質比較").click()
    page.set_input_files("#check_photo input[type=file]", GROUP)
    page.wait_for_selector("#check_photo img")
    page.click("#check_settings button")
    page.click("#check_run")
    page.locator("#check_download:enabled").wait_for()
    found = Axe().run(page).response["violations"]
    serious = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]
    assert serious == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    visitor.context.close()


@pytest.mark.browser
def test_presets_fill_the_settings(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("tab", name="Quality check").click()
    page.get_by_label("FP32 and FP16").check()
    page.set_input_files("#check_photo input[type=file]", GROUP)
    page.wait_for_selector("#check_photo img")
    page.click("#check_run")
    page.locator("#check_status", has_text="2 settings compared").wait_for()
    text = page.locator("#check_numbers").inner_text()
    assert "starter-256 · fp32" in text and "starter-256 · fp16" in text
    assert visit.complaints == []


@pytest.mark.browser
def test_stop_ends_a_comparison(visit: Visit, served: Served) -> None:
    page = visit.page
    page.get_by_role("tab", name="Quality check").click()
    page.set_input_files("#check_photo input[type=file]", GROUP)
    page.wait_for_selector("#check_photo img")
    page.click("#check_run")
    page.locator("#check_status progress").wait_for()
    page.click("#check_stop")
    page.locator("#check_status", has_text="Stopped.").wait_for(timeout=5_000)
    page.locator("#check_stop").wait_for(state="hidden")
    with served.site.jobs.device.take(lambda step: None):
        assert served.own_folders() == []


def job_of(served: Served, settings: list[Any], get_restorer: Any = None) -> CheckJob:
    return CheckJob(get_restorer or served.get_restorer, Jobs().device, GROUP, settings)


def test_a_setting_that_cannot_be_had_is_shown_with_its_reason(served: Served, tmp_path: Any) -> None:
    def get_restorer(model: str, report: Any, *, precision: Any = None, compile: Any = None) -> Any:
        if precision == "fp16":
            raise DeviceError("This machine has no such device; choose cpu.")
        return served.restorer

    settings = [Choice(MODEL, 1.0, "auto", precision).to_setting() for precision in ("fp32", "fp16")]
    comparison = job_of(served, settings, get_restorer).work(lambda step: None)
    table = numbers_html(comparison, "en")
    assert "This machine has no such device; choose cpu." in table and 'data-state="failed"' in table
    assert "1 failed" in summary_html(comparison, "en")
    value = viewer_value(comparison, 0, tmp_path, "en")
    assert value is not None and "image" in value["cells"][0]
    assert value["cells"][1]["error"].startswith("This machine") and "image" not in value["cells"][1]


def test_without_a_face_the_middle_is_shown(served: Served, faceless: Any, tmp_path: Any) -> None:
    job = CheckJob(served.get_restorer, Jobs().device, faceless, SETTINGS[:2])
    comparison = job.work(lambda step: None)
    assert "No face was found" in summary_html(comparison, "en")
    value = viewer_value(comparison, 0, tmp_path, "en")
    assert value is not None and (value["x"], value["y"]) == (128, 128)


def test_a_photo_beyond_the_limit_is_refused_before_it_is_read(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_job, "MAX_MEGAPIXELS", 0.5)
    with pytest.raises(PhotoError, match=r"takes up to 0\.5"):
        job_of(served, SETTINGS[:2]).work(lambda step: None)


def test_values_from_outside_are_checked() -> None:
    with pytest.raises(OptionError):
        chosen_settings(2, [MODEL, 7.0, "auto", "auto", MODEL, 1.0, "auto", "auto"])
    with pytest.raises(OptionError):
        chosen_settings(1, [MODEL, 1.0, 77, "auto"])
    with pytest.raises(OptionError):
        chosen_settings(1, ["/etc/passwd", 1.0, "auto", "auto"])


def test_presets_are_what_the_options_allow_and_fetch_nothing() -> None:
    found = presets()
    assert {"strengths", "precision", "tiles"} <= set(found) and "models" not in found
    for choices in found.values():
        assert 2 <= len(choices) <= 4
        for choice in choices:
            assert choice.to_setting().runtime.model == MODEL
    strengths = allowed(RestoreOptions, "strength")
    for value in check_job.STRENGTHS:
        strengths.check("strength", value)


def test_titles_name_what_differs() -> None:
    def words(sentence: str, **values: Any) -> str:
        return say("en", sentence, **values)

    assert [title_of(each, SETTINGS, words) for each in SETTINGS[::3]] == [
        "starter-256 · strength 1.0",
        "starter-256 · strength auto",
    ]
    tiles = [Choice(MODEL, 1.0, tile, "auto").to_setting() for tile in (0, 128)]
    assert title_of(tiles[1], tiles, words) == "starter-256 · tiles 128"
    assert isinstance(tiles[0].runtime, RuntimeOptions)


def test_the_window_of_a_large_photo_is_cut_around_the_face(comparison: Comparison, tmp_path: Any) -> None:
    value = viewer_value(comparison, 2, tmp_path, "en")
    assert value is not None
    window = read_photo(tmp_path / "A.png").pixels
    x, _ = comparison.places[2]
    left = comparison.before.shape[1] - 1024
    assert value["width"] == window.shape[1] == 1024 and value["x"] == pytest.approx(x - left)
    assert comparison.outcomes[0].photo is not None
    np.testing.assert_array_equal(window, comparison.outcomes[0].photo.pixels[:, left:])
