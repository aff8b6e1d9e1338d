"""Assertions on tensors for tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from eagerjit.ops.complexes import view_as_complex
from eagerjit.ops.index import concrete
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.sparse.tensor import SparseTensor
from eagerjit.tensors import creation
from eagerjit.tensors.limits import finfo
from eagerjit.tensors.making import sparse_csr, strided
from eagerjit.tensors.placement import host_array, moved, wanted
from eagerjit.tensors.tensor import Tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

_TOLERANCES = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip
"""(relative, absolute) by dtype, as PyTorch documents them for `assert_close`."""


class _Options(NamedTuple):
    """What `assert_close` is told."""

    rtol: float | None
    atol: float | None
    equal_nan: bool
    allow_subclasses: bool
    checked: tuple[str, ...]


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
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected|, and what is checked agrees.

    Sequences and mappings are compared item by item; TypeError for values that are no pair. Tolerances depend on the
    dtype unless both are given; the larger ones count where dtypes may differ. Tensors on meta have no values that
    could differ.
    """
    if (rtol is None) != (atol is None):
        absent = "rtol" if rtol is None else "atol"
        raise ValueError(f"rtol and atol must both be specified or both be unspecified, but got no {absent}")
    checks = {"shape": True, "layout": check_layout, "device": check_device, "dtype": check_dtype}
    checked = tuple(name for name, wanted in {**checks, "stride()": check_stride}.items() if wanted)
    options = _Options(rtol, atol, equal_nan, allow_subclasses, checked)

    def fail(text: str) -> None:
        raise AssertionError(text if msg is None else msg(text) if callable(msg) else msg)

    _compare(actual, expected, "", options, fail)


def _compare(actual: Any, expected: Any, where: str, options: _Options, fail: Callable[[str], None]) -> None:
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
        _compare_tensors(*_tensors(actual, expected, options.allow_subclasses), where, options, fail)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _tensors(actual: Any, expected: Any, allow_subclasses: bool) -> tuple[Tensor, Tensor]:
    """Two numbers, or two tensors or arrays, as tensors."""
    pair = actual, expected
    if all(isinstance(x, (int, float, complex, np.number)) for x in pair):
        numbers = [x.item() if isinstance(x, np.number) else x for x in pair]
        first, second = (creation.tensor(x, dtype=dtypes.float64 if type(x) is float else None) for x in numbers)
        return first, second
    kinds = [Tensor if type(x) is SparseTensor else type(x) for x in pair]  # PyTorch has no class for these
    related = issubclass(*kinds) or issubclass(*reversed(kinds))
    known = all(isinstance(x, (Tensor, np.ndarray, np.generic)) for x in pair)
    if not known or not related or not (allow_subclasses or kinds[0] is kinds[1]):
        raise TypeError(f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.")
    first, second = (x.detach() if isinstance(x, Tensor) else creation.tensor(x) for x in pair)
    return first, second


def _compare_tensors(
    actual: Tensor, expected: Tensor, where: str, options: _Options, fail: Callable[[str], None]
) -> None:
    for name in options.checked:
        found, wanted = (t.stride() if name == "stride()" else getattr(t, name) for t in (actual, expected))
        if found != wanted:
            fail(f"The values for attribute '{name}' do not match{where}: {found} != {wanted}.")
    if actual.is_meta or expected.is_meta:
        return
    if actual.layout is strided and expected.layout is strided:
        return _compare_values(actual, expected, where, options, fail)
    if actual.layout is not expected.layout:
        return _compare_values(actual.to_dense(), expected.to_dense(), where, options, fail)
    exact = options._replace(rtol=0.0, atol=0.0)
    *places, values = zip(_parts(actual), _parts(expected), strict=True)
    for one, other in places:
        _compare_tensors(one, other, where, exact, fail)
    _compare_tensors(*values, where, options, fail)


def _parts(tensor: Any) -> tuple[Tensor, ...]:
    """What tells a sparse tensor's places, and its values."""
    if tensor.is_sparse:
        return tensor._indices(), tensor._values()
    by_rows = tensor.layout is sparse_csr
    places = (tensor.crow_indices(), tensor.col_indices()) if by_rows else (tensor.ccol_indices(), tensor.row_indices())
    return *places, tensor.values()


def _compare_values(
    actual: Tensor, expected: Tensor, where: str, options: _Options, fail: Callable[[str], None]
) -> None:
    rtol, atol, equal_nan = options.rtol, options.atol, options.equal_nan
    if rtol is None or atol is None:
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


_DRAWN = {"bool": (0, 2), "uint": (0, 10), "float": (-9, 9), "complex": (-9, 9)}
"""From where up to where `make_tensor` draws, by kinds of dtypes; -9 up to 10 for others."""


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
    requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor of random values from low up to high: -9 to 9 by default, 0 to 9 without signs, 0 and 1 for booleans.

    Raises ValueError for limits without values between them, gradients of integers, and where `noncontiguous` and
    `memory_format` are given both.
    """
    from eagerjit import random

    if noncontiguous and memory_format is not None:
        raise ValueError("The parameters `noncontiguous` and `memory_format` are mutually exclusive")
    if requires_grad and not dtype.is_differentiable:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}")
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    if noncontiguous and sizes:
        sizes = (*sizes[:-1], sizes[-1] * 2)
    lowest, highest = _DRAWN.get(dtype.kind, (-9, 10))
    first, last = lowest if low is None else low, highest if high is None else high
    if first > last or (first == last and not dtype.is_differentiable):
        raise ValueError(f"`low` must be less than `high`, but got {first} >= {last}")
    if dtype.is_differentiable:
        drawn = random.rand((*sizes, 2) if dtype.is_complex else sizes, dtype=dtypes.float64) * (last - first) + first
        made = (view_as_complex(drawn) if dtype.is_complex else drawn).to(dtype)
        least = finfo(dtype).tiny * (1 + 1j if dtype.is_complex else 1)
    else:
        made, least = random.randint(math.ceil(first), math.ceil(last), sizes).to(dtype), 1
    if exclude_zero:
        made = made.masked_fill(made == 0, least)
    made = made[..., ::2] if noncontiguous and sizes else made
    made = moved(made, wanted(device))
    made = made if memory_format is None else made.clone(memory_format=memory_format)
    return made.detach().requires_grad_() if requires_grad else made
