"""What a loop's function may do: captured tensors, views, in-place writes, transforms and custom gradients within."""

from __future__ import annotations

import numpy as np
import pytest

import eagerjit as torch
from eagerjit import pytree
from eagerjit.control import cond, scan, while_loop
from eagerjit.nn import functional as F

D = torch.float64


class Tripled(torch.autograd.Function):
    """x * x with a gradient of its own: were it derived from the operations, it would be 2 * x."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x


@torch.jit
def compiled_inside(a, b):
    return (a * b).sin()


def written(c, x, w):
    t = c.clone()
    t[:2] = x[:2] * w[0, :2]
    first = t[0]
    t.add_(1)
    return t, first


BODIES = {
    "captures the elements": lambda xs, h, w: (h, lambda c, x: ((c + x) @ w + xs.sum(0), c)),
    "returns what it captured": lambda xs, h, w: (h, lambda c, x: (h * 2, w)),
    "returns what it was given": lambda xs, h, w: (h, lambda c, x: (c, (x, c, x))),
    "swaps carries": lambda xs, h, w: ((h, h), lambda c, x: ((c[1], c[0] * x), c[0].clone())),
    "reads strided memory": lambda xs, h, w: (h, lambda c, x: ((c + x) @ w.T, c @ w[:, [2, 0, 1]].t())),
    "has a gradient of its own": lambda xs, h, w: (h, lambda c, x: (Tripled.apply(c * 0.5 + x), c)),
    "calls a compiled function": lambda xs, h, w: (h, lambda c, x: (compiled_inside(c, x) @ w, c)),
    "detaches": lambda xs, h, w: (h, lambda c, x: (c * x.detach() + w[0], c.detach() * x)),
    "differentiates": lambda xs, h, w: (h, lambda c, x: (c + torch.func.grad(lambda q: ((q @ w) ** 2).sum())(x), c)),
    "sorts and sums": lambda xs, h, w: (h, lambda c, x: (c.cumsum(0) * 0.3 + x.sort().values, c.max())),
    "indexes by values": lambda xs, h, w: (h, lambda c, x: (c * w[x.argmax()] + x, w[:, x.argmin()])),
    "writes in place": lambda xs, h, w: (h, lambda c, x: written(c, x, w)),
    "branches": lambda xs, h, w: (
        h,
        lambda c, x: (cond(x.sum() > c.sum(), lambda: c @ w, lambda: c.sin() * xs[0]), c.sum()),
    ),
    "normalizes": lambda xs, h, w: (
        h,
        lambda c, x: (
            F.layer_norm(c + x, (3,), w[0], w[1]),
            F.cross_entropy((c * x).unsqueeze(0), torch.tensor([1])),
        ),
    ),
    "nests": lambda xs, h, w: (
        {"a": h, "b": (h * 2,)},
        lambda c, x: ({"a": c["a"] + x, "b": (c["b"][0] * x @ w,)}, {"z": c["a"].sum()}),
    ),
    "casts": lambda xs, h, w: (h, lambda c, x: (c * x, (c + x).float())),
}


def flat(value):
    out = []
    pytree.flatten(value, out)
    return out


def looped(init, step, xs):
    rows, c = [], init
    for x in xs.unbind(0):
        c, y = step(c, x)
        rows.append(flat(y))
    return [*flat(c), *[torch.stack(column) for column in zip(*rows, strict=True)]]


def derivatives(results, inputs):
    """First and second ones, zeros for what does not depend."""
    weighed = [(t.double() * torch.arange(t.numel(), dtype=D).reshape(t.shape).cos()).sum() for t in results]
    total = sum(t for t in weighed if t.requires_grad)
    first = torch.grad(total, inputs, create_graph=True, allow_unused=True)
    first = [torch.zeros_like(x) if g is None else g for g, x in zip(first, inputs, strict=True)]
    squares = sum((g**2).sum() for g in first)
    second = torch.grad(squares, inputs, allow_unused=True) if squares.requires_grad else first
    return [*first, *(torch.zeros_like(x) if g is None else g for g, x in zip(second, inputs, strict=True))]


@pytest.mark.parametrize("name", BODIES)
def test_as_the_loop_does(name):
    def scanned(xs, h, w):
        init, step = BODIES[name](xs, h, w)
        return flat(scan(step, init, xs))

    torch.manual_seed(0)
    inputs = [torch.randn(*s, dtype=D).requires_grad_() for s in ((4, 3), (3,), (3, 3))]
    init, step = BODIES[name](*inputs)
    expected = looped(init, step, inputs[0])
    eager, jitted = scanned(*inputs), torch.jit(scanned, fullgraph=True)(*inputs)
    assert [t.requires_grad for t in eager] == [t.requires_grad for t in expected]
    assert [t.requires_grad for t in jitted] == [t.requires_grad for t in expected]
    found = [[*results, *derivatives(results, inputs)] for results in (expected, eager, jitted)]
    for a, b, c in zip(*found, strict=True):
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-6, atol=1e-8)
        assert np.array_equal(b.detach().numpy(), c.detach().numpy())


def repeated(xs, w):
    """A loop in every run of a loop, each run another number of times."""

    def step(c, x):
        limit = x.abs().sum() * 8
        n, c = while_loop(lambda i, c: c.abs().sum() < limit, lambda i, c: (i + 1, c * 1.4 * w + x * 0.1), (0, c))
        return c * 0.3, (c.sum(), n)

    last, (sums, counts) = scan(step, torch.ones(2, dtype=D), xs)
    return last, sums, counts


def repeated_plainly(xs, w):
    c, sums, counts = torch.ones(2, dtype=D), [], []
    for x in xs.unbind(0):
        n = 0
        while c.abs().sum() < x.abs().sum() * 8:
            n, c = n + 1, c * 1.4 * w + x * 0.1
        sums.append(c.sum())
        counts.append(n)
        c = c * 0.3
    return c, torch.stack(sums), torch.tensor(counts)


def test_a_while_loop_in_a_scan():
    jitted = torch.jit(repeated, fullgraph=True)
    w = torch.tensor([1.2, 0.9], dtype=D).requires_grad_()
    for length in (3, 6):
        torch.manual_seed(length)
        xs = torch.randn(length, 2, dtype=D).requires_grad_()
        found = []
        for f in (repeated_plainly, repeated, jitted):
            last, sums, counts = f(xs, w)
            found.append([last, sums, counts, *torch.grad(last.sum() + sums.cos().sum(), (xs, w))])
        for a, b, c in zip(*found, strict=True):
            np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-9)
            assert np.array_equal(b.detach().numpy(), c.detach().numpy())
    assert len(set(counts.tolist())) > 2 and jitted.cache_info().compiles == 1
    (first,) = torch.grad(repeated(xs, w)[0].sum(), w, create_graph=True)
    with pytest.raises(RuntimeError, match=r"test_bodies.py:\d+\): there is no second derivative of a while_loop"):
        torch.grad(first.sum(), w)


def test_hooks_of_parameters_see_one_gradient():
    w = torch.ones(3).requires_grad_()
    seen = []
    w.register_hook(lambda g: seen.append(g.tolist()))
    scan(lambda c, x: (c * w + x, c), torch.ones(3), torch.ones(2, 3))[0].sum().backward()
    assert seen == [w.grad.tolist()]


def test_changing_numbers_compile_nothing(monkeypatch):
    from eagerjit.control import code

    compiled = []
    build = code.executable_of
    monkeypatch.setattr(code, "executable_of", lambda *args, **kw: compiled.append(1) or build(*args, **kw))
    xs = torch.arange(6.0).reshape(2, 3)
    for rate in (0.125, 0.25, 0.375, 0.625, 0.75, 0.875, 1.5):
        last, _ = scan(lambda c, x: (c * rate + x, c), torch.zeros(3), xs)  # noqa: B023
        assert last.tolist() == (xs[0] * rate + xs[1]).tolist()
    assert len(compiled) <= 4


def test_reports_show_the_bodies():
    def inner(c, x):
        return cond(x.sum() > 0, lambda: c + x, lambda: c.exp()), c

    jitted = torch.jit(lambda xs: scan(inner, torch.zeros(3), xs))
    report = jitted.explain(torch.ones(4, 3))
    assert [name.partition("_")[0] for name in report.bodies] == ["scan", "cond"]
    text = str(report)
    assert "run by scan_" in text and "exp(" in text and "test_bodies.py" in text
    assert jitted.verify(torch.ones(4, 3))


def test_what_was_recorded_is_freed_at_once(monkeypatch):
    import gc
    import weakref

    from eagerjit.control import body

    made = []
    start = body.BodyTracer.__init__
    monkeypatch.setattr(
        body.BodyTracer, "__init__", lambda self, name: (start(self, name), made.append(weakref.ref(self)))[0]
    )
    w = torch.ones(3).requires_grad_()
    collecting = gc.isenabled()
    gc.disable()
    try:
        step = lambda c, x: scan(lambda a, y: (a * w + y, a), c, x)  # noqa: E731
        last, ys = scan(step, torch.zeros(3), torch.ones(2, 4, 3))
        (last.sum() + ys.sum()).backward()
        del last, ys
        assert len(made) == 2 and all(r() is None for r in made)
    finally:
        if collecting:
            gc.enable()
