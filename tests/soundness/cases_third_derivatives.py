"""Gradients of products of Jacobians, which are third derivatives, where the plain call adds in an order of its own."""

from __future__ import annotations

import eagerjit as torch
from eagerjit.utils.checkpoint import checkpoint
from tests.soundness.framework import attempt, case


def pushed(function, x):
    """A product of the Jacobian by two gradients, the second of the first for what that is linear in."""
    x = x.detach().requires_grad_()
    v = torch.ones((), requires_grad=True)
    (g,) = torch.autograd.grad(function(x).square().mean(), (x,), v, create_graph=True)
    (t,) = torch.autograd.grad(g.sum(), (v,), create_graph=True)
    return t


def gradients(parameters):
    found = [p.grad for p in parameters]
    for p in parameters:
        p.grad = None
    return found


@case
def third_derivatives_of_recurrent_layers(jit):
    for kind in ("GRU", "LSTM", "RNN"):
        torch.manual_seed(3)
        layer = getattr(torch.nn, kind)(2, 2, batch_first=True)
        cell = getattr(torch.nn, f"{kind}Cell")(2, 2)

        def steps(x, cell=cell):
            state, results = None, []
            for t in range(x.shape[1]):
                state = cell(x[:, t], state)
                results.append(state[0] if isinstance(state, tuple) else state)
            return torch.stack(results, 1)

        for part, net in ((layer, lambda x, layer=layer: layer(x)[0]), (cell, steps)):
            step = jit(lambda x, net=net: pushed(net, x).backward())
            for i in range(4):
                step(torch.randn(3, 2 + i % 2, 2))
                yield gradients(list(part.parameters()))


@case
def third_derivatives_of_checkpoints(jit):
    torch.manual_seed(4)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2), torch.nn.Sigmoid())

    def loss(x):
        return checkpoint(net, x, use_reentrant=False).square().mean()

    @jit
    def step(x):
        out, t = torch.func.jvp(loss, (x,), (torch.ones_like(x),))
        (out + t.square()).backward()
        return out, t

    for i in range(4):
        yield step(torch.randn(3 + i % 2, 2))
        yield gradients(list(net.parameters()))


@case
def third_derivatives_of_calls_with_checkpoints(jit):
    torch.manual_seed(5)
    rnn, scale = torch.nn.RNN(3, 3, batch_first=True), torch.ones(3, requires_grad=True)

    @jit
    def loss(x):
        last = rnn(x[None])[0][0]
        return checkpoint(lambda a: (a * scale).sin(), last, use_reentrant=False).square().mean()

    values = [*rnn.parameters(), scale]
    for _ in range(2):
        taken = [loss(torch.ones(3, 3))]
        for _ in range(2):
            taken = torch.autograd.grad(sum(t.square().sum() for t in taken), values, create_graph=True)
            yield [t.tolist() for t in taken]
        sum(t.square().sum() for t in taken).backward()
        yield gradients(values)


@case
def gradients_left_whose_history_was_used_up(jit):
    @jit
    def step(x, w, retain):
        (x * w).square().sum().backward(create_graph=True)
        torch.autograd.grad(w.grad.square().sum(), w, retain_graph=retain)
        w.grad = None

    for retain in (False, True, False):
        x, w = torch.ones(3, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)
        step(x, w, retain)
        yield x.grad.requires_grad
        yield attempt(lambda x=x, w=w: [g.tolist() for g in torch.autograd.grad(x.grad.sum(), [x, w])])


@case
def gradients_of_gradients_for_less_than_a_recurrent_call_depends_on(jit):
    """What the first walk does not ask for is no argument of the gradient that it records: it is added up elsewhere."""
    torch.manual_seed(7)
    cell, layer, x = torch.nn.GRUCell(3, 3), torch.nn.GRU(3, 3), torch.randn(5, 3)
    calls = (cell, jit(lambda a: cell(a, cell(a)))), (layer, jit(lambda a: layer(layer(a[None])[0])[0]))
    for module, call in calls:
        values, a = list(module.parameters()), x.clone().requires_grad_()
        (y,) = torch.autograd.grad(call(a), a, torch.ones_like(call(a)), create_graph=True)
        yield [g.tolist() for g in torch.autograd.grad(y.square().mean(), values, retain_graph=True)]
        first = torch.autograd.grad(y.square().mean(), values, create_graph=True)[0]
        yield [g.tolist() for g in torch.autograd.grad(first, values, first.detach())]


@case
def gradients_with_a_history_for_parameters_of_a_call_on_what_was_computed_before(jit):
    torch.manual_seed(3)
    cell = torch.nn.GRUCell(3, 3)
    call, values = jit(lambda a: cell(a, cell(a)).square().mean()), list(cell.parameters())
    for n in (2, 4):
        x = torch.linspace(-1.0, 1.0, 3 * n).reshape(n, 3).requires_grad_()
        grads = torch.autograd.grad(call(x * 2), values, create_graph=True)
        yield [g.tolist() for g in grads]
        sum(g.square().sum() for g in grads).backward()
        yield x.grad, gradients(values)
        cell.zero_grad()


@case
def gradients_with_a_history_of_a_recurrent_call_whose_gradients_come_by_the_batch(jit):
    torch.manual_seed(7)
    lstm = torch.nn.LSTM(3, 3)
    call, values = jit(lambda a: lstm(a)[0]), list(lstm.parameters())
    for n in (3, 4):
        x = torch.linspace(-1.0, 1.0, 3 * n).reshape(n, 3).requires_grad_() * 1
        (first,) = torch.autograd.grad(call(x).square().mean(), x, create_graph=True)
        loss = torch.nn.functional.cross_entropy(first.sum() * x, torch.arange(n) % 3)
        second = torch.autograd.grad(loss, values, create_graph=True)[0]
        batch = torch.stack([torch.ones_like(second), second.detach()])
        yield [g.tolist() for g in torch.autograd.grad(second, values, batch, is_grads_batched=True)]


@case
def gradients_with_a_history_of_recurrent_calls(jit):
    """They are derived from the steps, and have other last bits than those of a walk that leaves no history."""
    torch.manual_seed(7)
    x = torch.randn(4, 3)
    for module in (torch.nn.GRUCell(3, 3), torch.nn.LSTMCell(3, 3), torch.nn.GRU(3, 3)):
        call = jit(lambda a, module=module: torch.utils._pytree.tree_leaves(module(a))[0])
        values = list(module.parameters())
        for wanted in (values, values[:1], values[1:3]):
            grads = torch.autograd.grad(call(x).square().sum(), wanted, create_graph=True)
            yield [g.tolist() for g in grads]
            yield [g.tolist() for g in torch.autograd.grad(sum(g.square().sum() for g in grads), values)]
        y = torch.ones(3, requires_grad=True)
        (grad,) = torch.autograd.grad((call(x * y) * y).sum() + (x * y).sum(), y, create_graph=True)
        yield grad.tolist(), torch.autograd.grad(grad.sum(), y)[0].tolist()
        call(x).sum().backward(create_graph=True)
        yield [p.grad.tolist() for p in values]
