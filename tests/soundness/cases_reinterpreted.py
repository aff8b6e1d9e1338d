"""Tensors over the bytes of others: of another dtype, or by strides of their own."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import case
from tests.soundness.tools import error_of


def ramp(*sizes):
    return (torch.arange(float(torch.Size(sizes).numel())) / 7 - 0.3).reshape(sizes)


@case(versions=1)
def the_bits_of_numbers(jit):
    f = jit(lambda x: ((x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32), x.view(torch.uint8).sum()))
    for i in range(4):
        f(ramp(2, 4) - i)


@case(versions=4)
def bits_of_every_width(jit):
    floats = torch.float16, torch.bfloat16, torch.float32, torch.float64
    integers = torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, *floats
    f = jit(lambda x: [(x * 1.5).view(dtype) for dtype in integers])
    for dtype in floats:
        for i in range(3):
            f((ramp(3, 8) - i).to(dtype))


@case(versions=2)
def a_view_of_the_bits_is_returned(jit):
    f = jit(lambda x: x.view(torch.int32))
    for x in (ramp(2, 4), ramp(5, 2), ramp(4, 2).t()):
        bits = f(x)
        x.neg_()
        yield bits
        bits.fill_(0x3F800000)
        yield x


@case(versions=1)
def a_view_of_what_is_computed_is_returned(jit):
    def function(x):
        y = x * 2
        return y, y.view(torch.int32), y.view(torch.int16)

    f = jit(function)
    for i in range(3):
        y, bits, halves = f(ramp(2, 4) + i)
        y.add_(1)
        yield bits, halves
        halves.zero_()
        yield y, bits


@case(versions=1)
def bits_are_written(jit):
    def function(x):
        bits = x.view(torch.int32)
        bits.bitwise_and_(0x7FFFFFFF)
        x.mul_(2)
        wide = x.view(torch.int64)
        wide[0] = 0
        return bits + 1, x.sum()

    f = jit(function)
    for i in range(3):
        x = ramp(3, 4) - i
        f(x)
        yield x, x._version


@case(versions=2)
def the_bits_of_parameters(jit):
    layer = torch.nn.Linear(4, 4)

    @torch.no_grad()
    def function(x):
        bits = layer.weight.view(torch.int32) + torch.randint(0, 1 << 16, (4, 4), dtype=torch.int32)
        layer.weight.copy_((bits & -65536).view(torch.float32))
        return layer(x)

    f = jit(function)
    for i in range(3):
        f(ramp(2, 4) + i)
    loss = jit(lambda x: (layer(x) * (layer.weight.view(torch.int32) >> 30)).sum())
    loss(ramp(4, 4)).backward()
    yield layer.weight.grad


@case(versions=4)
def sizes_that_bytes_do_not_fill(jit):
    f = jit(lambda x: error_of(lambda: x.view(torch.int64)))
    for x in (ramp(2, 4), ramp(2, 3), ramp(4, 2).t(), ramp(1)[0]):
        f(x)


@case(versions=2)
def windows_by_strides(jit):
    f = jit(lambda x: x.as_strided((5, 3), (1, 1)).mean(1))
    for i in range(3):
        x = (ramp(7) + i).requires_grad_()
        f(x).sum().backward()
        yield x.grad
    f(ramp(9)[1:8])
    f(ramp(9, 2)[:, 1][:7].contiguous())


@case(versions=2)
def windows_by_strides_are_returned(jit):
    f = jit(lambda x: x.as_strided((3, 2), (2, 1)))
    big = ramp(12)
    for x in (ramp(6), ramp(6) + 1, big[3:9]):
        windows = f(x)
        windows.add_(1)
        yield x, windows, windows.storage_offset()
    yield big


def beyond(x):
    return x.as_strided((3,), (2,))


@case(outcome="fell back")
def strides_that_lead_beyond_a_tensor(jit):
    f = jit(beyond)
    big = ramp(12)
    for x in (big[:2], big[4:6], big[1:3]):
        f(x)


@case(outcome="fell back")
def strides_from_the_beginning_of_memory(jit):
    f = jit(lambda x: x.as_strided((2,), (1,), 1) * 2)
    big = ramp(12)
    for x in (big, big[4:6], ramp(3)):
        f(x)


@case(versions=1)
def windows_by_strides_are_written(jit):
    def function(x):
        x.as_strided((2, 2), (3, 1)).mul_(-1)
        x.add_(1)
        return x.as_strided((2, 2), (3, 1)).clone()

    f = jit(function)
    for i in range(3):
        x = ramp(6) + i
        f(x)
        yield x
