"""The page's controls, made from the options' defaults, bounds, choices and help texts."""

from __future__ import annotations

from typing import Any

import gradio as gr

from gpen_core.models.registry import SPECS, STARTER
from gpen_core.models.weights import best_present, can_be_fetched, is_present
from gpen_core.options import RestoreOptions, allowed, default
from page.languages import say, translate
from page.site import Site
from page.texts import ABOUT, MAX_FILE_SIZE

LABELS = {
    "strength": "Strength",
    "scale": "Scale",
    "mode": "Mode",
    "background": "Background",
    "tile_px": "Tile size (px)",
    "overlap_px": "Tile overlap (px)",
}
CHOICES = {"faces": "Faces", "whole": "Whole picture (for close-ups)", "both": "Whole picture, and faces over it"}
PLACEHOLDER = "Drop a photo here, or click to choose one\n(up to {size})"


def photo_input(site: Site) -> gr.Image:
    return gr.Image(
        type="filepath",
        image_mode=None,
        sources=["upload", "clipboard"],
        buttons=["fullscreen"],
        height=300,
        label=site.label("Photo"),
        placeholder=site.label(PLACEHOLDER, size=MAX_FILE_SIZE.upper()),
        elem_id="photo",
    )


def model_choice(site: Site) -> gr.Radio:
    specs = [spec for spec in SPECS.values() if spec.role == "generator"]
    present = [spec.name for spec in specs if is_present(spec)]
    fetched = [spec.name for spec in specs if spec.name not in present and can_be_fetched(spec)]
    missing = [spec.name for spec in specs if spec.name not in (*present, *fetched)]
    best = best_present()

    def info(language: str) -> str:
        parts = []
        if best is STARTER:
            sentence = "{model} to begin with, because no official weights are on this machine."
            parts.append(say(language, sentence, model=best.name))
        if fetched:
            parts.append(say(language, "Fetched once, when first used: {models}.", models=", ".join(fetched)))
        if missing:
            sentence = "Not on this machine: {models}. See “{about}” below."
            parts.append(say(language, sentence, models=", ".join(missing), about=ABOUT))
        return " ".join(parts)

    return gr.Radio(
        [*present, *fetched], value=best.name, label=site.label("Model"), info=site.shown(info), elem_id="model"
    )


def slider(site: Site, name: str) -> gr.Slider:
    limits = allowed(RestoreOptions, name)
    assert limits.minimum is not None and limits.maximum is not None
    return gr.Slider(limits.minimum, limits.maximum, step=limits.step, **common(site, name))


def automatic_choice(site: Site) -> gr.Checkbox:
    return gr.Checkbox(
        default(RestoreOptions, "strength") == "auto",
        label=site.label("Automatic strength"),
        info=site.label("Chooses for each face from its noise and sharpness, in the place of the slider."),
        elem_id="automatic",
    )


def mode_choice(site: Site) -> gr.Radio:
    choices = allowed(RestoreOptions, "mode").choices or ()
    return gr.Radio([(site.label(CHOICES[mode]), mode) for mode in choices], **common(site, "mode"))


def background_choice(site: Site) -> gr.Dropdown:
    """The upscalers whose weights are here, and what needs none."""
    choices = allowed(RestoreOptions, "background").choices or ()
    present = [name for name in choices if name not in SPECS or is_present(SPECS[name])]
    return gr.Dropdown(present, **common(site, "background"))


def tile_slider(site: Site, name: str) -> gr.Slider:
    limits = allowed(RestoreOptions, name)
    assert limits.minimum is not None and limits.maximum is not None
    words = {**common(site, name), "value": 0, "info": site.label("0: automatic.")}
    return gr.Slider(limits.minimum, limits.maximum, step=limits.step, **words)


def common(site: Site, name: str) -> dict[str, Any]:
    """What every control says of its option."""
    help_text = allowed(RestoreOptions, name).help
    return {
        "value": default(RestoreOptions, name),
        "label": site.label(LABELS[name]),
        "info": site.shown(lambda language: as_sentence(translate(help_text, language))),
        "elem_id": name,
    }


def as_sentence(text: str) -> str:
    return text if text.endswith(("。", ".")) else f"{text[0].upper()}{text[1:]}."
