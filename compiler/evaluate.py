"""Graphs computed by NumPy, node by node: slow, plain, and the oracle of the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph, Node


def evaluate_graph(graph: Graph, arrays: Sequence[Any], values: Mapping[str, int] | None = None) -> list[np.ndarray]:
    """The graph's results on these arrays: its outputs, then the values that it writes; the arrays are not changed.

    Symbols take their values from the arrays' sizes and strides, and from `values` where no array shows them. Raises
    ValueError if an array is not of its input's type.
    """
    if len(arrays) != len(graph.inputs):
        raise ValueError(f"the graph {graph.name} has {len(graph.inputs)} inputs, not {len(arrays)}")
    symbols = dict(values or {})
    computed: dict[Node, np.ndarray] = {}
    for node, array in zip(graph.inputs, map(np.asarray, arrays), strict=True):
        computed[node] = array
        _bind_input(node, array, symbols)
    for node, array in computed.items():
        expected = tuple(sizes.evaluate(d, symbols) for d in node.shape)
        if array.shape != expected or array.dtype != node.dtype.numpy:
            raise ValueError(f"an array of type {array.dtype}{list(array.shape)} for an input of type {node.type}")
    for node in graph.nodes:
        attributes = {name: _known(value, symbols) for name, value in node.attributes.items()}
        with np.errstate(all="ignore"):
            result = node.op.reference(*(computed[n] for n in node.inputs), **attributes)
        # NumPy keeps its operands' order in memory; ours is row-major, and sums depend on it.
        computed[node] = result if node.op.family == "view" else np.asarray(result, order="C")
    return [computed[n] for n in graph.results()]


def _bind_input(node: Node, array: np.ndarray, symbols: dict[str, int]) -> None:
    """Learn symbols from the sizes and strides that they name."""
    strides = node.attributes.get("strides") or ()
    pairs = [*zip(node.shape, array.shape, strict=False), *zip(strides, array.strides, strict=False)]
    for position, (size, number) in enumerate(pairs):
        if isinstance(size, sizes.Size) and str(size) in sizes.symbols(size):
            symbols.setdefault(str(size), number if position < len(node.shape) else number // array.itemsize)


def _known(value: Any, symbols: Mapping[str, int]) -> Any:
    """An attribute with its sizes as numbers."""
    if isinstance(value, sizes.Size):
        return sizes.evaluate(value, symbols)
    return tuple(_known(v, symbols) for v in value) if isinstance(value, tuple) else value
