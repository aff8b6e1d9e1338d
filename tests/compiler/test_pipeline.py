"""The pipeline on random graphs: no bit of any result changes, nor what shares memory with what."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import arrays_for, bits, random_graph

from eagerjit.compiler.evaluate import evaluate_graph
from eagerjit.compiler.layout import layout
from eagerjit.compiler.passes import PIPELINE, run_pipeline
from eagerjit.compiler.text import parse_graph, print_graph
from eagerjit.compiler.verify import verify


def test_the_pipeline_shows_every_step():
    before = parse_graph(
        """graph f
        %x: f32[s0, 4] = argument(leaf=0)
        %k: f32[] = constant(value=1.0, dtype=f32)
        %v: f32[s0, 4] = mul(%x, %k)
        %w: f32[s0, 4] = neg(%v)
        return %w
        """
    )
    seen = []
    after = run_pipeline(before, lambda *what: seen.append(what))
    assert [name for name, *_ in seen] == [function.__name__ for function in PIPELINE]
    assert seen[0][1] is before
    assert seen[-1][2] is after
    assert all(first[2] is second[1] for first, second in itertools.pairwise(seen))
    assert all(seconds >= 0 for *_, seconds in seen)
    assert (
        str(after)
        == """graph f
  %0: f32[s0, 4] = argument(leaf=0)
  %1: f32[s0, 4] = neg(%0)
  return %1
"""
    )


@pytest.mark.parametrize("function", [*dict.fromkeys(PIPELINE), run_pipeline], ids=lambda f: f.__name__)
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_no_bit_changes(function, seed):
    before = random_graph(seed)
    verify(before)
    text, arrays = print_graph(before), arrays_for(before, seed)
    after = function(before)
    verify(after)
    old, new = ([bits(a) for a in evaluate_graph(g, arrays)] for g in (before, after))
    assert new == old, f"{before}\n{after}"
    assert print_graph(before) == text, "a pass changed the graph that it was given"


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_no_alias_appears_or_vanishes(seed):
    """Results share memory with inputs and with one another exactly as they did, and lie there in the same way."""
    before = random_graph(seed)
    after = run_pipeline(before)
    old, new = ([layout(n) for n in g.results()] for g in (before, after))
    assert [(x.strides, x.offset) for x in old] == [(x.strides, x.offset) for x in new]
    assert shared(old, before) == shared(new, after), f"{before}\n{after}"


def shared(layouts, graph_):
    """For each result the input whose memory it is in, and the first result in the same memory."""
    roots = [x.root for x in layouts]
    return [(graph_.inputs.index(r) if r in graph_.inputs else None, roots.index(r)) for r in roots]


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_the_pipeline_leaves_nothing_dead(seed):
    after = run_pipeline(random_graph(seed))
    needed = set(after.results())
    for node in reversed(after.nodes):
        assert node in needed or node.op.traits & {"checks_index", "integer_zero_divisor", "requires"}
        needed.update(node.inputs)
