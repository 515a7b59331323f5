"""Parts of a face marked with a brush in a real browser, by a picture, and by a program; filled by a network."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from PIL import Image

import app
from gpen_core.models.gpen import Generator
from gpen_core.models.registry import SPECS
from gpen_core.options import TASK_MODELS, RuntimeOptions
from gpen_core.photo.io import read_photo
from gpen_core.restorer import Restorer
from gpen_core.types import Photo
from page import texts
from page.brush import fit_mask, mask_of_strokes
from page.jobs import Restorers
from page.site import Site
from tests.page.conftest import ASTRONAUT, Visit, pixels_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

INPAINTING = TASK_MODELS["inpaint"]
EYES = (142, 82, 168, 100)
"""Within the face of `ASTRONAUT`, in its pixels."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds the inpainting model's file: a thin network with random weights."""
    folder = tmp_path_factory.mktemp("cache")
    torch.manual_seed(1)
    network = Generator(1024, style_dim=16, num_mlp_layers=2, channel_multiplier=1, narrow=1 / 16)
    torch.save(network.state_dict(), folder / SPECS[INPAINTING].file_name)
    return folder


@pytest.fixture
def url(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("GPEN_CACHE", str(folder))
    runtime = RuntimeOptions(device="cpu")
    site = Site(Restorers(runtime), runtime)
    page = app.build_page(site)
    _, address, _ = page.launch(
        prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", **app.launch_settings(site)
    )
    yield address
    page.close()


def changed_box(after: np.ndarray, before: np.ndarray) -> tuple[int, int, int, int]:
    """x0, y0, x1, y1 of what differs."""
    rows, columns = np.nonzero((after != before).any(axis=2))
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


@pytest.mark.browser
def test_a_visitor_paints_over_a_part_of_a_face(url: str, browser: Browser, tmp_path: Path) -> None:
    visit = Visit(browser, url)
    page = visit.page
    photo = tmp_path / "photo.png"
    Image.open(ASTRONAUT).save(photo)
    visit.upload(photo)
    assert not page.locator("#marking").is_visible()
    page.get_by_label(f"{INPAINTING} · fills what you mark in a face").check()
    canvas = page.locator("#brush canvas").first
    canvas.wait_for()
    page.click("#run")
    page.locator("#status", has_text=texts.NO_MASK).wait_for()

    page.wait_for_timeout(1000)
    canvas.scroll_into_view_if_needed()
    page.get_by_label("Brush", exact=True).first.click()
    x, y, width, height = canvas.bounding_box().values()
    # The photo is shown whole in the middle of the canvas, 30 px from its upper and lower rim.
    size = Image.open(photo).width
    scale = (height - 60) / size
    left, top = x + (width - size * scale) / 2, y + 30
    page.mouse.move(left + EYES[0] * scale, top + EYES[1] * scale)
    page.mouse.down()
    page.mouse.move(left + EYES[2] * scale, top + EYES[3] * scale, steps=8)
    page.mouse.up()
    page.wait_for_timeout(1500)
    page.click("#run")
    visit.wait_for_status("1 of 1 face filled")
    name, pixels = visit.download()
    assert name == f"photo_{INPAINTING}.png"
    x0, y0, x1, y1 = changed_box(pixels, read_photo(photo).pixels)
    # The stroke, its width and its feather.
    assert all(EYES[i] - 20 < low < EYES[i] for i, low in enumerate((x0, y0)))
    assert all(EYES[2 + i] < high < EYES[2 + i] + 20 for i, high in enumerate((x1, y1)))
    assert not page.locator("#stale").is_visible()
    assert visit.complaints == []
    visit.context.close()


def test_a_program_sends_a_mask(url: str, tmp_path: Path) -> None:
    photo, mask = read_photo(ASTRONAUT).pixels, tmp_path / "mask.png"
    marked = np.zeros(photo.shape[:2], np.uint8)
    marked[EYES[1] : EYES[3], EYES[0] : EYES[2]] = 255
    Image.fromarray(marked).save(mask)
    client = Client(url, verbose=False)
    call = {"photo": handle_file(ASTRONAUT), "model": INPAINTING, "format": "png", "api_name": "/restore"}
    file, report = client.predict(**call, inpaint_mask=handle_file(mask))
    expected = Restorer(INPAINTING).restore(ASTRONAUT, inpaint_mask=mask)
    np.testing.assert_array_equal(pixels_of(file), expected.photo.pixels)
    assert report["task"] == "inpaint"
    x0, y0, x1, y1 = changed_box(pixels_of(file), photo)
    assert x0 >= EYES[0] - 4 and y0 >= EYES[1] - 4 and x1 <= EYES[2] + 4 and y1 <= EYES[3] + 4
    with pytest.raises(AppError, match="Mark what is to be filled"):
        client.predict(**call)


def test_strokes_become_a_mask_of_the_photos_size() -> None:
    layer = np.zeros((50, 100, 4), np.uint8)
    assert mask_of_strokes(None) is None
    assert mask_of_strokes({"layers": [layer]}) is None
    layer[10:20, 30:60] = (225, 29, 72, 255)
    content = mask_of_strokes({"layers": [layer]})
    assert content is not None
    assert np.asarray(Image.open(io.BytesIO(content)))[15, 45] == 255
    large = fit_mask(content, Photo(pixels=np.zeros((201, 400, 3), np.uint8)))
    assert (large.width, large.height) == (400, 201)
    assert abs((large.pixels[..., 0] >= 128).sum() - 16 * 300) < 300
    other = fit_mask(content, Photo(pixels=np.zeros((400, 400, 3), np.uint8)))
    assert (other.width, other.height) == (100, 50)


def test_without_the_model_there_is_nothing_to_paint_on() -> None:
    def nobody(model, report, **asked):
        pytest.fail("building the page asked for a restorer")

    parts = app.build_page(Site(nobody)).get_config_file()["components"]
    assert "brush" not in {part["props"].get("elem_id") for part in parts}
