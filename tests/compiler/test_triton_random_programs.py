"""Random graphs compiled for a GPU and run by Triton's interpreter give what machine code for the CPU gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import arrays_for, random_graph
from test_random_programs import TOLERANCE, coarsest, computed_only, run

from eagerjit.compiled import gpu_kernels
from eagerjit.compiler.codegen.triton import source

LENGTHS = source.WHOLE, source.STEP, source.PART
"""From where on a row is taken in steps, how long they are, and how much of a row is one program's."""


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from(({"s0": 3, "s1": 4}, {"s0": 33, "s1": 70})),
    st.sampled_from((LENGTHS, (16, 16, source.PART), (16, 16, 32))),
)
def test_triton_computes_the_graph(seed, hints, lengths):
    graph = computed_only(random_graph(seed))
    arrays = arrays_for(graph, seed, hints)
    expected = run(graph, arrays)
    source.WHOLE, source.STEP, source.PART = lengths
    try:
        with gpu_kernels.interpreted():
            actual = run(graph, arrays)
    finally:
        source.WHOLE, source.STEP, source.PART = LENGTHS
    for node, a, e in zip(graph.outputs, actual, expected, strict=True):
        tolerance = TOLERANCE[coarsest(node)] if e.dtype.kind == "f" else 0
        np.testing.assert_allclose(a, e, tolerance, tolerance, strict=True, err_msg=f"{node}\n{graph}")
