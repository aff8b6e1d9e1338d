"""Elementary functions against references of higher precision.

f32: every 4001st input and many special ones, against float64; `benchmarks/exhaustive_math.py` runs all of them. f64:
random and awkward arguments, against 140-bit arithmetic.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from kernel_runner import WIDTHS, elementwise, load

RANDOM = np.random.default_rng(3)
SPECIAL = (
    0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 1e-45, -1e-45, 1e-38, 3e38, -3e38, 88.8,
    -104.0,
)  # fmt: skip


def by_torch(name: str):
    return lambda x: getattr(torch, name)(torch.from_numpy(x)).numpy()


SINGLE_REFERENCE = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": by_torch("erf"), "erfc": by_torch("erfc"), "erfinv": by_torch("erfinv"),
}  # fmt: skip
DOUBLE_REFERENCE = {
    "exp": mpmath.exp, "exp2": lambda x: mpmath.mpf(2) ** x, "expm1": mpmath.expm1, "log": mpmath.log,
    "log2": lambda x: mpmath.log(x) / mpmath.log(2), "log10": lambda x: mpmath.log(x) / mpmath.log(10),
    "log1p": mpmath.log1p, "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan, "asin": mpmath.asin,
    "acos": mpmath.acos, "atan": mpmath.atan, "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)), "erf": mpmath.erf, "erfc": mpmath.erfc, "erfinv": mpmath.erfinv,
}  # fmt: skip
UNARY = tuple(SINGLE_REFERENCE)
TESTED = (*UNARY, "exp_sub", "pow", "atan2", "fmod", "rem", "floordiv")


@pytest.fixture(scope="module", params=WIDTHS)
def functions(request):
    """Every function of this file at one vector width, by (name, dtype); call(*arrays) -> array."""
    kernels = []
    for dtype in ("f32", "f64"):
        for op in TESTED:
            arity = 1 if op in UNARY else 2
            kernels.append(elementwise(f"{op}_{dtype}", op, [dtype] * arity, dtype))
    loaded = load(kernels, request.param)

    def call(op: str, *arrays: np.ndarray) -> np.ndarray:
        out = np.empty_like(arrays[0])
        assert loaded[f"{op}_f{out.itemsize * 8}"](*map(np.ascontiguousarray, arrays), out, len(out)) == 0
        return out

    return call


def single_errors(results: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """In units in the last place of the exact value as float32; infinite for a wrong special value or sign."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        unit = np.spacing(np.minimum(np.abs(exact), 3e38).astype(np.float32)).astype(np.float64)
        distance = np.abs(results - exact) / unit
    special = ~np.isfinite(rounded) | ~np.isfinite(results)
    agree = (results == rounded) | (np.isnan(results) & np.isnan(rounded))
    distance[special] = np.where(agree, 0.0, np.inf)[special]
    distance[(np.signbit(results) != np.signbit(rounded)) & ~np.isnan(rounded)] = np.inf
    return distance


@pytest.mark.parametrize("op", UNARY)
def test_singles(functions, op):
    """One unit in the last place everywhere, infinities, NaNs, signs of zeros and subnormals included."""
    sampled = np.arange(0, 1 << 32, 4001, dtype=np.int64).astype(np.uint32).view(np.float32)
    x = np.concatenate([np.array(SPECIAL, np.float32), sampled])
    with np.errstate(all="ignore"):
        exact = SINGLE_REFERENCE[op](x.astype(np.float64))
    worst = single_errors(functions(op, x), exact)
    position = int(worst.argmax())
    assert worst[position] <= 1.0, (op, x[position])


@pytest.mark.parametrize("kind", (np.float32, np.float64))
def test_an_exponential_of_a_difference_is_that_of_the_rounded_difference(functions, kind):
    x, y = (np.concatenate([SPECIAL, RANDOM.normal(size=500) * 20]).astype(kind) for _ in range(2))
    y[: len(SPECIAL)] = RANDOM.permutation(y[: len(SPECIAL)])
    with np.errstate(all="ignore"):
        expected = functions("exp", x - y)
    assert np.array_equal(functions("exp_sub", x, y), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", ("f32", "f64"))
def test_every_lane_count_gives_the_same_bits(dtype):
    """Scalars, few lanes and many, at every width: instructions differ, results do not."""
    kind = np.float32 if dtype == "f32" else np.float64
    huge, tiny = (1e30, 1e-39) if dtype == "f32" else (1e300, 1e-309)
    x = np.concatenate([SPECIAL, RANDOM.normal(size=400) * 5, RANDOM.uniform(-1, 1, 100), [1e6, huge, tiny, -tiny]])
    deep = RANDOM.uniform(-110, 90, 300) * (1 if dtype == "f32" else 7)
    x = np.concatenate([x, deep]).astype(kind)
    y = RANDOM.permutation(x)
    seen: dict[str, set[bytes]] = {op: set() for op in TESTED}
    for width in WIDTHS:
        for lanes in (0, 4, 32):
            arity = {op: 1 if op in UNARY else 2 for op in TESTED}
            functions = load([elementwise(op, op, [dtype] * arity[op], dtype, lanes) for op in TESTED], width)
            for op in TESTED:
                out = np.empty_like(x)
                functions[op](*(x, y)[: arity[op]], out, len(out))
                seen[op].add(np.where(np.isnan(out), 0, out).tobytes())
    assert {op: len(results) for op, results in seen.items()} == dict.fromkeys(TESTED, 1)


def double_error(result: float, exact: mpmath.mpf) -> float:
    """In units in the last place of the exact value as float64."""
    if exact == 0:
        return 0.0 if result == 0 else math.inf
    if not math.isfinite(result):
        return 0.0 if abs(exact) > mpmath.mpf(2) ** 1024 * (1 - mpmath.mpf(2) ** -53) else math.inf
    exponent = max(int(mpmath.floor(mpmath.log(abs(exact), 2))), -1022)
    return float(abs(mpmath.mpf(result) - exact) / mpmath.mpf(2) ** (exponent - 52))


def double_arguments(op: str) -> np.ndarray:
    if op in ("erfinv", "asin", "acos"):
        near_one = 1 - np.exp2(-RANDOM.uniform(1, 52, 40))
        return np.concatenate([RANDOM.uniform(-1, 1, 120), near_one, -near_one, [1e-300, 1e-9]])
    scales = (1e-300, 1e-8, 0.1, 1, 10, 100)
    x = np.concatenate([RANDOM.normal(size=60) * scale for scale in scales] + [1 + RANDOM.normal(size=60) * 1e-3])
    if op in ("erf", "erfc"):
        return x[np.abs(x) < 26]
    huge = np.exp2(RANDOM.uniform(-1000, 1000, 60)) * RANDOM.choice([-1, 1], 60)
    return np.concatenate([x, huge, [709.7, -708.0, -745.0, 5e-324, 6381956970095103 * 2.0**797]])


@pytest.mark.parametrize("op", UNARY)
def test_doubles(functions, op):
    """Two units in the last place."""
    x = double_arguments(op)
    if op in ("log", "log2", "log10"):
        x = np.abs(x)
    if op == "log1p":
        x = x[x > -1]
    results = functions(op, x)
    with mpmath.workprec(140):
        errors = [double_error(r, DOUBLE_REFERENCE[op](mpmath.mpf(float(v)))) for r, v in zip(results, x, strict=True)]
    position = int(np.argmax(errors))
    assert errors[position] <= 2.0, (op, x[position], results[position])


@pytest.mark.parametrize("op", UNARY)
def test_special_doubles(functions, op):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324])
    with np.errstate(all="ignore"):
        expected = SINGLE_REFERENCE[op](x)
    results = functions(op, x)
    assert np.allclose(results, expected, rtol=1e-15, atol=0, equal_nan=True)
    known = ~np.isnan(expected)
    assert (np.signbit(results) == np.signbit(expected))[known].all()


POWERS = {
    "f32": (np.float32, 100, 23, 128, -126, 1.0),
    "f64": (np.float64, 1000, 52, 1024, -1022, 1.5),
}


@pytest.mark.parametrize("dtype", POWERS)
def test_power(functions, dtype):
    kind, largest, mantissa, top, bottom, limit = POWERS[dtype]
    x = np.concatenate([RANDOM.uniform(0, 3, 300), np.exp2(RANDOM.uniform(-largest, largest, 300))]).astype(kind)
    near = (1 + RANDOM.normal(size=300) * 1e-3).astype(kind)
    y = (RANDOM.normal(size=600) * 3).astype(kind)
    x, y = np.concatenate([x, near]), np.concatenate([y, (RANDOM.normal(size=300) * largest * 300).astype(kind)])
    results = functions("pow", x, y)
    with mpmath.workprec(160):
        for a, c, r in zip(x, y, results, strict=True):
            exact = mpmath.power(mpmath.mpf(float(a)), mpmath.mpf(float(c)))
            if exact == 0 or exact >= mpmath.mpf(2) ** top:
                assert r == (0 if exact < 1 else np.inf)
                continue
            exponent = max(int(mpmath.floor(mpmath.log(exact, 2))), bottom)
            error = abs(mpmath.mpf(float(r)) - exact) / mpmath.mpf(2) ** (exponent - mantissa)
            assert error <= limit, (a, c, r)


@pytest.mark.parametrize("kind, limit", [(np.float32, 1.0), (np.float64, 2.0)])
def test_angle_of_points(functions, kind, limit):
    top = 30 if kind == np.float32 else 250
    y, x = ((RANDOM.normal(size=400) * np.exp2(RANDOM.uniform(-top, top, 400))).astype(kind) for _ in range(2))
    y, x = (np.concatenate([v, RANDOM.normal(size=400)]).astype(kind) for v in (y, x))
    results = functions("atan2", y, x)
    with mpmath.workprec(140):
        for a, c, r in zip(y, x, results, strict=True):
            exact = mpmath.atan2(mpmath.mpf(float(a)), mpmath.mpf(float(c)))
            assert abs(mpmath.mpf(float(r)) - exact) <= limit * float(np.spacing(np.abs(r))), (a, c, r)


PAIRS = np.array(
    [0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-40, -1e-40, 7, 0.1]
)


@pytest.mark.parametrize("kind", (np.float32, np.float64))
@pytest.mark.parametrize("op", ("pow", "atan2", "fmod", "floordiv", "rem"))
def test_special_pairs(functions, op, kind):
    """C99's special cases, signs of zeros, and PyTorch's conventions for whole division."""
    a, c = (grid.ravel().astype(kind) for grid in np.meshgrid(PAIRS, PAIRS))
    names = {"pow": "pow", "atan2": "atan2", "fmod": "fmod", "floordiv": "floor_divide", "rem": "remainder"}
    wide = (torch.from_numpy(v.astype(np.float64) if op in ("rem", "fmod") else v) for v in (a, c))
    expected = getattr(torch, names[op])(*wide).numpy()
    results = functions(op, a, c)
    with np.errstate(all="ignore"):
        tolerance = 1e-6 if kind == np.float32 else 1e-14
        near = np.isclose(results, expected.astype(kind), rtol=tolerance, atol=0, equal_nan=True)
    signs = (np.signbit(results) == np.signbit(expected)) | np.isnan(expected)
    wrong = ~(near & signs)
    assert not wrong.any(), (a[wrong], c[wrong], results[wrong], expected[wrong])


@pytest.mark.parametrize("kind", (np.float32, np.float64))
def test_remainders_are_exact(functions, kind):
    top = 120 if kind == np.float32 else 1000
    a, c = ((RANDOM.normal(size=3000) * np.exp2(RANDOM.uniform(-top, top, 3000))).astype(kind) for _ in range(2))
    a = np.concatenate([a, np.arange(-500, 500) * 0.1]).astype(kind)
    c = np.concatenate([c, np.full(1000, 0.1)]).astype(kind)
    expected = np.fmod(a, c)
    assert (functions("fmod", a, c) == expected).all()
    differs = (expected != 0) & ((expected < 0) != (c < 0))
    assert (functions("rem", a, c) == np.where(differs, (expected + c).astype(kind), expected)).all()
