"""A running page over the real starter, a browser, and a client; one of each for all tests."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from gradio_client import Client
from PIL import Image

import app
from gpen_core.options import RestoreOptions, RuntimeOptions
from gpen_core.restorer import Restorer
from gpen_core.types import OnProgress, Pixels, Progress
from page.jobs import Restorers
from page.site import Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

    from gpen_core.runtime.crops import RestoredCrops

ROOT = Path(__file__).parents[2]
ASTRONAUT = ROOT / "examples" / "astronaut-small.jpg"
GROUP = ROOT / "examples" / "group.jpg"
MODEL = "starter-256"
DESKTOP = {"width": 1280, "height": 1000}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class CountedCrops:
    """The real engine, and how often it was asked."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.num_calls = 0
        self.may_go = threading.Event()
        self.may_go.set()
        for name in ("size", "template", "model_name", "device_name", "strength_coefficients"):
            setattr(self, name, getattr(inner, name))

    def restore_crops(
        self, crops: Sequence[Pixels], on_progress: OnProgress, options: RestoreOptions | None = None
    ) -> RestoredCrops:
        self.num_calls += 1
        while not self.may_go.wait(0.05):
            on_progress(Progress("restore", 0, len(crops)))
        return self.inner.restore_crops(crops, on_progress, options)


class Served:
    """A running page over the real starter."""

    def __init__(self, temporary: Path) -> None:
        self.crops = CountedCrops(Restorer(MODEL).crop_restorer)
        self.restorer = Restorer(crop_restorer=self.crops)
        self.is_broken = False
        self.temporary = temporary
        self.real = Restorers(RuntimeOptions(device="cpu"))
        self.site = Site(self.get_restorer)
        self.page = app.build_page(self.site)
        _, self.url, _ = self.page.launch(
            prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **app.launch_settings(self.site)
        )

    def get_restorer(
        self, model: str, report: OnProgress, *, precision: str | None = None, compile: bool | None = None
    ) -> Restorer:
        if self.is_broken:
            raise RuntimeError("a fault of the program at /srv/secret")
        return self.restorer if model == MODEL else self.real(model, report, precision=precision, compile=compile)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, the network does not come to an end."""
        self.crops.may_go.clear()
        try:
            yield
        finally:
            self.crops.may_go.set()

    def own_folders(self) -> list[Path]:
        return list(self.temporary.glob("gpen-*"))


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    temporary = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(tmp_path_factory.mktemp("gradio")))
        patch.setattr(tempfile, "tempdir", str(temporary))
        server = Served(temporary)
        yield server
        server.page.close(verbose=False)


@pytest.fixture(scope="session")
def client(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Client:
    return Client(served.url, download_files=tmp_path_factory.mktemp("client"), verbose=False)


def find_browser() -> str:
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        pytest.skip("no Chromium here; install the package chromium")
    return executable


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    executable = find_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable, args=BROWSER_FLAGS)
        yield started
        started.close()


class Visit:
    """A fresh visitor, and what their browser complained about."""

    def __init__(self, browser: Browser | BrowserContext, url: str, **context: Any) -> None:
        self.context = browser
        if hasattr(browser, "new_context"):
            self.context = browser.new_context(**{"viewport": DESKTOP, **context})
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self._complain(message.text if message.type == "error" else ""))
        self.page.on("pageerror", lambda error: self._complain(str(error)))
        self.page.on("request", lambda request: self._complain(_foreign(request.url)))
        self.page.goto(url)
        self.page.wait_for_selector("#run")

    def _complain(self, text: str) -> None:
        if text:
            self.complaints.append(text)

    def upload(self, path: Path) -> None:
        self.page.set_input_files("#photo input[type=file]", path)
        self.page.wait_for_selector("#photo img", state="attached")

    def wait_for_status(self, text: str) -> str:
        self.page.locator("#status", has_text=text).wait_for()
        return self.page.locator("#status").inner_text()

    def settle(self) -> None:
        """Until the files are written too."""
        self.page.locator("#status .final").wait_for()
        # Gradio brings the parts of an answer to the page one after the other; nobody is as fast as this test.
        self.page.wait_for_timeout(400)
        self.page.locator("#download:enabled").wait_for()

    def open_tab(self, name: str) -> None:
        self.page.get_by_role("tab", name=name, exact=True).click()

    def choose(self, name: str, choice: str) -> None:
        """In a drop-down list of Advanced, which is opened."""
        if not self.page.locator(f"#{name}").is_visible():
            self.page.click("#advanced button")
        self.page.click(f"#{name} input")
        self.page.get_by_role("option", name=choice, exact=True).click()

    def sizes_of(self, selector: str) -> list[list[int]]:
        """Of pictures, in their own pixels, once they are loaded."""
        images = f"[...document.querySelectorAll('{selector}')]"
        self.page.wait_for_function(f"{images}.length && {images}.every(image => image.naturalWidth)")
        sizes: list[list[int]] = self.page.evaluate(f"{images}.map(image => [image.naturalWidth, image.naturalHeight])")
        return sizes

    def download(self) -> tuple[str, Pixels]:
        self.settle()
        with self.page.expect_download() as caught:
            self.page.click("#download")
        assert Path(caught.value.suggested_filename).suffix == ".png"
        return caught.value.suggested_filename, pixels_of(caught.value.path())


@pytest.fixture(scope="session")
def desktop(browser: Browser) -> BrowserContext:
    """One for all, which keeps the page's scripts: loading them anew takes a second."""
    return browser.new_context(viewport=DESKTOP)


@pytest.fixture
def visit(desktop: BrowserContext, served: Served) -> Iterator[Visit]:
    visitor = Visit(desktop, served.url)
    yield visitor
    visitor.page.evaluate("localStorage.clear()")
    visitor.page.close()


@pytest.fixture
def phone(browser: Browser, served: Served) -> Iterator[Visit]:
    visitor = Visit(browser, served.url, viewport={"width": 390, "height": 844}, locale="zh-CN")
    yield visitor
    visitor.context.close()


def _foreign(url: str) -> str:
    parts = urlsplit(url)
    return url if parts.scheme in ("http", "https") and parts.hostname != "127.0.0.1" else ""


def pixels_of(path: str | Path) -> Pixels:
    with Image.open(path) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB"))


@pytest.fixture
def faceless(tmp_path: Path) -> Path:
    path = tmp_path / "meadow.png"
    Image.linear_gradient("L").convert("RGB").save(path)
    return path
