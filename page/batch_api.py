"""The endpoint `restore_batch` for programs: stable, whatever the page looks like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from page.api_text import described
from page.batch_job import ZIP_NAME, BatchJob
from page.batch_tab import files_input, named_files, settings_controls
from page.jobs import sentence_of
from page.restore_tab import MAX_AT_ONCE
from page.site import Site, Upload, error_to_raise, language, step_words
from page.values import NAMES, choose


class Endpoint:
    def __init__(self, site: Site) -> None:
        self._site = site

    @described(photos="JPEG, PNG, WebP, TIFF or HEIC files; one that cannot be read does not stop the others")
    def restore_batch(
        self,
        photos: Sequence[Upload] | None,
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
        progress: gr.Progress = gr.Progress(),  # noqa: B008 - how Gradio finds that we report progress
    ) -> Iterator[tuple[str | None, dict[str, Any] | None]]:
        """Restore the faces in many photos.

        Returns a ZIP of the results, and a report of what became of each photo.
        """
        given = dict(locals())
        tongue = language(request)
        try:
            chosen = choose({name: given[name] for name in NAMES})
            job = BatchJob(self._site.get_restorer, self._site.jobs.device, named_files(photos), chosen)
            steps = self._site.jobs.run(job.work, stop=job.stop)
            while True:
                try:
                    step = next(steps)
                except StopIteration as end:
                    folder = end.value
                    break
                words = step_words(step, tongue)[1] if step is not None else ""
                progress((len(job.photos), len(job.files)), desc=words, unit="photos")
                yield None, None
        except Exception as error:
            raise error_to_raise(sentence_of(error), tongue) from error
        with folder as path:
            yield str(Path(path, ZIP_NAME)), job.to_report()


# Gradio 6.31 hands an MCP tool no list of files, and one that cannot work is not offered.
Endpoint.restore_batch._mcp_type = "none"  # type: ignore[attr-defined]


def build(site: Site) -> None:
    """Add the endpoint to the current `gr.Blocks`."""
    with gr.Row(visible=False):
        inputs: list[Any] = [files_input(site, "api_files"), *settings_controls(site, "api")]
    gr.Button(visible=False).click(
        Endpoint(site).restore_batch,
        inputs,
        [gr.File(visible=False, label="ZIP"), gr.JSON(visible=False, label="Report")],
        api_name="restore_batch",
        preprocess=False,
        concurrency_limit=MAX_AT_ONCE,
    )
