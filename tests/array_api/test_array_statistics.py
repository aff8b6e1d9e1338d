"""The array API's reductions and sums so far: against array-api-strict, special cases, compiled, gradients, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from array_oracle import (
    COMPLEX,
    CUBE,
    EMPTY,
    INTEGERS,
    MATRIX,
    SCALAR,
    SMALL,
    TRUTH,
    VECTOR,
    Case,
    check,
    check_compiled,
    check_gradient,
    check_sizes,
    first_of_each,
    tensors,
)

import eagerjit as ej
from eagerjit import array_api as xp

REDUCTIONS = ("max", "min", "sum", "prod", "mean", "std", "var", "all", "any")
NUMBERS = ("sum", "prod", "mean")
AXES: tuple[Any, ...] = (None, 0, -1, (0, 2), (-1, -2), (0, 1, 2))
NOT_NUMBERS = np.array([[np.nan, 1.0, -np.inf], [2.0, 0.0, np.inf]], np.float32)
PARTLY_ZERO = np.array([0j, complex(0, 2), complex(np.nan, 0)])


def _reduction(name: str, **options: Any) -> Any:
    return lambda t, x: getattr(t, name)(x, **options)


CASES: dict[str, Case] = {
    **{
        f"{name} over {axis}{' kept' * keepdims}": (_reduction(name, axis=axis, keepdims=keepdims), [CUBE])
        for name in REDUCTIONS
        for axis in AXES
        for keepdims in (False, True)
    },
    **{f"{name} float32": (_reduction(name), [MATRIX]) for name in REDUCTIONS},
    **{f"{name} 0-d": (_reduction(name), [SCALAR]) for name in REDUCTIONS},
    **{f"{name} NaN and infinity": (_reduction(name, axis=0), [NOT_NUMBERS]) for name in REDUCTIONS},
    **{f"{name} complex": (_reduction(name, axis=1), [COMPLEX]) for name in (*NUMBERS, "all", "any")},
    **{f"{name} parts of zero": (_reduction(name), [PARTLY_ZERO]) for name in ("all", "any", "sum")},
    **{f"{name} int32": (_reduction(name, axis=1), [INTEGERS]) for name in ("max", "min", "sum", "prod", "all", "any")},
    **{f"{name} int8": (_reduction(name), [SMALL]) for name in ("max", "min", "sum", "prod")},
    **{f"{name} of truth": (_reduction(name, axis=0), [TRUTH]) for name in ("all", "any")},
    **{
        f"{name} of nothing": (_reduction(name), [EMPTY])
        for name in ("sum", "prod", "mean", "std", "var", "all", "any")
    },
    **{f"{name} along nothing": (_reduction(name, axis=0), [EMPTY]) for name in ("sum", "prod", "mean", "all", "any")},
    **{f"{name} along something": (_reduction(name, axis=1), [EMPTY]) for name in REDUCTIONS},
    **{
        f"{name} in {dtype}": (
            lambda t, x, name=name, dtype=dtype: getattr(t, name)(x, dtype=getattr(t, dtype), axis=0),
            [SMALL],
        )
        for name in ("sum", "prod")
        for dtype in ("int8", "int16", "int64", "float32", "float64", "complex64")
    },
    "sum float32 in float64": (lambda t, x: t.sum(x, dtype=t.float64), [MATRIX]),
    "sum complex of nothing": (_reduction("sum"), [COMPLEX[:0]]),
    **{f"{name} corrected": (_reduction(name, correction=1, axis=1), [CUBE]) for name in ("std", "var")},
    **{f"{name} corrected by a fraction": (_reduction(name, correction=0.5), [VECTOR]) for name in ("std", "var")},
    **{f"{name} corrected upwards": (_reduction(name, correction=-1), [VECTOR]) for name in ("std", "var")},
    "cumulative_sum": (lambda t, x: t.cumulative_sum(x), [VECTOR]),
    "cumulative_sum axis": (lambda t, x: t.cumulative_sum(x, axis=1), [CUBE]),
    "cumulative_sum initial": (lambda t, x: t.cumulative_sum(x, axis=-1, include_initial=True), [MATRIX]),
    "cumulative_sum int8": (lambda t, x: t.cumulative_sum(x, axis=0), [SMALL]),
    "cumulative_sum dtype": (lambda t, x: t.cumulative_sum(x, axis=0, dtype=t.int8, include_initial=True), [SMALL]),
    "cumulative_sum floats": (lambda t, x: t.cumulative_sum(x, axis=0, dtype=t.float64), [MATRIX]),
    "cumulative_sum complex": (lambda t, x: t.cumulative_sum(x, axis=0), [COMPLEX]),
    "cumulative_sum empty": (lambda t, x: t.cumulative_sum(x, axis=0, include_initial=True), [EMPTY]),
    "cumulative_sum NaN": (lambda t, x: t.cumulative_sum(x, axis=1), [NOT_NUMBERS]),
    "cumulative_prod": (lambda t, x: t.cumulative_prod(x), [VECTOR]),
    "cumulative_prod axis": (lambda t, x: t.cumulative_prod(x, axis=-2), [CUBE]),
    "cumulative_prod initial": (lambda t, x: t.cumulative_prod(x, axis=0, include_initial=True), [MATRIX]),
    "cumulative_prod int32": (lambda t, x: t.cumulative_prod(x, axis=1), [INTEGERS]),
    "cumulative_prod dtype": (lambda t, x: t.cumulative_prod(x, axis=1, dtype=t.float32), [INTEGERS]),
    "cumulative_prod empty": (lambda t, x: t.cumulative_prod(x, axis=0, include_initial=True), [EMPTY]),
    "cumulative_prod complex": (lambda t, x: t.cumulative_prod(x, axis=1), [COMPLEX]),
    "diff": (lambda t, x: t.diff(x), [MATRIX]),
    "diff axis": (lambda t, x: t.diff(x, axis=0), [CUBE]),
    "diff twice": (lambda t, x: t.diff(x, n=2), [CUBE]),
    "diff not at all": (lambda t, x: t.diff(x, n=0), [MATRIX]),
    "diff prepend": (lambda t, x, y: t.diff(x, prepend=y), [MATRIX, MATRIX[:, :2]]),
    "diff append": (lambda t, x, y: t.diff(x, append=y, axis=0), [MATRIX, MATRIX[:1]]),
    "diff both": (lambda t, x, y, z: t.diff(x, prepend=y, append=z, n=3), [MATRIX, MATRIX[:, :1], MATRIX[:, 2:]]),
    "diff integers": (lambda t, x: t.diff(x), [INTEGERS]),
    "diff complex": (lambda t, x: t.diff(x, axis=-2), [COMPLEX]),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_strict_namespace(name: str) -> None:
    check(CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_compiled_gives_the_same_bits(name: str) -> None:
    check_compiled(CASES[name])


@pytest.mark.parametrize("name", first_of_each(CASES))
def test_compiled_serves_other_sizes(name: str) -> None:
    check_sizes(CASES[name])


@pytest.mark.parametrize("name", REDUCTIONS)
def test_over_no_axes_each_element_is_reduced_alone(name: str) -> None:
    (x,) = tensors([MATRIX])
    found = getattr(xp, name)(x, axis=())
    expected = {"std": x * 0, "var": x * 0, "all": x != 0, "any": x != 0}.get(name, x)
    assert found.dtype is expected.dtype
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["std", "var"])
@pytest.mark.parametrize(("size", "correction"), [(0, 0), (1, 1), (2, 2), (2, 2.5), (3, 7)])
def test_no_spread_of_fewer_elements_than_the_correction(name: str, size: int, correction: float) -> None:
    x = ej.tensor([1.0, 5.0, 3.0])[:size]
    assert math.isnan(getattr(xp, name)(x, correction=correction).item())
    assert math.isnan(ej.jit(lambda x: getattr(xp, name)(x, correction=correction))(x).item())
    kept = getattr(xp, name)(ej.ones(2, size, 3), correction=correction, axis=1, keepdims=True)
    assert tuple(kept.shape) == (2, 1, 3)
    assert kept.isnan().all().item()


@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
def test_dtypes_of_sums_and_products(name: str) -> None:
    """Integers as the widest of their kind."""
    function = getattr(xp, name)
    signed, unsigned = (xp.int8, xp.int16, xp.int32, xp.int64), (xp.uint8, xp.uint16, xp.uint32, xp.uint64)
    for dtype in signed + unsigned:
        assert function(ej.ones(3, dtype=dtype)).dtype is (xp.int64 if dtype in signed else xp.uint64)
        assert function(ej.ones(3, dtype=dtype), dtype=dtype).dtype is dtype
    for dtype in (xp.float32, xp.float64, xp.complex64, xp.complex128):
        assert function(ej.ones(3, dtype=dtype)).dtype is dtype


def test_casts_before_summing() -> None:
    x = ej.tensor([200, 100], dtype=xp.uint8)
    assert xp.sum(x, dtype=xp.int16).item() == 300
    assert xp.sum(x, dtype=xp.uint8).item() == 44
    assert xp.cumulative_sum(x, dtype=xp.uint8).tolist() == [200, 44]


@pytest.mark.parametrize("name", ["max", "min", "sum", "prod", "mean", "std", "var"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_nan_spreads_from_any_place(name: str, place: int) -> None:
    values = [1.0, 2.0, 3.0]
    values[place] = math.nan
    assert math.isnan(getattr(xp, name)(ej.tensor(values)).item())


def test_mean_of_no_complex_numbers_is_nan_in_both_parts() -> None:
    found = xp.mean(ej.zeros(0, dtype=xp.complex64)).item()
    assert math.isnan(found.real)
    assert math.isnan(found.imag)


GRADIENTS: dict[str, tuple[Any, Any, list[np.ndarray]]] = {
    **{
        name: (lambda x, name=name: getattr(xp, name)(x, axis=(0, 2)), lambda x, theirs=theirs: theirs(x), [CUBE])
        for name, theirs in {
            "max": lambda x: x.amax((0, 2)),
            "min": lambda x: x.amin((0, 2)),
            "sum": lambda x: x.sum((0, 2)),
            "prod": lambda x: x.prod(2).prod(0),
            "mean": lambda x: x.mean((0, 2)),
            "std": lambda x: x.std((0, 2), correction=0),
            "var": lambda x: x.var((0, 2), correction=0),
        }.items()
    },
    "cumulative_sum": (lambda x: xp.cumulative_sum(x, axis=1), lambda x: x.cumsum(1), [MATRIX]),
    "cumulative_prod": (
        lambda x: xp.cumulative_prod(x, axis=1, include_initial=True)[:, 1:],
        lambda x: x.cumprod(1),
        [MATRIX],
    ),
    "diff": (lambda x, y: xp.diff(x, n=2, prepend=y), lambda x, y: x.diff(2, prepend=y), [MATRIX, MATRIX[:, :1]]),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_those_of_pytorch(name: str) -> None:
    check_gradient(*GRADIENTS[name])


WRONG: dict[str, tuple[Any, Any]] = {
    **{f"{name} at no axis": (lambda v, m, n=name: getattr(xp, n)(m, axis=2), IndexError) for name in REDUCTIONS},
    **{f"{name} 0-d at 0": (lambda v, m, n=name: getattr(xp, n)(v.sum(), axis=0), IndexError) for name in REDUCTIONS},
    **{f"{name} twice": (lambda v, m, n=name: getattr(xp, n)(m, axis=(1, -1)), ValueError) for name in REDUCTIONS},
    **{f"{name} of a list": (lambda v, m, n=name: getattr(xp, n)([1.0]), TypeError) for name in REDUCTIONS},
    "max of nothing": (lambda v, m: xp.max(m[:0]), (RuntimeError, IndexError)),
    "min along nothing": (lambda v, m: xp.min(m[:0], axis=0), (RuntimeError, IndexError)),
    "mean of integers": (lambda v, m: xp.mean(m.int()), RuntimeError),
    "var of integers": (lambda v, m: xp.var(m.int()), RuntimeError),
    "std of an integer": (lambda v, m: xp.std(m[0, :1].int(), correction=1), RuntimeError),
    "cumulative_sum without an axis": (lambda v, m: xp.cumulative_sum(m), ValueError),
    "cumulative_prod without an axis": (lambda v, m: xp.cumulative_prod(m), ValueError),
    "cumulative_sum at no axis": (lambda v, m: xp.cumulative_sum(m, axis=2), IndexError),
    "cumulative_prod 0-d": (lambda v, m: xp.cumulative_prod(v.sum()), ValueError),
    "diff at no axis": (lambda v, m: xp.diff(m, axis=2), IndexError),
    "diff 0-d": (lambda v, m: xp.diff(v.sum()), IndexError),
    "diff negative": (lambda v, m: xp.diff(m, n=-1), ValueError),
    "diff prepend that does not fit": (lambda v, m: xp.diff(m, prepend=m[:2]), RuntimeError),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_raise(name: str) -> None:
    call, error = WRONG[name]
    with pytest.raises(error):
        call(*tensors([VECTOR, MATRIX]))
