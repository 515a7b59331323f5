"""The page as its users meet it: in a real browser, and over its endpoint."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from PIL import Image

import app
from gpen_core.options import RestoreOptions, RuntimeOptions, allowed, default
from gpen_core.photo.io import read_photo
from gpen_core.restorer import Restorer
from gpen_core.types import OnProgress, Pixels, Progress

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from gpen_core.runtime.crops import RestoredCrops

ROOT = Path(__file__).parents[1]
ASTRONAUT = ROOT / "examples" / "astronaut-small.jpg"
MODEL = "starter-256"
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
        for name in ("size", "template", "model_name", "device_name", "strength_coefficients"):
            setattr(self, name, getattr(inner, name))

    def restore_crops(
        self, crops: Sequence[Pixels], on_progress: OnProgress, options: RestoreOptions | None = None
    ) -> RestoredCrops:
        self.num_calls += 1
        return self.inner.restore_crops(crops, on_progress, options)


class Served:
    """A running page over the real starter."""

    def __init__(self, temporary: Path) -> None:
        self.crops = CountedCrops(Restorer(MODEL).crop_restorer)
        self.restorer = Restorer(crop_restorer=self.crops)
        self.is_broken = False
        self.temporary = temporary
        self.page = app.build_page(self.get_restorer)
        _, self.url, _ = self.page.launch(
            prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **app.launch_settings()
        )

    def get_restorer(self, model: str, report: OnProgress) -> Restorer:
        if self.is_broken:
            raise RuntimeError("a fault of the program at /srv/secret")
        return self.restorer if model == MODEL else app.Restorers(RuntimeOptions(device="cpu"))(model, report)

    def own_folders(self) -> list[Path]:
        return list(self.temporary.glob("gpen-*"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    temporary = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(tmp_path_factory.mktemp("gradio")))
        patch.setattr(tempfile, "tempdir", str(temporary))
        server = Served(temporary)
        yield server
        server.page.close(verbose=False)


@pytest.fixture(scope="module")
def client(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Client:
    return Client(served.url, download_files=tmp_path_factory.mktemp("client"), verbose=False)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        pytest.skip("no Chromium here; install the package chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable, args=BROWSER_FLAGS)
        yield started
        started.close()


class Visit:
    """A fresh visitor, and what their browser complained about."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 1000})
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

    def download(self) -> tuple[str, Pixels]:
        self.page.locator("#download:enabled").wait_for()
        with self.page.expect_download() as caught:
            self.page.click("#download")
        assert Path(caught.value.suggested_filename).suffix == ".png"
        return caught.value.suggested_filename, _pixels(caught.value.path())


@pytest.fixture
def visit(browser: Browser, served: Served) -> Iterator[Visit]:
    visitor = Visit(browser, served.url)
    yield visitor
    visitor.context.close()


def _foreign(url: str) -> str:
    parts = urlsplit(url)
    return url if parts.scheme in ("http", "https") and parts.hostname != "127.0.0.1" else ""


def _pixels(path: str | Path) -> Pixels:
    with Image.open(path) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB"))


@pytest.fixture
def faceless(tmp_path: Path) -> Path:
    path = tmp_path / "meadow.png"
    Image.linear_gradient("L").convert("RGB").save(path)
    return path


def test_visitor_restores_compares_and_downloads(visit: Visit, served: Served) -> None:
    page = visit.page
    visit.upload(ASTRONAUT)
    page.click("#run")
    status = visit.wait_for_status("1 of 1 face restored")
    assert ASTRONAUT.name in status and MODEL in status and "cpu" in status and "strength 1" in status

    page.locator("#result img").nth(1).wait_for()
    page.wait_for_function("[...document.querySelectorAll('#result img')].every(image => image.naturalWidth)")
    before, after = page.evaluate(
        "[...document.querySelectorAll('#result img')].map(image => [image.naturalWidth, image.naturalHeight])"
    )
    assert before == after == list(Image.open(ASTRONAUT).size)
    name, pixels = visit.download()
    assert name == f"astronaut-small_{MODEL}.png"
    np.testing.assert_array_equal(pixels, served.restorer.restore(ASTRONAUT).photo.pixels)

    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert visit.complaints == []


def test_strength_needs_no_second_run_of_the_network(visit: Visit, served: Served) -> None:
    visit.upload(ASTRONAUT)
    visit.page.click("#run")
    visit.wait_for_status("strength 1")
    num_calls = served.crops.num_calls
    visit.page.locator("#strength [data-testid=range-input]").press("Home")
    visit.wait_for_status("strength 0")
    np.testing.assert_array_equal(visit.download()[1], read_photo(ASTRONAUT).pixels)
    visit.page.locator("#automatic input").check()
    visit.wait_for_status("strength auto")
    assert served.crops.num_calls == num_calls

    visit.page.click('#photo [aria-label="Remove Image"]')
    visit.wait_for_status(app.START)
    assert visit.page.locator("#download").is_disabled()
    assert visit.page.locator("#result img").count() == 0
    assert visit.complaints == []


def test_page_says_what_went_wrong(visit: Visit, served: Served, faceless: Path, tmp_path: Path) -> None:
    page = visit.page
    page.click("#run")
    page.locator("#photo", has_text=app.NO_PHOTO).wait_for()

    visit.upload(faceless)
    page.click("#run")
    assert "no face found" in visit.wait_for_status("No face was found")
    np.testing.assert_array_equal(visit.download()[1], _pixels(faceless))

    page.click('#photo [aria-label="Remove Image"]')
    text = tmp_path / "letter.jpg"
    text.write_text("Dear <b>all</b>")
    visit.upload(text)
    page.click("#run")
    sentence = "The uploaded file could not be read as a photo"
    visit.wait_for_status(sentence)
    page.locator("[data-testid=toast-body]", has_text=sentence).wait_for()
    assert page.locator("#download").is_disabled()

    served.is_broken = True
    try:
        page.click("#run")
        visit.wait_for_status(app.CRASHED)
        assert "/srv/secret" not in page.content()
    finally:
        served.is_broken = False
    assert served.own_folders() == []


def test_endpoint_gives_file_and_report(client: Client, served: Served) -> None:
    file, report = client.predict(photo=handle_file(ASTRONAUT), strength=0.5, scale=2, api_name="/restore")
    expected = served.restorer.restore(ASTRONAUT, RestoreOptions(strength=0.5, scale=2))
    np.testing.assert_array_equal(_pixels(file), expected.photo.pixels)
    assert (report["faces_restored"], report["model"], report["strength"]) == (1, MODEL, 0.5)
    assert report["size"] == [640, 640]
    assert served.own_folders() == []


def test_endpoint_chooses_the_strength_of_each_face(client: Client, served: Served) -> None:
    file, report = client.predict(photo=handle_file(ASTRONAUT), automatic_strength=True, api_name="/restore")
    expected = served.restorer.restore(ASTRONAUT, RestoreOptions(strength="auto"))
    np.testing.assert_array_equal(_pixels(file), expected.photo.pixels)
    assert report["strength"] == "auto"
    assert 0 < report["faces"][0]["strength"] <= 1


def test_endpoint_restores_whole_pictures(client: Client, served: Served, tmp_path: Path) -> None:
    small = tmp_path / "small.png"
    Image.open(ASTRONAUT).crop((150, 50, 310, 210)).save(small)
    values = {"mode": "whole", "tile_px": 128, "overlap_px": 0, "scale": 1.5}
    file, report = client.predict(photo=handle_file(small), **values, api_name="/restore")
    expected = served.restorer.restore(small, RestoreOptions(mode="whole", tile_px=128, scale=1.5))
    np.testing.assert_array_equal(_pixels(file), expected.photo.pixels)
    assert report["size"] == [240, 240]
    assert report["whole_tile"] == {"tile_px": 128, "overlap_px": 32, "num_tiles": 9}


def test_endpoint_is_the_only_public_one(client: Client) -> None:
    endpoints = client.view_api(return_format="dict", print_info=False)
    assert endpoints["unnamed_endpoints"] == {}
    assert list(endpoints["named_endpoints"]) == ["/restore"]
    parameters = endpoints["named_endpoints"]["/restore"]["parameters"]
    assert [parameter["parameter_name"] for parameter in parameters] == [
        "photo",
        "model",
        "strength",
        "automatic_strength",
        "scale",
        "mode",
        "background",
        "tile_px",
        "overlap_px",
    ]


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "I;16", "CMYK"])
def test_core_receives_the_uploaded_bytes(client: Client, tmp_path: Path, mode: str) -> None:
    """Gradio's own reading would re-encode, flatten or clip all but the first of these."""
    ramp = np.linspace(0, 65535, 64 * 48).reshape(48, 64)
    if mode == "I;16":
        image = Image.fromarray(ramp.astype(np.uint16))
    else:
        bands = [np.roll(ramp // 257, shift, axis=1).astype(np.uint8) for shift in range(len(mode))]
        image = Image.merge(mode, [Image.fromarray(band) for band in bands])
    path = tmp_path / f"ramp.{'tif' if mode == 'CMYK' else 'png'}"
    image.save(path)
    photo = read_photo(path)
    file, report = client.predict(photo=handle_file(path), api_name="/restore")
    assert any("No face was found" in note for note in report["notes"])
    # Not with Pillow, which cuts the lower 8 of 16 bits off where the reader rounds.
    np.testing.assert_array_equal(read_photo(file).pixels, photo.pixels)
    if photo.alpha is not None:
        np.testing.assert_array_equal(np.asarray(Image.open(file).getchannel("A")), photo.alpha)
    assert (photo.alpha is not None) == (mode == "RGBA")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("letter.jpg", b"Dear all", "not a picture in a known format"),
        ("phone.heic", b"\0\0\0\x18ftypheic" + bytes(64), "a damaged HEIC picture, so export it again"),
        ("phone.jpg", b"\0\0\0\x18ftypheic" + bytes(64), "a damaged HEIC picture, so export it again"),
        ("half.jpg", ASTRONAUT.read_bytes()[:4000], "% of the picture is missing"),
        ("empty.png", b"", "the file is empty"),
    ],
    ids=["text", "heic", "heic named jpg", "half a jpeg", "empty"],
)
def test_unreadable_file_gives_one_sentence(
    client: Client, served: Served, tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AppError, match=sentence) as caught:
        client.predict(photo=handle_file(tmp_path / name), api_name="/restore")
    assert "Traceback" not in str(caught.value) and "/" not in str(caught.value)
    assert served.own_folders() == []


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"photo": None}, "Add a photo first"),
        ({"strength": 1.5}, "choose a number from 0 to 1"),
        ({"scale": 5}, "choose a number from 1 to 4"),
        ({"model": "gpen-bfr-2048"}, "put GPEN-BFR-2048.pth"),
        ({"model": "gpen"}, "the nearest names are|choose one of"),
    ],
)
def test_wrong_value_gives_one_sentence(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, values: dict[str, Any], sentence: str
) -> None:
    monkeypatch.setenv("GPEN_WEIGHTS_DIR", str(tmp_path))
    with pytest.raises(AppError, match=sentence):
        client.predict(**{"photo": handle_file(ASTRONAUT), **values}, api_name="/restore")


def test_controls_come_from_the_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPEN_CACHE", str(tmp_path))
    (tmp_path / "GPEN-BFR-1024.pth").write_text("read when it is used")
    (tmp_path / "GPEN-BFR-512.pth").write_text("not 284 MB")
    page = app.build_page(lambda model, report: pytest.fail("building the page asked for a restorer"))
    config = page.get_config_file()
    controls = {part["props"].get("elem_id"): part["props"] for part in config["components"]}
    strength, scale, model = controls["strength"], controls["scale"], controls["model"]
    limits = allowed(RestoreOptions, "strength")
    assert (strength["minimum"], strength["maximum"], strength["step"]) == (limits.minimum, limits.maximum, limits.step)
    assert strength["value"] == default(RestoreOptions, "strength")
    assert limits.help.lower() in strength["info"].lower()
    limits = allowed(RestoreOptions, "scale")
    assert (scale["minimum"], scale["maximum"], scale["step"]) == (limits.minimum, limits.maximum, limits.step)
    assert tuple(value for _, value in controls["mode"]["choices"]) == allowed(RestoreOptions, "mode").choices
    assert [value for _, value in controls["background"]["choices"]] == ["auto", "off"]
    for name in ("tile_px", "overlap_px"):
        assert controls[name]["maximum"] == allowed(RestoreOptions, name).maximum
    assert scale["value"] == default(RestoreOptions, "scale")
    assert [value for _, value in model["choices"]] == [MODEL, "gpen-bfr-1024"]
    assert model["value"] == "gpen-bfr-1024"
    assert "gpen-bfr-512" in model["info"]
    about = next(text for text in map(_text, config["components"]) if "**Models.**" in text)
    assert str(tmp_path) in about and "GPEN-BFR-512.pth" in about and "CC0" in about and "non-commercial" in about
    assert "no licence file" in controls["licence"]["value"]
    runs = [function for function in page.fns.values() if function.concurrency_id == "restore"]
    assert len(runs) == 2 and all(function.concurrency_limit == 1 for function in runs)


def _text(component: dict[str, Any]) -> str:
    value = component["props"].get("value")
    return value if isinstance(value, str) else ""


def test_texts_are_escaped() -> None:
    assert app.status_html("<b>", ["<script>"]) == "<p>&lt;b&gt;</p><ul><li>&lt;script&gt;</li></ul>"


def test_only_uploads_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(uploads))
    (uploads / "photo.jpg").write_bytes(b"uploaded")
    (tmp_path / "secret.jpg").write_bytes(b"secret")
    assert app.read_upload({"path": str(uploads / "photo.jpg")}) == (uploads / "photo.jpg", b"uploaded")
    for path in (uploads / "gone.jpg", uploads, uploads / ".." / "secret.jpg", tmp_path / "secret.jpg", "photo.jpg"):
        with pytest.raises(app.PhotoError, match="not on the server, or no longer; add it again"):
            app.read_upload({"path": str(path)})


def test_endpoint_reads_no_file_of_the_server(served: Served) -> None:
    """Gradio passes on any path that comes without its mark of an uploaded file."""
    answer = _post(served.url, {"path": str(ASTRONAUT)})
    assert "not on the server, or no longer" in answer
    assert ".png" not in answer


def _post(url: str, photo: Any) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    call = f"{url}gradio_api/call/restore"
    body = json.dumps({"data": [photo, MODEL, 1, False, 1, "faces", "auto", 0, 0]}).encode()
    with opener.open(urllib.request.Request(call, body, {"Content-Type": "application/json"})) as answer:
        event = json.load(answer)["event_id"]
    with opener.open(f"{call}/{event}") as answer:
        return str(answer.read().decode())


IMPORT_WITHOUT_SOCKETS = """
import asyncio, socket, sys, threading

def refuse(*args, **kwargs):
    raise AssertionError(f"the import used the network: {args}")

socket.socket.connect = socket.socket.connect_ex = socket.socket.bind = refuse
socket.getaddrinfo = socket.create_connection = refuse
import app

assert "torch" not in sys.modules, "the import loaded torch"
assert threading.active_count() == 1, threading.enumerate()
"""


def test_import_launches_nothing(tmp_path: Path) -> None:
    environment = os.environ | {"GRADIO_TEMP_DIR": str(tmp_path)}
    before = set(ROOT.iterdir())
    answer = subprocess.run(
        [sys.executable, "-c", IMPORT_WITHOUT_SOCKETS], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert (answer.returncode, answer.stdout) == (0, ""), answer.stderr
    assert {path.name for path in set(ROOT.iterdir()) - before} <= {"__pycache__"}
    assert list(tmp_path.iterdir()) == []


def test_command_serves_the_page_and_leaves_no_photo_behind(tmp_path: Path) -> None:
    """Behind a proxy that does not exist, as many machines have one, and stopped as a service is stopped."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_PROXY", "no_proxy")}
    environment |= {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9", "TMPDIR": str(tmp_path)}
    environment["PYTHONUNBUFFERED"] = "1"
    environment.pop("GRADIO_TEMP_DIR", None)
    command = [sys.executable, "app.py", "--port", str(port), "--device", "cpu"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as page:
        assert page.stdout is not None
        try:
            # Gradio's last line comes after its check of its own server, which is what a proxy breaks.
            printed = next((line for line in page.stdout if "public link" in line), "the page ended at its start")
            assert "public link" in printed
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                f"http://127.0.0.1:{port}/"
            ) as answer:
                assert app.TITLE in answer.read().decode()
        finally:
            page.send_signal(signal.SIGTERM)
            page.communicate(timeout=60)
    assert page.returncode == 0
    assert list(tmp_path.glob("gpen-*")) == []


def test_command_names_a_wrong_device() -> None:
    answer = subprocess.run([sys.executable, "app.py", "--device", "tpu"], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 2
    assert "device is 'tpu'; choose auto, cpu, cuda" in answer.stderr


def test_compiling_is_shown_in_words():
    shown = []
    report = app.progress_for(lambda share, desc: shown.append((round(share, 2), desc)))
    report(Progress("compile", 0, 1, "compiling for 512 px, first time only"))
    report(Progress("restore", 1, 2))
    assert shown == [(0.3, "Compiling for 512 px, first time only"), (0.6, "Restoring faces (1 of 2)")]


def test_how_it_runs_is_told_at_the_start():
    loaded = app.Restorers(RuntimeOptions(device="cpu", batch_size=2, unload_after_s=600))(MODEL, print)
    assert loaded.model_name == MODEL
