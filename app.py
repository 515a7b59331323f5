"""The page: a photo goes in, the restored one comes out, and a line says what really ran.

Builds its tabs from `page/` and hands every photo to a `Restorer`; it computes no pixel itself.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
from contextlib import suppress
from typing import Any

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
# With a proxy set and this not, Gradio's start-up check of its own server would go to the proxy and fail.
os.environ["NO_PROXY"] = ",".join(filter(None, (os.environ.get("NO_PROXY"), "127.0.0.1", "localhost")))

import gradio as gr
from starlette.middleware import Middleware

from gpen_core.errors import GpenError, OptionError
from gpen_core.models.registry import SPECS, STARTER, get_spec
from gpen_core.models.weights import best_present, describe_identity, is_present
from gpen_core.options import RuntimeOptions, allowed, default
from page import api, batch_api, batch_tab, check_tab, restore_tab
from page.chinese_browsers import ChineseBrowsers
from page.jobs import Restorers
from page.languages import say
from page.site import Site
from page.texts import ABOUT, HEADING, LICENCES, MAX_FILE_SIZE, MODELS, PRIVACY, TITLE, WARNING
from page.theme import CSS, theme

RUNTIME_FLAGS = ("device", "precision", "compile", "unload_after_s")
CACHE_SWEEP_S, CACHE_LIFE_S = 3600, 7200
TABS = (("Restore", restore_tab.build), ("Quality check", check_tab.build), ("Many photos", batch_tab.build))


def build_page(site: Site) -> gr.Blocks:
    """The page over a site. Loads and starts nothing."""
    page: gr.Blocks
    with gr.Blocks(title=TITLE, analytics_enabled=False, delete_cache=(CACHE_SWEEP_S, CACHE_LIFE_S)) as page:
        api.build(site)  # first, so that its names are its own
        batch_api.build(site)
        gr.Markdown(site.shown(lambda language: f"# {say(language, HEADING)}\n{say(language, WARNING)}"))
        with gr.Tabs():
            for name, build in TABS:
                with gr.Tab(site.label(name), id=name):
                    build(site)
        with gr.Accordion(site.label(ABOUT), open=False, elem_id="about"):
            gr.Markdown(site.shown(about_text))
        gr.Markdown(licences(site), elem_id="licence")
    page.queue(max_size=32, default_concurrency_limit=4)
    return page


def licences(site: Site) -> Any:
    official = get_spec("gpen-bfr-512").licence_text
    return site.label(LICENCES, starter=STARTER.name, free=STARTER.licence, official=official)


def about_text(language: str) -> str:
    lines = [say(language, MODELS) + "\n"]
    for spec in SPECS.values():
        if spec.role == "generator":
            where = "ready" if is_present(spec) else "missing: `{file}`"
            where = say(language, where, file=describe_identity(spec))
            sentence = "- **{model}** ({where}). {summary} Licence: {licence}."
            values = {"model": spec.name, "where": where, "summary": spec.summary, "licence": spec.licence}
            lines.append(say(language, sentence, **values))
    limits = say(language, "**Limits.** {warning} Scratches, and damage outside the faces, stay.", warning=WARNING)
    hours = (CACHE_SWEEP_S + CACHE_LIFE_S) // 3600
    return "\n".join([*lines, f"\n{limits}\n", say(language, PRIVACY, hours=hours)])


def launch_settings(site: Site) -> dict[str, Any]:
    return {
        "theme": theme(),
        "css": CSS,
        "i18n": site.i18n(),
        "run_history": False,  # it would list every visitor's photos in the browser
        "footer_links": ["api", "settings"],
        "max_file_size": MAX_FILE_SIZE,
        "state_session_capacity": 32,  # results kept at once, each a few times its photo's pixels
        "ssr_mode": False,
        "app_kwargs": {"middleware": [Middleware(ChineseBrowsers)]},
        "show_error": False,
    }


def add_flag(parser: argparse.ArgumentParser, name: str) -> None:
    limits, value = allowed(RuntimeOptions, name), default(RuntimeOptions, name)
    kind: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
    if not isinstance(value, bool):
        kind = {"type": type(value), "choices": limits.choices}
    flag = "--" + name.removesuffix("_s").replace("_", "-")
    parser.add_argument(flag, dest=name, default=value, help=f"{limits.help} (default: {value})", **kind)


def load_first(site: Site) -> None:
    """Load what a visitor gets who chooses nothing, so that the first one waits for less."""
    with suppress(GpenError):  # the first visitor hears of it
        runtime = site.runtime
        name = best_present().name
        site.get_restorer(name, lambda step: None, precision=runtime.precision, compile=runtime.compile)


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
        site = Site(Restorers(runtime), runtime)
        page = build_page(site)
        loading = threading.Thread(target=load_first, args=(site,), daemon=True)
        loading.start()
        try:
            with suppress(KeyboardInterrupt):  # also while it is still starting
                page.launch(server_name=args.host, server_port=args.port, **launch_settings(site))
        except OSError:
            where = f"{args.host or 'this machine'}, port {args.port or 'from 7860'}"
            parser.error(f"{where}, is taken or not this machine's; choose another --port or --host.")
        finally:
            loading.join()  # torch aborts a program that ends in the midst of its import


if __name__ == "__main__":
    main()
