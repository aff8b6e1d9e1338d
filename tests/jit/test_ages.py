"""Recordings look at young objects while other threads make some."""

import gc
import sys
import threading
import time

from eagerjit.watching.ages import Ages


def test_tuples_that_other_threads_are_making_stay_theirs() -> None:
    """CPython gives a tuple its final length only while nobody else holds it, but the collector knows it before."""
    problems, done = [], threading.Event()

    def make() -> None:
        while not done.is_set() and not problems:
            try:
                tuple(i for i in range(300))
            except SystemError as error:
                problems.append(error)

    makers = [threading.Thread(target=make) for _ in range(2)]
    interval, ages = sys.getswitchinterval(), Ages()
    gc.disable()
    sys.setswitchinterval(1e-6)
    try:
        for maker in makers:
            maker.start()
        end = time.perf_counter() + 1.5
        while time.perf_counter() < end and not problems:
            ages._look_again()
    finally:
        done.set()
        for maker in makers:
            maker.join()
        sys.setswitchinterval(interval)
        gc.enable()
    assert not problems
