"""Sums of a block's lanes on a GPU: in one order, whichever threads have the lanes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerjit as ej
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler.codegen.triton import source
from eagerjit.compiler.codegen.triton.mapping import PART, STEP, WHOLE
from eagerjit.jit import jit

F = ej.nn.functional
RANDOM = np.random.default_rng(8)


def in_order(x: np.ndarray) -> np.ndarray:
    """The sum along the last dimension, of a power of two of elements: halves down to 512, then neighbours."""
    while (length := x.shape[-1]) > 512:
        x = x[..., : length // 2] + x[..., length // 2 :]
    while x.shape[-1] > 1:
        x = x[..., ::2] + x[..., 1::2]
    return x[..., 0]


def launched(call: Any, *given: Any) -> tuple[Any, list[Any]]:
    with gpu_kernels.interpreted() as made:
        result = jit(call, fullgraph=True)(*given)
    return result, [launch for m in made for launch in m.launched]


@pytest.mark.parametrize("length", [1, 2, 7, 64, 100, 768, 4096, 5000])
def test_rows_are_summed_in_one_order(length: int) -> None:
    """Padded with zeros to a power of two, alone and beside what reads other tensors."""
    x = RANDOM.normal(size=(3, length)).astype(np.float32)
    padded = np.zeros((3, 1 << (length - 1).bit_length()), np.float32)
    padded[:, :length] = x
    expected = in_order(padded)
    found, _ = launched(lambda x: x.sum(1), ej.tensor(x))
    assert found._data.tobytes() == expected.tobytes()
    places = ej.tensor(RANDOM.integers(0, length, (3, length)))
    halves = ej.tensor(RANDOM.normal(size=(3, length))).bfloat16()
    both, _ = launched(lambda x, i, h: (x.sum(1), (x.gather(1, i) * h).sum(1)), ej.tensor(x), places, halves)
    assert both[0]._data.tobytes() == expected.tobytes()


def of_long_rows(x: np.ndarray) -> np.ndarray:
    """The sum along the last dimension: lanes are summed over each part, then over the parts, then added."""
    total = np.zeros((*x.shape[:-1], STEP), np.float32)
    for begin in range(0, x.shape[-1], PART):
        lanes = np.zeros_like(total)
        for first in range(begin, min(begin + PART, x.shape[-1]), STEP):
            step = x[..., first : first + STEP]
            lanes[..., : step.shape[-1]] += step
        total += lanes
    return in_order(total)


def squares(x: Any) -> Any:
    """Row and column sums in one kernel."""
    x = x.detach().requires_grad_()
    weight = ej.ones(x.shape[-1]).requires_grad_()
    (F.layer_norm(x, x.shape[-1:], weight) * x).sum().backward()
    return x.sum(1), weight.grad


LONG: dict[str, Callable[[Any], Any]] = {
    "alone": lambda x: x.sum(1),
    "six at once": lambda x: (x.sum(1), *((x * float(n)).sum(1) for n in range(5))),
    "beside extremes": lambda x: (x.sum(1), x.amax(1), x.argmin(1)),
    "before and after": lambda x: ((lambda s: (s, (x - s[:, None] / 3.0).square().sum(1), x * s[:, None]))(x.sum(1))),
    "stored and summed": lambda x: (x.sum(1), x * 2.0 - x.sum(1, keepdim=True), (x * 2.0).sum(1)),
    "halves": lambda x: (x.sum(1), x.bfloat16().sum(1)),
    "beside columns": squares,
}


@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize("length", [5000, 16384, 16385, 40_000, 70_000])
@pytest.mark.parametrize("name", LONG)
def test_long_rows_are_summed_in_one_order(
    name: str, length: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else the kernel does, and whether programs share a row: of two they do here, of three they do not."""
    monkeypatch.setattr(source, "FULL", 3)
    x = RANDOM.normal(size=(rows, length)).astype(np.float32)
    padded = np.zeros((rows, 1 << (length - 1).bit_length()), np.float32)
    padded[:, :length] = x
    expected = in_order(padded) if length <= WHOLE else of_long_rows(x)
    found, launches = launched(LONG[name], ej.tensor(x))
    first = found[0] if isinstance(found, tuple) else found
    assert first._data.tobytes() == expected.tobytes()
    assert (name != "alone") or bool(launches[0].counters) == (rows == 2 and length > PART)


CALLS: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "sum": (lambda x: x.sum(), [(100_000,)]),
    "sums of rows": (lambda x: x.sum(1), [(30, 70)]),
    "long rows": (lambda x: x.sum(1), [(2, 40_000)]),
    "sums of columns": (lambda x: x.sum(0), [(3000, 40)]),
    "softmax": (lambda x: ej.softmax(x, -1), [(30, 70)]),
    "layer norm": (lambda x, w, b: F.layer_norm(x, w.shape, w, b), [(30, 70), (70,), (70,)]),
    "product": (lambda x: x.prod(1), [(30, 70)]),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_sum_of_floats_is_in_an_order_of_threads(name: str) -> None:
    call, shapes = CALLS[name]
    for dtype in (ej.float32, ej.bfloat16, ej.float64):
        _, launches = launched(call, *[ej.ones(*shape).to(dtype) for shape in shapes])
        for launch in launches:
            text = re.sub(r"def (\w+_in_order)\(x\):\n(?: {4}.*\n)+", "", launch.source.text)
            assert not re.search(r"tl\.reduce\(.*\b(?:add|mul)_(?:f|bf)\d+", text)
            assert not re.search(r"tl\.(?:sum|associative_scan)\(", text)
            if dtype is ej.float32:
                assert gpu_kernels.binary(launch, 90).spilled == 0
