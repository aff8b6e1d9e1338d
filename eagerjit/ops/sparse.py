"""A sparse matrix times a dense one, on the tensors that a sparse matrix consists of."""

from __future__ import annotations

from typing import Any

from eagerjit.calling.dispatch import Op, emit
from eagerjit.compiler.ops import sparse
from eagerjit.ops.pointwise import as_dtype
from eagerjit.runtime import dtypes
from eagerjit.tensors.tensor import Tensor


def _conjugate(x: Any) -> Any:
    return x.conj() if x.dtype.is_complex else x


def _values_rule(g: Any, out: Any, values: Any, dense: Any, rows: Any, columns: Any, *rest: Any) -> Any:
    return (g.take_rows(rows) * _conjugate(dense.take_rows(columns))).sum(1)


def _dense_rule(
    g: Any, out: Any, values: Any, dense: Any, rows: Any, columns: Any, starts: Any, places: Any, order: Any,
    back_starts: Any, back_places: Any, back_order: Any,
) -> Any:  # fmt: skip
    back, forth = (back_starts, back_places, back_order), (starts, places, order)
    return by_rows.call(_conjugate(values), g, columns, rows, *back, *forth)


def _by_rows(
    values: Tensor, dense: Tensor, rows: Tensor, columns: Tensor, starts: Tensor, places: Tensor, order: Tensor | None,
    back_starts: Tensor, back_places: Tensor, back_order: Tensor | None,
) -> Tensor:  # fmt: skip
    """The product row by row.

    values, rows, columns       the matrix's entries as they are stored, and where they are
    starts, places, order       the entries row by row: where each row begins, each entry's column, its number in
                                `values` (None: they are stored so)
    back_*                      the entries column by column
    """
    weights = values if order is None else values.take_rows(order)
    return emit(sparse.weighted_rows, weights, dense, starts, places)


def _by_entries(values: Tensor, dense: Tensor, rows: Tensor, columns: Tensor, count: int, other_count: int) -> Tensor:
    """The product of a matrix of `count` rows entry by entry, of any numbers."""
    kind = dtypes.float32 if dense.dtype in (dtypes.float16, dtypes.bfloat16) else dense.dtype
    terms = as_dtype(values, kind).unsqueeze(1) * as_dtype(dense, kind).take_rows(columns)
    return as_dtype(dense.new_zeros((count, dense.shape[1]), dtype=kind).add_rows(rows, terms), dense.dtype)


_REST = (None,) * 8
by_rows = Op("sparse_product", _by_rows, (_values_rule, _dense_rule, *_REST))
by_entries = Op(
    "sparse_product_of_entries",
    _by_entries,
    (
        _values_rule,
        lambda g, out, values, dense, rows, columns, count, other_count: by_entries.call(
            _conjugate(values), g, columns, rows, other_count, count
        ),
        None,
        None,
        None,
        None,
    ),
    ("count", "other_count"),
)
