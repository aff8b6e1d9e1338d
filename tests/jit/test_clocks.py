"""Clocks read inside of compiled functions: by every call, around its work."""

from __future__ import annotations

import time
import warnings
from typing import Any

import pytest

import eagerjit as torch
from eagerjit.jit import JitWarning, jit


def compiled(function: Any) -> Any:
    """The function compiled; a warning that it runs eagerly is an error."""
    made = jit(function)

    def call(*args: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error", JitWarning)
            result = made(*args)
        assert made.cache_info().compiles <= 2 and not made.cache_info().eager_calls
        return result

    return call


@pytest.mark.parametrize("clock", [time.time, time.perf_counter, time.monotonic, time.perf_counter_ns])
def test_every_call_reads_its_clocks(clock: Any) -> None:
    @compiled
    def f(x: Any) -> Any:
        begun = clock()
        y = (x @ x).sum()
        return y, begun, clock()

    last = clock()
    for n in (2, 3, 400):
        y, begun, ended = f(torch.ones(n, n))
        assert last <= begun <= ended <= clock() and type(begun) is type(ended) is type(clock())
        assert y.item() == n**3
        last = ended


def test_the_work_lies_between_the_clocks() -> None:
    @compiled
    def f(x: Any) -> Any:
        begun = time.perf_counter()
        y = (x @ x @ x).sum()
        return y, time.perf_counter() - begun

    x = torch.ones(500, 500)
    f(x)
    begun = time.perf_counter()
    _, took = f(x)
    assert 0.0 < took < time.perf_counter() - begun


def test_what_is_kept_printed_and_calculated(capsys: Any) -> None:
    times: list[float] = []
    totals = {"seconds": 0.0, "images": 0}

    @compiled
    def step(x: Any) -> Any:
        begun = time.time()
        y = x.sum()
        took = time.time() - begun
        times.append(took)
        totals["seconds"] += took
        totals["images"] += x.shape[0]
        print(f"{took:.1f} s", round(took, 1), isinstance(took, float), type(took).__name__)
        return y, {"ms": took * 1000.0, "rate": x.shape[0] / (took + 1.0), "whole": int(took), "loss": y.item() + took}

    for n in (2, 3, 4):
        y, found = step(torch.ones(n, 2))
        assert len(times) == n - 1 and found["ms"] == times[-1] * 1000.0
        assert found["rate"] == n / (times[-1] + 1.0) and found["whole"] == 0
        assert found["loss"] == y.item() + times[-1]
    assert totals == {"seconds": times[0] + times[1] + times[2], "images": 9}
    assert capsys.readouterr().out == "0.0 s 0.0 True float\n" * 3


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1 if (time.time() - (x.exp(), time.time())[1]) > 5.0 else x - 1,
        lambda x: (x + 1, time.time(), (x + 2).exp()),
        lambda x: torch.vmap(lambda row: row + (time.time() > 0))(x),
    ],
)
def test_what_acts_on_a_clock_runs_eagerly(function: Any) -> None:
    made = jit(function)
    with pytest.warns(JitWarning, match=r"test_clocks.py:\d+"):
        made(torch.ones(2, 2))
    assert made.cache_info().eager_calls == 1


def test_a_clock_that_decides_is_asked_before_the_work() -> None:
    made = compiled(lambda x, limit: (x * 2 if time.time() > min(limit, time.time() + 9.0) else x - 1, limit))
    for limit in (0.0, 1e12, 0.0, 1e12):
        assert made(torch.ones(2), limit)[0].tolist() == [2.0 if limit == 0.0 else 0.0] * 2
