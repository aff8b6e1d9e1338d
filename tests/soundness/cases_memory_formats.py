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


@case
def networks_of_images_in_any_order(jit):
    functional = torch.nn.functional
    weight, vector = ramp(4, 3, 3, 3), ramp(4)

    def layers(x):
        y = functional.conv2d(x, weight, vector, padding=1)
        y = functional.batch_norm(y, vector, vector + 1, vector, vector, True).relu()
        z = functional.max_pool2d(y, 2)
        joined = torch.cat([y, functional.interpolate(z, scale_factor=2)], 1)
        return y, z, joined, functional.pad(z, (1, 0, 2, 1)), z.sum()

    f = jit(layers)
    for sizes in ((2, 3, 4, 6), (1, 3, 6, 4)):
        for x in layouts(*sizes):
            yield f(x)


@case
def gradients_of_networks_of_images(jit):
    functional = torch.nn.functional

    def loss(x, w):
        y = functional.conv2d(x, w, stride=2)
        return functional.avg_pool2d(functional.group_norm(y, 2).sigmoid(), 2).square().sum()

    f = jit(loss)
    for x in layouts(2, 3, 9, 9):
        for w in (ramp(4, 3, 3, 3), last(ramp(4, 3, 3, 3))):
            x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
            f(x, w).backward()
            yield x.grad, w.grad


@case
def pools_of_lines_in_any_order(jit):
    functional = torch.nn.functional

    def pools(x):
        found = [functional.avg_pool1d(x, 3, 1, 1), functional.max_pool1d(x, 2), functional.adaptive_max_pool1d(x, 3)]
        return *found, functional.max_pool1d(x, 2, return_indices=True), functional.adaptive_avg_pool1d(x, 3)

    f = jit(pools)
    for x in layouts(2, 3, 6):
        yield f(x)
        x = x.detach().requires_grad_()
        found = f(x)
        sum((one * one).sum() for one in found[:3]).backward()
        yield found, x.grad


@case
def models_in_a_format(jit):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
    for p in model.parameters():
        p.data = ramp(*p.shape)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss, model[0].weight.stride()

    f = jit(step)
    for memory_format in (torch.contiguous_format, torch.channels_last):
        model.to(memory_format=memory_format)
        for x in layouts(2, 3, 5, 6):
            yield f(x), [*model.parameters()], [p.grad for p in model.parameters()]
