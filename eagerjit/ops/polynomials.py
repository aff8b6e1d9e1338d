"""Orthogonal polynomials by their recurrences, upwards in the degree, in float64.

P(n+1) = (a(n) x + b(n)) P(n) - c(n) P(n-1) from P(0) = 1 and P(1). As in PyTorch there are no gradients, polynomials of
negative degree are 0, and degrees are cut to integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eagerjit.calling.public import public
from eagerjit.ops.host import LoweredOp, broadcast, called
from eagerjit.ops.shaping import broadcast_shapes
from eagerjit.runtime import dtypes
from eagerjit.state import Defaults
from eagerjit.tensors import creation
from eagerjit.tensors.promotion import TYPE_NAMES, result_type
from eagerjit.tensors.tensor import Tensor

Recurrence = tuple[float, ...]
"""Slope and constant of P(1); a, b and c of a step, each c0 + c1 n; and whether these are over n + 1."""

CHEBYSHEV = (2.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0)
FAMILIES: dict[str, tuple[Recurrence, str]] = {
    "chebyshev_polynomial_t": ((1.0, 0.0, *CHEBYSHEV), "Chebyshev's polynomial of the first kind, cos(n acos x)."),
    "chebyshev_polynomial_u": ((2.0, 0.0, *CHEBYSHEV), "Chebyshev's polynomial of the second kind."),
    "chebyshev_polynomial_v": ((2.0, -1.0, *CHEBYSHEV), "Chebyshev's polynomial of the third kind."),
    "chebyshev_polynomial_w": ((2.0, 1.0, *CHEBYSHEV), "Chebyshev's polynomial of the fourth kind."),
    "hermite_polynomial_h": ((2.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0), "The physicists' Hermite polynomial."),
    "hermite_polynomial_he": ((1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0), "The probabilists' Hermite polynomial."),
    "laguerre_polynomial_l": ((-1.0, 1.0, -1.0, 0.0, 1.0, 2.0, 0.0, 1.0, 1.0), "Laguerre's polynomial."),
    "legendre_polynomial_p": ((1.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 1.0, 1.0), "Legendre's polynomial."),
}
"""By name the recurrence, and what it is."""


def _values(x: np.ndarray, n: np.ndarray, recurrence: Recurrence, shifted: bool) -> np.ndarray:
    """The polynomials of a family, of degrees n, at x, or at 2 x - 1."""
    slope, constant, a0, a1, b0, b1, c0, c1, divided = recurrence
    wide, degrees = np.broadcast_arrays(x.astype(np.float64), np.trunc(n.astype(np.float64)))
    at = 2.0 * wide - 1.0 if shifted else wide
    out = np.where(degrees == 0, 1.0, np.where(degrees == 1, slope * at + constant, 0.0))
    before, now = np.ones_like(at), slope * at + constant
    for k in range(1, int(degrees.max(initial=0))):
        over = k + 1 if divided else 1
        a, b, c = (a0 + a1 * k) / over, (b0 + b1 * k) / over, (c0 + c1 * k) / over
        before, now = now, (a * at + b) * now - c * before
        out = np.where(degrees == k + 1, now, out)
    return out.astype(x.dtype)


def _by_kernels(x: Tensor, n: Tensor, recurrence: Recurrence, shifted: bool) -> Tensor:
    dtype, shape = broadcast(x, n)
    tensors = [t.expand(shape) for t in (x, n)]
    return called("orthogonal_polynomial", tensors, [(dtype, shape)], recurrence, shifted)[0]


_op = LoweredOp(
    "orthogonal_polynomial", _values, differentiable=False, types=broadcast, by_kernels=_by_kernels,
    on_host="on a CPU: as many steps as the largest degree asks for",
)  # fmt: skip


def _operands(name: str, *operands: Any) -> list[Tensor]:
    """Tensors of one floating dtype. TypeError if none is a tensor, NotImplementedError for halves."""
    tensors = [x for x in operands if isinstance(x, Tensor)]
    if not tensors:
        raise TypeError(f"special_{name}(): one of the arguments must be Tensor, not {type(operands[0]).__name__}")
    dtype = result_type(*operands)
    dtype = dtype if dtype.is_differentiable else Defaults.dtype
    if dtype not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{TYPE_NAMES[dtype]}'")
    device = tensors[0].device
    return [
        x.to(dtype) if isinstance(x, Tensor) else creation.full((), x, dtype=dtype, device=device) for x in operands
    ]


def _polynomial(name: str, shifted: bool) -> Callable[..., Tensor]:
    full_name = f"shifted_{name}" if shifted else name

    def function(input: Any, n: Any) -> Tensor:
        operands = _operands(full_name, input, n)
        broadcast_shapes(*(x.shape for x in operands))
        return _op.call(*operands, FAMILIES[name][0], shifted)

    function.__name__ = function.__qualname__ = full_name
    of = "2 input - 1" if shifted else "input"
    function.__doc__ = f"{FAMILIES[name][1].rstrip('.')}, of degree n, at {of}. It has no gradient."
    return public(function)


POLYNOMIALS = {
    **{name: _polynomial(name, False) for name in FAMILIES},
    **{f"shifted_{name}": _polynomial(name, True) for name in FAMILIES if name.startswith("chebyshev")},
}
