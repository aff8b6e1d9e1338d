"""How sparse tensors print: PyTorch's layout."""

from __future__ import annotations

from typing import Any

from eagerjit.devices import CPU
from eagerjit.runtime import dtypes
from eagerjit.state import Defaults
from eagerjit.tensors.making import sparse_coo, sparse_csc
from eagerjit.tensors.placement import device_of
from eagerjit.tensors.printing import joined, values_text

INDENT = 7


def text(tensor: Any) -> str:
    """repr() of a sparse tensor."""
    layout, entries = tensor._pattern.layout, tensor._entries
    if layout is sparse_coo:
        names: tuple[str, ...] = ("indices",)
    else:
        names = ("ccol_indices", "row_indices") if layout is sparse_csc else ("crow_indices", "col_indices")
    parts = [_part(name, part) for name, part in zip(names, tensor._pattern.parts, strict=True)]
    body = (",\n" + " " * INDENT).join([*parts, _part("values", entries)])
    suffixes = [f"size={tuple(tensor._sizes)}", f"nnz={tensor._pattern.count}"]
    place = device_of(entries)
    if place is not CPU:
        suffixes.insert(0, f"device='{place}'")
    usual = (Defaults.dtype, dtypes.int64, dtypes.bool_, dtypes.COMPLEX_OF.get(Defaults.dtype))
    if tensor.dtype not in usual:
        suffixes.append(f"dtype={tensor.dtype}")
    suffixes.append(f"layout={layout}")
    if entries._node is not None:
        suffixes.append(f"grad_fn={entries._node!r}")
    elif entries._requires_grad:
        suffixes.append("requires_grad=True")
    prefix = "Parameter containing:\n" if getattr(tensor, "_is_param", False) else ""
    return prefix + joined(f"tensor({body}", suffixes, INDENT, layout is sparse_coo)


def _part(name: str, part: Any) -> str:
    shown = values_text(part._data, INDENT + len(f"{name}=tensor("))
    return f"{name}=tensor({shown}{f', size={tuple(part.shape)}' if part._data.size == 0 else ''})"
