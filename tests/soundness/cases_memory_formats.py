"""Tensors with channels last: given in one call and not in the next, made inside, and written."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import case


def ramp(*sizes):
    n = torch.Size(sizes).numel()
    return (torch.arange(float(n)) / n - 0.3).reshape(*sizes)


def last(x):
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


def layouts(*sizes):
    x = ramp(*sizes)
    turned = x.transpose(0, 2).contiguous().transpose(0, 2)
    return [x, last(x), turned, last(x.repeat_interleave(2, 1))[:, ::2], x, last(x)]


@case
def formats_asked_for(jit):
    def asked(x):
        same = x.to(memory_format=torch.channels_last)
        kept = x.contiguous(memory_format=torch.channels_last)
        return same, kept, same is x, kept is x, x.is_contiguous(memory_format=torch.channels_last)

    def made(x):
        like = torch.zeros_like(x, memory_format=torch.channels_last) + x
        return like, x.clone(memory_format=torch.contiguous_format), torch.ones_like(x)

    for function in (asked, made):
        f = jit(function)
        for sizes in ((2, 3, 4, 5), (3, 2, 5, 4), (2, 1, 4, 5), (2, 3, 1, 1)):
            for x in layouts(*sizes):
                yield f(x)


@case
def copies_in_a_format_are_written(jit):
    def write(x):
        y = x.to(memory_format=torch.channels_last)
        y.mul_(2)
        return y, x

    f = jit(write)
    for x in layouts(2, 3, 4, 5):
        yield f(x.clone())
        yield f(last(x))


@case
def gradients_left_in_leaves_of_formats(jit):
    def inside(x):
        x.grad = None
        (x.exp() * x.contiguous()).sum().backward()
        return x.grad.stride()

    f, g = jit(inside), jit(lambda x: (x.sin() * x).sum())
    for x in layouts(2, 3, 4, 5):
        x = x.detach().requires_grad_()
        yield f(x), x.grad
        g(x).backward()
        yield x.grad
