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
from eagerjit.compiler.codegen.triton.along import AlongKernel
from eagerjit.compiler.lower import pieces
from eagerjit.jit import jit

RANDOM = np.random.default_rng(4)
SHAPES = [
    ((31,), 0), ((32,), 0), ((33,), 0), ((64,), 0), ((700,), 0), ((3, 301), 1), ((301, 3), 0), ((2, 150, 5), 1),
    ((40, 40), 0), ((0,), 0), ((0, 4), 0), ((4, 0), 1), ((2, 0, 3), 1), ((1, 1), 1), ((90, 0), 0),
]  # fmt: skip
"""Shapes and the dimension of their lines: none, short ones, and such as are shared."""


def small_pieces(patch: pytest.MonkeyPatch, far: bool) -> None:
    """Pieces of 32 elements, at most 8 of them, in steps of 16."""
    for module in (pieces, lines, along):
        patch.setattr(module, "PIECE", 32)
    for name, size in (("STEP", 16), ("TILE", 32), ("ACROSS", 4), ("MOST", 8), ("FULL", 6)):
        patch.setattr(lines, name, size)
    if far:
        patch.setattr(along, "INT32", 0)


@pytest.fixture(params=[False, True], ids=["near", "far"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    small_pieces(monkeypatch, request.param)
    yield


def launched(call: Any, *given: Any) -> tuple[Any, list[Any]]:
    with gpu_kernels.interpreted() as made:
        compiled = jit(call, fullgraph=True)
        result, again = compiled(*given), compiled(*given)
    assert result.numpy().tobytes() == again.numpy().tobytes()
    return result.numpy(), [launch for m in made for launch in m.launched]


@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_sums_of_shared_lines(small: None, shape: tuple[int, ...], dim: int) -> None:
    for dtype in (np.float64, np.float32, np.int64, np.int32, np.uint8, np.bool_, np.float16):
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
        assert sum("totals" in launch.source.name for launch in launches) == 2 * shared


def test_integers_wrap(small: None) -> None:
    x = RANDOM.integers(-(2**63), 2**63 - 1, (2, 333)) | 1
    assert np.array_equal(launched(lambda x: x.cumsum(1), ej.tensor(x))[0], x.cumsum(1))
    assert np.array_equal(launched(lambda x: x.cumprod(1), ej.tensor(x))[0], x.cumprod(1))
    apart = np.ascontiguousarray(x.T)
    assert np.array_equal(launched(lambda x: x.cumprod(0), ej.tensor(apart))[0], apart.cumprod(0))


def test_brain_floats_and_what_is_no_number(small: None) -> None:
    x = RANDOM.integers(-3, 3, 400).astype(np.float32)
    assert np.array_equal(launched(lambda x: x.bfloat16().cumsum(0).float(), ej.tensor(x))[0], x.cumsum())
    for place, value in ((0, np.inf), (31, np.nan), (32, -np.inf), (399, np.nan)):
        x[place] = value
        expected = x.cumsum()
        assert np.array_equal(launched(lambda x: x.cumsum(0), ej.tensor(x))[0], expected, equal_nan=True)
        x[place] = 0


def test_products_of_floats_are_not_shared(small: None) -> None:
    """The product of a piece overflows here where all of them are 0, or one before has none to multiply with."""
    x = np.full(2000, 1.5)
    x[3] = 0.0
    found, launches = launched(lambda x: x.cumprod(0), ej.tensor(x))
    assert np.array_equal(found, x.cumprod())
    assert {launch.programs for launch in launches} == {1}


def test_one_version_for_all_sizes(small: None) -> None:
    call = jit(lambda x: (x * 2).cumsum(0) + x.flip(1).cumsum(1), fullgraph=True)
    with gpu_kernels.interpreted() as made:
        for shape in ((3, 5), (5, 333), (333, 5), (70, 64), (33, 32), (9, 31)):
            x = RANDOM.integers(-99, 99, shape)
            expected = (x * 2).cumsum(0) + np.flip(x, 1).cumsum(1)
            assert np.array_equal(call(ej.tensor(x)).numpy(), expected)
    assert len(made) == 1


def test_gradients_of_shared_lines(small: None) -> None:
    x = ej.tensor(RANDOM.normal(size=(300, 2)), requires_grad=True)

    def call(x: Any) -> Any:
        return ej.autograd.grad((x.cumsum(0) * x).sum(), x)[0]

    expected = call(x).numpy()
    found, _ = launched(call, x)
    np.testing.assert_allclose(found, expected, 1e-12, 1e-10)


def scan(inner: int, ahead: bool, dtype: str = "f32") -> AlongKernel:
    """The kernel of sums along lines of n elements, or what finds what their pieces come to."""
    memory = [("x0", dtype), ("totals", "f64")] + [("out", dtype)] * (not ahead)
    params = [loops.Param(name, "memory", of) for name, of in memory] + [loops.Param("n", "size", "i64")]
    statement = loops.Along("" if ahead else "out", "x0", "add", "n", inner, dtype, "totals")
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


@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.parametrize("inner", [1, 48])
@pytest.mark.parametrize("ahead", [False, True])
def test_registers_hold_what_a_program_has(ahead: bool, inner: int, architecture: int) -> None:
    for length in (100_000, 2**32):
        for dtype in ("f32", "f64"):
            kernel = scan(inner, ahead, dtype)
            launch = kernel.launch(inner * (length // loops.PIECE if ahead else 1), {"n": length})
            assert gpu_kernels.binary(launch, architecture).spilled == 0
