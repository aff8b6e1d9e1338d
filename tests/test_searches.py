"""Searches by routines of the runtime and what is made of them: references, PyTorch's results, and in jitted calls."""

from __future__ import annotations

import numpy as np
import pytest
import torch as reference

import eagerjit as torch
from eagerjit.calling.dispatch import OPS, Op, emit
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler.ops import searches

KINDS = ("float32", "float64", "int64")


def alone(name, body):
    """A primitive as an op that the table does not keep."""
    op = Op(name, body, differentiable=False)
    del OPS[name]
    return op.call


SEARCH = alone("a_search", lambda a, b, right: emit(searches.search, a, b, right=right))
RUNNING = alone("a_running", lambda x, dim, largest: emit(searches.running, x, dim=dim, largest=largest))
RECURRENCE = alone("a_recurrence", lambda a, b, dim: emit(searches.recurrence, a, b, dim=dim))
POSITIONS = alone("a_positions", lambda flags, count: emit(searches.positions, flags, count=count))


def on_both(call, *arguments):
    """The results of the CPU and of Triton's interpreter."""
    tensors = [torch.tensor(a) for a in arguments if isinstance(a, np.ndarray)]
    rest = arguments[len(tensors) :]
    found = call(*tensors, *rest).numpy()
    with gpu_kernels.interpreted():
        interpreted = torch.jit(lambda *given: call(*given, *rest), fullgraph=True)(*tensors).numpy()
    return found, interpreted


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("n", "m"), [(0, 5), (1, 3), (7, 100), (1000, 2500)])
def test_places(dtype, n, m):
    rng = np.random.default_rng(0)
    ordered, values = np.sort(rng.normal(size=n) * 30).astype(dtype), (rng.normal(size=m) * 30).astype(dtype)
    values[: n // 2] = ordered[: min(n // 2, m)]
    if dtype != "int64":
        values[-1], ordered[n - n // 4 :] = np.nan, np.nan
    rows = np.sort(rng.normal(size=(2, 3, n)), -1).astype(dtype), rng.normal(size=(2, 3, 4)).astype(dtype)
    for right in (False, True):
        for pair in ((ordered, values), rows):
            expected = searches.search.reference(*pair, right)
            for found in on_both(SEARCH, *pair, right):
                assert np.array_equal(found, expected)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(5,), (2500,), (40, 30), (2, 30, 3), (9, 1), (4, 0)], ids=str)
def test_extremes_and_recurrences(dtype, shape):
    rng = np.random.default_rng(1)
    x = np.round(rng.normal(size=shape) * 3).astype(dtype)
    if dtype != "int64":
        x.reshape(-1)[x.size // 2 :: 7] = np.nan
    for dim in range(len(shape)):
        if shape[dim] == 0:
            continue
        for largest in (False, True):
            expected = searches.running.reference(x, dim, largest)
            for found in on_both(RUNNING, x, dim, largest):
                assert np.array_equal(found, expected)
        if dtype == "float64":
            factors = rng.uniform(0, 1, shape)
            expected = searches.recurrence.reference(factors, x, dim)
            found, interpreted = on_both(RECURRENCE, factors, x, dim)
            assert np.array_equal(found, expected, equal_nan=True)
            assert np.allclose(interpreted, expected, rtol=1e-12, equal_nan=True)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("n", [0, 1, 9, 100, 9000])
def test_positions(n, share):
    flags = np.random.default_rng(2).random(n) < share
    expected = np.flatnonzero(flags)
    for found in on_both(POSITIONS, flags, len(expected)):
        assert np.array_equal(found, expected)


COUNTED = {
    "bincount": lambda t, x: t.bincount(x),
    "bincount minlength": lambda t, x: t.bincount(x, minlength=100),
    "bincount weights": lambda t, x: t.bincount(x, x.to(t.float32)),
    "bincount empty": lambda t, x: t.bincount(x[:0]),
    "unique": lambda t, x: t.unique(x, return_inverse=True, return_counts=True),
    "unique alone": lambda t, x: t.unique(x.reshape(10, 100)),
    "unique empty": lambda t, x: t.unique(x[:0], return_counts=True),
    "unique rows": lambda t, x: t.unique(x.reshape(100, 10) // 30, dim=1, return_inverse=True),
    "runs": lambda t, x: t.unique_consecutive(x // 9, return_inverse=True, return_counts=True),
    "runs of rows": lambda t, x: t.unique_consecutive(x.reshape(500, 2) // 30, True, True, dim=0),
    "runs of columns": lambda t, x: t.unique_consecutive(x.reshape(2, 500) // 30, True, True, dim=1),
    "nonzero": lambda t, x: t.nonzero(x - 3),
    "nonzero of three": lambda t, x: t.nonzero(x.reshape(10, 20, 5) - 3),
    "nonzero none": lambda t, x: t.nonzero(x > 100),
    "nonzero empty": lambda t, x: t.nonzero(x[:0]),
    "nonzero number": lambda t, x: (t.nonzero(x[3]), t.nonzero(x[3] * 0)),
    "mask": lambda t, x: x.reshape(10, 100)[x.reshape(10, 100) > 10],
    "mask none": lambda t, x: x[x > 100],
    "mask across": lambda t, x: x.reshape(10, 100).T[x.reshape(10, 100).T > 10],
    "isin": lambda t, x: t.isin(x.reshape(10, 100), x[:7], invert=True),
    "isin mixed": lambda t, x: t.isin(x, t.tensor([1.0, 2.5, float("nan")])),
    "isin nothing": lambda t, x: t.isin(x, t.tensor([], dtype=t.int64)),
    "repeat": lambda t, x: (t.repeat_interleave(x, x % 3), t.repeat_interleave(x % 3)),
    "mode": lambda t, x: (t.mode(x).values, t.mode(x.reshape(10, 100), 0, keepdim=True).values),
    "cummax": lambda t, x: t.cummax((x % 7).to(t.int8), 0),
    "cummin": lambda t, x: t.cummin(x.reshape(10, 100).to(t.bfloat16), 0),
    "cummax bool": lambda t, x: t.cummax(x > 25, 0),
    "bucketize": lambda t, x: t.bucketize(x.to(t.float32), t.tensor([1.0, 3.0, 30.0]), right=True),
    "histc": lambda t, x: (t.histc(x.to(t.float32) / 7, 13), t.histc(x.to(t.float64) / 7, 13, 1, 5)),
    "histogram": lambda t, x: t.histogram(x.to(t.float32) / 7, 13, range=(1.0, 5.0)),
    "histogram weights": lambda t, x: t.histogram(x.to(t.float32) / 7, 13, weight=x.to(t.float32), density=True),
}


@pytest.mark.parametrize("case", COUNTED)
def test_counts_and_sets_are_those_of_pytorch(case):
    f = COUNTED[case]
    x = np.random.default_rng(3).integers(0, 50, 1000)
    expected, found = f(reference, reference.tensor(x)), f(torch, torch.tensor(x))
    compiled = torch.jit(lambda x: f(torch, x))
    again = compiled(torch.tensor(x)), compiled(torch.tensor(x))
    results = [list(r) if isinstance(r, (tuple, list)) else [r] for r in (expected, found, *again)]
    for e, *others in zip(*results, strict=True):
        for other in others:
            assert str(other.dtype).split(".")[1] == str(e.dtype).split(".")[1]
            assert tuple(other.shape) == tuple(e.shape)
            assert np.allclose(other.double().numpy(), e.double().numpy(), rtol=1e-5, equal_nan=True)
        assert others[0].double().numpy().tobytes() == others[1].double().numpy().tobytes()


def test_logarithms_of_running_sums():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(20, 30)).astype(np.float32)
    spoilt = [np.where(rng.random(x.shape) < 0.1, bad, x * 100) for bad in (-np.inf, np.inf, np.nan)]
    for values in (x, x * 500, *spoilt):
        for dim in (0, 1):
            given = reference.tensor(values.astype(np.float32), requires_grad=True)
            ours = torch.tensor(values.astype(np.float32), requires_grad=True)
            expected, found = reference.logcumsumexp(given, dim), torch.logcumsumexp(ours, dim)
            assert np.allclose(found.detach().numpy(), expected.detach().numpy(), 1e-5, 1e-6, equal_nan=True)
            if values is x:
                weights = rng.normal(size=x.shape).astype(np.float32)
                expected.backward(reference.tensor(weights))
                found.backward(torch.tensor(weights))
                assert np.allclose(ours.grad.numpy(), given.grad.numpy(), 1e-3, 1e-4)


def test_draws_are_refused_and_are_of_likely_categories():
    for bad in ([1.0, -1.0], [1.0, float("nan")], [1.0, float("inf")]):
        with pytest.raises(RuntimeError, match="either `inf`, `nan` or element < 0"):
            torch.multinomial(torch.tensor(bad), 1)
    with pytest.raises(RuntimeError, match="sum of probabilities"):
        torch.jit(lambda w: torch.multinomial(w, 2, True))(torch.zeros(3))
    weights = torch.tensor([[0.0, 1.0, 3.0], [2.0, 0.0, 2.0]])
    drawn = torch.multinomial(weights, 4000, True).numpy()
    shares = np.stack([np.bincount(row, minlength=3) / 4000 for row in drawn])
    assert np.allclose(shares, [[0, 0.25, 0.75], [0.5, 0, 0.5]], atol=0.05) and shares[0, 0] == shares[1, 1] == 0
    alone = torch.multinomial(weights, 2).numpy()
    assert sorted(alone[0]) == [1, 2] and sorted(alone[1]) == [0, 2]
