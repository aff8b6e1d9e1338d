"""Complex numbers and their parts. Kernels know the parts alone: `passes/complexes.py` makes all else of these."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.compiler.ir import TensorType
from eagerjit.compiler.ops.declare import Derivative, Primitive, broadcast_shapes, declare, same_dtype
from eagerjit.runtime import dtypes


def _part(name: str, reference: Any, rule: Derivative, doc: str) -> Primitive:
    """A real function of complex numbers. Its rule takes and gives PyTorch's gradients: those of the conjugate."""

    def type_rule(x: TensorType) -> TensorType:
        return TensorType(dtypes.REAL_OF[x.dtype], x.shape)

    traits = frozenset({"wirtinger", "part"} if name != "magnitude" else {"wirtinger"})
    return declare(
        Primitive(name, "elementwise", type_rule, reference, doc, scalar=name, derivative=(rule,), traits=traits)
    )


def _of_real(g: Any) -> Any:
    return g.to(dtypes.COMPLEX_OF[g.dtype])


real = _part("real", np.real, lambda g, out, x: _of_real(g), "The real part of complex numbers.")
imag = _part("imag", np.imag, lambda g, out, x: _of_real(g) * 1j, "The imaginary part of complex numbers.")
magnitude = _part(
    "magnitude",
    np.abs,
    lambda g, out, x: (x * (g / out).where(out != 0.0, 0.0)),
    "The absolute value of complex numbers.",
)


def _function(name: str, reference: Any, rule: Derivative, doc: str) -> Primitive:
    """A complex function of complex numbers."""
    traits = frozenset({"wirtinger"})
    return declare(
        Primitive(name, "elementwise", lambda x: x, reference, doc, scalar=name, derivative=(rule,), traits=traits)
    )


conj = _function("conj", np.conj, lambda g, out, x: g.conj(), "Complex conjugates.")


def _inverse(name: str, reference: Any, slope: Any, doc: str) -> Primitive:
    """An inverse hyperbolic function; its slope is the derivative."""
    return _function(f"complex_{name}", reference, lambda g, out, x: g * slope(x).conj(), doc)


asinh = _inverse("asinh", np.arcsinh, lambda x: 1.0 / (x * x + 1.0).sqrt(), "Inverse hyperbolic sine.")
acosh = _inverse(
    "acosh", np.arccosh, lambda x: 1.0 / ((x - 1.0).sqrt() * (x + 1.0).sqrt()), "Inverse hyperbolic cosine."
)
atanh = _inverse("atanh", np.arctanh, lambda x: 1.0 / (1.0 - x * x), "Inverse hyperbolic tangent.")


def _complex_type(x: TensorType, y: TensorType) -> TensorType:
    return TensorType(dtypes.COMPLEX_OF[same_dtype("complex", (x, y))], broadcast_shapes([x.shape, y.shape], "complex"))


def _assembled(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Part by part, for infinity times i has no real part that is a number."""
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), np.result_type(x.dtype, np.complex64))
    out.real, out.imag = x, y
    return out


make_complex = declare(
    Primitive(
        "complex",
        "elementwise",
        _complex_type,
        _assembled,
        "Complex numbers of real and imaginary parts.",
        scalar="complex",
        derivative=(lambda g, out, x, y: g.real.contiguous(), lambda g, out, x, y: g.imag.contiguous()),
        traits=frozenset({"wirtinger", "parts"}),
    )
)
