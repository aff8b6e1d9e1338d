"""Elementwise operations against PyTorch: every op, dtype, broadcast and layout."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from oracle import DTYPES, FLOATS, compare, draw

UNARY: dict[str, tuple[float, float]] = {
    "abs": (-3, 3),
    "neg": (-3, 3),
    "sign": (-3, 3),
    "floor": (-3, 3),
    "ceil": (-3, 3),
    "trunc": (-3, 3),
    "round": (-3, 3),
    "sqrt": (0.1, 4),
    "rsqrt": (0.1, 4),
    "reciprocal": (0.2, 4),
    "exp": (-3, 3),
    "exp2": (-3, 3),
    "expm1": (-3, 3),
    "log": (0.1, 4),
    "log2": (0.1, 4),
    "log10": (0.1, 4),
    "log1p": (-0.5, 4),
    "sin": (-3, 3),
    "cos": (-3, 3),
    "tan": (-1, 1),
    "asin": (-0.9, 0.9),
    "acos": (-0.9, 0.9),
    "atan": (-3, 3),
    "sinh": (-3, 3),
    "cosh": (-3, 3),
    "tanh": (-3, 3),
    "sigmoid": (-3, 3),
    "erf": (-3, 3),
    "square": (-3, 3),
    "isnan": (-3, 3),
    "isinf": (-3, 3),
    "isfinite": (-3, 3),
    "logical_not": (-1, 1),
    "bitwise_not": (-3, 3),
    "relu": (-3, 3),
}
ARITHMETIC = ["add", "sub", "mul", "div", "maximum", "minimum"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
LOGICAL = ["logical_and", "logical_or", "logical_xor"]
BITWISE = ["bitwise_and", "bitwise_or", "bitwise_xor"]
POSITIVE = ["floor_divide", "remainder", "fmod", "atan2", "pow"]
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, 1e30, 0.5, 2.5, -2.5], np.float32)

NO_BOOL = {"abs", "neg", "sign", "floor", "ceil", "trunc", "round", "square"}


def supported(name: str, dtype: str) -> bool:
    """Whether PyTorch has it: bool has no absolute value and the like."""
    return not (dtype == "bool" and name in NO_BOOL)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "bool"])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: str) -> None:
    if not supported(name, dtype):
        return
    low, high = UNARY[name]
    if dtype not in FLOATS:
        low = max(low, 1) if low > -0.9 else 0 if low > -2 else low
    compare(lambda t, x: getattr(t, name)(x), draw((3, 4), dtype, low, high, 1), dtypes=[dtype])


@pytest.mark.parametrize("dtype", ["float16", "int32", "int16", "int8", "uint8"])
@pytest.mark.parametrize("name", ["abs", "neg", "exp", "tanh", "floor", "logical_not", "square"])
def test_unary_of_other_dtypes(name: str, dtype: str) -> None:
    compare(lambda t, x: getattr(t, name)(x), draw((5,), dtype, 0, 3, 1), dtypes=[dtype])


@pytest.mark.parametrize("name", [n for n in UNARY if n not in ("logical_not", "bitwise_not")])
def test_unary_special_values(name: str) -> None:
    compare(lambda t, x: getattr(t, name)(x), SPECIAL, grad=False)


@pytest.mark.parametrize("layout", ["transposed", "strided"])
@pytest.mark.parametrize("name", ["exp", "neg", "sqrt", "relu", "floor"])
def test_unary_layouts(name: str, layout: str) -> None:
    compare(lambda t, x: getattr(t, name)(x), draw((3, 4), "float32", 0.1, 2, 1), layouts=[layout])


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3), (1, 1), (2, 3, 4, 5)])
def test_unary_shapes(shape: tuple[int, ...]) -> None:
    compare(lambda t, x: t.exp(x) + x.tanh(), draw(shape, "float32", -2, 2, 1))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("name", [*ARITHMETIC, *COMPARISONS, *LOGICAL, *POSITIVE])
def test_binary(name: str, dtype: str) -> None:
    low = 1 if name in POSITIVE else -3
    a, b = draw((3, 4), dtype, low, 4, 1), draw((3, 4), dtype, 1 if name in (*POSITIVE, "div") else low, 4, 2)
    compare(lambda t, x, y: getattr(t, name)(x, y), a, b, grad=name != "floor_divide")


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64"])
@pytest.mark.parametrize("name", BITWISE)
def test_bitwise(name: str, dtype: str) -> None:
    compare(lambda t, x, y: getattr(t, name)(x, y), draw((7,), dtype, 0, 9, 1), draw((7,), dtype, 0, 9, 2))


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
@pytest.mark.parametrize("dtype", ["int64", "int32", "float32", "float64"])
def test_division_of_negative_numbers(name: str, dtype: str) -> None:
    a = np.array([7, -7, 7, -7, 0, 5, -6], dtype)
    b = np.array([3, 3, -3, -3, 2, -5, 3], dtype)
    compare(lambda t, x, y: getattr(t, name)(x, y), a, b, grad=name != "floor_divide")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_remainders_are_exact(dtype: str) -> None:
    a = np.array([1e8, -1e10, 7.3, 5.0, -5.0, -0.0, 1e30, -3.0, np.inf, 3.0, np.nan], dtype)
    b = np.array([0.3, 0.3, 0.1, np.inf, np.inf, 2.0, 3e-3, 3.0, 2.0, 0.0, 1.0], dtype)
    compare(lambda t, x, y: (t.fmod(x, y), t.signbit(t.fmod(x, y))[:-3]), a, b)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_remainders_of_the_smallest_integer(dtype: str) -> None:
    least, largest = np.iinfo(dtype).min, np.iinfo(dtype).max
    a = np.array([least, least, least, largest, 7, -7], dtype)
    b = np.array([3, -7, least, least, least, least], dtype)
    compare(lambda t, x, y: (t.fmod(x, y), t.remainder(x, y)), a, b)


@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_rounded_division(mode: str | None, dtype: str) -> None:
    a, b = np.array([7, -7, 9, -8], dtype), np.array([2, 2, -4, 3], dtype)
    compare(lambda t, x, y: t.div(x, y, rounding_mode=mode), a, b)


@pytest.mark.parametrize(("first", "second"), list(itertools.product(DTYPES, repeat=2)))
def test_promotion(first: str, second: str) -> None:
    import torch

    import eagerjit as ej

    for shapes in (((2,), (2,)), ((2,), ()), ((), (2,))):
        a, b = (torch.zeros(s, dtype=getattr(torch, d)) for s, d in zip(shapes, (first, second), strict=True))
        x, y = (ej.zeros(s, dtype=getattr(ej, d)) for s, d in zip(shapes, (first, second), strict=True))
        assert ej.result_type(x, y).name == str(torch.result_type(a, b)).removeprefix("torch.")
    assert ej.promote_types(x.dtype, y.dtype).name == str(torch.promote_types(a.dtype, b.dtype)).removeprefix("torch.")


@pytest.mark.parametrize("number", [2, 2.5, True, -1])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "bfloat16", "float32", "float64"])
def test_promotion_with_numbers(dtype: str, number: Any) -> None:
    compare(lambda t, x: (x * number, number + x, x / 2, x > number), draw((4,), dtype, 0, 3, 1), dtypes=[dtype])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("int64", "float32"),
        ("bool", "int32"),
        ("float32", "float64"),
        ("int32", "float16"),
        ("bfloat16", "float16"),
        ("uint8", "int8"),
    ],
)
def test_mixed_operands(first: str, second: str) -> None:
    a, b = draw((3,), first, 0, 3, 1), draw((3,), second, 1, 3, 2)
    compare(lambda t, x, y: (x + y, x * y, x > y, x / y), a, b, dtypes=[first, second])


SHAPES = [
    ((3, 4), (4,)),
    ((3, 1), (1, 4)),
    ((), (2, 3)),
    ((2, 1, 3), (4, 1)),
    ((0, 3), (1, 3)),
    ((1,), (1, 1)),
    ((3,), (4,)),
    ((2, 3), (3, 2)),
]


@pytest.mark.parametrize(("first", "second"), SHAPES)
@pytest.mark.parametrize("name", ["mul", "sub"])
def test_broadcasting(name: str, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    a, b = draw(first, "float32", -2, 2, 1), draw(second, "float32", -2, 2, 2)
    compare(lambda t, x, y: getattr(t, name)(x, y), a, b)


@pytest.mark.parametrize("layouts", list(itertools.product(["contiguous", "transposed", "strided"], repeat=2)))
def test_binary_layouts(layouts: tuple[str, str]) -> None:
    a, b = draw((3, 4), "float32", -2, 2, 1), draw((3, 4), "float32", 1, 2, 2)
    compare(lambda t, x, y: x * y + x / y, a, b, layouts=layouts)


OPERATORS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "pow": lambda x, y: x**y,
    "floordiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: abs(x),
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "reflected add": lambda x, y: 2 + x,
    "reflected sub": lambda x, y: 2 - x,
    "reflected div": lambda x, y: 2 / x,
    "reflected pow": lambda x, y: 2**x,
    "reflected floordiv": lambda x, y: 7 // x,
    "reflected mod": lambda x, y: 7 % x,
    "reflected gt": lambda x, y: 2 > x,
    "number ge": lambda x, y: x >= 1.5,
    "matmul": lambda x, y: x @ y,
    "add none": lambda x, y: x + None,
    "mul str": lambda x, y: x * "a",
    "sub list": lambda x, y: x - object(),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    a, b = draw((4,), "float32", 0.5, 3, 1), draw((4,), "float32", 0.5, 3, 2)
    compare(lambda t, x, y: OPERATORS[name](x, y), a, b, grad="floordiv" not in name and name != "reflected mod")


@pytest.mark.parametrize("name", ["and", "or", "xor", "invert"])
def test_bool_operators(name: str) -> None:
    table: dict[str, Any] = {
        "and": lambda x, y: x & y,
        "or": lambda x, y: x | y,
        "xor": lambda x, y: x ^ y,
        "invert": lambda x, y: ~x,
    }
    compare(lambda t, x, y: table[name](x, y), draw((6,), "bool", 0, 1, 1), draw((6,), "bool", 0, 1, 2))
    compare(lambda t, x, y: table[name](x, y), draw((6,), "int64", 0, 9, 1), draw((6,), "int64", 0, 9, 2))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.7, 4, 0.0, 2.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers(exponent: float, dtype: str) -> None:
    compare(lambda t, x: x**exponent, draw((5,), dtype, 0.2, 3, 1))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1])
def test_integer_powers(exponent: int) -> None:
    compare(lambda t, x: x**exponent, draw((5,), "int64", -3, 3, 1))


MADE_OF_OTHERS = {
    "clamp both": lambda t, x, y: x.clamp(-0.5, 0.5),
    "clamp min": lambda t, x, y: x.clamp(min=0.2),
    "clamp max": lambda t, x, y: t.clamp(x, max=0.2),
    "clamp tensors": lambda t, x, y: t.clamp(x, y - 1, y),
    "clamp nothing": lambda t, x, y: x.clamp(),
    "clamp_min": lambda t, x, y: x.clamp_min(0),
    "where": lambda t, x, y: t.where(x > 0, x, y),
    "where number": lambda t, x, y: t.where(x > 0, x, 0.0),
    "where method": lambda t, x, y: x.where(y > 0, 3),
    "where bad": lambda t, x, y: t.where(x, x, y),
    "lerp": lambda t, x, y: t.lerp(x, y, 0.3),
    "lerp tensor": lambda t, x, y: t.lerp(x, y, y.sigmoid()),
    "addcmul": lambda t, x, y: t.addcmul(x, x, y, value=0.5),
    "addcdiv": lambda t, x, y: t.addcdiv(x, x, y.exp(), value=0.5),
    "masked_fill": lambda t, x, y: x.masked_fill(y > 0, -1.0),
    "masked_fill bad": lambda t, x, y: x.masked_fill(y, -1.0),
    "add alpha": lambda t, x, y: t.add(x, y, alpha=2),
    "sub alpha": lambda t, x, y: x.sub(y, alpha=0.5),
    "isclose": lambda t, x, y: t.isclose(x, x + 1e-9),
    "nan_to_num": lambda t, x, y: t.nan_to_num(x / (y > 0).to(x.dtype), nan=1.0, posinf=9.0, neginf=-9.0),
    "erfc": lambda t, x, y: t.erfc(x),
    "asinh": lambda t, x, y: x.asinh(),
    "acosh": lambda t, x, y: t.acosh(x.abs() + 1.5),
    "atanh": lambda t, x, y: t.atanh(x / 3),
    "frac": lambda t, x, y: x.frac(),
    "degrees": lambda t, x, y: t.rad2deg(x) + t.deg2rad(y),
    "logit": lambda t, x, y: t.logit(x.sigmoid()) + t.logit(x, 0.1),
    "sinc": lambda t, x, y: t.sinc(x.round()) + x.sinc(),
    "xlogy": lambda t, x, y: t.xlogy(x.relu(), y.exp()),
    "fmax": lambda t, x, y: t.fmax(x, y) - t.fmin(x, y * 2),
    "copysign": lambda t, x, y: x.copysign(y),
    "threshold": lambda t, x, y: t.threshold(x, 0.2, 7.0),
    "nansum": lambda t, x, y: t.nansum(x.log(), 1),
    "nanmean": lambda t, x, y: t.nanmean(x.detach().log(), dim=1),
    "var_mean": lambda t, x, y: t.var_mean(x, 1),
    "std_mean": lambda t, x, y: t.std_mean(x, dim=0, keepdim=True),
    "isposinf": lambda t, x, y: (t.isposinf(1 / (x * 0)), t.isneginf(-1 / (x * 0))),
    "diff": lambda t, x, y: t.diff(x, 2),
    "dist": lambda t, x, y: t.dist(x, y),
    "flips": lambda t, x, y: x.ravel()[0] + x.fliplr() + t.flipud(y),
    "isin": lambda t, x, y: t.isin(x.round(), t.tensor([1.0, 2.0])),
    "diag_embed": lambda t, x, y: t.diag_embed(x),
    "function in place": lambda t, x, y: t.relu_(t.exp_(x * 1) - 1),
    "chain": lambda t, x, y: (t.tanh(2 * x + 1) * t.exp(-x * x) + t.log1p(abs(x))) * y,
}


@pytest.mark.parametrize("name", MADE_OF_OTHERS)
def test_made_of_others(name: str) -> None:
    a, b = draw((3, 4), "float32", -2, 2, 1), draw((3, 4), "float32", -2, 2, 2)
    compare(MADE_OF_OTHERS[name], a, b)


@pytest.mark.parametrize(
    ("source", "target"), list(itertools.product(["bool", "uint8", "int32", "float16", "bfloat16", "float64"], DTYPES))
)
def test_conversion(source: str, target: str) -> None:
    compare(lambda t, x: x.to(getattr(t, target)), draw((6,), source, 0, 3, 1), dtypes=[source])


def test_remainders_of_quotients_that_no_float_holds() -> None:
    a = np.array([1e10, 1e38, -1e38, -0.0, 5.0, np.inf, 3.0], np.float32)
    b = np.array([3.0, 1e-10, 7.0, 2.0, np.inf, 2.0, 0.0], np.float32)
    compare(lambda t, x, y: t.fmod(x, y), a, b, grad=False, tolerance=0.0)


def test_the_complement_of_the_error_function_far_out() -> None:
    x = np.array([0.1, 4.0, 9.0, -10.0, 30.0, np.nan])
    for dtype in (np.float32, np.float64):
        compare(lambda t, x: t.erfc(x).log(), x.astype(dtype), grad=False)


@pytest.mark.parametrize("bits", [20, 50, 51, 52, 53, 62])
def test_division_of_large_and_small_integers(bits: int) -> None:
    random = np.random.default_rng(bits)
    a, b = (random.integers(-(2**bits), 2**bits, 77) for _ in range(2))
    few = random.integers(1, 9, 77)
    for divisor in (np.where(b == 0, 1, b), few, -few):
        for name in ("floor_divide", "remainder", "fmod"):
            compare(lambda t, x, y, name=name: getattr(t, name)(x, y), a, divisor)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_formulas_of_halves_are_rounded_once(dtype: str) -> None:
    """As PyTorch rounds them; a fused multiplication of its own may differ in the last place."""
    import torch

    import eagerjit as ej

    arrays = np.random.default_rng(0).uniform(0.5, 3, (3, 4000)).astype(np.float32)
    formulas = {
        "lerp": lambda t, x, y, z: t.lerp(x, y, z),
        "addcmul": lambda t, x, y, z: t.addcmul(x, y, z),
        "addcdiv": lambda t, x, y, z: t.addcdiv(x, y, z, value=0.7),
    }
    for formula in formulas.values():
        found, expected = (formula(t, *(t.from_numpy(a).to(getattr(t, dtype)) for a in arrays)) for t in (ej, torch))
        assert (found.float().numpy() != expected.float().numpy()).mean() < 0.002


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "float16", "bfloat16", "float64"])
def test_thresholds_keep_the_dtype(dtype: str) -> None:
    compare(lambda t, x: t.threshold(x, 1, 7), draw((3, 4), dtype, 0, 3, 1), dtypes=[dtype], grad=False)
    compare(lambda t, x: t.nn.Threshold(0.5, 2.5)(x), draw((3, 4), dtype, 0, 3, 2), dtypes=[dtype], grad=False)
