"""Where the elements of a matrix's triangles are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.ops import index
from eagerjit.runtime import dtypes
from eagerjit.state import state
from eagerjit.tensors.creation import arange, empty, finish
from eagerjit.tensors.making import makes
from eagerjit.tensors.tensor import Tensor


def _triangle_body(shape: Any, row: Any, col: Any, first: Any, least: Any, growing: Any, lower: bool) -> Tensor:
    """Rows and columns of the elements of a lower triangle, or of an upper one, which is one seen from its end.

    Rows from `first` on have elements: so many `growing` ones from `least` on, one more each, and then `col`.
    """
    place = arange(shape[0], dtype=dtypes.int64)
    place = place if lower else shape[0] - 1 - place
    twice = 2 * least - 1
    step = ((place * 8 + twice * twice).to(dtypes.float64).sqrt() - twice) / 2
    step = step.floor().to(dtypes.int64)  # the root may be rounded to the next step, or to the one before
    step = step - (step * (step + twice) // 2 > place).to(dtypes.int64)
    step = step + ((step + 1) * (step + 1 + twice) // 2 <= place).to(dtypes.int64)
    behind = place - growing * (growing + twice) // 2
    rows = step.where(behind < 0, growing + behind // col) + first
    columns = (place - step * (step + twice) // 2).where(behind < 0, behind % col)
    return index.stack([rows, columns] if lower else [row - 1 - rows, col - 1 - columns])


_triangle_op = Op(
    "triangle_indices",
    _triangle_body,
    None,
    ("row", "col", "first", "least", "growing"),
    differentiable=False,
    shapes=("shape",),
)


def _triangle(row: int, col: int, offset: int, lower: bool) -> Tensor:
    """Rows and columns of a triangle's elements, row by row."""
    offset = offset if lower else col - row - offset
    first = max(0, -offset)
    least = min(offset + first + 1, col)
    if first >= row or least <= 0:
        return empty((2, 0), dtype=dtypes.int64)
    growing = min(row - first, col - least + 1)
    total = growing * (growing + 2 * least - 1) // 2 + (row - first - growing) * col
    return _triangle_op.call((total,), row, col, first, least, growing, lower)


def _triangle_indices(lower: bool) -> Callable[..., Any]:
    def indices(
        row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        if row < 0 or col < 0:
            which = "row" if row < 0 else "col"
            raise RuntimeError(f"{which} must be non-negative, got {row if row < 0 else col}")
        if state.tracer is None:
            found = _triangle(row, col, offset, lower)
            return finish(found if dtype in (None, dtypes.int64) else found.to(dtype), requires_grad)
        place = arange(row * col)
        rows, columns = place // max(col, 1), place % max(col, 1)
        kept = (columns - rows <= offset) if lower else (columns - rows >= offset)
        return finish(index.stack([rows[kept], columns[kept]]).to(dtype or dtypes.int64), requires_grad)

    indices.__name__ = indices.__qualname__ = "tril_indices" if lower else "triu_indices"
    indices.__doc__ = (
        f"Rows and columns of the {'lower' if lower else 'upper'} triangle of a matrix, row by row: (2, n)."
    )
    return makes(indices)


tril_indices, triu_indices = _triangle_indices(True), _triangle_indices(False)
