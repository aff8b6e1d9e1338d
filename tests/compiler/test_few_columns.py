"""Sums of few columns over many rows, in registers: the bits of the sums in memory."""

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.compiler.codegen import columns

WIDTHS = (2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 70)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool)
FUNCTIONS = {
    "sum": lambda x: x.sum(0),
    "prod": lambda x: x.prod(0),
    "amax": lambda x: x.amax(0),
    "amin": lambda x: x.amin(0),
    "all": lambda x: (x != 0).all(0),
    "any": lambda x: (x > 2).any(0),
    "var": lambda x: x.var(0),
    "weighted": lambda x: (x * torch.arange(x.shape[0]).unsqueeze(1)).sum(0),
    "several": lambda x: (x.sum(0), (x * x).sum(0), x.amax(0)),
    "softmax": lambda x: x.softmax(0),
}


def numbers(shape, dtype):
    found = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    return ((found * 2).round() if dtype in INTEGERS else found).to(dtype)


def bits(found):
    parts = found if isinstance(found, tuple) else (found,)
    return [part.contiguous().numpy(force=True).tobytes() for part in parts]


def wide(function, x):
    """What the columns give beside others, with which they are too many to be kept in registers."""
    more = torch.cat([x, torch.zeros(x.shape[0], 64, dtype=x.dtype)], 1)
    found = function(more)
    parts = found if isinstance(found, tuple) else (found,)
    return [part[..., : x.shape[1]].contiguous().numpy(force=True).tobytes() for part in parts]


CASES = [(name, dtype) for name in FUNCTIONS for dtype in FLOATS]
CASES += [(name, dtype) for name in ("sum", "prod", "amax", "all", "several") for dtype in INTEGERS]
CASES.remove(("several", torch.bool))


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_bits_of_few_columns(name, dtype):
    for width in WIDTHS:
        for rows in (1, 2, 63, 64, 65, 200):
            x = numbers((rows, width), dtype)
            if name == "var" and rows == 1:
                continue
            assert bits(FUNCTIONS[name](x)) == wide(FUNCTIONS[name], x)


@pytest.mark.parametrize("width", [3, 10])
def test_special_numbers(width):
    x = numbers((300, width), torch.float32)
    x[7, 0], x[9, 1], x[100, 1], x[5, 2] = float("nan"), float("inf"), float("-inf"), -0.0
    zeros = torch.full((100, width), -0.0)
    for name in ("sum", "prod", "amax", "amin"):
        for values in (x, zeros):
            found, expected = FUNCTIONS[name](values), FUNCTIONS[name](torch.cat([values, values.repeat(1, 16)], 1))
            assert np.array_equal(found.numpy(), expected.numpy()[:width], equal_nan=True)
            signs = np.signbit(found.numpy()) == np.signbit(expected.numpy()[:width])
            assert (signs | np.isnan(found.numpy())).all()


@pytest.mark.parametrize("width", [3, 31, 32])
def test_further_dimensions_and_order(width):
    x = numbers((4, 130, 5, width), torch.float32)
    for dims in ((1,), (0, 1), (1, 2), (0, 1, 2), (0, 2)):
        assert bits(x.sum(dims)) == bits(torch.jit(lambda v, dims=dims: v.sum(dims))(x))
        reference = x.double().sum(dims)
        assert torch.allclose(x.sum(dims).double(), reference, atol=1e-4)
        assert bits((x * 2).sum(dims)) == bits(torch.jit(lambda v, dims=dims: (v * 2).sum(dims))(x))


def test_kernels_of_column_sums_have_the_plan():
    kernels = torch.jit(lambda x: x.sum(0)).explain(torch.randn(200, 3)).kernels
    found = []
    for report in kernels:
        stack = list(report.kernel.body)
        while stack:
            statement = stack.pop()
            stack += getattr(statement, "body", ())
            found += [plan] if hasattr(statement, "body") and (plan := columns.plan(statement, set(), 512)) else []
    assert len(found) == 2  # over rows, and over parts of them
