"""What all tabs share: the restorers, the device, and words in the visitor's language."""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

import gradio as gr
from gradio.i18n import I18nData
from gradio.utils import get_upload_folder, is_in_or_equal

from gpen_core.errors import PhotoError
from gpen_core.options import RuntimeOptions
from page.jobs import GetRestorer, Jobs, Step, Waiting
from page.languages import ENGLISH, LANGUAGES, language_of, say, translate
from page.texts import GONE, NO_PHOTO, STAGES, WAITING, WAITING_S

Upload: TypeAlias = dict[str, Any] | None
"""What Gradio knows of an uploaded file; its bytes are at `path`."""


@dataclass(frozen=True, slots=True)
class Site:
    """The server's one of each. Nothing of a visitor is in it."""

    get_restorer: GetRestorer
    runtime: RuntimeOptions = field(default_factory=RuntimeOptions)
    """What the server was told at its start; a visitor may choose another precision and compilation."""
    jobs: Jobs = field(default_factory=Jobs)
    labels: dict[str, dict[str, str]] = field(default_factory=lambda: {language: {} for language in LANGUAGES})
    """For `gr.I18n`: by language, what each key stands for."""
    is_plain: bool = False
    """Texts are plain English: for programs, which have no browser to translate them."""

    def label(self, sentence: str, **values: Any) -> Any:
        """A text that the browser shows in its own language: in labels, helps, choices, buttons, Markdown."""
        return self.shown(lambda language: say(language, sentence, **values))

    def shown(self, build: Callable[[str], str]) -> Any:
        """The same for a text made of several sentences: `build` gives it in a language."""
        if self.is_plain:
            return build(ENGLISH)
        texts = {language: build(language) for language in LANGUAGES}
        key = "gpen-" + hashlib.sha256(texts[LANGUAGES[0]].encode()).hexdigest()[:16]
        for language, text in texts.items():
            self.labels[language][key] = text
        return I18nData(key)

    def i18n(self) -> gr.I18n:
        return gr.I18n(**self.labels)


def language(request: gr.Request | None) -> str:
    """The language of whoever asks."""
    return language_of(request.headers.get("accept-language") if request is not None else None)


def session(request: gr.Request | None) -> str | None:
    """What tells one visitor's open page from all others."""
    return request.session_hash if request is not None else None


def upload_path(photo: Upload) -> Path:
    """Where an upload's bytes are.

    Raises:
        PhotoError: there is none, or it is not an upload.
    """
    if not photo or not photo.get("path"):
        raise PhotoError(NO_PHOTO)
    path = Path(photo["path"])
    # Gradio takes any path that a program sends for a photo; this page must not show the server's own pictures.
    if not is_in_or_equal(path, get_upload_folder()) or not path.is_file():
        raise PhotoError(GONE)
    return path


def read_upload(photo: Upload) -> tuple[str, bytes]:
    """Name and content of an upload. The core gets the content, so that no message names a path on the server.

    Raises:
        PhotoError: there is none, or it is not an upload.
    """
    path = upload_path(photo)
    return path.name, path.read_bytes()


own_folder = partial(tempfile.TemporaryDirectory, prefix="gpen-")
"""A folder for the files of one answer. Gradio copies the files of what a generator yields before it asks for more."""


def error_to_raise(sentence: str, language: str, *, is_shown: bool = True) -> gr.Error:
    """Ends an event, with a toast where it `is_shown`. Gradio shows its message as HTML."""
    message = escape(translate(sentence, language), quote=False)
    return gr.Error(message, visible=is_shown, print_exception=False)


def step_words(step: Step, language: str) -> tuple[float, str]:
    """How far work is, 0 to 1, and in words."""
    if isinstance(step, Waiting):
        seconds = math.ceil(step.seconds)
        words = say(language, WAITING_S if seconds else WAITING, number=step.num_ahead, seconds=seconds)
        return 0.0, words
    begin, end, words = STAGES[step.stage]
    counted = step.detail or (f"{step.done} of {step.total}" if step.total > 1 else "")
    share = begin + (end - begin) * min(step.done / max(step.total, 1), 1)
    words, counted = translate(words, language), translate(counted, language)
    return share, f"{words} ({counted})" if words and counted else words or counted.capitalize()


def status_html(
    headline: str, notes: list[str] | None = None, share: float | None = None, *, is_final: bool = False
) -> str:
    """A sentence, what is to be noted, and a bar while work goes on; `is_final` where nothing is to come."""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes or [])
    bar = "" if share is None else f'<progress max="1" value="{share:.3f}" aria-hidden="true"></progress>'
    mark = ' class="final"' if is_final else ""
    return f"<p{mark}>{escape(headline)}</p>" + (f"<ul>{items}</ul>" if items else "") + bar
