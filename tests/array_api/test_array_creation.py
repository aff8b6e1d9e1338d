"""The array API's functions that make tensors."""

from __future__ import annotations

import array
import itertools
import math

import numpy as np
import pytest
import torch as pytorch
from array_api_names import DTYPES

import eagerjit as torch
from eagerjit import array_api as xp

NUMERIC = DTYPES[1:]
REFUSED = (AssertionError, RuntimeError, NotImplementedError)  # what PyTorch raises for a device that isn't there


def dtype(name: str) -> torch.dtype:
    return getattr(xp, name)


def same(found: torch.Tensor, wanted: np.ndarray) -> None:
    """Assert shape, dtype and values."""
    np.testing.assert_array_equal(found.numpy(), wanted, strict=True)


# -- sequences --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [
    (5,), (0,), (-3,), (2, 7), (7, 2), (2, 2), (0, 10, 3), (0, 9, 3), (10, 0, -3), (0, 10, -1), (-2, 3, 2),
])  # fmt: skip
def test_arange_of_integers(arguments):
    same(xp.arange(*arguments), np.arange(*arguments, dtype=np.int64))
    same(xp.arange(*arguments, dtype=xp.int16), np.arange(*arguments, dtype=np.int16))
    same(xp.arange(*arguments, dtype=xp.float64), np.arange(*arguments, dtype=np.float64))


@pytest.mark.parametrize(
    "arguments", [(2.5,), (0.0, 1.0, 0.25), (1, 2, 0.3), (5.0, 1), (1.0, -1.0, -0.5), (0, 1.0, -1)]
)
def test_arange_of_floats(arguments):
    found = xp.arange(*arguments)
    wanted = np.arange(*arguments)
    assert found.dtype is xp.float32 and found.shape == wanted.shape
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)


def test_arange_keywords_and_errors():
    same(xp.arange(1, stop=7, step=2, device="cpu"), np.array([1, 3, 5]))
    same(xp.arange(3, step=2), np.array([0, 2]))
    with pytest.raises(ValueError, match="step"):
        xp.arange(0, 5, 0)
    with pytest.raises(REFUSED):
        xp.arange(3, device="cuda")


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("arguments", [
    (0, 1, 5), (1.0, -1.0, 4), (2, 2, 3), (0.0, 1.0, 1), (0, 5, 0), (0, 1j, 3), (1 + 1j, -2j, 4), (-3.5, 7, 50)
])  # fmt: skip
def test_linspace(arguments, endpoint):
    wanted = np.linspace(*arguments, endpoint=endpoint)
    for name in ("complex64", "complex128") if wanted.dtype.kind == "c" else ("float32", "float64"):
        found = xp.linspace(*arguments, dtype=dtype(name), endpoint=endpoint)
        assert found.dtype is dtype(name)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6, atol=1e-7)
        if len(wanted):
            assert found[0].item() == arguments[0]
        if endpoint and len(wanted) > 1:
            assert found[-1].item() == arguments[1]
    assert (
        xp.linspace(*arguments[:2], num=arguments[2]).dtype.name
        == {"c": "complex64", "f": "float32"}[wanted.dtype.kind]
    )


def test_linspace_errors():
    with pytest.raises(ValueError, match="negative"):
        xp.linspace(0, 1, -1)
    with pytest.raises(TypeError):
        xp.linspace(0, 1, 2.5)


# -- filled -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), 3, (0,), (2, 3), (2, 0, 1)])
def test_filled(shape, name):
    sizes = (shape,) if isinstance(shape, int) else shape
    number = {"bool": True, "com": 2 - 1j, "flo": 2.5}.get(name if name == "bool" else name[:3], 7)
    for options in ({"dtype": dtype(name)}, {"dtype": dtype(name), "device": "cpu"}):
        same(xp.zeros(shape, **options), np.zeros(sizes, name))
        same(xp.ones(shape, **options), np.ones(sizes, name))
        same(xp.full(shape, number, **options), np.full(sizes, number, name))
        made = xp.empty(shape, **options)
        assert made.shape == sizes and made.dtype is dtype(name)
    x = xp.ones(shape, dtype=dtype(name))
    for options, wanted in (({}, name), ({"dtype": xp.float64, "device": x.device}, "float64")):
        same(xp.zeros_like(x, **options), np.zeros(sizes, wanted))
        same(xp.ones_like(x, **options), np.ones(sizes, wanted))
        assert xp.empty_like(x, **options).shape == sizes and xp.empty_like(x, **options).dtype is dtype(wanted)
    same(xp.full_like(x, number), np.full(sizes, number, name))
    same(xp.full_like(x, 3, dtype=xp.int8), np.full(sizes, 3, np.int8))


def test_default_dtypes_of_filled():
    for made in (xp.zeros(2), xp.ones(2), xp.empty(2), xp.eye(2), xp.full(2, 1.5)):
        assert made.dtype is xp.float32
    assert (
        xp.full(2, 3).dtype is xp.int64 and xp.full(2, True).dtype is xp.bool and xp.full(2, 1j).dtype is xp.complex64
    )
    for function in (xp.zeros_like, xp.ones_like, xp.empty_like, lambda x: xp.full_like(x, 1)):
        with pytest.raises(TypeError, match="_like"):
            function([1.0])
    with pytest.raises(REFUSED):
        xp.zeros(2, device="cuda")


@pytest.mark.parametrize("name", DTYPES)
def test_eye(name):
    for rows, columns, k in itertools.product((0, 1, 3), (None, 0, 2, 4), (-4, -1, 0, 1, 2)):
        same(xp.eye(rows, columns, k=k, dtype=dtype(name)), np.eye(rows, columns, k=k, dtype=name))


@pytest.mark.parametrize("name", DTYPES)
def test_triangles(name):
    values = (np.arange(24).reshape(2, 3, 4) % 7 + 1).astype(name)
    x = torch.tensor(values)
    for k in range(-4, 6):
        same(xp.tril(x, k=k), np.tril(values, k))
        same(xp.triu(x, k=k), np.triu(values, k))
    same(xp.tril(x[:0]), values[:0])
    for function in (xp.tril, xp.triu):
        assert function(xp.full((2, 2), math.nan), k=-5 if function is xp.tril else 5).tolist() == [[0.0, 0.0]] * 2
        with pytest.raises((RuntimeError, ValueError)):
            function(xp.ones(3))


@pytest.mark.parametrize("name", NUMERIC)
@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(indexing, name):
    vectors = [np.arange(n).astype(name) for n in (3, 1, 4, 2)]
    for count in range(1, 5):
        found = xp.meshgrid(*map(torch.tensor, vectors[:count]), indexing=indexing)
        assert type(found) is list
        for a, b in zip(found, np.meshgrid(*vectors[:count], indexing=indexing), strict=True):
            same(a, b)


def test_meshgrid_without_or_with_wrong_arguments():
    assert xp.meshgrid() == xp.meshgrid(indexing="ij") == []
    assert [m.shape for m in xp.meshgrid(xp.arange(2), xp.arange(3))] == [(3, 2)] * 2
    with pytest.raises(ValueError, match="'yx'"):
        xp.meshgrid(xp.arange(2), indexing="yx")
    with pytest.raises(TypeError, match="meshgrid"):
        xp.meshgrid([1, 2])


# -- conversions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("data", "name"), [
    (True, "bool"), (3, "int64"), (2.5, "float32"), (1j, "complex64"), ([True, False], "bool"), ([True, 2], "int64"),
    ([1, 2.5], "float32"), ([1, 2.5, 1j], "complex64"), ([[1, 2], [3, 4]], "int64"), ((1.0, (2.0)), "float32"),
    ([], "float32"), ([[], []], "float32"), ([[True], [0]], "int64"), (range(3), "int64"),
])  # fmt: skip
def test_asarray_of_numbers_and_sequences(data, name):
    wanted = np.asarray(data).astype(name)
    for copy in (None, True):
        same(xp.asarray(data, copy=copy), wanted)
    with pytest.raises(ValueError, match="copy=False"):
        xp.asarray(data, copy=False)
    same(xp.asarray(data, dtype=xp.complex128), wanted.astype("complex128"))


@pytest.mark.parametrize("name", DTYPES)
def test_asarray_of_arrays_shares_their_memory_if_it_may(name):
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(name)
    tensor, theirs = torch.tensor(values), pytorch.tensor(values)
    for source in (values, tensor, theirs, memoryview(values)):
        original = values if isinstance(source, memoryview) else source
        for copy in (None, False, True):
            found = xp.asarray(source, copy=copy, device="cpu")
            same(found, np.array([[0, 1, 1], [1, 0, 1]]).astype(name))
            found[0, 0] = 1
            assert bool(original[0, 0]) == (copy is not True)
            original[0, 0] = 0
        assert xp.asarray(source, dtype=dtype(name), copy=False).dtype is dtype(name)
        other = xp.int8 if name == "float32" else xp.float32
        if not name.startswith("com"):
            assert xp.asarray(source, dtype=other).dtype is other
            with pytest.raises(ValueError, match="copy=False"):
                xp.asarray(source, dtype=other, copy=False)
    assert xp.asarray(tensor) is tensor


def test_asarray_of_buffers():
    numbers = array.array("d", [1.0, 2.0])
    found = xp.asarray(numbers)
    numbers[0] = 5.0
    assert found.tolist() == [5.0, 2.0] and found.dtype is xp.float64
    assert xp.asarray(bytearray(b"ab")).tolist() == [97, 98] and xp.asarray(b"ab").dtype is xp.uint8
    assert xp.asarray(np.float64(2.5)).dtype is xp.float64 and xp.asarray(np.int16(2)).dtype is xp.int16


def test_asarray_of_what_is_none():
    for wrong in (object(), "text", {1, 2}, [object()]):
        with pytest.raises((TypeError, RuntimeError, ValueError)):
            xp.asarray(wrong)
    with pytest.raises(ValueError, match="expected sequence of length 2"):
        xp.asarray([[1, 2], [3]])
    with pytest.raises(REFUSED):
        xp.asarray([1], device="cuda")


def test_from_dlpack():
    for source in (np.arange(6.0).reshape(2, 3), pytorch.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(2, 3)):
        shared, copied = xp.from_dlpack(source), xp.from_dlpack(source, copy=True, device="cpu")
        also = xp.from_dlpack(source, copy=False, device=shared.device)
        source[0, 0] = 9.0
        assert [x[0, 0].item() for x in (shared, also, copied)] == [9.0, 9.0, 0.0]
        assert shared.shape == (2, 3) and copied[1].tolist() == [3.0, 4.0, 5.0]


def test_from_dlpack_errors():
    class Elsewhere:
        def __dlpack__(self, **options):
            raise AssertionError("not reached")

        def __dlpack_device__(self):
            return (2, 0)

    for wrong in ([1.0], 3, "text"):
        with pytest.raises(AttributeError, match="__dlpack__"):
            xp.from_dlpack(wrong)
    with pytest.raises(BufferError):
        xp.from_dlpack(Elsewhere())
    with pytest.raises(BufferError, match="cuda"):
        xp.from_dlpack(np.ones(2), device="cuda")
    with pytest.raises(BufferError):
        xp.from_dlpack(xp.ones(2).requires_grad_())


# -- compiled ---------------------------------------------------------------------------------------------------------


def test_made_in_compiled_functions():
    def make(x, number):
        grids = xp.meshgrid(x, xp.arange(x.shape[0], dtype=x.dtype), indexing="ij")
        square = xp.eye(x.shape[0], k=1) + xp.full((x.shape[0], x.shape[0]), number) + grids[0] * grids[1]
        return xp.tril(square, k=1), xp.zeros_like(x) + xp.linspace(0.0, 1.0, 3)[1], xp.asarray([1.0, 2.0])

    compiled = torch.jit(make, fullgraph=True)
    for size, number in ((3, 2.5), (4, 3.5), (5, -1.0)):
        x = xp.arange(size, dtype=xp.float32) * 0.5
        for a, b in zip(compiled(x, number), make(x, number), strict=True):
            same(a, b.numpy())
    assert compiled.cache_info().compiles == 1
