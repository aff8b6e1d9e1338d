"""Windows of signals, with M points; `sym` ones are symmetric, others leave out the last of one point more."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from eagerjit.runtime import dtypes
from eagerjit.state import Defaults
from eagerjit.tensors.creation import arange, finish, full, ones
from eagerjit.tensors.fitting import whole_or_traced
from eagerjit.tensors.making import makes
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip


makes_window = functools.partial(makes, refusal=ValueError)


def _made(
    name: str, points: int, sym: bool, rule: Callable[[Tensor, int], Tensor], dtype: Any, requires_grad: bool
) -> Tensor:
    """The window with `rule` (positions, n) as its values, the first `points` of n."""
    dtype, points = dtype or Defaults.dtype, whole_or_traced(points)
    if points < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={points}")
    if dtype not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    if points < 2:
        return ones(points, dtype=dtype, requires_grad=requires_grad)
    values = rule(arange(points, dtype=dtypes.float64), points if sym else points + 1)
    return finish(values.to(dtype), requires_grad)


def _cosines(weights: Sequence[float]) -> Callable[[Tensor, int], Tensor]:
    def rule(k: Tensor, n: int) -> Tensor:
        waves = [(-1) ** i * a * (2 * math.pi * i * k / (n - 1)).cos() for i, a in enumerate(weights)]
        return sum(waves[1:], waves[0])

    return rule


@makes_window
def general_cosine(
    M: int, *, a: Sequence[float], sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The sum of (-1)**i a[i] cos(2 pi i n / (N - 1)): M values, N being M if `sym`, else M + 1.

    Raises ValueError for no weights, a negative M and other dtypes than float32 and float64.
    """
    if not isinstance(a, Iterable):
        raise TypeError(f"general_cosine(): coefficients must be a list or tuple, not {type(a).__name__}")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return _made("general_cosine", M, sym, _cosines(a), dtype, requires_grad)


@makes_window
def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """alpha - (1 - alpha) cos(2 pi n / (N - 1)): M values, N being M if `sym`, else M + 1."""
    return _made("general_hamming", M, sym, _cosines([alpha, 1 - alpha]), dtype, requires_grad)


def _fixed(name: str, weights: Sequence[float], doc: str) -> Callable[..., Tensor]:
    def window(
        M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        return _made(name, M, sym, _cosines(weights), dtype, requires_grad)

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"{doc}: M values, t = 2 pi n / (N - 1), N being M if `sym`, else M + 1."
    return makes_window(window)


hamming = _fixed("hamming", [0.54, 0.46], "Hamming's window, 0.54 - 0.46 cos(t)")
hann = _fixed("hann", [0.5, 0.5], "Hann's window, (1 - cos(t)) / 2")
blackman = _fixed("blackman", [0.42, 0.5, 0.08], "Blackman's window, 0.42 - 0.5 cos(t) + 0.08 cos(2 t)")
nuttall = _fixed("nuttall", [0.3635819, 0.4891775, 0.1365995, 0.0106411], "Nuttall's window of four terms (1981)")


@makes_window
def bartlett(
    M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """1 - |2 n / (N - 1) - 1|, Bartlett's triangle: M values, N being M if `sym`, else M + 1."""
    return _made("bartlett", M, sym, lambda k, n: 1 - (2 * k / (n - 1) - 1).abs(), dtype, requires_grad)


@makes_window
def cosine(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """sin(pi (n + 1/2) / N), half a wave: M values, N being M if `sym`, else M + 1."""
    return _made("cosine", M, sym, lambda k, n: (math.pi * (k + 0.5) / n).sin(), dtype, requires_grad)


@makes_window
def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-|n - center| / tau): M values; the center is the middle unless it is given, which `sym` forbids.

    Raises ValueError for a center of a symmetric window and for a tau that is not positive.
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")

    def rule(k: Tensor, n: int) -> Tensor:
        return (-(k - ((n - 1) / 2 if center is None else center)).abs() / tau).exp()

    return _made("exponential", M, sym, rule, dtype, requires_grad)


@makes_window
def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """exp(-(n - middle)^2 / (2 std^2)): M values. Raises ValueError for a deviation that is not positive."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")

    def rule(k: Tensor, n: int) -> Tensor:
        return (-(((k - (n - 1) / 2) / std) ** 2) / 2).exp()

    return _made("gaussian", M, sym, rule, dtype, requires_grad)


@makes_window
def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Kaiser's window: I0(beta sqrt(1 - x^2)) / I0(beta) for x from -1 to 1, M values. ValueError if beta < 0."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def rule(k: Tensor, n: int) -> Tensor:
        inside = (1 - (2 * k / (n - 1) - 1) ** 2).clamp(min=0).sqrt()
        return (beta * inside).i0() / full((), beta, dtype=dtypes.float64).i0()

    return _made("kaiser", M, sym, rule, dtype, requires_grad)
