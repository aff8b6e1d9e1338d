"""The op table: importing this package declares every primitive."""

from eagerjit.compiler.ops import bits, convolution, elementwise, host, indexing, linear, reductions, routines, views
from eagerjit.compiler.ops.declare import TABLE, Primitive

__all__ = [
    "TABLE", "Primitive", "bits", "convolution", "elementwise", "host", "indexing", "linear", "reductions", "routines",
    "views",
]  # fmt: skip
