"""Start the transfer program and watch it: what it says, how the file grows, and whether it has stopped growing."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gpen_core.cache_dir import CACHE_VARIABLE
from gpen_core.errors import WeightsError
from gpen_core.models.registry import ModelSpec
from gpen_core.models.sources import Offer
from gpen_core.types import OnProgress, Progress

PARTIAL_SUFFIX = ".incomplete"
"""As ModelScope's client names what it has not finished."""
CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 10
NUM_TRIES = 3
HUB_LIMITS = {
    "MODELSCOPE_API_CONNECT_TIMEOUT": str(CONNECT_TIMEOUT_S),
    "MODELSCOPE_DOWNLOAD_TIMEOUT": str(READ_TIMEOUT_S),
    "MODELSCOPE_DOWNLOAD_MAX_RETRIES": str(NUM_TRIES - 1),
    "MODELSCOPE_REPO_TREE_PAGE_TIMEOUT_SECONDS": "10",
    "MODELSCOPE_REPO_TREE_PAGE_MAX_ATTEMPTS": "1",
    "TQDM_DISABLE": "1",
}
"""Environment of the transfer program, unless the user has set their own."""
ANSWER_TIMEOUT_S = 10.0
"""From the start of the program to the answer that announces the file: look-up of the name, 5 s to connect, list."""
STALL_TIMEOUT_S = 25.0
"""Longer than the program waits for bytes, so that it can take up a connection again that has gone dead."""
MIN_STEP_BYTES = 1 << 14
"""Fewer new bytes within the time-out count as none."""
POLL_S = 0.1


class Unobtainable(Exception):  # noqa: N818 - an answer, not a fault
    """Nobody gives the file. The message says why, source by source."""


@dataclass(frozen=True, slots=True)
class Announced:
    """What a source says of the file before it sends it."""

    num_bytes: int | None
    sha256: str | None


def transfer(offer: Offer, spec: ModelSpec, folder: Path, received: Path, report: OnProgress) -> Announced:
    """Let the transfer program bring the file to `received`."""
    package_root = str(Path(__file__).parents[2])
    paths = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH"))))
    kind, where, file = offer.arguments
    command = [sys.executable, "-m", "gpen_core.models.transfer", kind, str(folder), where, file]
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            cwd=package_root,
            env={**HUB_LIMITS, **os.environ, "PYTHONPATH": paths},
        ) as program,
    ):
        try:
            announced = _Watch(offer, spec, folder, report).follow(program)
        finally:
            program.kill()
        if announced is None or not received.is_file():
            complaints.seek(0)
            last = (complaints.read().decode(errors="replace").strip().splitlines() or ["no reason given"])[-1]
            raise Unobtainable(f"{offer.words} could not be asked ({last})")
    return announced


class _Watch:
    """Follows a transfer program: what it says, how the file grows, and whether it has stopped growing."""

    def __init__(self, offer: Offer, spec: ModelSpec, folder: Path, report: OnProgress) -> None:
        self._offer = offer
        self._spec = spec
        self._folder = folder
        self._received = folder / "files" / offer.file
        self._report = report
        self._announced: Announced | None = None
        self._begun_s = self._last_step_s = time.monotonic()
        self._begun_at = self._last_step_at = self._num_bytes()

    def follow(self, program: subprocess.Popen[bytes]) -> Announced | None:
        """What was announced, once the program has ended; None where it ended before.

        Raises:
            Unobtainable: it failed, or nothing came for too long.
            WeightsError: the disk is full.
        """
        assert program.stdout is not None
        messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=_listen, args=(program.stdout, messages), daemon=True).start()
        while True:
            try:
                message = messages.get(timeout=POLL_S)
                if message is None:
                    self._look()
                    return self._announced
                self._hear(message)
            except queue.Empty:
                self._look()

    def _hear(self, message: dict[str, Any]) -> None:
        self._last_step_s = time.monotonic()
        if message.get("errno") in (errno.ENOSPC, errno.EDQUOT):
            raise self._disk_full()
        if "error" in message:
            raise Unobtainable(f"{self._offer.words} {message['error']}")
        if "bytes" in message:
            self._announced = Announced(message["bytes"], message["sha256"])
            self._check_announced(self._announced)

    def _check_announced(self, announced: Announced) -> None:
        known = self._offer.sha256
        if known is not None and (
            announced.sha256 not in (None, known) or announced.num_bytes not in (None, self._spec.num_bytes)
        ):
            raise Unobtainable(f"{self._offer.words} has another file under this name")
        if announced.num_bytes is not None:
            free = shutil.disk_usage(self._folder).free
            if announced.num_bytes - self._num_bytes() > free:
                raise self._disk_full()

    def _look(self) -> None:
        now, num_bytes = time.monotonic(), self._num_bytes()
        if num_bytes - self._last_step_at >= MIN_STEP_BYTES:
            self._last_step_s, self._last_step_at = now, num_bytes
        if self._announced is None:
            if now - self._last_step_s > ANSWER_TIMEOUT_S:
                raise Unobtainable(f"{self._offer.words} did not answer in time")
            return
        if now - self._last_step_s > STALL_TIMEOUT_S:
            raise Unobtainable(f"{self._offer.words} sent nothing for {STALL_TIMEOUT_S:.0f} s")
        total = self._announced.num_bytes or 0
        speed = (num_bytes - self._begun_at) / max(now - self._begun_s, POLL_S)
        of_all = f" of {in_megabytes(total)}" if total else ""
        words = f"{self._spec.name}, {in_megabytes(num_bytes)}{of_all} MB, {in_megabytes(speed)} MB/s"
        self._report(Progress("fetch", num_bytes, total, words))

    def _num_bytes(self) -> int:
        """Of the file so far."""
        partial = self._received.with_name(self._received.name + PARTIAL_SUFFIX)
        for path in (self._received, partial):
            with contextlib.suppress(OSError):
                return path.stat().st_size
        return 0

    def _disk_full(self) -> WeightsError:
        needed = self._announced.num_bytes if self._announced else self._spec.num_bytes
        size = f"{in_megabytes(needed)} MB" if needed else "more room"
        return WeightsError(
            f"The disk is full: {self._spec.name} needs {size} in {self._folder.parents[2]}; free some room, or name a "
            f"folder on another disk in {CACHE_VARIABLE}."
        )


def _listen(stream: IO[bytes], messages: queue.Queue[dict[str, Any] | None]) -> None:
    for line in stream:
        with contextlib.suppress(ValueError):
            messages.put(json.loads(line))
    messages.put(None)


def in_megabytes(num_bytes: float) -> str:
    """Megabytes for people: one decimal below ten."""
    return f"{num_bytes / 1e6:.{0 if num_bytes >= 1e7 else 1}f}"
