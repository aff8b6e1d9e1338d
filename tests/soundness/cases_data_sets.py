"""Data sets and samplers of the library that a function takes samples of."""

from __future__ import annotations

import eagerjit as torch
from eagerjit.utils import data
from tests.soundness.framework import case


@case(versions=2)
def other_tensors_in_a_set(jit):
    samples = data.TensorDataset(torch.arange(10.0).reshape(5, 2), torch.arange(5))
    f = jit(lambda i: samples[i][0] * 2 + len(samples))
    for i in range(3):
        yield f(i)
    samples.tensors = (torch.ones(6, 2), torch.arange(6))
    yield f(1)


@case(versions=5)
def parts_of_sets_replaced(jit):
    first, second = (data.TensorDataset(torch.arange(10.0).reshape(5, 2) + i) for i in (0, 1))
    part, joined = data.Subset(first, [3, 1, 2]), data.ConcatDataset([first, second])
    f = jit(lambda x: (part[1][0] * x, joined[6][0] * x))
    yield f(torch.ones(2))
    part.indices[1] = 0
    yield f(torch.ones(2))
    part.indices = [4, 4, 4]
    yield f(torch.ones(2))
    part.dataset = second
    yield f(torch.ones(2))
    joined.datasets[1] = data.TensorDataset(torch.zeros(5, 2))
    yield f(torch.ones(2))


@case(versions=1)
def samples_drawn_at_random(jit):
    sampler = data.RandomSampler(range(5))

    @jit
    def f(x):
        again = data.RandomSampler(x, replacement=True, num_samples=3)
        weighted = data.WeightedRandomSampler([0.1, 0.9, 0.5], 4)
        return x[list(sampler)], x[list(again)], x[list(weighted)]

    for _ in range(4):
        yield f(torch.arange(5.0)), torch.rand(1)


@case
def attributes_of_samplers_replaced(jit):
    in_order, drawn = data.SequentialSampler(range(3)), data.RandomSampler(range(3))
    weighted, some = data.WeightedRandomSampler([0.1, 0.9, 0.5], 4), data.SubsetRandomSampler([1, 3])
    parts, batches = data.DistributedSampler(range(6), 2, 0), data.BatchSampler(in_order, 2, False)
    samplers = (in_order, drawn, weighted, some, parts)
    f = jit(lambda x: ([x * i for s in samplers for i in s], [x * i for b in batches for i in b], len(batches)))

    def set_weight():
        weighted.weights[0] = 5.0

    for change in (
        lambda: None,
        lambda: setattr(in_order, "data_source", range(5)),
        lambda: setattr(batches, "batch_size", 3),
        lambda: setattr(batches, "drop_last", True),
        lambda: setattr(batches, "sampler", data.SequentialSampler(range(4))),
        lambda: setattr(drawn, "replacement", True),
        set_weight,
        lambda: setattr(weighted, "num_samples", 2),
        lambda: some.indices.append(2),
        lambda: parts.set_epoch(1),
        lambda: setattr(parts, "shuffle", False),
        lambda: setattr(drawn, "generator", torch.Generator().manual_seed(3)),
    ):
        change()
        for _ in range(2):
            yield f(torch.ones(1)), torch.rand(1)
