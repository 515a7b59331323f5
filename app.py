"""The page: a photo goes in, the restored one comes out, and a line says what really ran.

Builds its controls from `gpen_core.options` and hands every photo to a `Restorer`; it computes no pixel itself.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
# With a proxy set and this not, Gradio's start-up check of its own server would go to the proxy and fail.
os.environ["NO_PROXY"] = ",".join(filter(None, (os.environ.get("NO_PROXY"), "127.0.0.1", "localhost")))

import gradio as gr
from gradio.utils import get_upload_folder, is_in_or_equal

from gpen_core.cache_dir import cache_folder
from gpen_core.errors import GpenError, OptionError, PhotoError
from gpen_core.models.registry import SPECS
from gpen_core.models.weights import describe_identity, is_present
from gpen_core.options import RestoreOptions, RuntimeOptions, Strength, allowed, default
from gpen_core.photo.preview import PREVIEW_LONG_SIDE_PX, write_preview
from gpen_core.types import OnProgress, Progress
from page.controls import (
    automatic_choice,
    background_choice,
    mode_choice,
    model_choice,
    photo_input,
    slider,
    tile_slider,
)
from page.texts import (
    ABOUT,
    CRASHED,
    CSS,
    LICENCES,
    MAX_FILE_SIZE,
    NO_PHOTO,
    RUNNING,
    STAGES,
    START,
    TITLE,
    WARNING,
)

if TYPE_CHECKING:
    from gpen_core.restorer import Restorer
    from gpen_core.result import RestoreResult

GetRestorer: TypeAlias = "Callable[[str, OnProgress], Restorer]"
Upload: TypeAlias = dict[str, Any] | None
"""What Gradio knows of an uploaded file; its bytes are at `path`."""

STATE_LIFE_S = 3600
RUNTIME_FLAGS = ("device", "precision", "compile", "unload_after_s")
CACHE_SWEEP_S, CACHE_LIFE_S = 3600, 7200


class Restorers:
    """One `Restorer` a model, loaded at its first use, fetched before if need be, and shared by all visitors."""

    def __init__(self, runtime: RuntimeOptions) -> None:
        self._runtime = runtime
        self._loaded: dict[str, Restorer] = {}
        self._lock = threading.Lock()

    def __call__(self, model: str, report: OnProgress) -> Restorer:
        from gpen_core.restorer import Restorer  # here, because it loads torch

        with self._lock:
            if model not in self._loaded:
                runtime = replace(self._runtime, model=model)
                self._loaded[model] = Restorer(runtime=runtime, on_progress=report)
            return self._loaded[model]


class Finished(NamedTuple):
    """A visitor's last result, kept so that another strength needs no network."""

    result: RestoreResult
    photo_name: str


class View(NamedTuple):
    """New values for the page's outputs, in the order its events list them."""

    result: Any
    status: Any
    download: Any
    finished: Any


class Handlers:
    """What happens when something is pressed.

    Generators: Gradio copies the files of what is yielded before it asks for more, so our own are gone right after,
    also when the visitor has left.
    """

    def __init__(self, get_restorer: GetRestorer) -> None:
        self._get_restorer = get_restorer

    def restore_for_visitor(
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
        progress: gr.Progress = gr.Progress(),  # noqa: B008 - how Gradio finds that we report progress
    ) -> Iterator[View]:
        yield empty_view(RUNNING)
        try:
            options = chosen_options(strength, is_automatic, scale, mode, background, tile_px, overlap_px)
            finished = self._run(photo, model, options, progress)
        except gr.Error as error:
            yield empty_view(f"Not restored: {error.__cause__}")
            raise
        yield from show(finished)

    def recompose(self, strength: float, is_automatic: bool, finished: Finished | None) -> Iterator[Any]:
        wanted = chosen_strength(strength, is_automatic)
        if finished is None or finished.result.strength == wanted:
            yield gr.skip()
            return
        yield from show(finished._replace(result=finished.result.recompose(strength=wanted)))

    def restore_for_program(
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
        progress: gr.Progress = gr.Progress(),  # noqa: B008
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Restore the faces in a photo: the full-quality PNG, and a report of what was done to each face."""
        options = chosen_options(strength, automatic_strength, scale, mode, background, tile_px, overlap_px)
        finished = self._run(photo, model, options, progress)
        with tempfile.TemporaryDirectory(prefix="gpen-") as folder:
            yield save_full(finished, folder), finished.result.to_report()

    def _run(self, photo: Upload, model: str, chosen: dict[str, Any], progress: gr.Progress) -> Finished:
        report = progress_for(progress)
        try:
            options = RestoreOptions(**chosen)
            path, content = read_upload(photo)
            report(Progress("prepare", 0, 1))
            return Finished(self._get_restorer(model, report).restore(content, options, report), path.name)
        except GpenError as error:
            # Gradio shows the message as HTML.
            raise gr.Error(escape(str(error), quote=False), print_exception=False) from error


def chosen_strength(strength: float, is_automatic: bool) -> Strength:
    return "auto" if is_automatic else strength


def chosen_options(
    strength: float, is_automatic: bool, scale: float, mode: str, background: str, tile_px: int, overlap_px: int
) -> dict[str, Any]:
    """The controls' values as `RestoreOptions` takes them. In faces mode tiles are left to the machine."""
    chosen = {"strength": chosen_strength(strength, is_automatic), "scale": scale, "mode": mode}
    lengths = {"tile_px": tile_px, "overlap_px": overlap_px} if mode != default(RestoreOptions, "mode") else {}
    return {**chosen, "background": background, **{name: value or "auto" for name, value in lengths.items()}}


def read_upload(photo: Upload) -> tuple[Path, bytes]:
    """Path and content of an upload. The core gets the content, so that no message names a path on the server."""
    if not photo or not photo.get("path"):
        raise PhotoError(NO_PHOTO)
    path = Path(photo["path"])
    # Gradio takes any path that a program sends for a photo; this page must not show the server's own pictures.
    if not is_in_or_equal(path, get_upload_folder()) or not path.is_file():
        raise PhotoError("The photo is not on the server, or no longer; add it again.")
    return path, path.read_bytes()


def progress_for(progress: gr.Progress) -> Callable[[Progress], None]:
    def report(step: Progress) -> None:
        begin, end, words = STAGES[step.stage]
        counted = step.detail or (f"{step.done} of {step.total}" if step.total > 1 else "")
        share = min(step.done / max(step.total, 1), 1)
        progress(
            begin + (end - begin) * share,
            desc=f"{words} ({counted})" if words and counted else words or counted.capitalize(),
        )

    return report


def empty_view(headline: str) -> View:
    return View(None, status_html(headline), gr.DownloadButton(value=None, interactive=False), None)


def show(finished: Finished) -> Iterator[View]:
    """First the light pictures, then the download: a large PNG takes longer to write than all the rest."""
    result = finished.result
    notes = list(result.notes)
    if max(result.photo.width, result.photo.height) > PREVIEW_LONG_SIDE_PX:
        notes.append(f"The picture here is reduced to {PREVIEW_LONG_SIDE_PX} px; the download has the full size.")
    status = status_html(f"{finished.photo_name}: {result.summary()}", notes)
    with tempfile.TemporaryDirectory(prefix="gpen-") as folder:
        before, after = Path(folder, "before.jpg"), Path(folder, "after.jpg")
        write_preview(result.before, before)
        write_preview(result.photo, after)
        yield View((before, after), status, gr.DownloadButton(value=None, interactive=False), finished)
        full = save_full(finished, folder)
        yield View(gr.skip(), gr.skip(), gr.DownloadButton(value=full, interactive=True), gr.skip())


def save_full(finished: Finished, folder: str) -> str:
    # Gradio serves no file whose name begins with a dot.
    stem = Path(finished.photo_name).stem.lstrip(".") or "photo"
    path = Path(folder, f"{stem}_{finished.result.model}.png")
    finished.result.save(path)
    return str(path)


def status_html(headline: str, notes: list[str] | None = None) -> str:
    items = "".join(f"<li>{escape(note)}</li>" for note in notes or [])
    return f"<p>{escape(headline)}</p>" + (f"<ul>{items}</ul>" if items else "")


def explain_crash(status: str) -> Any:
    """For errors that nobody meant: the run is over, and its status still says that it goes on."""
    return status_html(CRASHED) if status == status_html(RUNNING) else gr.skip()


def has_photo(photo: Upload, *others: Any) -> list[Any]:
    """One answer an input, as Gradio wants it; only the photo can be missing."""
    return [gr.validate(bool(photo), NO_PHOTO), *(None for _ in others)]


def build_page(get_restorer: GetRestorer) -> gr.Blocks:
    """The page over whatever `get_restorer` gives for a model's name. Loads and starts nothing."""
    page: gr.Blocks
    with gr.Blocks(title=TITLE, analytics_enabled=False, delete_cache=(CACHE_SWEEP_S, CACHE_LIFE_S)) as page:
        gr.Markdown(f"# {TITLE}\n{WARNING}")
        with gr.Row():
            with gr.Column(scale=4):
                inputs = [photo_input(), model_choice(), slider("strength"), automatic_choice(), slider("scale")]
                inputs += [mode_choice(), background_choice(), tile_slider("tile_px"), tile_slider("overlap_px")]
                run = gr.Button("Restore", variant="primary", elem_id="run")
            with gr.Column(scale=6):
                set_live = "element.setAttribute('aria-live', 'polite')"
                status = gr.HTML(status_html(START), elem_id="status", js_on_load=set_live, padding=True)
                result = gr.ImageSlider(
                    interactive=False,
                    buttons=["fullscreen"],
                    max_height=560,
                    label="Left: before · right: after",
                    elem_id="result",
                )
                download = gr.DownloadButton("Download full-quality PNG", interactive=False, elem_id="download")
        with gr.Accordion(ABOUT, open=False, elem_id="about"):
            gr.Markdown(about_text())
        gr.Markdown(LICENCES, elem_id="licence")
        connect(Handlers(get_restorer), inputs, run, [result, status, download])
    page.queue(max_size=16, default_concurrency_limit=4)
    return page


def connect(handlers: Handlers, inputs: list[Any], run: gr.Button, shown: list[Any]) -> None:
    """Tie the controls to the handlers, and add the endpoint for programs."""
    photo, _, strength, automatic, *_ = inputs
    result, status, _ = shown
    outputs = [*shown, gr.State(time_to_live=STATE_LIFE_S)]
    # Without preprocessing: Gradio's own opens the photo before us, and fails without a word on what it cannot read.
    # The core checks every value itself.
    runs: dict[str, Any] = {"preprocess": False, "concurrency_id": "restore", "concurrency_limit": 1}
    private: dict[str, Any] = {"api_visibility": "private", "show_progress_on": [result]}
    recompose: dict[str, Any] = {
        "fn": handlers.recompose,
        "inputs": [strength, automatic, outputs[-1]],
        "outputs": outputs,
    }
    running = run.click(handlers.restore_for_visitor, inputs, outputs, validator=has_photo, **runs, **private)
    running.failure(explain_crash, status, status, show_progress="hidden", **private)
    # The strength may have been moved meanwhile.
    running.success(**recompose, show_progress="hidden", **private)
    # `change` and not `release`, which the arrow keys do not cause.
    for control in (strength, automatic):
        control.change(**recompose, trigger_mode="always_last", show_progress="minimal", **private)
    photo.change(lambda: empty_view(START), None, outputs, show_progress="hidden", **private)
    gr.Button(visible=False).click(
        handlers.restore_for_program,
        inputs,
        [gr.File(visible=False, label="Result"), gr.JSON(visible=False, label="Report")],
        api_name="restore",
        **runs,
    )


def about_text() -> str:
    folder = str(cache_folder() or "a folder named in GPEN_CACHE").replace(os.path.expanduser("~"), "~", 1)  # noqa: PTH111
    lines = [f"**Models.** The file of a missing one belongs into `{folder}`; then start the page again.\n"]
    for spec in SPECS.values():
        if spec.role == "generator":
            where = "ready" if is_present(spec) else f"missing: `{describe_identity(spec)}`"
            lines.append(f"- **{spec.name}** ({where}). {spec.summary} Licence: {spec.licence}.")
    hours = (CACHE_SWEEP_S + CACHE_LIFE_S) // 3600
    return "\n".join(
        [
            *lines,
            f"\n**Limits.** {WARNING} Scratches, and damage outside the faces, stay.\n",
            f"**Privacy.** Photos go only to the machine that runs this page, which deletes them within {hours} hours.",
        ]
    )


def launch_settings() -> dict[str, Any]:
    # Gradio's default in blue, with the contrast that WCAG AA asks for in light and in dark.
    theme = gr.themes.Default(primary_hue="blue", neutral_hue="slate").set(
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_background_fill_dark="*primary_700",
        button_primary_background_fill_hover_dark="*primary_600",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_300",
        block_title_text_color="*neutral_700",
        block_label_text_color="*neutral_700",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_300",
    )
    return {
        "theme": theme,
        "css": CSS,
        "run_history": False,  # it would list every visitor's photos in the browser
        "footer_links": ["api", "settings"],
        "max_file_size": MAX_FILE_SIZE,
        "state_session_capacity": 32,  # results kept at once, each a few times its photo's pixels
        "ssr_mode": False,
        "show_error": False,
    }


def add_flag(parser: argparse.ArgumentParser, name: str) -> None:
    limits, value = allowed(RuntimeOptions, name), default(RuntimeOptions, name)
    kind: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
    if not isinstance(value, bool):
        kind = {"type": type(value), "choices": limits.choices}
    flag = "--" + name.removesuffix("_s").replace("_", "-")
    parser.add_argument(flag, dest=name, default=value, help=f"{limits.help} (default: {value})", **kind)


def main() -> None:
    parser = argparse.ArgumentParser(description="Start the page for restoring photos in the browser.")
    parser.add_argument("--host", help="address to listen on (default: GRADIO_SERVER_NAME, else 127.0.0.1)")
    parser.add_argument(
        "--port", type=int, help="port to listen on (default: GRADIO_SERVER_PORT, else the first free one from 7860)"
    )
    for name in RUNTIME_FLAGS:
        add_flag(parser, name)
    args = parser.parse_args()
    try:
        runtime = RuntimeOptions(**{name: getattr(args, name) for name in RUNTIME_FLAGS})
    except OptionError as error:
        parser.error(str(error))
    # Being stopped is as good as Ctrl-C: the photos are deleted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Gradio's own folder for uploads is shared by all users of the machine, and stays.
    with tempfile.TemporaryDirectory(prefix="gpen-page-", ignore_cleanup_errors=True) as folder:
        os.environ.setdefault("GRADIO_TEMP_DIR", folder)
        page = build_page(Restorers(runtime))
        with suppress(KeyboardInterrupt):  # also while it is still starting
            page.launch(server_name=args.host, server_port=args.port, **launch_settings())


if __name__ == "__main__":
    main()
