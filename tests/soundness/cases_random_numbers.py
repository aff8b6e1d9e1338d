"""Random numbers, and the state of their generators."""

from __future__ import annotations

import random
import types

import eagerjit as torch
from tests.soundness.framework import attempt, case


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


@case(versions=2)
def seeds_that_are_arguments(jit):
    @jit
    def f(x, seed):
        torch.manual_seed(seed)
        generator = torch.Generator().manual_seed(seed * 3 + 1)
        return x + torch.rand(3), torch.randn(2, generator=generator)

    for seed in (2, 3, 7, 2**40, -3, 2**61):
        yield f(torch.zeros(3), seed), torch.rand(2), torch.initial_seed()


@case(versions=1)
def seeds_that_are_counted(jit):
    counter = types.SimpleNamespace(seed=0)

    @jit
    def f(x):
        with torch.random.fork_rng():
            torch.manual_seed(counter.seed)
            counter.seed += 1
            drawn = torch.rand(3)
        return drawn, torch.rand(3) + x

    for _ in range(4):
        yield f(torch.zeros(3)), counter.seed


@case(versions=2)
def states_of_generators_put_back(jit):
    kept = {"state": torch.get_rng_state()}
    generator = torch.Generator().manual_seed(1)

    @jit
    def f(x):
        before, own = torch.get_rng_state(), generator.get_state()
        first = torch.rand(3), torch.rand(3, generator=generator)
        torch.set_rng_state(before)
        generator.set_state(own)
        again = torch.rand(3), torch.rand(3, generator=generator)
        torch.set_rng_state(kept["state"])
        last = torch.rand(3)
        kept["state"] = torch.get_rng_state()
        return first, again, last + x

    for _ in range(4):
        yield f(torch.zeros(3)), kept


@case
def ends_of_uniform_numbers_in_the_wrong_order(jit):
    @jit
    def f(x, first, last):
        return x.clone().uniform_(first, last)

    for first, last in ((1, 2), (2, 3), (1, 0), (1.0, 2.5), (1.0, 0.5), (0, 4)):
        yield attempt(f, torch.zeros(3), first, last)


@case
def an_error_after_a_compiled_function_has_drawn(jit):
    """The plain call that raises the error is told what was drawn, and so is what it calls."""
    inner = jit(lambda x: x * random.random())

    @jit
    def f(x):
        x = inner(x)
        if x.shape[0] == 3:
            raise ValueError("three rows")
        return x + 1

    random.seed(3)
    for n in (3, 2, 3, 2):
        yield attempt(f, torch.ones(n))
        yield random.getstate()
