"""Reductions of rows of few elements, several rows at a time: the bits of any other kernel."""

from __future__ import annotations

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.compiler import loops
from eagerjit.compiler.codegen.llvm import emit_kernel

REDUCTIONS = {
    "sum": lambda x: x.sum(-1),
    "mean of squares": lambda x: (x * x).mean(-1),
    "prod": lambda x: x.prod(-1),
    "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin(-1),
    "argmax": lambda x: x.argmax(-1),
    "argmin": lambda x: x.argmin(-1),
    "any": lambda x: (x > 1.0).any(-1),
    "all": lambda x: (x > 0.0).all(-1),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "product of sines": lambda x: x.sin().prod(-1) + x.sin().amax(-1),
}


OF_INTEGERS = "sum prod amax amin argmax argmin any all".split()


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.uint8, torch.bfloat16])
def test_short_rows(name, dtype) -> None:
    if name not in OF_INTEGERS and not dtype.is_floating_point:
        return
    rng = np.random.default_rng(0)
    function = REDUCTIONS[name]
    compiled = torch.jit(lambda x: function(x))
    for extent in (*range(1, 10), 15, 16, 17, 33):
        for rows in (1, 7, 15, 16, 17, 40):
            values = rng.standard_normal((rows, extent)) * 3
            if dtype.is_floating_point:
                values[::5, ::2], values[3::7, -1] = np.nan, -0.0
            x = torch.from_numpy(values).abs().to(dtype) if dtype is torch.uint8 else torch.from_numpy(values).to(dtype)
            wanted = torch.stack([function(row) for row in x])
            turned, twice = x.t().contiguous().t(), x[None].expand(2, -1, -1)
            for found in (function(x), compiled(x), function(turned), function(twice)[1]):
                same = found.double().nan_to_num(1e9).numpy(), wanted.double().nan_to_num(1e9).numpy()
                assert same[0].tobytes() == same[1].tobytes()


def test_a_position_out_of_rows_that_lie_apart() -> None:
    x = torch.arange(5 * 6 * 4, dtype=torch.float32).reshape(5, 6, 4)
    assert x[:, 1:3, :3].amax(-1).tolist() == x.numpy()[:, 1:3, :3].max(-1).tolist()
    assert x.transpose(0, 1)[..., ::2].sum(-1).tolist() == x.numpy().transpose(1, 0, 2)[..., ::2].sum(-1).tolist()


ELEMENTWISE = {
    "flipped": lambda x, w: x.flip(-1),
    "flipped before": lambda x, w: x.flip(1),
    "weighted": lambda x, w: x * w,
    "shifted": lambda x, w: x + x[:, :1],
    "one of them": lambda x, w: x * x[..., :1],
    "turned": lambda x, w: x.transpose(0, 1) * w,
    "a part": lambda x, w: x[..., 1:] * w[1:],
    "every second": lambda x, w: x[..., ::2] * w[::2],
    "the first of them": lambda x, w: torch.cat([x[:, :1], x[:, 1:] * w], 1),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.uint8, torch.bfloat16, torch.bool])
def test_elementwise_work_on_short_rows(name, dtype) -> None:
    """What rows of few elements give is what they give beside others."""
    rng = np.random.default_rng(1)
    function = ELEMENTWISE[name]
    compiled = torch.jit(lambda x, w: function(x, w))
    for extent in (*range(2, 11), 17):
        x = torch.from_numpy(rng.standard_normal((5, 3, extent)) * 3).to(dtype)
        w = torch.from_numpy(rng.standard_normal(extent) * 3).to(dtype)
        memory, factors = torch.zeros(5, 3, 70).to(dtype), torch.zeros(70).to(dtype)
        if name == "flipped":
            memory[..., -extent:], factors[-extent:] = x, w
        else:
            memory[..., :extent], factors[:extent] = x, w
        wide = function(memory, factors)
        for found in (function(x, w), compiled(x, w), function(x.transpose(0, 2).contiguous().transpose(0, 2), w)):
            same = wide[..., : found.shape[-1]].contiguous()
            assert found.dtype is dtype and found.numpy(force=True).tobytes() == same.numpy(force=True).tobytes()


@pytest.mark.parametrize("jitted", [False, True])
def test_short_rows_are_written_and_nothing_beside_them(jitted) -> None:
    def work(memory, w):
        memory[:, 2:5] = memory[:, 2:5].flip(1) * w
        memory[:, 5:].add_(w)

    for rows in (1, 2, 9):
        memory, w = torch.arange(rows * 9, dtype=torch.float32).reshape(rows, 9), torch.tensor([2.0, 3.0, 4.0])
        expected = memory.numpy().copy()
        expected[:, 2:5] = expected[:, 2:5][:, ::-1] * w.numpy()
        expected[:, 5:8] += w.numpy()
        (torch.jit(work) if jitted else work)(memory[:, :8], w)
        assert memory.tolist() == expected.tolist()


def test_rows_of_few_elements_have_narrow_vectors() -> None:
    load, store = loops.Load("v", "a", (("t", "s"), ("i", -1)), "f32"), loops.Store("b", (("t", "s"), ("i", 1)), "v")
    tasks = loops.Loop("tasks", "t", 0, 0, (loops.Loop("vector", "i", 0, "s", (load, store)),))
    memory = (loops.Param("a", "memory", "f32"), loops.Param("b", "memory", "f32"), loops.Param("s", "size", "i64"))
    text = emit_kernel(loops.Kernel("k", memory, (tasks,)), 512)
    assert "@llvm.masked.store.v4f32.p0" in text and "@llvm.masked.store.v8f32.p0" in text


@pytest.mark.parametrize("dtype", ["float64", "int64", "float32"])
@pytest.mark.parametrize("rows", [33, 41, 48, 63, 79, 95, 127])
def test_what_is_left_of_several_lines_that_are_transposed(rows, dtype):
    """Columns a power of two apart: blocks of several lines are read, and more elements may be left than lanes."""
    a = np.arange(rows * 256).reshape(rows, 256).astype(dtype)
    assert np.array_equal(torch.tensor(a).t().contiguous().numpy(), a.T)
