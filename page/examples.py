"""Photos to try the page with, named in words of two languages: Gradio translates no example's name."""

from __future__ import annotations

from pathlib import Path

import gradio as gr

from page.site import Site

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = {
    "group.jpg": "Album page, three people 相册合影",
    "obama-faded.jpg": "Faded portrait 褪色肖像",
    "biden-sepia.jpg": "Sepia, scratched 棕褐色旧照",
    "astronaut-small.jpg": "Small and compressed 小尺寸照片",
    "astronaut-gray-noisy.png": "Grey and noisy 黑白噪点照片",
}


def add_examples(site: Site, photo: gr.Image, elem_id: str) -> None:
    """Put the examples' names below what is built so far; a click on one puts the photo into `photo`."""
    gr.Examples(
        [[str(FOLDER / name)] for name in EXAMPLES],
        [photo],
        example_labels=list(EXAMPLES.values()),
        label=site.label("Try an example"),
        elem_id=elem_id,
        api_visibility="private",
    )
