"""The array API's functions that search, sort and pick: against array-api-strict, compiled, gradients, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
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

TIES = np.array([[1.0, 3.0, 3.0, 1.0], [2.0, 2.0, 2.0, 2.0]], np.float32)
PLACES = np.array([2, 0, -1], np.int32)
SORTED = np.array([-1.0, 0.5, 0.5, 3.0])
WANTED = np.array([[0.5, -2.0], [9.0, 3.0]])
ZEROS = np.array([0j, 1j, 1 + 0j, complex(0, -0.0)])

CASES: dict[str, Case] = {
    "argmax": (lambda t, x: t.argmax(x), [CUBE]),
    "argmax axis": (lambda t, x: t.argmax(x, axis=1), [CUBE]),
    "argmax keepdims": (lambda t, x: t.argmax(x, axis=-1, keepdims=True), [CUBE]),
    "argmax all kept": (lambda t, x: t.argmax(x, keepdims=True), [CUBE]),
    "argmax first of equals": (lambda t, x: t.argmax(x, axis=1), [TIES]),
    "argmax integers": (lambda t, x: t.argmax(x, axis=0), [INTEGERS]),
    "argmax 0-d": (lambda t, x: t.argmax(x), [SCALAR]),
    "argmin": (lambda t, x: t.argmin(x), [CUBE]),
    "argmin axis": (lambda t, x: t.argmin(x, axis=0), [CUBE]),
    "argmin keepdims": (lambda t, x: t.argmin(x, axis=-2, keepdims=True), [CUBE]),
    "argmin first of equals": (lambda t, x: t.argmin(x, axis=1), [TIES]),
    "argmin int8": (lambda t, x: t.argmin(x), [SMALL]),
    "count_nonzero": (lambda t, x: t.count_nonzero(x), [INTEGERS]),
    "count_nonzero axis": (lambda t, x: t.count_nonzero(x, axis=1), [TRUTH]),
    "count_nonzero axes": (lambda t, x: t.count_nonzero(x, axis=(0, -1), keepdims=True), [CUBE]),
    "count_nonzero no axis": (lambda t, x: t.count_nonzero(x, axis=()), [INTEGERS]),
    "count_nonzero complex": (lambda t, x: t.count_nonzero(x), [ZEROS]),
    "count_nonzero empty": (lambda t, x: t.count_nonzero(x, axis=0), [EMPTY]),
    "count_nonzero NaN": (lambda t, x: t.count_nonzero(x), [np.array([np.nan, 0.0, -0.0])]),
    "nonzero": (lambda t, x: t.nonzero(x), [INTEGERS]),
    "nonzero truth": (lambda t, x: t.nonzero(x), [TRUTH]),
    "nonzero complex": (lambda t, x: t.nonzero(x), [ZEROS]),
    "nonzero none": (lambda t, x: t.nonzero(x), [VECTOR * 0]),
    "nonzero empty": (lambda t, x: t.nonzero(x), [EMPTY]),
    "searchsorted": (lambda t, x, y: t.searchsorted(x, y), [SORTED, WANTED]),
    "searchsorted right": (lambda t, x, y: t.searchsorted(x, y, side="right"), [SORTED, WANTED]),
    "searchsorted sorter": (
        lambda t, x, y: t.searchsorted(x, y, side="right", sorter=t.argsort(x)),
        [VECTOR, WANTED],
    ),
    "searchsorted in nothing": (lambda t, x, y: t.searchsorted(x, y), [SORTED[:0], WANTED]),
    "searchsorted of nothing": (lambda t, x, y: t.searchsorted(x, y), [SORTED, EMPTY]),
    "searchsorted 0-d": (lambda t, x, y: t.searchsorted(x, y), [SORTED, SCALAR]),
    "searchsorted integers": (lambda t, x, y: t.searchsorted(x, y), [np.array([-5, 0, 7], np.int32), INTEGERS]),
    "sort": (lambda t, x: t.sort(x), [CUBE]),
    "sort axis": (lambda t, x: t.sort(x, axis=0), [CUBE]),
    "sort descending": (lambda t, x: t.sort(x, descending=True), [MATRIX]),
    "sort unstable": (lambda t, x: t.sort(x, stable=False), [INTEGERS]),
    "sort int8": (lambda t, x: t.sort(x, axis=-1, descending=True), [SMALL]),
    "sort NaN": (lambda t, x: t.sort(x), [np.array([np.nan, 1.0, -np.inf, np.nan, np.inf])]),
    "sort empty": (lambda t, x: t.sort(x, axis=0), [EMPTY]),
    "argsort": (lambda t, x: t.argsort(x, axis=1), [CUBE]),
    "argsort ties": (lambda t, x: t.argsort(x), [TIES]),
    "argsort descending ties": (lambda t, x: t.argsort(x, descending=True, stable=True), [TIES]),
    "argsort empty": (lambda t, x: t.argsort(x), [EMPTY]),
    "take": (lambda t, x, i: t.take(x, i, axis=1), [CUBE, PLACES]),
    "take last axis": (lambda t, x, i: t.take(x, i, axis=-1), [CUBE, PLACES]),
    "take of vector": (lambda t, x, i: t.take(x, i), [VECTOR, PLACES]),
    "take nothing": (lambda t, x, i: t.take(x, i, axis=0), [MATRIX, PLACES[:0]]),
    "take complex": (lambda t, x, i: t.take(x, i, axis=0), [COMPLEX, PLACES]),
    "take_along_axis": (
        lambda t, x, i: t.take_along_axis(x, i),
        [MATRIX, np.array([[3, -4, 0], [1, 1, 1], [-1, 2, -2]])],
    ),
    "take_along_axis first": (lambda t, x, i: t.take_along_axis(x, i, axis=0), [MATRIX, np.array([[2, -1, 0, -3]])]),
    "take_along_axis of argsort": (lambda t, x: t.take_along_axis(x, t.argsort(x, axis=1), axis=1), [CUBE]),
    "take_along_axis broadcast": (lambda t, x, i: t.take_along_axis(x, i, axis=1), [MATRIX, np.array([[0, -1]])]),
    "take_along_axis broadcast x": (
        lambda t, x, i: t.take_along_axis(x, i, axis=1),
        [MATRIX[:1], np.array([[0], [3], [-2]], np.int32)],
    ),
    "where": (lambda t, c, x, y: t.where(c, x, y), [TRUTH, CUBE[0][:2, :3], CUBE[1][:2, :3]]),
    "where broadcast": (lambda t, c, x, y: t.where(c, x, y), [TRUTH, MATRIX[:1, :3], MATRIX[:2, :1]]),
    "where promotes": (lambda t, c, x, y: t.where(c, x, y), [TRUTH, INTEGERS, SMALL[:, :1]]),
    "where promotes 0-d": (lambda t, c, x, y: t.where(c, x, y), [TRUTH, MATRIX[:2, :3], SCALAR]),
    "where with a number": (lambda t, c, x: t.where(c, x, 0.0), [TRUTH, MATRIX[:2, :3]]),
    "where with a number first": (lambda t, c, x: t.where(c, 2, x), [TRUTH, INTEGERS]),
    "where with a truth": (lambda t, c, x: t.where(c, x, False), [TRUTH, TRUTH]),
    "where with an integer": (lambda t, c, x: t.where(c, x, 1), [TRUTH, MATRIX[:2, :3]]),
    "where with a complex number": (lambda t, c, x: t.where(c, x, 1j), [TRUTH, COMPLEX[:2, :3]]),
    "where 0-d": (lambda t, c, x, y: t.where(c, x, y), [np.array(True), SCALAR, VECTOR]),
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


GRADIENTS: dict[str, tuple[Any, Any, list[np.ndarray]]] = {
    "sort": (lambda x: xp.sort(x, axis=0), lambda x: x.sort(0).values, [MATRIX]),
    "take": (
        lambda x, i: xp.take(x, i, axis=1),
        lambda x, i: x.index_select(1, i % 4),
        [MATRIX, PLACES.astype(np.int64)],
    ),
    "take_along_axis": (
        lambda x, i: xp.take_along_axis(x, i, axis=1),
        lambda x, i: x.gather(1, (i % 4).expand(3, 2)),
        [MATRIX, np.array([[0, -1]])],
    ),
    "where": (
        lambda c, x, y: xp.where(c, x, y),
        lambda c, x, y: torch.where(c, x, y),
        [TRUTH, MATRIX[:2, :3], MATRIX[:2, :1]],
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_those_of_pytorch(name: str) -> None:
    check_gradient(*GRADIENTS[name])


WRONG: dict[str, tuple[Any, Any]] = {
    "argmax at no axis": (lambda v, m: xp.argmax(m, axis=2), IndexError),
    "argmax of nothing": (lambda v, m: xp.argmax(m[:0]), IndexError),
    "argmin along nothing": (lambda v, m: xp.argmin(m[:0], axis=0), IndexError),
    "argmin 0-d at an axis": (lambda v, m: xp.argmin(v.sum(), axis=0), IndexError),
    "count_nonzero at no axis": (lambda v, m: xp.count_nonzero(m, axis=(0, 2)), IndexError),
    "count_nonzero twice": (lambda v, m: xp.count_nonzero(m, axis=(0, -2)), ValueError),
    "nonzero 0-d": (lambda v, m: xp.nonzero(v.sum()), ValueError),
    "searchsorted in a matrix": (lambda v, m: xp.searchsorted(m, v), ValueError),
    "searchsorted another side": (lambda v, m: xp.searchsorted(v, m, side="middle"), ValueError),
    "searchsorted another sorter": (lambda v, m: xp.searchsorted(v, m, sorter=ej.tensor([0])), RuntimeError),
    "sort at no axis": (lambda v, m: xp.sort(m, axis=2), IndexError),
    "argsort at no axis": (lambda v, m: xp.argsort(m, axis=-3), IndexError),
    "sort a list": (lambda v, m: xp.sort([2, 1]), TypeError),
    "take without an axis": (lambda v, m: xp.take(m, ej.tensor([0])), ValueError),
    "take by a matrix": (lambda v, m: xp.take(v, ej.tensor([[0]])), ValueError),
    "take by real numbers": (lambda v, m: xp.take(v, v), TypeError),
    "take by truth": (lambda v, m: xp.take(v, v > 0), TypeError),
    "take out of range": (lambda v, m: xp.take(v, ej.tensor([4])), IndexError),
    "take below range": (lambda v, m: xp.take(v, ej.tensor([-5])), IndexError),
    "take_along_axis of another rank": (lambda v, m: xp.take_along_axis(m, ej.tensor([0])), ValueError),
    "take_along_axis that does not fit": (
        lambda v, m: xp.take_along_axis(m, ej.tensor([[0], [0]]), axis=1),
        RuntimeError,
    ),
    "take_along_axis by real numbers": (lambda v, m: xp.take_along_axis(m, m), TypeError),
    "take_along_axis out of range": (lambda v, m: xp.take_along_axis(v, ej.tensor([4])), (IndexError, RuntimeError)),
    "where of two numbers": (lambda v, m: xp.where(v > 0, 1, 2), TypeError),
    "where that does not fit": (lambda v, m: xp.where(v > 0, v, v[:3]), RuntimeError),
    "where of a condition that is none": (lambda v, m: xp.where(True, v, v), TypeError),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_raise(name: str) -> None:
    call, error = WRONG[name]
    with pytest.raises(error):
        call(*tensors([VECTOR, MATRIX]))


def test_searchsorted_agrees_with_sort_about_nan() -> None:
    """Wherever a value goes, sorting what results changes nothing."""
    rows = ej.tensor([-1.0, 2.0, float("nan")])
    for value in (float("nan"), float("inf"), -5.0):
        place = int(xp.searchsorted(rows, ej.tensor([value]))[0])
        whole = [*rows.tolist()[:place], value, *rows.tolist()[place:]]
        assert str(xp.sort(ej.tensor(whole)).tolist()) == str(whole)


def test_argsort_keeps_equal_elements_in_order_both_ways() -> None:
    x = ej.tensor([1, 0] * 50)
    rising, falling = xp.argsort(x).tolist(), xp.argsort(x, descending=True).tolist()
    assert rising == [*range(1, 100, 2), *range(0, 100, 2)]
    assert falling == [*range(0, 100, 2), *range(1, 100, 2)]
