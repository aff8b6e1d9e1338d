"""Discrete Fourier transforms of real and complex signals along one or several dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eagerjit.calling.casts import converted
from eagerjit.calling.public import public
from eagerjit.ops import fourier, views
from eagerjit.ops.composite import roll
from eagerjit.ops.index import cat
from eagerjit.recording.numbers import python_number
from eagerjit.runtime import dtypes
from eagerjit.runtime.planned import Plan
from eagerjit.state import Defaults
from eagerjit.tensors.creation import finish
from eagerjit.tensors.fitting import whole_or_traced
from eagerjit.tensors.making import makes
from eagerjit.tensors.mistakes import explained_functions, planned_public
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


def _scale(norm: str | None, count: Any, forward: bool) -> float:
    """The factor of a transform of `count` elements: 1, 1/count or between."""
    if norm not in (None, "backward", "forward", "ortho"):
        raise RuntimeError(f"Invalid normalization mode: {norm}")
    if norm == "ortho":
        return 1.0 / python_number(math.sqrt, count) if count else 1.0
    scaled = (norm == "forward") == forward
    return 1.0 / count if scaled and count else 1.0


def _numbers(name: str, input: Tensor, complex_: bool) -> Tensor:
    """The signal in a dtype that is transformed."""
    (input,) = converted(name, input)
    if input.dtype.is_complex:
        if not complex_:
            raise RuntimeError(f"{name} expects a real input tensor, but got {input.dtype}")
        return input
    if input.dtype in (dtypes.float16, dtypes.bfloat16):
        raise RuntimeError(f"Unsupported dtype {input.dtype} for {name}")
    return input if input.dtype.is_floating_point else input.to(Defaults.dtype)


def _resized(input: Tensor, dims: list[int], sizes: list[Any]) -> Tensor:
    """Dimensions cut, or filled up with zeros, to sizes."""
    for d, size in zip(dims, sizes, strict=True):
        if size < 1:
            raise RuntimeError(f"Invalid number of data points ({size}) specified")
        have = input.shape[d]
        if size < have:
            input = views.narrow(input, d, 0, size)
        elif size > have:
            zeros = input.new_zeros([size - have if i == d else n for i, n in enumerate(input.shape)])
            input = cat.call([input, zeros], d)
    return input


def _geometry(input: Tensor, s: Any, dim: Any) -> tuple[list[int], list[Any] | None]:
    """The dimensions, counted from the front, and the sizes asked for."""
    if s is not None:
        s = [n.__index__() if isinstance(n, Tensor) else n for n in (s if isinstance(s, (tuple, list)) else [s])]
    if dim is None:
        dims = list(range(input.ndim)) if s is None else list(range(input.ndim - len(s), input.ndim))
        if s is not None and len(s) > input.ndim:
            raise RuntimeError(f"Got shape with {len(s)} values but input tensor only has {input.ndim} dimensions.")
    else:
        dims = [views.dimension(d, input.ndim) for d in (dim if isinstance(dim, (tuple, list)) else [dim])]
    if len(set(dims)) != len(dims):
        raise RuntimeError("FFT dims must be unique")
    if s is None:
        return dims, None
    if len(s) != len(dims):
        raise RuntimeError("When given, dim and shape arguments must have the same length")
    return dims, [input.shape[d] if n == -1 else n for d, n in zip(dims, s, strict=True)]


def _product(input: Tensor, dims: list[int]) -> Any:
    return math.prod([input.shape[d] for d in dims])


def _complex_transform(name: str, input: Tensor, s: Any, dim: Any, norm: str | None, forward: bool) -> Plan:
    x = _numbers(name, input, True)
    dims, sizes = _geometry(x, s, dim)
    if not dims:
        return (_copy if x.dtype.is_complex else _as_complex), (x,)
    x = x if sizes is None else _resized(x, dims, sizes)
    _check_points(x, dims)
    return fourier.full.call, (x, tuple(dims), forward, _scale(norm, _product(x, dims), forward))


def _copy(x: Tensor) -> Tensor:
    return x.clone()


def _as_complex(x: Tensor) -> Tensor:
    return x.to(dtypes.COMPLEX_OF[x.dtype])


def _check_points(x: Tensor, dims: list[int]) -> None:
    for d in dims:
        if x.shape[d] < 1:
            raise RuntimeError(f"Invalid number of data points ({x.shape[d]}) specified")


def _real_transform(name: str, input: Tensor, s: Any, dim: Any, norm: str | None, hermitian: bool) -> Plan:
    x = _numbers(name, input, False)
    dims, sizes = _geometry(x, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    x = x if sizes is None else _resized(x, dims, sizes)
    _check_points(x, dims)
    function = _conjugate_half if hermitian else fourier.half.call
    return function, (x, tuple(dims), _scale(norm, _product(x, dims), not hermitian))


def _conjugate_half(x: Tensor, dims: tuple[int, ...], scale: float) -> Tensor:
    return fourier.half.call(x, dims, scale).conj()


def _back_transform(name: str, input: Tensor, s: Any, dim: Any, norm: str | None, hermitian: bool) -> Plan:
    x = _numbers(name, input, True)
    x = x if x.dtype.is_complex else _as_complex(x)
    dims, sizes = _geometry(x, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    given = s[-1] if isinstance(s, (tuple, list)) else s
    last = 2 * (x.shape[dims[-1]] - 1) if given in (None, -1) else whole_or_traced(given)
    if last < 1:
        raise RuntimeError(f"Invalid number of data points ({last}) specified")
    if sizes is not None:
        x = _resized(x, dims, [*sizes[:-1], last // 2 + 1])
    count = _product(x, dims[:-1]) * last
    function = _whole_of_conjugate if hermitian else fourier.whole.call
    return function, (x, tuple(dims), last, _scale(norm, count, hermitian))


def _whole_of_conjugate(x: Tensor, dims: tuple[int, ...], size: int, scale: float) -> Tensor:
    return fourier.whole.call(x.conj(), dims, size, scale)


_OPTIONS = """\
X[k] = sum over j of x[j] * exp(-2 pi i j k / n), the inverse with another sign and divided by n. `n` or `s` cuts sizes
or fills them up with zeros first; of half a spectrum n // 2 + 1 numbers count. `norm` says which of the two is divided
by n: "backward" (the inverse, as None), "forward", or "ortho", both by sqrt(n). Raises RuntimeError for sizes below 1,
other norms and dimensions named twice, IndexError for dimensions out of range."""
"""What the docstrings of all transforms say."""


def _define(name: str, transform: Callable[..., Plan], flag: bool, doc: str) -> list[Callable[..., Any]]:
    """The versions along one dimension, along two, and along any."""
    first, last = name.split("fft")[0], "fft"
    names = [f"{first}{last}", f"{first}{last}2", f"{first}{last}n"]

    def one(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Plan:
        if input.ndim == 0 and not (transform is _real_transform and input.dtype.is_complex):
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        if n is not None and n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")
        return transform(names[0], input, n, dim, norm, flag)

    def two(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Plan:
        return transform(names[1], input, s, dim, norm, flag)

    def any_(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Plan:
        return transform(names[2], input, s, dim, norm, flag)

    made: list[Callable[..., Any]] = []
    for function, called, where in ((one, names[0], "a dimension"), (two, names[1], "two dimensions"),
                                    (any_, names[2], "dimensions")):  # fmt: skip
        function.__name__, function.__doc__ = called, f"{doc.format(where)}\n\n{_OPTIONS}"
        made.append(planned_public(function))
    return made


fft, fft2, fftn = _define("fft", _complex_transform, True, "The discrete Fourier transform along {}.")
ifft, ifft2, ifftn = _define("ifft", _complex_transform, False, "The inverse of the transform along {}.")
rfft, rfft2, rfftn = _define("rfft", _real_transform, False, "The half of a real signal's spectrum along {}.")
irfft, irfft2, irfftn = _define("irfft", _back_transform, False, "The real signal that half a spectrum along {} has.")
hfft, hfft2, hfftn = _define("hfft", _back_transform, True, "The real spectrum along {} of a Hermitian signal's half.")
ihfft, ihfft2, ihfftn = _define("ihfft", _real_transform, True, "Half of the Hermitian signal along {} of a spectrum.")


# -- frequencies ------------------------------------------------------------------------------------------------------


def _frequencies(length: Any, negative_from: Any, n: Any, d: Any, dtype: Any, requires_grad: bool) -> Tensor:
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {length}: [{length}]")
    wanted = dtype or Defaults.dtype
    if not wanted.is_differentiable:
        raise RuntimeError("fftfreq requires a floating point or complex dtype")
    distance = n * d
    step = 1.0 / distance if distance else math.inf  # of no values, or of values at distance 0
    return finish(fourier.frequencies.call(length, negative_from, n, step, wanted), requires_grad)


@makes
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The frequencies of a spectrum of n values of a signal sampled at distances d."""
    n = whole_or_traced(n)
    return _frequencies(n, (n + 1) // 2, n, d, dtype, requires_grad)


@makes
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The frequencies of half a spectrum of a real signal of n values sampled at distances d."""
    n = whole_or_traced(n)
    return _frequencies(n // 2 + 1, n // 2 + 1, n, d, dtype, requires_grad)


def _shifted(input: Tensor, dim: Any, back: bool) -> Tensor:
    dims = list(range(input.ndim)) if dim is None else list(dim) if isinstance(dim, (tuple, list)) else [dim]
    dims = [views.dimension(d, input.ndim) for d in dims]
    if not dims:
        return input.clone()
    shifts = [(input.shape[d] + 1) // 2 if back else input.shape[d] // 2 for d in dims]
    return roll(input, shifts, dims)


@public
def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The frequency 0 moved to the middle."""
    return _shifted(input, dim, False)


@public
def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The frequency 0 moved back to the front."""
    return _shifted(input, dim, True)


globals().update(explained_functions({name: globals()[name] for name in __all__ if name in globals()}, __name__))
