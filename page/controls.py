"""The page's controls, made from the options' defaults, bounds, choices and help texts."""

from __future__ import annotations

from typing import Any

import gradio as gr

from gpen_core.models.registry import SPECS, STARTER
from gpen_core.models.weights import best_present, can_be_fetched, is_present
from gpen_core.options import RestoreOptions, allowed, default
from page.texts import ABOUT, MAX_FILE_SIZE, MODE_LABELS, TILE_LABELS


def photo_input() -> gr.Image:
    return gr.Image(
        type="filepath",
        image_mode=None,
        sources=["upload", "clipboard"],
        buttons=["fullscreen"],
        height=300,
        label="Photo",
        placeholder=f"Drop a photo here, or click to choose one\n(up to {MAX_FILE_SIZE.upper()})",
        elem_id="photo",
    )


def model_choice() -> gr.Radio:
    specs = [spec for spec in SPECS.values() if spec.role == "generator"]
    present = [spec.name for spec in specs if is_present(spec)]
    fetched = [spec.name for spec in specs if spec.name not in present and can_be_fetched(spec)]
    missing = [spec.name for spec in specs if spec.name not in (*present, *fetched)]
    best = best_present()
    info = [f"{best.name} to begin with, because no official weights are on this machine."] if best is STARTER else []
    if fetched:
        info.append(f"Fetched once, when first used: {', '.join(fetched)}.")
    if missing:
        info.append(f"Not on this machine: {', '.join(missing)}. See “{ABOUT}” below.")
    return gr.Radio([*present, *fetched], value=best.name, label="Model", info=" ".join(info) or None, elem_id="model")


def slider(name: str) -> gr.Slider:
    limits = allowed(RestoreOptions, name)
    assert limits.minimum is not None and limits.maximum is not None
    return gr.Slider(limits.minimum, limits.maximum, step=limits.step, **common(name))


def automatic_choice() -> gr.Checkbox:
    return gr.Checkbox(
        default(RestoreOptions, "strength") == "auto",
        label="Automatic strength",
        info="Chooses for each face from its noise and sharpness, in the place of the slider.",
        elem_id="automatic",
    )


def mode_choice() -> gr.Radio:
    choices = allowed(RestoreOptions, "mode").choices or ()
    return gr.Radio([(MODE_LABELS[mode], mode) for mode in choices], **common("mode"))


def background_choice() -> gr.Dropdown:
    """The upscalers whose weights are here, and what needs none."""
    choices = allowed(RestoreOptions, "background").choices or ()
    present = [name for name in choices if name not in SPECS or is_present(SPECS[name])]
    return gr.Dropdown(present, **common("background"))


def tile_slider(name: str) -> gr.Slider:
    limits = allowed(RestoreOptions, name)
    assert limits.minimum is not None and limits.maximum is not None
    words: dict[str, Any] = {"label": TILE_LABELS[name], "info": "0: automatic.", "value": 0, "elem_id": name}
    return gr.Slider(limits.minimum, limits.maximum, step=limits.step, **words)


def common(name: str) -> dict[str, Any]:
    """What every control says of its option."""
    help_text = allowed(RestoreOptions, name).help
    return {
        "value": default(RestoreOptions, name),
        "label": name.capitalize(),
        "info": help_text[0].upper() + help_text[1:] + ".",
        "elem_id": name,
    }
