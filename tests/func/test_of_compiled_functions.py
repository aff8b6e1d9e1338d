"""Transforms of functions that were compiled: what a call found in its surroundings is found again."""

from __future__ import annotations

import copy
import types

import pytest

import eagerjit
from eagerjit import nn
from eagerjit.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp


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


def _a_tensor(x):
    return eagerjit.tensor([1.0, 2.0, 3.0], requires_grad=True) * x


def _a_parameter(x):
    return nn.Parameter(eagerjit.ones(3)) * x


def _a_copy(x):
    return copy.deepcopy(_WEIGHT) * x


def _its_gradient(x):
    a = eagerjit.ones(3, requires_grad=True)
    (gradient,) = eagerjit.autograd.grad(a.square().sum(), a, create_graph=True)
    return gradient * x


_WEIGHT = nn.Parameter(eagerjit.full((3,), 2.0))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("decorate", [lambda function: function, eagerjit.jit])
@pytest.mark.parametrize("function", [_a_tensor, _a_parameter, _a_copy, _its_gradient])
def test_no_gradient_leaves_a_transform_to_leaves_made_in_it(function, decorate) -> None:
    made, x = decorate(function), eagerjit.ones(3)
    value, pull = vjp(made, x)
    pulled = pull(eagerjit.ones(3))[0]
    pushed = jvp(made, (x,), (x,))
    gradient = grad(lambda x: made(x).sum())(x)
    inner = grad(lambda x: vjp(made, x)[1](x)[0].sum())(x)
    assert not any(t.requires_grad for t in (value, pulled, *pushed, gradient, inner))
    assert made(x).requires_grad


@pytest.mark.parametrize("decorate", [lambda function: function, eagerjit.jit])
def test_gradients_leave_a_transform_to_leaves_made_around_it(decorate) -> None:
    given = eagerjit.full((3,), 3.0)

    def doubled(x):
        weight = eagerjit.ones(3, requires_grad=True)
        return eagerjit.autograd.grad(vjp(lambda x: weight * weight * x, x)[1](x)[0].sum(), weight)[0]

    found = grad(lambda x: decorate(doubled)(x).sum() * x.sum())(eagerjit.ones(3))
    assert found.tolist() == [6.0] * 3

    def kept(x):
        return given.requires_grad_() * x

    assert vjp(kept, eagerjit.ones(3))[0].requires_grad, "it was made outside"
