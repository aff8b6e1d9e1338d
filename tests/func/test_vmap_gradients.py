"""Gradients taken outside of vmap: those of the operations' own rules, as PyTorch has them, in every nesting."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eagerjit

POINTS = np.array([[0.0, 1.0, 1.0], [-1.0, 0.0, 1.0]])


def _written(m, v):
    y = v * 2
    y[1:] = y[1:] + v[:2] ** 2
    return y * v


def _definite(m, v):
    return v[:, None] * v + m.eye(len(v), dtype=v.dtype)


FUNCTIONS = {
    "relu": lambda m, v: m.relu(v) * v,
    "clamp": lambda m, v: m.clamp(v, 0, 1),
    "abs": lambda m, v: v.abs(),
    "norm": lambda m, v: m.linalg.vector_norm(v),
    "amax": lambda m, v: v.amax(0) * v,
    "min": lambda m, v: v.min(0).values * v,
    "prod": lambda m, v: v.prod() * v,
    "sort": lambda m, v: v.sort().values ** 2,
    "softmax": lambda m, v: m.softmax(v, 0) * v,
    "written": _written,
    "solve": lambda m, v: m.linalg.solve(_definite(m, v), v),
    "cholesky": lambda m, v: m.linalg.cholesky(_definite(m, v)) @ v,
}


def nestings(m, f):
    """Functions of a batch, by name."""
    F = m.func

    def loss(v):
        return (f(v) * v.cumsum(0)).sum()

    def twice(x):
        x = x.detach().clone().requires_grad_()
        (first,) = m.autograd.grad((F.vmap(f)(x) ** 2).sum(), x, create_graph=True)
        (second,) = m.autograd.grad((first**2).sum(), x)
        return m.stack([first.detach(), second])

    return {
        "grad of vmap": lambda x: F.grad(lambda x: (F.vmap(f)(x) ** 2).sum())(x),
        "jacrev of vmap": lambda x: F.jacrev(F.vmap(f))(x),
        "vmap of jacrev": lambda x: F.vmap(F.jacrev(f))(x),
        "jacrev of vmap of grad": lambda x: F.jacrev(F.vmap(F.grad(loss)))(x),
        "grad of vmap of grad": lambda x: F.grad(lambda x: (F.vmap(F.grad(loss))(x) ** 2).sum())(x),
        "vmap of grad of vmap": lambda x: F.vmap(F.grad(lambda r: (F.vmap(F.grad(loss))(r * x) ** 2).sum()))(x),
        "jacrev of jacrev": lambda x: F.jacrev(F.jacrev(lambda x: F.vmap(loss)(x).sum()))(x),
        "vmap of vmap": lambda x: F.grad(lambda x: F.vmap(lambda r: F.vmap(lambda a: (f(r) * a).sum())(r))(x).sum())(x),
        "shared": lambda x: F.jacrev(lambda w: F.vmap(lambda v: f(v * w) + w)(x))(x[0]),
        "shared alone": lambda x: F.grad(
            lambda w: sum((t**2).sum() for t in F.vmap(lambda v: (f(w), v * f(w)), out_dims=(None, 0))(x))
        )(x[0]),
        "twice": twice,
    }


FORWARD = {
    "jvp of vmap": lambda m, f, x: m.func.jvp(m.func.vmap(f), (x,), (x.flip(0),))[1],
    "jacfwd of jacrev": lambda m, f, x: m.func.hessian(lambda x: (m.func.vmap(f)(x) ** 2).sum())(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_nesting_is_as_in_pytorch(name):
    ours, theirs = [nestings(m, lambda v, m=m: FUNCTIONS[name](m, v)) for m in (eagerjit, torch)]
    for nesting, function in ours.items():
        found = function(eagerjit.tensor(POINTS)).detach().numpy()
        expected = theirs[nesting](torch.tensor(POINTS)).detach().numpy()
        np.testing.assert_allclose(found, expected, atol=1e-12, err_msg=nesting)


@pytest.mark.parametrize("name", ["relu", "clamp", "abs", "softmax"])
@pytest.mark.parametrize("nesting", FORWARD)
def test_forward_mode(name, nesting):
    found, expected = [
        FORWARD[nesting](m, lambda v, m=m: FUNCTIONS[name](m, v), m.tensor(POINTS)).numpy() for m in (eagerjit, torch)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("name", ["relu", "norm", "written"])
def test_compiled_calls_have_the_same_bits(name):
    for nesting, function in nestings(eagerjit, lambda v: FUNCTIONS[name](eagerjit, v)).items():
        if nesting == "twice":
            continue
        plain, compiled = function(eagerjit.tensor(POINTS)), eagerjit.jit(function, fullgraph=True)
        for _ in range(2):
            assert compiled(eagerjit.tensor(POINTS)).numpy().tobytes() == plain.numpy().tobytes(), nesting


def test_gradients_outside_of_a_compiled_call():
    def mapped(x):
        return eagerjit.func.vmap(lambda v: eagerjit.relu(v) ** 3)(x)

    def gradients(function):
        x = eagerjit.tensor(POINTS).requires_grad_()
        (first,) = eagerjit.autograd.grad(function(x).sum(), x, create_graph=True)
        (second,) = eagerjit.autograd.grad((first**2).sum(), x)
        return first.detach().numpy().tobytes(), second.numpy().tobytes()

    assert gradients(mapped) == gradients(eagerjit.jit(mapped, fullgraph=True))


def functions_of_their_own(m):
    """Functions with a gradient that is not theirs."""

    class Five(m.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx, g):
            return g * 5 * ctx.saved_tensors[0] ** 3

    class Reversed(m.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x.view_as(x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return -g

    class Sorted(m.autograd.Function):
        @staticmethod
        def forward(x, y, k):
            return m.tensor(np.sort(x.detach().numpy())) * y * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs[:2])

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * x * 7, g * y * 3, None

        @staticmethod
        def vmap(info, in_dims, x, y, k):
            assert in_dims[2] is None
            x, y = [
                t.expand(info.batch_size, *t.shape) if d is None else t.movedim(d, 0)
                for t, d in zip((x, y), in_dims, strict=False)
            ]
            return Sorted.apply(x, y, k).movedim(0, -1), -1

    return Five, Reversed, Sorted


def own_gradients(m):
    F, x, w = m.func, m.tensor(POINTS), m.tensor([3.0, 1.0, 2.0], dtype=m.float64)
    Five, Reversed, Sorted = functions_of_their_own(m)
    scales = m.arange(1, 7).reshape(2, 3)

    def outside(f):
        return F.grad(lambda x: (F.vmap(f)(x) * scales).sum())(x)

    mapped = F.vmap(Sorted.apply, in_dims=(0, None, None))
    return [
        outside(Five.apply),
        F.vmap(F.grad(lambda r: Five.apply(r).sum()))(x),
        F.jacrev(F.vmap(F.grad(lambda r: Five.apply(r).sum())))(x),
        outside(Reversed.apply),
        outside(lambda r: Reversed.apply(r) * 2 + r),
        mapped(x, w, 2.0),
        F.grad(lambda w: mapped(x, w, 2.0).sum())(w),
        F.grad(lambda x: mapped(x, w, 2.0).sum())(x),
        F.vmap(F.grad(lambda a, b: Sorted.apply(a, b, 2.0).sum(), argnums=1), in_dims=(0, None))(x, w),
        F.vmap(F.vmap(Sorted.apply, in_dims=(None, 0, None)), in_dims=(0, None, None))(x, m.stack([w, w + 1]), 2.0),
    ]


def test_functions_with_gradients_of_their_own():
    pairs = list(zip(own_gradients(eagerjit), own_gradients(torch), strict=True))
    for number, (found, expected) in enumerate(pairs):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), err_msg=str(number))


def test_two_rules_for_examples_are_ambiguous():
    Sorted = functions_of_their_own(eagerjit)[2]
    Sorted.generate_vmap_rule = True
    with pytest.raises(RuntimeError, match="both generate_vmap_rule=True and an overridden"):
        eagerjit.func.vmap(Sorted.apply, in_dims=(0, None, None))(eagerjit.tensor(POINTS), eagerjit.ones(3), 1.0)


LAYERS = {
    "linear": (lambda m, v, w: m.nn.functional.linear(v, w, w.sum(1)), (3, 4), (5, 4)),
    "linear of rows": (lambda m, v, w: m.nn.functional.linear(v, w), (3, 2, 4), (5, 4)),
    "products alone": (lambda m, v, w: (w @ w.T)[0] * v[0], (3, 4), (5, 4)),
    "convolution": (lambda m, v, w: m.nn.functional.conv2d(v, w, groups=2, padding=1), (3, 2, 4, 6, 6), (6, 2, 3, 3)),
    "embedding": (lambda m, v, w: m.nn.functional.embedding(v.abs().long() % 4, w) * w[0], (3, 5), (4, 2)),
    "a number": (lambda m, v, w: v.sum() * w + w, (3, 4), ()),
}


@pytest.mark.parametrize("name", LAYERS)
def test_shared_weights_get_the_sum_over_the_examples(name):
    layer, *shapes = LAYERS[name]
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(s) for s in shapes]
    found, expected = [
        m.func.grad(lambda w, x, m=m: (m.func.vmap(lambda v: layer(m, v, w))(x) ** 2).sum())(
            *[m.tensor(a) for a in reversed(arrays)]
        ).numpy()
        for m in (eagerjit, torch)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_gradients_know_the_random_numbers(randomness):
    x = (eagerjit.rand(20, 30) + 1).requires_grad_()
    out = eagerjit.func.vmap(lambda v: eagerjit.nn.functional.dropout(v * v, 0.5), randomness=randomness)(x)
    out.sum().backward()
    np.testing.assert_allclose((x.grad * x / 2).detach().numpy(), out.detach().numpy(), rtol=1e-6)
    assert ((out > 0)[0] == (out > 0)[1]).all().item() is (randomness == "same")


def test_examples_of_what_is_no_leaf_may_be_written():
    def f(m):
        x = m.tensor(POINTS).requires_grad_()
        y = x * 3
        out = m.func.vmap(lambda v: v.mul_(x[0]).sum() + v)(y)
        (out.sum() + y.sum()).backward()
        return x.grad.numpy()

    assert (f(eagerjit) == f(torch)).all()


def test_a_gradient_taken_again_and_again():
    x = eagerjit.tensor(POINTS).requires_grad_()
    y = eagerjit.func.vmap(lambda v: eagerjit.relu(v).cumsum(0))(x).sum()
    found = [eagerjit.autograd.grad(y, x, retain_graph=True)[0].tolist() for _ in range(3)]
    assert found[0] == found[1] == found[2]


def test_what_is_overwritten_later_is_refused():
    x = eagerjit.tensor(POINTS).requires_grad_()
    y = x * 2
    out = eagerjit.func.vmap(lambda v: v * v)(y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_values_of_examples_are_not_packed():
    x = eagerjit.tensor(POINTS).requires_grad_()
    with eagerjit.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        out = eagerjit.func.vmap(lambda v: eagerjit.relu(v) ** 2)(x)
    out.sum().backward()
    assert (x.grad == 2 * eagerjit.relu(x.detach())).all()


def test_gradients_that_ask_for_values_are_refused():
    class Choosing(eagerjit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g if ctx.saved_tensors[0].sum() > 0 else -g

    x = eagerjit.tensor(POINTS).requires_grad_()
    out = eagerjit.func.vmap(Choosing.apply)(x)
    with pytest.raises(RuntimeError, match="recorded on a tensor that stands for every example"):
        out.sum().backward()


def network_of_two_variables(m):
    """A network whose weights were written before, as those of every initialized layer were."""
    layers = m.nn.Linear(2, 3), m.nn.Tanh(), m.nn.Linear(3, 3), m.nn.Tanh(), m.nn.Linear(3, 1)
    made = m.nn.Sequential(*layers).double()
    with m.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_((m.arange(float(p.numel())).reshape(p.shape) + i).sin())
    return made


SECOND_DERIVATIVES = {
    "hessian": lambda F, u: F.hessian(u, argnums=1),
    "jacrev of grad": lambda F, u: F.jacrev(F.grad(u, argnums=1), argnums=1),
    "jacfwd of grad": lambda F, u: F.jacfwd(F.grad(u, argnums=1), argnums=1),
}


@pytest.mark.parametrize("name", SECOND_DERIVATIVES)
def test_a_loss_of_second_derivatives_is_trained(name):
    def losses(m):
        network, x = network_of_two_variables(m), m.tensor(POINTS[:, :2])
        optimizer = m.optim.SGD(network.parameters(), lr=0.01)

        def u(parameters, x):
            return m.func.functional_call(network, parameters, (x,)).squeeze()

        for _ in range(3):
            optimizer.zero_grad()
            mapped = m.func.vmap(SECOND_DERIVATIVES[name](m.func, u), in_dims=(None, 0))
            found = mapped(dict(network.named_parameters()), x)
            loss = (found.diagonal(dim1=1, dim2=2).sum(1) ** 2).mean()
            loss.backward()
            optimizer.step()
            yield loss.item()

    np.testing.assert_allclose(list(losses(eagerjit)), list(losses(torch)), rtol=1e-9)
