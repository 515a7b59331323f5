from __future__ import annotations

import gc
import threading
import time
import weakref

from gpen_core.runtime.idle import IdleTimer


class Owner:
    def __init__(self, after_s: float) -> None:
        self.called = threading.Event()
        self.num_calls = 0
        self.timer = IdleTimer(after_s, self.rest)

    def rest(self) -> None:
        self.num_calls += 1
        self.called.set()


def test_it_calls_once_for_each_pause():
    owner = Owner(0.05)
    for number in (1, 2):
        with owner.timer.busy():
            pass
        assert owner.called.wait(5)
        time.sleep(0.1)
        assert owner.num_calls == number
        owner.called.clear()


def test_it_waits_for_the_last_of_several():
    owner = Owner(0.05)
    with owner.timer.busy():
        with owner.timer.busy():
            pass
        time.sleep(0.15)
        assert owner.num_calls == 0
    assert owner.called.wait(5)


def test_a_new_use_starts_the_wait_anew():
    owner = Owner(0.3)
    for _ in range(4):
        with owner.timer.busy():
            time.sleep(0.1)
    assert owner.num_calls == 0


def test_zero_means_never():
    owner = Owner(0)
    with owner.timer.busy():
        pass
    assert owner.timer._timer is None
    time.sleep(0.05)
    assert owner.num_calls == 0


def test_it_keeps_nobody_alive():
    owner = Owner(60)
    with owner.timer.busy():
        pass
    reference = weakref.ref(owner)
    del owner
    gc.collect()
    assert reference() is None
