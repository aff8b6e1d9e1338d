"""Interrupts (KeyboardInterrupt, alarms that raise) may come anywhere: afterwards all is as if they had not."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import pytest

import eagerjit as torch
from eagerjit.autograd import engine, function
from eagerjit.effects import journal as journals
from eagerjit.recording import recorder, recording_lock
from eagerjit.recording.trace import Tracer
from eagerjit.runtime.once import lock
from eagerjit.state import state
from eagerjit.watching.observer import Observer


def interrupted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """Let an interrupt come once as this function begins."""
    plain = getattr(owner, name)

    def replaced(*args: Any, **kwargs: Any) -> Any:
        setattr(owner, name, plain)
        raise KeyboardInterrupt

    replaced.__code__ = replaced.__code__.replace(co_filename=torch.__file__)  # the library's code is not watched
    monkeypatch.setattr(owner, name, replaced)


PLACES = {
    "recording begins": (recording_lock.recording, "__enter__"),
    "garbage is left": (recording_lock.gc, "disable"),
    "a recording is left": (recording_lock.recording, "__exit__"),
    "garbage is looked for again": (recording_lock.collecting_later, "__exit__"),
    "locks are given back": (recording_lock.recording, "leave"),
    "the trace begins": (Tracer, "__enter__"),
    "the trace ends": (Tracer, "__exit__"),
    "tensors are as they were": (Tracer, "leave"),
    "watching ends": (Observer, "__exit__"),
    "objects are put back": (journals.Journal, "undo"),
    "results are looked at": (recorder.Flattening, "flatten"),
}


@pytest.mark.parametrize("place", PLACES)
def test_an_interrupt_leaves_nothing_of_a_recording(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    weights, count = torch.ones(3), [0]

    def function(x: Any) -> Any:
        count[0] += 1
        weights.requires_grad_()
        return (x * weights).sum()

    compiled, watching = torch.jit(function), sys.gettrace()
    interrupted(monkeypatch, *PLACES[place])
    with pytest.raises(KeyboardInterrupt):
        compiled(torch.ones(3))
    assert state.tracer is None
    assert gc.isenabled()
    assert sys.gettrace() is watching
    assert count == [0]
    assert not weights.requires_grad
    free = []
    other = threading.Thread(target=lambda: free.append(recording_lock._recording.acquire(timeout=1)), daemon=True)
    other.start()
    other.join()
    assert free == [True]
    recording_lock._recording = threading.RLock()
    assert [compiled(torch.ones(3)).item() for _ in range(2)] == [3.0, 3.0]
    assert count == [2]


def test_an_interrupt_after_compiling_leaves_the_search_for_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    class Later(recording_lock.collecting_later):
        def __exit__(self, *exc: object) -> None:
            super().__exit__(*exc)

    monkeypatch.setattr(recorder, "collecting_later", Later)
    interrupted(monkeypatch, Later, "__exit__")
    with pytest.raises(KeyboardInterrupt):
        torch.jit(lambda x: x * 2)(torch.ones(3))
    assert gc.isenabled()


@pytest.mark.parametrize("name", ["gettrace", "settrace"])
def test_an_interrupted_lock_is_free(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    class Watching:
        is_recording = True

        def heard(self, *_: Any) -> None:
            return None

    before, watch = sys.gettrace(), Watching().heard
    sys.settrace(watch)
    try:
        interrupted(monkeypatch, sys, name)
        with pytest.raises(KeyboardInterrupt), lock:
            pass
        assert sys.gettrace() is watch
    finally:
        sys.settrace(before)
    assert not lock._lock._is_owned()  # type: ignore[attr-defined]


def test_locks_within_themselves_are_kept_to_the_end() -> None:
    with lock:
        with lock:
            pass
        assert lock._lock._is_owned()  # type: ignore[attr-defined]
    assert not lock._lock._is_owned()  # type: ignore[attr-defined]


def test_code_that_was_not_watched_to_its_end_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function catches an interrupt that came while it was watched, which ends the watching."""
    scales = {"first": 2.0, "second": 1.0}

    def function(x: Any) -> Any:
        try:
            y = x * scales["first"]
        except KeyboardInterrupt:
            y = x
        return y * scales["second"]

    compiled = torch.jit(function)
    interrupted(monkeypatch, Observer, "_look_at")
    assert compiled(torch.ones(1)).item() in (1.0, 2.0)
    assert compiled(torch.ones(1)).item() == 2.0
    scales["second"] = 5.0
    assert compiled(torch.ones(1)).item() == 10.0


def test_compiling_in_the_background_leaves_flags_alone() -> None:
    weights = torch.ones(3)

    @torch.jit(background=True)
    def function(x: Any) -> Any:
        weights.requires_grad_()
        return (x * weights).sum()

    function(torch.ones(3))
    function.wait()
    assert weights.requires_grad


def test_an_interrupt_as_a_function_is_applied_leaves_gradients_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            return gradient * 2

    x = torch.ones(3, requires_grad=True)
    interrupted(monkeypatch, function, "_history")
    with pytest.raises(KeyboardInterrupt):
        Double.apply(x)
    assert torch.is_grad_enabled()


def test_an_interrupt_as_gradients_begin_leaves_gradients_on(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(3, requires_grad=True)
    result = torch.jit(lambda x: (x**3).sum())(x)
    (gradient,) = torch.autograd.grad(result, x, create_graph=True)
    loss = result + gradient.square().sum()
    loss.register_hook(lambda found: found)  # the walk is not native code's
    interrupted(monkeypatch, engine, "joined_calls")
    with pytest.raises(KeyboardInterrupt):
        loss.backward()
    assert torch.is_grad_enabled()
