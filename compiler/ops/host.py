"""Calls of Python functions: what no kernel of ours computes, such as sorting or a decomposition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from eagerjit.compiler.ir import Node, TensorType
from eagerjit.compiler.ops.declare import Primitive, declare
from eagerjit.compiler.shapes import Shape
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.host import FUNCTIONS

TENSOR, NUMBER, NONE = "$", "$number", "$none"
"""In a call's arguments: the next input, the next input's only element, and None. Strings begin with "="."""

BY_KERNELS = " by kernels"
"""Ends the name of a function that kernels compute where there are some."""


def _type(*inputs: TensorType, dtype: DType, shape: Shape, **attributes: Any) -> TensorType:
    return TensorType(dtype, shape)


def _reference(
    *arrays: np.ndarray, function: str, arguments: tuple[Any, ...], result: int, dtype: DType,
    order: tuple[int, ...] | None = None, **attributes: Any,
) -> np.ndarray:  # fmt: skip
    values = iter(arrays)
    made = FUNCTIONS[function](*(_value(e, values) for e in arguments))
    found = np.asarray(made[result] if isinstance(made, tuple) else made, dtype.numpy)
    return found if order is None else found.transpose(order)


def _value(entry: Any, arrays: Iterator[np.ndarray]) -> Any:
    if isinstance(entry, tuple):
        return tuple(_value(e, arrays) for e in entry)
    if not isinstance(entry, str):
        return entry
    if entry == TENSOR:
        return np.ascontiguousarray(a := next(arrays)).reshape(a.shape)
    if entry == NUMBER:
        return next(arrays).item()
    return None if entry == NONE else entry[1:]


host = declare(
    Primitive(
        "host",
        "host",
        _type,
        _reference,
        "Result `result` of a Python function, its dimensions in an `order`; nodes that differ in those are one call.",
        cost=1000,
    )
)


def same_call(a: Node, b: Node) -> bool:
    """Whether two nodes are results of one call."""
    return a.inputs == b.inputs and all(a.attributes[k] == b.attributes[k] for k in ("function", "arguments"))
