"""Calls functions of the array API standard on eagerjit's namespace and on array-api-strict's, and compares.

Also: a compiled call gives bit for bit what the plain one gives, and gradients are PyTorch's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import array_api_strict
import numpy as np
import torch

import eagerjit as ej
from eagerjit import array_api as xp

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    array_api_strict.set_array_api_strict_flags(api_version="2024.12")

Case = tuple[Callable[..., Any], list[np.ndarray]]
"""A function of a namespace and arrays, and the arrays."""

RANDOM = np.random.default_rng(7)
VECTOR = np.array([3.0, -1.0, 2.5, -1.0])
MATRIX = RANDOM.standard_normal((3, 4)).astype(np.float32)
CUBE = RANDOM.standard_normal((2, 3, 4))
INTEGERS = np.array([[4, -2, 0], [7, 7, -5]], np.int32)
SMALL = np.array([[100, 27], [-128, 3]], np.int8)
TRUTH = np.array([[True, False, True], [False, False, True]])
COMPLEX = (RANDOM.standard_normal((3, 4)) + 1j * RANDOM.standard_normal((3, 4))).astype(np.complex64)
SCALAR = np.array(2.5)
EMPTY = np.zeros((0, 3))


def flat(result: Any) -> list[Any]:
    """A result's tensors or arrays."""
    return [x for part in result for x in flat(part)] if isinstance(result, (tuple, list)) else [result]


def tensors(arrays: list[np.ndarray], grad: bool = False) -> list[Any]:
    """Arrays as tensors of eagerjit."""
    return [ej.tensor(a, requires_grad=grad and a.dtype.kind == "f") for a in arrays]


def check(case: Case, tolerance: float = 1e-5) -> None:
    """Assert that both namespaces give results of the same dtypes, shapes and values."""
    function, arrays = case
    ours = flat(function(xp, *tensors(arrays)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = flat(function(array_api_strict, *[array_api_strict.asarray(a) for a in arrays]))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        expected = np.asarray(b)
        assert isinstance(a, ej.Tensor)
        assert a.dtype.name == expected.dtype.name
        assert tuple(a.shape) == expected.shape
        if expected.dtype.kind in "fc":
            np.testing.assert_allclose(a.numpy(), expected, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(a.numpy(), expected)


def bits(values: list[Any]) -> list[tuple[Any, ...]]:
    """What tensors are, to the last bit."""
    return [(x.dtype, tuple(x.shape), x.detach().numpy().tobytes()) for x in values]


def check_compiled(case: Case) -> None:
    """Assert that compiled calls give the plain call's bits: the first, a second, and the gradients of both."""
    function, arrays = case

    def call(*inputs: Any) -> Any:
        return function(xp, *inputs)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # complex numbers run eagerly
        compiled = ej.jit(call)
        for _ in range(2):
            plain, fast = tensors(arrays, True), tensors(arrays, True)
            expected, found = flat(call(*plain)), flat(compiled(*fast))
            assert bits(found) == bits(expected)
            assert gradients(found, fast) == gradients(expected, plain)


def check_sizes(case: Case) -> None:
    """Assert that one compiled function gives the plain call's bits, or raises its class of error, for other sizes."""
    function, arrays = case

    def call(*inputs: Any) -> Any:
        return function(xp, *inputs)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # results that are complex numbers come eagerly
        compiled = ej.jit(call)
        for count in (1, 2, 3, 1):
            sized = [np.concatenate([a] * count) if a.ndim else a for a in arrays]
            assert _outcome(compiled, sized) == _outcome(call, sized)


def _outcome(function: Callable[..., Any], arrays: list[np.ndarray]) -> Any:
    try:
        return bits(flat(function(*tensors(arrays))))
    except (ValueError, RuntimeError, IndexError) as error:
        return type(error)


def first_of_each(cases: dict[str, Case]) -> list[str]:
    """The first case of each function that has inputs of real numbers, which are compiled."""
    found = {}
    for name, (_, arrays) in cases.items():
        if arrays and all(a.dtype.kind != "c" for a in arrays):
            found.setdefault(name.split()[0], name)
    return list(found.values())


def gradients(results: list[Any], inputs: list[Any]) -> list[Any]:
    """Bits of the inputs' gradients, for a gradient of the results that tells elements apart; or the class of error."""
    total = None
    for x in results:
        if x.requires_grad:
            weights = ej.arange(1, x.numel() + 1, dtype=ej.float64).reshape(x.shape)
            part = ((x.real + x.imag if x.dtype.is_complex else x) * weights).sum()
            total = part if total is None else total + part
    if total is None:
        return []
    try:
        total.backward()
    except RuntimeError as error:
        return [type(error)]
    return bits([x.grad for x in inputs if x.grad is not None])


def check_gradient(ours: Callable[..., Any], theirs: Callable[..., Any], arrays: list[np.ndarray]) -> None:
    """Assert that the gradients of a function of tensors are those of PyTorch's."""
    a = tensors(arrays, True)
    b = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in arrays]
    for inputs, function in ((a, ours), (b, theirs)):
        out = function(*inputs)
        (out * out * 0.5 + out).sum().backward()
    for x, y in zip(a, b, strict=True):
        assert (x.grad is None) == (y.grad is None)
        if y.grad is not None:
            np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-5, atol=1e-6)
