"""What is seen of a result: compared, side by side, face by face; and the files to take away."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from gpen_core.crops import MAX_SHEET_FACES, face_pair
from gpen_core.options import OutputOptions, Strength
from gpen_core.photo.formats import suffix_for
from gpen_core.photo.preview import PREVIEW_LONG_SIDE_PX, Marked, write_marked_preview, write_preview
from gpen_core.photo.write import write_photo
from gpen_core.result import RestoreResult
from gpen_core.types import Box, Photo
from page.languages import say, translate
from page.site import Site, own_folder, status_html
from page.texts import FACE_PAIR, REDUCED
from page.values import Chosen


@dataclass(frozen=True, slots=True)
class Finished:
    """A visitor's last result, kept so that another strength needs no network."""

    result: RestoreResult
    photo_name: str
    chosen: Chosen
    source: tuple[Any, ...]
    """What it was made from."""

    def recomposed(self, strength: Strength, faces: Sequence[int], output: dict[str, Any]) -> Finished:
        """With these; itself where nothing changes."""
        result, chosen = self.result, replace(self.chosen, output=OutputOptions(**output))
        if (result.strength, result.shown, self.chosen.output) == (strength, tuple(sorted(faces)), chosen.output):
            return self
        return replace(self, result=result.recompose(strength=strength, faces=faces), chosen=chosen)

    def save(self, folder: str) -> tuple[str, tuple[str, ...]]:
        """Write the full-quality file; its path, and what its format could not hold."""
        # Gradio serves no file whose name begins with a dot.
        stem = Path(self.photo_name).stem.lstrip(".") or "photo"
        suffix = suffix_for(self.photo_name, self.chosen.output.format)
        path = Path(folder, f"{stem}_{self.result.model}{suffix}")
        return str(path), self.result.save(path, self.chosen.output)

    def report(self, notes: Sequence[str] = ()) -> dict[str, Any]:
        """The core's, with what the page and the file's format add to its notes."""
        report = self.result.to_report()
        return {**report, "notes": [*self.chosen.notes, *report["notes"], *notes]}


class Shown(NamedTuple):
    """The components that show a result, or new values for them."""

    area: Any
    compare: Any
    before: Any
    after: Any
    overview: Any
    ticks: Any
    pairs: Any
    download: Any
    report: Any


def same_shown() -> Shown:
    return Shown(*(gr.skip() for _ in Shown._fields))


def build_result(site: Site) -> Shown:
    """Add the components to the current column."""
    before, after = site.label("Before"), site.label("After")
    picture: dict[str, Any] = {"interactive": False, "buttons": ["fullscreen"], "format": "png"}
    with gr.Column(visible=False, elem_id="results") as area:
        with gr.Row():
            download = gr.DownloadButton(
                site.label("Download the result"), variant="primary", interactive=False, elem_id="download"
            )
            report = gr.DownloadButton(site.label("Report (JSON)"), interactive=False, elem_id="report")
        with gr.Tabs():
            with gr.Tab(site.label("Compare")):
                label = site.label("Left: before · right: after")
                compare = gr.ImageSlider(**picture, max_height=560, label=label, elem_id="result")
            with gr.Tab(site.label("Side by side")), gr.Row():
                first = gr.Image(**picture, label=before, alt_text=site.label("The photo before"), elem_id="before")
                second = gr.Image(**picture, label=after, alt_text=site.label("The restored photo"), elem_id="after")
            with gr.Tab(site.label("Faces")):
                ticks = gr.CheckboxGroup([], label=site.label("Faces that are restored"), elem_id="ticks")
                alt = site.label("The photo with a numbered box around each face")
                overview = gr.Image(**picture, label=site.label("Where they are"), alt_text=alt, elem_id="overview")
                pairs = gr.Gallery(
                    columns=2,
                    fit_columns=False,
                    object_fit="contain",
                    height="auto",
                    format="png",
                    buttons=["fullscreen"],
                    interactive=False,
                    label=site.label("Each face before and after, at the network's size"),
                    elem_id="pairs",
                )
    return Shown(area, compare, first, second, overview, ticks, pairs, download, report)


def show(finished: Finished, tongue: str) -> Iterator[tuple[str, Shown]]:
    """Status and light pictures; then, since a large PNG takes long to write, both again with the files.

    The pictures again: Gradio drops those of a tab that was not opened yet where the last answer leaves them out.
    """
    with own_folder() as folder:
        wait = gr.DownloadButton(value=None, interactive=False)
        pictures = _pictures(finished.result, folder, tongue)
        yield _status(finished, (), tongue), pictures._replace(download=wait, report=wait)
        full, notes = finished.save(folder)
        report = Path(full).with_suffix(".json")
        report.write_text(json.dumps(finished.report(notes), indent=2, ensure_ascii=False), encoding="utf-8")
        ready = [gr.DownloadButton(value=path, interactive=True) for path in (full, str(report))]
        # The ticks are the visitor's by now.
        complete = pictures._replace(download=ready[0], report=ready[1], ticks=gr.skip())
        yield _status(finished, notes, tongue, is_final=True), complete


def _status(finished: Finished, notes: Sequence[str], tongue: str, *, is_final: bool = False) -> str:
    result = finished.result
    notes = [*finished.chosen.notes, *result.notes, *notes]
    if max(result.photo.width, result.photo.height) > PREVIEW_LONG_SIDE_PX:
        notes.append(REDUCED.format(size=PREVIEW_LONG_SIDE_PX))
    return status_html(
        translate(result.summary(), tongue), [translate(note, tongue) for note in notes], is_final=is_final
    )


def _pictures(result: RestoreResult, folder: str, tongue: str) -> Shown:
    before, after, overview = (str(Path(folder, f"{name}.jpg")) for name in ("before", "after", "faces"))
    write_preview(result.before, before)
    write_preview(result.photo, after)
    factor = result.photo.width / result.original.width
    marks = [
        Marked(str(face.index), Box(*(value * factor for value in face.face.box)), face.index in result.shown)
        for face in result.faces
    ]
    write_marked_preview(result.photo, marks, overview)
    faces = [face for face in result.restored_faces if face.index in result.composition.patches]
    pairs = []
    for face in faces[:MAX_SHEET_FACES]:
        path = Path(folder, f"face-{face.index}.png")
        write_photo(Photo(pixels=face_pair(result, face)), path, has_ai=True)
        pairs.append((str(path), say(tongue, FACE_PAIR, number=face.index)))
    choices = [(say(tongue, "Face {number}", number=face.index), face.index) for face in faces]
    return Shown(
        area=gr.Column(visible=True),
        compare=(before, after),
        before=before,
        after=after,
        overview=overview,
        ticks=gr.CheckboxGroup(choices=choices, value=list(result.shown)),
        pairs=pairs,
        download=gr.skip(),
        report=gr.skip(),
    )
