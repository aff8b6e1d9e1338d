"""Functions of the namespace in compiled functions: results and gradients of the plain call, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import test_namespace
import test_numeric
import test_positions
from oracle import draw

import eagerjit

MATRIX, OTHER = draw((3, 4), "float32", -2, 2, 1), draw((3, 4), "float32", -2, 2, 9)


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda t, x, s: function(t, x * 1, s)


CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    **{name: (f, [MATRIX]) for name, f in {**test_namespace.CASES, **test_numeric.FUNCTIONS}.items()},
    **{name: (f, [MATRIX, OTHER]) for name, f in test_positions.CASES.items()},
    **{name: (_in_place(f), [MATRIX, OTHER]) for name, f in test_positions.INPLACE.items()},
}


def tensors_of(result: Any) -> list[Any]:
    if isinstance(result, eagerjit.Tensor):
        return [result]
    return [t for part in result for t in tensors_of(part)] if isinstance(result, (tuple, list)) else []


def outcome(function: Callable[..., Any], arrays: list[Any]) -> tuple[str, list[Any]]:
    """(class of the error of the call or its gradient, bytes of results and gradients)."""
    tensors = [eagerjit.tensor(a, requires_grad=True) for a in arrays]
    try:
        results = tensors_of(function(*tensors))
    except Exception as error:
        return type(error).__name__, []
    found = [r.detach().contiguous()._data.tobytes() for r in results]
    connected = [r for r in results if r.requires_grad]
    try:
        if connected:
            sum((r.double() * 0.7).sum() for r in connected).backward()
    except RuntimeError as error:
        return type(error).__name__, found
    return "", found + [None if t.grad is None else t.grad.contiguous()._data.tobytes() for t in tensors]


@pytest.mark.parametrize("name", CASES)
def test_jitted_is_eager(name: str) -> None:
    function, arrays = CASES[name]
    expected = outcome(lambda *x: function(eagerjit, *x), arrays)
    jitted = eagerjit.jit(lambda *x: function(eagerjit, *x))
    for _ in range(2):
        assert outcome(jitted, arrays) == expected
    assert expected[0] or jitted.cache_info().eager_calls == 0
