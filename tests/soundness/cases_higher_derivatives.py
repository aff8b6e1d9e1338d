"""Gradients of gradients, function transforms over and inside of compiled functions."""

from __future__ import annotations

import eagerjit as torch
from eagerjit.utils.checkpoint import checkpoint
from tests.soundness.framework import FELL_BACK, attempt, case
from tests.soundness.tools import network


@case
def double_backward(jit):
    f = jit(lambda x: (x**3 * x.sin()).sum())
    for i in range(3):
        x = (torch.arange(3.0) + i).requires_grad_()
        (g,) = torch.autograd.grad(f(x), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x, create_graph=True)
        (k,) = torch.autograd.grad(h.sum(), x)
        yield g
        yield h
        yield k


@case
def double_backward_inside(jit):

    @jit
    def f(x):
        (g,) = torch.autograd.grad((x**3 * x.sin()).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        return (g, h)

    for i in range(3):
        yield f((torch.arange(3.0) + i).requires_grad_())


@case
def penalty_whole(jit):
    m = network()
    o = torch.optim.SGD(m.parameters(), lr=0.1)

    @jit
    def step(x):
        o.zero_grad()
        x = x.detach().requires_grad_()
        y = m(x)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        loss = y.mean() + 10 * ((g.norm(2, dim=1) - 1) ** 2).mean()
        loss.backward()
        o.step()
        return loss

    for i in range(4):
        yield step(torch.ones(2, 3) * (i + 1))
        yield list(m.parameters())


@case
def penalty_outside(jit):
    m = network()
    f = jit(lambda x: m(x))
    for i in range(3):
        m.zero_grad()
        x = (torch.ones(2, 3) * (i + 1)).requires_grad_()
        y = f(x)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        loss = y.mean() + 10 * ((g.norm(2, dim=1) - 1) ** 2).mean()
        loss.backward()
        yield [p.grad for p in m.parameters()]
        yield x.grad


@case
def hvp_outside(jit):
    f = jit(lambda w: (w.tanh() ** 2 * w).sum())
    for i in range(3):
        w = (torch.arange(4.0) - i).requires_grad_()
        v = torch.ones(4)
        (g,) = torch.autograd.grad(f(w), w, create_graph=True)
        (hv,) = torch.autograd.grad(g, w, v)
        yield hv


@case
def hvp_inside(jit):

    @jit
    def f(w, v):
        (g,) = torch.autograd.grad((w.tanh() ** 2 * w).sum(), w, create_graph=True)
        return torch.autograd.grad((g * v).sum(), w)[0]

    for i in range(3):
        yield f((torch.arange(4.0) - i).requires_grad_(), torch.ones(4))


@case
def gradients_with_histories_that_a_step_leaves(jit):
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
    parameters = list(model.parameters())

    @jit
    def step(x):
        loss = (model(x) ** 2).mean()
        loss.backward(create_graph=True)
        return loss

    for n in (2, 3, 5):
        model.zero_grad()
        yield step(torch.randn(n, 4))
        yield torch.autograd.grad(sum((p.grad**2).sum() for p in parameters), parameters)


@case(outcome=FELL_BACK)
def a_gradient_with_a_history_is_read(jit):
    p = torch.ones(3, requires_grad=True)
    f = jit(lambda x: (p.grad**2 * x).sum())
    for k in (1.0, 2.0, 3.0):
        p.grad = None
        (p**3 * k).sum().backward(create_graph=True)
        found = f(torch.arange(1.0, 4.0))
        yield found
        yield torch.autograd.grad(found, p, retain_graph=True)


@case(outcome=FELL_BACK)
def gradients_with_histories_are_added_up(jit):
    step = jit(lambda p: (p**3).sum().backward(create_graph=True))
    for k in (1.0, 2.0, 3.0):
        p = (torch.ones(2) * k).requires_grad_()
        step(p)
        step(p)
        yield torch.autograd.grad((p.grad**2).sum(), p, retain_graph=True)


@case
def maml_inner(jit):
    w = torch.ones(3, requires_grad=True)

    @jit
    def f(x, y):
        p = w
        for _ in range(3):
            loss = ((x @ p - y) ** 2).mean()
            (g,) = torch.autograd.grad(loss, p, create_graph=True)
            p = p - 0.1 * g
        return ((x @ p - y) ** 2).mean()

    for i in range(3):
        w.grad = None
        loss = f(torch.arange(6.0).reshape(2, 3).sin(), torch.ones(2) * i)
        loss.backward()
        yield loss
        yield w.grad


@case
def func_grad_over(jit):
    f = jit(lambda x: (x**3).sum())
    for n in (2, 3):
        yield torch.func.grad(f)(torch.arange(float(n)))
        yield torch.func.vmap(torch.func.grad(f))(torch.arange(2.0 * n).reshape(2, n))


@case
def func_inside(jit):
    def g(x):
        return (x**3 * x.sin()).sum()

    @jit
    def f(x):
        return (
            torch.func.grad(g)(x),
            torch.func.hessian(g)(x),
            torch.func.jvp(g, (x,), (x,)),
            torch.func.jacrev(lambda x: x * x.sum())(x),
            torch.func.jacfwd(lambda x: x * x.sum())(x),
            torch.func.vmap(lambda r: r * r.sum())(x.unsqueeze(0)),
        )

    for n in (2, 3):
        yield f(torch.arange(float(n)))


@case
def func_over(jit):
    f = jit(lambda x: x**3 * x.sum())
    g = jit(lambda x: (x**3).sum())
    for n in (2, 3):
        x = torch.arange(float(n))
        yield torch.func.jacrev(f)(x)
        yield torch.func.jacfwd(f)(x)
        yield torch.func.jvp(f, (x,), (x,))
        yield torch.func.hessian(g)(x)
        yield torch.func.vjp(f, x)[1](x)
        yield torch.func.vmap(f)(torch.stack([x, x + 1]))


@case
def func_of_function(jit):
    f = jit(torch.func.grad(lambda x: (x**3).sum()))
    h = jit(torch.func.vmap(lambda x: x * x.sum()))
    for n in (2, 3):
        yield f(torch.arange(float(n)))
        yield h(torch.arange(2.0 * n).reshape(2, n))


@case
def dropout_double(jit):
    f = jit(lambda x: torch.nn.functional.dropout(x**3, 0.5).sum())
    for _i in range(3):
        x = torch.ones(6, requires_grad=True)
        (g,) = torch.autograd.grad(f(x), x, create_graph=True)
        g.sum().backward()
        yield g
        yield x.grad
        yield torch.rand(1)


@case
def functional_api(jit):
    f = jit(lambda x: (x**3).sum())
    A = torch.autograd.functional
    for n in (2, 3):
        x = torch.arange(float(n))
        yield A.hessian(f, x)
        yield A.jacobian(jit(lambda x: x**2), x)
        yield A.hvp(f, x, x)
        yield A.vjp(f, x)
        yield A.jvp(f, x, x)


@case
def third_derivatives_of_what_was_joined_and_written(jit):
    @jit
    def joined(x):
        return (torch.cat([x * x, x * 3]) ** 3).sum()

    @jit
    def written(x):
        y = x.clone()
        y[0] = y[1] * 2
        z = (y * 3).sum()
        y[1:].add_(z)
        return (y**3).sum()

    for f in (joined, written):
        for n in (3, 4):
            x = torch.arange(float(n), requires_grad=True)
            y = f(x)
            for _ in range(3):
                (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
                yield y


@case
def second_derivatives_by_transforms(jit):
    func = torch.func
    f = jit(lambda x: (x.softmax(0) * x).sum())
    g = jit(lambda x: x.softmax(0) * x.log_softmax(0))
    for i in range(3):
        x = (torch.arange(3.0) + i) * 0.7 - 0.3
        yield func.hessian(f)(x)
        yield func.jacrev(func.jacrev(f))(x)
        yield func.jacfwd(func.jacfwd(g))(x)
        yield func.jvp(lambda x: func.jvp(g, (x,), (x.sin(),))[1], (x,), (x.cos(),))
        yield func.grad(lambda x: func.jacrev(g)(x).square().sum())(x)


@case
def second_derivatives_of_what_writes(jit):
    count = torch.zeros(())

    @jit
    def f(x):
        count.add_(1)
        return (x.softmax(0) * x).sum()

    for i in range(3):
        x = torch.arange(3.0) + i
        yield tuple(torch.func.hessian(f)(x).shape)
        yield count


@case
def gradients_that_pass_unchanged(jit):
    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(w)
            return x * w

        @staticmethod
        def backward(ctx, grad):
            return ctx.saved_tensors[0], grad

    w = (torch.arange(3.0) + 1).requires_grad_()
    for of in (lambda x: x + 2 * w, lambda x: x.sin() + w, lambda x: x + x.exp() - w, lambda x: Kept.apply(x, w)):
        f = jit(of)
        for i in range(3):
            x = (torch.arange(3.0) / 3 - i).requires_grad_()
            first = torch.autograd.grad((f(x) * x.sin()).sum(), (x, w), create_graph=True)
            second = torch.autograd.grad(sum((g**2).sum() for g in first), (x, w), create_graph=True)
            yield first, second
            yield torch.autograd.grad(sum((g * x).sum() for g in second), (x, w), allow_unused=True)


@case
def gradients_of_reals_among_complex_numbers(jit):
    def f(x, z, create_graph):
        (g,) = torch.autograd.grad((x * z).abs().sum(), x, create_graph=create_graph)
        return g, g * 2

    jitted = jit(f)
    for n in (3, 4):
        x, z = torch.arange(float(n)).requires_grad_(), torch.complex(torch.ones(n), torch.arange(float(n)))
        yield jitted(x, z, False)
        yield jitted(x, z, True)


@case
def second_gradients_of_halves_resized(jit):
    def f(x, mode):
        y = torch.nn.functional.interpolate(x, scale_factor=2, mode=mode)
        (g,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
        return g, torch.autograd.grad((g * g).sum(), x)

    jitted = jit(f)
    for mode in ("trilinear", "nearest"):
        for dtype in (torch.bfloat16, torch.float16):
            yield jitted(torch.arange(8.0).reshape(1, 1, 2, 2, 2).to(dtype).requires_grad_(), mode)


@case(outcome=FELL_BACK)
def what_only_a_recording_refuses_under_vmap_is_not_caught(jit):
    w = torch.ones(1, requires_grad=True)

    @jit
    def f(y):
        def gradient(v):
            return torch.autograd.grad((v * y).sum(), w, retain_graph=True)[0]  # of what was done before the call

        try:
            return torch.func.vmap(gradient)(torch.eye(y.shape[0]))
        except Exception as error:
            return repr(error)

    for n in (2, 3):
        yield f(torch.arange(float(n)) * w)


def penalty_step(jit, whole):
    """A part that a gradient runs once more for its own gradient: the sine in it is differentiated once."""
    w = (torch.arange(16.0).reshape(4, 4) / 7).requires_grad_()
    forward = lambda x: checkpoint(lambda y: y @ w.sin(), x.tanh(), use_reentrant=False)  # noqa: E731
    if not whole:
        forward = jit(forward)

    def step(x):
        x = x.detach().requires_grad_()
        out = forward(x)
        (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        ((out**2).mean() + g.square().sum()).backward()
        return g.detach()

    step = jit(step) if whole else step
    for i in range(3):
        step(torch.linspace(-1.0, 1.0, 24).reshape(6, 4) + i)
        yield w.grad.clone()


@case
def a_penalty_of_gradients_through_a_checkpoint(jit):
    yield from penalty_step(jit, True)


@case
def a_penalty_outside_of_gradients_through_a_checkpoint(jit):
    yield from penalty_step(jit, False)


@case
def grad_of_a_layer_of_recurrent_steps_whose_weights_are_given(jit):
    """The weights have a history before the call, and so has what is computed of them before the layer."""
    torch.manual_seed(0)
    model = torch.nn.GRU(2, 2, batch_first=True)
    values = dict(model.named_parameters())
    model.forward = jit(model.forward)

    def loss(given, x):
        return torch.func.functional_call(model, given, (x,))[0].square().sum()

    for i in range(3):
        found = torch.func.grad(loss)(values, torch.linspace(-1.0, 1.0, 16).reshape(4, 2, 2) + i)
        yield [g.flatten() for g in found.values()]


@case
def gradients_that_have_a_history_through_a_layer_behind_a_checkpoint(jit):
    """The checkpoint is taken apart where the gradient is recorded: what the layer was given is then another tensor."""
    torch.manual_seed(0)
    weight, layer = torch.ones(4, requires_grad=True), torch.nn.Linear(4, 4)
    layer.forward = jit(layer.forward)
    for n in (3, 5):
        x = torch.linspace(-1.0, 1.0, 4 * n).reshape(n, 4).requires_grad_()
        out = layer(checkpoint(lambda given: (given * weight).tanh(), x, use_reentrant=False)).square().sum()
        grads = torch.autograd.grad(out, (weight, x, layer.weight), create_graph=True)
        yield grads
        again = torch.autograd.grad(sum(g.square().sum() for g in grads), (weight, x, layer.weight), create_graph=True)
        yield again
        yield torch.autograd.grad(sum(g.sum() for g in again), (weight, x))


@case(outcome=FELL_BACK)
def a_checkpoint_that_overwrites_what_it_is_given(jit):
    def f(x):
        return checkpoint(lambda h: h.tanh_(), x * 2, use_reentrant=False) * 3

    f = jit(f)
    for n in (3, 4):
        x = torch.linspace(-1.0, 1.0, n).requires_grad_()
        out = f(x)
        yield out.detach(), attempt(lambda out=out: out.sum().backward())


@case
def the_gradient_of_the_gradient_of_attention_in_half_precision(jit):
    """Weights are of float32 there: their gradient is converted outside of any recording too."""
    attention = torch.nn.functional.scaled_dot_product_attention
    f = jit(lambda q, k, v: attention(q, k, v, is_causal=True))
    for n, dtype in ((3, torch.bfloat16), (4, torch.float16)):
        values = torch.linspace(-1.0, 1.0, 6 * n).reshape(3, n, 2)
        q, k, v = (x.to(dtype).requires_grad_() for x in values.unbind())
        grads = torch.autograd.grad(f(q, k, v).square().sum(), (q, k, v), create_graph=True)
        again = torch.autograd.grad(sum(g.square().sum() for g in grads), (q, k, v))
        yield [g.flatten() for g in (*grads, *again)]


@case
def a_jacobian_at_what_has_a_history(jit):
    """Gradients go through it to what the argument was computed of."""
    w = torch.tensor([0.5, -1.0], requires_grad=True)

    def g(x):
        return torch.stack([x[0] * x[1], x[1].sin() + w[0]])

    @jit
    def f(x, y):
        second = torch.func.hessian(lambda x: (g(x) * y).sum())(x)
        return torch.func.jacrev(g)(x) @ x, second, torch.func.jacfwd(g)(x), torch.func.jvp(g, (x,), (y,))

    for factor in (1.0, 2.0, 3.0):
        results = f(w * factor, torch.ones(2))
        yield results
        yield torch.autograd.grad(results[0].sum() + results[1].square().sum(), w)


@case
def a_gradient_to_what_is_made_of_a_history(jit):
    """What was done before the call leads to nothing that the gradient is asked for."""
    w = torch.tensor([0.5, -1.0], requires_grad=True)

    @jit
    def f(x, factor):
        y = x * factor
        z = y.sin() * x
        (first,) = torch.autograd.grad(z.sum(), y, create_graph=True)
        return first, torch.autograd.grad(first.sum(), y, retain_graph=True)

    for factor in (1.0, 2.0, 3.0):
        first, second = f(w * factor, torch.tensor(factor))
        yield first, second, torch.autograd.grad(first.square().sum(), w)


@case(outcome=FELL_BACK)
def a_gradient_to_what_a_history_may_lead_to(jit):
    w = torch.tensor([0.5, -1.0], requires_grad=True)

    @jit
    def f(x, leaf):
        y = x * 2
        return torch.autograd.grad(y.sin().sum(), (y, leaf))

    for _ in range(3):
        yield f(w * 3, w)


@case
def gradients_to_points_beside_what_has_a_history(jit):
    """Weights that were computed before the call lead to no points that are made in it."""
    w = torch.tensor([0.5, -1.0], requires_grad=True)

    def u(weights, point):
        return (weights * point.sin()).sum().square()

    def laplacian(weights, point):
        return torch.func.hessian(u, argnums=1)(weights, point).diagonal().sum()

    @jit
    def f(weights, points):
        x = points.clone().requires_grad_()
        (slope,) = torch.autograd.grad((weights * x).sin().sum(), x, create_graph=True)
        one = torch.func.grad(u, argnums=1)(weights, points[0])
        return slope, one, torch.func.vmap(laplacian, (None, 0))(weights, points)

    for factor in (1.0, 2.0, 3.0):
        results = f(w * factor, torch.arange(6.0).reshape(3, 2) * factor)
        yield results
        yield torch.autograd.grad(sum(r.square().sum() for r in results), w)


@case
def weights_that_take_their_own_gradients_step(jit):
    """Each call gets those of the call before, with their history."""
    points = torch.arange(6.0).reshape(3, 2)

    def residual(weights):
        return torch.func.vmap(torch.func.grad(lambda x: (weights * x.sin()).sum().square()))(points).square().mean()

    @jit
    def f(weights):
        return residual(weights).detach(), weights.detach() - 0.01 * torch.func.grad(residual)(weights)

    weights = torch.tensor([0.5, -1.0], requires_grad=True)
    for _ in range(4):
        loss, weights = f(weights)
        yield loss, weights, weights.requires_grad
