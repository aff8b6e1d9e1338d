"""Kernels that read every step-th element: whole vectors shuffled, gathered ones, and the rest."""

from __future__ import annotations

import pytest

import eagerjit as torch
from eagerjit.compiler.codegen.llvm import emit_kernel
from eagerjit.compiler.loops import Kernel, Let, Load, Loop, Param, Store

STEP = Load("x", "m", (("i", "s"),), "f32")
FOUND = Load("p", "q", (("i", 1),), "i64"), Load("x", "m", (("p", 1),), "f32")
BESIDE = Let("k", "const", (), "i64", 1), Load("x", "m", (("i", 1), ("k", 1)), "f32")


@pytest.mark.parametrize(
    ("loads", "masked"), [((STEP,), False), (FOUND, False), (BESIDE, True)], ids=["step", "index", "beside"]
)
def test_only_adjacent_elements_are_masked(loads, masked):
    """Elsewhere a mask stands for a branch per lane."""
    params = (
        *(Param(n, "memory", d) for n, d in (("m", "f32"), ("q", "i64"), ("o", "f32"))),
        *(Param(n, "size", "i64") for n in "sn"),
    )
    loop = Loop("vector", "i", 0, "n", (*loads, Store("o", (("i", 1),), "x")))
    text = emit_kernel(Kernel("k", params, (Loop("tasks", "t", 0, 0, (loop,)),)), 512)
    assert ("masked.load" in text) == masked and ("masked.store" in text) == masked
    assert text.count("masked.gather") == (not masked)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("step", [2, 3, 4, 5])
def test_every_step_th_element(step, dtype):
    for count in (1, 3, 16, 33, 100):
        x = (torch.arange(count * step + 2) * 5 % 7).to(getattr(torch, dtype))
        for first in (0, 2):
            stop = first + (count - 1) * step + 1  # the last element read may be the memory's last
            seen = x[first:stop:step]
            expected = x.to(torch.float32).numpy()[first:stop:step] * 2
            assert (seen.to(torch.float32) * 2).tolist() == expected.tolist()
        lines = x[: count * step].reshape(count, step)[:, step - 1]
        expected = x.to(torch.float32).numpy()[step - 1 :: step][:count] + 1
        assert (lines.to(torch.float32) + 1).tolist() == expected.tolist()
