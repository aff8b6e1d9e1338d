"""Transforms of functions that were compiled: what a call found in its surroundings is found again."""

from __future__ import annotations

import types

import pytest

import eagerjit
from eagerjit import nn
from eagerjit.func import functional_call, hessian, jacfwd, jacrev


@pytest.mark.parametrize("compiled", [False, True])
def test_of_a_compiled_module_with_other_parameters(compiled: bool) -> None:
    eagerjit.manual_seed(0)
    net = nn.Linear(3, 2)
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    if compiled:
        net.compile()
    x = eagerjit.arange(12.0).reshape(4, 3)

    def outputs(weight):
        return functional_call(net, {**parameters, "weight": weight}, (x,))

    weight = parameters["weight"] * 2
    for transform in (jacrev, jacfwd):
        found = transform(outputs)(weight)
        expected = eagerjit.einsum("ik,oj->iojk", x, eagerjit.eye(2))
        assert eagerjit.allclose(found, expected)
    second = hessian(lambda w: (outputs(w) ** 3).sum())(weight)
    by_hand = eagerjit.einsum("bo,bj,bk,op->ojpk", 6 * (x @ weight.t() + net.bias), x, x, eagerjit.eye(2))
    assert eagerjit.allclose(second, by_hand, rtol=1e-4)


def test_of_a_compiled_function_that_returns_an_object() -> None:
    def plain(x):
        return types.SimpleNamespace(count=3, first=x * x, named={"sine": x.sin()}, text=f"{x.shape[0]}")

    jitted, x = eagerjit.jit(plain), eagerjit.linspace(0, 1, 5)
    for get in (lambda made: made.named["sine"], lambda made: made.first):
        expected, found = (jacrev(lambda x, f=f, get=get: get(f(x)))(x) for f in (plain, jitted))
        assert eagerjit.equal(expected, found)
