"""Random graphs compiled: passes change no bit of what compiled code returns, and NumPy agrees with it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import arrays_for, bits, hints_of, random_graph

from eagerjit.compiled.compilation import executable_of
from eagerjit.compiler.evaluate import evaluate_graph
from eagerjit.compiler.ir import Graph, Node
from eagerjit.compiler.passes import run_pipeline
from eagerjit.compiler.passes.dead import remove_dead
from eagerjit.compiler.signature import Fresh, TensorLeaf, Trace
from eagerjit.tensors.tensor import new_tensor

TOLERANCE = {"f2": 1e-2, "f4": 1e-5, "f8": 1e-13}
"""Sums are rounded in another order by NumPy, and functions such as exp are its own."""


def computed_only(graph: Graph) -> Graph:
    """The graph with the results that are in memory of their own."""
    outputs = [n for n in dict.fromkeys(graph.outputs) if n.op.family not in ("view", "argument")]
    return remove_dead(Graph(graph.name, graph.inputs, graph.nodes, outputs))


def run(graph: Graph, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """What machine code makes of the arrays."""
    leaves = [TensorLeaf(i, n, n.attributes.get("strides")) for i, n in enumerate(graph.inputs)]
    outputs = [Fresh(n) for n in graph.outputs]
    trace = Trace(graph, len(arrays), len(arrays), leaves, outputs, [], hints_of(graph, arrays))
    executable, _ = executable_of(trace, graph, [])
    results = executable.run(tuple(map(new_tensor, arrays)))
    return [np.asarray(r._data) for r in (results if isinstance(results, tuple) else (results,))]


def coarsest(node: Node) -> str:
    """The least precise floating dtype that a node is computed from: a float64 cast from float32 is no better."""
    found, stack = "f8", [node]
    while stack:
        current = stack.pop()
        if current.dtype.is_floating_point:
            found = min(found, current.dtype.numpy.str[1:])
        stack += current.inputs
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(({"s0": 3, "s1": 4}, {"s0": 33, "s1": 70})))
def test_compiled_code_computes_the_graph(seed, hints):
    graph = computed_only(random_graph(seed))
    arrays = arrays_for(graph, seed, hints)
    plain, after = run(graph, arrays), run(run_pipeline(graph), arrays)
    for node, raw, optimized, expected in zip(graph.outputs, plain, after, evaluate_graph(graph, arrays), strict=True):
        assert bits(raw) == bits(optimized), f"{node}\n{graph}"
        tolerance = TOLERANCE[coarsest(node)] if raw.dtype.kind == "f" else 0
        np.testing.assert_allclose(raw, expected, tolerance, tolerance, strict=True, err_msg=f"{node}\n{graph}")
