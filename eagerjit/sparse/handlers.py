"""What functions of the library do with sparse tensors, by their names."""

from __future__ import annotations

from typing import Any

from eagerjit.sparse import access, conversion, differentiation, indexing, pointwise, products, reductions

HANDLERS: dict[str, Any] = {
    name: handler
    for module in (access, conversion, differentiation, indexing, pointwise, products, reductions)
    for name, handler in module.HANDLERS.items()
}
