"""The tab for one photo: restore it, compare, and choose strength and faces again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gradio as gr
from gradio.context import Context

from gpen_core.errors import Cancelled, PhotoError
from gpen_core.options import RestoreOptions
from gpen_core.photo.io import read_photo
from gpen_core.types import Photo, Progress
from page.brush import build_marking, connect_marking, fit_mask
from page.controls import automatic_choice, control, half_choice, model_choice, photo_input, status_line
from page.examples import add_examples
from page.jobs import Report, sentence_of
from page.languages import say, translate
from page.result_view import Finished, Shown, build_result, same_shown, show
from page.site import Site, Upload, error_to_raise, language, read_upload, session, status_html, step_words
from page.texts import FAILED, NO_MASK, NO_PHOTO, RUNNING, STALE, START
from page.values import AUTOMATIC, NAMES, OUTPUT, acceptable, choose

STATE_LIFE_S = 3600
MAX_AT_ONCE = 16
"""Photos under way or waiting for the device, which the page tells itself; behind them waits Gradio's queue."""
BASIC = ("model", "strength", AUTOMATIC)
LIVE = ("strength", AUTOMATIC, *OUTPUT)
"""What changes the result without a network."""
GROUPS = {
    "Network": ("tile_px", "overlap_px", "fp16", "precision", "compile"),
    "Faces": ("faces", "threshold", "min_face_px", "mask", "sharp_faces", "keep_tone", "lock_color", "grain"),
    "Picture": ("mode", "scale", "background", "background_strength", "accept_damaged"),
    "Download": OUTPUT,
}
MEMORY_KEY, MEMORY_SECRET = "gpen-advanced", "settings only, never a photo"


class View(NamedTuple):
    """New values for the tab's outputs, in the order its events list them."""

    status: Any
    shown: Shown
    stale: Any
    stop: Any
    finished: Any

    def flat(self) -> tuple[Any, ...]:
        return (self.status, *self.shown, self.stale, self.stop, self.finished)


def view(**changes: Any) -> tuple[Any, ...]:
    """These outputs change, all others stay."""
    same = View(gr.skip(), same_shown(), gr.skip(), gr.skip(), gr.skip())
    return same._replace(**changes).flat()


class Handlers:
    """What happens when something is pressed."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def restore(
        self, request: gr.Request, photo: Upload, mask: bytes | None, *values: Any
    ) -> Iterator[tuple[Any, ...]]:
        tongue = language(request)
        by_name = dict(zip(NAMES, values, strict=True))
        steps = self._site.jobs.run(restoration(self._site, photo, by_name, mask), session(request))
        before = status_html(say(tongue, RUNNING), share=0.0)
        yield view(status=before, stop=gr.Button(visible=True))
        try:
            while True:
                try:
                    step = next(steps)
                except StopIteration as end:
                    finished: Finished = end.value
                    break
                share, words = step_words(step, tongue) if step else (0.0, say(tongue, RUNNING))
                now = status_html(words, share=share)
                # Also where nothing is new: Gradio can end a generator only when it yields.
                yield view() if now == before else view(status=now)
                before = now
        except Exception as error:
            sentence, was_asked = sentence_of(error), isinstance(error, Cancelled)
            words = translate(sentence, tongue) if was_asked else say(tongue, FAILED, reason=sentence)
            yield view(status=status_html(words), stop=gr.Button(visible=False))
            # Raised after a stop too, so that nothing goes on as after a success; a toast would say it twice.
            raise error_to_raise(sentence, tongue, is_shown=not was_asked) from error
        for status, shown in show(finished, tongue):
            calm = gr.HTML(visible=False)
            yield view(status=status, shown=shown, stop=gr.Button(visible=False), stale=calm, finished=finished)

    def recompose(
        self,
        request: gr.Request,
        strength: float,
        is_automatic: bool,
        file_format: str,
        is_stripped: bool,
        ticks: list[int] | None,
        finished: Finished | None,
    ) -> Iterator[tuple[Any, ...]]:
        """Another strength, other faces, another format: no network runs."""
        if finished is None:
            yield view()
            return
        output = {"format": file_format, "strip_metadata": is_stripped}
        wanted = finished.recomposed("auto" if is_automatic else strength, ticks or [], output)
        if wanted is finished:
            yield view()
            return
        for status, shown in show(wanted, language(request)):
            # The ticks are the visitor's, who may have changed them again meanwhile.
            yield view(status=status, shown=shown._replace(ticks=gr.skip()), finished=wanted)

    def stop(self, request: gr.Request) -> None:
        self._site.jobs.stop(session(request))

    def watch(self, photo: Upload, mask: bytes | None, *rest: Any) -> Any:
        """Whether the result is still that of what is set."""
        *values, finished = rest
        by_name = dict(zip(NAMES, values, strict=True))
        return gr.HTML(visible=finished is not None and finished.source != source_of(photo, by_name, mask))


def restoration(site: Site, photo: Upload, values: dict[str, Any], mask: bytes | None) -> Callable[[Report], Finished]:
    """The work of restoring one upload, for `Jobs.run`.

    Args:
        site: the page's.
        photo: the upload.
        values: of the controls, by name.
        mask: what is to be filled, as the content of a picture; not used by models that fill nothing.
    """

    def work(report: Report) -> Finished:
        chosen = choose(values)
        name, content = read_upload(photo)
        report(Progress("prepare", 0, 1))
        restorer = site.get_restorer(chosen.model, report, precision=chosen.precision, compile=chosen.compile)
        restorer.prepare(chosen.options, report)
        source, fitted = fit(content, mask, chosen.options) if restorer.task.needs_mask else (content, None)
        with site.jobs.device.take(report):
            result = restorer.restore(source, chosen.options, report, inpaint_mask=fitted)
        return Finished(result, name, chosen, source_of(photo, values, mask))

    return work


def fit(content: bytes, mask: bytes | None, options: RestoreOptions) -> tuple[Photo, Photo]:
    """A photo, and what is to be filled in it at its size.

    Raises:
        PhotoError: one cannot be read, or nothing is marked.
    """
    if mask is None:
        raise PhotoError(NO_MASK)
    photo = read_photo(content, accept_damaged=options.accept_damaged)
    return photo, fit_mask(mask, photo)


def source_of(photo: Upload, values: dict[str, Any], mask: bytes | None) -> tuple[Any, ...]:
    """What a result comes from: another of these, and it has to be made anew."""
    return (photo and photo["path"], mask, *(values[name] for name in NAMES if name not in LIVE))


def has_photo(request: gr.Request, photo: Upload, *others: Any) -> list[Any]:
    """One answer an input, as Gradio wants it; only the photo can be missing."""
    return [gr.validate(bool(photo), say(language(request), NO_PHOTO)), *(None for _ in others)]


def build(site: Site) -> None:
    """Add the tab's controls and events to the current `gr.Blocks`."""
    with gr.Row():
        with gr.Column(scale=4, min_width=320):
            photo = photo_input(site, elem_id="photo")
            add_examples(site, photo, "examples")
            with gr.Row():
                run = gr.Button(site.label("Restore faces"), variant="primary", elem_id="run")
                stop = gr.Button(site.label("Stop"), variant="stop", visible=False, elem_id="stop")
            controls = {"model": model_choice(site, has_masks=True), "strength": control(site, "strength")}
            controls[AUTOMATIC] = automatic_choice(site)
            marking = build_marking(site)
            with gr.Accordion(site.label("Advanced"), open=False, elem_id="advanced"):
                controls |= advanced(site)
                reset = gr.Button(site.label("Reset settings"), size="sm", elem_id="reset")
        with gr.Column(scale=6, min_width=320):
            status = status_line(site, START, "status")
            stale = gr.HTML(site.label(STALE), visible=False, elem_id="stale", padding=True)
            shown = build_result(site)
    half = controls.pop("fp16")
    mask = gr.State(None) if marking is None else marking.mask
    if marking is not None:
        connect_marking(marking, photo, controls["model"])
    ordered = [mask, *(controls[name] for name in NAMES)]
    outputs = [status, *shown, stale, stop, gr.State(time_to_live=STATE_LIFE_S)]
    connect(Handlers(site), photo, ordered, run, stop, shown, outputs)
    keep_settings(Handlers(site), photo, mask, controls, reset, half, stale, outputs[-1])


def advanced(site: Site) -> dict[str, Any]:
    """The controls that are folded away, by name, under headings."""
    controls: dict[str, Any] = {}
    for heading, names in GROUPS.items():
        gr.Markdown("#### " + site.label(heading))
        for name in names:
            controls[name] = half_choice(site) if name == "fp16" else control(site, name)
    return controls


QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
TO_STATUS = "() => { if (innerWidth < 768) document.querySelector('#status').scrollIntoView({behavior: 'smooth'}) }"


def connect(
    handlers: Handlers,
    photo: gr.Image,
    controls: list[Any],
    run: gr.Button,
    stop: gr.Button,
    shown: Shown,
    outputs: list[Any],
) -> None:
    """Run, stop, and change what is shown. The first of the controls is the mask."""
    by_name = dict(zip(NAMES, controls[1:], strict=True))
    live = [*(by_name[name] for name in LIVE), shown.ticks]
    recompose: dict[str, Any] = {"fn": handlers.recompose, "inputs": [*live, outputs[-1]], "outputs": outputs}
    latest: dict[str, Any] = {"trigger_mode": "always_last", **QUIET}
    # Without preprocessing: the core checks every value itself, and says in a sentence what is allowed.
    running = run.click(
        handlers.restore,
        [photo, *controls],
        outputs,
        validator=has_photo,
        preprocess=False,
        concurrency_limit=MAX_AT_ONCE,
        **QUIET,
    )
    stop.click(handlers.stop, None, None, queue=False, **QUIET)
    running.then(None, None, None, js=TO_STATUS, **QUIET)
    # `change` and not `release`, which the arrow keys do not cause; ticks change by themselves after a run. Strength
    # may be moved during a run too.
    triggers = [shown.ticks.input, *(by_name[name].change for name in LIVE)]
    gr.on(triggers, **recompose, **latest)
    running.success(**recompose, **latest)


def keep_settings(
    handlers: Handlers,
    photo: gr.Image,
    mask: gr.State,
    controls: dict[str, Any],
    reset: gr.Button,
    half: gr.Checkbox,
    stale: gr.HTML,
    finished: gr.State,
) -> None:
    """Mark results that are no longer those of the settings; keep Advanced in the visitor's browser."""
    everything = [photo, mask, *(controls[name] for name in NAMES), finished]
    triggers = [one.change for one in everything]
    gr.on(triggers, handlers.watch, everything, stale, preprocess=False, trigger_mode="always_last", **QUIET)

    memory = gr.BrowserState(None, storage_key=MEMORY_KEY, secret=MEMORY_SECRET)
    names = [name for name in NAMES if name not in BASIC]
    remembered = [controls[name] for name in names]
    defaults = {name: one.value for name, one in controls.items()}

    def recall(saved: dict[str, Any] | None) -> list[Any]:
        known = {name: value for name, value in (saved or {}).items() if name in names and acceptable(name, value)}
        return [known.get(name, defaults[name]) for name in names]

    def save(*values: Any) -> dict[str, Any]:
        return dict(zip(names, values, strict=True))

    keep: dict[str, Any] = {"fn": save, "inputs": remembered, "outputs": memory, **QUIET}
    # `input` and not `change`, which the page's own start causes too, before it has recalled anything.
    gr.on([one.input for one in remembered], **keep, trigger_mode="always_last")
    reset.click(lambda: recall(None), None, remembered, **QUIET).then(**keep)
    precision = controls["precision"]
    half.input(lambda is_on: "fp16" if is_on else defaults["precision"], half, precision, **QUIET).then(**keep)
    precision.change(lambda precision: precision == "fp16", precision, half, **QUIET)
    assert Context.root_block is not None
    Context.root_block.load(recall, memory, remembered, **QUIET)
