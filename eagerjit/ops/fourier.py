"""Discrete Fourier transforms by NumPy: complex to complex, real to half a spectrum, and back, times a factor.

Each is linear, and the gradient of each is made of the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.ops.host import HostOp
from eagerjit.runtime import dtypes
from eagerjit.tensor import Tensor

Dims = tuple[int, ...]


class Transform(HostOp):
    """A transform; its rules take and give PyTorch's gradients of complex numbers."""

    wirtinger = True
    on_host = "complex numbers, which NumPy computes"


def _complex(dtype: Any) -> Any:
    return dtypes.COMPLEX_OF.get(dtype, dtype)


def _full_array(input: np.ndarray, dims: Dims, forward: bool, scale: float) -> np.ndarray:
    """The sums over dims of input * exp(-+2 pi i j k / n), scaled."""
    kind = np.result_type(input.dtype, np.complex64)
    out = np.fft.fftn(input, axes=dims) if forward else np.fft.ifftn(input, axes=dims, norm="forward")
    return (out * scale).astype(kind)


full = Transform(
    "fft_full",
    _full_array,
    (lambda g, out, input, dims, forward, scale: full.call(g, dims, not forward, scale), None, None, None),
    types=lambda input, *rest: (_complex(input.dtype), input.shape),
)


def _half_array(input: np.ndarray, dims: Dims, scale: float) -> np.ndarray:
    """The half of a real signal's spectrum, along the last of dims, that the other half follows from."""
    kind = np.result_type(input.dtype, np.complex64)
    return (np.fft.rfftn(input, axes=dims) * scale).astype(kind)


def _half_types(input: Tensor, dims: Dims, scale: float) -> Any:
    shape = list(input.shape)
    shape[dims[-1]] = shape[dims[-1]] // 2 + 1
    return _complex(input.dtype), tuple(shape)


def _half_rule(g: Any, out: Any, input: Any, dims: Dims, scale: float) -> Any:
    from eagerjit.ops.index import cat

    last = dims[-1]
    missing = input.shape[last] - g.shape[last]
    zeros = g.new_zeros([missing if d == last else n for d, n in enumerate(g.shape)])
    return full.call(cat.call([g, zeros], last), dims, False, scale).real


half = Transform("fft_half", _half_array, (_half_rule, None, None), types=_half_types)


def _whole_array(input: np.ndarray, dims: Dims, size: int, scale: float) -> np.ndarray:
    """The real signal of this size, along the last of dims, that half a spectrum belongs to."""
    kind = np.result_type(input.dtype, np.complex64).type(0).real.dtype
    out = np.fft.ifftn(input, axes=dims[:-1], norm="forward") if len(dims) > 1 else input
    out = np.fft.irfft(out, n=size, axis=dims[-1], norm="forward")
    return (out * scale).astype(kind)


def _whole_types(input: Tensor, dims: Dims, size: Any, scale: float) -> Any:
    shape = list(input.shape)
    shape[dims[-1]] = size
    return dtypes.REAL_OF.get(input.dtype, input.dtype), tuple(shape)


def _whole_rule(g: Any, out: Any, input: Any, dims: Dims, size: int, scale: float) -> Any:
    """Frequencies that stand for two, all but the first and the middle one, count twice."""
    from eagerjit.ops.index import cat

    last = dims[-1]
    found = half.call(g, dims, scale)
    twice = size - found.shape[last]
    count = found.shape[last]
    if twice <= 0:
        return found
    parts = [found.narrow(last, 0, 1), found.narrow(last, 1, twice) * 2.0]
    if count > 1 + twice:
        parts.append(found.narrow(last, 1 + twice, count - 1 - twice))
    return cat.call(parts, last)


whole = Transform("fft_whole", _whole_array, (_whole_rule, None, None, None), types=_whole_types)
