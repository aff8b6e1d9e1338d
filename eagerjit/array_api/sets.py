"""The different elements of tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

from eagerjit.array_api.operands import check_array
from eagerjit.calling.dispatch import Op, emit
from eagerjit.compiler.ops import indexing
from eagerjit.ops import counted
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.searching import place_along
from eagerjit.runtime import dtypes
from eagerjit.tensors.tensor import Tensor

__all__ = ["unique_all", "unique_counts", "unique_inverse", "unique_values"]


class unique_all_result(NamedTuple):
    """What `unique_all` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class unique_counts_result(NamedTuple):
    """What `unique_counts` gives."""

    values: Tensor
    counts: Tensor


class unique_inverse_result(NamedTuple):
    """What `unique_inverse` gives."""

    values: Tensor
    inverse_indices: Tensor


def _first(inverse: Tensor, count: Any) -> Tensor:
    """Where each of the numbers 0, 1, ... occurs first among as many as are in use."""
    row = inverse.reshape(-1)
    base = as_dtype(row.shape[0], dtypes.int64).expand((count,))
    return emit(indexing.scatter, base, row, place_along(row, 0), dim=0, combine="minimum")


_first_op = Op("unique_first", _first, numbers=("count",), differentiable=False)


def unique_all(x: Tensor, /) -> unique_all_result:
    """The different elements in order, where each is first (flattened), where each element went, and how often each is.

    NaNs are all different, zeros are equal whatever their sign.
    """
    values, inverse, counts = _unique("unique_all", x)
    return unique_all_result(values, _first_op.call(inverse, values.shape[0]), inverse, counts)


def unique_counts(x: Tensor, /) -> unique_counts_result:
    """The different elements in order, and how often each occurs; see `unique_all`."""
    values, _, counts = _unique("unique_counts", x)
    return unique_counts_result(values, counts)


def unique_inverse(x: Tensor, /) -> unique_inverse_result:
    """The different elements in order, and where each element of x went; see `unique_all`."""
    values, inverse, _ = _unique("unique_inverse", x)
    return unique_inverse_result(values, inverse)


def unique_values(x: Tensor, /) -> Tensor:
    """The different elements in order; see `unique_all`."""
    return _unique("unique_values", x)[0]


def _unique(name: str, x: Tensor) -> Any:
    return counted.different_elements(check_array(name, x), True, True)
