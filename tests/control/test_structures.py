"""Control structures against plain Python loops: values, gradients of two orders, eager and jitted alike."""

from __future__ import annotations

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.autograd import gradcheck, gradgradcheck
from eagerjit.control import cond, map, scan, while_loop

D = torch.float64


def tensors(*shapes, grad=True):
    torch.manual_seed(7)
    made = [torch.randn(*s, dtype=D) for s in shapes]
    return [t.requires_grad_() for t in made] if grad else made


def same(a, b):
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype and np.array_equal(x.detach().numpy(), y.detach().numpy())


def close(a, b):
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-6, atol=1e-9)


def rnn_step(weight):
    def step(carry, x):
        count, h = carry
        h = (x @ weight + h * 0.5).tanh()
        return (count + 1, h), {"y": h * count, "sum": h.sum()}

    return step


def rnn(xs, h, weight):
    (count, h), ys = scan(rnn_step(weight), (0, h), xs)
    return h, ys["y"], ys["sum"], count


def plain_rnn(xs, h, weight):
    carry, ys = (0, h), []
    for x in xs.unbind(0):
        carry, y = rnn_step(weight)(carry, x)
        ys.append(y)
    return carry[1], torch.stack([y["y"] for y in ys]), torch.stack([y["sum"] for y in ys]), torch.tensor(carry[0])


def nested(xs, weight):
    def outer(carry, x):
        def inner(a, y):
            a = (a @ weight + y).sin()
            return a, a * a

        last, ys = scan(inner, carry, x)
        return last, ys.sum(0)

    return scan(outer, torch.zeros(weight.shape[0], dtype=D), xs)


def plain_nested(xs, weight):
    a, ys = torch.zeros(weight.shape[0], dtype=D), []
    for x in xs.unbind(0):
        squares = []
        for y in x.unbind(0):
            a = (a @ weight + y).sin()
            squares.append(a * a)
        ys.append(torch.stack(squares).sum(0))
    return a, torch.stack(ys)


def branching(xs, weight):
    def step(c, x):
        c = cond(x.sum() > 0, lambda: c + x @ weight, lambda: c.sin())
        return c, c * 2

    return scan(step, torch.ones(weight.shape[0], dtype=D), xs)


def plain_branching(xs, weight):
    c, ys = torch.ones(weight.shape[0], dtype=D), []
    for x in xs.unbind(0):
        c = c + x @ weight if x.sum() > 0 else c.sin()
        ys.append(c * 2)
    return c, torch.stack(ys)


def growing(x, weight):
    return while_loop(lambda i, x: x.abs().sum() < 200, lambda i, x: (i + 1, x @ weight + x * 1.5), (0, x))[::-1]


def plain_growing(x, weight):
    i = 0
    while x.abs().sum() < 200:
        i, x = i + 1, x @ weight + x * 1.5
    return x, torch.tensor(i)


def mapped(xs, weight):
    return (map(lambda x, w: (x @ w).exp(), xs, weight),)


def plain_mapped(xs, weight):
    return (torch.stack([(x @ weight).exp() for x in xs.unbind(0)]),)


CASES = {
    "rnn": (rnn, plain_rnn, [(4, 2, 3), (2, 3), (3, 3)]),
    "nested": (nested, plain_nested, [(2, 4, 3), (3, 3)]),
    "branching": (branching, plain_branching, [(6, 3), (3, 3)]),
    "growing": (growing, plain_growing, [(2, 3), (3, 3)]),
    "mapped": (mapped, plain_mapped, [(3, 2, 3), (3, 3)]),
}


def differentiable(function):
    return lambda *inputs: [r for r in function(*inputs) if r.dtype.is_floating_point]


def gradients(results, inputs):
    roots = [r for r in results if r.dtype.is_floating_point]
    weights = [torch.arange(r.numel(), dtype=D).reshape(r.shape).cos() for r in roots]
    return torch.grad(roots, inputs, weights)


@pytest.mark.parametrize("name", CASES)
def test_equal_to_a_loop_and_jitted_bit_for_bit(name):
    function, plain, shapes = CASES[name]
    jitted = torch.jit(function, fullgraph=True)
    for extra in (0, 1, 3):
        inputs = tensors((shapes[0][0] + extra, *shapes[0][1:]), *shapes[1:])
        expected, eager, compiled = plain(*inputs), function(*inputs), jitted(*inputs)
        close(expected, eager)
        same(eager, compiled)
        eager_gradients = gradients(eager, inputs)
        close(gradients(expected, inputs), eager_gradients)
        same(eager_gradients, gradients(compiled, inputs))
    assert jitted.cache_info().compiles == 1


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_two_orders(name):
    function, _, shapes = CASES[name]
    inputs = tensors(*[(2,) * len(s) for s in shapes])
    for f in (differentiable(function), torch.jit(differentiable(function), fullgraph=True)):
        assert gradcheck(f, inputs)
        assert gradgradcheck(f, inputs)


@pytest.mark.parametrize("length", [0, 1])
def test_short_scans(length):
    (start,) = tensors((3,))
    xs = torch.ones(length, 3, dtype=D)
    function = lambda start, xs: scan(lambda c, x: (c * 2 + x, c.sum()), start, xs)  # noqa: E731
    for f in (function, torch.jit(function, fullgraph=True)):
        last, ys = f(start, xs)
        assert last.tolist() == (start * 2**length + length).tolist() and tuple(ys.shape) == (length,)
        assert torch.grad(last.sum() + ys.sum(), start)[0].tolist() == [2.0**length + length] * 3


def test_reverse_and_other_dimensions():
    (xs,) = tensors((2, 4, 3))
    step = lambda c, x: (c + x.sum(0), x * c)  # noqa: E731
    start = torch.zeros(3, dtype=D)
    last, ys = scan(step, start, xs, dim=1, reverse=True)
    c, parts = start, []
    for k in reversed(range(4)):
        c, y = step(c, xs[:, k])
        parts.insert(0, y)
    close([c, torch.stack(parts, 1)], [last, ys])


def test_random_numbers_are_those_of_a_loop():
    def function(xs):
        return scan(lambda c, x: (c + torch.rand(2), torch.nn.functional.dropout(x, 0.5)), torch.zeros(2), xs)

    xs = torch.ones(5, 8).requires_grad_()
    found = []
    for f in (function, torch.jit(function, fullgraph=True)):
        torch.manual_seed(1)
        last, ys = f(xs)
        ys.sum().backward()
        found.append([last, ys, xs.grad, torch.get_rng_state()])
        xs.grad = None
    same(*found)
    torch.manual_seed(1)
    c = torch.zeros(2)
    rows = []
    for x in xs.unbind(0):
        c = c + torch.rand(2)
        rows.append(torch.nn.functional.dropout(x, 0.5))
    same(found[0], [c, torch.stack(rows), torch.stack(rows).detach(), torch.get_rng_state()])


def test_what_the_function_detaches_has_no_gradient():
    (xs, w) = tensors((3, 2), (2,))

    def step(c, x):
        with torch.no_grad():
            scaled = c * 3
        return c * w.detach() + x * w, scaled

    last, ys = scan(step, torch.ones(2, dtype=D), xs)
    c = torch.ones(2, dtype=D)
    for x in xs.unbind(0):
        c, _ = step(c, x)
    close(torch.grad(c.sum(), (xs, w)), torch.grad(last.sum(), (xs, w)))
    assert not ys.requires_grad


WRITTEN = torch.zeros(2)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda c, x: (WRITTEN.add_(1), x), r"test_structures.py:\d+: its function writes a tensor from outside"),
        (lambda c, x: (c.double(), x), r"leaf 0 is a \w+.float32 of shape \[2\] and becomes a \w+.float64"),
        (lambda c, x: (c[None], x), r"of shape \[2\] and becomes a \w+.float32 of shape \[1, 2\]"),
        (lambda c, x: ((c, c), x), "nested as the one it is given"),
        (lambda c, x: c, r"must return \(carry, y\), got Tensor"),
        (lambda c, x: (c if x.sum() > 0 else -c, x), r"test_structures.py:\d+: a tensor's value decided a branch"),
        (lambda c, x: (c, "text"), "must return tensors and numbers, got str"),
    ],
)
def test_wrong_functions(step, message):
    function = lambda xs: scan(step, torch.zeros(2), xs)  # noqa: E731
    for f in (function, torch.jit(function, fullgraph=True)):
        with pytest.raises(RuntimeError, match=message):
            f(torch.ones(3, 2))
    assert WRITTEN.tolist() == [0, 0]


def test_wrong_calls():
    x = torch.ones(3)
    for call in (
        lambda: scan(lambda c, y: (c, y), x, (x, torch.ones(2))),
        lambda: scan(lambda c, y: (c, y), x, [1.0]),
        lambda: scan(None, x, x),
        lambda: map(lambda y: y, torch.tensor(1.0)),
        lambda: cond(x > 0, lambda: x, lambda: x),
        lambda: cond(x.sum() > 0, lambda: x, lambda: (x, x)),
        lambda: cond(x.sum() > 0, lambda: x, lambda: x.sum()),
        lambda: cond(x.sum() > 0, lambda y: y.add_(1), lambda y: y, (x,)),
        lambda: while_loop(lambda i: x > i, lambda i: (i + 1,), (0,)),
        lambda: while_loop(lambda i: i < 3, lambda i: (i + 1.5,), (0,)),
    ):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(IndexError):
        scan(lambda c, y: (c, y), x, x, dim=1)


def test_errors_inside():
    def fail(c, x):
        raise KeyError("inside")

    function = lambda step, xs: scan(step, torch.zeros(2), xs)  # noqa: E731
    for f in (function, torch.jit(function)):
        with pytest.raises(KeyError, match="inside"):
            f(fail, torch.ones(3, 2))
    table = torch.ones(4)
    lookup = lambda idx: map(lambda i: table[i], idx)  # noqa: E731
    for f in (lookup, torch.jit(lookup, fullgraph=True)):
        assert f(torch.tensor([0, 3, 1])).tolist() == [1, 1, 1]
        with pytest.raises(IndexError):
            f(torch.tensor([0, 4, 1]))
        assert f(torch.tensor([0, 3, 1])).tolist() == [1, 1, 1]
