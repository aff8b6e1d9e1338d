"""Elementary functions: our own polynomials and range reductions, inlined as straight vector code."""

from __future__ import annotations

from eagerjit.compiler.codegen import exponentials, logarithms, trigonometry

FUNCTIONS = {
    "exp": exponentials.exp,
    "exp2": exponentials.exp2,
    "expm1": exponentials.expm1,
    "sigmoid": exponentials.sigmoid,
    "tanh": exponentials.tanh,
    "sinh": exponentials.sinh,
    "cosh": exponentials.cosh,
    "log": logarithms.log,
    "log1p": logarithms.log1p,
    "log2": logarithms.log2,
    "log10": logarithms.log10,
    "sin": trigonometry.sin,
    "cos": trigonometry.cos,
}
