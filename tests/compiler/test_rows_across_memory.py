"""Rows that lie across memory are reduced several at a time, with the bits of rows that lie along it."""

import numpy as np
import pytest
from kernel_runner import WIDTHS, load, memory, size

import eagerjit as torch
from eagerjit.compiler import loops
from eagerjit.compiler.codegen import across

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool)
REDUCTIONS = {
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "var": lambda x: x.var(-1),
    "prod": lambda x: x.prod(-1),
    "amax": lambda x: x.amax(-1),
    "max": lambda x: x.max(-1),
    "argmin": lambda x: x.argmin(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "norm": lambda x: x.norm(dim=-1),
    "any": lambda x: (x > 1).any(-1),
    "weighted": lambda x: (x * torch.arange(x.shape[-1])).sum(-1),
    "centred": lambda x: (x - x.mean(-1, keepdim=True)).abs().sum(-1),
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
}
OF_INTEGERS = ("sum", "prod", "amax", "max", "argmin", "any")
SIZES = [(1, 40), (5, 16), (31, 37), (33, 100), (64, 15), (300, 33), (70, 83), (8192 + 70, 35)]  # reduced, tasks


def numbers(shape, dtype):
    generator = torch.Generator().manual_seed(5)
    found = torch.randn(shape, generator=generator)
    return ((found * 2).round() if dtype in INTEGERS else found).to(dtype)


def same(found, expected):
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for a, b in pairs:
        assert a.dtype is b.dtype and a.shape == b.shape
        assert a.contiguous().numpy(force=True).tobytes() == b.contiguous().numpy(force=True).tobytes()


CASES = [(name, dtype) for name in REDUCTIONS for dtype in FLOATS]
CASES += [(name, dtype) for name in OF_INTEGERS for dtype in INTEGERS if (name, dtype) != ("argmin", torch.bool)]


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_transposed_matrices(name, dtype):
    function = REDUCTIONS[name]
    for reduced, tasks in SIZES:
        x = numbers((reduced, tasks), dtype)
        same(function(x.t()), function(x.t().contiguous()))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_further_dimensions(name):
    function = REDUCTIONS[name]
    for shape, order in (((3, 70, 33), (0, 2, 1)), ((50, 4, 21), (1, 2, 0)), ((4, 37, 2, 16), (0, 2, 3, 1))):
        x = numbers(shape, torch.float32).permute(order)
        same(function(x), function(x.contiguous()))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_further_dimensions_of_known_sizes(name):
    """Those of weights and of what is made inside: the numbers of tasks are divided by constants."""
    x, function = numbers((50, 4, 21), torch.float32), REDUCTIONS[name]

    def compiled(y):
        w = torch.arange(4200.0).reshape(50, 4, 21).sin() + y
        return function(w.permute(1, 2, 0))

    same(torch.jit(compiled)(torch.ones(())), compiled(torch.ones(())))
    same(function(x.permute(1, 2, 0)), function(x.permute(1, 2, 0).contiguous()))


def test_special_values():
    x = numbers((100, 37), torch.float32)
    x[3, 5], x[90, 5], x[7, 8], x[50, 16], x[51, 16] = float("nan"), float("nan"), float("inf"), -0.0, 0.0
    x[:, 20], x[:, 21] = -0.0, float("-inf")
    for name in ("sum", "amax", "max", "argmin", "logsumexp", "any"):
        same(REDUCTIONS[name](x.t()), REDUCTIONS[name](x.t().contiguous()))


def test_compiled_calls_have_the_same_bits():
    x = numbers((300, 50), torch.float32)

    def function(x):
        return ((x * 2).t() + 1).sum(1), x.t().max(1), x.t().var(1).sqrt()

    compiled = torch.jit(function)
    (total, largest, deviation), (total_, largest_, deviation_) = compiled(x), function(x)
    same((total, *largest, deviation), (total_, *largest_, deviation_))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.reshape(4, 10, 33, 16).permute(0, 2, 3, 1) * 2).sum(-1),
        lambda x: (x.reshape(-1, 10, 33).permute(0, 2, 1) * 2).amax(-1),
        lambda x: (x.reshape(-1, 10, 33).permute(0, 2, 1) * 2).softmax(-1),
        lambda x: x.reshape(-1, 10, 48).permute(0, 2, 1) + 1,
        lambda x: x.reshape(-1, 40)[:, :33].sum(),
    ],
)
def test_tasks_and_elements_are_numbered_over_known_sizes(function):
    x = numbers((40 * 33 * 16,), torch.float32)
    same(torch.jit(function)(x), function(x))


def total_of_rows(index, op="add", extent="s2"):
    """A kernel whose task adds up what `index` says."""
    loop = loops.Loop("vector", "i", 0, extent, (loops.Load("v1", "m0", index, "f32"), loops.Accumulate("a", "v1")), 8)
    body = (loops.Init("a", op, "f32"), loop, loops.Finish("v2", "a", "f32"), loops.Store("m1", (("t", 1),), "v2"))
    return loops.Loop("tasks", "t", 0, 0, body)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("op", ["add", "maximum"])
def test_blocks_of_every_size_have_the_bits_of_single_rows(op, width):
    """A cache line of tasks, several lines, and what is left; in any share of the tasks."""
    params = (memory("m0", "f32"), memory("m1", "f32"), size("s2"), size("s3"))
    across_, along = (
        loops.Kernel(name, params, (total_of_rows(index, op, "s3"),))
        for name, index in (("across", (("t", 1), ("i", "s2"))), ("along", (("t", "s3"), ("i", 1))))
    )
    calls = load([across_, along], width)
    for rows, tasks in ((1, 1), (3, 15), (33, 16), (70, 17), (31, 63), (64, 64), (40, 65), (100, 147)):
        data = np.random.default_rng(rows).standard_normal((rows, tasks)).astype(np.float32)
        expected, found = np.zeros(tasks, np.float32), np.zeros(tasks + 1, np.float32)
        assert calls["along"](np.ascontiguousarray(data.T), expected, tasks, rows, end=tasks) == 0
        for begin, end in ((0, tasks // 2), (tasks // 2, tasks)):
            assert calls["across"](data, found, tasks, rows, begin=begin, end=end) == 0
        assert found[:-1].tobytes() == expected.tobytes() and found[-1] == 0


def test_only_rows_across_memory_run_together():
    assert across.plan(total_of_rows((("t", 1), ("i", "s2"))), set()) == across.Plan((), (64, 16))
    assert across.plan(total_of_rows((("t", "s2"), ("i", 1))), set()) is None
    assert across.plan(total_of_rows((("t", "s2"), ("i", 3))), set()) is None
    assert across.plan(total_of_rows((("i", 1),)), set()) is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64])
@pytest.mark.parametrize("shape", [(7, 5), (64, 33), (130, 300)])
def test_vectors_times_matrices_wherever_these_lie(dtype, shape):
    """Of numbers that BLAS has not: the bits depend on no layout."""
    matrix, vector = (numbers(s, torch.float32).mul(9).round().to(dtype) for s in (shape, shape[1:]))
    full = (matrix.double() @ vector.double()).abs()
    for m in (matrix, matrix.t().contiguous().t()):
        found = m @ vector, vector @ m.t(), vector[None] @ m.t(), m @ vector[:, None]
        same(tuple(f.reshape(-1) for f in found), (matrix @ vector,) * 4)
        assert (found[0].double().abs() - full).abs().max() <= full.max() * 2**-7


def test_sums_of_products_with_what_all_rows_share():
    x, w = numbers((300, 70), torch.float32), numbers((300,), torch.float32)
    same(((x.t() * w).sum(1),), ((x.t().contiguous() * w).sum(1),))
