"""Futures, against PyTorch's."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
import torch.futures

import eagerjit
import eagerjit.futures

LIBRARIES = (torch, eagerjit)


def raised(call: Any) -> Any:
    """What a call gives, or the class of what it raises."""
    try:
        return call()
    except Exception as error:
        return type(error)


def completed(t: Any) -> Any:
    """A future is done once, and what follows it is told."""
    future, seen = t.futures.Future(), []
    yield future.done(), raised(future.value)
    following = future.then(lambda f: f.wait() + 1)
    future.add_done_callback(lambda f: seen.append(f.value()))
    yield following.done(), list(seen)
    future.set_result(3)
    yield following.wait(), future.value(), list(seen), raised(lambda: future.set_result(4))
    future.add_done_callback(lambda f: seen.append("at once"))
    yield seen, future.then(lambda f: f.value() * 2).wait()


def failed(t: Any) -> Any:
    """An error is raised where the result is asked for; of a function that follows it is a RuntimeError."""
    future = t.futures.Future()
    following = future.then(lambda f: f.wait())
    yield raised(lambda: future.set_exception(3))
    future.set_exception(ValueError("no"))
    yield raised(future.wait), raised(future.value), raised(following.wait)


def several(t: Any) -> Any:
    """All of some futures are one future."""
    first, second, wrong = (t.futures.Future() for _ in range(3))
    both = t.futures.collect_all([first, second])
    first.set_result(1)
    yield both.done()
    second.set_result(2)
    yield [f.wait() for f in both.wait()], t.futures.wait_all([first, second]), t.futures.collect_all([]).wait()
    wrong.set_exception(KeyError("no"))
    yield raised(t.futures.collect_all([first, wrong]).wait), raised(lambda: t.futures.wait_all([wrong]))


@pytest.mark.parametrize("steps", [completed, failed, several])
def test_as_pytorch_does(steps: Any) -> None:
    theirs, ours = (list(steps(t)) for t in LIBRARIES)
    assert ours == theirs


def test_threads_wait() -> None:
    future: Any = eagerjit.Future()
    got: list[int] = []
    waiting = threading.Thread(target=lambda: got.append(future.wait()))
    waiting.start()
    assert not got
    future.set_result(7)
    waiting.join()
    assert got == [7]
