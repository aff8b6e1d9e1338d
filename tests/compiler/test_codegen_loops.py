"""Loops, memory access and accumulators of compiled kernels: exact order of every accumulation, no stray access."""

from __future__ import annotations

import ctypes
import itertools
import mmap

import numpy as np
import pytest
from kernel_runner import NUMPY, WIDTHS, elementwise, load, memory, one_task, reduction, run, size

from eagerjit.compiler.codegen.transpose import plan
from eagerjit.compiler.codegen.vector_loops import VAST
from eagerjit.compiler.loops import (
    LANES,
    Accumulate,
    Check,
    Finish,
    Init,
    Kernel,
    Let,
    Load,
    Loop,
    Param,
    Store,
)  # fmt: skip

RANDOM = np.random.default_rng(11)
CONTIGUOUS = (("i", 1),)


def numbers(dtype: str, count: int) -> np.ndarray:
    if dtype == "bool":
        return RANDOM.integers(0, 2, count).astype(bool)
    scale = 3 if dtype in ("f16", "u8", "i8") else 1e4
    return np.abs(RANDOM.normal(size=count) * scale).astype(NUMPY[dtype])


def combine(op: str):
    table = {"add": np.add, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
    return table.get(op) or {"and": np.bitwise_and, "or": np.bitwise_or}[op]


def accumulated(op: str, data: np.ndarray, neutral) -> np.ndarray:
    """The documented order: lane l takes elements l, l + LANES, ...; lanes fold as a balanced tree."""
    lanes = np.full(LANES, neutral, data.dtype)
    for start in range(0, len(data), LANES):
        block = data[start : start + LANES]
        lanes[: len(block)] = combine(op)(lanes[: len(block)], block)
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = combine(op)(lanes[:half], lanes[half:])
    return lanes[0]


NEUTRAL = {"add": 0, "mul": 1, "and": -1, "or": 0}


def neutral_of(op: str, dtype: str):
    if op in NEUTRAL:
        return bool(NEUTRAL[op]) if dtype == "bool" else NEUTRAL[op]
    if dtype in ("f16", "bf16", "f32", "f64"):
        return -np.inf if op == "maximum" else np.inf
    info = np.iinfo(NUMPY[dtype])
    return info.min if op == "maximum" else info.max


@pytest.mark.parametrize("lanes", (8, 32, 64))
@pytest.mark.parametrize("dtype", ("f16", "bf16", "f32", "f64", "i32", "i64", "u8"))
def test_accumulators_keep_the_documented_order(dtype, lanes):
    """Bit for bit, for every tail, whatever the loop's width and the machine's."""
    ops = ("add", "mul", "maximum", "minimum")
    kernels = [reduction(op, op, dtype, dtype, lanes=lanes) for op in ops]
    for width in WIDTHS:
        functions = load(kernels, width)
        for n in (*range(0, 70, 3), 64, 1000):
            data, out = numbers(dtype, n), np.zeros(1, NUMPY[dtype])
            for op in ops:
                functions[op](data, out, n)
                with np.errstate(all="ignore"):
                    expected = accumulated(op, data, neutral_of(op, dtype))
                assert out.tobytes() == np.array([expected], NUMPY[dtype]).tobytes(), (op, n)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ("f32", "f64", "i64"))
def test_accumulators_of_vast_loops_keep_the_documented_order(dtype, width):
    """Steps of few lanes add to parts of an accumulator: bit for bit what steps of all lanes add up to."""
    names = ["x", *(f"y{i}" for i in range(2 * (VAST // 2 + 1)))]
    chain = [Let(new, "neg", (old,), dtype) for old, new in itertools.pairwise(names)]
    ops = ("add", "mul", "maximum", "minimum", "argmax")
    results = {op: "i64" if op == "argmax" else dtype for op in ops}
    kernel = one_task(
        "k", (memory("data", dtype), *(memory(f"{op}_", results[op]) for op in ops), size("n")),
        *(Init(op, op, dtype) for op in ops),
        Loop("vector", "i", 0, "n", (
            Load("x", "data", CONTIGUOUS, dtype), *chain, *(Accumulate(op, names[-1]) for op in ops))),
        *(Finish(f"{op}_out", op, results[op]) for op in ops), *(Store(f"{op}_", (), f"{op}_out") for op in ops),
    )  # fmt: skip
    call = load([kernel], width)["k"]
    for n in (*range(1, 70, 3), 64, 1000):
        data, outs = numbers(dtype, n), [np.zeros(1, NUMPY[results[op]]) for op in ops]
        call(data, *outs, n)
        for op, out in zip(ops, outs, strict=True):
            with np.errstate(all="ignore"):
                expected = data.argmax() if op == "argmax" else accumulated(op, data, neutral_of(op, dtype))
            assert out.tobytes() == np.array([expected], out.dtype).tobytes(), (op, n)


@pytest.mark.parametrize("op", ("and", "or"))
def test_accumulators_of_bool(op):
    call = load([reduction("k", op, "bool", "bool")])["k"]
    for n in range(70):
        for data in (np.ones(n, bool), np.zeros(n, bool), numbers("bool", n)):
            out = np.zeros(1, bool)
            call(data, out, n)
            assert out[0] == (all(data) if op == "and" else any(data))


def test_integers_add_up_in_the_accumulators_dtype():
    data, out = np.full(1000, 200, np.uint8), np.zeros(1, np.int64)
    kernel = one_task(
        "k", (memory("data", "u8"), memory("out", "i64"), size("n")), Init("acc", "add", "i64"),
        Loop("vector", "i", 0, "n", (Load("x", "data", CONTIGUOUS, "u8"), Accumulate("acc", "x"))),
        Finish("y", "acc", "i64"), Store("out", (), "y"),
    )  # fmt: skip
    run(kernel, data, out, 1000)
    assert out[0] == 200_000


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ("f32", "f64", "bf16", "i32", "u8", "bool"))
@pytest.mark.parametrize("op", ("argmax", "argmin"))
def test_first_extreme(op, dtype, width):
    """Ties go to the first; NaN counts as the extreme; an empty loop gives -1."""
    call = load([reduction("k", op, dtype, "i64")], width)["k"]
    for n in (*range(1, 70, 4), 500):
        variants = [numbers(dtype, n), np.ones(n, NUMPY[dtype]), (numbers(dtype, n) > 1).astype(NUMPY[dtype])]
        if dtype in ("f32", "f64"):
            variants += [np.full(n, -np.inf, NUMPY[dtype]), np.full(n, np.inf, NUMPY[dtype])]
            spoiled = numbers(dtype, n)
            spoiled[RANDOM.integers(0, n, 2)] = np.nan
            variants.append(spoiled)
        for data in variants:
            out = np.zeros(1, np.int64)
            call(data, out, n)
            assert out[0] == getattr(data, op)()
    call(numbers(dtype, 0), out, 0)
    assert out[0] == -1


def test_a_serial_accumulator_runs_in_order():
    data = RANDOM.normal(size=1000).astype(np.float32)
    out = np.zeros(1, np.float32)
    run(reduction("k", "add", "f32", "f32", kind="serial"), data, out, 1000)
    assert out[0] == np.cumsum(data)[-1]
    where = np.zeros(1, np.int64)
    run(reduction("k", "argmax", "f32", "i64", kind="serial"), data, where, 1000)
    assert where[0] == data.argmax()


def test_an_accumulator_in_a_loop_starts_over_and_spans_inner_loops():
    """Sums of matrices [t, r, c] over r and c: lanes continue from row to row."""
    data = RANDOM.normal(size=(5, 3, 37)).astype(np.float32)
    out = np.zeros(5, np.float32)
    index = (("t", "block"), ("r", "columns"), ("c", 1))
    inner = Loop("vector", "c", 0, "columns", (Load("x", "data", index, "f32"), Accumulate("acc", "x")))
    body = (Init("acc", "add", "f32"), Loop("serial", "r", 0, "rows", (inner,)), Finish("y", "acc", "f32"))
    params = (memory("data", "f32"), memory("out", "f32"), size("block"), size("rows"), size("columns"))
    kernel = Kernel("k", params, (Loop("tasks", "t", 0, 5, (*body, Store("out", (("t", 1),), "y"))),))
    call = load([kernel])["k"]
    call(data, out, 3 * 37, 3, 37, begin=0, end=2)
    call(data, out, 3 * 37, 3, 37, begin=2, end=5)
    for t in range(5):
        lanes = np.zeros(LANES, np.float32)
        for row in data[t]:
            for start in range(0, 37, LANES):
                block = row[start : start + LANES]
                lanes[: len(block)] += block
        while len(lanes) > 1:
            lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
        assert out[t] == lanes[0]


def test_an_accumulator_inside_a_vector_loop_is_one_per_lane():
    data = RANDOM.normal(size=(9, 45)).astype(np.float32)
    total, place = np.zeros(45, np.float32), np.zeros(45, np.int64)
    step = (Load("x", "data", (("r", "columns"), ("c", 1)), "f32"), Accumulate("sum", "x"), Accumulate("best", "x"))
    body = (
        Init("sum", "add", "f32"), Init("best", "argmin", "f32"), Loop("serial", "r", 0, 9, step),
        Finish("y", "sum", "f32"), Finish("z", "best", "i64"),
        Store("total", (("c", 1),), "y"), Store("place", (("c", 1),), "z"),
    )  # fmt: skip
    params = (memory("data", "f32"), memory("total", "f32"), memory("place", "i64"), size("columns"))
    run(one_task("k", params, Loop("vector", "c", 0, "columns", body)), data, total, place, 45)
    assert (total == np.cumsum(data, axis=0)[-1]).all()
    assert (place == data.argmin(axis=0)).all()


def test_accumulation_in_memory_over_serial_rows():
    data, out = RANDOM.normal(size=(6, 77)).astype(np.float32), np.zeros(77, np.float32)
    body = (
        Load("o", "out", (("c", 1),), "f32"), Load("x", "data", (("r", 77), ("c", 1)), "f32"),
        Let("y", "add", ("o", "x"), "f32"), Store("out", (("c", 1),), "y"),
    )  # fmt: skip
    loops = Loop("serial", "r", 0, 6, (Loop("vector", "c", 0, 77, body),))
    run(one_task("k", (memory("data", "f32"), memory("out", "f32")), loops), data, out)
    assert (out == np.cumsum(data, axis=0)[-1]).all()


@pytest.mark.parametrize("extent", (1, 31, 32, 33, 64, 96, 100))
def test_constant_extents(extent):
    data, out = numbers("f32", 200), np.full(200, -1.0, np.float32)
    loop = Loop("vector", "i", 0, extent, (Load("x", "data", CONTIGUOUS, "f32"), Store("out", CONTIGUOUS, "x")))
    run(one_task("k", (memory("data", "f32"), memory("out", "f32")), loop), data, out)
    assert (out[:extent] == data[:extent]).all()
    assert (out[extent:] == -1).all()


@pytest.mark.parametrize("start, stop", [(0, 50), (3, 40), (7, 7), (9, 2)])
def test_bounds_are_names_too(start, stop):
    data, out = numbers("f32", 64), np.full(64, -1.0, np.float32)
    for kind in ("vector", "serial"):
        loop = Loop(kind, "i", "a", "b", (Load("x", "data", CONTIGUOUS, "f32"), Store("out", CONTIGUOUS, "x")))
        out[:] = -1
        params = (memory("data", "f32"), memory("out", "f32"), size("a"), size("b"))
        run(one_task("k", params, loop), data, out, start, stop)
        expected = np.full(64, -1.0)
        expected[start:stop] = data[start:stop]
        assert (out == expected).all()


@pytest.mark.parametrize("dtype", ("bool", "i16", "f32", "f64", "bf16"))
@pytest.mark.parametrize("stride", (-3, -1, 0, 1, 2, 5, "step"))
def test_strided_access(stride, dtype):
    """Constant and run-time strides, loading and storing, for every tail."""
    step = 3 if stride == "step" else stride
    params = (memory("data", dtype), memory("out", dtype), size("n"), size("step"))
    read = Loop("vector", "i", 0, "n", (Load("x", "data", (("i", stride),), dtype), Store("out", CONTIGUOUS, "x")))
    write = Loop("vector", "i", 0, "n", (Load("x", "data", CONTIGUOUS, dtype), Store("out", (("i", stride),), "x")))
    kernels = [one_task("read", params, read)] + ([one_task("write", params, write)] if stride != 0 else [])
    data = numbers(dtype, 400)
    for width in WIDTHS:
        functions = load(kernels, width)
        for n in range(70):
            origin = 0 if step >= 0 else -step * (n - 1) if n else 0
            picked = origin + step * np.arange(n)
            out = np.zeros(400, NUMPY[dtype])
            functions["read"](data[origin:], out, n, step)
            assert (out[:n] == data[picked]).all()
            assert not out[n:].any()
            if stride != 0:
                out[:] = 0
                functions["write"](data, out[origin:], n, step)
                expected = np.zeros_like(out)
                expected[picked] = data[:n]
                assert (out == expected).all()


def test_gather_by_loaded_index_with_a_check():
    """Bad indices stop the kernel before they are used."""
    table, index = numbers("f32", 50), RANDOM.integers(0, 50, 70)
    body = (
        Load("k", "index", CONTIGUOUS, "i64"),
        Let("inside", "lt", ("k", "rows"), "bool"),
        Check("inside", 7),
        Load("x", "table", (("k", "stride"),), "f32"),
        Store("out", CONTIGUOUS, "x"),
    )
    arrays = (memory("index", "i64"), memory("table", "f32"), memory("out", "f32"))
    params = (*arrays, size("rows"), size("stride"), size("n"))
    call = load([one_task("k", params, Loop("vector", "i", 0, "n", body))])["k"]
    out = np.zeros(70, np.float32)
    assert call(index, table, out, 50, 1, 70) == 0
    assert (out == table[index]).all()
    for bad in (0, 33, 69):
        broken = index.copy()
        broken[bad] = 1 << 40
        assert call(broken, table, out, 50, 1, 70) == 7
        assert call(broken, table, out, 50, 1, bad) == 0, "a lane that is off must not be checked"


def test_the_first_failing_check_is_reported():
    body = tuple(
        statement
        for status, limit in ((1, "a"), (2, "b"))
        for statement in (Let(f"ok{status}", "lt", ("i", limit), "bool"), Check(f"ok{status}", status))
    )
    for kind in ("serial", "vector"):
        call = load([one_task("k", (size("a"), size("b")), Loop(kind, "i", 0, 50, body))])["k"]
        assert [call(99, 99), call(10, 99), call(99, 10)] == [0, 1, 2]


def at_page_end(count: int) -> tuple[np.ndarray, mmap.mmap]:
    """f32 elements whose end is followed by memory that must not be touched."""
    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page), page, 0) == 0
    return np.ndarray(count, np.float32, (ctypes.c_char * page).from_address(start), page - 4 * count), area


@pytest.mark.parametrize("width", WIDTHS)
def test_lanes_that_are_off_touch_no_memory(width):
    call = load([elementwise("k", "add", ["f32", "f32"], "f32")], width)["k"]
    strided = Loop("vector", "i", 0, "n", (Load("x", "data", (("i", 3),), "f32"), Store("out", (("i", 3),), "x")))
    spread = load([one_task("k", (memory("data", "f32"), memory("out", "f32"), size("n")), strided)], width)["k"]
    for n in (1, 5, 31, 33, 63):
        (a, keep_a), (b, keep_b) = at_page_end(n), at_page_end(n)
        a[:] = 1
        assert call(a, a, b, n) == 0
        assert (b == 2).all()
        (c, keep_c), (d, keep_d) = at_page_end(3 * n - 2), at_page_end(3 * n - 2)
        c[:] = np.arange(len(c))
        assert spread(c, d, n) == 0
        assert (d[::3] == c[::3]).all()
        assert all(not area.closed for area in (keep_a, keep_b, keep_c, keep_d))


def test_unaligned_memory():
    raw = np.zeros(4 * 100 + 3, np.uint8)
    data = raw[3:].view(np.float32)
    data[:] = np.arange(100)
    out = np.zeros(4 * 100 + 1, np.uint8)[1:].view(np.float32)
    run(elementwise("k", "add", ["f32", "f32"], "f32"), data, data, out, 100)
    assert (out == 2 * np.arange(100)).all()


def test_in_place_and_values_stored_earlier_in_the_kernel_are_seen():
    """x += 1 in place, then a loop that reads one stored element as an invariant."""
    data = np.arange(40, dtype=np.float32)
    first = (
        Load("x", "a", CONTIGUOUS, "f32"), Let("one", "const", (), "f32", 1), Let("y", "add", ("x", "one"), "f32"),
        Store("b", CONTIGUOUS, "y"),
    )  # fmt: skip
    second = (
        Load("z", "b", (), "f32"), Load("w", "a", CONTIGUOUS, "f32"), Let("v", "mul", ("z", "w"), "f32"),
        Store("b", CONTIGUOUS, "v"),
    )  # fmt: skip
    loops = (Loop("vector", "i", 0, 40, first), Loop("vector", "i", 1, 40, second))
    run(one_task("k", (memory("a", "f32"), memory("b", "f32")), *loops), data, data)
    assert (data == np.arange(1, 41)).all()


def test_invariant_loads_in_nested_loops():
    """out[t, r, c] = row[r] * task[t] + x[c], with loads of different depth."""
    row, task, x = (RANDOM.normal(size=n).astype(np.float32) for n in (4, 3, 50))
    out = np.zeros((3, 4, 50), np.float32)
    body = (
        Load("a", "row", (("r", 1),), "f32"), Load("b", "task", (("t", 1),), "f32"), Load("d", "x", (("c", 1),), "f32"),
        Let("p", "mul", ("a", "b"), "f32"), Let("y", "add", ("p", "d"), "f32"),
        Store("out", (("t", 200), ("r", 50), ("c", 1)), "y"),
    )  # fmt: skip
    loops = Loop("tasks", "t", 0, 3, (Loop("serial", "r", 0, 4, (Loop("vector", "c", 0, 50, body),)),))
    params = (memory("row", "f32"), memory("task", "f32"), memory("x", "f32"), memory("out", "f32"))
    for width in WIDTHS:
        out[:] = 0
        assert run(Kernel("k", params, (loops,)), row, task, x, out, end=3, width_bits=width) == 0
        assert (out == row[:, None] * task[:, None, None] + x).all()


def test_scratch_memory():
    """Doubles a row through scratch at a byte offset."""
    data, out = numbers("f32", 40), np.zeros(40, np.float32)
    fill = (Load("x", "data", CONTIGUOUS, "f32"), Let("y", "add", ("x", "x"), "f32"), Store("row", CONTIGUOUS, "y"))
    drain = (Load("z", "row", CONTIGUOUS, "f32"), Store("out", CONTIGUOUS, "z"))
    loops = (Loop("vector", "i", 0, 40, fill), Loop("vector", "i", 0, 40, drain))
    params = (memory("data", "f32"), memory("out", "f32"), Param("row", "scratch", "f32"))
    run(one_task("k", params, *loops), data, out, 64)
    assert (out == data * 2).all()


def test_the_lane_number_is_a_value():
    out = np.zeros(77, np.float32)
    body = (Let("x", "cast", ("i",), "f32"), Store("out", CONTIGUOUS, "x"))
    run(one_task("k", (memory("out", "f32"),), Loop("vector", "i", 0, 77, body)), out)
    assert (out == np.arange(77)).all()


def crossing(dtype: str, batched: bool) -> Kernel:
    """out[b, t, i] = data[b, i, t] + out_row[t] + other[b, t, i], tasks over t or over b and t."""
    task = "r" if batched else "t"
    batch = (("q", "area"),) if batched else ()
    rows = (Let("r", "rem", ("t", "rows"), "i64"), Let("q", "floordiv", ("t", "rows"), "i64")) if batched else ()
    body = (
        Load("x", "data", (*batch, (task, 1), ("i", "rows")), dtype),
        Load("z", "other", (*batch, (task, "columns"), ("i", 1)), dtype),
        Let("u", "add", ("x", "y"), dtype),
        Let("v", "add", ("u", "z"), dtype),
        Store("out", (*batch, (task, "columns"), ("i", 1)), "v"),
    )
    loop = Loop("vector", "i", 0, "columns", body)
    names = ("data", "row", "other", "out")
    params = (*(memory(name, dtype) for name in names), size("rows"), size("columns"), size("area"))
    return Kernel("k", params, (Loop("tasks", "t", 0, 0, (*rows, Load("y", "row", ((task, 1),), dtype), loop)),))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("batched", (False, True))
@pytest.mark.parametrize("dtype", ("f32", "f64", "bf16", "u8", "i64"))
def test_tasks_across_rows(dtype, batched, width):
    """Blocks of tasks are transposed in registers; single tasks and the ends of rows are not."""
    call = load([crossing(dtype, batched)], width)["k"]
    for rows, columns in ((1, 1), (3, 70), (16, 16), (15, 40), (17, 15), (33, 50), (40, 16), (64, 31)):
        batches = 3 if batched else 1
        data = RANDOM.integers(0, 50, (batches, columns, rows)).astype(NUMPY[dtype])
        other = RANDOM.integers(0, 50, (batches, rows, columns)).astype(NUMPY[dtype])
        row = RANDOM.integers(0, 50, rows).astype(NUMPY[dtype])
        expected = (data.transpose(0, 2, 1) + row[:, None]) + other
        for pieces in (1, 3):
            out = np.zeros_like(other)
            ends = [batches * rows * k // pieces for k in range(pieces + 1)]
            for begin, end in itertools.pairwise(ends):
                assert call(data, row, other, out, rows, columns, rows * columns, begin=begin, end=end) == 0
            assert (out == expected).all(), (rows, columns)


def test_what_may_run_in_blocks():
    """A block needs adjacent tasks, a stride across lanes, and memory the kernel does not write."""
    (tasks,) = crossing("f32", True).body
    assert plan(tasks, {"out"}, 512).lanes == 16
    assert plan(tasks, {"out", "data"}, 512) is None
    (tasks,) = crossing("f64", False).body
    assert plan(tasks, set(), 256).lanes == 4
    *rows, loop = tasks.body
    x, *others = loop.body

    def with_index(index) -> Loop:
        changed = Loop("vector", "i", 0, "columns", (Load("x", "data", index, "f64"), *others))
        return Loop("tasks", "t", 0, 0, (*rows, changed))

    assert plan(with_index(x.index), set(), 256) is not None
    assert plan(with_index((("t", 2), ("i", "rows"))), set(), 256) is None
    assert plan(with_index((("t", 1), ("i", 1))), set(), 256) is None
    assert plan(with_index((("t", 1), ("t", 1), ("i", "rows"))), set(), 256) is None
    assert plan(with_index((("t", 1), ("i", "rows"), ("y", 1))), set(), 256) is None
