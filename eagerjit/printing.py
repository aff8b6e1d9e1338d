"""How tensors print: PyTorch's layout, four digits, long ones abbreviated."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit.compiler.ir import Node
from eagerjit.runtime import dtypes
from eagerjit.state import Defaults
from eagerjit.tensor import Parameter, Tensor

_DIGITS, _THRESHOLD, _EDGE, _LINE = 4, 1000, 3, 80


class _Formatter:
    """One format for all elements of a tensor."""

    def __init__(self, values: np.ndarray):
        self.parts = [_Formatter(values.real), _Formatter(values.imag)] if values.dtype.kind == "c" else []
        self.floating = values.dtype.kind == "f"
        self.scientific, self.whole = False, True
        if self.parts:
            for part in self.parts:
                part.whole = all(p.whole for p in self.parts)
            self.width = max((len(self.plain(v)) for v in values.reshape(-1).tolist()), default=1)
            return
        if not self.floating:
            self.width = max((len(str(v)) for v in values.reshape(-1).tolist()), default=1)
            return
        shown = values[np.isfinite(values) & (values != 0)]
        self.whole = bool(np.all(shown == np.ceil(shown)))
        self.width = 1
        if shown.size == 0:
            return
        sizes = np.abs(shown)
        least, most = float(sizes.min()), float(sizes.max())
        self.scientific = most / least > 1000 or most > 1e8 or (not self.whole and least < 1e-4)
        self.width = max(len(self.plain(v)) for v in shown.tolist())

    def plain(self, value: Any) -> str:
        """One element without padding."""
        if self.parts:
            real, imag = (part.plain(v) for part, v in zip(self.parts, (value.real, abs(value.imag)), strict=True))
            return f"{real}{'-' if math.copysign(1, value.imag) < 0 else '+'}{imag}j"
        if not self.floating:
            return str(value)
        if self.scientific:
            return f"{value:.{_DIGITS}e}"
        if self.whole:
            return f"{value:.0f}" + ("." if math.isfinite(value) else "")
        return f"{value:.{_DIGITS}f}"

    def __call__(self, value: Any) -> str:
        return self.plain(value).rjust(self.width)


def _shown(array: np.ndarray) -> np.ndarray:
    """The elements that an abbreviated print shows, joined."""
    for axis, size in enumerate(array.shape):
        if size > 2 * _EDGE:
            array = np.concatenate([array.take(range(_EDGE), axis), array.take(range(size - _EDGE, size), axis)], axis)
    return array


def _vector(array: np.ndarray, indent: int, brief: bool, form: _Formatter) -> str:
    per_line = max(1, (_LINE - indent) // (form.width + 2))
    values = array.tolist()
    if brief and len(values) > 2 * _EDGE:
        texts = [form(v) for v in values[:_EDGE]] + [" ..."] + [form(v) for v in values[-_EDGE:]]
    else:
        texts = [form(v) for v in values]
    lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _body(array: np.ndarray, indent: int, brief: bool, form: _Formatter) -> str:
    if array.ndim == 0:
        return form(array.item())
    if array.ndim == 1:
        return _vector(array, indent, brief, form)
    inner = [_body(part, indent + 1, brief, form) for part in (_ends(array) if brief else array)]
    if brief and len(array) > 2 * _EDGE:
        inner.insert(_EDGE, "...")
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(inner) + "]"


def _ends(array: np.ndarray) -> list[np.ndarray]:
    return list(array) if len(array) <= 2 * _EDGE else [*array[:_EDGE], *array[-_EDGE:]]


def format_tensor(tensor: Tensor) -> str:
    """repr() of a tensor."""
    data = tensor._data
    prefix = "Parameter containing:\n" if isinstance(tensor, Parameter) else ""
    if type(data) is Node:
        return f"{prefix}tensor(<{data.type} of a function being traced>)"
    suffixes = []
    dtype = dtypes.BY_NUMPY[data.dtype]
    array = data.astype(np.float64) if dtype.is_floating_point else data
    if data.size == 0:
        text = "[]"
        if data.ndim != 1:
            suffixes.append(f"size={tuple(data.shape)}")
    else:
        brief = data.size > _THRESHOLD
        text = _body(array, len("tensor("), brief, _Formatter(_shown(array) if brief else array))
    usual = (Defaults.dtype, dtypes.int64, dtypes.bool_, dtypes.COMPLEX_OF.get(Defaults.dtype))
    if dtype not in usual or (data.size == 0 and dtype is not Defaults.dtype):
        suffixes.append(f"dtype={dtype}")
    if tensor._node is not None:
        suffixes.append(f"grad_fn={tensor._node!r}")
    elif tensor._requires_grad:
        suffixes.append("requires_grad=True")
    return f"{prefix}tensor({', '.join([text, *suffixes])})"
