"""Backward inside and outside of compiled functions, of some results, with respect to some tensors."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import attempt, case
from tests.soundness.tools import network


@case
def requires_grad_inside(jit):

    @jit
    def f(x):
        z = (x * 2).detach().requires_grad_()
        (g,) = torch.autograd.grad((z**3).sum(), z)
        return g

    for n in (2, 3):
        yield f(torch.arange(float(n)))


@case
def requires_grad_on_argument(jit):

    @jit
    def f(x):
        x.requires_grad_()
        (x**2).sum().backward()
        return x.grad * 1

    for n in (2, 3):
        x = torch.arange(float(n))
        yield f(x)
        yield x.grad
        yield x.requires_grad


@case
def no_grad_inside(jit):

    @jit
    def f(w, x):
        with torch.no_grad():
            s = (w * x).abs().max()
        return (w * x / s).sum()

    for _i in range(2):
        w = torch.arange(3.0, requires_grad=True)
        loss = f(w, torch.ones(3))
        loss.backward()
        yield w.grad


@case
def retain_graph(jit):
    f = jit(lambda w: (w.exp() * w).sum())
    for i in range(2):
        w = (torch.arange(3.0) + i).requires_grad_()
        loss = f(w)
        loss.backward(retain_graph=True)
        yield w.grad
        loss.backward()
        yield w.grad
        yield attempt(loss.backward)


@case
def retain_graph_inside(jit):

    @jit
    def f(w):
        loss = (w.exp() * w).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        return loss.detach()

    for i in range(2):
        w = (torch.arange(3.0) + i).requires_grad_()
        yield f(w)
        yield w.grad


@case
def double_use_error_inside(jit):

    @jit
    def f(w, retain):
        loss = (w.exp() * w).sum()
        loss.backward(retain_graph=retain)
        loss.backward()
        return loss

    for retain in (True, False, True):
        w = torch.arange(3.0).requires_grad_()
        yield attempt(f, w, retain)


@case
def backward_inside_then_outside(jit):

    @jit
    def f(w):
        loss = (w.exp() * w).sum()
        loss.backward()
        return loss

    for i in range(2):
        w = (torch.arange(3.0) + i).requires_grad_()
        loss = f(w)
        yield w.grad
        yield attempt(loss.backward)


@case
def grad_subset(jit):
    m = network()
    f = jit(lambda x: m(x).sum())
    for i in range(3):
        p = list(m.parameters())
        yield torch.autograd.grad(f(torch.ones(2, 3)), p[i : i + 2])


@case
def grad_allow_unused(jit):
    f = jit(lambda a, b: (a * 2).sum())
    for _i in range(2):
        a, b = (torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True))
        yield torch.autograd.grad(f(a, b), (a, b), allow_unused=True)
        yield attempt(torch.autograd.grad, f(a, b), (a, b))


@case
def grad_allow_unused_inside(jit):

    @jit
    def f(a, b):
        return torch.autograd.grad((a * 2).sum(), (a, b), allow_unused=True)

    for _i in range(2):
        a, b = (torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True))
        yield f(a, b)


@case
def grad_outputs(jit):
    f = jit(lambda a: a.exp())
    for n in (2, 3):
        a = torch.arange(float(n)).requires_grad_()
        yield torch.autograd.grad(f(a), a, torch.arange(float(n)) + 1)
        f(a).backward(torch.ones(n))
        yield a.grad
        yield attempt(f(a).backward)


@case
def several_outputs_partly_used(jit):
    f = jit(lambda a, b: (a * b, a + b, (a * 2).detach(), b.exp()))
    for i in range(3):
        a, b = (torch.arange(3.0).requires_grad_(), torch.ones(3, requires_grad=True))
        o = f(a, b)
        o[i if i < 2 else 3].sum().backward()
        yield a.grad
        yield b.grad
        yield [x.requires_grad for x in o]


@case
def grad_mode_varies(jit):
    w = torch.ones(2, requires_grad=True)
    f = jit(lambda x: w * x)
    for i in range(4):
        with torch.set_grad_enabled(i % 2 == 0):
            yield f(torch.ones(2)).requires_grad
    with torch.inference_mode():
        yield f(torch.ones(2)).requires_grad


@case
def enable_grad_inside(jit):

    @jit
    @torch.no_grad()
    def f(w):
        with torch.enable_grad():
            y = (w**2).sum()
        (g,) = torch.autograd.grad(y, w)
        return w - g

    for i in range(2):
        yield f((torch.arange(3.0) + i).requires_grad_())


@case
def backward_with_inputs(jit):
    m = network()
    f = jit(lambda x: m(x).sum())
    for _i in range(2):
        m.zero_grad()
        f(torch.ones(2, 3)).backward(inputs=[m[0].weight])
        yield [p.grad for p in m.parameters()]


@case
def loop_with_item_grad(jit):

    @jit
    def f(x):
        while x.abs().max() > 1:
            x = x * 0.5
        return x.sum()

    for v in (1.0, 3.0, 9.0):
        x = torch.full((2,), v).requires_grad_()
        f(x).backward()
        yield x.grad


@case
def grad_of_int_output(jit):
    f = jit(lambda x: (x * 2, x.argmax(), x > 1, x.long()))
    for n in (2, 3):
        x = torch.arange(float(n)).requires_grad_()
        o = f(x)
        yield [t.requires_grad for t in o]
        o[0].sum().backward()
        yield x.grad


@case
def loss_scaled_in_place(jit):

    @jit
    def f(w, x):
        return (w * x).sum()

    for _i in range(3):
        w = torch.ones(3, requires_grad=True)
        loss = f(w, torch.arange(3.0))
        loss *= 0.5
        loss += (w**2).sum()
        loss.backward()
        yield w.grad
        yield loss


@case
def input_not_needed_overwritten(jit):

    @jit
    def f(w, x):
        return (w + x).sum()

    for _i in range(3):
        w, x = (torch.ones(3, requires_grad=True), torch.ones(3))
        loss = f(w, x)
        x.add_(1)
        loss.backward()
        yield w.grad


@case
def parameter_updated_before_backward(jit):

    @jit
    def f(w, x):
        return ((w + x).sum(), (w * x).sum())

    for _i in range(3):
        w, x = (torch.ones(3, requires_grad=True), torch.ones(3))
        a, b = f(w, x)
        with torch.no_grad():
            w.add_(1)
        b.backward()
        yield w.grad
    for _i in range(2):
        w, x = (torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True))
        a, b = f(w, x)
        with torch.no_grad():
            w.add_(1)
        try:
            b.backward()
        except RuntimeError as e:
            yield ("modified" in str(e))
        a.backward()
        yield w.grad
        yield x.grad


@case
def power_of_saved(jit):

    @jit
    def f(x):
        return (x**2).sum()

    for _i in range(2):
        w = torch.ones(3, requires_grad=True)
        x = w * 1
        loss = f(x)
        x.add_(1)
        try:
            loss.backward()
        except RuntimeError as e:
            yield ("modified" in str(e))


@case
def unused_root_nan(jit):

    @jit
    def f(x):
        return (x.log(), x * 2, x / x)

    for _i in range(3):
        x = torch.tensor([0.0, 1.0], requires_grad=True)
        o = f(x)
        o[1].sum().backward()
        yield x.grad
        o[0].sum().backward()
        yield x.grad


@case
def grad_wrt_inner_output(jit):

    @jit
    def f(w):
        y = w * 2
        return (y, (y**2).sum())

    for _i in range(2):
        w = torch.ones(2, requires_grad=True)
        y, loss = f(w)
        yield torch.autograd.grad(loss, y, retain_graph=True)
        loss.backward()
        yield w.grad


@case
def two_roots_shared(jit):
    m = torch.ones(3, requires_grad=True)
    f = jit(lambda x: ((h := (m * x).tanh()), (h**2).sum(), h.sum()))
    for i in range(6):
        m.grad = None
        o = f(torch.arange(3.0) + i)
        (o[i % 3].sum() if i < 3 else sum(t.sum() for t in o[: i - 1])).backward()
        yield m.grad


@case
def two_backwards_disjoint(jit):
    f = jit(lambda a, b: (a.exp().sum(), b.sin().sum(), (a * b).sum()))
    for _i in range(2):
        a, b = (torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True))
        o = f(a, b)
        o[0].backward()
        yield a.grad
        yield b.grad
        o[1].backward()
        yield b.grad
        o[2].backward()
        yield a.grad
        yield b.grad
        try:
            o[0].backward()
        except RuntimeError as e:
            yield ("second time" in str(e))


@case
def two_backwards_overlapping(jit):
    f = jit(lambda a: ((h := a.exp()).sum(), (h * 2).sum()))
    for _i in range(2):
        a = torch.ones(3, requires_grad=True)
        o = f(a)
        o[0].backward()
        yield a.grad
        try:
            o[1].backward()
        except RuntimeError as e:
            yield ("second time" in str(e))


MATRIX = torch.arange(6.0).reshape(2, 3)


@case(versions=1)
def one_of_two_results_that_a_transposed_global_is_in(jit):
    @jit
    def f(x):
        return (MATRIX.T @ x).exp().sum(), MATRIX.mT @ x

    for scale in (0.1, 0.2):
        x = torch.full((2, 2), scale).requires_grad_()
        f(x)[0].backward()
        yield x.grad


@case
def gradients_are_cleared_that_were_not_there_at_first(jit):
    leaf, other = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)

    @jit
    def f(x):
        leaf.grad = None
        return leaf * x

    @jit
    def g(x):
        leaf.grad = other
        return leaf * x

    for x in (torch.ones(3), torch.ones(3)):
        f(x).sum().backward()
        yield leaf.grad
        f(x)
        yield leaf.grad
    leaf.grad = other
    for _ in range(3):
        g(torch.ones(3))
        yield leaf.grad is other
        leaf.grad = None
