"""Many photos, in a browser and over `restore_batch`."""

from __future__ import annotations

import io
import json
import shutil
import time
import urllib.request
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from PIL import Image
from pillow_heif import register_heif_opener

from gpen_core.archive import ArchivedPhoto, NamedFile
from gpen_core.errors import PhotoError
from gpen_core.options import OutputOptions, RestoreOptions
from page.batch_job import BatchJob
from page.batch_tab import finished_html, named_files, table_html
from page.jobs import Jobs
from page.values import Chosen
from tests.page.conftest import ASTRONAUT, MODEL, Served, Visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHOSEN = Chosen(
    model=MODEL, precision="auto", compile=False, options=RestoreOptions(), output=OutputOptions(), notes=()
)


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    """A good one, a damaged one, an HEIC, and another of the first one's name."""
    register_heif_opener()
    broken, heic, other = tmp_path / "broken.jpg", tmp_path / "phone.heic", tmp_path / "other" / ASTRONAUT.name
    broken.write_bytes(b"no picture")
    with Image.open(ASTRONAUT) as image:
        image.save(heic)
        other.parent.mkdir()
        image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(other, quality=95)
    return [ASTRONAUT, broken, heic, other]


def add_photos(visit: Visit, photos: list[Path]) -> None:
    visit.page.get_by_role("tab", name="Many photos").click()
    visit.page.set_input_files("#batch_files input[type=file]", photos)
    visit.page.wait_for_function(
        f"document.querySelectorAll('#batch_table tbody tr[data-state=waiting]').length === {len(photos)}"
    )


def rows_of(visit: Visit) -> dict[str, str]:
    rows = visit.page.locator("#batch_table tbody tr").all()
    return {row.locator("th").inner_text(): row.get_attribute("data-state") or "" for row in rows}


def test_visitor_restores_many_and_downloads_a_zip(visit: Visit, served: Served, photos: list[Path]) -> None:
    page = visit.page
    add_photos(visit, photos)
    page.click("#batch_run")
    page.locator("#batch_status", has_text="3 of 4 photos restored").wait_for()
    twin = ASTRONAUT.stem + "-1.jpg"
    expected = {ASTRONAUT.name: "restored", "broken.jpg": "failed", "phone.heic": "restored", twin: "restored"}
    assert rows_of(visit) == expected
    table = page.locator("#batch_table").inner_text()
    assert "1 face restored" in table and "could not be read as a photo" in table and "/" not in table
    page.locator("#batch_download:enabled").wait_for()
    with page.expect_download() as caught:
        page.click("#batch_download")
    with zipfile.ZipFile(caught.value.path()) as archive:
        names = {ASTRONAUT.name, twin, "phone.jpg", "manifest.jsonl", "failures.txt"}
        assert set(archive.namelist()) == names and archive.testzip() is None
        result = served.restorer.restore(ASTRONAUT.read_bytes())
        with Image.open(io.BytesIO(archive.read(ASTRONAUT.name))) as image:
            difference = np.abs(np.asarray(image, dtype=int) - result.photo.pixels)
        assert difference.mean() < 2  # JPEG
        with Image.open(io.BytesIO(archive.read(twin))) as image:
            assert np.abs(np.asarray(image, dtype=int)[:, ::-1] - result.photo.pixels).mean() < 4
    assert visit.complaints == []
    assert served.own_folders() == []


@pytest.mark.browser
def test_stop_keeps_what_is_done(visit: Visit, served: Served, tmp_path: Path) -> None:
    many = [Path(shutil.copy(ASTRONAUT, tmp_path / f"{number:02d}.jpg")) for number in range(40)]
    add_photos(visit, many)
    visit.page.click("#batch_run")
    visit.page.locator("#batch_table tr[data-state=restored]").nth(1).wait_for()
    visit.page.click("#batch_stop")
    visit.page.locator("#batch_status", has_text="Stopped:").wait_for(timeout=10_000)
    states = rows_of(visit)
    done = {name for name, state in states.items() if state == "restored"}
    assert 2 <= len(done) < 40 and set(states.values()) == {"restored", "skipped"}
    assert not visit.page.locator("#batch_stop").is_visible()
    with visit.page.expect_download() as caught:
        visit.page.click("#batch_download")
    with zipfile.ZipFile(caught.value.path()) as archive:
        assert {name for name in archive.namelist() if name.endswith(".jpg")} == done
    assert visit.complaints == []
    assert served.own_folders() == []


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_serious_barrier_and_no_sideways_scroll(
    browser: Browser, served: Served, photos: list[Path], scheme: str, width: int
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    visitor = Visit(browser, f"{served.url}?__theme={scheme}", viewport={"width": width, "height": 900})
    add_photos(visitor, photos)
    visitor.page.click("#batch_run")
    visitor.page.locator("#batch_download:enabled").wait_for()
    visitor.page.click("#batch_advanced button")
    found = Axe().run(visitor.page).response["violations"]
    serious = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]
    assert serious == []
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width
    visitor.context.close()


@pytest.mark.browser
def test_work_ends_when_the_visitor_leaves(browser: Browser, served: Served, tmp_path: Path) -> None:
    visit = Visit(browser, served.url)
    add_photos(visit, [Path(shutil.copy(ASTRONAUT, tmp_path / f"{number:02d}.jpg")) for number in range(40)])
    visit.page.click("#batch_run")
    visit.page.locator("#batch_table tr[data-state=restored]").first.wait_for()
    visit.context.close()
    deadline = time.monotonic() + 10
    while served.own_folders() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert served.own_folders() == []
    num_calls = served.crops.num_calls
    time.sleep(1)
    assert served.crops.num_calls == num_calls


@pytest.mark.browser
def test_photos_can_be_added_later(visit: Visit, photos: list[Path]) -> None:
    add_photos(visit, photos[:2])
    with visit.page.expect_file_chooser() as chooser:
        visit.page.click("#batch_more")
    chooser.value.set_files(photos[2:])
    visit.page.wait_for_function("document.querySelectorAll('#batch_table tbody tr').length === 4")
    assert list(rows_of(visit)) == [ASTRONAUT.name, "broken.jpg", "phone.heic", ASTRONAUT.stem + "-1.jpg"]


@pytest.mark.browser
def test_without_photos_the_page_asks_for_them(visit: Visit) -> None:
    visit.page.get_by_role("tab", name="Many photos").click()
    visit.page.click("#batch_run")
    visit.page.get_by_text("Add photos first.").first.wait_for()


def test_a_program_gets_a_zip_and_a_report(client: Client, served: Served, photos: list[Path]) -> None:
    files = [handle_file(str(path)) for path in photos]
    archive, report = client.predict(photos=files, model=MODEL, strength=0.5, format="png", api_name="/restore_batch")
    assert report["counts"] == {"restored": 3, "no faces": 0, "failed": 1, "skipped": 0}
    entries = {entry["name"]: entry for entry in report["photos"]}
    assert entries["phone.heic"]["output"] == "phone.png" and entries["phone.heic"]["faces_restored"] == 1
    assert "could not be read" in entries["broken.jpg"]["error"]
    result = served.restorer.restore(ASTRONAUT.read_bytes(), RestoreOptions(strength=0.5))
    with zipfile.ZipFile(archive) as container, container.open(entries[ASTRONAUT.name]["output"]) as file:
        np.testing.assert_array_equal(np.asarray(Image.open(file)), result.photo.pixels)
    assert served.own_folders() == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"photos": []}, "no photos"), ({"scale": 9}, "scale is 9"), ({"format": "bmp"}, "format is 'bmp'")],
)
def test_a_program_is_told_what_is_wrong(client: Client, served: Served, changed: dict[str, Any], words: str) -> None:
    arguments = {"photos": [handle_file(str(ASTRONAUT))], "model": MODEL, **changed}
    with pytest.raises(AppError, match=words):
        client.predict(**arguments, api_name="/restore_batch")
    assert served.own_folders() == []


def call(served: Served, data: dict[str, Any]) -> str:
    """What the endpoint streams to plain HTTP."""
    base = f"{served.url}gradio_api/call"
    content_type = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{base}/v2/restore_batch", json.dumps(data).encode(), content_type)
    with urllib.request.urlopen(request) as answer:
        event = json.load(answer)["event_id"]
    with urllib.request.urlopen(f"{base}/restore_batch/{event}") as stream:
        return str(stream.read().decode())


def test_a_program_cannot_name_the_servers_own_files(served: Served) -> None:
    photos = [{"path": str(ASTRONAUT), "meta": {"_type": "gradio.FileData"}}]
    text = call(served, {"photos": photos, "model": MODEL})
    assert "event: error" in text and "event: complete" not in text
    with pytest.raises(PhotoError, match="not on the server"):
        named_files([{"path": str(ASTRONAUT)}])


def test_plain_http_will_do(served: Served) -> None:
    boundary = "frontier"
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="files"; filename="a.jpg"\r\n\r\n'.encode()
    body = head + ASTRONAUT.read_bytes() + f"\r\n--{boundary}--\r\n".encode()
    content_type = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    upload = urllib.request.Request(f"{served.url}gradio_api/upload", body, content_type)
    with urllib.request.urlopen(upload) as answer:
        (path,) = json.load(answer)
    text = call(served, {"photos": [{"path": path, "meta": {"_type": "gradio.FileData"}}], "model": MODEL})
    assert "event: complete" in text
    archive, report = json.loads(text.rsplit("data: ", 1)[1])
    assert report["counts"]["restored"] == 1
    with urllib.request.urlopen(archive["url"]) as answer:
        assert zipfile.ZipFile(io.BytesIO(answer.read())).testzip() is None


@pytest.mark.browser
def test_others_get_the_device_between_two_photos(served: Served, tmp_path: Path) -> None:
    jobs = Jobs()
    many = [Path(shutil.copy(ASTRONAUT, tmp_path / f"{number}.jpg")) for number in range(12)]
    files = [NamedFile(path, path.name) for path in many]
    job = BatchJob(served.get_restorer, jobs.device, files, CHOSEN)
    steps = jobs.run(job.work)
    while not job.photos:
        next(steps)
    start = time.monotonic()
    with jobs.device.take(lambda step: None):
        waited = len(job.photos)
    assert waited < 12 and time.monotonic() - start < 10
    try:
        while True:
            next(steps)
    except StopIteration as end:
        end.value.cleanup()
    assert [photo.status for photo in job.photos] == ["restored"] * 12


def test_the_table_escapes_names_and_says_where_work_is() -> None:
    photo = ArchivedPhoto(name="<b>.png", output=None, status="failed", error="<script> & co")
    html = table_html(["<b>.png", "next.png", "last.png"], [photo], "en", is_running=True)
    assert "<b>" not in html and "<script>" not in html and "&lt;script&gt; &amp; co" in html
    states = [part.split('"')[0] for part in html.split('<tr data-state="')[1:]]
    assert states == ["failed", "working", "waiting"]


def test_the_status_counts_what_went_wrong() -> None:
    job = BatchJob(None, Jobs().device, [NamedFile(ASTRONAUT, "a")] * 3, CHOSEN)  # type: ignore[arg-type]
    job.photos[:] = [
        ArchivedPhoto(name=name, output=None, status=status)  # type: ignore[arg-type]
        for name, status in (("a", "restored"), ("b", "no faces"), ("c", "failed"))
    ]
    html = finished_html(job, "en")
    assert "1 of 3 photos restored." in html and "1 failed" in html and "No face was found in 1" in html
