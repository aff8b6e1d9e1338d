"""Products of a tile's columns with rows of the weight or of the output, on one thread."""

from __future__ import annotations

from eagerjit.runtime.native.convolution_plan import (
    CHANNEL_BLOCK,
    IN_PAIRS,
    INPUT_OF,
    ITEM,
    OUTPUT_OF,
    PRODUCT_SCRATCH,
    ROW_BLOCK,
    ROWS,
    TAPS,
    TILE_IMAGES,
    TILE_POSITIONS,
)
from eagerjit.runtime.native.gemm import gemm
from eagerjit.runtime.native.language import i64, load_i64, ptr, store_i64
from eagerjit.runtime.native.pairs import pair_scratch, product_of_pairs
from eagerjit.runtime.native.panels import multiply_panels, panel_scratch, suits_panels
from eagerjit.runtime.native.products import TRANSPOSE

LEAST_TURNING_ROWS = 32  # for which it pays to turn the other factor around


def plan_products(kind: i64, job: ptr, before: i64) -> i64:
    """Bytes of scratch memory that products of tiles take behind so many others."""
    tile = load_i64(job, TILE_IMAGES) * load_i64(job, TILE_POSITIONS)
    sums = load_i64(job, CHANNEL_BLOCK) * load_i64(job, TAPS)
    store_i64(job, PRODUCT_SCRATCH, before)
    if kind == OUTPUT_OF:
        return _product_scratch(job, load_i64(job, ROW_BLOCK), tile, sums)
    if kind == INPUT_OF:
        return _product_scratch(job, sums, tile, load_i64(job, ROWS))
    return _product_scratch(job, load_i64(job, ROW_BLOCK), sums, tile)


def _product_scratch(job: ptr, m: i64, n: i64, k: i64) -> i64:
    if load_i64(job, IN_PAIRS):
        return pair_scratch(m, n, k) + 64
    return panel_scratch(m, n, k) if load_i64(job, ITEM) == 4 else 0


def multiply_columns(
    job: ptr, scratch: ptr, a_transposed: i64, b_transposed: i64, m: i64, n: i64, k: i64, a: ptr, lda: i64, b: ptr,
    ldb: i64, add: i64, c: ptr, ldc: i64,
) -> None:  # fmt: skip
    """The product of two factors as `gemm` takes them, of numbers of the job's."""
    a_row = 1 if a_transposed == TRANSPOSE else lda
    a_column = lda if a_transposed == TRANSPOSE else 1
    b_row = 1 if b_transposed == TRANSPOSE else ldb
    b_column = ldb if b_transposed == TRANSPOSE else 1
    room: ptr = scratch + load_i64(job, PRODUCT_SCRATCH)
    if load_i64(job, IN_PAIRS):
        product_of_pairs(4, a, a_row, a_column, b, b_row, b_column, add, c, ldc, m, n, k, room)
    elif load_i64(job, ITEM) == 4 and suits_panels(m, n, k) and (b_row != 1 or m >= LEAST_TURNING_ROWS):
        multiply_panels(a, a_row, a_column, b, b_row, b_column, c, ldc, m, n, k, add, room)
    else:
        gemm(load_i64(job, ITEM) == 8, a_transposed, b_transposed, m, n, k, a, lda, b, ldb, add, c, ldc)
