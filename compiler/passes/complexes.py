"""Complex numbers: the pass that takes them apart (`splitter.py`), and for which operations."""

from __future__ import annotations

from typing import Any

from eagerjit.compiler.ir import Graph, TensorType
from eagerjit.compiler.ops import convolution, elementwise, indexing, linear, reductions, routines, views
from eagerjit.compiler.ops.declare import Primitive

PART_BY_PART = frozenset({
    views.reshape, views.permute, views.expand, views.slice_, views.flip, reductions.sum_, indexing.take_rows,
    indexing.gather, indexing.add_rows, indexing.scatter_add, indexing.put_rows, indexing.slice_scatter,
    indexing.replace_block, indexing.cat, indexing.scatter, routines.scan,
})  # fmt: skip
"""Linear operations with real coefficients, and those that move elements."""

BILINEAR = frozenset({
    linear.matmul, convolution.convolution, convolution.convolution_input, convolution.convolution_weight
})  # fmt: skip


def is_complex(*types: TensorType) -> bool:
    """Whether any of these is a type of complex numbers."""
    return any(t.dtype.is_complex for t in types)


def is_split(op: Primitive, attributes: dict[str, Any]) -> bool:
    """Whether an operation on complex numbers is made of operations on their parts, or takes them as they are."""
    if op in PART_BY_PART:
        return attributes.get("combine", "add") in ("", "add")
    known = op in BILINEAR or op in (elementwise.cast, elementwise.constant) or op.family == "host"
    if known:
        return True
    from eagerjit.compiler.passes.complex_functions import FUNCTIONS

    return op.name in FUNCTIONS


def split_complex(graph: Graph) -> Graph:
    """Compute with the parts of complex numbers."""
    if not is_complex(*(n.type for n in (*graph.inputs, *graph.nodes))):
        return graph
    from eagerjit.compiler.passes.splitter import Splitter  # few programs need it

    return Splitter().run(graph)
