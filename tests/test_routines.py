"""Orders and scans by routines of the runtime: NumPy's results, in every call of theirs."""

from __future__ import annotations

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.compiler.ops import routines
from eagerjit.runtime import dtypes

SHAPES = [(1,), (8,), (9,), (24,), (96,), (97,), (300,), (9000,), (17, 3), (2, 30, 3), (1, 9), (9, 1), (0, 4), (4, 0)]
TILES = [(19, 37), (3, 20, 12), (2, 5, 130)]
"""Lines of scans apart and side by side, in whole tiles and what is left of them."""
DTYPES = [d.name for d in dtypes.ALL]


def values(shape, dtype, seed=0):
    """Numbers of a dtype with ties among them, and for floats with every kind of zero and NaN."""
    rng = np.random.default_rng(seed)
    kind = dtypes.BY_NAME[dtype].numpy
    drawn = rng.standard_normal(shape) * 15
    if dtypes.BY_NAME[dtype].is_floating_point and drawn.size:
        drawn.flat[::3] = np.round(drawn.flat[::3] / 8)
        drawn.flat[::7] *= -0.0
        drawn.flat[4::11], drawn.flat[5::13], drawn.flat[6::17] = np.nan, np.inf, -np.inf
    return np.abs(drawn).astype(kind) if dtype == "uint8" else drawn.astype(kind)


def same(found, expected):
    a, b = found.numpy(), np.asarray(expected)
    assert a.dtype == b.dtype and a.shape == b.shape
    number = a == a  # the sign of a NaN depends on the processor's instruction
    assert (number == (b == b)).all() and a[number].tobytes() == b[number].tobytes()


CASES = [(shape, "float32") for shape in SHAPES] + [(s, d) for d in DTYPES for s in ((6,), (24,), (900,), (2, 30, 3))]


@pytest.mark.parametrize(("shape", "dtype"), CASES, ids=str)
def test_orders(shape, dtype):
    array = values(shape, dtype)
    x = torch.from_numpy(array)
    for dim in range(len(shape)):
        for descending in (False, True):
            order = routines.order.reference(array, dim, shape[dim], descending)
            found = x.sort(dim, descending)
            same(found.indices, order)
            same(found.values, np.take_along_axis(array, order, dim))
            if dtype == "bool":
                with pytest.raises(RuntimeError, match="topk does not support bool"):
                    x.topk(2, dim)
                continue
            for k in {2, shape[dim]} - set(range(shape[dim] + 1, 9)):
                places = routines.order.reference(array, dim, k, descending)
                found = x.topk(k, dim, largest=descending)
                same(found.indices, places)
                same(found.values, np.take_along_axis(array, places, dim))


LONG = 50, 1000, 9000, 70_001
"""Elements that are compared with each other, whose words are sorted at once, and such that are parted first."""
WIDE = {
    "different in the first bits": lambda rng, n: rng.random(n),
    "different in the last bits": lambda rng, n: 1 + rng.integers(0, 1000, n) * 2.0**-50,
    "in heaps": lambda rng, n: np.where(rng.random(n) < 0.5, 1e300, 1) * (1 + rng.integers(0, 9, n) * 2.0**-50),
    "a few close ones": lambda rng, n: np.concatenate((rng.random(n - 9), 0.5 + np.arange(9, 0, -1) * 2.0**-53)),
    "close ones and one far away": lambda rng, n: np.append(1 - np.arange(n - 1) * 2.0**-53, 1e200),
    "integers": lambda rng, n: rng.integers(-(2**62), 2**62, n),
    "uniform": lambda rng, n: rng.random(n).astype(np.float32),
    "few different ones": lambda rng, n: rng.integers(0, 3, n) << 20,
    "32 bits": lambda rng, n: rng.integers(-(2**31), 2**31, n).astype(np.int32),
}


@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("n", LONG)
def test_orders_of_wide_keys(kind, n):
    array = WIDE[kind](np.random.default_rng(0), n)
    for descending in (False, True):
        order = routines.order.reference(array, 0, n, descending)
        same(torch.from_numpy(array).sort(0, descending).indices, order)

@pytest.mark.parametrize("k", [64, 65, 100, 180, 500])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_some_of_many(k, dtype):
    """Found in one pass, or where that takes too long, by sorting all: as of numbers that fall."""
    for array in (values((70_001,), dtype), np.arange(70_001, 0, -1).astype(dtype), np.arange(70_001).astype(dtype)):
        for descending in (False, True):
            order = routines.order.reference(array, 0, k, descending)
            same(torch.from_numpy(array).topk(k, largest=descending).indices, order)


SCANS = [*CASES, *((shape, dtype) for shape in TILES for dtype in DTYPES)]


@pytest.mark.parametrize(("shape", "dtype"), [c for c in SCANS if c[1] in ("float32", "float64", "int64")], ids=str)
def test_scans(shape, dtype):
    array = values(shape, dtype)
    x = torch.from_numpy(array)
    with np.errstate(all="ignore"):
        for dim in range(len(shape)):
            same(x.cumsum(dim), routines.scan.reference(array, dim, "add"))
            same(x.cumprod(dim), routines.scan.reference(array, dim, "mul"))
            same(x.cumsum(dim - len(shape)), routines.scan.reference(array, dim, "add"))


@pytest.mark.parametrize("shape", [(65_535,), (65_536,), (70_001, 3), (7, 70_001), (8, 65_536)], ids=str)
def test_threads_share_long_lines_of_integers(shape):
    array = np.random.default_rng(0).integers(-(2**62), 2**62, shape) | 1
    x = torch.from_numpy(array)
    for dim in range(len(shape)):
        same(x.cumsum(dim), routines.scan.reference(array, dim, "add"))
        same(x.cumprod(dim), routines.scan.reference(array, dim, "mul"))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float16", "bfloat16"])
def test_scans_of_other_dtypes_convert(dtype):
    array = values((6, 11), dtype)
    x = torch.from_numpy(array)
    wide = x.double() if x.is_floating_point() else x.long()
    result = x.dtype if x.is_floating_point() else torch.int64
    same(x.cumsum(1), wide.cumsum(1).to(result).numpy())
    same(x.cumprod(0, dtype=torch.float64), x.double().cumprod(0).numpy())
    same(x.cumsum(0, dtype=torch.int32), x.to(torch.int32).long().cumsum(0).to(torch.int32).numpy())


def test_memory_that_is_not_contiguous():
    array = values((12, 10), "float32")
    for view in (array.T, array[::2, 1:8], array[:, ::3]):
        x = torch.from_numpy(array)
        x = x.T if view.shape == (10, 12) else x[::2, 1:8] if view.shape[0] == 6 else x[:, ::3]
        same(x.sort(0).values, np.take_along_axis(view, routines.order.reference(view, 0, view.shape[0], False), 0))
        with np.errstate(all="ignore"):
            same(x.cumsum(1), routines.scan.reference(np.ascontiguousarray(view), 1, "add"))


def test_many_threads_give_the_same():
    array = values((700, 600), "float32")
    x = torch.from_numpy(array)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            results.append([x.sort(1).indices, x.sort(0).values, x.topk(5, 0).indices, x.cumsum(1), x.cumsum(0)])
    finally:
        torch.set_num_threads(before)
    for a, b in zip(*results, strict=True):
        same(a, b.numpy())


def test_compiled_calls_hold_them_for_all_sizes():
    @torch.jit(fullgraph=True)
    def ranked(x):
        values, places = (x * 2).sort(1, True)
        return values.cumsum(1) + 1, places, x.topk(2, 0).values.sum()

    for shape in ((3, 5), (4, 40), (30, 7)):
        x = torch.from_numpy(values(shape, "float64")).nan_to_num(0.0, 0.0, 0.0)
        values_, places = (x * 2).sort(1, True)
        expected = values_.cumsum(1) + 1, places, x.topk(2, 0).values.sum()
        for a, b in zip(ranked(x), expected, strict=True):
            same(a, b.numpy())
    report = str(ranked.explain(x))
    assert "order" in report and "scan" in report


def test_gradients_and_transforms():
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((4, 6)))

    def f(x):
        return (x.sort(1).values.cumsum(1) * x.topk(6, 1).values * x.cumprod(0)).sum()

    torch.autograd.gradcheck(f, (x.clone().requires_grad_(),))
    torch.autograd.gradgradcheck(f, (x.clone().requires_grad_(),))
    rows = torch.func.vmap(lambda row: (row.sort().values, row.argsort(), row.cumsum(0), row.topk(2).indices))(x)
    expected = x.sort(1).values, x.argsort(1), x.cumsum(1), x.topk(2, 1).indices
    for a, b in zip(rows, expected, strict=True):
        same(a, b.numpy())
    tangent = torch.func.jvp(lambda x: x.cumsum(0), (x,), (x * 2,))[1]
    same(tangent, (x * 2).cumsum(0).numpy())


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_sums_of_many_short_lines(dtype):
    """Lines of few elements follow each other, also where threads share them and where a line begins with -0.0."""
    for n in (2, 3, 8, 15, 16, 17):
        for lines in (1, 7, 8, 9, 30_000):
            array = (np.random.default_rng(n).standard_normal((lines, n)) * 99).astype(dtype)
            array[::3, :2] = -0.0
            array[-1:, -1] = 2**62 if dtype is np.int64 else np.inf
            x = torch.from_numpy(array)
            same(x.cumsum(1), routines.scan.reference(array, 1, "add"))
            same(x.cumprod(1), routines.scan.reference(array, 1, "mul"))
            same(x.reshape(lines, n, 1).cumsum(1), routines.scan.reference(array.reshape(lines, n, 1), 1, "add"))
