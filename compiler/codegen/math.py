"""Elementary functions: our own polynomials and range reductions, inlined as straight vector code.

Largest errors over all 2^32 f32 inputs, in units in the last place (`benchmarks/exhaustive_math.py`), and nanoseconds
per element of f32 and f64 on one Zen 5 core with 512-bit vectors (data in cache). No lane count or vector width
changes a bit. f64 is within two units on the samples of `tests/compiler/test_math.py`, and so are atan2 and pow; the
remainders are exact.

    exp      0.875  0.12  0.34      sin      0.893  0.22  0.51      erf      0.797  0.57* 1.62
    exp2     0.875  0.12  0.36      cos      0.882  0.20  0.49      erfc     0.500  1.48  1.56
    expm1    0.869  0.19  0.48      tan      0.500  0.69  0.74      erfinv   0.917  1.21  4.40
    log      0.871  0.24  0.50      asin     0.500  0.59  0.54      sigmoid  0.886  0.80* 0.67
    log1p    0.901  0.24  0.54      acos     0.500  0.62  0.60      tanh     0.759  0.13  0.65
    log2     0.919  0.31  0.75      atan     0.500  0.51  0.46      sinh     0.500  0.87  0.91
    log10    0.747  0.33  0.76      pow      0.87+  0.68  2.10      cosh     0.500  0.43  0.41

(* on one Zen 4 core with 256-bit vectors. + of 26 million random pairs.) What is rarely needed goes through f64 in f32
too, hence the half units.
"""

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
