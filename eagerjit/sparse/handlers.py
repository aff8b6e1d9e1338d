"""What functions of the library do with sparse tensors, by their names."""

from __future__ import annotations

from typing import Any

from eagerjit.autograd import parted
from eagerjit.sparse import access, conversion, indexing, pointwise, products, reductions

WRITING = frozenset((
    *pointwise.KEEPING_ZERO, *pointwise.LINEAR, "pow", "add", "sub", "subtract", "mul", "multiply", "div", "divide",
    "true_divide", "floor_divide", "mm", "mv", "matmul", "bmm", "addmm", "addmv", "sspaddmm",
))  # fmt: skip
"""Those that take `out=`."""

HANDLERS: dict[str, Any] = {
    name: handler
    for module in (access, conversion, parted, indexing, pointwise, products, reductions)
    for name, handler in module.HANDLERS.items()
}
