"""The examples, the pictures of the page, and how soon there is something to see."""

from __future__ import annotations

import time

import pytest
from PIL import Image

from page.examples import EXAMPLES, FOLDER
from tests.page.conftest import ROOT, Served, Visit

FIRST_PAINT_S, FIRST_RESULT_S = 2, 15


def test_every_example_is_there_and_its_source_is_stated() -> None:
    sources = (FOLDER / "SOURCES.md").read_text(encoding="utf-8")
    for name in EXAMPLES:
        assert (FOLDER / name).is_file() and f"`{name}`" in sources


def test_an_example_is_a_click_away_and_restored_soon(visit: Visit, served: Served) -> None:
    page = visit.page
    page.get_by_role("button", name="Faded portrait").click()
    page.wait_for_selector("#photo img")
    start = time.monotonic()
    page.click("#run")
    visit.wait_for_status("1 of 1 face restored")
    assert time.monotonic() - start < FIRST_RESULT_S
    assert visit.complaints == []


@pytest.mark.browser
def test_the_check_has_them_too(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("tab", name="Quality check").click()
    page.locator("#check_examples").get_by_role("button", name="Grey and noisy").click()
    page.wait_for_selector("#check_photo img")
    assert visit.complaints == []


@pytest.mark.slow  # a measurement, which other work on the machine spoils
def test_first_paint_comes_soon(visit: Visit, served: Served) -> None:
    page = visit.context.new_page()
    page.goto(served.url)
    page.wait_for_selector("#run")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert paint < 1000 * FIRST_PAINT_S


@pytest.mark.parametrize("name", ["page-restore.jpg", "page-phone-zh.jpg", "page-check.jpg"])
def test_pictures_of_the_page_are_in_the_readme(name: str) -> None:
    path = ROOT / "docs" / name
    with Image.open(path) as image:
        image.verify()
    assert path.stat().st_size < 400_000
    assert f"docs/{name}" in (ROOT / "README.md").read_text(encoding="utf-8")
