"""The array API's dtypes: promotion, casts, limits, kinds, and what the namespace says of itself."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from array_api_names import DTYPES
from array_oracle import array_api_strict

import eagerjit as torch
from eagerjit import array_api as xp

INTEGERS = [name for name in DTYPES if "int" in name]
FLOATS = ["float32", "float64"]
COMPLEXES = ["complex64", "complex128"]
KINDS = {
    "bool": {"bool"},
    "signed integer": {name for name in INTEGERS if name[0] == "i"},
    "unsigned integer": {name for name in INTEGERS if name[0] == "u"},
    "integral": {*INTEGERS},
    "real floating": {*FLOATS},
    "complex floating": {*COMPLEXES},
    "numeric": {*DTYPES} - {"bool"},
}


def dtype(name: str) -> torch.dtype:
    return getattr(xp, name)


# -- promotion --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations_with_replacement(DTYPES, 2)))
def test_promotion_is_the_standards(first, second):
    try:
        wanted = str(array_api_strict.result_type(*(getattr(array_api_strict, n) for n in (first, second))))
    except TypeError:  # of two kinds, or with uint64 and a signed one, it is left open
        return
    wanted = wanted.rpartition(".")[2]
    a, b = xp.ones((2,), dtype=dtype(first)), xp.ones((), dtype=dtype(second))
    for pair in itertools.product((dtype(first), a, a[0]), (dtype(second), b)):
        assert xp.result_type(*pair) is xp.result_type(*pair[::-1]) is dtype(wanted)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(DTYPES, repeat=2)))
def test_can_cast_where_promotion_leads(source, target):
    wanted = array_api_strict.can_cast(*(getattr(array_api_strict, n) for n in (source, target)))
    assert xp.can_cast(dtype(source), dtype(target)) is wanted
    assert xp.can_cast(xp.ones((), dtype=dtype(source)), dtype(target)) is wanted


def test_result_types_with_numbers():
    for name in DTYPES:
        kinds = "bool" if name == "bool" else name.strip("u")[:3]
        numbers = {"bool": (True,), "int": (3,), "flo": (3, 2.5), "com": (3, 2.5, 1j)}[kinds]
        for number in numbers:
            assert xp.result_type(dtype(name), number) is dtype(name)
            assert xp.result_type(number, xp.ones(2, dtype=dtype(name))) is dtype(name)
    assert xp.result_type(xp.float32, 1j) is xp.complex64
    assert xp.result_type(2, xp.float64, 1j) is xp.complex128
    assert xp.result_type(xp.int8, xp.ones((), dtype=xp.int16), 5) is xp.int16
    for wrong in ((), (1, 2.0)):
        with pytest.raises(ValueError, match="at least one"):
            xp.result_type(*wrong)
    with pytest.raises(TypeError):
        xp.result_type(xp.int8, "int8")


def test_no_dtype_holds_uint64_and_signed_integers():
    for signed in (xp.int8, xp.int64):
        with pytest.raises(RuntimeError, match="UInt64"):
            xp.result_type(xp.uint64, signed)
        assert not xp.can_cast(xp.uint64, signed)


# -- casts ------------------------------------------------------------------------------------------------------------


def extremes(name: str) -> np.ndarray:
    """Numbers of a dtype, its limits among them."""
    if name == "bool":
        return np.array([False, True])
    if name in INTEGERS:
        limits = np.iinfo(name)
        return np.array([0, 1, 2, 100, limits.max, limits.max - 1, limits.min, limits.min // 2], name)
    numbers = np.array([0.0, -0.0, 1.5, 100.25, 65504.0])
    return (numbers + 1j * numbers[::-1] if name in COMPLEXES else numbers).astype(name)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(DTYPES, repeat=2)))
def test_astype(source, target):
    values = extremes(source)
    x = torch.tensor(values)
    if source in COMPLEXES and target not in ("bool", *COMPLEXES):
        with pytest.raises(TypeError, match="real or the imaginary part"):
            xp.astype(x, dtype(target))
        return
    if source in FLOATS and target in INTEGERS:  # out of range nothing is said
        values = values[(values >= 0) & (values <= np.iinfo(target).max)]
        x = torch.tensor(values)
    found = xp.astype(x, dtype(target))
    assert found.dtype is dtype(target) and found is not x
    np.testing.assert_array_equal(found.numpy(), values.astype(target), strict=True)
    kept = xp.astype(x, dtype(target), copy=False)
    assert (kept is x) == (source == target)
    if source == target:
        found[...] = values[0]
        np.testing.assert_array_equal(x.numpy(), values)


def test_large_unsigned_numbers_from_and_to_floats():
    whole = np.array([2**63, 2**63 + 2**40, 2**64 - 2**11, 2**62, 5], np.uint64)
    real = xp.astype(torch.tensor(whole), xp.float64)
    np.testing.assert_array_equal(real.numpy(), whole.astype(np.float64))
    np.testing.assert_array_equal(xp.astype(real, xp.uint64).numpy(), whole, strict=True)
    compiled = torch.jit(lambda x: xp.astype(xp.astype(x, xp.uint64) // 2, xp.float64))
    np.testing.assert_array_equal(compiled(real).numpy(), (whole // 2).astype(np.float64))


def test_astype_options():
    x = xp.ones(2)
    assert xp.astype(x, xp.int8, device=x.device).tolist() == xp.astype(x, xp.int8, device="cpu").tolist() == [1, 1]
    with pytest.raises((AssertionError, RuntimeError, NotImplementedError)):
        xp.astype(x, xp.int8, device="cuda")
    with pytest.raises(TypeError, match="astype"):
        xp.astype([1.0], xp.int8)
    compiled = torch.jit(lambda x: xp.astype(x, xp.int16), fullgraph=True)
    assert compiled(x).dtype is xp.int16


@pytest.mark.parametrize("name", INTEGERS)
def test_products_of_integer_matrices_wrap(name):
    generator = np.random.default_rng(3)
    limits = np.iinfo(name)
    a = generator.integers(limits.min, limits.max, (5, 70), name, endpoint=True)
    b = generator.integers(limits.min, limits.max, (70, 3), name, endpoint=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = a @ b
    x, y = torch.tensor(a), torch.tensor(b)
    np.testing.assert_array_equal(xp.matmul(x, y).numpy(), wanted, strict=True)
    np.testing.assert_array_equal(xp.matmul(x, xp.matrix_transpose(torch.tensor(b.T.copy()))).numpy(), wanted)


# -- limits and kinds -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FLOATS, *COMPLEXES])
def test_finfo(name):
    limits, parts = np.finfo(name), {"complex64": "float32", "complex128": "float64"}.get(name, name)
    for found in (xp.finfo(dtype(name)), xp.finfo(xp.ones(1, dtype=dtype(name)))):
        assert found.bits == np.dtype(parts).itemsize * 8 and found.dtype is dtype(parts)
        for attribute in ("eps", "max", "min", "smallest_normal"):
            value = getattr(found, attribute)
            assert type(value) is float and value == float(getattr(limits, attribute))


@pytest.mark.parametrize("name", INTEGERS)
def test_iinfo(name):
    limits = np.iinfo(name)
    for found in (xp.iinfo(dtype(name)), xp.iinfo(xp.ones((), dtype=dtype(name)))):
        assert (found.bits, found.max, found.min, found.dtype) == (limits.bits, limits.max, limits.min, dtype(name))
        assert type(found.max) is type(found.min) is int


def test_limits_of_other_kinds_are_refused():
    for function, wrong in ((xp.finfo, xp.int8), (xp.iinfo, xp.float32), (xp.finfo, xp.bool), (xp.iinfo, xp.bool)):
        with pytest.raises(TypeError):
            function(wrong)
        with pytest.raises(TypeError):
            function(xp.ones(2, dtype=wrong))
    for function in (xp.finfo, xp.iinfo, lambda x: xp.can_cast(x, xp.int8)):
        with pytest.raises(TypeError, match="dtype or a Tensor"):
            function("float32")


@pytest.mark.parametrize("name", DTYPES)
def test_isdtype(name):
    for kind, members in KINDS.items():
        assert xp.isdtype(dtype(name), kind) is (name in members)
        assert xp.isdtype(dtype(name), (kind, xp.bool)) is (name in members or name == "bool")
    for other in DTYPES:
        assert xp.isdtype(dtype(name), dtype(other)) is (name == other)
        assert (dtype(name) == dtype(other)) is (name == other)
    assert xp.isdtype(dtype(name), kind=()) is False
    assert xp.isdtype(dtype=dtype(name), kind=(dtype(name), "bool")) is True


def test_kinds_that_there_are_none_of():
    with pytest.raises(ValueError, match="no kind of dtypes named 'floating'"):
        xp.isdtype(xp.float32, "floating")
    with pytest.raises(TypeError):
        xp.isdtype(xp.float32, 3)


def test_dtypes_beyond_the_standards_have_kinds_too():
    for extra in (torch.float16, torch.bfloat16):
        assert xp.isdtype(extra, "real floating") and xp.isdtype(extra, "numeric")
        assert xp.result_type(extra, xp.float32) is xp.float32


# -- what the namespace says ------------------------------------------------------------------------------------------


def test_info():
    info = xp.__array_namespace_info__()
    known = info.capabilities()
    assert known == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert xp.nonzero(xp.asarray([0, 3]))[0].tolist() == [1] and xp.arange(3)[xp.arange(3) > 0].tolist() == [1, 2]
    assert xp.zeros((1,) * 64).ndim == 64
    assert info.default_device() == xp.ones(1).device and info.devices() == [info.default_device()]
    assert info.dtypes() == {name: dtype(name) for name in DTYPES}
    for kind, members in KINDS.items():
        assert set(info.dtypes(kind=kind)) == members
    assert set(info.dtypes(kind=("bool", "complex floating"), device="cpu")) == {"bool", *COMPLEXES}
    assert info.dtypes(kind=()) == {}
    for function in (info.dtypes, info.default_dtypes):
        with pytest.raises((AssertionError, RuntimeError)):
            function(device="cuda")
    with pytest.raises(ValueError, match="no kind"):
        info.dtypes(kind="strings")


def test_default_dtypes_are_those_of_numbers():
    def defaults():
        return xp.__array_namespace_info__().default_dtypes()

    def made():
        numbers = {"real floating": 1.5, "complex floating": 1j, "integral": 3}
        return {kind: xp.asarray(number).dtype for kind, number in numbers.items()}

    assert defaults() == made() | {"indexing": xp.argmax(xp.ones(2)).dtype}
    assert defaults()["real floating"] is xp.float32
    try:
        torch.set_default_dtype(xp.float64)
        assert defaults() == made() | {"indexing": xp.int64}
        assert defaults()["complex floating"] is xp.complex128 is xp.linspace(0, 1j, 3).dtype
        assert xp.eye(2).dtype is xp.zeros(2).dtype is xp.full(2, 1.0).dtype is xp.arange(1.0).dtype is xp.float64
    finally:
        torch.set_default_dtype(xp.float32)
