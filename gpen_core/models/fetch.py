"""Fetch weights once: ModelScope, then the user's mirrors, then the authors' release; verified before they are used."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from filelock import FileLock, Timeout

from gpen_core.cache_dir import CACHE_VARIABLE
from gpen_core.errors import WeightsError
from gpen_core.models.places import Cache, Place, is_file, writable_cache
from gpen_core.models.registry import ModelSpec
from gpen_core.models.sources import Offer, offers_of
from gpen_core.models.verify import (
    Record,
    WeightsFile,
    found_file,
    hash_file,
    identify,
    set_aside,
    write_record,
)
from gpen_core.models.watch import Unobtainable, transfer
from gpen_core.types import OnProgress, Progress

LOCK_POLL_S = 0.5
WORK_FOLDER = ".partial"
"""In the cache: what is not finished. A later call goes on with it."""


class _Damaged(Exception):  # noqa: N818
    """A whole file came, but not the one it should be: worth one more try."""


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
            lock.acquire(timeout=LOCK_POLL_S)
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
        announced = transfer(offer, spec, folder, received, report)
    except WeightsError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    sha256 = hash_file(received)
    expected = offer.sha256 or announced.sha256
    if expected not in (None, sha256):
        shutil.rmtree(folder, ignore_errors=True)
        raise _Damaged(f"{offer.words} sent a damaged file")
    path = _keep(received, sha256, offer, spec, cache, is_verified=expected is not None)
    shutil.rmtree(work, ignore_errors=True)
    notes = [f"{spec.name} was fetched from {offer.words}; licence: {spec.licence_text}."]
    if cache.problem:
        notes.append(
            f"The weights are kept in a temporary folder, for this run only, because {cache.problem}; "
            f"name a folder that can be written in {CACHE_VARIABLE}."
        )
    file = found_file(spec, path, sha256, is_verified=expected is not None)
    return replace(file, notes=(*notes, *file.notes))


def _keep(received: Path, sha256: str, offer: Offer, spec: ModelSpec, cache: Cache, *, is_verified: bool) -> Path:
    """Give a whole file its place and its record."""
    path = cache.folder / spec.file_name
    if is_file(path):
        set_aside(path)
    record = Record(
        file=spec.file_name,
        sha256=sha256,
        bytes=received.stat().st_size,
        source=offer.source,
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
    with _only_one(cache.folder / WORK_FOLDER / "records.lock", lambda: None):
        # What no hash vouches for is not recorded: a record makes a file a verified one.
        write_record(cache.folder, spec.file_name, record if is_verified else None)
    received.replace(path)
    return path
