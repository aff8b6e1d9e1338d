"""Gradients that accumulate, optimizers, schedulers and running statistics over several calls."""

from __future__ import annotations

import copy

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, attempt, case
from tests.soundness.tools import network


@case
def grad_accumulates(jit):
    w = torch.ones(3, requires_grad=True)
    f = jit(lambda x: (w * x).exp().sum())
    for i in range(4):
        f(torch.arange(3.0) * i).backward()
        yield w.grad


@case
def zero_grad_both(jit):
    m = network()
    o = torch.optim.SGD(m.parameters(), lr=0.1)

    @jit
    def step(x, none):
        o.zero_grad(set_to_none=none)
        loss = (m(x) ** 2).mean()
        loss.backward()
        o.step()
        return loss

    for i in range(5):
        yield step(torch.ones(2, 3) * i, i % 2 == 0)
        yield [p.grad for p in m.parameters()]
    o.zero_grad(set_to_none=False)
    yield step(torch.ones(2, 3), False)
    yield list(m.parameters())


@case
def zero_grad_outside(jit):
    m = network()
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    f = jit(lambda x: (m(x) ** 2).mean())
    for i in range(5):
        o.zero_grad(set_to_none=i % 2 == 0)
        f(torch.ones(2, 3) * i).backward()
        o.step()
        yield [p.grad for p in m.parameters()]
        yield list(m.parameters())


@case
def grad_aliased_kept(jit):
    w = torch.ones(2, requires_grad=True)

    @jit
    def f(x):
        (w * x).sum().backward()

    f(torch.ones(2))
    g = w.grad
    f(torch.ones(2))
    yield (g is w.grad)
    yield g
    w.grad = None
    f(torch.ones(2))
    yield (g is w.grad)
    yield g
    w.grad = torch.ones(2)
    k = w.grad
    f(torch.ones(2))
    yield (k is w.grad)
    yield k


@case
def grad_set_inside(jit):
    w = torch.ones(2, requires_grad=True)

    @jit
    def f(x):
        w.grad = x * 2
        return w.grad.sum()

    for i in range(3):
        yield f(torch.ones(2) * i)
        yield w.grad


@case
def grad_clip_inside(jit):
    m = network()
    o = torch.optim.SGD(m.parameters(), lr=0.1)

    @jit
    def step(x):
        o.zero_grad()
        loss = (m(x) ** 2).mean()
        loss.backward()
        n = torch.nn.utils.clip_grad_norm_(m.parameters(), 0.5)
        o.step()
        return (loss, n)

    for i in range(4):
        yield step(torch.ones(2, 3) * (i + 1))
        yield list(m.parameters())


@case
def grad_scaled_inplace(jit):
    m = network()

    @jit
    def step(x, s):
        (m(x) ** 2).mean().backward()
        for p in m.parameters():
            p.grad.mul_(s)
        return sum(p.grad.sum() for p in m.parameters())

    for i in range(3):
        yield step(torch.ones(2, 3) * (i + 1), 0.5 / (i + 1))
        yield [p.grad for p in m.parameters()]


@case
def batchnorm(jit):
    b = torch.nn.BatchNorm1d(3)
    f = jit(b)
    for n in (4, 5, 2):
        yield f(torch.arange(3.0 * n).reshape(n, 3))
        yield b.running_mean
        yield b.running_var
        yield b.num_batches_tracked
    b.eval()
    yield f(torch.ones(2, 3))
    yield b.num_batches_tracked
    b.train()
    yield f(torch.arange(6.0).reshape(2, 3))
    yield b.running_mean


@case
def batchnorm_momentum_none(jit):
    b = torch.nn.BatchNorm1d(3, momentum=None)
    f = jit(lambda x: b(x))
    for n in (4, 5, 2):
        yield f(torch.arange(3.0 * n).reshape(n, 3))
        yield b.running_mean
        yield b.running_var
        yield b.num_batches_tracked


@case
def batchnorm_no_stats(jit):
    b = torch.nn.BatchNorm1d(3, track_running_stats=False, affine=False)
    f = jit(lambda x: b(x))
    for n in (4, 5):
        yield f(torch.arange(3.0 * n).reshape(n, 3))


@case
def batchnorm_one_sample(jit):
    b = torch.nn.BatchNorm1d(3)
    f = jit(lambda x: b(x))
    yield f(torch.arange(6.0).reshape(2, 3))
    yield attempt(lambda: f(torch.ones(1, 3)))
    b.eval()
    yield f(torch.ones(1, 3))


@case
def batchnorm_backward(jit):
    b = torch.nn.BatchNorm1d(3)
    f = jit(lambda x: (b(x) ** 3).sum())
    for n in (4, 5, 2):
        f(torch.arange(3.0 * n).reshape(n, 3).sin()).backward()
        yield b.weight.grad
        yield b.bias.grad
        yield b.running_var


@case
def optim_group_changes(jit):
    m = network()
    o = torch.optim.AdamW(
        [{"params": m[0].parameters(), "weight_decay": 0.1}, {"params": m[2].parameters(), "lr": 0.5}], lr=0.1
    )

    @jit
    def step(x):
        o.zero_grad()
        loss = (m(x) ** 2).mean()
        loss.backward()
        o.step()
        return loss

    for i in range(6):
        yield step(torch.ones(2, 3))
        yield list(m.parameters())
        if i == 1:
            o.param_groups[0]["weight_decay"] = 0.0
        if i == 2:
            o.param_groups[1]["betas"] = (0.5, 0.9)
        if i == 3:
            m[0].weight.requires_grad_(False)
        if i == 4:
            m[0].weight.requires_grad_(True)


@case
def optim_add_group(jit):
    m = network()
    o = torch.optim.SGD(m[0].parameters(), lr=0.1)

    @jit
    def step(x):
        o.zero_grad()
        loss = (m(x) ** 2).mean()
        loss.backward()
        o.step()
        return loss

    for i in range(4):
        yield step(torch.ones(2, 3))
        yield list(m.parameters())
        if i == 1:
            o.add_param_group({"params": m[2].parameters(), "lr": 0.2})


@case
def scheduler(jit):
    m = network()
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    s = torch.optim.lr_scheduler.StepLR(o, 2, 0.5)

    @jit
    def step(x):
        o.zero_grad()
        loss = (m(x) ** 2).mean()
        loss.backward()
        o.step()
        return loss

    for _i in range(6):
        yield step(torch.ones(2, 3))
        s.step()
        yield o.param_groups[0]["lr"]


@case
def optim_state_loaded(jit):
    m = network()
    o = torch.optim.Adam(m.parameters(), lr=0.1)

    @jit
    def step(x):
        o.zero_grad()
        loss = (m(x) ** 2).mean()
        loss.backward()
        o.step()
        return loss

    for _i in range(2):
        yield step(torch.ones(2, 3))
    sd, w = (copy.deepcopy(o.state_dict()), copy.deepcopy(m.state_dict()))
    for _i in range(2):
        yield step(torch.ones(2, 3))
    o.load_state_dict(sd)
    m.load_state_dict(w)
    for _i in range(2):
        yield step(torch.ones(2, 3))
    yield list(m.parameters())


@case
def optim_step_outside(jit):
    m = network()
    o = torch.optim.Adam(m.parameters(), lr=0.1)
    f = jit(lambda x: (m(x) ** 2).mean())
    for _i in range(4):
        o.zero_grad()
        f(torch.ones(2, 3)).backward()
        o.step()
        yield list(m.parameters())


@case
def frozen_parameters(jit):
    m = network()
    f = jit(lambda x: (m(x) ** 2).mean())
    for i in range(4):
        m[0].weight.requires_grad_(i % 2 == 0)
        m.zero_grad()
        f(torch.ones(2, 3)).backward()
        yield [p.grad for p in m.parameters()]


@case
def accumulation_microbatches(jit):
    m = network()
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    f = jit(lambda x: (m(x) ** 2).mean() / 4)
    for i in range(8):
        f(torch.ones(2, 3) * i).backward()
        if i % 4 == 3:
            o.step()
            o.zero_grad()
            yield list(m.parameters())


@case
def accumulation_inside(jit):
    m = network()
    o = torch.optim.SGD(m.parameters(), lr=0.1)

    @jit
    def micro(x, last):
        loss = (m(x) ** 2).mean() / 4
        loss.backward()
        if last:
            o.step()
            o.zero_grad()
        return loss.detach()

    for i in range(8):
        yield micro(torch.ones(2, 3) * i, i % 4 == 3)
        yield list(m.parameters())


@case
def shared_weights(jit):
    w = torch.arange(9.0).reshape(3, 3).sin().requires_grad_()
    f = jit(lambda x: ((x @ w).tanh() @ w.t()).sum())
    for _i in range(3):
        x = torch.ones(2, 3).requires_grad_()
        (f(x) + (w**2).sum()).backward()
        yield w.grad
        yield x.grad


@case
def grads_in_one_of_two(jit):
    m = torch.nn.Linear(2, 2)
    n = torch.nn.Linear(2, 2)
    with torch.no_grad():
        [p.fill_(0.5) for p in [*m.parameters(), *n.parameters()]]
    f = jit(lambda x: (m(x).sum(), n(x).sum()))
    for i in range(4):
        for p in [*m.parameters(), *n.parameters()]:
            p.grad = None
        f(torch.ones(2, 2))[i % 2].backward()
        yield [p.grad for p in [*m.parameters(), *n.parameters()]]


@case(versions=2)
def parts_told_by_apply(jit):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))

    def still(part):
        if isinstance(part, nn.BatchNorm1d):
            part.kept, part.momentum = part.momentum, 0

    def moving(part):
        if isinstance(part, nn.BatchNorm1d):
            part.momentum = part.kept

    @jit
    def both(x):
        first = model(x).sum()
        model.apply(still)
        second = model(x * 2).sum()
        model.apply(moving)
        return first + second

    for i in range(3):
        yield both(torch.ones(4, 3) * i), model[1].running_mean, model[1].momentum, model[1].kept


@case(outcome=FELL_BACK)
def parts_told_by_a_method_of_the_library(jit):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))

    @jit
    def f(x):
        model.apply(nn.Module.eval)
        return model(x), model[1].training

    yield f(torch.ones(2, 3)), model.training
    model.train()
    yield f(torch.ones(2, 3)), model.training
