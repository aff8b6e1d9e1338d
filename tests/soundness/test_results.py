"""A compiled call returns the structure that the plain call returns."""

from __future__ import annotations

import pytest

import eagerjit

RETURNS = {
    "tensor": lambda x: x * 2,
    "tuple of one": lambda x: (x * 2,),
    "tuple of the argument": lambda x: (x,),
    "tuple of none": lambda x: (),
    "pair": lambda x: (x * 2, x + 1),
    "pair of one": lambda x: (y := x * 2, y),
    "list of one": lambda x: [x * 2],
    "nested": lambda x: ((x * 2,),),
    "dict": lambda x: {"a": (x * 2,)},
}


def structure(value):
    if isinstance(value, dict):
        return {k: structure(v) for k, v in value.items()}
    return type(value), [structure(v) for v in value] if isinstance(value, (tuple, list)) else None


@pytest.mark.parametrize("name", RETURNS)
@pytest.mark.parametrize("gradients", [False, True])
def test_structure(name, gradients):
    x = eagerjit.randn(3, requires_grad=gradients)
    compiled = eagerjit.jit(RETURNS[name], fullgraph=True)
    for _ in range(2):
        assert structure(compiled(x)) == structure(RETURNS[name](x))
