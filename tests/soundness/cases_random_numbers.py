"""Random numbers, and the state of their generators."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import case


@case
def dropout(jit):
    d = torch.nn.Dropout(0.5)
    f = jit(lambda x: d(x))
    torch.manual_seed(1)
    for n in (4, 5):
        yield f(torch.ones(n))
    d.eval()
    yield f(torch.ones(4))
    d.train()
    d.p = 0.1
    yield f(torch.ones(20))
    yield torch.rand(2)


@case
def random_ops(jit):

    @jit
    def f(x):
        return (
            torch.rand(x.shape),
            torch.randn_like(x),
            torch.randint(0, 10, (3,)),
            torch.bernoulli(torch.full_like(x, 0.5)),
            torch.randperm(5),
            torch.normal(0.0, 1.0, (2,)),
            torch.empty(3).uniform_(2, 3),
        )

    for s in (1, 2, 1):
        torch.manual_seed(s)
        yield f(torch.zeros(3))
        yield f(torch.zeros(4))
        yield torch.rand(2)


@case(versions=1)
def random_seed_inside(jit):

    @jit
    def f(x):
        torch.manual_seed(7)
        return x + torch.rand(3)

    for _i in range(2):
        yield f(torch.zeros(3))
        yield torch.rand(1)


@case
def random_generator(jit):
    g = torch.Generator()
    g.manual_seed(3)

    @jit
    def f(x):
        return x + torch.rand(3, generator=g)

    for _i in range(3):
        yield f(torch.zeros(3))
    yield torch.rand(2, generator=g)


@case
def random_state_restored(jit):
    f = jit(lambda x: x + torch.rand(3))
    s = torch.get_rng_state()
    a = f(torch.zeros(3))
    torch.set_rng_state(s)
    b = f(torch.zeros(3))
    yield a
    yield b
    yield f(torch.zeros(3))


@case
def dropout_backward(jit):
    f = jit(lambda x: torch.nn.functional.dropout(x, 0.5).sum())
    for _i in range(3):
        x = torch.ones(6, requires_grad=True)
        f(x).backward()
        yield x.grad
