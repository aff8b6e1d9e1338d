"""Forward mode through ordinary code: dual numbers, writes, control flow, custom functions, compiled calls."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import functional as theirs

import eagerjit
from eagerjit.autograd import Function, forward_ad, functional
from eagerjit.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

X = eagerjit.tensor([0.5, -1.0, 2.0], dtype=eagerjit.float64)
V = eagerjit.tensor([1.0, 2.0, -0.5], dtype=eagerjit.float64)


def close(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-10)


def test_dual_numbers():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(X, V)
        out = forward_ad.unpack_dual((dual * dual).sin())
        assert forward_ad.unpack_dual(X).tangent is None
    close(out.primal, (X * X).sin())
    close(out.tangent, (X * X).cos() * 2 * X * V)
    assert not out.primal.requires_grad
    assert not out.tangent.requires_grad
    with pytest.raises(RuntimeError, match="no level"):
        forward_ad.make_dual(X, V)
    with pytest.raises(RuntimeError, match="does not exist"):
        forward_ad.exit_dual_level()


def test_dual_numbers_and_gradients():
    """Reverse over forward: the tangent is itself differentiable."""
    x = X.clone().requires_grad_()
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(forward_ad.make_dual(x, V) ** 3).tangent
    tangent.sum().backward()
    close(x.grad, 6 * X * V)


def test_dual_numbers_compiled():
    def f(x, v):
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(forward_ad.make_dual(x, v).exp() * x)[1]

    assert (eagerjit.jit(f, fullgraph=True)(X, V).numpy() == f(X, V).numpy()).all()
    close(f(X, V), X.exp() * X * V)


def test_control_flow_looks_at_values():
    def f(x):
        return x * 2 if x.sum() > 0 else x * 3

    close(jvp(f, (X,), (V,))[1], V * 2)
    close(jvp(f, (-X,), (V,))[1], V * 3)
    close(grad(lambda x: f(x).sum())(-X), X * 0 + 3)
    close(jacfwd(f)(X), eagerjit.eye(3, dtype=eagerjit.float64) * 2)


@pytest.mark.parametrize(
    "apply", [lambda f: jvp(f, (X,), (V,))[1], lambda f: jacfwd(f)(X), lambda f: vmap(f)(X.expand(2, 3))]
)
def test_writes(apply):
    def f(x):
        y = x * 2
        y[1:] = y.clone()[1:] * x[1:]
        y.mul_(x)
        z = eagerjit.zeros(2, 3, dtype=x.dtype)
        z[0] = y
        return z + x

    def plain(x):
        y = x * 2
        y = eagerjit.cat([y[:1], y[1:] * x[1:]]) * x
        return eagerjit.stack([y, y * 0]) + x

    close(apply(f), apply(plain))
    close(eagerjit.jit(lambda: apply(f), fullgraph=True)(), apply(plain))


def test_no_tangent_through_detach():
    close(jvp(lambda x: x.detach() * x, (X,), (V,))[1], X * V)
    _out, tangent = jvp(lambda x: (x > 0).to(x.dtype), (X,), (V,))
    assert tangent.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="independent"):
        jvp(lambda x: x.detach(), (X,), (V,), strict=True)


def test_several_results_and_aux():
    _, tangent, aux = jvp(lambda x: ({"a": x * 2, "b": (x, x.sum())}, x * 5), (X,), (V,), has_aux=True)
    close(tangent["a"], V * 2)
    close(tangent["b"][0], V)
    close(tangent["b"][1], V.sum())
    close(aux, X * 5)
    assert not aux.requires_grad
    _out, pull, aux = vjp(lambda x: (x * 2, {"aux": x}), X, has_aux=True)
    close(pull(V)[0], V * 2)
    assert not aux["aux"].requires_grad
    _g, (value, aux) = eagerjit.func.grad_and_value(lambda x: (x.sum(), x), has_aux=True)(X)
    assert value.ndim == 0
    close(aux, X)


def test_linearize_runs_once():
    count = []

    def f(x, y):
        count.append(1)
        return x.sin() * y

    _out, push = linearize(f, X, V)
    close(push(V, X), X.cos() * V * V + X.sin() * X)
    close(push(X, V), X.cos() * X * V + X.sin() * V)
    assert len(count) == 1


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


def test_custom_function():
    close(jvp(Cube.apply, (X,), (V,))[1], 3 * X**2 * V)
    close(jvp(lambda x: jvp(Cube.apply, (x,), (V,))[1], (X,), (V,))[1], 6 * X * V * V)
    close(vmap(grad(lambda x: Cube.apply(x).sum()))(X.expand(2, 3)), (3 * X**2).expand(2, 3))


class NumpyCube(Function):
    @staticmethod
    def forward(x):
        return eagerjit.tensor(x.numpy() ** 3), "a name"

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g, of_the_name):
        assert of_the_name is None
        return eagerjit.tensor(3 * g.detach().numpy() * ctx.saved_tensors[0].detach().numpy() ** 2)


class PushedCube(NumpyCube):
    @staticmethod
    def jvp(ctx, v):
        return v * 3 * ctx.saved_tensors[0] ** 2, None


def test_tangents_that_a_function_says_itself():
    close(jvp(lambda x: PushedCube.apply(x)[0], (X,), (V,))[1], 3 * X**2 * V)
    close(jvp(lambda x: jvp(lambda x: PushedCube.apply(x)[0], (x,), (V,))[1], (X,), (V,))[1], 6 * X * V * V)
    x = X.clone().requires_grad_()
    result, name = PushedCube.apply(x)
    assert name == "a name"
    result.backward(V)
    close(x.grad, 3 * X**2 * V)


def test_gradients_by_numpy_say_no_tangents():
    with pytest.raises(NotImplementedError, match="jvp"):
        jvp(lambda x: NumpyCube.apply(x)[0], (X,), (V,))


def test_compiled_calls_inside():
    f = eagerjit.jit(lambda x: (x.sin() * x).sum())
    f(X)
    x = X.clone().requires_grad_()
    f(x)
    expected = X.cos() * X + X.sin()
    close(grad(f)(X), expected)
    close(jvp(f, (X,), (V,))[1], (expected * V).sum())
    close(hessian(f)(X), hessian(lambda x: (x.sin() * x).sum())(X))
    close(vmap(f)(X.expand(2, 3)), f(X).expand(2))


def test_tensors_that_need_gradients():
    w = V.clone().requires_grad_()
    out = grad(lambda x: (x * w).sin().sum())(X)
    assert out.requires_grad
    out.sum().backward()
    close(w.grad, (X * V).cos() - X * V * (X * V).sin())
    w.grad = None
    jvp(lambda x: (x * w).sin(), (X,), (V,))[1].sum().backward()
    close(w.grad, ((X * V).cos() - X * V * (X * V).sin()) * V)
    assert not grad(lambda x: (x * V).sum())(X).requires_grad
    with eagerjit.no_grad():
        assert not grad(lambda x: (x * w).sum())(X).requires_grad


def test_errors():
    with pytest.raises(RuntimeError, match="scalar"):
        grad(lambda x: x)(X)
    with pytest.raises(RuntimeError, match="argnum"):
        grad(lambda x: x.sum(), 1)(X)
    with pytest.raises(RuntimeError, match="floating"):
        grad(lambda x: x.sum())(eagerjit.arange(3))
    with pytest.raises(RuntimeError, match="tuples"):
        jvp(lambda x: x, X, V)
    with pytest.raises(RuntimeError, match="shape"):
        jvp(lambda x: x, (X,), (V[:2],))
    with pytest.raises(RuntimeError, match="only tensors"):
        vjp(lambda x: 1, X)


def numbers(lib):
    return lib.tensor([[0.5, -1.0], [2.0, 0.25]], dtype=lib.float64), lib.tensor([1.5, -0.5], dtype=lib.float64)


CALLS = {
    "jacobian": lambda f, x, y: f.jacobian(lambda x, y: (x @ y.sin(), x * y), (x, y)),
    "jacobian_one": lambda f, x, y: f.jacobian(lambda x: x.exp().sum(1), x),
    "jacobian_forward": lambda f, x, y: f.jacobian(
        lambda x, y: x @ y.sin(), (x, y), strategy="forward-mode", vectorize=True
    ),
    "hessian": lambda f, x, y: f.hessian(lambda x, y: (x @ y.sin()).pow(3).sum(), (x, y)),
    "hessian_one": lambda f, x, y: f.hessian(lambda x: x.pow(3).prod(), x),
    "vjp": lambda f, x, y: f.vjp(lambda x, y: (x @ y, x.sum()), (x, y), (y * 2, y[0])),
    "vjp_one": lambda f, x, y: f.vjp(lambda x: x.exp().sum(), x),
    "jvp": lambda f, x, y: f.jvp(lambda x, y: (x @ y, x.sum()), (x, y), (x * 3, y * 2)),
    "hvp": lambda f, x, y: f.hvp(lambda x, y: (x @ y.sin()).pow(3).sum(), (x, y), (x * 3, y * 2)),
    "vhp": lambda f, x, y: f.vhp(lambda x, y: (x @ y.sin()).pow(3).sum(), (x, y), (x * 3, y * 2)),
    "vhp_one": lambda f, x, y: f.vhp(lambda x: x.pow(3).prod(), x, x + 1),
}


def flat(value):
    return [a for v in value for a in flat(v)] if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize("name", CALLS)
def test_functional(name):
    expected = flat(CALLS[name](theirs, *numbers(torch)))
    found = flat(CALLS[name](functional, *numbers(eagerjit)))
    compiled = flat(eagerjit.jit(lambda x, y: CALLS[name](functional, x, y), fullgraph=True)(*numbers(eagerjit)))
    assert len(found) == len(expected)
    for a, b, c in zip(found, expected, compiled, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        assert not a.requires_grad
        close(a, b)
        assert a.numpy().tobytes() == c.numpy().tobytes()


def test_functional_create_graph_and_strict():
    x = X.clone().requires_grad_()
    functional.jacobian(lambda x: x**3, x, create_graph=True).sum().backward()
    close(x.grad, 6 * X)
    with pytest.raises(RuntimeError, match="independent"):
        functional.jacobian(lambda x: X * 2, X, strict=True)
    with pytest.raises(RuntimeError, match="single element"):
        functional.hessian(lambda x: x, X)


COMPOSED = {
    "sum and constant": lambda v: (v * v + 1).exp().sum(),
    "difference": lambda v: (v * v - eagerjit.ones(3)).sin().sum(),
    "reversed difference": lambda v: (1 - v * v).sin().sum(),
    "matrix": lambda v: ((v[:, None] * v + eagerjit.eye(3)) @ v).sum(),
    "inverse": lambda v: eagerjit.linalg.inv(v[:, None] * v + eagerjit.eye(3)).sum(),
    "determinant": lambda v: eagerjit.linalg.det(v[:, None] * v + eagerjit.eye(3)),
    "solution": lambda v: eagerjit.linalg.solve(v[:, None] * v + eagerjit.eye(3), v).sum(),
    "joined": lambda v: (eagerjit.cat([v * v, v]) + 1).prod(),
    "in place": lambda v: (v * v).add_(2).mul_(v).sum(),
    "network": lambda v: eagerjit.nn.functional.layer_norm((v * v + v).tanh() + v, (3,)).pow(3).sum(),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_second_derivatives_are_the_same_in_all_modes(name):
    x, f = eagerjit.tensor([0.3, -1.2, 0.7]), COMPOSED[name]
    expected = jacrev(jacrev(f))(x).numpy()
    for outer in (jacfwd, jacrev):
        for inner in (jacfwd, jacrev):
            np.testing.assert_allclose(outer(inner(f))(x).numpy(), expected, rtol=2e-3, atol=2e-4)
    pushed = jvp(lambda v: jvp(f, (v,), (eagerjit.ones(3),))[1], (x,), (eagerjit.ones(3),))[1]
    np.testing.assert_allclose(pushed.numpy(), expected.sum(), rtol=2e-3, atol=2e-4)
