"""Work that is stopped, and restorers that are shared."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from typing import Any

import pytest

from gpen_core.errors import Cancelled, PhotoError
from gpen_core.options import RuntimeOptions
from gpen_core.types import Progress
from page import jobs
from page.jobs import Jobs, Report, Restorers, Waiting, sentence_of, without_folders
from tests.page.conftest import MODEL

STEP = Progress("restore", 0, 1)


def finish(steps: Generator[Any, None, Any]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def test_work_gives_its_value_and_its_errors():
    assert finish(Jobs().run(lambda report: 7)) == 7

    def fail(report: Report) -> None:
        raise PhotoError("no photo")

    with pytest.raises(PhotoError, match="no photo"):
        finish(Jobs().run(fail))


def endless(all_jobs: Jobs, began: threading.Event, ended: threading.Event) -> Any:
    def work(report: Report) -> None:
        try:
            with all_jobs.device.take(report):
                began.set()
                while True:
                    report(STEP)
                    time.sleep(0.01)
        finally:
            ended.set()

    return work


@pytest.mark.parametrize("way", ["stop", "leave"])
def test_device_is_free_after_a_stop_and_when_the_visitor_leaves(way: str) -> None:
    all_jobs, began, ended = Jobs(), threading.Event(), threading.Event()
    steps = all_jobs.run(endless(all_jobs, began, ended), "me")
    next(steps)
    assert began.wait(5)
    if way == "stop":
        all_jobs.stop("somebody else")
        assert next(steps) == STEP
        all_jobs.stop("me")
        with pytest.raises(Cancelled):
            finish(steps)
    else:
        steps.close()
    assert ended.wait(2)

    def next_one(report: Report) -> str:
        with all_jobs.device.take(report):
            return "done"

    assert finish(all_jobs.run(next_one)) == "done"


def test_device_is_lent_in_turn_and_those_who_wait_hear_of_it():
    all_jobs, order, may_go = Jobs(), list[int](), threading.Event()
    heard: list[Waiting] = []

    def work(number: int) -> Any:
        def run(report: Report) -> None:
            with all_jobs.device.take(report):
                order.append(number)
                may_go.wait(5)

        return run

    def listen(number: int) -> None:
        steps = all_jobs.run(work(number))
        for step in steps:
            if isinstance(step, Waiting):
                heard.append(step)

    threads = []
    for number in range(4):
        threads.append(threading.Thread(target=listen, args=(number,)))
        threads[-1].start()
        while all_jobs.device.num_waiting <= number:
            time.sleep(0.01)
    while {step.num_ahead for step in heard} != {1, 2, 3}:
        time.sleep(0.01)
    may_go.set()
    for thread in threads:
        thread.join(5)
    assert order == [0, 1, 2, 3]


def test_unknown_errors_become_a_code_that_the_log_has_too(caplog: pytest.LogCaptureFixture) -> None:
    sentence = sentence_of(RuntimeError("secret at /srv"))
    code = sentence.split("code ")[1].split(")")[0]
    assert "secret" not in sentence and "/srv" not in sentence
    assert code in caplog.text
    caplog.clear()
    assert sentence_of(PhotoError("wedding.jpg is empty.")) == "wedding.jpg is empty."
    assert caplog.text == ""


def test_messages_name_no_folder_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPEN_CACHE", "/srv/cache/gpen")
    assert without_folders("put x into /srv/cache/gpen, or") == "put x into the server's cache folder, or"


def test_restorers_are_shared_bounded_and_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MAX_LOADED", 2)
    restorers = Restorers(RuntimeOptions(device="cpu", batch_size=2, unload_after_s=600))
    first = restorers(MODEL, print)
    assert first.model_name == MODEL and first.batch_size == 2
    assert restorers(MODEL, print, precision="auto") is first
    assert restorers(MODEL, print, precision="fp32") is not first
    assert restorers(MODEL, print) is first
    restorers(MODEL, print, compile=True)
    assert len(restorers._loaded) == 2
    assert restorers(MODEL, print) is first


def test_who_fetches_a_model_keeps_nobody_from_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """And who waits for the same download can be stopped too."""
    from gpen_core import restorer

    may_go, is_fetching = threading.Event(), threading.Event()

    def slow(runtime: RuntimeOptions, on_progress: Any) -> Any:
        if runtime.model != MODEL:
            is_fetching.set()
            assert may_go.wait(5)
        return runtime.model

    monkeypatch.setattr(restorer, "Restorer", slow)
    restorers = Restorers(RuntimeOptions())
    fetching = threading.Thread(target=restorers, args=("gpen-bfr-512", print))
    fetching.start()
    assert is_fetching.wait(5)
    assert restorers(MODEL, print) == MODEL

    def stopped(step: Progress) -> None:
        raise Cancelled("Stopped.")

    with pytest.raises(Cancelled):
        restorers("gpen-bfr-512", stopped)
    may_go.set()
    fetching.join()
    assert restorers("gpen-bfr-512", stopped) == "gpen-bfr-512"
