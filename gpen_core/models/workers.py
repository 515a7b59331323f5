"""Threads that share the rows of a map, each of them running torch on one core.

Steps as short as those of a streamed level spend more time waiting for each other than computing where every one of
them is shared by all cores. So each core gets rows of its own instead.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import torch


class Workers:
    """As many threads as torch may use here, for as long as the `with` block lasts; none where it may use one."""

    def __init__(self) -> None:
        self.num_threads = torch.get_num_threads()
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        if self.num_threads > 1:
            # torch keeps the number for the calling thread, and as the first number of threads yet to come.
            self._pool = ThreadPoolExecutor(self.num_threads, initializer=torch.set_num_threads, initargs=(1,))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            torch.set_num_threads(self.num_threads)

    def share(self, work: Callable[[int, int], None], num_rows: int, multiple_of: int) -> None:
        """Call `work(start, end)` for consecutive shares of `num_rows` rows, side by side.

        Args:
            work: writes its rows only.
            num_rows: how many there are.
            multiple_of: every share's size is a multiple of this, the last one's as far as rows are left.
        """
        if self._pool is None:
            work(0, num_rows)
            return
        share = -(-num_rows // (self.num_threads * multiple_of)) * multiple_of
        jobs = [
            self._pool.submit(_without_gradients, work, start, min(start + share, num_rows))
            for start in range(0, num_rows, share)
        ]
        for job in jobs:
            job.result()


def _without_gradients(work: Callable[[int, int], None], start: int, end: int) -> None:
    # torch keeps this for each thread, too.
    with torch.inference_mode():
        work(start, end)
