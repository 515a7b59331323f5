"""Work for visitors: one photo at a time on the device, stopped when its visitor asks or leaves. Knows no Gradio."""

from __future__ import annotations

import logging
import secrets
import tempfile
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from gpen_core.cache_dir import cache_folder
from gpen_core.errors import Cancelled, GpenError
from gpen_core.models.places import weights_folder
from gpen_core.options import RuntimeOptions
from gpen_core.types import OnProgress, Progress
from page.zero_gpu import load_restorer

if TYPE_CHECKING:
    from gpen_core.restorer import Restorer

T = TypeVar("T")
LOG = logging.getLogger(__name__)
POLL_S = 0.1
MAX_LOADED = 3
"""Restorers kept in memory; the one used longest ago goes first."""
STOPPED = "Stopped."
UNEXPECTED = "Something went wrong (code {code}). The server's log has the details under this code."


@dataclass(frozen=True, slots=True)
class Waiting:
    """Others come first."""

    num_ahead: int
    seconds: float
    """How long that may take; 0 where nobody has had a turn yet."""


Step: TypeAlias = "Progress | Waiting"
Report: TypeAlias = Callable[[Step], None]
"""Raises `Cancelled` in the work of a visitor who no longer wants it."""


class Turns:
    """The device, lent to one at a time in the order of arrival."""

    def __init__(self) -> None:
        self._line: deque[object] = deque()
        self._moved = threading.Condition()
        self._usual_s = 0.0

    @property
    def num_waiting(self) -> int:
        """Those who wait, and the one who has it."""
        return len(self._line)

    @contextmanager
    def take(self, report: Report) -> Iterator[None]:
        """Wait for the device and hold it inside; `report` hears how many come first, and may raise."""
        ticket = object()
        with self._moved:
            self._line.append(ticket)
        try:
            while num_ahead := self._wait(ticket):
                report(Waiting(num_ahead, num_ahead * self._usual_s))
            began_s = time.monotonic()
            yield
            took_s = time.monotonic() - began_s
            self._usual_s += (took_s - self._usual_s) * (0.3 if self._usual_s else 1.0)
        finally:
            with self._moved:
                self._line.remove(ticket)
                self._moved.notify_all()

    def _wait(self, ticket: object) -> int:
        with self._moved:
            self._moved.wait_for(lambda: self._line[0] is ticket, POLL_S)
            return self._line.index(ticket)


class Jobs:
    """Runs visitors' work in threads of their own, so that it can be left while it still goes on."""

    def __init__(self) -> None:
        self.device = Turns()
        self._lock = threading.Lock()
        self._stops: dict[str, set[threading.Event]] = {}

    def run(
        self, work: Callable[[Report], T], visitor: str | None = None, *, stop: threading.Event | None = None
    ) -> Generator[Step | None, None, T]:
        """Run `work` and yield how far it is, ten times a second; the generator's return value is the work's.

        Args:
            work: gets a `Report` to call as often as it can. It takes the device itself, with `self.device.take`, so
                that nobody waits while weights are fetched.
            visitor: whose work `stop` ends; None: of nobody.
            stop: is set where the work shall end. For work that watches it and then returns what it has; reports do not
                raise in it.

        Raises:
            Cancelled: it was stopped. The work itself ends at its next report, and only then gives the device back.
            Exception: whatever `work` raised.
        """
        is_cancelled = stop is None
        stop, future, latest = stop or threading.Event(), Future[T](), list[Step]()

        def report(step: Step) -> None:
            if is_cancelled and stop.is_set():
                raise Cancelled(STOPPED)
            latest[:] = [step]

        def target() -> None:
            try:
                future.set_result(work(report))
            except BaseException as error:  # noqa: BLE001 - raised again where the generator is
                future.set_exception(error)

        with self._stoppable(visitor, stop):
            # In the visitor's context, by which ZeroGPU knows whose quota it is.
            threading.Thread(target=copy_context().run, args=(target,), name="gpen-job", daemon=True).start()
            try:
                while not (is_cancelled and stop.is_set()) and not wait([future], POLL_S).done:
                    yield latest[0] if latest else None
            finally:
                was_stopped = is_cancelled and stop.is_set()
                if not future.done():
                    stop.set()
        if was_stopped:
            raise Cancelled(STOPPED)
        return future.result()

    def stop(self, visitor: str | None) -> None:
        """End all work of a visitor."""
        with self._lock:
            for stop in self._stops.get(visitor or "", ()):
                stop.set()

    @contextmanager
    def _stoppable(self, visitor: str | None, stop: threading.Event) -> Iterator[None]:
        if visitor is None:
            yield
            return
        with self._lock:
            self._stops.setdefault(visitor, set()).add(stop)
        try:
            yield
        finally:
            with self._lock:
                self._stops[visitor].discard(stop)
                if not self._stops[visitor]:
                    del self._stops[visitor]


class GetRestorer(Protocol):
    """Gives the restorer of a model, loaded, and fetched before if need be."""

    def __call__(
        self, model: str, report: OnProgress, *, precision: str | None = None, compile: bool | None = None
    ) -> Restorer:
        """None: as the server was told. `report` hears how far a download is; raising in it stops the download."""
        ...


class Restorers:
    """A `GetRestorer` that shares each restorer among all visitors and keeps a few."""

    def __init__(self, runtime: RuntimeOptions) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._loaded: OrderedDict[RuntimeOptions, Restorer] = OrderedDict()
        self._loading: dict[RuntimeOptions, threading.Lock] = {}

    def __call__(
        self, model: str, report: OnProgress, *, precision: str | None = None, compile: bool | None = None
    ) -> Restorer:
        asked: dict[str, Any] = {"model": model, "precision": precision, "compile": compile}
        runtime = replace(self._runtime, **{name: value for name, value in asked.items() if value is not None})
        with self._lock:
            loading = self._loading.setdefault(runtime, threading.Lock())
        # A lock each: who waits for a download of this one keeps nobody from another.
        while not loading.acquire(timeout=POLL_S):
            report(Progress("prepare", 0, 1))
        try:
            return self._get(runtime, report)
        finally:
            loading.release()

    def _get(self, runtime: RuntimeOptions, report: OnProgress) -> Restorer:
        with self._lock:
            found = self._loaded.get(runtime)
        if found is None:
            found = load_restorer(runtime, report)
        with self._lock:
            self._loaded[runtime] = found
            self._loaded.move_to_end(runtime)
            while len(self._loaded) > MAX_LOADED:
                self._loaded.popitem(last=False)
        return found


def why_no_half(runtime: RuntimeOptions) -> str:
    """Why FP16 is of no use on the server's device, as the end of a sentence; empty where it is."""
    from gpen_core.runtime.device import resolve_device
    from gpen_core.runtime.precision import why_no_gain

    return why_no_gain("fp16", resolve_device(runtime.device))


def sentence_of(error: BaseException) -> str:
    """What a visitor is told of an error: what it says if it is one of ours, else a code that the log has too."""
    if isinstance(error, GpenError):
        return without_folders(str(error))
    code = secrets.token_hex(2).upper()
    LOG.error("unexpected error, code %s", code, exc_info=error)
    return UNEXPECTED.format(code=code)


def without_folders(text: str) -> str:
    """`text` with words in the place of the server's folders, which are no visitor's business."""
    names = {
        cache_folder(): "the server's cache folder",
        weights_folder(): "the server's weights folder",
        Path(tempfile.gettempdir()): "a temporary folder",
        Path.home(): "~",
    }
    for folder, words in names.items():
        if folder is not None and len(folder.parts) > 1:
            text = text.replace(str(folder), words)
    return text
