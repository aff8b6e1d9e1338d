"""Functions of the bits of numbers, divisors and incomplete gamma functions: PyTorch's results, in jitted calls too."""

from __future__ import annotations

import numpy as np
import pytest
import torch as reference

import eagerjit as torch

FLOATS = ("float64", "float32", "float16", "bfloat16")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
AWKWARD = [0.0, -0.0, 1.5, np.inf, -np.inf, np.nan, 1e-45, -3e-40, 5e-324, 6e-8, 1.0, -1.0, 3e38, 65504.0]


def floats(dtype):
    """The same numbers for both libraries."""
    drawn = np.concatenate([AWKWARD, np.random.default_rng(0).standard_normal(30)])
    given = reference.tensor(drawn).to(getattr(reference, dtype))
    return given, torch.tensor(given.double().numpy()).to(getattr(torch, dtype))


def same(found, expected):
    a, b = found.double().numpy(), expected.double().numpy()
    assert str(found.dtype).split(".")[-1] == str(expected.dtype).split(".")[-1]
    assert np.array_equal(a, b, equal_nan=True)
    numbers = a == a
    assert np.array_equal(np.signbit(a)[numbers], np.signbit(b)[numbers])


@pytest.mark.parametrize("dtype", FLOATS)
def test_mantissas_and_exponents(dtype):
    given, x = floats(dtype)
    for found, expected in zip(torch.frexp(x), reference.frexp(given), strict=True):
        same(found, expected)
    for found, expected in zip(torch.jit(torch.frexp)(x), torch.frexp(x), strict=True):
        assert found.numpy().tobytes() == expected.numpy().tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
def test_neighbours(dtype):
    given, x = floats(dtype)
    same(torch.nextafter(x[:, None], x), reference.nextafter(given[:, None], given))
    found = torch.jit(lambda x: torch.nextafter(x[:, None], x))(x)
    assert found.double().numpy().tobytes() == torch.nextafter(x[:, None], x).double().numpy().tobytes()


def whole(dtype):
    info = np.iinfo(dtype)
    rng = np.random.default_rng(1)
    x = rng.integers(info.min // 2, info.max // 2, 200, dtype=dtype)
    y = rng.integers(max(info.min, -100), 100, 200).astype(dtype)
    x[:3], y[1:5] = 0, 0
    y[10:20] = np.arange(10) * 8
    return x, y


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["gcd", "lcm", "bitwise_left_shift", "bitwise_right_shift"])
def test_integers(name, dtype):
    x, y = whole(dtype)
    if name == "lcm" and np.dtype(dtype).itemsize < 4:
        x, y = x % 8, y % 8  # PyTorch computes these in 32 bits
    found = getattr(torch, name)(torch.tensor(x), torch.tensor(y))
    expected = getattr(reference, name)(reference.tensor(x), reference.tensor(y))
    assert found.numpy().tobytes() == expected.numpy().tobytes()
    jitted = torch.jit(lambda x, y: getattr(torch, name)(x, y))(torch.tensor(x), torch.tensor(y))
    assert jitted.numpy().tobytes() == found.numpy().tobytes()
    written = torch.tensor(x)
    getattr(written, f"{name}_")(torch.tensor(y))
    assert written.numpy().tobytes() == found.numpy().tobytes()


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma_functions(name):
    ends = [0.0, 2.0, -1.0, np.inf, np.nan]
    a, x = (v.ravel() for v in np.meshgrid(ends, ends))
    found = getattr(torch, name)(torch.tensor(a), torch.tensor(x)).numpy()
    expected = getattr(reference, name)(reference.tensor(a), reference.tensor(x)).numpy()
    assert np.allclose(found, expected, rtol=1e-14, equal_nan=True)
    rng = np.random.default_rng(2)
    for largest, limit in ((5.0, 1e-14), (1000.0, 2e-9), (1e5, 1e-9)):  # PyTorch's own error is of this size
        a = rng.uniform(0, largest, 300)
        x = a * rng.uniform(0.5, 1.5, 300)
        found = getattr(torch, name)(torch.tensor(a), torch.tensor(x))
        expected = getattr(reference, name)(reference.tensor(a), reference.tensor(x)).numpy()
        assert np.allclose(found.numpy(), expected, rtol=0, atol=limit)
        jitted = torch.jit(lambda a, x: getattr(torch, name)(a, x))(torch.tensor(a), torch.tensor(x))
        assert jitted.numpy().tobytes() == found.numpy().tobytes()


def test_how_many_are_computed_together_changes_nothing():
    rng = np.random.default_rng(3)
    a = rng.uniform(0, 200, 67)
    x = a * rng.uniform(0.2, 2, 67)
    together = torch.igamma(torch.tensor(a), torch.tensor(x)).numpy()
    alone = [torch.igamma(torch.tensor(a[i : i + 1]), torch.tensor(x[i : i + 1])).item() for i in range(67)]
    assert together.tolist() == alone


def test_integers_of_64_bits_are_rounded_once_to_doubles():
    generator = np.random.default_rng(0)
    edges = [0, 1, -1, 2**31, -(2**31), 2**32, 2**53 + 1, -(2**53) - 1, 2**62 + 1, 2**63 - 1, 2**63 - 513, -(2**63)]
    wide = generator.integers(-(2**63), 2**63 - 1, 1000)
    numbers = np.concatenate([edges, wide, wide >> 8, wide >> 31, wide >> 50]).astype(np.int64)
    for count in (len(numbers), 7, 3):
        x = torch.tensor(numbers[:count])
        for found in (x.double(), torch.jit(lambda x: x.double())(x)):
            assert found.numpy().tobytes() == numbers[:count].astype(np.float64).tobytes()
