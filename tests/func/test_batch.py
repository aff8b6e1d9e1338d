"""Batching every primitive: the batched graph gives for each example what the graph gives for it alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from primitives import SHARED, SOURCES, Case, cases

from eagerjit.compiler.batch import batch
from eagerjit.compiler.evaluate import evaluate_graph
from eagerjit.compiler.ir import Graph, Node, TensorType
from eagerjit.compiler.ops import TABLE
from eagerjit.runtime import dtypes

SIZE = 3
CASES = cases()


def test_every_primitive_has_cases():
    assert {c.name for c in CASES} | set(SOURCES) == set(TABLE)


def examples_of(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Different examples like this array: its elements in other orders."""
    return np.stack([random.permutation(array.reshape(-1)).reshape(array.shape) for _ in range(SIZE)])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_batched_primitive_is_a_loop(case: Case):
    random = np.random.default_rng(1)
    shared = SHARED.get(case.name, ())
    stacked = [np.stack([a] * SIZE) if i in shared else examples_of(a, random) for i, a in enumerate(case.arrays)]
    for flags in itertools.product((False, True), repeat=len(stacked)):
        if any(flags[i] for i in shared):
            with pytest.raises(NotImplementedError, match="differ between examples"):
                batch(case.graph(), flags, SIZE)
            continue
        batched, has_batch = batch(case.graph(), flags, SIZE)
        given = [s if f else s[0] for s, f in zip(stacked, flags, strict=True)]
        (actual,) = evaluate_graph(batched, given)
        assert has_batch == [any(flags)]
        each = [
            evaluate_graph(case.graph(), [s[i if f else 0] for s, f in zip(stacked, flags, strict=True)])[0]
            for i in range(SIZE)
        ]
        expected = np.stack(each) if any(flags) else each[0]
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-12)


def draw() -> Graph:
    """Random bits from a generator's state."""
    state = Node(TABLE["argument"], (), {"leaf": 0, "strides": None}, TensorType(dtypes.int64, (2,)))
    bits = Node(TABLE["random_bits"], (state,), {"shape": (2, 2), "word": 0}, TensorType(dtypes.int64, (2, 2)))
    return Graph("draw", [state], [bits], [bits])


def test_random_bits():
    seed = np.array([7, 0])
    with pytest.raises(RuntimeError, match="randomness"):
        batch(draw(), [False], SIZE)
    same, has_batch = batch(draw(), [False], SIZE, "same")
    assert has_batch == [False]
    alone = evaluate_graph(draw(), [seed])[0]
    assert (evaluate_graph(same, [seed])[0] == alone).all()
    different, has_batch = batch(draw(), [False], SIZE, "different")
    assert has_batch == [True]
    drawn = evaluate_graph(different, [seed])[0]
    assert drawn.shape == (SIZE, 2, 2)
    assert len(np.unique(drawn)) == SIZE * 4
    assert (drawn[0] == alone).all()


def test_an_index_out_of_range_stays_so():
    """Rows of all examples are stacked: one past an example's last row must not become the next one's first."""
    (case,) = [c for c in CASES if str(c).startswith("take_rows-3x2-4")]
    batched, _ = batch(case.graph(), [True, True], SIZE)
    (positions,) = [n for n in batched.nodes if n.op.name == "where"]
    graph = Graph("positions", batched.inputs, batched.nodes[: batched.nodes.index(positions) + 1], [positions])
    index = np.array([[0, 1, 2, 3]] * SIZE)
    found = evaluate_graph(graph, [np.zeros((SIZE, 3, 2)), index])[0]
    assert found.tolist() == [[0, 1, 2, -1], [3, 4, 5, -1], [6, 7, 8, -1]]
