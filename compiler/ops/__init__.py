"""The op table: importing this package declares every primitive."""

from eagerjit.compiler.ops import convolution, elementwise, host, indexing, linear, reductions, routines, views
from eagerjit.compiler.ops.declare import TABLE, Primitive

__all__ = [
    "TABLE", "Primitive", "convolution", "elementwise", "host", "indexing", "linear", "reductions", "routines", "views",
]  # fmt: skip
