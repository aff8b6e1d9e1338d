"""torch.nested: tensors of components that differ in size, made of lists, of rows, and of parts of dense tensors."""

from __future__ import annotations

from eagerjit.nested.components import to_padded_tensor
from eagerjit.nested.construction import (
    as_nested_tensor,
    masked_select,
    narrow,
    nested_tensor,
    nested_tensor_from_jagged,
)

__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor",
]  # fmt: skip
