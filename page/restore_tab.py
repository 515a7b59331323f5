"""The tab for one photo: restore it, compare, and choose the strength again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from gpen_core.options import RestoreOptions, Strength, default
from gpen_core.photo.preview import PREVIEW_LONG_SIDE_PX, write_preview
from gpen_core.result import RestoreResult
from gpen_core.types import Progress
from page.controls import (
    automatic_choice,
    background_choice,
    mode_choice,
    model_choice,
    photo_input,
    slider,
    tile_slider,
)
from page.examples import add_examples
from page.jobs import Report, sentence_of
from page.languages import say, translate
from page.site import (
    Site,
    Upload,
    error_to_raise,
    language,
    own_folder,
    read_upload,
    session,
    status_html,
    step_words,
)
from page.texts import FAILED, NO_PHOTO, REDUCED, RUNNING, START

STATE_LIFE_S = 3600


class Finished(NamedTuple):
    """A visitor's last result, kept so that another strength needs no network."""

    result: RestoreResult
    photo_name: str


class View(NamedTuple):
    """New values for the tab's outputs, in the order its events list them."""

    result: Any
    status: Any
    download: Any
    finished: Any
    stop: Any = gr.skip()


class Handlers:
    """What happens when something is pressed."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def restore(
        self,
        photo: Upload,
        model: str,
        strength: float,
        is_automatic: bool,
        scale: float,
        mode: str,
        background: str,
        tile_px: int,
        overlap_px: int,
        request: gr.Request,
    ) -> Iterator[View]:
        tongue = language(request)
        options = chosen_options(strength, is_automatic, scale, mode, background, tile_px, overlap_px)
        work = restoration(self._site, photo, model, options)
        steps = self._site.jobs.run(work, session(request))
        yield empty_view(say(tongue, RUNNING), share=0.0)._replace(stop=gr.Button(visible=True))
        try:
            while True:
                try:
                    step = next(steps)
                except StopIteration as end:
                    finished = end.value
                    break
                share, words = step_words(step, tongue) if step else (0.0, say(tongue, RUNNING))
                yield unchanged_view()._replace(status=status_html(words, share=share))
        except Exception as error:
            sentence = sentence_of(error)
            yield empty_view(say(tongue, FAILED, reason=sentence))._replace(stop=gr.Button(visible=False))
            raise error_to_raise(sentence, tongue) from error
        for view in show(finished, tongue):
            yield view._replace(stop=gr.Button(visible=False))

    def recompose(
        self, strength: float, is_automatic: bool, finished: Finished | None, request: gr.Request
    ) -> Iterator[Any]:
        wanted = chosen_strength(strength, is_automatic)
        if finished is None or finished.result.strength == wanted:
            yield gr.skip()
            return
        yield from show(finished._replace(result=finished.result.recompose(strength=wanted)), language(request))

    def stop(self, request: gr.Request) -> None:
        self._site.jobs.stop(session(request))

    def forget(self, request: gr.Request) -> View:
        return empty_view(say(language(request), START))


def restoration(site: Site, photo: Upload, model: str, chosen: dict[str, Any]) -> Any:
    """The work of restoring one upload, for `Jobs.run`."""

    def work(report: Report) -> Finished:
        options = RestoreOptions(**chosen)
        name, content = read_upload(photo)
        report(Progress("prepare", 0, 1))
        restorer = site.get_restorer(model, report)
        restorer.prepare(options, report)
        with site.jobs.device.take(report):
            return Finished(restorer.restore(content, options, report), name)

    return work


def chosen_strength(strength: float, is_automatic: bool) -> Strength:
    return "auto" if is_automatic else strength


def chosen_options(
    strength: float, is_automatic: bool, scale: float, mode: str, background: str, tile_px: int, overlap_px: int
) -> dict[str, Any]:
    """The controls' values as `RestoreOptions` takes them. In faces mode tiles are left to the machine."""
    chosen = {"strength": chosen_strength(strength, is_automatic), "scale": scale, "mode": mode}
    lengths = {"tile_px": tile_px, "overlap_px": overlap_px} if mode != default(RestoreOptions, "mode") else {}
    return {**chosen, "background": background, **{name: value or "auto" for name, value in lengths.items()}}


def empty_view(headline: str, share: float | None = None) -> View:
    return View(None, status_html(headline, share=share), gr.DownloadButton(value=None, interactive=False), None)


def unchanged_view() -> View:
    return View(gr.skip(), gr.skip(), gr.skip(), gr.skip())


def show(finished: Finished, tongue: str) -> Iterator[View]:
    """First the light pictures, then the download: a large PNG takes longer to write than all the rest."""
    result = finished.result
    notes = [translate(note, tongue) for note in result.notes]
    if max(result.photo.width, result.photo.height) > PREVIEW_LONG_SIDE_PX:
        notes.append(say(tongue, REDUCED, size=PREVIEW_LONG_SIDE_PX))
    status = status_html(f"{finished.photo_name}: {result.summary()}", notes)
    with own_folder() as folder:
        before, after = Path(folder, "before.jpg"), Path(folder, "after.jpg")
        write_preview(result.before, before)
        write_preview(result.photo, after)
        yield View((before, after), status, gr.DownloadButton(value=None, interactive=False), finished)
        full = save_full(finished, folder)
        yield unchanged_view()._replace(download=gr.DownloadButton(value=full, interactive=True))


def save_full(finished: Finished, folder: str) -> str:
    # Gradio serves no file whose name begins with a dot.
    stem = Path(finished.photo_name).stem.lstrip(".") or "photo"
    path = Path(folder, f"{stem}_{finished.result.model}.png")
    finished.result.save(path)
    return str(path)


def has_photo(photo: Upload, *others: Any) -> list[Any]:
    """One answer an input, as Gradio wants it; only the photo can be missing."""
    return [gr.validate(bool(photo), NO_PHOTO), *(None for _ in others)]


def build(site: Site) -> None:
    """Add the tab's controls and events to the current `gr.Blocks`."""
    with gr.Row():
        with gr.Column(scale=4):
            inputs: list[Any] = [photo_input(site), model_choice(site), slider(site, "strength")]
            inputs += [automatic_choice(site), slider(site, "scale"), mode_choice(site), background_choice(site)]
            inputs += [tile_slider(site, "tile_px"), tile_slider(site, "overlap_px")]
            run = gr.Button(site.label("Restore faces"), variant="primary", elem_id="run")
            stop = gr.Button(site.label("Stop"), variant="stop", visible=False, elem_id="stop")
        with gr.Column(scale=6):
            set_live = "element.setAttribute('aria-live', 'polite')"
            status = gr.HTML(site.label(START), elem_id="status", js_on_load=set_live, padding=True)
            result = gr.ImageSlider(
                interactive=False,
                buttons=["fullscreen"],
                max_height=560,
                label=site.label("Left: before · right: after"),
                elem_id="result",
            )
            download = gr.DownloadButton(site.label("Download full-quality PNG"), interactive=False, elem_id="download")
    add_examples(site, inputs[0], "examples")
    connect(Handlers(site), inputs, run, stop, [result, status, download])


def connect(handlers: Handlers, inputs: list[Any], run: gr.Button, stop: gr.Button, shown: list[Any]) -> None:
    """Tie the controls to the handlers."""
    photo, _, strength, automatic, *_ = inputs
    outputs = [*shown, gr.State(time_to_live=STATE_LIFE_S), stop]
    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    recompose: dict[str, Any] = {
        "fn": handlers.recompose,
        "inputs": [strength, automatic, outputs[-2]],
        "outputs": outputs,
    }
    # Without preprocessing: Gradio's own opens the photo before us, and fails without a word on what it cannot read.
    # The core checks every value itself.
    running = run.click(
        handlers.restore, inputs, outputs, validator=has_photo, preprocess=False, concurrency_limit=None, **quiet
    )
    stop.click(handlers.stop, None, None, queue=False, **quiet)
    # The strength may have been moved meanwhile.
    running.success(**recompose, **quiet)
    # `change` and not `release`, which the arrow keys do not cause.
    for control in (strength, automatic):
        control.change(**recompose, trigger_mode="always_last", **quiet)
    photo.change(handlers.forget, None, outputs, **quiet)
