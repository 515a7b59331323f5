"""Fetch weights once: ModelScope, then the user's mirrors, then the authors' release; verified before they are used."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit, urlunsplit

from filelock import FileLock, Timeout

from gpen_core.errors import WeightsError
from gpen_core.models.places import CACHE_VARIABLE, Cache, Place, is_file, writable_cache
from gpen_core.models.registry import ModelSpec
from gpen_core.models.verify import Record, WeightsFile, hash_file, identify, set_aside, write_record
from gpen_core.types import OnProgress, Progress

MIRROR_VARIABLE = "GPEN_MIRROR"
OFFLINE_VARIABLE = "GPEN_OFFLINE"
WORK_FOLDER = ".partial"
"""In the cache: what is not finished. A later call goes on with it."""
PARTIAL_SUFFIX = ".incomplete"
"""As ModelScope's client names what it has not finished."""
CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 20
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
ANSWER_TIMEOUT_S = 12.0
"""From the start of the program to the answer that announces the file: look-up of the name, 5 s to connect, list."""
STALL_TIMEOUT_S = 20.0
MIN_STEP_BYTES = 1 << 14
"""Fewer new bytes within the time-out count as none."""
POLL_S = 0.1


class Unobtainable(Exception):  # noqa: N818 - an answer, not a fault
    """Nobody gives the file. The message says why, source by source."""


class _Damaged(Exception):  # noqa: N818
    """A whole file came, but not the one it should be: worth one more try."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """One source of a file."""

    words: str
    """The source for people."""
    source: str
    """The source for the record."""
    arguments: tuple[str, str, str]
    """Kind, repository or address, and path of the file, for the transfer program."""
    sha256: str | None
    """What it must give; None where only its own list of files knows."""

    @property
    def kind(self) -> str:
        return self.arguments[0]

    @property
    def file(self) -> str:
        return self.arguments[2]


@dataclass(frozen=True, slots=True)
class Announced:
    """What a source says of the file before it sends it."""

    num_bytes: int | None
    sha256: str | None


def is_offline() -> bool:
    """Whether the user forbids any download."""
    return os.environ.get(OFFLINE_VARIABLE, "") not in ("", "0")


def offers_of(spec: ModelSpec) -> list[Offer]:
    """The sources of a spec's file, in the order they are asked."""
    offers = [
        Offer(
            words=f"ModelScope ({file.repo})",
            source=f"modelscope:{file.repo}/{file.path}",
            arguments=("hub", file.repo, file.path),
            sha256=spec.sha256 if file.is_as_released else None,
        )
        for file in spec.hub_files
    ]
    bases = os.environ.get(MIRROR_VARIABLE, "").replace(",", " ").split()
    offers += [_web_offer("the mirror", f"{base.rstrip('/')}/{spec.file_name}", spec) for base in bases]
    if spec.sha256 is not None:
        offers += [_web_offer("the authors' release", url, spec) for url in spec.urls]
    return offers


def _web_offer(what: str, url: str, spec: ModelSpec) -> Offer:
    parts = urlsplit(url)
    # A mirror's address may hold a password, which belongs neither into a message nor into the record.
    host = parts.netloc.rpartition("@")[2]
    return Offer(
        words=f"{what} ({host})",
        source=urlunsplit(parts._replace(netloc=host)),
        arguments=("url", url, spec.file_name),
        sha256=spec.sha256,
    )


def fetch(spec: ModelSpec, report: OnProgress) -> WeightsFile:
    """Fetch a spec's file into the cache.

    One process fetches at a time; another waits and takes what the first has brought. What breaks off is gone on with
    by the next call.

    Args:
        spec: the model.
        report: hears bytes done and in all, several times a second; raising in it stops the download.

    Raises:
        Unobtainable: no source gives the file.
        WeightsError: the disk is full, or no folder can be written.
    """
    cache = writable_cache()
    try:
        return _fetch_into(cache, spec, report)
    except OSError as error:
        raise WeightsError(
            f"The weights of {spec.name} cannot be kept in {cache.folder}: {error.strerror}; "
            f"name another folder in {CACHE_VARIABLE}."
        ) from error


def _fetch_into(cache: Cache, spec: ModelSpec, report: OnProgress) -> WeightsFile:
    work = cache.folder / WORK_FOLDER / spec.name
    work.mkdir(parents=True, exist_ok=True)
    final = Place(cache.folder / spec.file_name, spec.sha256, is_ours=True)
    waiting = Progress("fetch", 0, 0, f"{spec.name}, which another process is fetching")
    with _only_one(work.with_suffix(".lock"), lambda: report(waiting)) as has_waited:
        if has_waited and is_file(final.path):
            with contextlib.suppress(WeightsError):
                return identify(spec, final)
        reasons: list[str] = []
        for offer in offers_of(spec):
            for _ in range(2):
                try:
                    return _fetch_from(offer, spec, cache, report)
                except _Damaged as error:
                    reasons.append(str(error))
                except Unobtainable as error:
                    reasons.append(str(error))
                    break
    raise Unobtainable("; ".join(dict.fromkeys(reasons)) or "nobody is known to publish them")


@contextmanager
def _only_one(path: Path, on_waiting: Callable[[], None]) -> Iterator[bool]:
    """Hold a lock across processes; gives whether another held it before."""
    lock, has_waited = FileLock(path), False
    while True:
        try:
            lock.acquire(timeout=5 * POLL_S)
            break
        except Timeout:
            has_waited = True
            on_waiting()
        except NotImplementedError:
            break  # a file system without locks; bytes that two writers mixed do not pass as the file
    try:
        yield has_waited
    finally:
        lock.release()


def _fetch_from(offer: Offer, spec: ModelSpec, cache: Cache, report: OnProgress) -> WeightsFile:
    work = cache.folder / WORK_FOLDER / spec.name
    folder = work / re.sub(r"[^A-Za-z0-9.]+", "-", offer.source)[-120:]
    received = folder / "files" / offer.file
    if offer.kind == "url" and offer.sha256 is None:
        # Nothing would tell whether what came before is of the same file.
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    try:
        announced = _transfer(offer, spec, folder, received, report)
    except WeightsError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    sha256 = hash_file(received)
    expected = offer.sha256 or announced.sha256
    if expected not in (None, sha256):
        shutil.rmtree(folder, ignore_errors=True)
        raise _Damaged(f"{offer.words} sent a damaged file")
    record = Record(
        file=spec.file_name,
        sha256=sha256,
        bytes=received.stat().st_size,
        source=offer.source,
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
    path = cache.folder / spec.file_name
    if is_file(path):
        set_aside(path)
    with _only_one(cache.folder / WORK_FOLDER / "records.lock", lambda: None):
        # What no hash vouches for is not recorded: a record makes a file a verified one.
        write_record(cache.folder, spec.file_name, None if expected is None else record)
    received.replace(path)
    shutil.rmtree(work, ignore_errors=True)
    file = identify(spec, Place(path, spec.sha256, is_ours=True))
    notes = [f"{spec.name} was fetched from {offer.words}; licence: {spec.licence_text}."]
    if cache.problem:
        notes.append(
            f"The weights are kept in a temporary folder, for this run only, because {cache.problem}; "
            f"name a folder that can be written in {CACHE_VARIABLE}."
        )
    return replace(file, notes=(*notes, *file.notes))


def _transfer(offer: Offer, spec: ModelSpec, folder: Path, received: Path, report: OnProgress) -> Announced:
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
            cwd=folder,
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
