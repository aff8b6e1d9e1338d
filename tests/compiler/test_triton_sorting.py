"""Orders on a GPU: runs and merges of several sizes, stable for every dtype, against the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler.lower import routines
from eagerjit.jit import jit

RANDOM = np.random.default_rng(8)


def numbers(*shape: int) -> Any:
    """Few different numbers, so that many are equal, and some that are none."""
    x = RANDOM.integers(-4, 5, shape) / 2.0
    return torch.tensor(np.where(RANDOM.random(shape) < 0.1, np.nan, x)).float()


def whole(*shape: int) -> Any:
    return torch.tensor(RANDOM.integers(-9, 9, shape))


CASES: dict[str, tuple[Any, Any]] = {
    "rows": (lambda x: x.sort(-1, stable=True), numbers(2, 140)),
    "columns": (lambda x: x.argsort(0, descending=True), numbers(70, 3)),
    "in the middle": (lambda x: x.sort(1)[1], numbers(2, 37, 3)),
    "the first few": (lambda x: x.topk(5), whole(3, 90)),
    "integers": (lambda x: x.sort(0, descending=True)[1], whole(130)),
    "flags": (lambda x: (x > 0).sort(1, stable=True)[1], whole(2, 50)),
    "float16": (lambda x: x.half().sort(-1)[1], numbers(2, 100)),
    "float64": (lambda x: x.double().sort(-1)[1], numbers(2, 33)),
    "one element": (lambda x: x.sort(-1)[1], numbers(3, 1)),
    "one run": (lambda x: x.sort(-1)[1], numbers(2, 8)),
    "one element more": (lambda x: x.sort(-1)[1], numbers(2, 9)),
}  # fmt: skip


def flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("run", [8, 1024])
@pytest.mark.parametrize("name", CASES)
def test_orders(name: str, run: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routines, "RUN", run)
    monkeypatch.setattr(routines, "MERGED", 4)
    monkeypatch.setattr(routines, "MOST", 512)
    call, x = CASES[name]
    expected = flat(call(x))
    with gpu_kernels.interpreted() as made:
        actual = flat(jit(call, fullgraph=True)(x))
    for a, e in zip(actual, expected, strict=True):
        assert a._data.tobytes() == e._data.tobytes() or np.array_equal(a._data, e._data, equal_nan=True)
    steps = [launch for m in made for launch in m.launched if "precedes" in launch.source.text]
    assert [launch.constants["LAST"] for launch in steps][-1] == 1
    longest = max(x.shape) if x.ndim < 3 else 37
    assert len(steps) == 1 + (run == 8) * sum(8 * 4**k < longest for k in range(4))


def test_a_call_serves_lines_of_all_sizes() -> None:
    """Compiled for sizes that may vary: merges that a short line does not need have nothing to do."""
    with gpu_kernels.interpreted() as made:
        order = jit(lambda x: x.argsort(-1), fullgraph=True)
        for n in (5, 1100, 300):
            x = torch.tensor(RANDOM.normal(size=(1, n))).float()
            assert order(x)._data.tobytes() == np.argsort(x._data, -1, kind="stable").tobytes()
    steps = [[launch for launch in m.launched if "precedes" in launch.source.text] for m in made]
    assert [len(found) for found in steps if found] == [4]


def test_machine_code() -> None:
    with gpu_kernels.interpreted() as made:
        jit(lambda x: x.argsort(-1), fullgraph=True)(torch.tensor(RANDOM.normal(size=(1, 1100))).float())
    launches = [launch for m in made for launch in m.launched if "precedes" in launch.source.text]
    assert len(launches) == 2
    for launch in launches:
        for architecture in (80, 90):
            assert gpu_kernels.binary(launch, architecture).spilled == 0
