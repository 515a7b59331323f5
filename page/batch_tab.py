"""The tab for many photos: a table that fills as they are restored, and a ZIP of the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from gpen_core.archive import ArchivedPhoto, ArchiveLimits, NamedFile
from gpen_core.folders import unique_names
from gpen_core.photo.formats import READABLE_SUFFIXES
from page import tables
from page.batch_job import ZIP_NAME, BatchJob
from page.controls import automatic_choice, control, model_choice, status_line
from page.jobs import sentence_of
from page.languages import say, translate
from page.restore_tab import MAX_AT_ONCE
from page.site import Site, Upload, error_to_raise, language, session, status_html, step_words, upload_path
from page.values import AUTOMATIC, NAMES, choose

START = "Add photos, then press Restore all."
NO_PHOTOS = "Add photos first."
LIMITS = "Up to {photos} photos, {megapixels} megapixels of results and a ZIP of {size} MB in one run."
RUNNING = "{done} of {total} photos done. {words}"
FINISHED = "{restored} of {total} photos restored."
STOPPED = "Stopped: {restored} of {total} photos are restored and in the ZIP."
WITHOUT_FACE = "No face was found in {count}; they are in the ZIP as they were."
FAILURES = "{count} failed; the table and failures.txt in the ZIP say why."
LEFT_OUT = "{count} were left out."
STATES = {
    "waiting": "Waiting",
    "working": "Being restored…",
    "restored": "{count} faces restored",
    "restored one": "1 face restored",
    "no faces": "No face found",
    "failed": "Failed",
    "skipped": "Left out",
}
HEADERS = ("Photo", "State", "Seconds", "What to know")


class View(NamedTuple):
    """New values for the tab's outputs, in the order its events list them."""

    status: Any = gr.skip()
    table: Any = gr.skip()
    download: Any = gr.skip()
    stop: Any = gr.skip()


class Handlers:
    """What happens when something is pressed."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def list_files(self, files: Sequence[Upload] | None, request: gr.Request) -> View:
        tongue = language(request)
        names = unique_names([name_of(file) for file in files or ()])
        return View(status_html(say(tongue, START)), table_html(names, [], tongue, is_running=False), no_download())

    def restore(self, request: gr.Request, files: Sequence[Upload] | None, *values: Any) -> Iterator[View]:
        tongue = language(request)
        yield View(status_html(say(tongue, START), share=0.0), "", no_download(), gr.Button(visible=True))
        try:
            chosen = choose(dict(zip(NAMES, values, strict=True)))
            job = BatchJob(self._site.get_restorer, self._site.jobs.device, named_files(files), chosen)
            names = unique_names([file.name for file in job.files])
            steps = self._site.jobs.run(job.work, session(request), stop=job.stop)
            shown = -1
            while True:
                try:
                    step = next(steps)
                except StopIteration as end:
                    folder = end.value
                    break
                words = step_words(step, tongue)[1] if step else ""
                yield View(
                    running_html(job, words, tongue),
                    gr.skip() if shown == len(job.photos) else table_html(names, job.photos, tongue, is_running=True),
                )
                shown = len(job.photos)
        except Exception as error:
            sentence = sentence_of(error)
            yield View(status_html(translate(sentence, tongue)), stop=gr.Button(visible=False))
            raise error_to_raise(sentence, tongue) from error
        with folder as path:
            yield View(
                finished_html(job, tongue),
                table_html(names, job.photos, tongue, is_running=False),
                gr.DownloadButton(value=str(Path(path, ZIP_NAME)), interactive=True),
                gr.Button(visible=False),
            )

    def stop(self, request: gr.Request) -> None:
        self._site.jobs.stop(session(request))


def with_more(files: Sequence[Upload] | None, added: Sequence[Upload] | None) -> list[str]:
    """The uploads that were there, and those that come to them."""
    return [str(upload_path(file)) for file in (*(files or ()), *(added or ()))]


def name_of(file: Upload) -> str:
    assert file is not None
    return str(file.get("orig_name") or Path(file["path"]).name)


def named_files(files: Sequence[Upload] | None) -> list[NamedFile]:
    """Where uploads are, and what their owner calls them.

    Raises:
        PhotoError: one is not an upload.
    """
    return [NamedFile(upload_path(file), name_of(file)) for file in files or ()]


def no_download() -> gr.DownloadButton:
    return gr.DownloadButton(value=None, interactive=False)


def running_html(job: BatchJob, words: str, tongue: str) -> str:
    done, total = len(job.photos), len(job.files)
    return status_html(say(tongue, RUNNING, done=done, total=total, words=words), share=done / total)


def finished_html(job: BatchJob, tongue: str) -> str:
    counts = job.to_report()["counts"]
    headline = STOPPED if job.stop.is_set() else FINISHED
    parts = (("no faces", WITHOUT_FACE), ("failed", FAILURES), ("skipped", LEFT_OUT))
    notes = [say(tongue, sentence, count=counts[status]) for status, sentence in parts if counts[status]]
    notes += [translate(note, tongue) for note in job.chosen.notes]
    return status_html(say(tongue, headline, restored=counts["restored"], total=len(job.files)), notes)


def table_html(names: Sequence[str], photos: Sequence[ArchivedPhoto], tongue: str, *, is_running: bool) -> str:
    """One row a photo, in the order they were added, with what is known of it so far."""
    if not names:
        return ""
    known = {photo.name: photo for photo in photos}
    working = next((name for name in names if name not in known), None) if is_running else None
    rows = [_row(name, known.get(name), tongue, is_working=name == working) for name in names]
    label = say(tongue, "Photos and what became of them")
    return tables.table_html(label, [say(tongue, header) for header in HEADERS], rows)


def _row(name: str, photo: ArchivedPhoto | None, tongue: str, *, is_working: bool) -> tables.Row:
    if photo is None:
        state = "working" if is_working else "waiting"
        return tables.Row(escape(name), [_state_html(say(tongue, STATES[state])), "", ""], state)
    is_single = photo.status == "restored" and photo.num_faces == 1
    words = say(tongue, STATES["restored one" if is_single else photo.status], count=photo.num_faces)
    notes = [translate(note, tongue) for note in (photo.error, *photo.notes) if note]
    seconds = f"{photo.seconds:.1f}" if photo.seconds else ""
    return tables.Row(escape(name), [_state_html(words), seconds, "<br>".join(map(escape, notes))], photo.status)


def _state_html(words: str) -> str:
    return f'<span class="state">{escape(words)}</span>'


def files_input(site: Site, elem_id: str) -> gr.File:
    return gr.File(
        file_count="multiple",
        file_types=sorted(READABLE_SUFFIXES),
        label=site.label("Photos"),
        height=220,
        elem_id=elem_id,
    )


def settings_controls(site: Site, prefix: str) -> list[Any]:
    """The Restore tab's controls again, in the order of `NAMES`, with ids of their own."""
    controls: dict[str, Any] = {"model": model_choice(site), "strength": control(site, "strength")}
    controls[AUTOMATIC] = automatic_choice(site)
    controls["format"] = control(site, "format")
    with gr.Accordion(site.label("Advanced"), open=False, elem_id=f"{prefix}_advanced"):
        controls |= {name: control(site, name) for name in NAMES if name not in controls}
    for name, one in controls.items():
        one.elem_id = f"{prefix}_{name}"
    return [controls[name] for name in NAMES]


def limits_text(site: Site) -> Any:
    limits = ArchiveLimits()
    values = {"photos": limits.max_photos, "megapixels": f"{limits.max_megapixels:g}", "size": limits.max_mib}
    return site.label(LIMITS, **values)


def build(site: Site) -> None:
    """Add the tab's controls and events to the current `gr.Blocks`."""
    with gr.Row():
        with gr.Column(scale=4):
            files = files_input(site, "batch_files")
            more = gr.UploadButton(
                site.label("Add more photos"),
                file_count="multiple",
                file_types=sorted(READABLE_SUFFIXES),
                size="sm",
                elem_id="batch_more",
            )
            gr.Markdown(limits_text(site), elem_classes="hint")
            controls = settings_controls(site, "batch")
            run = gr.Button(site.label("Restore all"), variant="primary", elem_id="batch_run")
            stop = gr.Button(site.label("Stop"), variant="stop", visible=False, elem_id="batch_stop")
        with gr.Column(scale=6):
            status = status_line(site, START, "batch_status")
            table = gr.HTML("", elem_id="batch_table", css_template=tables.TABLE_CSS)
            download = gr.DownloadButton(site.label("Download ZIP"), interactive=False, elem_id="batch_download")
    # Its own small button for that is no button to screen readers, and is hidden.
    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    more.upload(with_more, [files, more], files, preprocess=False, **quiet)
    connect(Handlers(site), files, [files, *controls], run, stop, [status, table, download])


def connect(
    handlers: Handlers, files: gr.File, inputs: list[Any], run: gr.Button, stop: gr.Button, shown: list[Any]
) -> None:
    """Tie the controls to the handlers."""
    outputs = [*shown, stop]
    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    run.click(
        handlers.restore,
        inputs,
        outputs,
        validator=has_photos,
        preprocess=False,
        concurrency_limit=MAX_AT_ONCE,
        **quiet,
    )
    stop.click(handlers.stop, None, None, queue=False, **quiet)
    files.change(handlers.list_files, files, outputs, preprocess=False, **quiet)


def has_photos(request: gr.Request, files: Sequence[Upload] | None, *others: Any) -> list[Any]:
    """One answer an input, as Gradio wants it; only the photos can be missing."""
    return [gr.validate(bool(files), say(language(request), NO_PHOTOS)), *(None for _ in others)]
