"""The evaluator: symbols take their values from arrays, and results are those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from eagerjit.compiler.evaluate import evaluate_graph
from eagerjit.compiler.text import parse_graph

GRAPH = """graph f
    %x: f32[s0, s1] = argument(leaf=0)
    %y: f32[s1] = argument(leaf=1)
    %z: f32[s0, s1] = mul(%x, %y)
    %t: f32[s1, s0] = permute(%z, dims=(1, 0))
    %r: f32[s0*s1] = reshape(%t, shape=(s0*s1,))
    %n: i64[] = size_value(size=s0*n0)
    write %x <- %z
    return %r, %n
"""


def test_results_are_outputs_then_written_values():
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 10, 100], np.float32)
    before = x.copy()
    flat, number, written = evaluate_graph(parse_graph(GRAPH), [x, y], {"n0": 7})
    assert flat.tolist() == (x * y).T.reshape(-1).tolist()
    assert number == 14
    assert written.tolist() == (x * y).tolist()
    assert (x == before).all()


def test_strides_name_symbols():
    graph = parse_graph(
        """graph f
        %x: f64[s0, s1] = argument(leaf=0, strides=(1, t0))
        %n: i64[] = size_value(size=t0)
        return %n
        """
    )
    assert evaluate_graph(graph, [np.zeros((5, 2)).T[:, :3]]) == [2]


def test_new_results_are_row_major():
    graph = parse_graph("graph f\n%x: f64[s0, s1] = argument(leaf=0)\n%y: f64[s0, s1] = neg(%x)\nreturn %y")
    (result,) = evaluate_graph(graph, [np.ones((3, 2)).T])
    assert result.flags.c_contiguous


@pytest.mark.parametrize(
    "arrays",
    [
        [np.zeros((2, 3), np.float32)],
        [np.zeros((2, 3), np.float32), np.zeros(4, np.float32)],
        [np.zeros((2, 3), np.float64), np.zeros(3, np.float32)],
        [np.zeros(3, np.float32), np.zeros(3, np.float32)],
    ],
    ids=["number", "size", "dtype", "rank"],
)
def test_arrays_must_fit(arrays):
    with pytest.raises(ValueError, match=r"inputs, not|for an input of type"):
        evaluate_graph(parse_graph(GRAPH), arrays, {"n0": 1})
