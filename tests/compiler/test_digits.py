"""Indices of tasks that count along: those that divisions give, wherever a range begins, in every kind of loop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from kernel_runner import WIDTHS, load, memory, size

from eagerjit.compiler.codegen import transpose
from eagerjit.compiler.codegen.llvm import emit_kernel
from eagerjit.compiler.loops import Kernel, Let, Load, Loop, Stmt, Store

SIZES = [(1, 1, 1), (1, 5, 1), (3, 1, 4), (2, 3, 5), (7, 1, 1), (4, 4, 4)]
DIVISIONS = {
    "b": Let("b", "rem", ("t", "s0"), "i64"),
    "rest": Let("rest", "floordiv", ("t", "s0"), "i64"),
    "c": Let("c", "rem", ("rest", "s1"), "i64"),
    "top": Let("top", "floordiv", ("rest", "s1"), "i64"),
    "d": Let("d", "rem", ("top", "s2"), "i64"),
    "over": Let("over", "floordiv", ("top", "s2"), "i64"),
}


def indices(names: tuple[str, ...]) -> Kernel:
    """out[task, k] = the k-th of the names, of which the loop has no more than it needs."""
    needed = set(names)
    for let in reversed(DIVISIONS.values()):
        if let.name in needed:
            needed.add(let.args[0])
    body: list[Stmt] = [let for let in DIVISIONS.values() if let.name in needed]
    body += [Let(f"k{k}", "const", (), "i64", k) for k in range(len(names))]
    body += [Store("out", (("t", len(names)), (f"k{k}", 1)), name) for k, name in enumerate(names)]
    params = (memory("out", "i64"), size("s0"), size("s1"), size("s2"))
    return Kernel("indices_" + "_".join(names), params, (Loop("tasks", "t", 0, 0, tuple(body)),))


CHOICES = [("b",), ("rest",), ("b", "rest"), ("c",), ("top",), ("b", "c", "top"), ("rest", "c"), ("d",), ("b", "over")]
CHOICES.append(("b", "c", "d", "over", "rest", "top"))


def test_indices_are_those_of_divisions():
    """Whichever of them are asked for, from whichever task on."""
    kernels = [indices(names) for names in CHOICES]
    functions = load(kernels)
    for sizes in SIZES:
        tasks = int(np.prod(sizes)) * 2
        numbers: dict[str, np.ndarray] = {"t": np.arange(tasks)}
        numbers |= {f"s{k}": np.array(n) for k, n in enumerate(sizes)}
        for let in DIVISIONS.values():
            numbers[let.name] = (np.mod if let.op == "rem" else np.floor_divide)(*(numbers[a] for a in let.args))
        ranges = {(0, tasks), (0, 1), (tasks - 1, tasks), (tasks // 3, tasks - 1), (2, 2)}
        for names, (begin, end) in itertools.product(CHOICES, ranges):
            out = np.full((tasks, len(names)), -1)
            expected = out.copy()
            expected[begin:end] = np.stack([numbers[name] for name in names], 1)[begin:end]
            functions["indices_" + "_".join(names)](out, *sizes, begin=begin, end=end)
            assert np.array_equal(out, expected), (names, sizes, begin, end)


def test_only_the_first_task_is_divided():
    """No division inside of the loop."""
    text = emit_kernel(indices(("b", "c", "d")), WIDTHS[-1])
    before, inside = text.split("\ntasks", 1)
    assert before.count("sdiv") == 3
    assert "sdiv" not in inside


def turned() -> Kernel:
    """out[b, c, i] = x[b, i, c]: rows that lie across memory, in blocks of tasks where they fit."""
    body = (
        Let("c", "rem", ("t", "s0"), "i64"),
        Let("b", "floordiv", ("t", "s0"), "i64"),
        Loop(
            "vector", "i", 0, "n",
            (Load("v", "x", (("b", "s1"), ("i", "s0"), ("c", 1)), "f32"), Store("out", (("t", "n"), ("i", 1)), "v")),
        ),
    )  # fmt: skip
    params = (memory("x", "f32"), memory("out", "f32"), size("n"), size("s0"), size("s1"))
    return Kernel("turned", params, (Loop("tasks", "t", 0, 0, body),))


@pytest.mark.parametrize("width", WIDTHS)
def test_blocks_of_tasks_wrap_around(width):
    """A block never reaches over the end of its line of tasks, and goes on behind it."""
    kernel = turned()
    assert transpose.plan(kernel.body[0], {"out"}, width) is not None
    function = load([kernel], width)["turned"]
    for lines, columns, n in ((1, 40, 9), (3, 8, 33), (5, 17, 16), (7, 3, 40), (2, 64, 64)):
        x = np.arange(lines * n * columns, dtype=np.float32).reshape(lines, n, columns)
        expected = x.transpose(0, 2, 1)
        tasks = lines * columns
        for begin, end in ((0, tasks), (1, tasks), (tasks // 2, tasks - 1)):
            out = np.full((lines, columns, n), -1, np.float32)
            function(x, out, n, columns, n * columns, begin=begin, end=end)
            flat, wanted = out.reshape(tasks, n), np.ascontiguousarray(expected).reshape(tasks, n)
            assert np.array_equal(flat[begin:end], wanted[begin:end])
            assert (flat[:begin] == -1).all() and (flat[end:] == -1).all()
