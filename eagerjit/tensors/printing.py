"""How tensors print: PyTorch's layout, with its options."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit.compiler.ir import Node
from eagerjit.devices import CPU
from eagerjit.runtime import dtypes
from eagerjit.runtime.binding import bound
from eagerjit.runtime.records import record
from eagerjit.state import Defaults, state
from eagerjit.tensors.placement import NOWHERE, device_of, host_array
from eagerjit.tensors.tensor import Parameter, Tensor, is_asked
from eagerjit.watching.observation import MadeText, user_line


@record
class PrintOptions:
    """How tensors print; see `set_printoptions`."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


options = PrintOptions()

_PROFILES: dict[str, tuple[int, float, int, int]] = {
    "default": (4, 1000, 3, 80),
    "short": (2, 1000, 2, 80),
    "full": (4, math.inf, 3, 80),
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Choose how tensors print.

    Digits after the point; from how many elements on only `edgeitems` at both ends of a dimension are shown; characters
    per line; all of these at once as `profile` "default", "short" or "full"; whether powers of ten are used, None for
    as the values need.
    """
    if profile is not None and profile in _PROFILES:
        options.precision, options.threshold, options.edgeitems, options.linewidth = _PROFILES[profile]
    for name, value in (
        ("precision", precision), ("threshold", threshold), ("edgeitems", edgeitems), ("linewidth", linewidth),
    ):  # fmt: skip
        if value is not None:
            setattr(options, name, value)
    options.sci_mode = sci_mode


class _Formatter:
    """One format for all elements of a tensor."""

    def __init__(self, values: np.ndarray):
        self.parts = [_Formatter(values.real), _Formatter(values.imag)] if values.dtype.kind == "c" else []
        self.floating = values.dtype.kind == "f"
        self.scientific, self.whole = False, True
        if self.parts:
            self.width = sum(part.width for part in self.parts) + 1
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
        if options.sci_mode is not None:
            self.scientific = options.sci_mode
        self.width = max(len(self.plain(v)) for v in shown.tolist())

    def plain(self, value: Any) -> str:
        """One element without padding."""
        if self.parts:
            real, imag = self.parts[0](value.real), self.parts[1].plain(value.imag)
            return f"{real}{'' if imag.startswith('-') else '+'}{imag}j"
        if not self.floating:
            return str(value)
        if self.scientific:
            return f"{value:.{options.precision}e}"
        if self.whole:
            return f"{value:.0f}" + ("." if math.isfinite(value) else "")
        return f"{value:.{options.precision}f}"

    def __call__(self, value: Any) -> str:
        return self.plain(value) if self.parts else self.plain(value).rjust(self.width)


def _shown(array: np.ndarray) -> np.ndarray:
    """The elements that an abbreviated print shows, joined."""
    edge = options.edgeitems
    for axis, size in enumerate(array.shape):
        if size > 2 * edge:
            array = np.concatenate([array.take(range(edge), axis), array.take(range(size - edge, size), axis)], axis)
    return array


def _vector(array: np.ndarray, indent: int, brief: bool, form: _Formatter) -> str:
    per_line = max(1, (options.linewidth - indent) // (form.width + 2))
    texts = [form(v) for v in (_ends(array) if brief else array.tolist())]
    if brief and len(array) > 2 * options.edgeitems:
        texts.insert(options.edgeitems, " ..." if options.edgeitems else "...")
    lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _body(array: np.ndarray, indent: int, brief: bool, form: _Formatter) -> str:
    if array.ndim == 0:
        return form(array.item())
    if array.ndim == 1:
        return _vector(array, indent, brief, form)
    inner = [_body(part, indent + 1, brief, form) for part in (_ends(array) if brief else array)]
    if brief and len(array) > 2 * options.edgeitems:
        inner.insert(options.edgeitems, "...")
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(inner) + "]"


def _ends(array: np.ndarray) -> list[Any]:
    """What an abbreviated print shows along the first dimension: numbers of a vector, otherwise arrays."""
    edge = options.edgeitems
    parts: Any = array.tolist() if array.ndim == 1 and len(array) <= 2 * edge else array
    if len(array) <= 2 * edge:
        return list(parts)
    ends = [array[:edge], array[len(array) - edge :]]
    return [item for part in ends for item in (part.tolist() if array.ndim == 1 else part)]


def joined(text: str, suffixes: list[str], indent: int, apart: bool = False) -> str:
    """The values with what is said about them, on further lines where one would be too long."""
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if apart or length + len(suffix) + 2 > options.linewidth:
            text += ",\n" + " " * indent + suffix
            length, apart = indent + len(suffix), False
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"


def values_text(data: Any, indent: int) -> str:
    """The elements of an array or of one on a device, lines after the first indented."""
    data = host_array(data)
    if data.size == 0:
        return "[]"
    array = data.astype(np.float64) if dtypes.BY_NUMPY[data.dtype].is_floating_point else data
    brief = data.size > options.threshold
    return _body(array, indent, brief, _Formatter(_shown(array) if brief else array))


def format_tensor(tensor: Tensor) -> str:
    """repr() of a tensor."""
    data = tensor._data
    if state.tracer is not None and state.tracer.journal is not None:
        raise MadeText("a tensor was made text", user_line())
    if is_asked(type(tensor)):
        prefix, called = "", type(tensor).__name__
    else:
        prefix, called = "Parameter containing:\n" if isinstance(tensor, Parameter) else "", "tensor"
    if type(data) is Node:
        return f"{prefix}{called}(<{data.type} of a function being traced>)"
    suffixes = []
    place = device_of(tensor)
    known = place is not NOWHERE
    if place is not CPU:
        data = host_array(data) if known else data
        suffixes.append(f"device='{place}'")
    dtype = dtypes.BY_NUMPY[data.dtype]
    text = values_text(data, len(called) + 1) if known else "..."
    if not known or (data.ndim != 1 if data.size == 0 else not options.edgeitems):
        suffixes.append(f"size={tuple(data.shape)}")
    usual: tuple[Any, ...] = (Defaults.dtype,)
    if known:
        usual = (*usual, dtypes.int64, dtypes.bool_, dtypes.COMPLEX_OF.get(Defaults.dtype))
    if dtype not in usual or (known and data.size == 0 and dtype is not Defaults.dtype):
        suffixes.append(f"dtype={dtype}")
    bound.refresh(tensor)
    if tensor._node is not None:
        suffixes.append(f"grad_fn={tensor._node!r}")
    elif tensor._requires_grad:
        suffixes.append("requires_grad=True")
    text = prefix + joined(f"{called}({text}", suffixes, len(called) + 1)
    return f"Parameter({text})" if not prefix and isinstance(tensor, Parameter) else text
