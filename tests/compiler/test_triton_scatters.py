"""Scatters of many entries on GPUs, whose programs share a line: the bits and errors of one entry after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerjit as ej
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler.lower import scattered
from eagerjit.jit import jit

RANDOM = np.random.default_rng(9)
NODES, EDGES, WIDE = 7, 60, 5


def numbers(*shape: int, dtype: Any = None) -> Any:
    return ej.tensor(RANDOM.normal(size=shape) * 4).to(dtype or ej.float32)


def places(count: int, *shape: int) -> Any:
    return ej.tensor(RANDOM.integers(0, count, shape))


def of_rows() -> Any:
    return places(NODES, EDGES).unsqueeze(1).expand(EDGES, WIDE)


def columns() -> tuple[Any, ...]:
    return numbers(NODES, WIDE), places(NODES, EDGES, WIDE), numbers(EDGES, WIDE)


def rows() -> tuple[Any, ...]:
    return numbers(NODES, WIDE), of_rows(), numbers(EDGES, WIDE)


CASES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]], str]] = {
    "rows": (lambda b, i, s: b.scatter_add(0, i, s), rows, "add_rows"),
    "columns": (lambda b, i, s: b.scatter_add(0, i, s), columns, "scatter_add"),
    "rows, of which some columns": (lambda b, i, s: b.scatter_add(0, i[:, :3], s), rows, "scatter_add"),
    "along the last dimension": (
        lambda b, i, s: b.scatter_add(-1, i, s),
        lambda: (numbers(2, 3, NODES), places(NODES, 2, 3, EDGES), numbers(2, 3, EDGES)), "scatter_add",
    ),
    "fewer lines than there are": (
        lambda b, i, s: b.scatter_add(1, i, s),
        lambda: (numbers(3, NODES, WIDE), places(NODES, 2, EDGES, 3), numbers(3, EDGES + 1, WIDE)), "scatter_add",
    ),
    "into a view": (
        lambda b, i, s: b.mT.scatter_add(0, i, s.mT[::2]),
        lambda: (numbers(WIDE, NODES), places(NODES, EDGES, WIDE), numbers(WIDE, 2 * EDGES)), "scatter_add",
    ),
    "32-bit places": (lambda b, i, s: b.scatter_add(0, i.int(), s), columns, "scatter_add"),
    "rows in the place of rows": (lambda b, i, s: b.scatter(0, i, s), rows, "put_rows"),
    "in the place of others": (lambda b, i, s: b.scatter(0, i, s), columns, "scatter"),
    "largest of rows": (lambda b, i, s: b.scatter_reduce(0, i, s, "amax"), rows, "scatter"),
    "mean of rows": (lambda b, i, s: b.scatter_reduce(0, i, s, "mean", include_self=False), rows, "add_rows"),
    "products": (lambda b, i, s: b.scatter_reduce(0, i, s, "prod"), columns, "scatter"),
    "gradient of what is gathered": (
        lambda b, i, s: ej.func.grad(lambda x: (x.gather(0, i) * s).sum())(b), columns, "scatter_add"
    ),
}  # fmt: skip


def launched(call: Callable[..., Any], *given: Any) -> tuple[Any, set[str]]:
    """A call's result, and the names of its kernels without numbers."""
    with gpu_kernels.interpreted() as made:
        result = jit(call, fullgraph=True)(*given)
    names = [launch.source.name for m in made for launch in m.launched]
    return result, {name.split("_", 1)[1].rstrip("_0123456789") for name in names}


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scattered, "ENTRIES", 10)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
@pytest.mark.parametrize("name", CASES)
def test_the_bits_are_those_of_one_after_the_other(name: str, dtype: str, shared: None) -> None:
    call, make, kernel = CASES[name]
    if dtype == "int64" and "gradient" in name:
        dtype = "float64"
    given = [x if x.dtype is ej.int64 else x.to(getattr(ej, dtype)) for x in make()]
    expected = call(*given)
    found, names = launched(call, *given)
    assert found._data.tobytes() == expected._data.tobytes()
    assert kernel in names


@pytest.mark.parametrize("name", ["rows", "columns", "in the place of others"])
@pytest.mark.parametrize("wrong", [-1, NODES])
def test_places_out_of_range(name: str, wrong: int, shared: None) -> None:
    """One of them is that of another line, were lines not told apart."""
    call, make, _ = CASES[name]
    base, index, value = make()
    index = index.clone() if name != "rows" else index
    index[EDGES // 2, 0] = wrong
    kind = "scatter" if "others" in name else "scatter_add"
    for run in (lambda: call(base, index, value), lambda: launched(call, base, index, value)):
        with pytest.raises(RuntimeError, match=rf"out of range in {kind}\b.*the dimension has size {NODES}"):
            run()


def test_few_entries_and_many_lines_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    call, make, _ = CASES["columns"]
    given = make()
    expected, before = launched(call, *given)
    monkeypatch.setattr(scattered, "ENTRIES", 10)
    monkeypatch.setattr(scattered, "LINES", WIDE - 1)
    _, many = launched(call, *given)
    monkeypatch.setattr(scattered, "LINES", WIDE)
    found, shared = launched(call, *given)
    assert before == many != shared and found._data.tobytes() == expected._data.tobytes()


def test_other_sizes_than_those_of_the_first_call(shared: None) -> None:
    call = jit(CASES["columns"][0], fullgraph=True)
    sizes = ((4, 30), (9, 5), (3, 2))
    calls = [(numbers(nodes, WIDE), places(nodes, edges, WIDE), numbers(edges, WIDE)) for nodes, edges in sizes]
    expected = [base.scatter_add(0, index, value) for base, index, value in calls]
    with gpu_kernels.interpreted() as made:
        for given, known in zip(calls, expected, strict=True):
            assert call(*given)._data.tobytes() == known._data.tobytes()
    assert len(made) == 1
