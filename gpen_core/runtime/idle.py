"""Notice that something was not used for a while."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class IdleTimer:
    """Calls back once, each time that nothing was running for `after_s` seconds; with 0, never.

    Waits in a daemon thread that lives only from a use to the next one or to the call. Nothing begins while the
    callback runs.
    """

    def __init__(self, after_s: float, on_idle: Callable[[], None]) -> None:
        """Args:
        after_s: how long nothing must run.
        on_idle: a bound method; its object may go away, and is then not called.
        """
        self._after_s = after_s
        self._on_idle = weakref.WeakMethod(on_idle)
        self._lock = threading.Lock()
        self._num_running = 0
        self._timer: threading.Timer | None = None

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Something runs. May be entered by several threads at once."""
        with self._lock:
            self._num_running += 1
            if self._timer is not None:
                self._timer.cancel()
        try:
            yield
        finally:
            with self._lock:
                self._num_running -= 1
                if self._after_s and not self._num_running:
                    self._timer = threading.Timer(self._after_s, self._fire)
                    self._timer.daemon = True
                    self._timer.start()

    def _fire(self) -> None:
        with self._lock:
            # The timer may have run out while a use was just beginning.
            on_idle = self._on_idle() if not self._num_running else None
            if on_idle is not None:
                on_idle()
