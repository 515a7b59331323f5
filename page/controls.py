"""The page's controls, made from the options' defaults, bounds, choices and help texts."""

from __future__ import annotations

from typing import Any

import gradio as gr

from gpen_core.models.registry import SPECS, STARTER, ModelSpec
from gpen_core.models.watch import in_megabytes
from gpen_core.models.weights import best_present, can_be_fetched, is_present
from gpen_core.options import RuntimeOptions, allowed, default
from gpen_core.tasks import TASKS
from page.jobs import why_no_half
from page.languages import as_sentence, say, translate
from page.site import Site
from page.texts import ABOUT, MAX_FILE_SIZE
from page.values import AUTOMATIC, owner_of

LABELS = {
    "strength": "Strength",
    "scale": "Enlarge",
    "mode": "What is restored",
    "background": "Background",
    "background_strength": "Strength of the background",
    "faces": "Which faces",
    "threshold": "Detection threshold",
    "min_face_px": "Smallest face (px)",
    "mask": "Edge of the faces",
    "sharp_faces": "Faces that are sharp already",
    "keep_tone": "Keep gray and sepia",
    "lock_color": "Lock colours",
    "grain": "Add the photo's grain",
    "accept_damaged": "Accept damaged files",
    "tile_px": "Tile size (px)",
    "overlap_px": "Tile overlap (px)",
    "precision": "Number format",
    "compile": "Compile the network",
    "format": "Format of the download",
    "strip_metadata": "Leave out metadata",
}
CHOICES = {
    "mode": {"faces": "Faces", "whole": "Whole picture (for close-ups)", "both": "Whole picture, and faces over it"},
    "faces": {"all": "All", "largest": "The largest", "center": "The most central"},
    "mask": {"soft": "Soft ellipse", "parsing": "Face and hair (ParseNet)"},
    "sharp_faces": {"weaken": "Restore by half", "skip": "Leave as they are", "restore": "Restore fully"},
    "precision": {"auto": "Automatic"},
    "background": {"auto": "Automatic", "off": "Off"},
    "format": {"same": "Same as the photo", "png": "PNG", "jpeg": "JPEG", "webp": "WebP", "tiff": "TIFF"},
}
"""Words for choices; those that are names stay."""
PURPOSES = {
    "colorize": "gives colours to gray faces",
    "inpaint": "fills what you mark in a face",
    "seg2face": "draws a face from a map of its parts",
}
"""Of models that do something else than restoring."""
PLACEHOLDER = "Drop a photo here, or click to choose one\n(up to {size})"
ZERO_IS_AUTOMATIC = {
    "tile_px": ("size of tiles; 0: none.", "size of tiles; 0: automatic."),
    "overlap_px": ("how far tiles overlap; auto:", "how far tiles overlap; 0: automatic,"),
}
"""What a slider says of itself where the option has a word instead."""


def photo_input(site: Site, **looks: Any) -> gr.Image:
    return gr.Image(
        type="filepath",
        image_mode=None,
        sources=["upload", "clipboard", "webcam"],
        webcam_options=gr.WebcamOptions(mirror=False),
        buttons=["fullscreen"],
        height=280,
        label=site.label("Photo"),
        placeholder=site.label(PLACEHOLDER, size=MAX_FILE_SIZE.upper()),
        **looks,
    )


def status_line(site: Site, sentence: str, elem_id: str) -> gr.HTML:
    """Where a tab says in words what goes on; screen readers hear it."""
    set_live = "element.setAttribute('aria-live', 'polite')"
    return gr.HTML(site.label(sentence), elem_id=elem_id, js_on_load=set_live, padding=True)


def model_choice(site: Site, *, has_masks: bool = False) -> gr.Radio:
    """Every generator that is here or can be fetched; which, how large, under what licence.

    Args:
        site: the page's.
        has_masks: those that need a mask, too.
    """
    specs = [spec for spec in SPECS.values() if spec.role == "generator"]
    specs = [spec for spec in specs if has_masks or not TASKS[spec.task].needs_mask]
    present = [spec for spec in specs if is_present(spec)]
    fetched = [spec for spec in specs if spec not in present and can_be_fetched(spec)]
    missing = [spec.name for spec in specs if spec not in (*present, *fetched)]
    best = best_present()

    def info(language: str) -> str:
        parts = []
        if best is STARTER:
            sentence = "{model} to begin with, because no official weights are on this machine."
            parts.append(say(language, sentence, model=best.name))
        if fetched:
            parts.append(say(language, "The others are fetched once, when first used."))
        if missing:
            sentence = "Not on this machine: {models}. See “{about}” below."
            parts.append(say(language, sentence, models=", ".join(missing), about=ABOUT))
        parts.append(say(language, "Official GPEN weights are for non-commercial use only."))
        return " ".join(parts)

    choices = [
        *((_here(site, spec), spec.name) for spec in present),
        *((_away(site, spec), spec.name) for spec in fetched),
    ]
    return gr.Radio(choices, value=best.name, label=site.label("Model"), info=site.shown(info), elem_id="model")


def _here(site: Site, spec: ModelSpec) -> Any:
    if spec.task in PURPOSES:
        return site.label("{model} · {purpose}", model=spec.name, purpose=PURPOSES[spec.task])
    return site.label("{model} · ready", model=spec.name)


def _away(site: Site, spec: ModelSpec) -> Any:
    if spec.num_bytes is None:
        return site.label("{model} · to be fetched", model=spec.name)
    return site.label("{model} · to be fetched, {size} MB", model=spec.name, size=in_megabytes(spec.num_bytes))


def automatic_choice(site: Site) -> gr.Checkbox:
    return gr.Checkbox(
        default(owner_of("strength"), "strength") == "auto",
        label=site.label("Automatic strength"),
        info=site.label("Chooses for each face from its noise and sharpness, in the place of the slider."),
        elem_id=AUTOMATIC,
    )


def half_choice(site: Site) -> gr.Checkbox:
    """A short way to the number format; no option of its own."""
    obstacle = why_no_half(site.runtime)
    text = "Faster and smaller; the result says how far it is from full precision."
    return gr.Checkbox(
        not obstacle and site.runtime.precision == "fp16",
        interactive=not obstacle,
        label=site.label("Half precision (FP16)"),
        info=site.label("Off: FP16 {reason}.", reason=obstacle) if obstacle else site.label(text),
        elem_id="fp16",
    )


def control(site: Site, name: str) -> Any:
    """The control of an option: a slider for numbers with a step, a tick, or a choice."""
    owner = owner_of(name)
    limits, value = allowed(owner, name), _default(site, name)
    if name in ZERO_IS_AUTOMATIC:
        value = 0 if value == "auto" else value
    info = site.shown(lambda language: as_sentence(translate(help_of(name), language), language))
    words: dict[str, Any] = {"value": value, "label": site.label(LABELS[name]), "info": info, "elem_id": name}
    if limits.minimum is not None and limits.maximum is not None and limits.step is not None:
        return gr.Slider(limits.minimum, limits.maximum, step=limits.step, **words)
    if limits.minimum is not None:
        return gr.Number(minimum=limits.minimum, maximum=limits.maximum, precision=0, **words)
    if isinstance(value, bool):
        return gr.Checkbox(**words)
    choices = [(_choice_label(site, name, choice), choice) for choice in _choices(name, limits.choices or ())]
    if name == "faces":
        # Also numbers from left to right, which nobody needs who can tick faces off afterwards.
        return gr.Dropdown(choices, allow_custom_value=True, **words)
    return gr.Dropdown(choices, **words)


def help_of(name: str) -> str:
    """The option's help text."""
    return allowed(owner_of(name), name).help.replace(*ZERO_IS_AUTOMATIC.get(name, ("", "")))


def _default(site: Site, name: str) -> Any:
    """The option's; of what the server was told at its start, that."""
    owner = owner_of(name)
    return getattr(site.runtime, name) if owner is RuntimeOptions else default(owner, name)


def _choices(name: str, choices: tuple[Any, ...]) -> list[Any]:
    """Of upscalers, those whose weights are here."""
    if name == "faces":
        return list(CHOICES["faces"])
    return [choice for choice in choices if name != "background" or choice not in SPECS or is_present(SPECS[choice])]


def _choice_label(site: Site, name: str, choice: str) -> Any:
    words = CHOICES.get(name, {}).get(choice)
    return site.label(words) if words else choice
