"""The native subset: every feature computes what Python would, and what is outside it is refused with its line."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from eagerjit.runtime import cpu
from eagerjit.runtime.native.translate import TranslationError, translate

I64, F64, F32, PTR = ctypes.c_int64, ctypes.c_double, ctypes.c_float, ctypes.c_void_p


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=["none", "inline", "full"])
def examples(request: pytest.FixtureRequest) -> cpu.LoadedObject:
    text = translate([load(Path(__file__).with_name("native_examples.py"))])
    return cpu.load_object(cpu.compile_text(text, request.param))


@pytest.fixture
def native(examples: cpu.LoadedObject) -> Callable[..., Any]:
    def function(name: str, *arguments: Any, result: Any = I64) -> Any:
        return cpu.callable_at(examples.address(name), result, *arguments)

    return function


def wrap(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def test_loops_and_recurrences(native: Callable[..., Any]) -> None:
    assert native("fibonacci", I64)(50) == 12586269025
    assert native("collatz", I64)(27) == 111
    total = sum(j for i in range(11, 0, -2) for j in range(3, min(i, 6)) if i != 4) + 1000 * (0 + 5 + 10)
    assert native("loops", I64)(11) == total
    assert native("endless", ctypes.c_uint8)(250) == 301
    assert native("factorial", I64)(10) == 3628800


@pytest.mark.parametrize("a, b", [(17, 5), (1 << 62, 3), (0, 7), (2**63 - 1, 2**63 - 1), (12345678901, 40)])
def test_integer_arithmetic_wraps(native: Callable[..., Any], a: int, b: int) -> None:
    f = native("arithmetic", I64, I64, I64)
    expected = [a + b, a - b, a * b, a // b, a % b, a & b, a | b, a ^ b]
    assert [f(a, b, which) for which in range(8)] == [wrap(number) for number in expected]
    shift = b % 64
    assert [f(a, shift, 8), f(a, shift, 9)] == [wrap(a << shift), a >> shift]
    assert [f(a, b, 10), f(a, b, 11)] == [~a, wrap(-a)]
    assert f(-a, shift, 12) == wrap((-a % 2**64) >> shift)
    assert [f(a, -b, 13), f(-b, a, 13)] == [1, 0]
    assert f(a, b, 14) == (a * b > 2**63 - 1)
    assert f(1 << (b % 63), 0, 15) == b % 63
    assert f(1 << (b % 63), 0, 16) == 63 - b % 63
    assert f(a, b, 99) == 6


def test_negative_division_truncates_as_in_c(native: Callable[..., Any]) -> None:
    f = native("arithmetic", I64, I64, I64)
    assert (f(-7, 2, 3), f(-7, 2, 4), f(-7, 1, 9)) == (-3, -1, -4)


def test_comparisons_and_conditions(native: Callable[..., Any]) -> None:
    compare = native("compare", I64, I64)
    assert [compare(1, 2), compare(2, 2), compare(3, 2)] == [2 + 4 + 8, 1 + 8 + 32, 2 + 16 + 32]
    assert compare(-1, 1) == 2 + 4 + 8
    between = native("between", I64, I64, I64)
    assert [between(1, 2, 2), between(2, 2, 3), between(1, 3, 2)] == [1, 0, 0]
    assert [native("choose", I64)(number) for number in (11, 6, 5)] == [1, 2, 3]
    assert [native("color", I64)(number) for number in (3, 5, 9, 7, 8)] == [1, 1, 2, 0, -1]


def test_and_or_evaluate_only_what_they_need(native: Callable[..., Any]) -> None:
    f = native("short_circuit", I64)
    assert f(1) == 1  # `and` called it, `or` did not
    assert f(0) == 101  # `or` called it, `and` did not


def test_floats(native: Callable[..., Any]) -> None:
    f = native("floats", F64, I64, result=F64)
    expected = sum(1.5 * i / 2 - 0.5 for i in range(7)) + float(np.float32(0.1) * np.float32(3))
    assert f(1.5, 7) == expected
    assert f(1e9, 3) == -(1e9 / 2 - 0.5 + 1e9 - 0.5 - 0.5)
    assert native("float_to_integer", F64)(-3.9) == -6
    assert native("flip_sign", F64, result=F64)(2.5) == -2.5
    data = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    total = np.float32(0)
    for x in data:
        total += x
    assert native("sum_f32", PTR, I64, result=F32)(data.ctypes.data, 100) == total


@pytest.mark.parametrize("number", [0, 1, 127, 128, -1, -128, 65535, -32768, 2**31, -(2**31), 123456789])
def test_narrow_loads_and_stores(native: Callable[..., Any], number: int) -> None:
    signed = sum(int(np.int64(number).astype(kind)) for kind in (np.int8, np.int16, np.int32))
    unsigned = sum(int(np.int64(number).astype(kind)) for kind in (np.uint8, np.uint16, np.uint32))
    assert native("narrow", I64)(number) == signed * 1000000 + unsigned


def test_pointers_and_memory(native: Callable[..., Any]) -> None:
    data = np.arange(10, dtype=np.int64)
    assert native("pointers", PTR, I64)(data.ctypes.data, 10) == 45 * 100 + 80
    copied = np.zeros(10, np.int64)
    native("copy", PTR, PTR, I64, result=None)(copied.ctypes.data, data.ctypes.data, 80)
    assert (copied == data).all()


def test_calls_of_c_and_back(native: Callable[..., Any], examples: cpu.LoadedObject) -> None:
    data = np.random.default_rng(0).integers(-100, 100, 50)
    expected = np.sort(data)
    native("sort", PTR, I64, result=None)(data.ctypes.data, 50)
    assert (data == expected).all()
    memory = ctypes.create_string_buffer(32)
    assert native("text", I64, PTR)(-42, ctypes.addressof(memory)) == 10 * 100 + 10
    assert memory.value.decode() == '"-42" \\ é'
    assert native("indirect", PTR, I64)(examples.address("fibonacci"), 10) == 55
    square = ctypes.CFUNCTYPE(F64, F64)(lambda x: x * x)
    assert native("indirect_float", PTR, F64, result=F64)(ctypes.cast(square, PTR), 1.5) == 2.25
    assert native("key_error", result=PTR)() == id(KeyError)


def test_atomics_and_globals(native: Callable[..., Any], examples: cpu.LoadedObject) -> None:
    assert native("atomics", I64)(2) == 5 + 10 * 1 + 100 * 0 + 1000 * 50 + 1000000 * 70
    assert ctypes.c_int32.from_address(examples.address("counters") + 8).value == -1
    remember = native("remember", I64)
    assert [remember(3), remember(4), remember(5)] == [0, 3, 4]


@pytest.mark.parametrize("name, dtype", [("convert_bf16", ml_dtypes.bfloat16), ("convert_f16", np.float16)])
def test_short_floats_round_to_nearest_even(native: Callable[..., Any], name: str, dtype: type) -> None:
    every = np.arange(2**16, dtype=np.uint16).view(dtype)
    with np.errstate(all="ignore"):
        expected = (every.astype(np.float32) * np.float32(3)).astype(dtype)
    computed = every.copy()
    native(name, PTR, I64, result=None)(computed.ctypes.data, len(computed))
    is_nan = np.isnan(expected.astype(np.float32))
    assert (np.isnan(computed.astype(np.float32)) == is_nan).all()
    assert (computed.view(np.uint16) == expected.view(np.uint16))[~is_nan].all()


@pytest.mark.parametrize("name, dtype", [("round_bf16", ml_dtypes.bfloat16), ("round_f16", np.float16)])
def test_every_kind_of_float32_rounds_right(native: Callable[..., Any], name: str, dtype: type) -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint32)
    bits[:6] = [0x7F800001, 0xFF800001, 0x7F7FFFFF, 0x00000001, 0x80008000, 0x3F808000]
    numbers = bits.view(np.float32)
    computed = np.empty(len(bits), dtype)
    native(name, PTR, PTR, I64, result=None)(computed.ctypes.data, numbers.ctypes.data, len(bits))
    with np.errstate(all="ignore"):
        expected = numbers.astype(dtype)
    is_nan = np.isnan(numbers)
    assert np.isnan(computed[is_nan].astype(np.float32)).all()
    assert (computed.view(np.uint16) == expected.view(np.uint16))[~is_nan].all()


def test_private_names_stay_inside(examples: cpu.LoadedObject) -> None:
    with pytest.raises(KeyError):
        examples.address("native_examples._ascending")


REFUSED = {
    "def f(x):\n    y = [1, 2]\n    return 0\n": (2, "List is not part"),
    "def f(x):\n    return unknown\n": (2, "unknown is neither"),
    "def f(x):\n    return x.real\n": (2, "not part of the native subset"),
    "def f(x):\n    if x:\n        return 1\n": (1, "control reaches the end"),
    "def f(x):\n    return 1\n    x = 2\n": (3, "never reached"),
    "def f(x):\n    for i in x:\n        pass\n    return 0\n": (2, "for name in range"),
    "def f(x):\n    for i in range(0, x, x):\n        pass\n    return 0\n": (2, "step of a range"),
    "def f(x):\n    y: f64 = x\n    return 0\n": (2, "convert it with f64"),
    "def f(x: f64):\n    return x\n": (2, "double value where a i64"),
    "def f(x: f64) -> f64:\n    return x + f32(x)\n": (2, "is needed: convert"),
    "def f(x, *more):\n    return x\n": (1, "only plain positional"),
    "def f(x: str):\n    return x\n": (1, "str is not a native type"),
    "def f(x):\n    return f(x, x)\n": (2, "takes 1 arguments, 2 are given"),
    "def f(x):\n    return len(x)\n": (2, "neither a local"),
    "def f(x):\n    return load_i64()\n": (2, "takes 1 arguments, 0 are given"),
    "def f(x):\n    return buffer(x)\n": (2, "must be an integer constant"),
    "def f(x):\n    x += y\n    return 0\n": (2, "y is neither"),
    "def f(x):\n    match x:\n        case [a]:\n            pass\n    return 0\n": (3, "a case is"),
    "def f(x):\n    return\n": (2, "this function returns i64"),
    "def f(x) -> None:\n    return x\n": (2, "returns None"),
    "def g(x) -> None:\n    pass\ndef f(x):\n    y = g(x)\n    return y\n": (4, "returns nothing"),
    "def f(x):\n    return f(x=1)\n": (2, "keyword"),
    "def f(x):\n    a, b = x, x\n    return a\n": (2, "one name at a time"),
    "def f(x):\n    return x / 2\n": (2, "Div of integers"),
    "def f(x: f64):\n    if x:\n        return 1\n    return 0\n": (2, "no condition"),
    "def f(x):\n    y = 1\n    y: f64 = 2.0\n    return y\n": (3, "has type i64 already"),
    "def f(x):\n    return c_string(x)\n": (2, "string literal"),
    "def f(x):\n    return address_of(x)\n": (2, "name of a native function"),
}


@pytest.mark.parametrize("source", REFUSED, ids=lambda source: source.replace("\n", ";"))
def test_what_is_outside_the_subset_is_refused(source: str, tmp_path: Path) -> None:
    line, message = REFUSED[source]
    names = "address_of, buffer, c_string, f32, f64, load_i64"
    header = f"from __future__ import annotations; from eagerjit.runtime.native.language import {names}\n"
    path = tmp_path / "refused.py"
    path.write_text(header + source)
    with pytest.raises(TranslationError) as caught:
        translate([load(path)])
    assert str(caught.value).startswith(f"{path}:{line + 1}: "), caught.value
    assert message in str(caught.value)


def test_two_modules_may_not_define_the_same_public_function(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text("def f(x):\n    return _g(x)\n\ndef _g(x):\n    return x\n")
    with pytest.raises(TranslationError, match="also defines f"):
        translate([load(tmp_path / "one.py"), load(tmp_path / "two.py")])
