"""Control structures under vmap, forward mode and their mixtures, against the same transform of a plain loop."""

from __future__ import annotations

import pytest

import eagerjit as torch
from eagerjit import pytree
from eagerjit.control import cond, scan, while_loop
from eagerjit.func import grad, hessian, jvp, vmap
from tests.control.test_structures import CASES, close, same, tensors


def real(function):
    return lambda *inputs: tuple(r for r in function(*inputs) if r.dtype.is_floating_point)


def loss(function):
    return lambda *inputs: sum((r**2).sum() for r in real(function)(*inputs))


def leaves(value):
    out = []
    pytree.flatten(value, out)
    return out


def one_of(stacked, dims, k):
    return [s[k] if d == 0 else s[0] for s, d in zip(stacked, dims, strict=True)]


def looped(function, stacked, dims):
    """What vmap computes, example by example."""
    rows = [leaves(function(*one_of(stacked, dims, k))) for k in range(stacked[0].shape[0])]
    return [torch.stack(column) for column in zip(*rows, strict=True)]


TRANSFORMS = {
    "jvp": lambda f, inputs: jvp(real(f), tuple(inputs), tuple(torch.ones_like(x) for x in inputs)),
    "hessian": lambda f, inputs: hessian(loss(f), len(inputs) - 1)(*inputs),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", CASES)
def test_derivatives(name, transform):
    function, plain, shapes = CASES[name]
    inputs = [t.detach() for t in tensors(*[(2,) * len(s) for s in shapes])]
    make = TRANSFORMS[transform]
    found = leaves(make(function, inputs))
    close(leaves(make(plain, inputs)), found)
    same(found, leaves(torch.jit(lambda *inputs: make(function, inputs), fullgraph=True)(*inputs)))


@pytest.mark.parametrize("mapped", ["all", "last"])
@pytest.mark.parametrize("name", CASES)
def test_vmap(name, mapped):
    function, plain, shapes = CASES[name]
    inputs = [t.detach() for t in tensors(*[(2,) * len(s) for s in shapes])]
    stacked = [torch.stack([t, t * 0.7, t * 1.3 + 0.1]) for t in inputs]
    dims = [0 if mapped == "all" or i == len(inputs) - 1 else None for i in range(len(inputs))]
    given = [s if d == 0 else s[0] for s, d in zip(stacked, dims, strict=True)]
    last = len(inputs) - 1
    for make in (real, lambda f: grad(loss(f), last)):
        over = vmap(make(function), in_dims=tuple(dims))
        found = leaves(over(*given))
        close(looped(make(plain), stacked, dims), found)
        same(found, leaves(torch.jit(over, fullgraph=True)(*given)))
    leaf = [s.clone().requires_grad_() for s in stacked]
    results = vmap(loss(function), in_dims=tuple(dims))(
        *[s if d == 0 else s[0] for s, d in zip(leaf, dims, strict=True)]
    )
    expected = torch.stack([loss(plain)(*one_of(leaf, dims, k)) for k in range(3)])
    close(torch.grad(expected.sum(), leaf), torch.grad(results.sum(), leaf))


def test_a_batch_of_conditions():
    xs = torch.tensor([[1.0, 2.0], [-1.0, -2.0], [3.0, -4.0]])
    choose = lambda x: cond(x.sum() > 0, lambda: x.exp(), lambda: (x * 2, x)[0])  # noqa: E731
    close([torch.stack([choose(x) for x in xs.unbind(0)])], [vmap(choose)(xs)])
    double = lambda x, n: while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2), (0, x))  # noqa: E731
    counts = torch.tensor([0, 3, 5])
    runs, values = vmap(double)(xs, counts)
    assert runs.tolist() == [0, 3, 5]
    close([xs * 2 ** counts.unsqueeze(1)], [values])


def test_operations_of_numpy_inside():
    def function(xs):
        def step(c, x):
            c = c + x.cumsum(0)
            return c, c.sort().values * x

        return scan(step, torch.zeros(4, dtype=torch.float64), xs)

    (stacked,) = tensors((3, 5, 4))
    found = vmap(function)(stacked)
    expected = [torch.stack(c) for c in zip(*[function(x) for x in stacked.unbind(0)], strict=True)]
    close(expected, found)
    weights = torch.arange(60.0, dtype=torch.float64).reshape(3, 5, 4)
    close(torch.grad((expected[1] * weights).sum(), stacked), torch.grad((found[1] * weights).sum(), stacked))
