"""The array API's elementwise functions: special cases, values, types and errors, eager and compiled."""

from __future__ import annotations

import inspect
import itertools
import math

import numpy as np
import pytest
from special_cases import COMPLEX, NUMBERS, REAL, RESULTS, ROTATED, VALUES

import eagerjit as torch
from eagerjit import array_api as xp
from eagerjit.array_api import elementwise

FUNCTIONS = [name for name in elementwise.__all__ if name != "clip"]
BINARY = [name for name in FUNCTIONS if len(inspect.signature(getattr(xp, name)).parameters) == 2]
UNARY = [name for name in FUNCTIONS if name not in BINARY]
BITS = [name for name in FUNCTIONS if name.startswith("bitwise")]
SHIFTS = ["bitwise_left_shift", "bitwise_right_shift"]
LOGICAL = [name for name in FUNCTIONS if name.startswith("logical")]
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
ORDERED = [*COMPARISONS[2:], "maximum", "minimum", "floor_divide", "remainder", "ceil", "floor", "trunc", "signbit"]
ORDERED += ["copysign", "nextafter", "hypot", "logaddexp", "atan2"]
EXACT = ["abs", "ceil", "floor", "negative", "positive", "round", "sign", "square", "trunc", "isnan", "isinf"]
EXACT += ["isfinite", "add", "subtract", "multiply", "floor_divide", "remainder", "pow", "maximum", "minimum"]
EXACT += [*COMPARISONS, "real", "conj"]
ON_INTEGERS = [*EXACT, *BITS]
FLOATS = ("float32", "float64")
COMPLEXES = ("complex64", "complex128")
INTEGERS = [name for name, d in xp.__array_namespace_info__().dtypes(kind="integral").items()]

# -- special cases ----------------------------------------------------------------------------------------------------


def differs(got: float, wanted: float, signed: bool = True) -> bool:
    """Whether a result is not the one of the table: NaN for NaN, zeros with their signs, others to six digits."""
    if math.isnan(wanted) or math.isnan(got):
        return math.isnan(wanted) != math.isnan(got)
    if not signed:
        got, wanted = abs(got), abs(wanted)
    if math.copysign(1.0, got) != math.copysign(1.0, wanted):
        return True
    return got != wanted and not math.isclose(got, wanted, rel_tol=1e-6)


def real_cases(name: str, dtype: str) -> list[tuple[str, tuple[float, ...], float]]:
    """(the case's text, operands as numbers of the dtype, the result) for every combination of values."""
    found = []
    for text in REAL[name].split(";"):
        *operands, result = text.split()
        for values in itertools.product(*(VALUES[o] for o in operands)):
            given = tuple(float(np.dtype(dtype).type(v)) for v in values)
            found.append((text, given, RESULTS[result](*given) if result in RESULTS else NUMBERS[result]))
    return found


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", REAL)
def test_special_cases_of_real_numbers(name, dtype):
    cases = real_cases(name, dtype)
    operands = [
        torch.tensor(column, dtype=getattr(torch, dtype)) for column in zip(*(c[1] for c in cases), strict=True)
    ]
    results = getattr(xp, name)(*operands)
    assert results.dtype in (xp.bool, operands[0].dtype)
    wrong = [(*case, got) for case, got in zip(cases, results.tolist(), strict=True) if differs(got, case[2])]
    assert not wrong
    if len(operands) == 2:  # numbers of Python instead of tensors
        for (text, (x1, x2), wanted), position in zip(cases, range(len(cases)), strict=True):
            if text != cases[position - 1][0]:  # one of each case
                assert not differs(getattr(xp, name)(operands[0][position], x2).item(), wanted), (text, x1, x2)
                assert not differs(getattr(xp, name)(x1, operands[1][position]).item(), wanted), (text, x1, x2)


def test_sign_bits_of_nan():
    signed = torch.tensor(np.copysign(np.float32([math.nan, math.nan]), np.float32([1.0, -1.0])))
    assert xp.signbit(signed).tolist() == [False, True]
    ones = xp.ones(2)
    assert xp.copysign(ones, signed).tolist() == [1.0, -1.0]
    for x in (ones, -ones, signed, -signed):
        assert xp.signbit(xp.copysign(x, signed)).tolist() == [False, True]
        assert xp.signbit(xp.copysign(x, 0.0)).tolist() == [False, False]
        assert xp.signbit(xp.copysign(x, -0.0)).tolist() == [True, True]
    assert xp.isnan(xp.copysign(signed, -1.0)).tolist() == [True, True]


def complex_cases(name: str) -> list[tuple[str, complex, list[tuple[float, bool]]]]:
    """(the case's text, the operand, (value, whether its sign counts) of each part) for every combination."""
    found = []
    for text in COMPLEX[ROTATED.get(name, "cosh" if name == "cos" else name)].split(";"):
        operand, result = text.split("->")
        parts = [(NUMBERS[part.strip("? ")], "?" not in part) for part in result.split(",")]
        for a, b in itertools.product(*(VALUES[part.strip()] for part in operand.split(","))):
            if name in ROTATED:
                found.append((text, complex(b, -a), [parts[1], (-parts[0][0], parts[0][1])]))
            else:
                found.append((text, complex(b, -a) if name == "cos" else complex(a, b), parts))
    return found


@pytest.mark.parametrize("dtype", COMPLEXES)
@pytest.mark.parametrize("name", [*COMPLEX, *ROTATED, "cos"])
def test_special_cases_of_complex_numbers(name, dtype):
    cases = complex_cases(name)
    operand = torch.tensor([c[1] for c in cases], dtype=getattr(torch, dtype))
    for conjugated in (False, True)[: 1 if name == "sign" else 2]:
        x = xp.conj(operand) if conjugated else operand
        result = getattr(xp, name)(x)
        parts = [result] if not result.dtype.is_complex else [result.real, -result.imag if conjugated else result.imag]
        wrong = [
            (case, conjugated, *got)
            for case, *got in zip(cases, *(p.tolist() for p in parts), strict=True)
            if any(differs(g, *wanted) for g, wanted in zip(got, case[2], strict=True))
        ]
        assert not wrong


@pytest.mark.parametrize("dtype", COMPLEXES)
def test_parts_of_sums_and_comparisons_are_independent(dtype):
    parts = [0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan]
    x = torch.tensor([complex(a, b) for a in parts for b in parts], dtype=getattr(torch, dtype))
    rows, columns = x.unsqueeze(1), x.unsqueeze(0)
    for name in ("add", "subtract"):
        function = getattr(xp, name)
        result, real, imag = (
            function(rows, columns),
            function(rows.real, columns.real),
            function(rows.imag, columns.imag),
        )
        assert np.array_equal(result.real.numpy(), real.numpy(), equal_nan=True)
        assert np.array_equal(result.imag.numpy(), imag.numpy(), equal_nan=True)
        for got, wanted in ((result.real, real), (result.imag, imag)):
            assert xp.signbit(got)[~xp.isnan(got)].tolist() == xp.signbit(wanted)[~xp.isnan(wanted)].tolist()
    same = xp.logical_and(rows.real == columns.real, rows.imag == columns.imag)
    assert xp.equal(rows, columns).tolist() == same.tolist()
    assert xp.not_equal(rows, columns).tolist() == xp.logical_not(same).tolist()
    rounded = xp.round(x * 1.7)
    assert np.array_equal(rounded.real.numpy(), np.rint((x * 1.7).real.numpy()), equal_nan=True)
    assert np.array_equal(rounded.imag.numpy(), np.rint((x * 1.7).imag.numpy()), equal_nan=True)


def test_complex_products_and_quotients():
    x, y = torch.tensor([1 + 2j, -3 + 0.5j, 0j]), torch.tensor([2 - 1j, 1j, -1.5 + 0j])
    assert xp.multiply(x, y).tolist() == [4 + 3j, -0.5 - 3j, 0j]
    np.testing.assert_allclose(xp.divide(x, y).numpy(), [1j, 0.5 + 3j, 0j], rtol=1e-6)
    assert all(map(math.isnan, (xp.multiply(x, math.nan).real.tolist())))
    nothing = torch.tensor([complex(math.nan, math.nan)])
    for function in (xp.multiply, xp.divide):
        assert xp.isnan(function(nothing, nothing).real).tolist() == [True]
        assert xp.isnan(function(nothing, nothing).imag).tolist() == [True]


# -- values -----------------------------------------------------------------------------------------------------------


def drawn(name: str, dtype: str, seed: int) -> np.ndarray:
    """Numbers in the function's domain; integers small enough for powers, and negative ones where there are."""
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, (4, 5)).astype(bool)
    if dtype in INTEGERS:
        low = 1 if dtype.startswith("u") or (name in ("pow", *SHIFTS) and seed) else -6
        values = generator.integers(low, 7, (4, 5))
        return np.where(values == 0, 3, values).astype(dtype)
    low, high = {"acosh": (1.0, 9.0), "acos": (-1, 1), "asin": (-1, 1), "atanh": (-0.9, 0.9)}.get(name, (-4.0, 4.0))
    if name.startswith("log") or name in ("sqrt", "pow"):
        low = 0.01
    if name in ("logaddexp", "log1p"):
        low = -0.9
    values = generator.uniform(low, high, (4, 5))
    return (values + 1j * generator.uniform(-2, 2, (4, 5)) if dtype in COMPLEXES else values).astype(dtype)


def numeric_dtypes(name: str) -> list[str]:
    """The dtypes that the standard defines a function for."""
    if name in LOGICAL:
        return ["bool"]
    if name in BITS:
        return [*INTEGERS] if name in SHIFTS else ["bool", *INTEGERS]
    complexes = () if name in ORDERED else COMPLEXES
    if name == "imag":
        return [*COMPLEXES]
    return [
        *(INTEGERS if name in ON_INTEGERS else ()),
        *FLOATS,
        *complexes,
        *(["bool"] if name[-5:] == "equal" else []),
    ]


@pytest.mark.parametrize("name, dtype", [(name, dtype) for name in FUNCTIONS for dtype in numeric_dtypes(name)])
def test_values_and_dtypes(name, dtype):
    if dtype == "bool" and name in ("less_equal", "greater_equal"):
        return
    arrays = [drawn(name, dtype, seed) for seed in range(2 if name in BINARY else 1)]
    wanted = getattr(np, name)(*arrays)
    tensors = [torch.tensor(a) for a in arrays]
    function = getattr(xp, name)
    result = function(*tensors)
    assert result.dtype.name == str(wanted.dtype)
    rtol = 2e-6 if dtype in ("float32", "complex64") else 1e-12
    np.testing.assert_allclose(result.numpy(), wanted, rtol=rtol, atol=rtol)
    if name in BINARY:  # broadcast, and one operand a number of Python
        row, column = tensors[0][0], tensors[1][:, :1]
        np.testing.assert_allclose(
            function(row, column).numpy(), getattr(np, name)(arrays[0][0], arrays[1][:, :1]), rtol
        )
        for got, operands in (
            (function(tensors[0], arrays[1][1, 2].item()), (arrays[0], arrays[1][1, 2])),
            (function(arrays[0][1, 2].item(), tensors[1]), (arrays[0][1, 2], arrays[1])),
        ):
            assert got.dtype.name == str(wanted.dtype)
            np.testing.assert_allclose(got.numpy(), getattr(np, name)(*operands), rtol, atol=rtol)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_is_eager(name):
    dtype = "bool" if name in LOGICAL else "int32" if name in BITS else "float32"
    if name == "imag":
        return
    arrays = [drawn(name, dtype, seed) for seed in range(2 if name in BINARY else 1)]
    if dtype == "float32":
        arrays = [np.append(a, np.float32([0.0, -0.0, math.inf, -math.inf, math.nan, -1.0])) for a in arrays]
    tensors = [torch.tensor(a) for a in arrays]
    function = getattr(xp, name)
    compiled = torch.jit(lambda *x: function(*x), fullgraph=True)
    for _ in range(2):
        assert compiled(*tensors).numpy().tobytes() == function(*tensors).numpy().tobytes()


def test_gradients_are_recorded():
    x = torch.tensor([0.5, -1.5], dtype=xp.float64, requires_grad=True)
    total = xp.asinh(x) + xp.remainder(x, 0.4) + xp.copysign(x, -1.0) + xp.clip(x, -1.0, None) + xp.pow(xp.abs(x), 0.5)
    total.sum().backward()
    value = x.detach().numpy()
    wanted = 1 / np.sqrt(1 + value**2) + 1 - np.sign(value) + [1, 0] + np.sign(value) * 0.5 / np.sqrt(np.abs(value))
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-12)


# -- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [FLOATS, INTEGERS, ("float32", "float64", "complex64", "complex128")])
def test_operands_are_promoted_whatever_their_rank(kind):
    for first, second in itertools.product(kind, repeat=2):
        if {first, second} == {"uint64"} or ("uint64" in (first, second) and "i" in (first[0], second[0])):
            continue  # no dtype holds both
        wanted = str(np.result_type(first, second))
        for shape in ((), (2,)):
            x1, x2 = xp.ones(shape, dtype=getattr(xp, first)), xp.ones((2,), dtype=getattr(xp, second))
            for function in (xp.add, xp.multiply, xp.subtract):
                assert function(x1, x2).dtype.name == function(x2, x1).dtype.name == wanted
            assert xp.equal(x1, x2).tolist() == [True, True]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int8", "int64", "uint8"])
def test_numbers_take_the_dtype_of_the_tensor(dtype):
    for shape in ((), (2,)):
        x = xp.ones(shape, dtype=getattr(xp, dtype))
        numbers = (2, 2.0, 2j) if dtype.startswith("complex") else (2, 2.0) if dtype.startswith("float") else (2,)
        for number in numbers:
            assert xp.add(x, number).dtype is xp.add(number, x).dtype is x.dtype
            assert xp.pow(x, number).dtype is x.dtype
        if dtype.startswith("float"):
            assert xp.multiply(x, 1j).dtype.name == {"float32": "complex64", "float64": "complex128"}[dtype]


def test_numbers_that_only_uint64_holds():
    largest = 2**64 - 1
    x = xp.asarray([largest, 1], dtype=xp.uint64)
    assert x.tolist() == [largest, 1] and xp.equal(x, largest).tolist() == [True, False]
    assert xp.greater(x, 2**63).tolist() == [True, False] and xp.floor_divide(x, 2**63).tolist() == [1, 0]
    assert xp.add(2**63, x).tolist() == [2**63 - 1, 2**63 + 1]
    compiled = torch.jit(lambda x: (xp.maximum(x, 2**63), xp.bitwise_right_shift(x, 1), x.max(), xp.multiply(x, 3)))
    found = compiled(x)
    assert [y.tolist() for y in found] == [[largest, 2**63], [2**63 - 1, 0], largest, [largest - 2, 3]]
    assert [y.dtype for y in found] == [xp.uint64] * 4


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_clip(dtype):
    x = torch.tensor(np.array([0, 1, 5, 9, 3], dtype))
    assert xp.clip(x).tolist() == xp.clip(x, None, None).tolist() == [0, 1, 5, 9, 3] and xp.clip(x) is not x
    assert xp.clip(x, 1).tolist() == [1, 1, 5, 9, 3]
    assert xp.clip(x, max=4).tolist() == [0, 1, 4, 4, 3]
    bounds = torch.tensor(np.array([[2], [3]], dtype))
    both = xp.clip(x, min=bounds, max=torch.tensor(np.array([4, 4, 4, 4, 4], dtype)))
    assert both.tolist() == [[2, 2, 4, 4, 3], [3, 3, 4, 4, 3]] and both.dtype is x.dtype
    if dtype in FLOATS:
        some = torch.tensor(np.array([math.nan, 1.0, 2.0], dtype))
        for clipped in (
            xp.clip(some, 0, 5),
            xp.clip(xp.ones_like(some), some, 5),
            xp.clip(xp.ones_like(some), -1, some),
        ):
            assert xp.isnan(clipped).tolist() == [True, False, False] and clipped.dtype is x.dtype


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_keep_signs_and_dtypes(dtype):
    values = [100, 1, 7] if dtype.startswith("u") else [-100, 1, -7]
    x, counts = torch.tensor(np.array(values, dtype)), torch.tensor(np.array([2, 0, 1], dtype))
    assert xp.bitwise_right_shift(x, counts).tolist() == [v >> c for v, c in zip(values, [2, 0, 1], strict=True)]
    left = xp.bitwise_left_shift(x, 1)
    assert left.numpy().tolist() == (np.array(values, dtype) << np.array(1, dtype)).tolist() and left.dtype is x.dtype
    assert xp.bitwise_invert(x).tolist() == (~np.array(values, dtype)).tolist()


# -- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_refuse_what_is_no_tensor(name):
    for wrong in (1.0, [1.0], np.ones(2), None):
        with pytest.raises(TypeError, match=name):
            getattr(xp, name)(wrong)
    with pytest.raises(TypeError):
        getattr(xp, name)(x=xp.ones(2))


@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_need_a_tensor(name):
    with pytest.raises(TypeError, match="at least one Tensor"):
        getattr(xp, name)(1, 2)
    with pytest.raises(TypeError):
        getattr(xp, name)(xp.ones(2), None)
    with pytest.raises(TypeError):
        getattr(xp, name)(x1=xp.ones(2), x2=xp.ones(2))


def test_shapes_that_do_not_broadcast():
    for function in (xp.add, xp.equal, xp.pow, xp.atan2):
        with pytest.raises((RuntimeError, ValueError)):
            function(xp.ones(2), xp.ones(3))
