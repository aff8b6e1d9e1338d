"""Columns whose elements lie beside each other are summed by squares turned in registers: with the bits of rows."""

import itertools

import numpy as np
import pytest
from kernel_runner import NUMPY, WIDTHS, load, memory, size

import eagerjit as torch
from eagerjit.compiler.codegen import columns
from eagerjit.compiler.loops import Kernel, Let, Load, Loop, Store

RANDOM = np.random.default_rng(2)
SIZES = [
    (1, 1),
    (1, 70),
    (70, 1),
    (3, 5),
    (15, 16),
    (16, 15),
    (16, 16),
    (17, 33),
    (31, 32),
    (64, 64),
    (65, 40),
    (63, 129),
]
DTYPES = ("f32", "f64", "i32", "i64", "i8")


def column_sums(dtype, row_step=1, columns_stop="columns"):
    """out[j] += data[row_step * r + j * rows] for all rows."""
    index = (("r", row_step), ("i", "rows"))
    body = (
        Load("x", "data", index, dtype),
        Load("before", "out", (("i", 1),), dtype),
        Let("after", "add", ("before", "x"), dtype),
        Store("out", (("i", 1),), "after"),
    )
    rows = Loop("serial", "r", "first", "last", (Loop("vector", "i", 0, columns_stop, body, 32),))
    params = (memory("data", dtype), memory("out", dtype), size("rows"), size("columns"), size("first"), size("last"))
    return Kernel("k", params, (Loop("tasks", "t", 0, 0, (rows,)),))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_column_and_row_is_added_once(dtype, width):
    call = load([column_sums(dtype)], width)["k"]
    for rows, count in SIZES:
        data = RANDOM.integers(-9, 9, (count, rows)).astype(NUMPY[dtype])
        for first, last in {(0, rows), (0, rows - 1), (min(2, rows), rows), (rows, rows)}:
            out = np.full(count + 1, 5, NUMPY[dtype])  # the last one is nobody's
            assert call(data, out, rows, count, first, last) == 0
            expected = 5 + data[:, first:last].sum(1, dtype=NUMPY[dtype])
            assert (out[:-1] == expected.astype(NUMPY[dtype])).all() and out[-1] == 5, (rows, count)


def test_only_neighbours_in_the_next_row_are_turned():
    def plan_of(kernel, stored=frozenset()):
        (rows,) = kernel.body[0].body
        return columns.plan(rows, set(stored), 512)

    assert [s.name for s in plan_of(column_sums("f32")).across] == ["x"]
    assert plan_of(column_sums("f64")).lanes == 8
    assert not plan_of(column_sums("f32", 2)).across
    assert not plan_of(column_sums("f32"), {"data", "out"}).across


def numbers(shape, dtype):
    found = torch.randn(shape, generator=torch.Generator().manual_seed(5))
    return ((found * 3).round() if not dtype.is_floating_point else found).to(dtype)


def bits(found):
    return found.contiguous().numpy(force=True).tobytes()


FUNCTIONS = {
    "sum": lambda x: x.sum(0),
    "scaled": lambda x: (x * 2 + 1).sum(0),
    "prod": lambda x: x.prod(0),
    "amax": lambda x: x.amax(0),
    "mean": lambda x: x.double().mean(0),
    "var": lambda x: x.double().var(0),
    "any": lambda x: (x > 1).any(0),
    "two": lambda x: x.sum(0) + x.amax(0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.bool]
)
def test_transposed_matrices(name, dtype):
    f = FUNCTIONS[name]
    for reduced, kept in ((1, 5000), (5000, 1), (15, 300), (64, 65), (65, 64), (130, 70), (200, 33)):
        if name == "var" and reduced == 1:
            continue
        x = numbers((kept, reduced), dtype)
        for view in (x.t(), x.flip(0).t(), x[:, 3:].t() if reduced > 5 else x.t(), x[::2].t()):
            assert bits(f(view)) == bits(f(view.contiguous())) == bits(torch.jit(f)(view))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_further_dimensions(order):
    x = numbers((7, 66, 35), torch.float32).permute(order)
    y = x.contiguous()
    for dims in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)):
        for f in (lambda v: v.sum(dims), lambda v: (v * v - 1).amax(dims), lambda v: (v * y).sum(dims)):  # noqa: B023
            assert bits(f(x)) == bits(f(y)) == bits(torch.jit(f)(x))
    assert bits(x + 1) == bits(y + 1) and bits(x * x.flip(0)) == bits(y * y.flip(0))


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
@pytest.mark.parametrize("shape", [(3, 70, 2, 40), (17, 1, 33, 65)])
def test_tasks_may_be_numbered_in_any_order(order, shape):
    for dtype in (torch.float32, torch.float64, torch.int8, torch.complex64):
        x = (torch.arange(np.prod(shape)) % 97).to(dtype).reshape(shape)
        expected = np.ascontiguousarray(x.numpy().transpose(order))
        assert np.array_equal((x.permute(order) * 2).numpy(), expected * 2)
        assert np.array_equal(
            torch.jit(lambda v: v.permute(order) + v.permute(order).flip(0))(x).numpy(), expected + expected[::-1]
        )


def test_rows_of_steps_of_several_lengths_are_copied_first():
    x = numbers((30, 40, 50), torch.float32)
    for order, kernels in (((2, 1, 0), 2), ((2, 0, 1), 1)):
        compiled = torch.jit(lambda x, order=order: x.permute(order).sum((1, 2)))
        assert len(compiled.explain(x).kernels) == kernels
        assert bits(compiled(x)) == bits(x.permute(order).contiguous().sum((1, 2)))


def test_nothing_is_copied_for_sums_of_columns_that_are_turned():
    x = numbers((500, 300), torch.float32)
    assert len(torch.jit(lambda x: x.t().sum(0)).explain(x).kernels) == 2
    assert len(torch.jit(lambda x: (x.t() * 2).sum(0)).explain(x).kernels) == 2
