"""Custom functions and hooks."""

from __future__ import annotations

import types

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case
from tests.soundness.tools import network


@case
def retain_grad_outside(jit):

    @jit
    def f(w):
        return w * 2

    for _i in range(2):
        w = torch.ones(2, requires_grad=True)
        y = f(w)
        y.retain_grad()
        (y**2).sum().backward()
        yield y.grad
        yield w.grad


@case
def retain_grad_inside(jit):

    @jit
    def f(w):
        y = w * 2
        y.retain_grad()
        (y**2).sum().backward()
        return y.grad

    for _i in range(2):
        w = torch.ones(2, requires_grad=True)
        yield f(w)
        yield w.grad


@case
def retain_grad_returned(jit):

    @jit
    def f(w):
        y = w * 2
        y.retain_grad()
        return (y, (y**2).sum())

    for _i in range(2):
        w = torch.ones(2, requires_grad=True)
        y, loss = f(w)
        loss.backward()
        yield y.grad
        yield w.grad


@case
def custom_function(jit):

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.save_for_backward(x)
            ctx.k = k
            return x**3 * k

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return (g * 3 * x**2 * ctx.k, None)

    @jit
    def f(x, k):
        return Cube.apply(x, k).sum()

    for i in range(3):
        x = (torch.arange(3.0) + i).requires_grad_()
        f(x, 2.0 + i).backward()
        yield x.grad


@case
def custom_function_inside_backward(jit):

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x**2

    @jit
    def f(x):
        y = Cube.apply(x).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return torch.autograd.grad(g.sum(), x)[0]

    for i in range(3):
        yield f((torch.arange(3.0) + i).requires_grad_())


@case
def custom_setup_context(jit):

    class Mul(torch.autograd.Function):
        @staticmethod
        def forward(x, y, s):
            return x * y * s

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, y, s = inputs
            ctx.save_for_backward(x, y)
            ctx.s = s

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return (
                g * y * ctx.s if ctx.needs_input_grad[0] else None,
                g * x * ctx.s if ctx.needs_input_grad[1] else None,
                None,
            )

    @jit
    def f(x, y):
        return Mul.apply(x, y, 3).sum()

    for a, b in ((True, True), (True, False), (False, True)):
        x, y = (torch.arange(3.0), torch.ones(3))
        x.requires_grad_(a)
        y.requires_grad_(b)
        f(x, y).backward()
        yield x.grad
        yield y.grad


@case
def custom_mark_dirty(jit):

    class Inc(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5

    @jit
    def f(w):
        y = w * 2
        z = Inc.apply(y)
        return ((y**2).sum(), z is y)

    for i in range(3):
        w = (torch.arange(3.0) + i).requires_grad_()
        loss, s = f(w)
        loss.backward()
        yield w.grad
        yield s


@case
def custom_mark_dirty_argument(jit):

    class Inc(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5

    @jit
    def f(x):
        return Inc.apply(x)

    for _i in range(3):
        x = torch.arange(3.0)
        y = f(x)
        yield (y is x)
        yield x
        yield x._version


@case
def custom_once(jit):

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x**2

    f = jit(lambda x: Cube.apply(x).sum())
    for _i in range(2):
        x = torch.arange(3.0).requires_grad_()
        f(x).backward()
        yield x.grad

        (g,) = torch.autograd.grad(f(x), x, create_graph=True)
        total = g.sum()
        yield attempt(total.backward)


@case
def custom_two_outputs(jit):

    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_non_differentiable(i := (x > 1))
            return (x * 2, i)

        @staticmethod
        def backward(ctx, g, gi):
            return g * 2

    @jit
    def f(x):
        a, b = Two.apply(x)
        return (a.sum(), b)

    for _i in range(2):
        x = torch.arange(3.0).requires_grad_()
        a, b = f(x)
        a.backward()
        yield x.grad
        yield b


@case
def custom_ctx_attribute(jit):

    class Clip(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, lo, hi):
            ctx.m = (x >= lo) & (x <= hi)
            return x.clamp(lo, hi)

        @staticmethod
        def backward(ctx, g):
            return (g * ctx.m, None, None)

    f = jit(lambda x, lo: Clip.apply(x, lo, 2.0).sum())
    for lo in (0.0, 1.0):
        x = (torch.arange(5.0) - 1).requires_grad_()
        f(x, lo).backward()
        yield x.grad


@case
def straight_through(jit):
    f = jit(lambda x: (x + (x.round() - x).detach()).sum())
    for i in range(2):
        x = (torch.arange(5.0) / 3 + i).requires_grad_()
        f(x).backward()
        yield x.grad


@case
def tensor_hook_inside(jit):

    @jit
    def f(w):
        y = w * 2
        y.register_hook(lambda g: g * 3)
        return (y**2).sum()

    for i in range(3):
        w = (torch.arange(3.0) + i).requires_grad_()
        f(w).backward()
        yield w.grad


@case
def tensor_hook_on_leaf(jit):
    w = torch.arange(3.0).requires_grad_()
    f = jit(lambda x: (w * x).sum())
    f(torch.ones(3)).backward()
    yield w.grad
    h = w.register_hook(lambda g: g * 3)
    f(torch.ones(3)).backward()
    yield w.grad
    h.remove()
    f(torch.ones(3)).backward()
    yield w.grad


@case
def tensor_hook_on_output(jit):
    f = jit(lambda w: w * 2)
    seen = []
    for _i in range(3):
        w = torch.ones(2, requires_grad=True)
        y = f(w)
        y.register_hook(lambda g: seen.append(g.tolist()) or g * 2)
        y.sum().backward()
        yield w.grad
        yield list(seen)


@case
def hook_inside_step(jit):
    w = torch.arange(3.0).requires_grad_()

    @jit
    def f(x):
        y = w * x
        y.register_hook(lambda g: g.clamp(max=0.5))
        (y**2).sum().backward()
        return w.grad * 1

    for i in range(3):
        yield f(torch.ones(3) * i)


@case
def module_forward_hook(jit):
    m = network()
    f = jit(lambda x: m(x))
    yield f(torch.ones(2, 3))
    h = m[0].register_forward_hook(lambda mod, i, o: o * 2)
    yield f(torch.ones(2, 3))
    h.remove()
    yield f(torch.ones(2, 3))
    h = m[0].register_forward_pre_hook(lambda mod, i: (i[0] + 1,))
    yield f(torch.ones(2, 3))
    h.remove()
    yield f(torch.ones(2, 3))


@case(outcome=FELL_BACK)
def module_backward_hook(jit):
    m = network()
    f = jit(lambda x: m(x).sum())
    seen = []
    h = m[0].register_full_backward_hook(lambda mod, gi, go: seen.append(go[0].sum().item()))
    for _i in range(2):
        x = torch.ones(2, 3, requires_grad=True)
        f(x).backward()
        yield x.grad
        yield list(seen)
    h.remove()
    x = torch.ones(2, 3, requires_grad=True)
    f(x).backward()
    yield list(seen)


@case
def post_accumulate_hook(jit):
    w = torch.ones(2, requires_grad=True)
    seen = []
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))
    f = jit(lambda x: (w * x).sum())
    for i in range(3):
        f(torch.ones(2) * i).backward()
        yield list(seen)


@case
def hook_on_inner_output(jit):

    @jit
    def f(w):
        y = w * 2
        return (y, (y**2).sum())

    for _i in range(2):
        w = torch.ones(2, requires_grad=True)
        seen = []
        y, loss = f(w)
        y.register_hook(lambda g, seen=seen: seen.append(g.tolist()) or g * 3)
        loss.backward()
        yield w.grad
        yield seen


@case
def retain_grad_inner(jit):
    f = jit(lambda w: ((y := (w * 2)), (y**2).sum()))
    for _i in range(2):
        w = torch.ones(2, requires_grad=True)
        y, loss = f(w)
        y.retain_grad()
        loss.backward()
        yield w.grad
        yield y.grad


@case(outcome=FELL_BACK)
def custom_backward_prints(jit):
    seen = []

    class F(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(1)
            return g * 2

    f = jit(lambda x: F.apply(x).sum())
    for _i in range(3):
        x = torch.ones(2, requires_grad=True)
        f(x).backward()
        yield x.grad
        yield list(seen)


@case(versions=4)
def the_methods_of_a_function_are_replaced(jit):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    @jit
    def f(x):
        return Twice.apply(x)

    for change in (
        lambda: None,
        lambda: setattr(Twice, "backward", staticmethod(lambda ctx, grad: grad * 5)),
        lambda: setattr(Twice, "forward", staticmethod(lambda ctx, value: value * 3)),
        lambda: [
            setattr(Twice, "forward", staticmethod(lambda value: value * 7)),
            setattr(Twice, "setup_context", staticmethod(lambda ctx, inputs, output: None)),
        ],
    ):
        change()
        for _ in range(2):
            x = torch.ones(2, requires_grad=True)
            f(x).sum().backward()
            yield x.grad


class Reversed(torch.autograd.Function):
    """The gradient's sign turned, by a strength that programs set."""

    strength = 1.0

    @staticmethod
    def forward(ctx, x):
        return x * Reversed.strength

    @staticmethod
    def backward(ctx, grad):
        return -grad * Reversed.strength


STRENGTHS = (1.0, 3.0, 3.0, 2.0, 1.0)


@case
def a_gradient_reads_what_changed_since_the_call(jit):
    f = jit(lambda x, w: (Reversed.apply(x) * w, (x * w).square()))
    Reversed.strength = 1.0
    for wanted in ([0], [1], [0, 1]):
        for strength in STRENGTHS:
            x, w = torch.arange(3.0, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)
            results, other = f(x, w), (x * w).sum()
            Reversed.strength = strength
            sum((results[i].sum() for i in wanted), other).backward()
            yield x.grad, w.grad


@case
def a_gradient_reads_what_changed_since_a_call_with_effects(jit):
    calls, total = [], torch.zeros(3)

    @jit
    def f(x):
        calls.append(len(calls))
        total.add_(x.detach())
        return (Reversed.apply(x).tanh() * torch.rand(3) * total).sum()

    Reversed.strength = 1.0
    for create_graph in (False, True):
        for strength in STRENGTHS:
            x = torch.ones(3, requires_grad=True)
            loss = f(x)
            Reversed.strength = strength
            (grad,) = torch.autograd.grad(loss, x, create_graph=create_graph)
            yield grad, calls, total, torch.rand(1)
            if create_graph:
                grad.square().sum().backward()
                yield x.grad


@case
def hooks_read_what_changed_since_the_call(jit):
    settings = types.SimpleNamespace(scale=1.0, weights=torch.ones(3))
    layer = torch.nn.Linear(3, 3)
    layer.register_full_backward_hook(lambda module, given, got: (given[0] * settings.scale,))

    @jit
    def f(x):
        y = layer(x)
        y.register_hook(lambda grad: grad * settings.weights)
        return y.sum()

    for scale in STRENGTHS:
        x = torch.ones(3, requires_grad=True)
        loss = f(x)
        settings.scale = scale
        if scale == 3.0:
            settings.weights.add_(1)
        if scale == 2.0:
            settings.weights = torch.full((3,), 5.0)
        layer.zero_grad()
        loss.backward(retain_graph=True)
        settings.scale = 7.0
        loss.backward()
        yield x.grad, [p.grad for p in layer.parameters()], type(attempt(loss.backward))


@case
def a_backward_replaced_before_the_gradient_is_taken(jit):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    f = jit(lambda x: Scaled.apply(x))
    for factor in (3, 5, 5, 7):
        x = torch.ones(2, requires_grad=True)
        result = f(x)
        Scaled.backward = staticmethod(lambda ctx, grad, factor=factor: grad * factor)
        result.sum().backward()
        yield x.grad
