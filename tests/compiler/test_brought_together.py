"""Reductions of all elements of slices and of permuted tensors: the block's rows are brought together first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kernel_runner import WIDTHS, load, memory, size

import eagerjit as torch
from eagerjit.compiler.codegen.llvm import emit_kernel
from eagerjit.compiler.loops import Kernel, Let, Loop, Store

ROOT = Path(__file__).resolve().parent.parent.parent

SCRIPT = """
import hashlib
import eagerjit as torch

torch.manual_seed(0)
x = torch.randn(40, 36, 130)
views = [
    x[:, :, 1:], x[:, 1:-1, 1:-1], x[:, :, :33], x[:, :, :3], x[:, ::2], x.transpose(0, 1), x[:, :, 5:6],
    x.flip(2)[:, :, 1:], x[:, 0, :100], x[:3, :7, :31], x[:, :, ::2], x[:1].expand(9, 36, 130)[:, :, :129],
    torch.randn(3, 20_000)[:, 1:], x.reshape(2, -1)[:, 5:].double(), x[:, 1:].bfloat16()[:, :, 2:], x[:, 1:] > 0,
]
functions = [
    lambda v: v.sum(), lambda v: (v * 2).amax(), lambda v: v.float().var(), lambda v: (v + 1, (v + 1).sum(), v.sum()),
    lambda v: v.float().argmax(), lambda v: (v > 0).any(), lambda v: v.int().sum() + v.float().mean(),
]
found = hashlib.sha256()
for v in views:
    for f in functions:
        given = [torch.jit(f)(v), f(v), f(v.contiguous().clone())]
        given = [g if type(g) is tuple else (g,) for g in given]
        bits = [[r.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() for r in g] for g in given]
        assert bits[0] == bits[1] == bits[2], (v.shape, v.stride(), functions.index(f))
        found.update(repr(bits[0]).encode())
print(found.hexdigest())
"""


def test_bits_are_those_of_copies_at_every_width() -> None:
    found = set()
    for bits in ("128", "256", "512"):
        environment = {**os.environ, "EAGERJIT_VECTOR_BITS": bits}
        environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), environment.get("PYTHONPATH", "")))
        run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr[-4000:]
        found.add(run.stdout)
    assert len(found) == 1


@pytest.mark.parametrize(
    "view", [lambda x: x[:, :, 1:], lambda x: x[:, 1:-1, 1:-1], lambda x: x.transpose(0, 1), lambda x: x[:, :, :33]]
)
def test_no_lane_is_divided(view) -> None:
    x = torch.randn(40, 36, 130)
    kernel = torch.jit(lambda x: (view(x) * 2).sum()).explain(x).kernels[0]
    assert "scratch f32" in kernel.ir
    assert "rem i " not in kernel.ir
    assert "call void @llvm.prefetch" not in kernel.source  # what is brought together is near


@pytest.mark.parametrize("work", [lambda v: v.t().argmax(), lambda v: (v.t() + 1).argmin()])
def test_what_finds_a_place_among_all_reads_a_copy(work) -> None:
    x = torch.randn(130, 70)
    x[3, 5] = x[9, 2] = 9.0
    x[4, 4] = x[8, 1] = -9.0
    expected = work(x.t().contiguous().t())
    assert torch.equal(torch.jit(work)(x), expected)
    assert torch.equal(work(x), expected)
    kernels = torch.jit(work).explain(x).kernels
    assert len(kernels) == 2
    assert "rem i " not in kernels[1].ir


@pytest.mark.parametrize("shape", [(182, 50), (-1, 7), (5, 7, 260), (-1,)])
@pytest.mark.parametrize("reduce", [lambda y: y.sum(), lambda y: y.sum(-1), lambda y: y.amax(0)])
def test_what_is_reshaped_has_the_bits_of_a_copy(shape, reduce) -> None:
    def work(x):
        return reduce((x.t() + 2).reshape(shape))

    x = torch.randn(130, 70)
    expected = work(x.t().contiguous().t())
    assert torch.equal(torch.jit(work)(x), expected)
    assert torch.equal(work(x), expected)
    first = torch.jit(work).explain(x).kernels[0]
    assert first.name.endswith(("_copy", "_add"))
    assert "rem i " not in first.ir


def of_slices(reduce, count: int):
    """What reduces the sum of so many slices of images."""

    def blurred(x: torch.Tensor) -> torch.Tensor:
        terms = [x[:, :, i : i + 200] * (i + 1.0) for i in range(count)]
        return reduce(sum(terms[1:], terms[0]))

    return blurred


def test_a_gpu_reads_any_number_of_slices(monkeypatch) -> None:
    monkeypatch.setenv("EAGERJIT_TARGET", "cuda:90")
    compiled = torch.jit(of_slices(lambda v: v.flatten(1).mean(-1), 7))
    assert len(compiled.explain(torch.randn(6, 50, 230)).gpu) == 1


@pytest.mark.parametrize("reduce", [lambda v: v.sum(), lambda v: v.flatten(1).mean(-1)])
@pytest.mark.parametrize(("count", "kernels"), [(3, 1), (7, 2)])
def test_what_is_computed_of_many_slices_is_written_first(reduce, count, kernels) -> None:
    blurred, x = of_slices(reduce, count), torch.randn(6, 50, 230)
    compiled = torch.jit(blurred)
    assert compiled(x).equal(blurred(x))
    report = str(compiled.explain(x))
    launches = [line for line in report.splitlines() if line.split()[:1] and line.split()[0].isdigit()]
    assert len([line for line in launches if "finish" not in line]) == kernels
    assert ("whose rows lie apart" in report) == (kernels == 2)


def rows() -> Kernel:
    """out[r - first] = 100 * (r // s1) + 10 * (r // s0 % s1) + r % s0."""
    body = (
        Let("b", "rem", ("r", "s0"), "i64"), Let("rest", "floordiv", ("r", "s0"), "i64"),
        Let("c", "rem", ("rest", "s1"), "i64"), Let("top", "floordiv", ("rest", "s1"), "i64"),
        Let("ten", "const", (), "i64", 10), Let("x", "mul", ("top", "ten"), "i64"), Let("y", "add", ("x", "c"), "i64"),
        Let("z", "mul", ("y", "ten"), "i64"), Let("v", "add", ("z", "b"), "i64"), Store("out", (("r", 1),), "v"),
    )  # fmt: skip
    params = (memory("out", "i64"), size("s0"), size("s1"), size("first"), size("last"))
    return Kernel("rows", params, (Loop("tasks", "t", 0, 0, (Loop("serial", "r", "first", "last", body),)),))


def test_rows_count_their_indices() -> None:
    """In a loop inside of a task too only the first number is divided."""
    before, inside = emit_kernel(rows(), WIDTHS[-1]).split("\nloop", 1)
    assert before.count("sdiv") == 2
    assert "sdiv" not in inside
    (function,) = load([rows()]).values()
    for first, last in ((0, 60), (7, 8), (11, 60), (5, 5)):
        out = np.full(60, -1)
        function(out, 3, 4, first, last, begin=0, end=1)
        r = np.arange(60)
        expected = np.where((r >= first) & (r < last), r // 12 * 100 + r // 3 % 4 * 10 + r % 3, -1)
        assert np.array_equal(out, expected)
