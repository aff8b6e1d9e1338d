"""Arguments that are no tensors and no numbers: sizes, slices, ranges, devices, objects with an `==` of their own."""

from __future__ import annotations

import dataclasses

import eagerjit as torch
from tests.soundness.framework import case


def ramp(*sizes):
    n = torch.Size(sizes).numel()
    return (torch.arange(float(n)) / n - 0.3).reshape(*sizes)


@case
def records_with_further_attributes_whose_fields_are_tensors(jit):
    @dataclasses.dataclass
    class Output:
        loss: torch.Tensor
        hidden: tuple = ()

        def __post_init__(self):
            self.count = len(self.hidden)

    f = jit(lambda x, out: Output(out.loss * x, (*out.hidden, x)))
    out = Output(ramp(2))
    for _ in range(3):
        out = f(ramp(2), out)
        yield out.loss, out.count


@case
def nothing_asks_objects_whether_they_are_equal(jit):
    asked = []

    class Config:
        def __init__(self, rate):
            self.rate = rate

        def __eq__(self, other):
            asked.append("eq")
            return self.rate == other.rate

        def __hash__(self):
            asked.append("hash")
            return 3

    f = jit(lambda x, config: x * config.rate)
    first, second = Config(2), Config(2)
    for config in (first, second, first, Config(2.0), second):
        f(ramp(3), config)
    second.rate = 7
    f(ramp(3), second)
    yield asked


@case
def records_that_cannot_be_hashed_beside_overlapping_tensors(jit):
    @dataclasses.dataclass
    class Config:
        rate: float

    f = jit(lambda x, y, config: (x.mul_(config.rate), y + x)[1])
    config = Config(2.0)
    config.more = 1
    for shift in (0, 1, 1, 2, 3):
        memory = ramp(6)
        f(memory[:3], memory[shift : shift + 3], config)
        yield memory


@case(versions=2)
def sizes_given(jit):
    f = jit(lambda x, sizes: (x.expand(sizes) * 2, sizes[1:], sizes.numel()))
    for n in range(2, 12):
        f(ramp(1, 3), ramp(n, 3).shape)
        f(ramp(1, 3), ramp(4, n, 3).shape[-2:])


@case(versions=6)
def slices_given(jit):
    f = jit(lambda x, part: (x[part] * 2, slice(part.start, x.shape[0]).start))
    for n in range(2, 12):
        f(ramp(20), slice(n, n + 2 + n % 3))
    for part in (slice(None), slice(None, None, 2), slice(-2, None), slice(0, 0)):
        f(ramp(6), part)


@case(versions=3)
def values_given_that_are_made_in_every_call(jit):
    f = jit(lambda x, factor, positions, device: sum(x[i] for i in positions).to(device) * factor)
    for factor in (complex(0.0, 1.0), complex(-0.0, 1.0), complex(0.0, -1.0)):
        for _ in range(3):
            f(ramp(5), complex(factor.real, factor.imag), range(1, 3), torch.device("cpu"))


@case
def errors_caught_that_name_classes_of_numbers(jit):
    said = []

    @jit
    def f(x, count, rate):
        for wrong in (lambda: x.mm(count), lambda: [1, 2][rate], lambda: len(count), lambda: x.softmax(rate)):
            try:
                wrong()
            except TypeError as error:
                said.append(str(error))
        return x * count

    for count in (3, 4):
        f(ramp(2, 2), count, 0.5)
        yield said
