"""Assertions on tensors for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from eagerjit.ops.index import concrete
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.tensors import creation
from eagerjit.tensors.placement import host_array, moved, wanted
from eagerjit.tensors.tensor import Tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

_TOLERANCES = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip
"""(relative, absolute) by dtype, as PyTorch documents them for `assert_close`."""


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected|, and dtypes and shapes agree.

    Sequences and mappings are compared item by item. Tolerances depend on the dtype unless both are given; the larger
    ones count where dtypes may differ.
    """
    if (rtol is None) != (atol is None):
        absent = "rtol" if rtol is None else "atol"
        raise ValueError(f"rtol and atol must both be specified or both be unspecified, but got no {absent}")
    options = rtol, atol, equal_nan, check_dtype, check_stride

    def fail(text: str) -> None:
        raise AssertionError(text if msg is None else msg(text) if callable(msg) else msg)

    _compare(actual, expected, "", options, fail)


def _compare(actual: Any, expected: Any, where: str, options: Any, fail: Callable[[str], None]) -> None:
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            keys = [sorted(map(str, m)) for m in (actual, expected)]
            fail(f"The keys of the mappings do not match{where}: {keys[0]}, {keys[1]}")
        for key in actual:
            _compare(actual[key], expected[key], f"{where}[{key!r}]", options, fail)
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            fail(f"The length of the sequences mismatch{where}: {len(actual)} != {len(expected)}")
        for index, (a, b) in enumerate(zip(actual, expected, strict=True)):
            _compare(a, b, f"{where}[{index}]", options, fail)
    elif actual is None or expected is None:
        if actual is not expected:
            fail(f"None mismatch{where}: {actual} is not {expected}")
    else:
        _compare_tensors(_tensor(actual, expected), _tensor(expected, actual), where, options, fail)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _tensor(value: Any, other: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, (bool, int, float, complex, np.ndarray, np.generic)):
        if isinstance(value, float) and not isinstance(other, Tensor):
            return creation.tensor(value, dtype=dtypes.float64)
        return creation.tensor(value)
    raise TypeError(f"No comparison pair was able to handle inputs of type {type(value)} and {type(other)}.")


def _compare_tensors(actual: Tensor, expected: Tensor, where: str, options: Any, fail: Callable[[str], None]) -> None:
    rtol, atol, equal_nan, check_dtype, check_stride = options
    if actual.shape != expected.shape:
        fail(f"The values for attribute 'shape' do not match{where}: {actual.shape} != {expected.shape}.")
    if check_dtype and actual.dtype is not expected.dtype:
        fail(f"The values for attribute 'dtype' do not match{where}: {actual.dtype} != {expected.dtype}.")
    if check_stride and actual.stride() != expected.stride():
        fail(f"The values for attribute 'stride()' do not match{where}: {actual.stride()} != {expected.stride()}.")
    if rtol is None:
        bounds = [_TOLERANCES.get(t.dtype.name, (0.0, 0.0)) for t in (actual, expected)]
        rtol, atol = (max(pair) for pair in zip(*bounds, strict=True))
    a, b = (_wide(t) for t in (actual, expected))
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) <= atol + rtol * np.abs(b)))
        same |= equal_nan & np.isnan(a) & np.isnan(b)
        difference = np.abs(a - b)
    if same.all():
        return
    wrong = int((~same).sum())
    worst = np.unravel_index(int(np.where(same, -1, np.nan_to_num(difference, nan=np.inf)).argmax()), a.shape)
    place = tuple(map(int, worst))
    kind = "not equal" if rtol == atol == 0 else "not close"
    fail(
        f"Tensor-likes are {kind}{where}!\n\nMismatched elements: {wrong} / {a.size} ({100 * wrong / a.size:.1f}%)\n"
        f"Greatest absolute difference: {difference[worst]} at index {place} (up to {atol} allowed)\n"
        f"Actual {a[worst]}, expected {b[worst]} (up to a relative {rtol} allowed)"
    )


def _wide(tensor: Tensor) -> np.ndarray:
    """Values that can be subtracted; whole numbers beyond 2^53 as they are."""
    array = host_array(concrete(tensor, "tensors were compared in Python"))
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    if tensor.dtype.is_floating_point:
        return array.astype(np.float64)
    return (
        array.astype(np.int64)
        if array.size and np.abs(array.astype(np.float64)).max() < 2**62
        else array.astype(object)
    )


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True,
    msg: str = "",
) -> None:  # fmt: skip
    """`assert_close` without a look at dtypes, under its older name."""
    if not isinstance(actual, Tensor):
        actual = creation.as_tensor(actual)
    if not isinstance(expected, Tensor):
        expected = creation.as_tensor(expected, dtype=actual.dtype)
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


def make_tensor(
    *shape: Any, dtype: DType, device: Any = "cpu", low: float | None = None, high: float | None = None,
    requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False, **ignored: Any,
) -> Tensor:  # fmt: skip
    """A tensor of random values from low up to high; -9 to 9 by default, 0 and 1 for booleans."""
    from eagerjit import random

    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    if noncontiguous and sizes:
        sizes = (*sizes[:-1], sizes[-1] * 2)
    if dtype is dtypes.bool_:
        made = random.randint(0, 2, sizes).to(dtype)
    elif dtype.is_floating_point:
        first, last = -9.0 if low is None else low, 9.0 if high is None else high
        made = (random.rand(sizes, dtype=dtypes.float64) * (last - first) + first).to(dtype)
    else:
        first, last = (
            (0 if dtype.kind == "uint" else -9) if low is None else int(low),
            10 if high is None else int(high),
        )
        made = random.randint(first, last, sizes).to(dtype)
    if exclude_zero:
        made = made.where(made != 0, creation.ones((), dtype=dtype))
    made = made[..., ::2] if noncontiguous and sizes else made
    made = moved(made, wanted(device))
    return made.detach().requires_grad_() if requires_grad else made
