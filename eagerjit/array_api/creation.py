"""Tensors made of numbers, sequences and other libraries' arrays."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

import eagerjit
from eagerjit.array_api.operands import check_array
from eagerjit.devices import CPU, Device, check_device
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.state import Defaults
from eagerjit.tensors import creation, dlpack
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid",
    "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """start, start + step, ... before stop; empty where the step leads away from it. ValueError for a step of 0."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange(): step must not be 0")
    if (stop - start) * step < 0:
        stop = start + 0 * stop
    return eagerjit.arange(start, stop, step, dtype=dtype, device=device)


def asarray(obj: Any, /, *, dtype: DType | None = None, device: Any = None, copy: Any = None) -> Tensor:
    """A tensor of a tensor, number, nested sequence of numbers, or an object with the buffer protocol or DLPack.

    Memory is shared where there is any and the dtype allows, unless `copy`; ValueError if `copy=False` and it can't be.
    """
    check_device(device)
    shared = _shared(obj)
    changes = shared is not None and dtype is not None and shared.dtype is not dtype
    if copy is False and (changes or shared is None):
        raise ValueError("asarray(): copy=False, and this object cannot become a tensor without a copy")
    if shared is None:
        return creation.tensor(obj, dtype=dtype)
    if changes:
        return shared.to(dtype)
    return shared.clone() if copy else shared


def _shared(obj: Any) -> Tensor | None:
    """A tensor over the object's memory, None for numbers, sequences and others that have none to share."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.ndarray):
        return creation.from_numpy(obj)
    if isinstance(obj, (bool, int, float, complex, list, tuple, range, np.generic)):
        return None
    if hasattr(obj, "__dlpack__"):
        return dlpack.from_dlpack(obj)
    try:
        memory = memoryview(obj)
    except TypeError:
        return None
    return creation.from_numpy(np.asarray(memory))


def empty(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Uninitialised memory; inside a compiled function zeros."""
    return eagerjit.empty(shape, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Uninitialised memory in the shape of x, by default of its dtype."""
    return eagerjit.empty_like(check_array("empty_like", x), dtype=dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """A matrix of zeros with ones on its k-th diagonal; those above the main one have k > 0."""
    check_device(device)
    rows, columns = (eagerjit.arange(n) for n in (n_rows, n_rows if n_cols is None else n_cols))
    return (rows.unsqueeze(1) + k == columns).to(dtype or Defaults.dtype)


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Tensor:
    """A tensor over the memory of an object with `__dlpack__`, or over a copy.

    Raises AttributeError for an object without it, BufferError for one that the CPU can't read.
    """
    if not hasattr(x, "__dlpack__"):
        raise AttributeError(f"from_dlpack(): '{type(x).__name__}' object has no __dlpack__")
    if device is not None and Device(device) != CPU:
        raise BufferError(f"from_dlpack(): tensors live on the CPU, not on {device}")
    return dlpack.from_dlpack(x, copy=copy)


def full(shape: Any, fill_value: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """One value everywhere; its type decides the dtype."""
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    return eagerjit.full(sizes, fill_value, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """One value in the shape of x, by default in its dtype."""
    return eagerjit.full_like(check_array("full_like", x), fill_value, dtype=dtype, device=device)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: DType | None = None, device: Any = None, endpoint: Any = True
) -> Tensor:
    """num evenly spaced numbers from start to stop, which is the last one or, without `endpoint`, the next one.

    Of complex numbers where either is one. Raises ValueError for a negative number of them.
    """
    check_device(device)
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"linspace(): the number of samples must not be negative, got {num}")
    start, stop = (x.item() if isinstance(x, Tensor) else x for x in (start, stop))
    if dtype is None:
        complexes = isinstance(start, complex) or isinstance(stop, complex)
        dtype = dtypes.COMPLEX_OF.get(Defaults.dtype, dtypes.complex64) if complexes else Defaults.dtype
    return creation.constant_array(np.linspace(start, stop, num, endpoint=bool(endpoint)).astype(dtype.numpy))


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Vectors spread over a grid of as many dimensions, the first one along columns ("xy") or along rows ("ij").

    Raises ValueError for another way of indexing.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid(): indexing must be 'xy' or 'ij', not {indexing!r}")
    for x in arrays:
        check_array("meshgrid", x)
    return list(eagerjit.meshgrid(*arrays, indexing=indexing)) if arrays else []


def ones(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Ones."""
    return eagerjit.ones(shape, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Ones in the shape of x, by default of its dtype."""
    return eagerjit.ones_like(check_array("ones_like", x), dtype=dtype, device=device)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The lower triangles of matrices: zeros above the k-th diagonal."""
    return eagerjit.tril(check_array("tril", x), k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The upper triangles of matrices: zeros below the k-th diagonal."""
    return eagerjit.triu(check_array("triu", x), k)


def zeros(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Zeros."""
    return eagerjit.zeros(shape, dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Zeros in the shape of x, by default of its dtype."""
    return eagerjit.zeros_like(check_array("zeros_like", x), dtype=dtype, device=device)
