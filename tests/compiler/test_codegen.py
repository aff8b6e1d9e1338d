"""Scalar operations of compiled kernels against NumPy, for every dtype, tail length and vector width."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from kernel_runner import NUMPY, WIDTHS, elementwise, load, memory, one_task, run, size

from eagerjit.compiler.codegen.llvm import emit_module
from eagerjit.compiler.codegen.scalar import SCALAR_OPS, kind_of
from eagerjit.compiler.loops import Let, Load, Loop, Param, Store

DTYPES = ("bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64")
INTEGERS = DTYPES[1:6]
FLOATS = DTYPES[6:]
RANDOM = np.random.default_rng(5)


def samples(dtype: str, count: int = 300) -> np.ndarray:
    """Random values with the awkward ones in every combination of neighbours."""
    kind = NUMPY[dtype]
    if dtype == "bool":
        return RANDOM.integers(0, 2, count).astype(bool)
    if dtype in INTEGERS or dtype in ("u32", "u64"):
        info = np.iinfo(kind)
        edges = [0, 1, 2, 3, 5, 7, info.max, info.min, info.max - 1] + ([-1, -2, -5] if info.min else [])
        return RANDOM.choice(np.concatenate([np.array(edges, kind), RANDOM.integers(-99, 99, 40).astype(kind)]), count)
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, np.inf, -np.inf, np.nan, 1e-7, -6e-8, 65504.0, 3e38]
    with np.errstate(over="ignore"):
        numbers = np.concatenate([edges, RANDOM.normal(size=40) * 10, RANDOM.normal(size=20) * 1e-5]).astype(kind)
    return RANDOM.choice(numbers, count)


def same(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Equal bits, any NaN for a NaN."""
    bits = f"u{actual.itemsize}"
    both_nan = np.zeros(actual.shape, bool)
    if actual.dtype.kind == "f" or actual.dtype == ml_dtypes.bfloat16:
        with np.errstate(invalid="ignore"):
            both_nan = np.isnan(actual.astype(np.float64)) & np.isnan(expected.astype(np.float64))
    return (actual.view(bits) == expected.view(bits)) | both_nan


def through_single(function, *arrays: np.ndarray) -> np.ndarray:
    """A float function as NumPy computes it; 16-bit formats compute in f32 and round."""
    kind = arrays[0].dtype
    if kind.itemsize > 2:
        return np.asarray(function(*arrays)).astype(kind)
    return np.asarray(function(*(a.astype(np.float32) for a in arrays))).astype(kind)


def integer_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Exact, by Python's integers: toward zero, 0 counts as 1."""
    out = [abs(int(x)) // abs(int(y) or 1) * (-1 if (x < 0) != (y < 0) else 1) for x, y in zip(a, b, strict=True)]
    return wrap(out, a.dtype)


def integer_floor_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return wrap([int(x) // (int(y) or 1) for x, y in zip(a, b, strict=True)], a.dtype)


def integer_remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return wrap([int(x) % int(y) if y else int(x) for x, y in zip(a, b, strict=True)], a.dtype)


def integer_power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    def power(x: int, y: int) -> int:
        if y >= 0:
            return pow(x, y, 1 << 64)
        return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)

    return wrap([power(int(x), int(y)) for x, y in zip(a, b, strict=True)], a.dtype)


def wrap(numbers: list[int], dtype: np.dtype) -> np.ndarray:
    mask = (1 << dtype.itemsize * 8) - 1
    return np.array([n & mask for n in numbers], f"u{dtype.itemsize}").view(dtype)


def shift(numbers: np.ndarray, counts: np.ndarray, left: bool) -> np.ndarray:
    bits = numbers.dtype.itemsize * 8
    counted = [int(c) if 0 <= c < bits else 200 for c in counts]
    out = [int(x) << c if left else int(x) >> c for x, c in zip(numbers, counted, strict=True)]
    return wrap(out, numbers.dtype)


def divisors(function):
    """Of Python's integers; from 32 bits on what wraps loses its sign."""

    def apply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        out = wrap([function(int(x), int(y)) for x, y in zip(a, b, strict=True)], a.dtype)
        return np.abs(out) if function is math.lcm and a.dtype.itemsize >= 4 else out

    return apply


def pick_first_of_equals(better):
    """np.minimum or np.maximum; of zeros of different sign the first, where NumPy's choice depends on the processor."""
    return lambda a, b: np.where(np.isnan(a), a, np.where(np.isnan(b) | better(b, a), b, a))


def lost(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What a sum loses to rounding."""
    total = a + b
    taken = total - a
    return (a - (total - taken)) + (b - taken)


SIGN = {"float": lambda x: np.where(np.isnan(x), 0, np.sign(x)) + 0.0}
FLOAT_REFERENCE = {
    "neg": np.negative, "abs": np.abs, "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "minimum": pick_first_of_equals(np.less), "maximum": pick_first_of_equals(np.greater), "sqrt": np.sqrt,
    "rsqrt": lambda x: (1 / np.sqrt(x)), "reciprocal": lambda x: 1 / x, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "round": np.round, "sign": SIGN["float"], "fmod": np.fmod,
    "lost": lost, "restored": lambda a, b: np.where(np.isfinite(b), a + b, a),
}  # fmt: skip
INTEGER_REFERENCE = {
    "neg": np.negative, "abs": np.abs, "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": integer_divide,
    "floordiv": integer_floor_divide, "rem": integer_remainder, "pow": integer_power, "minimum": np.minimum,
    "maximum": np.maximum, "floor": np.positive, "ceil": np.positive, "trunc": np.positive, "round": np.positive,
    "sign": np.sign, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "shl": lambda a, b: shift(a, b, True), "shr": lambda a, b: shift(a, b, False),
    "gcd": divisors(math.gcd), "lcm": divisors(math.lcm),
    "fmod": lambda a, b: (a - integer_divide(a, b) * b).astype(a.dtype),
}  # fmt: skip
BOOL_REFERENCE = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "not": np.logical_not, "add": np.logical_or,
    "mul": np.logical_and, "minimum": np.logical_and, "maximum": np.logical_or, "abs": np.positive, "sign": np.positive,
}  # fmt: skip
BOOL_REFERENCE["abs"] = BOOL_REFERENCE["sign"] = lambda x: x
COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
TESTED_ELSEWHERE = {"cast", "bitcast", "where", "isnan", "isinf", "isfinite", "signbit"}
TESTED_ELSEWHERE |= {"gamma_series", "gamma_fraction", "gamma_series_slope", "gamma_fraction_slope"}
TESTED_ELSEWHERE |= {"gamma_draw", "von_mises_draw", "poisson_draw", "binomial_draw"}


def references(kind: str) -> dict:
    return {"bool": BOOL_REFERENCE, "int": INTEGER_REFERENCE, "float": FLOAT_REFERENCE}[kind]


def test_every_operation_is_tested():
    """An operation added to the table needs a reference here or in test_math."""
    from test_math import TESTED as ELEMENTARY

    tested = set(COMPARISONS) | TESTED_ELSEWHERE | set(ELEMENTARY)
    for kind in ("bool", "int", "float"):
        tested |= set(references(kind))
    assert set(SCALAR_OPS) == tested


@pytest.mark.parametrize("width, lanes", [*((width, 32) for width in WIDTHS), (WIDTHS[-1], 0)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_operations(dtype, width, lanes):
    """All operations of one dtype, bit for bit, in one module; lanes 0 are scalars."""
    table = references(kind_of(dtype)) | COMPARISONS
    kernels, results = [], {}
    for op in table:
        results[op] = "bool" if op in COMPARISONS else dtype
        kernels.append(elementwise(op, op, [dtype] * SCALAR_OPS[op].arity, results[op], lanes))
    functions = load(kernels, width)
    a, b = samples(dtype), samples(dtype)
    if dtype in FLOATS:
        a[:4], b[:4] = (0.0, -0.0, np.nan, 1.0), (-0.0, 0.0, 1.0, np.nan)
    for op, reference in table.items():
        inputs = (a, b)[: SCALAR_OPS[op].arity]
        out = np.zeros(len(a), NUMPY[results[op]])
        assert functions[op](*inputs, out, len(a)) == 0
        with np.errstate(all="ignore"):
            if op in COMPARISONS:
                expected = reference(*inputs)
            else:
                expected = through_single(reference, *inputs) if dtype in FLOATS else reference(*inputs)
        wrong = ~same(out, np.asarray(expected))
        assert not wrong.any(), (op, [x[wrong][:5] for x in inputs], out[wrong][:5], expected[wrong][:5])


@pytest.mark.parametrize("dtype", FLOATS)
def test_classification(dtype):
    a = np.concatenate([samples(dtype), -samples(dtype)])
    assert len(set(np.signbit(a[np.isnan(a)]))) == 2
    references = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "signbit": np.signbit}
    for op, reference in references.items():
        out = np.zeros(len(a), bool)
        run(elementwise("k", op, [dtype], "bool"), a, out, len(a))
        assert (out == reference(a.astype(np.float64))).all()


@pytest.mark.parametrize("op, answer", [("isnan", False), ("isinf", False), ("isfinite", True)])
def test_classification_of_integers_and_invariants(op, answer):
    a, out = samples("i32"), np.zeros(300, bool)
    run(elementwise("k", op, ["i32"], "bool"), a, out, len(a))
    assert (out == answer).all()


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d not in FLOATS])
def test_signs_of_integers(dtype):
    a = samples(dtype)
    out = np.zeros(len(a), bool)
    run(elementwise("k", "signbit", [dtype], "bool"), a, out, len(a))
    assert (out == (a < 0)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_where(dtype):
    condition, a, b = samples("bool"), samples(dtype), samples(dtype)
    out = np.zeros(len(a), NUMPY[dtype])
    run(elementwise("k", "where", ["bool", dtype, dtype], dtype), condition, a, b, out, len(a))
    assert same(out, np.where(condition, a, b)).all()


@pytest.mark.parametrize("width, lanes", [*((width, 32) for width in WIDTHS), (WIDTHS[-1], 0)])
@pytest.mark.parametrize("source", (*DTYPES, "u32", "u64"))
def test_casts_inside_the_range(source, width, lanes):
    targets = [d for d in (*DTYPES, "u32", "u64") if d != source]
    functions = load([elementwise(f"to_{d}", "cast", [source], d, lanes) for d in targets], width)
    a = samples(source)
    if kind_of(source) == "float":
        a = np.where(np.isfinite(a.astype(np.float64)) & (np.abs(a.astype(np.float64)) < 100), a, NUMPY[source].type(7))
    for target in targets:
        out = np.zeros(len(a), NUMPY[target])
        functions[f"to_{target}"](a, out, len(a))
        with np.errstate(all="ignore"):
            start = a.astype(np.float32) if target in ("f16", "bf16") else a
            whole = kind_of(source) == "float" and kind_of(target) == "int"
            expected = (start.astype(np.float64).astype(np.int64) if whole else start).astype(NUMPY[target])
        assert same(out, expected).all(), (target, a[~same(out, expected)][:4], out[~same(out, expected)][:4])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("source", ("f32", "f64"))
def test_floats_of_all_sizes_are_cut_to_64_bits(source, width):
    """Numbers whose halves of 32 bits matter, near powers of two and between them, up to the ends of the range."""
    random = np.random.default_rng(0)
    powers = 2.0 ** np.arange(-4, 66)
    near = np.concatenate([np.nextafter(powers, 0), powers, powers + 0.5, powers - 1, powers + 1])
    spread = random.standard_normal(1000) * 2.0 ** random.integers(-4, 66, 1000)
    numbers = np.concatenate([near, -near, spread, [0.0, -0.0, np.nan, np.inf, -np.inf]]).astype(NUMPY[source])
    inside = np.abs(numbers.astype(np.float64)) < 2.0**63
    out = np.zeros(len(numbers), np.int64)
    run(elementwise("k", "cast", [source], "i64"), numbers, out, len(numbers), width_bits=width)
    assert out.tolist() == [int(x) if ok else -(2**63) for x, ok in zip(numbers.tolist(), inside, strict=True)]


def test_floats_out_of_range_become_what_pytorch_gives():
    numbers = [300.0, -1.0, -1.5, 3e9, -3e9, np.nan, np.inf, -np.inf, 1e20, 775.0]
    lowest = -(2**31), -(2**63)
    expected = {
        "u8": [44, 255, 255, 0, 0, 0, 0, 0, 0, 7],
        "i8": [44, -1, -1, 0, 0, 0, 0, 0, 0, 7],
        "i16": [300, -1, -1, 0, 0, 0, 0, 0, 0, 775],
        "i32": [300, -1, -1, *[lowest[0]] * 6, 775],
        "i64": [300, -1, -1, 3 * 10**9, -3 * 10**9, *[lowest[1]] * 4, 775],
        "bool": [True] * 10,
    }
    for source in ("f32", "f64"):
        for target, answer in expected.items():
            out = np.zeros(10, NUMPY[target])
            run(elementwise("k", "cast", [source], target), np.array(numbers, NUMPY[source]), out, 10)
            assert out.tolist() == answer, (source, target)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ("f16", "bf16"))
def test_all_values_of_short_floats_survive(dtype, width):
    """Every f16 and bf16 goes to f32 and back; every rounding of f32 near them is to nearest even."""
    functions = load([elementwise("up", "cast", [dtype], "f32"), elementwise("down", "cast", ["f32"], dtype)], width)
    every = np.arange(65536, dtype=np.uint16).view(NUMPY[dtype])
    wide, back = np.zeros(65536, np.float32), np.zeros(65536, NUMPY[dtype])
    functions["up"](every, wide, 65536)
    assert same(wide, every.astype(np.float32)).all()
    for nudge in (-0x8000, -0x1001, -0x1000, -0xFFF, -1, 0, 1, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000):
        near = (every.astype(np.float32).view(np.uint32) + np.uint32(nudge & 0xFFFFFFFF)).view(np.float32)
        functions["down"](near, back, 65536)
        with np.errstate(all="ignore"):
            assert same(back, near.astype(NUMPY[dtype])).all()


BITCASTS = [("f32", "i32"), ("f32", "u32"), ("f64", "i64"), ("f16", "i16"), ("bf16", "i16")]


@pytest.mark.parametrize("source, target", BITCASTS)
def test_bitcasts(source, target):
    a, out, back = samples(source), np.zeros(300, NUMPY[target]), np.zeros(300, NUMPY[source])
    run(elementwise("k", "bitcast", [source], target), a, out, 300)
    run(elementwise("k", "bitcast", [target], source), out, back, 300)
    assert same(out.view(a.dtype), a).all()
    assert same(back, a).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_constants(dtype):
    numbers = {"bool": (True, False), "float": (0.1, -0.0, 1e-8, float("inf"), float("nan"), 70000.0)}.get(
        kind_of(dtype), (5, 0, -1)
    )
    for number in numbers:
        out = np.zeros(40, NUMPY[dtype])
        body = (Let("y", "const", (), dtype, number), Store("out", (("i", 1),), "y"))
        run(one_task("k", (memory("out", dtype), size("n")), Loop("vector", "i", 0, "n", body)), out, 40)
        with np.errstate(all="ignore"):
            expected = np.full(40, number).astype(np.float32 if dtype in ("f16", "bf16") else NUMPY[dtype])
            assert same(out, expected.astype(NUMPY[dtype])).all()


def test_numbers_and_sizes_are_parameters():
    out = np.zeros(40)
    params = (memory("out", "f64"), Param("scale", "number", "f64"), size("n"))
    body = (
        Let("x", "cast", ("i",), "f64"),
        Let("m", "cast", ("n",), "f64"),
        Let("p", "mul", ("x", "scale"), "f64"),
        Let("y", "add", ("p", "m"), "f64"),
        Store("out", (("i", 1),), "y"),
    )
    run(one_task("k", params, Loop("vector", "i", 0, "n", body)), out, 0.25, 40)
    assert (out == np.arange(40) * 0.25 + 40).all()


@pytest.mark.parametrize("dtype", ("bool", "u8", "i16", "bf16", "f32", "f64"))
@pytest.mark.parametrize("lanes", (1, 4, 16, 32, 64))
def test_tails(dtype, lanes):
    """Every length up to 70, at every width: all elements written, none beyond them."""
    for width in WIDTHS:
        call = load([elementwise("k", "maximum", [dtype, dtype], dtype, lanes)], width)["k"]
        for n in range(71):
            a, b, out = samples(dtype, n), samples(dtype, n), samples(dtype, n + 40)
            before = out[n:].copy()
            assert call(a, b, out, n) == 0
            assert same(out[n:], before).all()
            expected = a.copy()
            better = (b.astype(np.float64) > a.astype(np.float64)) | np.isnan(b.astype(np.float64))
            expected[better] = b[better]
            assert same(out[:n], expected).all()


def test_arguments_of_wrong_dtypes_are_refused():
    with pytest.raises(NotImplementedError, match="add doesn't take"):
        emit_module([elementwise("k", "add", ["f32", "f64"], "f32")], 512)
    with pytest.raises(TypeError, match="declared"):
        emit_module([elementwise("k", "lt", ["f32", "f32"], "f32")], 512)
    with pytest.raises(TypeError, match="holds f32"):
        loop = Loop("vector", "i", 0, 8, (Load("x", "a", (("i", 1),), "f64"),))
        emit_module([one_task("k", (memory("a", "f32"),), loop)], 512)
