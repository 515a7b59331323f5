"""One photo on the page, as visitors meet it in a real browser."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from gpen_core.options import OutputOptions
from gpen_core.photo.io import read_photo
from page import texts
from tests.page.conftest import ASTRONAUT, BROWSER_FLAGS, GROUP, MODEL, Served, Visit, find_browser, pixels_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext


def test_visitor_restores_compares_and_downloads(visit: Visit, served: Served, tmp_path: Path) -> None:
    """A PNG, whose download is one too."""
    photo = tmp_path / "Our wedding.v2.png"
    Image.open(GROUP).save(photo)
    visit.upload(photo)
    visit.page.click("#run")
    status = visit.wait_for_status("3 of 3 faces restored")
    assert status.startswith("3 of 3") and MODEL in status and "strength 1 " in status

    sizes = visit.sizes_of("#result img")
    assert sizes[0] == sizes[1] == list(Image.open(GROUP).size)
    name, pixels = visit.download()
    assert name == f"Our wedding.v2_{MODEL}.png"
    expected = served.restorer.restore(photo)
    np.testing.assert_array_equal(pixels, expected.photo.pixels)
    with visit.page.expect_download() as caught:
        visit.page.click("#report")
    assert caught.value.suggested_filename == f"Our wedding.v2_{MODEL}.json"
    report = json.loads(Path(caught.value.path()).read_text(encoding="utf-8"))
    assert [face["box"] for face in report["faces"]] == [face["box"] for face in expected.to_report()["faces"]]

    visit.open_tab("Side by side")
    visit.page.locator('#before img[alt="The photo before"]').wait_for()
    assert visit.sizes_of("#before img, #after img") == sizes
    assert visit.complaints == []


def test_strength_faces_and_format_need_no_network(visit: Visit, served: Served) -> None:
    visit.upload(GROUP)
    visit.page.click("#run")
    visit.wait_for_status("3 of 3 faces restored")
    visit.settle()
    num_calls = served.crops.num_calls

    visit.choose("format", "PNG")
    visit.open_tab("Faces")
    assert visit.sizes_of("#pairs img") == [[524, 256]] * 3
    visit.page.get_by_label("Face 1", exact=True).uncheck()
    visit.wait_for_status("2 of 3 faces restored")
    visit.page.locator("#strength [data-testid=number-input]").fill("0.6")
    visit.page.keyboard.press("Tab")
    visit.wait_for_status("strength 0.6")
    expected = served.restorer.restore(GROUP).recompose(strength=0.6, faces=(0, 2)).photo.pixels
    num_calls += 1
    name, pixels = visit.download()
    assert name == f"group_{MODEL}.png"
    np.testing.assert_array_equal(pixels, expected)

    visit.page.locator("#strength [data-testid=range-input]").press("Home")
    visit.wait_for_status("strength 0 ")
    np.testing.assert_array_equal(visit.download()[1], read_photo(GROUP).pixels)
    visit.page.locator("#automatic_strength input").check()
    visit.wait_for_status("strength auto")
    assert served.crops.num_calls == num_calls
    assert not visit.page.locator("#stale").is_visible()
    assert visit.complaints == []


@pytest.mark.browser
def test_result_of_other_settings_is_marked(visit: Visit) -> None:
    page = visit.page
    visit.upload(ASTRONAUT)
    page.click("#run")
    visit.wait_for_status("1 of 1 face restored")
    page.click("#advanced button")
    page.locator("#threshold [data-testid=range-input]").press("ArrowLeft")
    page.locator("#stale", has_text=texts.STALE).wait_for()
    page.locator("#threshold [data-testid=range-input]").press("ArrowRight")
    page.locator("#stale").wait_for(state="hidden")
    page.click('#photo [aria-label="Remove Image"]')
    page.locator("#stale", has_text=texts.STALE).wait_for()
    assert page.locator("#download").is_enabled()


@pytest.mark.browser
def test_settings_are_remembered_and_reset(visit: Visit) -> None:
    page = visit.page
    page.click("#advanced button")
    page.locator("#scale [data-testid=number-input]").fill("2")
    page.keyboard.press("Tab")
    page.wait_for_function("Object.values(localStorage).length > 0")
    page.wait_for_timeout(300)
    page.reload()
    page.click("#advanced button")
    page.wait_for_function("document.querySelector('#scale [data-testid=number-input]').value == '2'")
    page.click("#reset")
    page.wait_for_function("document.querySelector('#scale [data-testid=number-input]').value == '1'")
    kept = page.evaluate("JSON.stringify(localStorage)")
    assert "astronaut" not in kept and "/file" not in kept


def test_page_says_what_went_wrong(visit: Visit, served: Served, faceless: Path, tmp_path: Path) -> None:
    page = visit.page
    page.click("#run")
    page.locator("#photo", has_text=texts.NO_PHOTO).wait_for()

    visit.upload(faceless)
    page.click("#run")
    assert "no face found" in visit.wait_for_status("No face was found")
    np.testing.assert_array_equal(visit.download()[1], pixels_of(faceless))

    page.click('#photo [aria-label="Remove Image"]')
    text = tmp_path / "letter.jpg"
    text.write_text("Dear <b>all</b>")
    visit.upload(text)
    page.click("#run")
    sentence = "The uploaded file could not be read as a photo"
    visit.wait_for_status(sentence)
    page.locator("[data-testid=toast-body]", has_text=sentence).wait_for()
    assert not page.locator("#stop").is_visible()

    served.is_broken = True
    try:
        page.click("#run")
        status = visit.wait_for_status("Something went wrong (code ")
        assert "/srv/secret" not in page.content() and "Error" not in status
    finally:
        served.is_broken = False
    assert served.own_folders() == []


def test_stop_ends_the_work_and_the_next_run_is_whole(visit: Visit, served: Served) -> None:
    page = visit.page
    visit.upload(GROUP)
    with served.held():
        page.click("#run")
        page.click("#stop")
        assert visit.wait_for_status("Stopped.") == "Stopped."
        assert page.locator("[data-testid=toast-body]").count() == 0
        assert not page.locator("#stop").is_visible()
    page.click("#run")
    visit.wait_for_status("3 of 3 faces restored")
    assert not page.locator("#stop").is_visible()
    assert visit.complaints == []


def test_phone_in_chinese(phone: Visit) -> None:
    page = phone.page
    assert page.title() == "GPEN · 人脸修复"
    page.click("#run")
    page.locator("#photo", has_text="请先添加照片").wait_for()
    phone.complaints.clear()  # Gradio refuses with status 422, which the browser notes
    phone.upload(ASTRONAUT)
    page.click("#run")
    status = phone.wait_for_status("已修复 1/1 张人脸")
    assert "强度 1" in status
    phone.settle()
    assert page.locator("#download").inner_text() == "下载结果"
    for button in ("#run", "#download", "#report"):
        assert page.locator(button).bounding_box()["height"] >= 44
    page.click("#advanced button")
    page.locator("#threshold").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert "How sure" not in page.inner_text("#advanced")
    assert phone.complaints == []


@pytest.mark.browser
def test_download_keeps_format_and_metadata_as_asked(visit: Visit, served: Served, tmp_path: Path) -> None:
    visit.upload(ASTRONAUT)
    visit.page.click("#run")
    visit.wait_for_status("1 of 1")
    visit.settle()
    with visit.page.expect_download() as caught:
        visit.page.click("#download")
    assert caught.value.suggested_filename == f"astronaut-small_{MODEL}.jpg"
    served.restorer.restore(ASTRONAUT).save(tmp_path / "expected.jpg", OutputOptions())
    np.testing.assert_array_equal(
        np.asarray(Image.open(caught.value.path())), np.asarray(Image.open(tmp_path / "expected.jpg"))
    )


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.browser)])
def test_no_serious_barrier(desktop: BrowserContext, served: Served, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    visitor = Visit(desktop, f"{served.url}?__theme={scheme}")
    visitor.upload(GROUP)
    visitor.page.click("#run")
    visitor.wait_for_status("3 of 3")
    visitor.settle()
    visitor.page.click("#advanced button")
    visitor.open_tab("Faces")
    found = Axe().run(visitor.page).response["violations"]
    serious = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]
    visitor.page.close()
    assert serious == []


@pytest.mark.browser
def test_work_ends_when_the_visitor_leaves(browser: Browser, served: Served) -> None:
    visitor = Visit(browser, served.url)
    visitor.upload(ASTRONAUT)
    with served.held():
        visitor.page.click("#run")
        visitor.wait_for_status("Restoring faces")
        visitor.context.close()
        for _ in range(100):
            if served.site.jobs.device.num_waiting == 0:
                break
            time.sleep(0.1)
        assert served.site.jobs.device.num_waiting == 0


@pytest.mark.browser
@pytest.mark.parametrize(("locale", "words"), [("zh-HK", "進階設定"), ("zh", "高级设置"), ("fr-FR", "Advanced")])
def test_other_names_of_chinese(browser: Browser, served: Served, locale: str, words: str) -> None:
    visitor = Visit(browser, served.url, locale=locale)
    visitor.page.locator("#advanced", has_text=words).wait_for()
    visitor.context.close()


@pytest.mark.browser
def test_two_visitors_at_once_each_see_their_own(browser: Browser, served: Served) -> None:
    first, second = Visit(browser, served.url), Visit(browser, served.url, locale="zh-TW")
    first.upload(GROUP)
    second.upload(ASTRONAUT)
    with served.held():
        first.page.click("#run")
        first.wait_for_status("Restoring faces")
        second.page.click("#run")
        second.wait_for_status("正在等待他人的照片：前面還有 1 張")
    assert "3 of 3" in first.wait_for_status("3 of 3 faces restored")
    assert "1/1" in second.wait_for_status("已修復 1/1 張人臉")
    assert first.sizes_of("#result img")[1] == list(Image.open(GROUP).size)
    assert second.sizes_of("#result img")[1] == list(Image.open(ASTRONAUT).size)
    for visitor in (first, second):
        assert visitor.complaints == []
        visitor.context.close()


@pytest.mark.browser
def test_photo_from_the_camera(browser: Browser, served: Served) -> None:
    flags = [*BROWSER_FLAGS, "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    with_camera = browser.browser_type.launch(executable_path=find_browser(), args=flags)
    visitor = Visit(with_camera, served.url, permissions=["camera"])
    page = visitor.page
    page.locator("#photo [data-testid=source-select] button").nth(1).click()
    page.get_by_text("Click to Access Webcam").click()
    page.wait_for_function("document.querySelector('#photo video').videoWidth > 0")
    page.get_by_label("capture photo").click()
    page.locator("#photo img:visible").wait_for()
    page.click("#run")
    visitor.wait_for_status("px ·")
    assert visitor.complaints == []
    with_camera.close()
