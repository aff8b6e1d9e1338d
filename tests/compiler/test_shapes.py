"""Shapes and strides against NumPy, which decides by itself whether a reshape needs a copy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node, TensorType
from eagerjit.compiler.layout import is_contiguous, layout
from eagerjit.compiler.ops import TABLE
from eagerjit.compiler.shapes import common_refinement, reshape_strides
from eagerjit.runtime import dtypes

s0, s1 = map(sizes.symbol, ("s0", "s1"))


@st.composite
def regrouped(draw):
    """Two shapes of the same elements: the same factors cut into dimensions in two ways, with ones in between."""
    factors = draw(st.lists(st.sampled_from((2, 3, 4)), max_size=5))
    return _grouped(draw, factors), _grouped(draw, factors)


def _grouped(draw, factors):
    shape, group = [], 1
    for factor in factors:
        group *= factor
        if draw(st.booleans()):
            shape.append(group)
            group = 1
    if group != 1 or draw(st.booleans()):
        shape.append(group)
    for position in draw(st.lists(st.integers(0, 6), max_size=2)):
        shape.insert(min(position, len(shape)), 1)
    return tuple(shape)


@st.composite
def views(draw):
    """An int64 array whose elements are their offsets in memory, seen through permutations, slices and expansions."""
    shape, _ = draw(regrouped())
    array = np.arange(math.prod(shape) * 3).reshape(*shape, 3)[..., 0] if draw(st.booleans()) else None
    if array is None:
        array = np.arange(math.prod(shape)).reshape(shape)
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    if array.ndim and draw(st.booleans()):
        dim, step = draw(st.integers(0, array.ndim - 1)), draw(st.integers(1, 2))
        array = array[(slice(None),) * dim + (slice(draw(st.integers(0, 1)), None, step),)]
    if draw(st.booleans()):
        array = np.broadcast_to(array, (draw(st.sampled_from((2, 3))), *array.shape))
    return array


def element_strides(array):
    return tuple(s // array.itemsize for s in array.strides)


def offsets(shape, strides, base):
    """Offset of every element in memory."""
    out = np.full(shape, base)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        out += (np.arange(size) * stride).reshape((-1,) + (1,) * (len(shape) - axis - 1))
    return out


@given(regrouped())
def test_refinement_divides_both_shapes(shapes):
    a, b = shapes
    groups = common_refinement(a, b)
    if groups is None:
        # Only sizes that do not divide each other have none, such as 4, 9 and 6, 6.
        assert any(x % y and y % x for x in a for y in b)
        return
    assert sum(g[1] for g in groups) == len(a)
    assert sum(g[2] for g in groups) == len(b)
    i = j = 0
    for refined, taken_a, taken_b in groups:
        assert math.prod(refined) == math.prod(a[i : i + taken_a]) == math.prod(b[j : j + taken_b])
        assert set(np.cumprod(a[i : i + taken_a])) <= {1, *np.cumprod(refined)}
        assert set(np.cumprod(b[j : j + taken_b])) <= {1, *np.cumprod(refined)}
        i, j = i + taken_a, j + taken_b


@given(views(), st.data())
def test_reshape_is_numpys(array, data):
    factors = [d for d in array.shape if d != 1]
    target = _grouped(data.draw, [f for d in factors for f in _factors(d)])
    strides = reshape_strides(array.shape, element_strides(array), target)
    if strides is None:
        view = array.view()
        try:
            view.shape = target
        except AttributeError:
            return
        # Sizes that do not divide each other are the only views that are not found.
        assert common_refinement(array.shape, target) is None
        return
    base = int(array[(0,) * array.ndim]) if array.size else 0
    assert (offsets(target, strides, base) == array.reshape(target)).all()


def _factors(size):
    return [2, 2] if size == 4 else [2, 3] if size == 6 else [size]


@given(st.permutations(range(4)), st.data())
def test_a_reshape_that_copies_is_refused(dims, data):
    array = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5).transpose(dims)
    target = _grouped(data.draw, list(array.shape))
    view = array.view()
    try:
        view.shape = target
    except AttributeError:
        assert reshape_strides(array.shape, element_strides(array), target) is None
    else:
        strides = reshape_strides(array.shape, element_strides(array), target)
        assert (offsets(target, strides, 0) == view).all()


@pytest.mark.parametrize(
    ("shape", "strides", "target", "expected"),
    [
        ((s0, s1), (s1, 1), (s0 * s1,), (1,)),
        ((s0, s1), (1, s0), (s0 * s1,), None),
        ((s0, 8), (8, 1), (s0, 2, 4), (8, 4, 1)),
        ((s0, 8), (1, s0), (s0, 2, 4), (1, s0 * 4, s0)),
        ((s0, s1, 4), (s1 * 8, 8, 1), (s0 * s1, 4), (8, 1)),
        ((s0, s1, 4), (s1 * 8, 8, 1), (s0, s1 * 4), None),
        ((s0,), (0,), (s0, 1), (0, 1)),
        ((), (), (1, 1), (1, 1)),
    ],
)
def test_reshape_of_symbolic_sizes(shape, strides, target, expected):
    assert reshape_strides(shape, strides, target) == expected


def argument(shape, strides=None):
    return Node(TABLE["argument"], (), {"leaf": 0, "strides": strides}, TensorType(dtypes.int64, shape))


def apply(name, node, **attributes):
    op = TABLE[name]
    return Node(op, (node,), attributes, op.type_rule(node.type, **attributes))


@st.composite
def view_chains(draw):
    """Nodes that view one another, the first an argument, each with its elements; the argument's are their offsets."""
    shape, _ = draw(regrouped())
    node, array = argument(shape), np.arange(math.prod(shape)).reshape(shape)
    chain = {node: array}
    for _ in range(draw(st.integers(0, 4))):
        name, attributes = draw(_view_of(node.type.shape))
        node = apply(name, node, **attributes)
        chain[node] = array = node.op.reference(array, **attributes)
    return chain


def _view_of(shape):
    rank = len(shape)
    choices = [
        st.permutations(range(rank)).map(lambda dims: ("permute", {"dims": tuple(dims)})),
        st.just(("expand", {"shape": (2, *(3 if d == 1 else d for d in shape))})),
        st.just(("reshape", {"shape": (math.prod(shape),)})),
        st.just(("reshape", {"shape": (1, *shape, 1)})),
    ]
    if rank:
        choices.append(st.sets(st.integers(0, rank - 1)).map(lambda dims: ("flip", {"dims": tuple(dims)})))
        choices.append(
            st.integers(0, rank - 1).flatmap(
                lambda dim: st.tuples(st.integers(0, shape[dim]), st.integers(1, 3)).map(
                    lambda bounds: (
                        "slice",
                        {"dim": dim, "start": bounds[0], "stop": shape[dim], "step": bounds[1]},
                    )
                )
            )
        )
    return st.one_of(choices)


@given(view_chains())
def test_layouts_are_where_numpy_finds_the_elements(chain):
    node, array = list(chain.items())[-1]
    assert node.type.shape == array.shape
    found = layout(node)
    memory = chain[found.root].reshape(-1)
    places = offsets(array.shape, found.strides, found.offset)
    assert (memory[places] == array).all()
    if is_contiguous(node) and array.size:
        assert (places.reshape(-1) == found.offset + np.arange(array.size)).all()


@given(view_chains())
def test_only_a_reshape_may_leave_the_memory(chain):
    for node in chain:
        if node.op.family == "view" and layout(node).root is node:
            assert node.op.name == "reshape"
            assert reshape_strides(node.inputs[0].type.shape, layout(node.inputs[0]).strides, node.type.shape) is None
