"""Calls of Python functions and of native routines as a Program holds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.lower.emit import Pointer
from eagerjit.compiler.ops.host import NUMBER, TENSOR
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.program import HostCall
from eagerjit.runtime.records import record


@record(frozen=True)
class RoutineCall:
    """A native routine's name, the words after the addresses of its inputs and result, and what it says of itself."""

    name: str
    words: tuple[sizes.Expr, ...]
    tasks: sizes.Expr
    scratch: sizes.Expr


Word = Pointer | sizes.Expr


def host_call(results: list[Node]) -> tuple[HostCall, list[Word]]:
    """The call that computes these nodes, and the words it is given."""
    node = results[0]
    words: list[Word] = []
    inputs = iter(node.inputs)
    arguments = tuple(_argument(e, inputs, words) for e in node.attributes["arguments"])
    described = []
    for result in results:
        words += [Pointer(result), *result.type.shape]
        described.append((result.attributes["result"], result.dtype.code, len(result.type.shape)))
    place = node.source if ":" in node.source else ""
    return HostCall(node.attributes["function"], arguments, tuple(described), place), words


def _argument(entry: Any, inputs: Iterator[Node], words: list[Word]) -> Any:
    if isinstance(entry, tuple):
        return tuple(_argument(e, inputs, words) for e in entry)
    if isinstance(entry, sizes.Size):
        words.append(entry)
        return "$size"
    if isinstance(entry, DType):
        return entry.short
    if entry not in (TENSOR, NUMBER):
        return entry
    value = next(inputs)
    where = layout(value)
    words += [Pointer(where.root, where.offset), *value.type.shape]
    return ("$tensor", value.dtype.code, len(value.type.shape), entry == NUMBER)
