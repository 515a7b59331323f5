"""What is to be filled in a photo, for models that paint parts of faces anew: marked with a brush, or by a picture."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import cv2
import gradio as gr
import numpy as np
import numpy.typing as npt
from PIL import Image

from gpen_core.models.registry import SPECS
from gpen_core.models.weights import can_be_fetched, is_present
from gpen_core.photo.io import read_photo
from gpen_core.tasks import TASKS
from gpen_core.types import Photo
from page.site import Site, Upload, read_upload

CANVAS_PX = 1024
"""Longer side of what is painted on, whatever the photo's size."""
SHAPE_TOLERANCE = 0.01
"""How much the sides of a mask may differ in shape from the photo's: both were rounded to whole pixels."""
BRUSH = gr.Brush(default_size=10, colors=["#e11d48"], default_color="#e11d48", color_mode="fixed")
HELP = "Paint over what is to be filled, a scratch across a face say; or choose a picture of the photo's size below."


class Marking(NamedTuple):
    """The components that say what is to be filled."""

    area: Any
    editor: Any
    picture: Any
    mask: Any
    """The state that holds a mask as PNG, or None."""


def models_with_mask() -> list[str]:
    """Models that can be chosen here and need a mask."""
    specs = [spec for spec in SPECS.values() if spec.role == "generator" and TASKS[spec.task].needs_mask]
    return [spec.name for spec in specs if is_present(spec) or can_be_fetched(spec)]


def build_marking(site: Site) -> Marking | None:
    """Add the components to the current column; None where no model here has a use for them."""
    if not models_with_mask():
        return None
    with gr.Column(visible=False, elem_id="marking") as area:
        editor = gr.ImageEditor(
            type="numpy",
            sources=[],
            transforms=[],
            layers=False,
            brush=BRUSH,
            buttons=[],
            format="png",
            canvas_size=(CANVAS_PX, CANVAS_PX),
            height=420,
            label=site.label("What is to be filled"),
            elem_id="brush",
        )
        gr.Markdown(site.label(HELP))
        picture = gr.Image(
            type="filepath",
            image_mode=None,
            sources=["upload"],
            buttons=[],
            height=120,
            label=site.label("Or a picture, white where it is to be filled"),
            elem_id="mask_picture",
        )
    return Marking(area, editor, picture, gr.State(None))


def connect_marking(marking: Marking, photo: gr.Image, model: gr.Radio) -> None:
    """Show the photo to paint on where the model needs it, and keep what is marked."""
    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "trigger_mode": "always_last"}
    where = [marking.area, marking.editor]
    gr.on([photo.change, model.change], offer, [photo, model], where, preprocess=False, **quiet)
    gr.on([marking.editor.change, marking.editor.input], mask_of_strokes, marking.editor, marking.mask, **quiet)
    marking.picture.change(mask_of_picture, marking.picture, marking.mask, preprocess=False, **quiet)


def offer(photo: Upload, model: str) -> tuple[Any, Any]:
    """The photo on the canvas, for models that need a mask."""
    is_needed = model in models_with_mask()
    if not is_needed or not photo:
        return gr.Column(visible=is_needed), None
    shown = read_photo(read_upload(photo)[1], accept_damaged=True)
    scale = min(1.0, CANVAS_PX / max(shown.width, shown.height))
    size = (max(1, round(shown.width * scale)), max(1, round(shown.height * scale)))
    canvas = np.asarray(cv2.resize(shown.pixels, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
    return gr.Column(visible=True), {"background": canvas, "layers": [], "composite": canvas}


def mask_of_strokes(value: dict[str, Any] | None) -> bytes | None:
    """A mask from an editor's layers, as PNG; None where nothing is painted."""
    layers: Sequence[npt.NDArray[np.uint8]] = (value or {}).get("layers") or []
    painted = [layer[..., 3] > 0 for layer in layers]
    if not painted or not np.any(painted):
        return None
    file = io.BytesIO()
    Image.fromarray(np.any(painted, axis=0).astype(np.uint8) * 255).save(file, "PNG")
    return file.getvalue()


def mask_of_picture(picture: Upload) -> bytes | None:
    return read_upload(picture)[1] if picture else None


def fit_mask(mask: bytes, photo: Photo) -> Photo:
    """A mask at the photo's size, if it has its shape; else as it is, and the core says what is wrong with it."""
    found = read_photo(mask)
    is_alike = (
        abs(found.width * photo.height - found.height * photo.width) <= SHAPE_TOLERANCE * found.width * photo.height
    )
    if not is_alike or found.width >= photo.width:
        return found
    size = (photo.width, photo.height)
    pixels = np.asarray(cv2.resize(found.pixels, size, interpolation=cv2.INTER_LINEAR), dtype=np.uint8)
    return Photo(pixels=pixels)
