"""How long each stage of a restoration takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from gpen_core.types import OnProgress, Progress, Stage


class StageClock:
    """Times the stages of one restoration and reports their beginning and end."""

    def __init__(self, report: OnProgress) -> None:
        self.timings: dict[str, float] = {}
        self.report = report

    @contextmanager
    def stage(self, name: Stage, *, is_counted: bool = False) -> Iterator[None]:
        """Time one stage. A counted one reports its own steps, each face one."""
        if not is_counted:
            self.report(Progress(name, 0, 1))
        start = time.perf_counter()
        yield
        self.timings[name] = time.perf_counter() - start
        if not is_counted:
            self.report(Progress(name, 1, 1))

    def add(self, name: Stage, seconds: float) -> None:
        """Count a part of a stage that several photos shared."""
        if seconds:
            self.timings[name] = self.timings.get(name, 0.0) + seconds

    def move(self, source: Stage, target: Stage, seconds: float) -> None:
        """Count a part of one stage's time as another's."""
        if seconds:
            self.timings[source] -= seconds
            self.timings[target] = seconds
