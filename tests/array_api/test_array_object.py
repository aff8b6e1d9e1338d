"""Tensors as the arrays of the array API standard: attributes, operators, conversions, indexing."""

from __future__ import annotations

import itertools
import math
import operator

import numpy as np
import pytest
import torch as pytorch
from array_api_names import DTYPES

import eagerjit as torch
from eagerjit import array_api as xp

INTEGERS = [name for name in DTYPES if "int" in name]
COMPLEXES = ["complex64", "complex128"]

NUMBERS = ["int8", "int64", "uint16", "float32", "complex64"]
"""The functions are tested for all dtypes, operators for some of each kind."""

OPERATORS = {
    "add": (operator.add, "add", NUMBERS),
    "sub": (operator.sub, "subtract", NUMBERS),
    "mul": (operator.mul, "multiply", NUMBERS),
    "truediv": (operator.truediv, "divide", NUMBERS[-2:]),
    "floordiv": (operator.floordiv, "floor_divide", NUMBERS[:-1]),
    "mod": (operator.mod, "remainder", NUMBERS[:-1]),
    "pow": (operator.pow, "pow", NUMBERS),
    "and": (operator.and_, "bitwise_and", ["bool", *NUMBERS[:-2]]),
    "or": (operator.or_, "bitwise_or", ["bool", *NUMBERS[:-2]]),
    "xor": (operator.xor, "bitwise_xor", ["bool", *NUMBERS[:-2]]),
    "lshift": (operator.lshift, "bitwise_left_shift", NUMBERS[:-2]),
    "rshift": (operator.rshift, "bitwise_right_shift", NUMBERS[:-2]),
}
COMPARISONS = {
    "lt": (operator.lt, "less", NUMBERS[:-1]),
    "le": (operator.le, "less_equal", NUMBERS[:-1]),
    "gt": (operator.gt, "greater", NUMBERS[:-1]),
    "ge": (operator.ge, "greater_equal", NUMBERS[:-1]),
    "eq": (operator.eq, "equal", ["bool", *NUMBERS]),
    "ne": (operator.ne, "not_equal", ["bool", *NUMBERS]),
}
UNARY = {
    "abs": (operator.abs, "abs", NUMBERS),
    "invert": (operator.invert, "bitwise_invert", ["bool", *NUMBERS[:-2]]),
    "neg": (operator.neg, "negative", NUMBERS),
    "pos": (operator.pos, "positive", NUMBERS),
}


def values(name: str, seed: int = 0) -> np.ndarray:
    """Numbers of a dtype, small and other than zero."""
    generator = np.random.default_rng(seed)
    if name == "bool":
        return generator.integers(0, 2, (2, 3)).astype(bool)
    found = generator.integers(1, 5, (2, 3))
    return (found + 0.5j * found[:, ::-1] if name in COMPLEXES else found).astype(name)


def cases(table: dict) -> list[tuple[str, str]]:
    return [(name, dtype) for name, (_, _, dtypes) in table.items() for dtype in dtypes]


def agree(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have one dtype and the same bits."""
    return a.dtype is b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()


# -- operators --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "dtype"), cases(OPERATORS) + cases(COMPARISONS))
def test_binary_operators_are_the_functions(name, dtype):
    apply, function, _ = (OPERATORS | COMPARISONS)[name]
    function = getattr(xp, function)
    x, y = torch.tensor(values(dtype)), torch.tensor(values(dtype, 1))
    wanted = getattr(np, function.__name__)(x.numpy(), y.numpy())
    found = apply(x, y)
    assert agree(found, function(x, y)) and found.dtype.name == str(wanted.dtype)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)
    number = y[1, 1].item()
    assert agree(apply(x, number), function(x, number))
    assert agree(apply(x, y[:, :1]), function(x, y[:, :1])) and agree(apply(x[0], y), function(x[0], y))
    assert agree(apply(number, y), function(number, y))
    if name in OPERATORS:
        assert agree(getattr(y, f"__r{name}__")(x), found)


@pytest.mark.parametrize(("name", "dtype"), cases(OPERATORS))
def test_augmented_operators_write_into_the_tensor(name, dtype):
    apply = getattr(operator, f"i{name}")
    x, y = torch.tensor(values(dtype)), torch.tensor(values(dtype, 1))
    wanted = OPERATORS[name][0](x, y)
    view = x.reshape(-1)
    assert apply(x, y) is x and agree(x, wanted) and view.tolist() == wanted.reshape(-1).tolist()
    number = y[0, 1].item()
    wanted = OPERATORS[name][0](x, number)
    assert apply(x, number) is x and agree(x, wanted)
    with pytest.raises((RuntimeError, ValueError)):
        apply(x[0], y)  # broadcasting does not make the written tensor larger


@pytest.mark.parametrize(("name", "dtype"), cases(UNARY))
def test_unary_operators_are_the_functions(name, dtype):
    apply, function, _ = UNARY[name]
    x = torch.tensor(values(dtype))
    found = apply(x)
    assert agree(found, getattr(xp, function)(x))
    np.testing.assert_allclose(found.numpy(), getattr(np, function)(x.numpy()), rtol=1e-6)


def test_matrix_products():
    x, y = xp.reshape(xp.arange(6.0), (2, 3)), xp.reshape(xp.arange(12.0), (3, 4))
    assert agree(x @ y, xp.matmul(x, y)) and agree(y.__rmatmul__(x), x @ y)
    assert (x[0] @ y).shape == (4,) and (x[0] @ x[0]).item() == 5.0
    for wrong in ((x, x), (x, 2.0), (2.0, x), (xp.asarray(1.0), x)):
        with pytest.raises((RuntimeError, TypeError, ValueError)):
            wrong[0] @ wrong[1]


def test_other_types_are_left_to_python():
    x = xp.ones(2)
    for apply, wrong in itertools.product((operator.add, operator.lt, operator.and_), ("text", None, object())):
        with pytest.raises(TypeError):
            apply(x, wrong)

    class Other:
        def __radd__(self, other):
            return "added"

    assert x + Other() == "added"


def test_in_place_operators_keep_the_dtype():
    x = xp.asarray([1, 2])
    for apply, number in ((operator.iadd, 1.5), (operator.itruediv, 2), (operator.imul, 1j)):
        with pytest.raises(RuntimeError, match="can't be cast"):
            apply(x, number)
    x = xp.ones(2, dtype=xp.float32)
    x += xp.ones(2, dtype=xp.float64)
    assert x.dtype is xp.float32 and x.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("name", ["add", "mul", "floordiv", "and", "xor", "eq", "gt"])
@pytest.mark.parametrize("dtype", ["uint64", "int64"])
def test_integers_that_int64_lacks_keep_their_bits(name, dtype):
    apply = (OPERATORS | COMPARISONS)[name][0]
    array = np.array([1, 7, -1]).astype(dtype)
    x, compiled = torch.tensor(array), torch.jit(lambda x: (apply(x, 2**63), apply(x, 2**64 - 1)), fullgraph=True)
    eager = apply(x, 2**63), apply(x, 2**64 - 1)
    for number, a, b in zip((2**63, 2**64 - 1), eager, compiled(x), strict=True):
        assert agree(a, b)
        if dtype == "uint64":
            np.testing.assert_array_equal(a.numpy(), apply(array, np.uint64(number)), strict=True)
        else:
            np.testing.assert_array_equal(a.numpy(), apply(pytorch.tensor(array), number).numpy(), strict=True)
    with pytest.raises(OverflowError):
        apply(x, 2**64)


# -- attributes -------------------------------------------------------------------------------------------------------


def test_attributes():
    x = xp.reshape(xp.arange(24, dtype=xp.int16), (2, 3, 4))
    assert x.dtype is xp.int16 and x.ndim == 3 and x.shape == (2, 3, 4) and isinstance(x.shape, tuple)
    assert x.device == xp.__array_namespace_info__().default_device() == xp.asarray(1).device
    assert x.size() == x.shape and x.numel() == math.prod(x.shape)  # PyTorch's, as it is written in docs/array_api.md
    assert x.mT.shape == (2, 4, 3) and agree(x.mT, xp.permute_dims(x, (0, 2, 1)))
    assert agree(x[0].T, xp.permute_dims(x[0], (1, 0))) and agree(x[0].mT, x[0].T)
    assert xp.zeros((0, 2)).T.shape == (2, 0) and xp.asarray(1.0).shape == () and xp.asarray(1.0).ndim == 0
    with pytest.raises(RuntimeError, match="mT"):
        xp.ones(3).mT  # noqa: B018
    with pytest.raises((AttributeError, TypeError)):
        x.shape[0] = 5
    for name in ("dtype", "shape", "ndim", "device"):
        with pytest.raises((AttributeError, RuntimeError)):
            setattr(x, name, None)


def test_namespace_of_a_tensor():
    x = xp.ones(1)
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2024.12") is xp
    assert x.__array_namespace__(api_version=None) is torch.nn.Parameter(x).__array_namespace__() is xp
    for wrong in ("2021.12", "2023.12", "2099.12", "text", 2024):
        with pytest.raises(ValueError, match=r"2024\.12"):
            x.__array_namespace__(api_version=wrong)
    compiled = torch.jit(lambda x: x.__array_namespace__().exp(x), fullgraph=True)
    assert agree(compiled(x), xp.exp(x))


def test_devices():
    x = xp.ones(2)
    assert x.to_device(x.device) is x and x.to_device("cpu", stream=None) is x
    with pytest.raises(ValueError, match="stream"):
        x.to_device("cpu", stream=1)
    with pytest.raises((AssertionError, RuntimeError)):
        x.to_device("cuda")
    with pytest.raises(TypeError):
        x.to_device(device="cpu")


# -- conversions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions_to_numbers(dtype):
    for number in (0, 1):
        x = xp.asarray(number, dtype=getattr(xp, dtype))
        assert bool(x) is bool(number) and type(complex(x)) is complex and complex(x) == number
        if dtype in COMPLEXES:
            for kind in (int, float):  # as PyTorch does; the standard asks for a TypeError
                assert kind(x) == number
                with pytest.raises(RuntimeError):
                    kind(x + 1j)
        else:
            assert int(x) == number and type(int(x)) is int and float(x) == number and type(float(x)) is float
        if dtype in INTEGERS:
            assert operator.index(x) == number and "ab"[x] == "ab"[number]
        elif dtype != "bool":
            with pytest.raises(TypeError):
                operator.index(x)


def test_conversions_of_special_numbers():
    for number in (math.nan, math.inf, -math.inf):
        x = xp.asarray(number)
        assert bool(x) is True and (float(x) == number or math.isnan(float(x)))
        with pytest.raises((ValueError, OverflowError)):
            int(x)
    assert bool(xp.asarray(-0.0)) is False and math.copysign(1.0, float(xp.asarray(-0.0))) == -1.0
    assert [bool(xp.asarray(z)) for z in (0j, 1j, complex(0, math.nan), -0j)] == [False, True, True, False]
    assert int(xp.asarray(-2.7)) == -2 and int(xp.asarray(2.7)) == 2
    assert int(xp.asarray(2**63 - 1)) == 2**63 - 1 and int(xp.asarray(np.uint64(2**64 - 1))) == 2**64 - 1
    assert complex(xp.asarray(2 - 3j)) == 2 - 3j and complex(xp.asarray(-math.inf)) == complex(-math.inf, 0.0)
    assert complex(xp.asarray(True)) == 1 + 0j and complex(xp.asarray(2.5)) == 2.5
    for convert in (bool, int, float, complex, operator.index):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            convert(xp.ones(2, dtype=xp.int64))


def test_numbers_in_compiled_functions():
    compiled = torch.jit(lambda x: (complex(x), float(x), xp.ones(2) * float(x)))
    for number in (2.5, 3.5):
        made, plain, tensor = compiled(xp.asarray(number))
        assert made == plain == number and tensor.tolist() == [number] * 2


def test_dlpack():
    x = xp.reshape(xp.arange(6.0), (2, 3))
    kind, index = x.__dlpack_device__()
    assert (kind, index) == (1, 0)
    for options in (
        {}, {"stream": None}, {"max_version": (1, 0)}, {"max_version": None}, {"dl_device": (kind, index)},
        {"copy": False},
    ):  # fmt: skip
        assert type(x.__dlpack__(**options)).__name__ == "PyCapsule"
    assert np.from_dlpack(x).tolist() == x.tolist()
    copied = torch.from_dlpack(x.__dlpack__(copy=True))
    copied[0, 0] = 9.0
    assert x[0, 0].item() == 0.0
    for options in ({"stream": 2}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError):
            x.__dlpack__(**options)
    with pytest.raises(TypeError):
        x.__dlpack__(None)


# -- indexing ---------------------------------------------------------------------------------------------------------

KEYS = [
    0, -1, 1, slice(None), slice(1, 2), slice(0, 2, 2), slice(5, 9), slice(-2, None), slice(2, 1), ..., None, (),
    (0, 1), (0, 1, 2), (-1, -3, -4), (..., 0), (0, ...), (slice(None), 1), (..., None),
    (None, ..., 0, None), (0, None, 1),
    (slice(None), slice(None, None, 2), 3), (slice(0, 0), ...), (slice(None), None, slice(1, 3)),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_basic_indexing(key):
    array = np.arange(24).reshape(2, 3, 4)
    x = torch.tensor(array)
    np.testing.assert_array_equal(x[key].numpy(), array[key], strict=True)
    written, wanted = torch.tensor(array), array.copy()
    written[key], wanted[key] = -7, -7
    np.testing.assert_array_equal(written.numpy(), wanted)
    written[key], wanted[key] = xp.asarray([5]), 5
    np.testing.assert_array_equal(written.numpy(), wanted)


ADVANCED = [
    ([0, 1, 1],), ([[0], [1]],), ([0, 1], [2, 0]), (1, [2, -1]), ([1, 0], 2), ([0, 1], [1, 2], [3, -1]),
    ([[0], [1]], [[0, 2]]), (slice(None), [2, 0]), (..., [3, 0]), ([],),
]  # fmt: skip


@pytest.mark.parametrize("key", ADVANCED, ids=str)
def test_indexing_by_tensors_of_integers(key):
    array = np.arange(24).reshape(2, 3, 4)
    x = torch.tensor(array)
    for name in ("int64", "int32"):
        ours = tuple(xp.asarray(k, dtype=getattr(xp, name)) if isinstance(k, list) else k for k in key)
        theirs = tuple(np.asarray(k, dtype=name) if isinstance(k, list) else k for k in key)
        np.testing.assert_array_equal(x[ours].numpy(), array[theirs], strict=True)
    written, wanted = torch.tensor(array), array.copy()
    written[ours], wanted[theirs] = 100, 100
    np.testing.assert_array_equal(written.numpy(), wanted)


@pytest.mark.parametrize("shape", [(2,), (2, 3), (2, 3, 4), ()])
def test_indexing_by_masks(shape):
    array = np.arange(24).reshape(2, 3, 4)
    mask = np.random.default_rng(2).integers(0, 2, shape).astype(bool)
    for chosen in (mask, np.zeros(shape, bool), np.ones(shape, bool)):
        x = torch.tensor(array)
        np.testing.assert_array_equal(x[torch.tensor(chosen)].numpy(), array[chosen], strict=True)
        wanted = array.copy()
        x[torch.tensor(chosen)], wanted[chosen] = -1, -1
        np.testing.assert_array_equal(x.numpy(), wanted)
    with pytest.raises(IndexError):
        torch.tensor(array)[xp.ones((3,), dtype=xp.bool)]


def test_positions_that_there_are_none_of():
    x = xp.ones((2, 3))
    for wrong in (2, -3, (0, 3), (0, 0, 0), (..., 5), xp.asarray([2])):
        with pytest.raises(IndexError):
            x[wrong]
        with pytest.raises(IndexError):
            x[wrong] = 1.0
    for wrong in (1.5, "0", xp.asarray([0.5])):
        with pytest.raises((IndexError, TypeError)):
            x[wrong]
    with pytest.raises(ValueError, match="greater than zero"):  # PyTorch's slices do not run backwards: flip does
        x[::-1]


def test_writes_convert_to_the_tensors_dtype():
    x = xp.zeros((2, 3), dtype=xp.int16)
    x[0] = xp.asarray([1, 2, 3], dtype=xp.int64)
    x[1, 1:] = 7
    assert x.tolist() == [[1, 2, 3], [0, 7, 7]] and x.dtype is xp.int16
    with pytest.raises((RuntimeError, ValueError)):
        x[0] = xp.ones((2, 3))
