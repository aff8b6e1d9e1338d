"""Runs one function on both libraries and compares values, dtypes, shapes, gradients and the class of errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
DTYPES = ("bool", *INTEGERS, *FLOATS)
TOLERANCE = {
    "float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-10, "complex64": 2e-5, "complex128": 1e-10,
}  # fmt: skip


def draw(shape: Sequence[int], dtype: str, low: float, high: float, seed: int) -> np.ndarray:
    """Test values of a dtype, bfloat16 ones as float32."""
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype in INTEGERS:
        return generator.integers(max(int(low), 0 if dtype == "uint8" else -9), int(high) + 1, shape).astype(dtype)
    values = generator.uniform(low, high, shape)
    return values.astype("float32" if dtype == "bfloat16" else dtype)


def pair(
    array: np.ndarray, dtype: str | None = None, grad: bool = False, layout: str = "contiguous"
) -> tuple[Any, Any]:
    """The array as a tensor of each library."""
    made = []
    for library in (ej, torch):
        name = dtype or str(array.dtype)
        source = array.T.copy() if layout == "transposed" else array
        if layout == "strided":
            source = np.repeat(array, 2, axis=-1) if array.ndim else array
        tensor = library.tensor(source).to(getattr(library, name))
        if layout == "transposed":
            tensor = tensor.permute(*reversed(range(array.ndim)))
        elif layout == "strided" and array.ndim:
            tensor = tensor[..., ::2]
        tensor = tensor.detach()
        made.append(tensor.requires_grad_() if grad and name in FLOATS else tensor)
    return made[0], made[1]


def array_of(tensor: Any) -> np.ndarray:
    """A tensor's values, bfloat16 ones as float32."""
    tensor = tensor.detach()
    if str(tensor.dtype).endswith("bfloat16"):
        tensor = tensor.float()
    return tensor.numpy()


def dtype_name(tensor: Any) -> str:
    """A dtype without its library."""
    return str(tensor.dtype).rpartition(".")[2]


def same(ours: Any, theirs: Any, tolerance: float | None = None, what: str = "result") -> None:
    """Assert that both libraries' results agree: structure, dtype, shape and values."""
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, ej.Tensor), what
        assert dtype_name(ours) == dtype_name(theirs), what
        assert tuple(ours.shape) == tuple(theirs.shape), what
        found, expected = array_of(ours), array_of(theirs)
        if expected.dtype.kind in "fc":
            limit = TOLERANCE[dtype_name(theirs)] if tolerance is None else tolerance
            np.testing.assert_allclose(found, expected, rtol=limit, atol=limit, err_msg=what)
        else:
            np.testing.assert_array_equal(found, expected, err_msg=what)
    elif isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs), what
        for index, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            same(a, b, tolerance, f"{what} {index}")
    else:
        assert ours == theirs or (ours != ours and theirs != theirs), what


def _floats(result: Any) -> list[Any]:
    results = result if isinstance(result, (tuple, list)) else [result]
    return [r for r in results if hasattr(r, "requires_grad") and r.requires_grad]


def outcome(function: Callable[..., Any], library: Any, tensors: Sequence[Any]) -> tuple[Any, BaseException | None]:
    """(result, None) or (None, the error)."""
    try:
        return function(library, *tensors), None
    except Exception as error:  # whatever the other library raises is what is expected
        return None, error


def _backward(library: Any, roots: list[Any], seeds: list[np.ndarray]) -> None:
    library.autograd.backward(roots, [library.tensor(s).to(r.dtype) for s, r in zip(seeds, roots, strict=True)])


def compare(
    function: Callable[..., Any],
    *arrays: np.ndarray,
    dtypes: Sequence[str | None] = (),
    layouts: Sequence[str] = (),
    grad: bool = True,
    tolerance: float | None = None,
) -> None:
    """Call function(library, *tensors) with both libraries; compare results, input gradients, or error classes."""
    names = list(dtypes) or [None] * len(arrays)
    kinds = list(layouts) or ["contiguous"] * len(arrays)
    pairs = [pair(a, d, grad, k) for a, d, k in zip(arrays, names, kinds, strict=True)]
    ours, theirs = [p[0] for p in pairs], [p[1] for p in pairs]
    expected, error = outcome(function, torch, theirs)
    found, own_error = outcome(function, ej, ours)
    if error is not None:
        assert own_error is not None, f"no error where PyTorch raises {error!r}"
        assert isinstance(own_error, type(error)), f"{own_error!r} where PyTorch raises {error!r}"
        return
    if own_error is not None:
        raise own_error
    same(found, expected, tolerance)
    results, references = _floats(found), _floats(expected)
    assert len(results) == len(references), "what requires grad differs"
    if not results:
        return
    seeds = [draw(tuple(r.shape), "float64", -1, 1, 7 + i) for i, r in enumerate(references)]
    _, error = outcome(_backward, torch, [references, seeds])
    _, own_error = outcome(_backward, ej, [results, seeds])
    if error is not None:
        assert isinstance(own_error, type(error)), f"{own_error!r} where PyTorch's backward raises {error!r}"
        return
    if own_error is not None:
        raise own_error
    for index, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if b.grad is None:
            assert a.grad is None, f"gradient of input {index}"
        else:
            same(a.grad, b.grad, tolerance, f"gradient of input {index}")


def result(function: Callable[[Any], Any], library: Any) -> Any:
    """What a function gives with a library, as text, or the class of its error."""
    try:
        found = function(library)
    except Exception as error:
        return type(error)
    return repr(found)


def agree(call: Callable[[Any], Any]) -> None:
    """Assert that a call gives both libraries' results, or fails in both."""
    try:
        expected = call(torch)
    except Exception as error:  # whatever PyTorch raises is what is expected
        with pytest.raises(type(error)):
            call(ej)
        return
    same(call(ej), expected)
