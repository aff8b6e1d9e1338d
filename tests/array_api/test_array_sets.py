"""The array API's functions of different elements: against array-api-strict, special cases, compiled."""

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
    SCALAR,
    SMALL,
    TRUTH,
    VECTOR,
    Case,
    check,
    check_compiled,
    check_sizes,
    first_of_each,
    flat,
)

import eagerjit as ej
from eagerjit import array_api as xp

NAMES = ("unique_all", "unique_counts", "unique_inverse", "unique_values")
FIELDS = {
    "unique_all": ("values", "indices", "inverse_indices", "counts"),
    "unique_counts": ("values", "counts"),
    "unique_inverse": ("values", "inverse_indices"),
}
REPEATED = np.array([[2.5, -1.0, 2.5], [7.0, -1.0, 2.5]], np.float32)
ARRAYS = {
    "vector": VECTOR, "matrix": REPEATED, "cube": CUBE, "integers": INTEGERS, "int8": SMALL, "truth": TRUTH,
    "complex": COMPLEX, "0-d": SCALAR, "empty": EMPTY, "NaN": np.array([math.nan, 1.0, math.nan, 1.0]),
    "uint8": np.array([3, 255, 3, 0], np.uint8),
}  # fmt: skip
CASES: dict[str, Case] = {
    f"{name} {kind}": (lambda t, x, name=name: getattr(t, name)(x), [array])
    for name in NAMES
    for kind, array in ARRAYS.items()
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


@pytest.mark.parametrize("name", FIELDS)
def test_results_have_the_names_of_the_standard(name: str) -> None:
    result = getattr(xp, name)(ej.tensor(REPEATED))
    assert isinstance(result, tuple)
    assert result._fields == FIELDS[name]


def test_elements_are_found_where_the_indices_say() -> None:
    x = ej.tensor(REPEATED)
    values, first, inverse, counts = xp.unique_all(x)
    assert x.reshape(-1)[first].tolist() == values.tolist()
    assert first.tolist() == [1, 0, 3]
    assert values[inverse].tolist() == x.tolist()
    assert counts.tolist() == [2, 3, 1]


@pytest.mark.parametrize(
    "array",
    [
        np.array([math.nan, 2.0, math.nan, math.nan], np.float32),
        np.array([complex(math.nan, 1), 2, complex(math.nan, 1), complex(1, math.nan)]),
    ],
)
def test_every_nan_is_one_of_its_own(array: Any) -> None:
    values, first, inverse, counts = xp.unique_all(ej.tensor(array))
    assert tuple(values.shape) == (4,)
    assert counts.tolist() == [1] * 4
    assert sorted(first.tolist()) == sorted(inverse.tolist()) == [0, 1, 2, 3]
    assert [len(x) for x in flat(xp.unique_counts(ej.tensor(array)))] == [4, 4]
    assert len(xp.unique_values(ej.tensor(array))) == 4


def test_zeros_of_both_signs_are_one() -> None:
    x = ej.tensor([-0.0, 0.0, 1.0, -0.0])
    values, first, inverse, counts = xp.unique_all(x)
    assert values.tolist() == [0.0, 1.0]
    assert first.tolist() == [0, 2]
    assert inverse.tolist() == [0, 0, 1, 0]
    assert counts.tolist() == [3, 1]


def test_what_is_no_tensor_is_refused() -> None:
    for name in NAMES:
        with pytest.raises(TypeError):
            getattr(xp, name)([1, 2])
