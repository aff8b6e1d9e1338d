"""Matrix products: every dtype, layout and batch against NumPy, the same bits on any number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from eagerjit.runtime import blas, cpu, dtypes, threads

ROOT = Path(__file__).resolve().parents[2]
FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
INTEGERS = [np.int8, np.uint8, np.int16, np.int32, np.int64]
EPSILON = {np.float32: 2.0**-22, np.float64: 2.0**-50, np.float16: 2.0**-10, ml_dtypes.bfloat16: 2.0**-7}
SIZES = [0, 1, 1, 2, 3, 7, 16, 17, 33, 64, 130]


@pytest.fixture(autouse=True)
def same_threads_after() -> Iterator[None]:
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


def check(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> None:
    """Compares with a product in float64, within the rounding errors of sums in another order."""
    c = blas.matmul(a, b)
    if a.dtype.type in INTEGERS:
        assert (c == np.matmul(a, b)).all()
        return
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    expected, scale = wide_a @ wide_b, np.abs(wide_a) @ np.abs(wide_b)
    bound = EPSILON[a.dtype.type] * scale * (1 + a.shape[-1] / 64)
    assert c.shape == expected.shape
    assert (np.abs(c.astype(np.float64) - expected) <= bound).all(), (a.shape, a.strides, b.shape, b.strides)


def matrix(rng: np.random.Generator, batch: tuple[int, ...], rows: int, columns: int, dtype: type) -> np.ndarray:
    """A random matrix in a random layout: contiguous, transposed, strided, cut out, upside down, or repeated."""
    full = (rng.standard_normal((*batch, 2 * rows + 1, 2 * columns + 1)) * 4).astype(dtype)
    match rng.integers(6):
        case 0:
            return np.ascontiguousarray(full[..., :rows, :columns])
        case 1:
            return np.swapaxes(np.ascontiguousarray(np.swapaxes(full[..., :rows, :columns], -1, -2)), -1, -2)
        case 2:
            return full[..., : 2 * rows : 2, : 2 * columns : 2]
        case 3:
            return full[..., :rows, :columns]
        case 4:
            return full[..., rows:0:-1, :columns]
        case _:
            return np.broadcast_to(full[..., :1, :columns], (*batch, rows, columns))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_layouts_and_batches(dtype: type) -> None:
    rng = np.random.default_rng(dtypes.BY_NUMPY[np.dtype(dtype)].code)
    for _ in range(80):
        m, n, k = (int(rng.choice(SIZES)) for _ in range(3))
        batch = [(), (1,), (3,), (2, 3), (0,)][rng.integers(5)]
        a_batch = tuple(1 if rng.random() < 0.3 else extent for extent in batch)
        b_batch = () if rng.random() < 0.3 else tuple(1 if rng.random() < 0.3 else extent for extent in batch)
        check(matrix(rng, a_batch, m, k, dtype), matrix(rng, b_batch, k, n, dtype))


@pytest.mark.parametrize("shape", [(700, 500, 300), (513, 517, 90), (1, 3000, 500), (3000, 1, 500), (2000, 3, 100)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
def test_bits_do_not_depend_on_the_number_of_threads(shape: tuple[int, int, int], dtype: type) -> None:
    m, n, k = shape
    rng = np.random.default_rng(0)
    a = rng.standard_normal((m, k)).astype(dtype)
    b = rng.standard_normal((k, n)).astype(dtype)
    for turned in (b, np.asfortranarray(b)):
        check(a, turned)
        results = []
        for number in (1, 2, 5):
            threads.set_num_threads(number)
            results += [blas.matmul(a, turned).tobytes(), blas.matmul(a[None], turned).tobytes()]
        assert len(set(results)) == 1


@pytest.mark.parametrize("k", [1, 2, 31, 32, 33, 100, 513, 1030])
@pytest.mark.parametrize(("rows", "columns"), [(1, 600), (7, 31), (16, 130), (17, 32), (33, 16), (513, 40), (100, 5)])
def test_pairs_of_short_floats(rows: int, columns: int, k: int) -> None:
    rng = np.random.default_rng(rows * k)
    for _ in range(8):  # layouts
        check(
            matrix(rng, (), rows, k, ml_dtypes.bfloat16),
            matrix(rng, (), k, columns, ml_dtypes.bfloat16),
        )


@pytest.mark.parametrize("k", [64, 1200])
def test_extremes_of_short_floats(k: int) -> None:
    """Infinities and NaNs come to the elements they belong to; the largest sums are infinite, halves round to even."""
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((50, k), (k, 50)))
    a[3, 5], a[4, 6], b[7, 8] = np.inf, np.nan, -np.inf
    a[5, 1:], a[5, 0], b[0], b[0, 9] = 0.0, 3e38, 0.5, 3.0
    with np.errstate(invalid="ignore", over="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
    c = blas.matmul(a, b).astype(np.float64)
    assert (np.isnan(c) == np.isnan(expected)).all()
    infinite = np.isinf(expected)
    infinite[5, 9] = True
    assert (np.isinf(c) == infinite).all()
    assert (np.sign(c[infinite]) == np.sign(expected[infinite])).all()
    ones = np.zeros((40, k), ml_dtypes.bfloat16)
    ones[:, :2] = 1.0
    halves = np.zeros((k, 40), ml_dtypes.bfloat16)
    halves[0], halves[1, ::2], halves[1, 1::2] = 1.0, 2.0**-8, 3 * 2.0**-8
    assert (blas.matmul(ones, halves)[:, 0::2] == 1.0).all()
    assert (blas.matmul(ones, halves)[:, 1::2] == 1.0 + 2.0**-6).all()


def test_batches_on_several_threads() -> None:
    rng = np.random.default_rng(0)
    q = rng.standard_normal((4, 8, 128, 64)).astype(np.float32)
    k = rng.standard_normal((4, 8, 128, 64)).astype(np.float32)
    check(q, np.swapaxes(k, -1, -2))
    check(np.swapaxes(q, 1, 2)[:, :64].transpose(0, 2, 1, 3), np.swapaxes(k, -1, -2)[..., :64])
    check(q.reshape(32, 128, 64), rng.standard_normal((64, 96)).astype(np.float32))


def test_rows_in_batches_by_one_matrix() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((12, 7, 1, 30))
    one = rng.standard_normal((30, 20))
    for batch in (rows, rows[::2], rows[:, ::3], rows[:1], rows[:, :1], rows[::-1], rows.transpose(1, 0, 2, 3)):
        check(batch, one)
        check(batch.reshape(*batch.shape[:2], 5, 6), one[:6])


def test_what_was_in_the_result_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    for m, n, k in [(4, 5, 6), (1, 5, 6), (5, 1, 6), (1, 1, 6), (40, 50, 60), (4, 5, 0), (300, 300, 300)]:
        for dtype in (np.float32, np.float64):
            a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
            c = np.full((m, n), np.nan, dtype)
            code = dtypes.BY_NUMPY[c.dtype].code
            blas.matmul_into(code, a.ctypes.data, b.ctypes.data, c.ctypes.data, (m, n, k), (k, 1, n, 1, n))
            assert np.allclose(c, a @ b, atol=1e-3)


def test_rows_of_the_result_may_lie_apart() -> None:
    rng = np.random.default_rng(0)
    for m, n, k in [(7, 5, 6), (7, 1, 6), (1, 5, 6), (70, 50, 60)]:
        a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        c = np.full((m, n + 3), 5.0)
        blas.matmul_into(
            dtypes.float64.code, a.ctypes.data, b.ctypes.data, c.ctypes.data, (m, n, k), (k, 1, n, 1, n + 3)
        )
        assert np.allclose(c[:, :n], a @ b)
        assert (c[:, n:] == 5).all()


def test_infinities_and_nans_pass_through() -> None:
    a = np.ones((20, 30), np.float32)
    b = np.ones((30, 10), np.float32)
    a[3, 4], b[5, 6] = np.nan, np.inf
    c = blas.matmul(a, b)
    assert np.isnan(c[3]).all() and np.isinf(np.delete(c[:, 6], 3)).all()
    assert np.isfinite(np.delete(np.delete(c, 3, 0), 6, 1)).all()


def test_integers_wrap_and_booleans_are_any_of_both() -> None:
    a = np.full((3, 300), 100, np.int8)
    assert (blas.matmul(a, a.T) == np.int64(300 * 10_000).astype(np.int8)).all()
    x, y = np.array([[True, False]]), np.array([[True, False], [True, True]])
    assert blas.matmul(x, y).tolist() == [[True, False]]
    assert blas.matmul(np.ones((2, 256), bool), np.ones((256, 2), bool)).all()


def test_sizes_beyond_blas_are_errors() -> None:
    one = np.ones(1, np.float32)
    address = one.ctypes.data
    with pytest.raises(OverflowError, match="beyond"):
        blas.matmul_into(dtypes.float32.code, address, address, address, (1, 1, 2**31), (0, 0, 0, 0, 1))
    with pytest.raises(MemoryError):
        blas.matmul_into(dtypes.float16.code, address, address, address, (1, 2**40, 2**30), (0, 0, 0, 0, 2**40))


def test_mismatched_operands_are_errors() -> None:
    with pytest.raises(ValueError, match="cannot multiply"):
        blas.matmul(np.ones((2, 3)), np.ones((4, 2)))
    with pytest.raises(ValueError, match="cannot multiply"):
        blas.matmul(np.ones((2, 3)), np.ones((3, 2), np.float32))


def test_the_report_names_the_kernels_of_this_processor() -> None:
    found = blas.blas()
    assert found is not None
    assert found.core in blas.report() and found.path in blas.report()
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"} <= cpu.features():
        assert found.core == "SkylakeX"


def run(script: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_loading_leaves_the_environment_alone() -> None:
    script = "import os; before = dict(os.environ); from eagerjit.runtime import blas; blas.blas(); "
    assert run(script + "print(dict(os.environ) == before)", OPENBLAS_CORETYPE="Haswell") == "True"


COMPARE = """
import numpy as np
from eagerjit.runtime import blas
rng = np.random.default_rng(0)
for dtype in ("f4", "f8"):
    for m, n, k in ((3, 4, 5), (1, 70, 30), (70, 1, 30), (200, 100, 300)):
        a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
        assert np.allclose(blas.matmul(a, b), a @ b, atol=1e-3)
        assert np.allclose(blas.matmul(b.T, a.T), b.T @ a.T, atol=1e-3)
print(blas.report())
"""


def test_without_blas_a_plain_loop_does_it() -> None:
    assert run(COMPARE, EAGERJIT_BLAS="0") == "no BLAS: plain compiled loops"


def test_the_openblas_inside_numpy_serves_as_well() -> None:
    script = "from eagerjit.runtime import blas; import importlib.util; find = importlib.util.find_spec\n"
    script += "blas.importlib.util.find_spec = lambda name: None if name == 'scipy_openblas32' else find(name)\n"
    report = run(script + COMPARE)
    assert "numpy" in report or report.startswith("no BLAS")


@pytest.mark.parametrize("rows", [2, 3, 5, 8, 9, 20, 33, 130])
def test_tiles_in_registers(rows: int) -> None:
    """Every way that the last rows, the last columns and a long sum are cut; the same bits of any layout."""
    random = np.random.default_rng(rows)
    for columns, k in ((16, 1), (50, 255), (64, 257), (96, 1100), (201, 520)):
        a = random.standard_normal((rows, k)).astype(np.float32)
        b = random.standard_normal((k, columns)).astype(np.float32)
        expected = a.astype(np.float64) @ b
        np.testing.assert_allclose(blas.matmul(a, b), expected, rtol=1e-4, atol=1e-4)
        apart_a, apart_b = np.repeat(a, 2, 1)[:, ::2], np.repeat(b, 2, 1)[:, ::2]
        layouts = [(x, y) for x in (a, np.asfortranarray(a), apart_a) for y in (b, np.asfortranarray(b), apart_b)]
        assert len({blas.matmul(x, y).tobytes() for x, y in layouts}) == 1


@pytest.mark.parametrize("k", [17, 64, 100, 1030])
@pytest.mark.parametrize("columns", [1, 7, 8, 50, 600])
def test_a_row_by_columns_that_are_runs(columns: int, k: int) -> None:
    """The same of a matrix by a column, infinities and NaNs included."""
    random = np.random.default_rng(columns * k)
    row = random.standard_normal((1, k)).astype(np.float32)
    runs = random.standard_normal((columns, k)).astype(np.float32)
    check(row, runs.T)
    check(runs, row.T)
    assert blas.matmul(row, runs.T).tobytes() == blas.matmul(runs, row.T).tobytes()
    runs[0, -1], runs[-1, 0] = np.inf, np.nan
    np.testing.assert_allclose(blas.matmul(row, runs.T), row @ runs.T, rtol=1e-3, atol=1e-4)


def test_more_batches_than_rows_by_one_matrix() -> None:
    """The longer dimension is multiplied as rows: the results lie where they belong, and have the same bits."""
    random = np.random.default_rng(0)
    b = random.standard_normal((40, 24)).astype(np.float32)
    for shape in ((30, 7, 40), (3, 30, 7, 40)):
        x = random.standard_normal(shape).astype(np.float32)
        turned = np.ascontiguousarray(x.swapaxes(-3, -2)).swapaxes(-3, -2)
        check(turned, b)
        assert blas.matmul(turned, b).tobytes() == blas.matmul(x, b).tobytes()
