"""Take the README's pictures of the page: starts the real one and uses it as a visitor would.

    python -m docs.make_screenshots

Needs a Chromium and the fonts that its languages need (Debian: chromium, fonts-noto-cjk). Only pictures of `examples/`
are shown, and the embedded starter runs, so that everyone gets the same.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image
from playwright.sync_api import sync_playwright

import app
from gpen_core.options import RuntimeOptions
from page.jobs import Restorers
from page.site import Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[1]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu", "--hide-scrollbars")
JPEG_QUALITY = 88
WAIT_MS = 600
"""For pictures to be drawn and animations to end."""


def main() -> None:
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        raise SystemExit("There is no Chromium here; install the package chromium.")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GPEN_OFFLINE"] = "1"
        for name in ("GRADIO_TEMP_DIR", "GPEN_CACHE", "GPEN_WEIGHTS_DIR", "MODELSCOPE_CACHE"):
            os.environ[name] = folder
        site = Site(Restorers(RuntimeOptions(device="cpu")))
        page = app.build_page(site)
        _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, **app.launch_settings(site))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
            take_restore(browser, url, "page-restore.jpg", locale="en-US", viewport={"width": 1280, "height": 1000})
            phone = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True}
            take_restore(browser, url, "page-phone-zh.jpg", locale="zh-CN", has_touch=True, **phone)
            take_check(browser, url, "page-check.jpg", locale="en-US", viewport={"width": 1280, "height": 1000})
            browser.close()
        page.close(verbose=False)


def take_restore(browser: Browser, url: str, name: str, **context: Any) -> None:
    """The album page, restored."""
    page = visit(browser, url, **context)
    page.set_input_files("#photo input[type=file]", EXAMPLES / "group.jpg")
    page.wait_for_selector("#photo img")
    page.click("#run")
    page.locator("#download:enabled").wait_for()
    save(page, DOCS / name)


def take_check(browser: Browser, url: str, name: str, **context: Any) -> None:
    """Strengths of a faded portrait, side by side at twice the size."""
    page = visit(browser, url, **context)
    page.get_by_role("tab").nth(1).click()
    page.set_input_files("#check_photo input[type=file]", EXAMPLES / "astronaut-gray-noisy.png")
    page.wait_for_selector("#check_photo img")
    page.click("#check_run")
    page.locator("#check_download:enabled").wait_for()
    page.click("[data-zoom=in]")
    save(page, DOCS / name)


def visit(browser: Browser, url: str, **context: Any) -> Page:
    page = browser.new_context(**context).new_page()
    page.goto(url)
    page.wait_for_selector("#run")
    return page


def save(page: Page, path: Path) -> None:
    page.wait_for_timeout(WAIT_MS)
    picture = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
    picture.save(path, quality=JPEG_QUALITY, optimize=True)
    print(f"{path.relative_to(ROOT)}: {picture.width} x {picture.height} px, {path.stat().st_size // 1024} KB")
    page.context.close()


if __name__ == "__main__":
    main()
