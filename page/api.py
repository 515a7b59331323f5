"""The endpoints for programs: stable, whatever the page looks like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gradio as gr

from page.api_text import described
from page.controls import automatic_choice, control, model_choice, photo_input
from page.jobs import sentence_of
from page.restore_tab import MAX_AT_ONCE, restoration
from page.result_view import Finished
from page.site import Site, Upload, error_to_raise, language, own_folder, read_upload, step_words
from page.values import AUTOMATIC, NAMES

MASK_HELP = "for models that fill parts of faces: a picture of the photo's size, white where it is to be filled"


class Endpoints:
    """What programs call. Their parameters' defaults are those of the page's controls."""

    def __init__(self, site: Site) -> None:
        self._site = site

    @described(photo="a JPEG, PNG, WebP, TIFF or HEIC file", inpaint_mask=MASK_HELP)
    def restore(
        self,
        photo: Upload,
        model: str,
        strength: float,
        automatic_strength: bool,
        mode: str,
        scale: float,
        background: str,
        background_strength: float,
        faces: str,
        threshold: float,
        min_face_px: int,
        mask: str,
        sharp_faces: str,
        keep_tone: bool,
        lock_color: bool,
        grain: bool,
        accept_damaged: bool,
        tile_px: int,
        overlap_px: int,
        precision: str,
        compile: bool,
        format: str,
        strip_metadata: bool,
        request: gr.Request,
        inpaint_mask: Upload = None,
        progress: gr.Progress = gr.Progress(),  # noqa: B008 - how Gradio finds that we report progress
    ) -> Iterator[Any]:
        """Restore the faces in a photo.

        Returns the full-quality file, and a report: what ran, what became of each face, and notes on all that fell
        back, was skipped or failed.
        """
        given = dict(locals())
        tongue = language(request)
        values = {name: given[name] for name in NAMES}
        try:
            marked = read_upload(inpaint_mask)[1] if inpaint_mask else None
            steps = self._site.jobs.run(restoration(self._site, photo, values, marked))
            while True:
                try:
                    step = next(steps)
                except StopIteration as end:
                    finished: Finished = end.value
                    break
                if step is not None:
                    share, words = step_words(step, tongue)
                    progress(share, desc=words)
                # So that it ends when the caller leaves.
                yield None, None
        except Exception as error:
            raise error_to_raise(sentence_of(error), tongue) from error
        with own_folder() as folder:
            path, notes = finished.save(folder)
            yield path, finished.report(notes)


def build(site: Site) -> None:
    """Add the endpoints to the current `gr.Blocks`."""
    plain = replace(site, is_plain=True)
    with gr.Row(visible=False):
        controls = {"model": model_choice(plain, has_masks=True), AUTOMATIC: automatic_choice(plain)}
        controls |= {name: control(plain, name) for name in NAMES if name not in controls}
        inputs = [photo_input(plain), *(controls[name] for name in NAMES)]
        inputs.append(gr.Image(type="filepath", image_mode=None, label="Inpaint mask"))
    gr.Button(visible=False).click(
        Endpoints(site).restore,
        inputs,
        [gr.File(visible=False, label="Result"), gr.JSON(visible=False, label="Report")],
        api_name="restore",
        preprocess=False,
        concurrency_limit=MAX_AT_ONCE,
    )
