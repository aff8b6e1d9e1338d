"""Arithmetic on numbers known when tracing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit.compiler.ir import Graph, Node, rebuild
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.passes.simplify import with_inputs
from eagerjit.runtime.dtypes import DType


def fold_constants(graph: Graph) -> Graph:
    """Compute exactly defined operations whose inputs are all literal numbers."""
    replaced: dict[Node, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        current = with_inputs(node, replaced)
        number = _folded(current) if "exact" in node.op.traits and not node.shape else None
        if number is not None:
            attributes = {"value": number, "dtype": node.dtype}
            current = Node(elementwise.constant, (), attributes, node.type, node.source)
        if current is not node:
            replaced[node] = current
        nodes.append(current)
    return rebuild(graph, nodes, replaced)


def _folded(node: Node) -> int | float | bool | None:
    """The result as a Python number, or None where compiled code might differ from the reference in a bit."""
    if not all("literal" in n.op.traits for n in node.inputs):
        return None
    if "keeps_value" in node.op.traits and not _converts_exactly(node.inputs[0].attributes["value"], node.dtype):
        return None
    arrays = [n.op.reference(**n.attributes) for n in node.inputs]
    return _number(node.op.reference(*arrays, **node.attributes), node.dtype)


def _converts_exactly(value: Any, target: DType) -> bool:
    """Whether only one conversion of this number to that dtype makes sense."""
    if target.is_floating_point:
        # 16-bit floats are rounded from f32, so a number that f32 can't hold would be rounded twice.
        return target.bits > 16 or _single(value) == value
    if isinstance(value, float) and target.kind != "bool":
        lowest = -(2 ** (target.bits - 1)) if target.is_signed else 0
        return math.isfinite(value) and lowest <= math.trunc(value) < lowest + 2**target.bits
    return True


def _single(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _number(array: np.ndarray, dtype: DType) -> int | float | bool | None:
    if not dtype.is_floating_point:
        return array.item()
    value = float(array)
    # The bits of a NaN are the processor's own.
    return None if math.isnan(value) else value
