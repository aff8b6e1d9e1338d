"""Sums of a block's lanes on a GPU: in one order, whichever threads have the lanes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import eagerjit as ej
from eagerjit.compiled import gpu_kernels
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
