"""Values written to memory that does not lie in order: by one kernel where nothing is read after it was overwritten."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerjit
from eagerjit.runtime.program import Op

VIEWS: dict[str, Callable[[Any], Any]] = {
    "columns": lambda a: a[:, 1:],
    "all but the last column": lambda a: a[:, :-1],
    "one column": lambda a: a[:, 3:4],
    "every second row": lambda a: a[::2],
    "every third column": lambda a: a[:, ::3],
    "inner part": lambda a: a[1:-1, 2:-2],
    "turned part": lambda a: a[1:, 2:].T,
    "square": lambda a: a[:17, :17],
    "nothing": lambda a: a[:, :0],
}
"""Parts of a matrix of 19 rows and 37 columns, by indices that both libraries take."""

WRITES: dict[str, tuple[Callable[[Any, Any, Any], Any], Callable[[Any, Any, Any], Any]]] = {
    "copy": (lambda u, c, row: u.copy_(c), lambda a, c, row: c),
    "copy a row": (lambda u, c, row: u.copy_(row), lambda a, c, row: np.broadcast_to(row, a.shape)),
    "add": (lambda u, c, row: u.add_(3), lambda a, c, row: a + 3),
    "mul": (lambda u, c, row: u.mul_(c), lambda a, c, row: a * c),
    "sub a row": (lambda u, c, row: u.sub_(row), lambda a, c, row: a - row),
    "itself": (lambda u, c, row: u.mul_(u), lambda a, c, row: a * a),
    "fill": (lambda u, c, row: u.fill_(7), lambda a, c, row: np.full_like(a, 7)),
    "turned over": (lambda u, c, row: u.copy_(u.flip(0)), lambda a, c, row: a[::-1].copy()),
    "where": (
        lambda u, c, row: u.copy_(u.where(c == 2, row)),
        lambda a, c, row: np.where(c == 2, a, row).astype(a.dtype),
    ),
}
"""In-place work, and its values by NumPy."""


def numbers(dtype: Any, *shape: int) -> np.ndarray:
    return (np.arange(int(np.prod(shape))) % 5 + 1).reshape(shape).astype(dtype)


def written(dtype: Any, view: Callable[[Any], Any], name: str, wrap: Callable[[Any], Any]) -> None:
    write, value = WRITES[name]
    whole = numbers(dtype, 19, 37)
    part = view(whole)
    c = numbers(dtype, *part.shape)
    row = numbers(dtype, *part.shape[1:])
    tensor, c_, row_ = (eagerjit.from_numpy(x.copy()) for x in (whole, c, row))
    expected = value(part, c, row)
    wrap(write)(view(tensor), c_, row_)
    part[...] = expected
    np.testing.assert_array_equal(tensor.numpy(), whole)


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, np.float16, np.complex64])
def test_only_the_part_is_written(dtype: Any, view: str, name: str) -> None:
    written(dtype, VIEWS[view], name, lambda f: f)
    written(dtype, VIEWS[view], name, eagerjit.jit)


def kernels_of(program: Any) -> int:
    return sum(op[0] is Op.KERNEL for op in program.instructions)


def test_one_kernel_computes_and_writes() -> None:
    base = eagerjit.ones(19, 37)
    for part, write in itertools.product((base[:, 1:], base[::2]), ("copy", "add", "mul", "sub a row", "itself")):
        jitted = eagerjit.jit(WRITES[write][0])
        arguments = part, eagerjit.ones(part.shape), eagerjit.ones(37 - (part.shape[1] < 37))
        jitted(*arguments)
        assert kernels_of(jitted.explain(*arguments).program) == 1, write


@pytest.mark.parametrize("view", VIEWS)
def test_what_reads_the_value_afterwards_reads_it_right(view: str) -> None:
    def read(u: Any, c: Any, w: Any) -> Any:
        u.mul_(c)
        return u.sum(), u * 2.0, u.mT.sum(0)

    def shared(u: Any, c: Any, w: Any) -> Any:
        value = c.exp()
        u.copy_(value)
        w.copy_(value)
        return value + 1.0

    def twice(u: Any, c: Any, w: Any) -> Any:
        u.add_(c)
        w.copy_(u)
        u.mul_(w)
        return u.cumsum(0)

    def crossed(u: Any, c: Any, w: Any) -> Any:
        before = u * 1.0
        u.copy_(w)
        w.copy_(before)
        return before

    def turned(u: Any, c: Any, w: Any) -> Any:
        if u.shape[0] == u.shape[1]:
            u.add_(u.mT)
        return u.clone()

    for function in (read, shared, twice, crossed, turned):
        results = []
        for call in (function, eagerjit.jit(function)):
            bases = [eagerjit.from_numpy(numbers(np.float32, 19, 37) + i) for i in range(2)]
            u, w = map(VIEWS[view], bases)
            found = call(u, eagerjit.from_numpy(numbers(np.float32, *u.shape)), w)
            results.append([x.tolist() for x in (*bases, *(found if isinstance(found, tuple) else (found,)))])
        assert results[0] == results[1], function.__name__
