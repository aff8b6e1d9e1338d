"""Long lines on a GPU: programs share what goes along them, in pieces whose number sizes alone decide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eagerjit as ej
from eagerjit.compiled import gpu_kernels
from eagerjit.compiler import loops
from eagerjit.compiler.codegen.triton import along, lines
from eagerjit.compiler.codegen.triton import search as searching
from eagerjit.compiler.codegen.triton.along import AlongKernel
from eagerjit.compiler.codegen.triton.search import SearchKernel
from eagerjit.compiler.lower import pieces
from eagerjit.jit import jit
from eagerjit.ops.running import linear_recurrence

RANDOM = np.random.default_rng(4)
SHAPES = [
    ((31,), 0), ((32,), 0), ((33,), 0), ((64,), 0), ((260,), 0), ((3, 101), 1), ((101, 3), 0), ((2, 70, 5), 1),
    ((33, 40), 0), ((0,), 0), ((0, 4), 0), ((4, 0), 1), ((2, 0, 3), 1), ((1, 1), 1), ((90, 0), 0),
]  # fmt: skip
"""Shapes and the dimension of their lines: none, short ones, and such as are shared."""
SUMMED = (np.float32, np.int64, np.float64, np.int32, np.uint8, np.bool_, np.float16)


def small_pieces(patch: pytest.MonkeyPatch, far: bool) -> None:
    """Pieces of 32 elements, at most 8 of them, in steps of 16."""
    for module in (pieces, lines):
        patch.setattr(module, "PIECE", 32)
    for name, size in (("STEP", 16), ("TILE", 32), ("ACROSS", 4), ("MOST", 8), ("FULL", 6)):
        patch.setattr(lines, name, size)
    if far:
        patch.setattr(along, "INT32", 0)
        patch.setattr(searching, "INT32", 0)


@pytest.fixture(params=[False, True], ids=["near", "far"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Small pieces; whether indices have 64 bits."""
    small_pieces(monkeypatch, request.param)
    yield request.param


def launched(call: Any, *given: Any) -> tuple[Any, list[Any]]:
    with gpu_kernels.interpreted() as made:
        result = jit(call, fullgraph=True)(*given)
    return result.numpy(), [launch for m in made for launch in m.launched]


@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_sums_of_shared_lines(small: bool, shape: tuple[int, ...], dim: int) -> None:
    for dtype in SUMMED[:2] if small else SUMMED:  # how wide an index is has nothing to do with the dtype
        x = (RANDOM.normal(size=shape) * 9).astype(dtype)
        found, launches = launched(lambda x: x.cumsum(dim), ej.tensor(x))
        expected = x.astype(np.float64 if x.dtype.kind == "f" else np.int64).cumsum(dim)
        if x.dtype.kind == "f":
            assert found.dtype == dtype
            limit = {2: 2e-3, 4: 1e-7, 8: 1e-14}[x.itemsize]
            np.testing.assert_allclose(found, expected.astype(dtype), limit, limit * 300)
        else:
            assert found.dtype == np.int64 and np.array_equal(found, expected)
        shared = x.size > 0 and shape[dim] >= 32
        assert sum("totals" in launch.source.name for launch in launches) == shared


def test_integers_wrap(small: bool) -> None:
    x = RANDOM.integers(-(2**63), 2**63 - 1, (2, 333)) | 1
    assert np.array_equal(launched(lambda x: x.cumsum(1), ej.tensor(x))[0], x.cumsum(1))
    assert np.array_equal(launched(lambda x: x.cumprod(1), ej.tensor(x))[0], x.cumprod(1))
    apart = np.ascontiguousarray(x.T)
    assert np.array_equal(launched(lambda x: x.cumprod(0), ej.tensor(apart))[0], apart.cumprod(0))


def test_brain_floats_and_what_is_no_number(small: bool) -> None:
    x = RANDOM.integers(-3, 3, 400).astype(np.float32)
    assert np.array_equal(launched(lambda x: x.bfloat16().cumsum(0).float(), ej.tensor(x))[0], x.cumsum())
    for place, value in ((0, np.inf), (31, np.nan), (32, -np.inf), (399, np.nan)):
        x[place] = value
        expected = x.cumsum()
        assert np.array_equal(launched(lambda x: x.cumsum(0), ej.tensor(x))[0], expected, equal_nan=True)
        x[place] = 0


@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_products_of_shared_lines(small: bool, shape: tuple[int, ...], dim: int) -> None:
    for dtype in (np.float64, np.float16):
        x = (RANDOM.normal(size=shape) * 1.5).astype(dtype)
        found, launches = launched(lambda x: x.cumprod(dim), ej.tensor(x))
        assert found.dtype == dtype
        limit = {2: 2e-3, 8: 1e-13}[x.itemsize]
        with np.errstate(all="ignore"):
            expected = x.astype(np.float64).cumprod(dim).astype(dtype)
        np.testing.assert_allclose(found, expected, limit, float(np.finfo(dtype).smallest_subnormal))
        shared = x.size > 0 and shape[dim] >= 32
        assert sum("totals" in launch.source.name for launch in launches) == shared


@pytest.mark.parametrize("special", [1.0, -1.25, 0.0, -0.0, np.inf, np.nan])
def test_products_that_overflow_on_their_way(small: bool, special: float) -> None:
    """What a piece comes to is beyond all floats here, what a line does is not."""
    powers = np.array([50] * 60 + [-50] * 110 + [50] * 60)
    for steps in (np.append(powers, [-1060, 900]), np.append(-powers, [-1060, 900])):
        factors = np.ones(len(steps))
        factors[3], factors[70] = special, -1.0
        with np.errstate(over="ignore"):
            expected = np.ldexp(factors.cumprod(), steps.cumsum())
        found, launches = launched(lambda x: x.cumprod(0), ej.tensor(np.ldexp(factors, steps)))
        assert np.array_equal(found, expected, equal_nan=True)
        assert max(launch.programs for launch in launches) > 4


def test_the_product_of_a_block_may_overflow() -> None:
    """As that of 0 and some hundred numbers behind it."""
    x = np.full(700, 2.0**100, np.float32)
    x[0] = 0.0
    assert np.array_equal(launched(lambda x: x.cumprod(0), ej.tensor(x))[0], np.zeros(700, np.float32))


def test_one_version_for_all_sizes(small: bool) -> None:
    call = jit(lambda x: (x * 2).cumsum(0) + x.flip(1).cumsum(1), fullgraph=True)
    with gpu_kernels.interpreted() as made:
        for shape in ((3, 5), (5, 333), (333, 5), (70, 64), (33, 32), (9, 31)):
            x = RANDOM.integers(-99, 99, shape)
            expected = (x * 2).cumsum(0) + np.flip(x, 1).cumsum(1)
            assert np.array_equal(call(ej.tensor(x)).numpy(), expected)
    assert len(made) == 1


def test_gradients_of_shared_lines(small: bool) -> None:
    x = ej.tensor(RANDOM.normal(size=(300, 2)), requires_grad=True)

    def call(x: Any) -> Any:
        return ej.autograd.grad((x.cumsum(0) * x).sum(), x)[0]

    expected = call(x).numpy()
    found, _ = launched(call, x)
    np.testing.assert_allclose(found, expected, 1e-12, 1e-10)


def scan(inner: int, ahead: bool, dtype: str = "f32", op: str = "add") -> AlongKernel:
    """The kernel of sums along lines of n elements, or what finds what their pieces come to."""
    memory = [("x0", dtype), ("totals", "f64"), ("powers", "i64")] + [("out", dtype)] * (not ahead)
    params = [loops.Param(name, "memory", of) for name, of in memory] + [loops.Param("n", "size", "i64")]
    statement = loops.Along("" if ahead else "out", "x0", op, "n", inner, dtype, "totals", "powers")
    return AlongKernel(loops.Kernel("k0_scan", tuple(params), (statement,)))


@pytest.mark.parametrize(("length", "count", "inner", "expected"), [
    (2**24, 1, 1, 1024), (2**24 + 5, 1, 1, 911), (2**20, 1, 1, 128), (2**30, 1, 1, 1024), (2**20, 8, 1, 1024),
    (8193, 1, 1, 2), (8191, 1, 1, 1), (2**20, 264, 1, 264), (2**20, 64, 64, 256), (2**20, 4, 4, 128),
])  # fmt: skip
def test_few_long_lines_are_many_programs(length: int, count: int, inner: int, expected: int) -> None:
    launch = scan(inner, False).launch(count, {"n": length})
    assert launch.programs == expected
    ahead = scan(inner, True).launch(count * (length // loops.PIECE), {"n": length})
    blocks = -(-count // launch.constants["TASKS"])
    assert ahead.programs == max(expected - blocks, 1 if expected == 1 else blocks)


def search(op: str, inner: int) -> SearchKernel:
    """The kernel of what else goes along lines of n elements."""
    count = 5 if op == "recurrence" else 4 if op == "recurrence ahead" else 3 - op.endswith("ahead")
    dtypes = ["f64"] * count if op.startswith("recurrence") else ["f32" if i == 1 else "i64" for i in range(count)]
    names = [f"m{i}" for i in range(count)]
    memory = [loops.Param(name, "memory", dtype) for name, dtype in zip(names, dtypes, strict=True)]
    statement = loops.Search(op, tuple(names), ("n", inner), "f64" if op.startswith("recurrence") else "f32")
    return SearchKernel(loops.Kernel("k0_search", (*memory, loops.Param("n", "size", "i64")), (statement,)))


@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.parametrize("op", ["running max", "recurrence", "running min ahead", "recurrence ahead"])
def test_registers_hold_pairs(op: str, architecture: int) -> None:
    for inner, length in ((1, 2**24), (48, 100_000), (1, 2**32)):
        launch = search(op, inner).launch(inner * (length // loops.PIECE if "ahead" in op else 1), {"n": length})
        assert launch.programs > 100 or inner > 1
        assert gpu_kernels.binary(launch, architecture).spilled == 0


@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.parametrize("inner", [1, 48])
@pytest.mark.parametrize("ahead", [False, True])
def test_registers_hold_what_a_program_has(ahead: bool, inner: int, architecture: int) -> None:
    for length in (100_000, 2**32):
        for dtype, op in (("f32", "add"), ("f64", "add"), ("f64", "mul")):
            kernel = scan(inner, ahead, dtype, op)
            launch = kernel.launch(inner * (length // loops.PIECE if ahead else 1), {"n": length})
            assert gpu_kernels.binary(launch, architecture).spilled == 0


def extremes(x: Any, dim: int) -> Any:
    return ej.stack([x.cummax(dim)[1], x.cummin(dim)[1]])


@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_extremes_of_shared_lines(small: bool, shape: tuple[int, ...], dim: int) -> None:
    """Of equals the last one counts, and a NaN more than any number."""
    rising = np.sort(RANDOM.integers(-99, 99, shape), dim)
    drawn = np.round(RANDOM.normal(size=shape) * 4)
    missing = drawn.astype(np.float32)
    missing[RANDOM.random(shape) < 0.02] = np.nan
    for x in (rising, drawn > 4, missing):
        found, launches = launched(lambda x: extremes(x, dim), ej.tensor(x))
        assert found.tobytes() == extremes(ej.tensor(x), dim).numpy().tobytes()
        assert any("totals" in launch.source.name for launch in launches) == (x.size > 0 and shape[dim] >= 32)


@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_recurrences_of_shared_lines(small: bool, shape: tuple[int, ...], dim: int) -> None:
    x = ej.tensor(RANDOM.normal(size=shape) * 50)
    expected = x.logcumsumexp(dim).numpy()
    found, _ = launched(lambda x: x.logcumsumexp(dim), x)
    np.testing.assert_allclose(found, expected, 1e-13, 1e-13)


def test_factors_that_overflow_in_a_piece(small: bool) -> None:
    """What they multiply is 0 there, and so it stays."""
    factors, terms = np.full(300, 1e12), np.zeros(300)
    factors[200:], terms[250:] = 0.5, 1.0
    given = ej.tensor(factors), ej.tensor(terms)
    expected = linear_recurrence.call(*given, 0).numpy()
    assert np.isfinite(expected).all() and expected[-1] > 1.9
    assert np.array_equal(launched(lambda a, b: linear_recurrence.call(a, b, 0), *given)[0], expected)


def test_one_version_of_extremes_for_all_sizes(small: bool) -> None:
    call = jit(lambda x: (extremes(x, 0), extremes(x, 1), x.logcumsumexp(0)), fullgraph=True)
    given = [ej.tensor(RANDOM.normal(size=shape)) for shape in ((3, 5), (5, 133), (133, 5), (33, 32), (9, 31))]
    with gpu_kernels.interpreted() as made:
        results = [call(x) for x in given]
    assert len(made) == 1
    for x, (first, second, sums) in zip(given, results, strict=True):
        assert np.array_equal(first.numpy(), extremes(x, 0).numpy())
        assert np.array_equal(second.numpy(), extremes(x, 1).numpy())
        np.testing.assert_allclose(sums.numpy(), x.logcumsumexp(0).numpy(), 1e-13, 1e-13)


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 100, 257])
def test_where_many_flags_hold(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Counts of 8 flags, which from 4 on are scanned in pieces."""
    small_pieces(monkeypatch, False)
    for module in (loops, searching):
        monkeypatch.setattr(module, "FLAGS", 8)
    for module in (pieces, lines, searching):
        monkeypatch.setattr(module, "PIECE", 4)
    monkeypatch.setattr(lines, "STEP", 2)
    x = ej.tensor(RANDOM.integers(-1, 2, count))
    with gpu_kernels.interpreted() as made:
        found, places = jit(lambda x: (x[x > 0], (x > 0).nonzero()))(x)
    assert found._data.tobytes() == x[x > 0]._data.tobytes()
    assert places._data.tobytes() == (x > 0).nonzero()._data.tobytes()
    texts = [launch.source.text for m in made for launch in m.launched]
    assert any("associative_scan(x, 1, add_i64)" in text for text in texts) == (count > 24)
