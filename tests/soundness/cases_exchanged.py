"""Tensors that are overwritten with each other's contents, and what is computed of both as they were before."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import case


def contents():
    """Two matrices of several sizes."""
    for n, m in ((3, 4), (2, 5), (1, 3), (4, 1), (20, 33)):
        whole = torch.arange(float(n * m)).reshape(n, m)
        yield whole.sin(), whole.cos()


def results(f):
    """What calls give, and what they leave of both arguments."""
    for x, y in contents():
        yield f(x, y)
        yield x, y


@case
def contents_exchanged_and_subtracted(jit):

    @jit
    def f(x, y):
        kept = x.clone()
        x.copy_(y)
        y.copy_(kept)
        return x - y

    yield from results(f)


@case
def contents_exchanged_and_summed(jit):

    @jit
    def f(x, y):
        kept = x.clone()
        x.copy_(y * kept.sum(0))
        y.copy_(kept)
        return x - y, (x * y).sum(-1)

    yield from results(f)


@case
def contents_moved_around(jit):
    a, b, c = torch.zeros(3), torch.ones(3), torch.full((3,), 2.0)

    @jit
    def f(x):
        kept = a.clone()
        a.copy_(b)
        b.copy_(c)
        c.copy_(kept)
        return a + b * c + x

    for _ in range(4):
        yield f(torch.ones(3)), a, b, c


@case
def what_was_there_beside_sums_of_rows(jit):

    @jit
    def f(x, y):
        before = x.clone()
        x.mul_(2)
        return before + x.sum(-1, keepdim=True)

    yield from results(f)


@case
def both_as_they_were_beside_sums_of_rows(jit):

    @jit
    def f(x, y):
        first, second = x.clone(), y.clone()
        x.mul_(2)
        y.mul_(3)
        total = (x + y).sum(-1, keepdim=True)
        return first + total, second - total, x

    yield from results(f)


@case
def a_softmax_written_step_by_step(jit):

    @jit
    def f(x, y):
        before = x.clone()
        x.exp_()
        y.copy_(before)
        y.sub_(x.sum(-1, keepdim=True))
        return (y - before).sum()

    yield from results(f)
