"""Elementary functions: our own polynomials and range reductions, inlined as straight vector code."""

from __future__ import annotations

from collections.abc import Callable

from eagerjit.compiler.codegen import arcs, division, error_function, exponentials, logarithms, power, trigonometry
from eagerjit.compiler.codegen.builder import Value

Function = Callable[..., Value]


def _through_double(function: Function, single: Function | None = None) -> Function:
    """`function` of f64; f32 goes through it (or through `single`, also on f64) and is rounded once."""

    def apply(*arguments: Value) -> Value:
        b = arguments[0].builder
        if arguments[0].dtype == "f64":
            return function(*arguments)
        wide = (single or function)(*(b.convert("fpext", v, "f64") for v in arguments))
        return b.convert("fptrunc", wide, "f32")

    return apply


UNARY: dict[str, Function] = {
    "exp": exponentials.exp,
    "exp2": exponentials.exp2,
    "expm1": exponentials.expm1,
    "sigmoid": exponentials.sigmoid,
    "tanh": exponentials.tanh,
    "sinh": _through_double(exponentials.sinh),
    "cosh": _through_double(exponentials.cosh),
    "log": logarithms.log,
    "log1p": logarithms.log1p,
    "log2": logarithms.log2,
    "log10": logarithms.log10,
    "sin": trigonometry.sin,
    "cos": trigonometry.cos,
    "tan": _through_double(trigonometry.tan),
    "asin": _through_double(arcs.asin),
    "acos": _through_double(arcs.acos),
    "atan": _through_double(arcs.atan),
    "erf": error_function.erf,
    "erfc": _through_double(error_function.erfc),
    "erfinv": _through_double(error_function.erfinv, error_function.erfinv_near),
}
BINARY: dict[str, Function] = {
    "atan2": _through_double(arcs.atan2),
    "pow": power.power,
    "fmod": division.fmod,
    "rem": division.remainder,
    "floordiv": division.floor_divide,
}
