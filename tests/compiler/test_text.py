"""Graphs as text: golden text, the way back, and keys."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import arrays_for, bits, random_graph

from eagerjit.compiler import sizes
from eagerjit.compiler.evaluate import evaluate_graph
from eagerjit.compiler.ir import Graph, Node, TensorType
from eagerjit.compiler.ops import TABLE
from eagerjit.compiler.text import graph_key, parse_graph, print_graph
from eagerjit.runtime import dtypes

s0, s1 = map(sizes.symbol, ("s0", "s1"))
F32 = dtypes.float32

GOLDEN = """graph Model.forward
  %0: f32[s0, 784] = argument(leaf=0)                    # train.py:10
  %1: f32[784, 512] = argument(leaf=1, strides=(1, t0))  # train.py:11
  %2: f64[] = argument(leaf=2)
  %3: f32[s0, 512] = matmul(%0, %1)                      # train.py:12
  %4: f32[] = cast(%2, dtype=f32)                        # /home/me/other/layers.py:7
  %5: f32[s0, 512] = mul(%3, %4)                         # /home/me/lib/layers.py:7
  %6: f32[512] = sum(%5, axes=(0,))                      # train.py:13
  %7: f32[(s0 // 2), 512] = slice(%5, dim=0, start=0, stop=2*(s0 // 2), step=2)
  write %0 <- %0
  return %6, %5
  # train.py: /home/me/train.py
"""


def golden_graph() -> Graph:
    def argument(leaf, type_, source="", **attributes):
        return Node(TABLE["argument"], (), {"leaf": leaf, **attributes}, type_, source)

    half = sizes.floordiv(s0, 2)
    x = argument(0, TensorType(F32, (s0, 784)), "/home/me/train.py:10", strides=None)
    w = argument(1, TensorType(F32, (784, 512)), "/home/me/train.py:11", strides=(1, sizes.symbol("t0")))
    rate = argument(2, TensorType(dtypes.float64, ()))
    wide = TensorType(F32, (s0, 512))
    product = Node(TABLE["matmul"], (x, w), {}, wide, "/home/me/train.py:12")
    factor = Node(TABLE["cast"], (rate,), {"dtype": F32}, TensorType(F32, ()), "/home/me/other/layers.py:7")
    scaled = Node(TABLE["mul"], (product, factor), {}, wide, "/home/me/lib/layers.py:7")
    total = Node(TABLE["sum"], (scaled,), {"axes": (0,)}, TensorType(F32, (512,)), "/home/me/train.py:13")
    bounds = {"dim": 0, "start": 0, "stop": half * 2, "step": 2}
    part = Node(TABLE["slice"], (scaled,), bounds, TensorType(F32, (half, 512)))
    nodes = [product, factor, scaled, total, part]
    return Graph("Model.forward", [x, w, rate], nodes, [total, scaled], [(x, x)])


def test_golden_text():
    assert print_graph(golden_graph()) == GOLDEN
    assert str(golden_graph()) == GOLDEN


def described(graph: Graph) -> list:
    """Everything there is in a graph, with positions in place of nodes."""
    nodes = [*graph.inputs, *graph.nodes]
    place = {n: i for i, n in enumerate(nodes)}
    lines = [
        (
            n.op,
            [place[x] for x in n.inputs],
            {k: (type(v), v) for k, v in n.attributes.items() if v is not None},
            n.type,
            n.source,
        )
        for n in nodes
    ]
    writes = [(place[a], place[b]) for a, b in graph.writes]
    return [graph.name, len(graph.inputs), lines, [place[n] for n in graph.outputs], writes]


def test_golden_text_parses_back():
    parsed = parse_graph(GOLDEN)
    assert described(parsed) == described(golden_graph())
    assert print_graph(parsed) == GOLDEN


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_random_graphs_parse_back(seed):
    graph = random_graph(seed)
    parsed = parse_graph(print_graph(graph))
    assert print_graph(parsed) == print_graph(graph)
    arrays = arrays_for(graph, seed)
    assert [bits(a) for a in evaluate_graph(parsed, arrays)] == [bits(a) for a in evaluate_graph(graph, arrays)]
    # repr, because a NaN is not equal to itself.
    assert repr(described(parsed)) == repr(described(graph))


VALUES = {
    "int": (-3, "-3"),
    "zero": (0, "0"),
    "true": (True, "True"),
    "false": (False, "False"),
    "float": (0.1, "0.1"),
    "negative": (-2.5, "-2.5"),
    "whole float": (1.0, "1.0"),
    "negative zero": (-0.0, "-0.0"),
    "large": (1e300, "1e+300"),
    "small": (-5e-324, "-5e-324"),
    "infinity": (math.inf, "inf"),
    "negative infinity": (-math.inf, "-inf"),
    "nan": (math.nan, "nan"),
    "dtype": (dtypes.bfloat16, "bf16"),
    "bool dtype": (dtypes.bool_, "bool"),
    "size": (s0 * s1 * 2 - 1, "-1 + 2*s0*s1"),
    "quotient": (sizes.minimum(s0 % 4, 3), "min((s0 % 4), 3)"),
    "text": ("a%1 # 'b' \\\"c\"", repr("a%1 # 'b' \\\"c\"")),
    "text of a quote": ("it's", '"it\'s"'),
    "empty": ((), "()"),
    "single": ((1,), "(1,)"),
    "nested": ((1, s0, (True, -1.5), F32, "x"), "(1, s0, (True, -1.5), f32, 'x')"),
}


@pytest.mark.parametrize(("value", "text"), VALUES.values(), ids=VALUES)
def test_every_kind_of_attribute(value, text):
    node = Node(TABLE["constant"], (), {"value": value}, TensorType(F32, ()), "a b#c.py:3")
    printed = print_graph(Graph("f", [], [node], [node]))
    assert printed == f"graph f\n  %0: f32[] = constant(value={text})  # a b#c.py:3\n  return %0\n"
    parsed = parse_graph(printed).nodes[0]
    assert parsed.source == "a b#c.py:3"
    assert type(parsed.attributes["value"]) is type(value)
    assert repr(parsed.attributes["value"]) == repr(value)


def test_an_attribute_of_another_type_is_refused():
    node = Node(TABLE["constant"], (), {"value": np.float32(1)}, TensorType(F32, ()))
    with pytest.raises(TypeError, match="float32 has no text"):
        print_graph(Graph("f", [], [node], [node]))


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
def test_every_dtype(dtype):
    text = f"graph f\n  %0: {dtype.short}[] = argument(leaf=0)\n  return %0\n"
    assert parse_graph(text).inputs[0].dtype is dtype
    assert print_graph(parse_graph(text)) == text


def test_names_are_free_and_blank_lines_allowed():
    graph = parse_graph(
        """
        graph <lambda> of f

          %x: f32[s0] = argument(leaf=0)   # no table: the path is the file's name:1
          %cos_x: f32[s0]=argument(leaf=0)
        """.replace("]=", "] = ")
        + """  %y: f32[s0] = add(%x,%cos_x)
          return %y,%x
        """
    )
    assert graph.name == "<lambda> of f"
    assert print_graph(graph).splitlines()[-2:] == ["  %2: f32[s0] = add(%0, %1)", "  return %2, %0"]


WRONG = {
    "operation": "%y: f32[s0] = conjure(%x)",
    "node": "%y: f32[s0] = neg(%z)",
    "dtype": "%y: f33[s0] = neg(%x)",
    "size": "%y: f32[s0 / 2] = neg(%x)",
    "no type": "%y = neg(%x)",
    "twice": "%x: f32[s0] = neg(%x)",
    "syntax": "%y: f32[s0] = neg(%x",
    "two calls": "%y: f32[s0] = neg(%x) + neg(%x)",
    "a value as a node": "%y: f32[s0] = neg(3)",
    "output": "return %y",
    "write": "write %x",
    "prose": "and then it is over",
}


@pytest.mark.parametrize("line", WRONG.values(), ids=WRONG)
def test_other_text_is_refused_by_line(line):
    with pytest.raises(ValueError, match="not a line of a graph") as error:
        parse_graph(f"graph f\n  %x: f32[s0] = argument(leaf=0)\n  {line}\n")
    assert line in str(error.value)


def test_a_graph_begins_with_its_name():
    with pytest.raises(ValueError, match="begins with 'graph'"):
        parse_graph("%x: f32[s0] = argument(leaf=0)")


def test_key_ignores_name_and_sources():
    golden = parse_graph(GOLDEN)
    golden.name = "other"
    for node in [*golden.inputs, *golden.nodes]:
        node.source = "elsewhere.py:1"
    assert graph_key(golden) == graph_key(golden_graph())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("leaf=1", "leaf=3"),
        ("strides=(1, t0)", "strides=(t0, 1)"),
        ("mul(%3, %4)", "mul(%4, %3)"),
        ("mul(%3", "add(%3"),
        ("axes=(0,)", "axes=(1,)"),
        ("f32[512] = sum", "f64[512] = sum"),
        ("write %0 <- %0\n", "\n"),
        ("return %6, %5", "return %5, %6"),
        ("step=2", "step=1"),
    ],
)
def test_key_tells_graphs_apart(old, new):
    changed = GOLDEN.replace(old, new)
    assert changed != GOLDEN
    assert graph_key(parse_graph(changed)) != graph_key(golden_graph())
