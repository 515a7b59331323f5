"""Bring one file from ModelScope or a web address into a folder. A program that `gpen_core.models.watch` starts.

It has a process of its own because ModelScope's client reads its time limits from the environment once, draws bars of
its own, cannot be stopped while it waits, and because looking up a name has no time limit anywhere.

What it has to say are lines of JSON: `{"ready": true}`, then `{"bytes": n, "sha256": "..."}` as the other side
announces the file (either may be null), and where it fails `{"error": "has no file x"}`, which goes on after the
source's name.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import requests

from gpen_core.models.watch import CONNECT_TIMEOUT_S, NUM_TRIES, PARTIAL_SUFFIX, READ_TIMEOUT_S

CHUNK_BYTES = 1 << 16


class Refused(Exception):  # noqa: N818 - not a fault of ours
    """The other side does not give the file; the message goes on after its name."""


def main(arguments: Sequence[str]) -> int:
    """`hub FOLDER REPO PATH` or `url FOLDER URL NAME`."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    kind, folder, *rest = arguments
    try:
        (_from_hub if kind == "hub" else _from_url)(Path(folder), *rest)
    except Refused as error:
        _say(error=str(error))
    except requests.RequestException as error:
        _say(error=_explain(error))
    except OSError as error:
        _say(error=f"could not be written to disk ({error.strerror})", errno=error.errno)
    else:
        return 0
    return 1


def _say(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    # Not through `sys.stdin`, whose lock the interpreter would wait for at its end.
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def _explain(error: requests.RequestException) -> str:
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return _explain_status(error.response.status_code)
    if isinstance(error, requests.ReadTimeout):
        return "did not answer in time"
    return "could not be reached"


def _explain_status(status: int) -> str:
    return "has no such file" if status == 404 else f"answered with status {status}"


def _from_hub(folder: Path, repo: str, path: str) -> None:
    try:
        from modelscope_hub import HubApi, HubConfig, errors
    except ImportError as error:
        raise Refused("needs the package modelscope-hub, which is not installed") from error

    _say(ready=True)
    # Everything that the client keeps for itself stays in our folder, also where there is no home to write to.
    token = os.environ.get("MODELSCOPE_API_TOKEN", "")
    api = HubApi(HubConfig(cache_dir=folder, config_dir=folder / "client", token=token))
    try:
        listed = next((file for file in api.list_repo_files(repo, "model") if file.path == path), None)
        if listed is None:
            raise Refused(f"has no file {path} in {repo}")
        _say(bytes=listed.size or None, sha256=(listed.sha256 or "").lower() or None)
        # Without the hash: the client would fetch a file of wrong bytes three times. `fetch` looks at them.
        api.download_file(
            repo, "model", path, local_dir=folder / "files", cache_dir=folder, file_size=listed.size or None
        )
    except errors.FileIntegrityError as error:
        raise Refused("sent another file than the one it lists") from error
    except errors.RequestTimeoutError as error:
        raise Refused("did not answer in time") from error
    except errors.NetworkError as error:
        raise Refused("could not be reached") from error
    except errors.APIError as error:
        raise Refused(_explain_status(error.status_code or 0)) from error
    except errors.HubError as error:
        raise Refused(f"refused the download ({error.message})") from error
    except (ValueError, AttributeError, TypeError) as error:
        raise Refused("answered with something else than its list of files") from error


def _from_url(folder: Path, url: str, name: str) -> None:
    _say(ready=True)
    target = folder / "files" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + PARTIAL_SUFFIX)
    for num_left in reversed(range(NUM_TRIES)):
        try:
            is_whole = _stream(url, partial)
        except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
            # Cut off in the middle: go on from there. Not even reached: that will not change in a moment.
            if not num_left or not partial.exists():
                raise
        else:
            if is_whole:
                partial.replace(target)
                return
    raise Refused("broke off the download again and again")


def _stream(url: str, partial: Path) -> bool:
    """Add to `partial` what is missing; whether it is whole then."""
    start = partial.stat().st_size if partial.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    with requests.get(url, headers=headers, stream=True, timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S)) as answer:
        if answer.status_code == 416:
            partial.unlink()
            return False
        answer.raise_for_status()
        if answer.headers.get("Content-Type", "").startswith("text/html"):
            raise Refused("answered with a web page instead of the file")
        content_range = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", answer.headers.get("Content-Range", ""))
        is_continued = answer.status_code == 206 and content_range is not None and int(content_range[1]) == start
        length = answer.headers.get("Content-Length")
        num_bytes = int(content_range[2]) if is_continued and content_range else int(length) if length else None
        _say(bytes=num_bytes, sha256=None)
        with partial.open("ab" if is_continued else "wb") as file:
            for chunk in answer.iter_content(CHUNK_BYTES):
                file.write(chunk)
            return num_bytes is None or file.tell() == num_bytes


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
