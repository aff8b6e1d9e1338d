"""Each rule of a Graph, broken once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import random_graph

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node, TensorType
from eagerjit.compiler.ops import TABLE
from eagerjit.compiler.text import parse_graph
from eagerjit.compiler.verify import InvalidGraph, verify
from eagerjit.runtime import dtypes

SOUND = """graph f
    %x: f32[s0, 4] = argument(leaf=0)
    %y: f32[4, s1] = argument(leaf=1, strides=(t0, t1))
    %z: f32[s0, s1] = matmul(%x, %y)
    %w: f32[s0, 4] = neg(%x)
    write %x <- %w
    return %z
"""


def test_a_sound_graph_passes():
    verify(parse_graph(SOUND))


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_random_graphs_pass(seed):
    verify(random_graph(seed))


BROKEN = {
    "type": (
        "f32[s0, s1] = matmul",
        "f32[s1, s0] = matmul",
        "the type should be f32[s0, s1]: %2: f32[s1, s0] = matmul",
    ),
    "dtype": ("f32[s0, 4] = neg", "f64[s0, 4] = neg", "the type should be f32[s0, 4]: %3: f64[s0, 4] = neg(%0)"),
    "misfit": ("matmul(%x, %y)", "matmul(%y, %x)", "cannot be multiplied"),
    "unknown attribute": ("neg(%x)", "neg(%x, dim=3)", "dim"),
    "missing attribute": ("neg(%x)", "sum(%x)", "axes"),
    "impossible attribute": ("neg(%x)", "slice(%x, dim=7, start=0, stop=1, step=1)", "index out of range: %3"),
    "operand missing": ("neg(%x)", "neg()", "takes 1 inputs, not 0"),
    "strange argument": ("leaf=0", "leaf=0, colour=3", "an argument has no attribute colour: %0"),
    "strides": ("(t0, t1)", "(t0,)", "as many strides as sizes"),
    "written node": ("write %x", "write %w", "only inputs can be written: write %3 <- %3"),
    "written type": ("write %x", "write %y", "f32[s0, 4] for an input of type f32[4, s1]: write %1 <- %3"),
    "written twice": ("write %x <- %w", "write %x <- %w\n write %x <- %x", "written twice: write %0 <- %0"),
}


@pytest.mark.parametrize(("old", "new", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_rule_is_reported_with_its_line(old, new, message):
    assert old in SOUND
    with pytest.raises(InvalidGraph) as error:
        verify(parse_graph(SOUND.replace(old, new)))
    assert message in str(error.value)


def test_use_before_definition():
    graph = parse_graph(SOUND.replace("neg(%x)", "neg(%x)\n %v: f32[s0, 4] = exp(%w)"))
    graph.nodes.reverse()
    with pytest.raises(InvalidGraph, match=r"not defined before: %2: f32\[s0, 4\] = exp\(%3\)"):
        verify(graph)


def test_a_node_of_another_graph():
    graph = parse_graph(SOUND)
    graph.nodes = graph.nodes[1:]
    with pytest.raises(InvalidGraph, match=r"a result is not in the graph: %\?: f32\[s0, s1\] = matmul\(%0, %1\)"):
        verify(graph)


def test_a_node_listed_twice():
    graph = parse_graph(SOUND)
    graph.nodes.append(graph.nodes[0])
    with pytest.raises(InvalidGraph, match=r"listed twice: .*matmul"):
        verify(graph)


def test_arguments_are_inputs_and_inputs_are_arguments():
    graph = parse_graph(SOUND)
    graph.nodes.insert(0, Node(TABLE["argument"], (), {"leaf": 2}, TensorType(dtypes.float32, ())))
    with pytest.raises(InvalidGraph, match="an argument must be an input"):
        verify(graph)
    graph = parse_graph(SOUND)
    graph.inputs.append(graph.nodes.pop())
    with pytest.raises(InvalidGraph, match="an input must be an argument"):
        verify(graph)


def test_sizes_of_the_call_decide_what_algebra_cannot():
    text = """graph f
        %x: f32[s0] = argument(leaf=0)
        %y: f32[s1] = argument(leaf=1)
        %z: f32[s0] = add(%x, %y)
        write %y <- %z
        return %z
    """
    with pytest.raises(InvalidGraph, match="non-singleton dimension 0"):
        verify(parse_graph(text))
    verify(parse_graph(text), {"s0": 5, "s1": 5})
    assert sizes.active.assumptions is None
