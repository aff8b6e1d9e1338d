"""How nested tensors print: PyTorch's texts."""

from __future__ import annotations

import textwrap
from typing import Any

from eagerjit.nested.components import is_contiguous, unbind


def text(tensor: Any) -> str:
    """repr() of a nested tensor."""
    history = "" if tensor._node is None else f"grad_fn={tensor._node!r}"
    history = history or ("requires_grad=True" if tensor._requires_grad else "")
    if tensor._is_jagged:
        shown = [f"size={tuple(tensor.shape)}", f"offsets={tensor.offsets()!r}", history]
        return f"NestedTensor({', '.join(filter(None, shown))}, contiguous={is_contiguous(tensor)})"
    parts = ",\n".join(textwrap.indent(repr(part.detach()), "  ") for part in unbind(tensor))
    return f"nested_tensor([\n{parts}\n]{', ' + history if history else ''})"
