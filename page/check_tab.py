"""The quality check: one photo under several settings, side by side at one zoom, with what each costs and changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from gpen_core.evaluation.comparison import MAX_SETTINGS, MIN_SETTINGS, Comparison, crop_window
from gpen_core.models.registry import get_spec
from gpen_core.models.weights import can_be_fetched, is_present
from gpen_core.options import TILES, models_of
from gpen_core.photo.write import write_photo
from gpen_core.types import Photo, Pixels
from page.check_job import LETTERS, PRECISIONS, STRENGTHS, CheckJob, Choice, presets, title_of, write_zip
from page.check_numbers import numbers_html, summary_html
from page.controls import photo_input, status_line
from page.examples import add_examples
from page.jobs import sentence_of, without_folders
from page.languages import say, translate
from page.restore_tab import MAX_AT_ONCE, has_photo
from page.site import (
    Site,
    Upload,
    error_to_raise,
    language,
    own_folder,
    session,
    status_html,
    step_words,
    upload_path,
)
from page.tables import TABLE_CSS

VIEWER = Path(__file__).parent / "viewer"
STATE_LIFE_S = 3600
WINDOW_PX = 1024
"""Side of the part of the pictures that is sent, without loss and at full size, around each face."""
START = "Add a photo, choose what to compare, then press Compare."
RUNNING = "Setting {letter}, {number} of {total}: {words}"
PRESET_LABELS = {"strengths": "Strengths", "models": "Models", "precision": "FP32 and FP16", "tiles": "Tile sizes"}
WORDS = {
    "viewer": "The same place under each setting",
    "zoom": "Zoom",
    "out": "Zoom out",
    "in": "Zoom in",
    "fit": "All of it",
    "difference": "Differences to {letter}, 8 times",
    "before": "The photo before",
    "hint": "Drag to move all pictures together, or click a point to bring it into the middle. Ctrl and wheel, or two"
    " fingers, zoom. Keys: arrows move, + and − zoom, 0 is 100 %, D shows differences, the space bar held shows the"
    " photo before.",
}
ALT = "{title}: part of the restored photo"


class Compared(NamedTuple):
    """A visitor's last comparison, kept so that another face needs no network."""

    comparison: Comparison
    stem: str


class View(NamedTuple):
    """New values for the tab's outputs, in the order its events list them."""

    status: Any = gr.skip()
    viewer: Any = gr.skip()
    numbers: Any = gr.skip()
    place: Any = gr.skip()
    download: Any = gr.skip()
    compared: Any = gr.skip()
    stop: Any = gr.skip()


class Handlers:
    """What happens when something is pressed."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def compare(self, request: gr.Request, photo: Upload, count: int, *values: Any) -> Iterator[View]:
        tongue = language(request)
        yield empty_view(say(tongue, START), share=0.0)._replace(stop=gr.Button(visible=True))
        try:
            path = upload_path(photo)
            job = CheckJob(self._site.get_restorer, self._site.jobs.device, path, chosen_settings(count, values))
            steps = self._site.jobs.run(job.work, session(request))
            while True:
                try:
                    step = next(steps)
                except StopIteration as end:
                    compared = Compared(end.value, path.stem.lstrip(".") or "photo")
                    break
                share, words = step_words(step, tongue) if step else (0.0, "")
                yield View(running_html(job, share, words, tongue))
        except Exception as error:
            sentence = sentence_of(error)
            yield empty_view(translate(sentence, tongue))._replace(stop=gr.Button(visible=False))
            raise error_to_raise(sentence, tongue) from error
        yield from show(compared, tongue)

    def look_at(self, place: int | None, compared: Compared | None, request: gr.Request) -> Iterator[View]:
        if compared is None or place is None:
            yield View()
            return
        with own_folder() as folder:
            yield View(viewer=viewer_value(compared.comparison, place, Path(folder), language(request)))

    def fill(self, preset: str) -> list[Any]:
        """The preset's settings, put into the controls."""
        choices = presets()[preset]
        filled = [*choices, *[choices[-1]] * (MAX_SETTINGS - len(choices))]
        return [len(choices), *(value for choice in filled for value in choice), *columns_shown(len(choices))]

    def stop(self, request: gr.Request) -> None:
        self._site.jobs.stop(session(request))

    def forget(self, request: gr.Request) -> View:
        return empty_view(say(language(request), START))


def chosen_settings(count: int, values: Sequence[Any]) -> list[Any]:
    """The controls' values, four a setting; raises OptionError for what they cannot be."""
    width = len(Choice._fields)
    return [Choice(*values[width * index : width * (index + 1)]).to_setting() for index in range(count)]


def columns_shown(count: int) -> list[Any]:
    return [gr.Column(visible=index < count) for index in range(MAX_SETTINGS)]


def running_html(job: CheckJob, share: float, words: str, tongue: str) -> str:
    values = {"letter": LETTERS[job.current], "number": job.current + 1, "total": len(job.settings), "words": words}
    return status_html(say(tongue, RUNNING, **values), share=job.share(share))


def empty_view(headline: str, share: float | None = None) -> View:
    return View(
        status=status_html(headline, share=share),
        viewer=None,
        numbers="",
        place=gr.Radio(choices=[], value=None, visible=False),
        download=gr.DownloadButton(value=None, visible=False),
        compared=None,
    )


def show(compared: Compared, tongue: str) -> Iterator[View]:
    """First what is looked at, then the download: large PNGs take longer to write than all the rest."""
    comparison = compared.comparison
    faces = [(say(tongue, "Face {number}", number=index + 1), index) for index in range(len(comparison.places))]
    with own_folder() as folder:
        yield View(
            status=summary_html(comparison, tongue),
            viewer=viewer_value(comparison, 0, Path(folder), tongue),
            numbers=numbers_html(comparison, tongue),
            place=gr.Radio(choices=faces, value=0 if faces else None, visible=len(faces) > 1),
            download=gr.DownloadButton(value=None, interactive=False, visible=True),
            compared=compared,
            stop=gr.Button(visible=False),
        )
        path = Path(folder, f"{compared.stem}_comparison.zip")
        write_zip(comparison, compared.stem, path)
        yield View(download=gr.DownloadButton(value=str(path), interactive=True))


def viewer_value(comparison: Comparison, place: int, folder: Path, tongue: str) -> dict[str, Any] | None:
    """What `viewer/` shows: the same part of each picture, as files without loss."""
    if comparison.reference is None:
        return None
    height, width = comparison.before.shape[:2]
    x, y = comparison.places[place] if comparison.places else (width / 2, height / 2)
    window = crop_window(comparison.before, (x, y), WINDOW_PX)
    settings = [outcome.setting for outcome in comparison.outcomes]
    cells = []
    for letter, outcome in zip(LETTERS, comparison.outcomes, strict=False):
        title = title_of(outcome.setting, settings, partial(say, tongue))
        cell: dict[str, Any] = {"letter": letter, "title": title, "alt": say(tongue, ALT, title=title)}
        if outcome.photo is None:
            cell["error"] = translate(without_folders(outcome.error), tongue)
        else:
            cell["image"] = part_file(outcome.photo.pixels, window, folder / f"{letter}.png")
        cells.append(cell)
    letter = LETTERS[comparison.reference]
    return {
        "cells": cells,
        "reference": cells[comparison.reference]["image"],
        "original": part_file(comparison.before, window, folder / "before.png"),
        "width": window[2] - window[0],
        "height": window[3] - window[1],
        "x": x - window[0],
        "y": y - window[1],
        "words": {name: say(tongue, words, letter=letter) for name, words in WORDS.items()},
    }


def part_file(pixels: Pixels, window: tuple[int, int, int, int], path: Path) -> dict[str, Any]:
    """A part of a picture as a file, in the form that has Gradio serve it and say where."""
    x0, y0, x1, y1 = window
    write_photo(Photo(pixels=pixels[y0:y1, x0:x1]), path, has_ai=True)
    return {"path": str(path), "meta": {"_type": "gradio.FileData"}}


def setting_controls(site: Site, letter: str, choice: Choice) -> list[Any]:
    """The controls of one setting, in the order of `Choice`."""
    models = [spec.name for spec in map(get_spec, models_of("restore")) if is_present(spec) or can_be_fetched(spec)]
    automatic = site.label("Automatic")
    strengths = [(automatic if value == "auto" else f"{value:g}", value) for value in STRENGTHS]
    tiles = [
        (automatic if value == "auto" else site.label("None") if value == 0 else str(value), value) for value in TILES
    ]
    precisions = [(automatic if value == "auto" else value.upper(), value) for value in PRECISIONS]
    gr.Markdown(f"### {letter}")
    return [
        gr.Dropdown(choices, value=value, label=site.label(label), elem_id=f"check_{name}_{letter}", min_width=120)
        for name, label, choices, value in (
            ("model", "Model", models, choice.model),
            ("strength", "Strength", strengths, choice.strength),
            ("tile", "Tile size (px)", tiles, choice.tile_px),
            ("precision", "Precision", precisions, choice.precision),
        )
    ]


def build(site: Site) -> None:
    """Add the tab's controls and events to the current `gr.Blocks`."""
    known = presets()
    first = next(iter(known))
    filled = [*known[first], *[known[first][-1]] * (MAX_SETTINGS - len(known[first]))]
    with gr.Row():
        with gr.Column(scale=4):
            photo = photo_input(site, elem_id="check_photo")
            add_examples(site, photo, "check_examples")
        with gr.Column(scale=6):
            preset = gr.Radio(
                [(site.label(PRESET_LABELS[name]), name) for name in known],
                value=first,
                label=site.label("What to compare"),
                info=site.label("Fills the settings below, which can be changed."),
                elem_id="check_preset",
            )
            with gr.Accordion(site.label("The settings"), open=False, elem_id="check_settings"):
                counts = list(range(MIN_SETTINGS, MAX_SETTINGS + 1))
                count = gr.Radio(counts, value=len(known[first]), label=site.label("How many"), elem_id="check_count")
                columns: list[Any] = []
                values: list[Any] = []
                with gr.Row():
                    for letter, choice in zip(LETTERS, filled, strict=True):
                        with gr.Column(min_width=130, visible=len(columns) < len(known[first])) as column:
                            values += setting_controls(site, letter, choice)
                        columns.append(column)
            run = gr.Button(site.label("Compare"), variant="primary", elem_id="check_run")
            stop = gr.Button(site.label("Stop"), variant="stop", visible=False, elem_id="check_stop")
            status = status_line(site, START, "check_status")
    shown = [status, *result_components(site), stop]
    connect(Handlers(site), [photo, count, *values], preset, columns, run, shown)


def result_components(site: Site) -> list[Any]:
    """Viewer, numbers, choice of a face, download, and what is kept for the visitor."""
    place = gr.Radio([], label=site.label("Look at"), visible=False, elem_id="check_place")
    texts = {name: (VIEWER / f"viewer.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")}
    viewer = gr.HTML(
        None,
        html_template=texts["html"],
        css_template=texts["css"],
        js_on_load=texts["js"],
        apply_default_css=False,
        elem_id="check_viewer",
    )
    numbers = gr.HTML("", css_template=TABLE_CSS, elem_id="check_numbers")
    download = gr.DownloadButton(
        site.label("Download pictures and numbers (ZIP)"), visible=False, elem_id="check_download"
    )
    return [viewer, numbers, place, download, gr.State(time_to_live=STATE_LIFE_S)]


def connect(
    handlers: Handlers, inputs: list[Any], preset: gr.Radio, columns: list[Any], run: gr.Button, shown: list[Any]
) -> None:
    """Tie the controls to the handlers."""
    photo, count, *values = inputs
    _, _, _, place, _, compared, stop = shown
    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    run.click(
        handlers.compare, inputs, shown, validator=has_photo, preprocess=False, concurrency_limit=MAX_AT_ONCE, **quiet
    )
    stop.click(handlers.stop, None, None, queue=False, **quiet)
    preset.change(handlers.fill, preset, [count, *values, *columns], **quiet)
    count.change(columns_shown, count, columns, **quiet)
    place.change(handlers.look_at, [place, compared], shown, **quiet)
    photo.change(handlers.forget, None, shown, **quiet)
