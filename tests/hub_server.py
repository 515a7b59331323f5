"""A ModelScope on localhost: the two requests its client makes (list of files, file with ranges), and plain files.

It can misbehave as real servers do. `python -m tests.hub_server FOLDER PORT` serves `FOLDER/iic/NAME/...` by hand.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

CHUNK = 1 << 20


@dataclass
class Fault:
    """What goes wrong when a path is asked for, and how often."""

    kind: str
    """cut, stall, drip, wrong, zeroed, html, status"""
    after: int = 0
    """Bytes that are sent before a cut or a stall; the status's number."""
    times: int = 1000


class HubServer:
    """Starts at once; use as a context manager. `files` maps `owner/name/path` and `plain/name` to content."""

    def __init__(self, port: int = 0) -> None:
        self.files: dict[str, Path] = {}
        self.faults: dict[str, Fault] = {}
        self.asked: list[str] = []
        """Path and range of each file that was asked for, in order: `plain/x.pth 0-`."""
        self.num_bytes_sent: Counter[str] = Counter()
        self.is_closing = threading.Event()
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> HubServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_closing.set()
        self._server.shutdown()
        self._server.server_close()

    def listing(self, repo: str) -> list[dict]:
        found = {key.removeprefix(f"{repo}/"): path for key, path in self.files.items() if key.startswith(f"{repo}/")}
        return [
            {"Path": name, "Name": Path(name).name, "Type": "blob", "Size": path.stat().st_size, "Sha256": sha256(path)}
            for name, path in found.items()
        ]


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        repo = re.fullmatch(r"/api/v1/models/([^/]+/[^/]+)/repo(/files)?", parts.path)
        try:
            if repo and repo[2]:
                self._list(repo[1])
            elif repo:
                self._send_file(f"{repo[1]}/{query['FilePath']}")
            elif parts.path.startswith("/plain/"):
                self._send_file(parts.path.removeprefix("/"))
            else:
                self._send(404, b"{}", "application/json")
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _list(self, repo: str) -> None:
        fault = self.hub.faults.get(repo)
        if fault and fault.kind == "html":
            self._send(200, b"<html>log in to the hotel's network</html>", "text/html")
        elif fault and fault.kind == "status":
            self._send(fault.after, b"{}", "application/json")
        elif fault and fault.kind == "stall":
            self.hub.is_closing.wait(30)
        else:
            body = json.dumps({"Code": 200, "Success": True, "Data": {"Files": self.hub.listing(repo)}})
            self._send(200, body.encode(), "application/json")

    def _send_file(self, key: str) -> None:
        asked = self.headers.get("Range", "bytes=0-").removeprefix("bytes=")
        self.hub.asked.append(f"{key} {asked}")
        path, fault = self.hub.files.get(key), self._fault(key)
        if path is None or (fault and fault.kind == "status"):
            self._send(fault.after if fault else 404, b'{"Code": 404, "Message": "no such file"}', "application/json")
            return
        if fault and fault.kind == "html":
            self._send(200, b"<html>log in to the hotel's network</html>", "text/html; charset=utf-8")
            return
        start, size = int(asked.split("-")[0]), path.stat().st_size
        if start >= size:
            self._send(416, b"", "text/plain")
            return
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(size - start))
        if "Range" in self.headers:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.end_headers()
        self._send_bytes(key, path, start, size, fault)

    def _send_bytes(self, key: str, path: Path, start: int, size: int, fault: Fault | None) -> None:
        end = size if fault is None or fault.kind in ("wrong", "zeroed") else min(size, max(fault.after, start))
        with path.open("rb") as file:
            file.seek(start)
            while start < end:
                chunk = file.read(min(CHUNK, end - start))
                self.wfile.write(self._spoil(chunk, start, size, fault))
                self.hub.num_bytes_sent[key] += len(chunk)
                start += len(chunk)
            if fault and fault.kind == "stall":
                self.hub.is_closing.wait(30)
            while fault and fault.kind == "drip" and not self.hub.is_closing.wait(0.05):
                self.wfile.write(file.read(1))
        self.close_connection = end < size

    def _spoil(self, chunk: bytes, start: int, size: int, fault: Fault | None) -> bytes:
        if fault is None or fault.kind not in ("wrong", "zeroed"):
            return chunk
        first = 0 if fault.kind == "wrong" else max(0, size - size // 4 - start)
        return chunk[:first] + bytes(len(chunk) - min(first, len(chunk)))

    def _fault(self, key: str) -> Fault | None:
        fault = self.hub.faults.get(key)
        if fault is None or not fault.times:
            return None
        fault.times -= 1
        return fault


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


def main() -> None:
    root, port = Path(sys.argv[1]), int(sys.argv[2])
    with HubServer(port) as server:
        server.files = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
        print(f"MODELSCOPE_ENDPOINT={server.url}", *server.files, sep="\n", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
