"""Discrete Fourier transforms: complex to complex, real to half a spectrum, and back, times a factor.

Each is linear, and the gradient of each is made of the others. The native runtime computes them on the host where the
lengths' prime factors are 2, 3, 5 and 7, else NumPy does. On a GPU they are products with
matrices of roots of 1: those of a length a * b are transforms of length a, factors, and transforms of length b.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit.calling.dispatch import Op, emit
from eagerjit.compiler.ops import elementwise
from eagerjit.ops.complexes import complex as complex_
from eagerjit.ops.complexes import real
from eagerjit.ops.host import LoweredOp
from eagerjit.ops.index import cat
from eagerjit.recording.numbers import expression
from eagerjit.runtime import dtypes, fourier
from eagerjit.tensors.creation import arange
from eagerjit.tensors.tensor import Tensor

Dims = tuple[int, ...]


DIRECT = 64
"""Up to this length a transform is one product."""
LARGEST = 1024
"""Prime factors of lengths that kernels transform at most."""


class Transform(LoweredOp):
    """A transform; its rules take and give PyTorch's gradients of complex numbers."""

    wirtinger = True
    on_host = "on a CPU by the native runtime and NumPy, and lengths with prime factors above 1024"

    def suits(self, input: Tensor, dims: Dims, *rest: Any) -> bool:
        """Whether kernels transform lengths like these."""
        lengths = [int(input.shape[d]) for d in dims]
        return all(0 < _prime_factor(n) <= LARGEST for n in (*lengths, *(n for n in rest if type(n) is int)))


def _prime_factor(n: int) -> int:
    """The largest one."""
    found = 1
    for p in range(2, math.isqrt(n) + 1):
        while n % p == 0:
            found, n = p, n // p
    return max(found, n)


def _roots(n: int, rows: int, columns: int, forward: bool, like: Tensor) -> Tensor:
    """exp(-+2 pi i j k / n) for every j and k."""
    places = arange(rows, device=like.device).unsqueeze(1) * arange(columns, device=like.device)
    angle = places.remainder(n).double() * ((-2.0 if forward else 2.0) * math.pi / n)
    return complex_(angle.cos(), angle.sin()).to(like.dtype)


def _along(x: Tensor, forward: bool) -> Tensor:
    """The transform along the last dimension."""
    n = int(x.shape[-1])
    a = 1 if n <= DIRECT else max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)
    if a == 1:
        return x.matmul(_roots(n, n, n, forward, x))
    shape = tuple(x.shape)[:-1]
    rows = _along(x.reshape((*shape, a, n // a)).mT, forward).mT
    return _along(rows * _roots(n, a, n // a, forward, x), forward).mT.reshape((*shape, n))


def _full_products(input: Tensor, dims: Dims, forward: bool, scale: float) -> Tensor:
    x = input if input.dtype.is_complex else input.to(_complex(input.dtype))
    for d in dims:
        x = _along(x.movedim(d, -1), forward).movedim(-1, d)
    return x * scale


def _half_products(input: Tensor, dims: Dims, scale: float) -> Tensor:
    return _full_products(input, dims, True, scale).narrow(dims[-1], 0, int(input.shape[dims[-1]]) // 2 + 1)


def _whole_products(input: Tensor, dims: Dims, size: int, scale: float) -> Tensor:
    """Frequencies that stand for two count twice; of the result the imaginary part is left out."""
    x, last = _full_products(input, dims[:-1], False, scale).movedim(dims[-1], -1), size // 2 + 1
    x = x.narrow(-1, 0, min(last, int(x.shape[-1])))
    k = arange(x.shape[-1], device=x.device)
    x = x * (k * 0 + 2).where((k > 0).logical_and(k * 2 != size), 1)
    x = cat.call([x, x.new_zeros((*x.shape[:-1], size - int(x.shape[-1])))], -1)
    return real(_along(x, False)).movedim(-1, dims[-1])


def _complex(dtype: Any) -> Any:
    return dtypes.COMPLEX_OF.get(dtype, dtype)


def _lines(x: np.ndarray, d: int, forward: bool, scale: float) -> np.ndarray:
    """The transforms along one dimension."""
    n = x.shape[d]
    if _is_native(x, n):
        return fourier.transform(x, d, n, forward, scale, n)
    out = np.fft.fft(x, axis=d) if forward else np.fft.ifft(x, axis=d, norm="forward")
    return out * scale


def _is_native(x: np.ndarray, n: int) -> bool:
    return x.size > 0 and x.dtype.char in "fdFD" and fourier.suits(n)


def _full_array(input: np.ndarray, dims: Dims, forward: bool, scale: float) -> np.ndarray:
    """The sums over dims of input * exp(-+2 pi i j k / n), scaled."""
    kind = np.result_type(input.dtype, np.complex64)
    x = input
    for d in reversed(dims):
        x = np.ascontiguousarray(_lines(x, d, forward, scale if d == dims[0] else 1.0))
    return (x if dims or scale == 1.0 else x * scale).astype(kind, copy=False)


def _full_rule(g: Any, out: Any, input: Any, dims: Dims, forward: bool, scale: float) -> Any:
    found = full.call(g, dims, not forward, scale)
    return found if input.dtype.is_complex else real(found)


full = Transform(
    "fft_full",
    _full_array,
    (_full_rule, None, None, None),
    by_kernels=_full_products,
    types=lambda input, *rest: (_complex(input.dtype), input.shape),
    numbers=("scale",),
)


def _half_array(input: np.ndarray, dims: Dims, scale: float) -> np.ndarray:
    """The half of a real signal's spectrum, along the last of dims, that the other half follows from."""
    kind = np.result_type(input.dtype, np.complex64)
    last = dims[-1]
    n = input.shape[last]
    if _is_native(input, n):
        x = fourier.transform(input, last, n, True, scale, n // 2 + 1)
    else:
        x = np.fft.rfft(input, axis=last) * scale
    return _full_array(np.ascontiguousarray(x), dims[:-1], True, 1.0).astype(kind, copy=False)


def _half_types(input: Tensor, dims: Dims, scale: float) -> Any:
    shape = list(input.shape)
    shape[dims[-1]] = shape[dims[-1]] // 2 + 1
    return _complex(input.dtype), tuple(shape)


def _half_rule(g: Any, out: Any, input: Any, dims: Dims, scale: float) -> Any:
    last = dims[-1]
    missing = input.shape[last] - g.shape[last]
    zeros = g.new_zeros([missing if d == last else n for d, n in enumerate(g.shape)])
    return full.call(cat.call([g, zeros], last), dims, False, scale).real


half = Transform(
    "fft_half", _half_array, (_half_rule, None, None), by_kernels=_half_products, types=_half_types, numbers=("scale",)
)


def _whole_array(input: np.ndarray, dims: Dims, size: int, scale: float) -> np.ndarray:
    """The real signal of this size, along the last of dims, that half a spectrum belongs to."""
    kind = np.result_type(input.dtype, np.complex64).type(0).real.dtype
    last = dims[-1]
    x = _full_array(input, dims[:-1], False, 1.0)
    if _is_native(x, size):
        return fourier.transform(x, last, size, False, scale, size, real=True)
    return (np.fft.irfft(x, n=size, axis=last, norm="forward") * scale).astype(kind)


def _whole_types(input: Tensor, dims: Dims, size: Any, scale: float) -> Any:
    shape = list(input.shape)
    shape[dims[-1]] = size
    return dtypes.REAL_OF.get(input.dtype, input.dtype), tuple(shape)


def _whole_rule(g: Any, out: Any, input: Any, dims: Dims, size: int, scale: float) -> Any:
    """Frequencies that stand for two, all but the first and the middle one, count twice."""
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


whole = Transform(
    "fft_whole", _whole_array, (_whole_rule, None, None, None), by_kernels=_whole_products, types=_whole_types,
    numbers=("size", "scale"),
)  # fmt: skip


def _frequencies_body(length: Any, half: Any, size: Any, step: float, dtype: Any) -> Tensor:
    """Multiples of `step`; those from `half` on are counted back from the size."""
    index = emit(elementwise.iota, size=expression(length), dtype=dtypes.int64)
    return (index.where(index < half, index - size).double() * step).to(dtype)


frequencies = Op(
    "fft_frequencies", _frequencies_body, None, ("length", "half", "size", "step"), differentiable=False
)  # fmt: skip
