"""The endpoints for programs: stable, whatever the page looks like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr

from page.controls import (
    automatic_choice,
    background_choice,
    mode_choice,
    model_choice,
    photo_input,
    slider,
    tile_slider,
)
from page.jobs import sentence_of
from page.restore_tab import chosen_options, restoration, save_full
from page.site import Site, Upload, error_to_raise, language, own_folder, step_words


class Endpoints:
    def __init__(self, site: Site) -> None:
        self._site = site

    def restore(
        self,
        photo: Upload,
        model: str,
        strength: float,
        automatic_strength: bool,
        scale: float,
        mode: str,
        background: str,
        tile_px: int,
        overlap_px: int,
        request: gr.Request,
        progress: gr.Progress = gr.Progress(),  # noqa: B008 - how Gradio finds that we report progress
    ) -> Iterator[Any]:
        """Restore the faces in a photo: the full-quality PNG, and a report of what was done to each face."""
        tongue = language(request)
        options = chosen_options(strength, automatic_strength, scale, mode, background, tile_px, overlap_px)
        steps = self._site.jobs.run(restoration(self._site, photo, model, options))
        try:
            while True:
                try:
                    step = next(steps)
                except StopIteration as end:
                    finished = end.value
                    break
                if step is not None:
                    share, words = step_words(step, tongue)
                    progress(share, desc=words)
                yield None, None
        except Exception as error:
            raise error_to_raise(sentence_of(error), tongue) from error
        with own_folder() as folder:
            yield save_full(finished, folder), finished.result.to_report()


def build(site: Site) -> None:
    """Add the endpoints to the current `gr.Blocks`."""
    with gr.Row(visible=False):
        inputs: list[Any] = [photo_input(site), model_choice(site), slider(site, "strength"), automatic_choice(site)]
        inputs += [slider(site, "scale"), mode_choice(site), background_choice(site)]
        inputs += [tile_slider(site, "tile_px"), tile_slider(site, "overlap_px")]
    gr.Button(visible=False).click(
        Endpoints(site).restore,
        inputs,
        [gr.File(visible=False, label="Result"), gr.JSON(visible=False, label="Report")],
        api_name="restore",
        preprocess=False,
        concurrency_limit=None,
    )
