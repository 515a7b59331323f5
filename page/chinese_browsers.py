"""Chinese for browsers that call it zh, zh-HK or zh-Hant: Gradio's own look-up knows zh-CN and zh-TW only.

It asks `navigator.language` before any script that Gradio lets a page add, so this one goes into the page's HTML.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

SCRIPT = b"""<script>(() => {
const spoken = navigator.language.toLowerCase();
if (!spoken.startsWith("zh") || ["zh-cn", "zh-tw"].includes(spoken)) return;
const known = /-(tw|hk|mo|hant)\\b/.test(spoken) ? "zh-TW" : "zh-CN";
Object.defineProperty(Navigator.prototype, "language", { get: () => known });
})()</script>"""
HEAD = b"<head>"


class ChineseBrowsers:
    """ASGI middleware that adds the script to the page, and leaves all else as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].endswith("/"):
            await self._app(scope, receive, send)
            return
        begun: list[Message] = []

        async def send_changed(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_page(message):
                begun.append(message)
                return
            if begun and message["type"] == "http.response.body":
                start = begun.pop()
                body = message["body"].replace(HEAD, HEAD + SCRIPT, 1)
                start["headers"] = [
                    (name, str(len(body)).encode() if name == b"content-length" else value)
                    for name, value in start["headers"]
                ]
                await send(start)
                message = {**message, "body": body}
            await send(message)

        await self._app(scope, receive, send_changed)


def _is_page(message: MutableMapping[str, Any]) -> bool:
    headers: dict[bytes, bytes] = dict(message["headers"])
    return headers.get(b"content-type", b"").startswith(b"text/html")
