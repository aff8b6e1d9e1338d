"""Everything that the other files compare with PyTorch, jitted: bit for bit the eager results and gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import test_autograd
import test_functional
import test_pointwise
import test_reduction
import test_views
from oracle import array_of, draw

import eagerjit as ej

MATRIX = [draw((3, 4), "float32", 0.2, 2, seed) for seed in (1, 2)]
PROBABILITIES = [draw((3, 4), "float32", 0.1, 0.9, seed) for seed in (1, 2)]


def _cases() -> dict[str, tuple[Callable[..., Any], list[np.ndarray]]]:
    cases: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {}

    def add(prefix: str, table: dict[str, Any], arrays: list[np.ndarray], wrap: Callable[..., Any]) -> None:
        for name, function in table.items():
            cases[f"{prefix} {name}"] = (wrap(function), arrays)

    add("view", test_views.VIEWS, [draw((2, 3, 4), "float32", -2, 2, 1)], lambda f: lambda x: f(ej, x))
    add("make", test_views.MADE, MATRIX, lambda f: lambda x, y: f(ej, x, y))
    add("in place", test_views.INPLACE, MATRIX, lambda f: lambda x, y: f(ej, x, y))
    cube = [draw((3, 4, 2), "float32", -2, 2, 1)]
    add("read", test_views.INDICES, cube, lambda key: lambda x: x[key(ej)] * 1)
    add(
        "write",
        test_views.INDICES,
        cube * 2,
        lambda key: lambda x, y: test_views.written(key, lambda t, z: 7.0)(ej, x, y),
    )
    add("reduce", test_reduction.MORE, [draw((3, 5), "float32", -2, 2, 1)], lambda f: lambda x: f(ej, x))
    add("product", test_reduction.PRODUCTS, MATRIX, lambda f: lambda x, y: f(ej, x, y))
    add("pointwise", test_pointwise.MADE_OF_OTHERS, MATRIX, lambda f: lambda x, y: f(ej, x, y))
    square = [draw((4, 5), "float32", -2, 2, seed) for seed in (1, 2)]
    add("function", test_functional.F, square, lambda f: lambda x, y: f(ej.nn.functional, ej, x, y))
    add("loss", test_functional.LOSSES, PROBABILITIES, lambda f: lambda x, y: f(ej.nn.functional, x, y))
    heads = [draw((2, 3, n, 8), "float32", -1, 1, n) for n in (4, 6, 6)]
    add("attention", test_functional.ATTENTION, heads, lambda f: lambda q, k, v: f(ej, q, k, v))
    vectors = [draw((4,), "float64", 0.3, 1.5, seed) for seed in (1, 2)]
    add("expression", test_autograd.EXPRESSIONS, vectors, lambda f: lambda x, y: f(ej, x, y))
    return cases


CASES = _cases()

def run(function: Callable[..., Any], arrays: list[np.ndarray]) -> tuple[str, list[Any]]:
    """(class of the error, results and gradients as arrays)."""
    tensors = [ej.tensor(a, requires_grad=True) for a in arrays]
    try:
        result = function(*tensors)
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        roots = [r for r in results if isinstance(r, ej.Tensor) and r.requires_grad]
        if roots:
            ej.autograd.backward(roots, [ej.ones_like(r) for r in roots])
    except Exception as error:
        return type(error).__name__, []
    values = [array_of(r) if isinstance(r, ej.Tensor) else r for r in results]
    return "", values + [None if t.grad is None else array_of(t.grad) for t in tensors]


@pytest.mark.parametrize("name", CASES)
def test_jitted(name: str) -> None:
    function, arrays = CASES[name]
    expected_error, expected = run(function, arrays)
    jitted = ej.jit(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            error, found = run(jitted, arrays)
            assert error == expected_error
            assert len(found) == len(expected)
            for a, b in zip(found, expected, strict=True):
                if isinstance(b, np.ndarray):
                    assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes(), (a, b)
                else:
                    assert a == b
