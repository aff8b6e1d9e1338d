"""The op table: importing this package declares every primitive."""

from eagerjit.compiler.ops import (
    bits,
    complexes,
    conditions,
    convolution,
    elementwise,
    error_functions,
    host,
    indexing,
    linear,
    reductions,
    routines,
    sampling,
    searches,
    sparse,
    views,
)
from eagerjit.compiler.ops.declare import TABLE, Primitive

__all__ = [
    "TABLE", "Primitive", "bits", "complexes", "conditions", "convolution", "elementwise", "error_functions",
    "host", "indexing", "linear", "reductions", "routines", "sampling", "searches", "sparse", "views",
]  # fmt: skip
