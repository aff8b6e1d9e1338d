"""The op table: importing this package declares every primitive."""

from eagerjit.compiler.ops import elementwise, host, indexing, linear, reductions, views
from eagerjit.compiler.ops.declare import TABLE, Primitive

__all__ = ["TABLE", "Primitive", "elementwise", "host", "indexing", "linear", "reductions", "views"]
