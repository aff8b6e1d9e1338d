"""One tile of a product by BLAS on the calling thread.

Plain loops do integers, and all where there is no BLAS; a vector with float32 columns that are runs takes no BLAS.
"""

from __future__ import annotations

from eagerjit.runtime.native.language import (
    call_void,
    f32,
    f64,
    fill_bytes,
    i64,
    load_f32,
    load_f64,
    load_i64,
    load_ptr,
    ptr,
    store_f32,
    store_f64,
    store_i64,
)
from eagerjit.runtime.native.panels import multiply_run
from eagerjit.runtime.native.products import (
    DGEMM,
    DGEMV,
    NO_TRANSPOSE,
    ROW_MAJOR,
    SGEMM,
    SGEMV,
    TRANSPOSE,
    blas_functions,
)


def product_by_blas(
    double: i64, a: ptr, a_leading: i64, b: ptr, b_leading: i64, c: ptr, c_row: i64, rows: i64, columns: i64, k: i64
) -> None:
    """One tile in float32, or in float64 if `double`. A negative leading dimension means transposed."""
    gemm: ptr = load_ptr(blas_functions, DGEMM if double else SGEMM)
    a_row = a_leading if a_leading > 0 else 1
    a_column = 1 if a_leading > 0 else -a_leading
    b_row = b_leading if b_leading > 0 else 1
    b_column = 1 if b_leading > 0 else -b_leading
    if k == 0 or gemm == 0:
        for i in range(rows):
            if double:
                _row_f64(a + i * a_row * 8, a_column, b, b_row, b_column, c + i * c_row * 8, columns, k)
            else:
                _row_f32(a + i * a_row * 4, a_column, b, b_row, b_column, c + i * c_row * 4, columns, k)
        return
    if not double and rows == 1 and a_column == 1 and b_row == 1:
        multiply_run(a, b, b_column, c, columns, k)
        return
    if not double and columns == 1 and a_column == 1 and b_row == 1 and c_row == 1:
        multiply_run(b, a, a_row, c, rows, k)
        return
    if columns == 1:
        _gemv(double, a, a_leading, rows, k, b, b_row, c, c_row if rows > 1 else 1)
        return
    if rows == 1:
        _gemv(double, b, -b_leading, columns, k, a, a_column, c, 1)
        return
    a_transposed = NO_TRANSPOSE if a_leading > 0 else TRANSPOSE
    b_transposed = NO_TRANSPOSE if b_leading > 0 else TRANSPOSE
    lda = a_leading if a_leading > 0 else -a_leading
    ldb = b_leading if b_leading > 0 else -b_leading
    if double:
        d1: f64 = 1.0
        d0: f64 = 0.0
        call_void(gemm, ROW_MAJOR, a_transposed, b_transposed, rows, columns, k, d1, a, lda, b, ldb, d0, c, c_row)
    else:
        s1: f32 = 1.0
        s0: f32 = 0.0
        call_void(gemm, ROW_MAJOR, a_transposed, b_transposed, rows, columns, k, s1, a, lda, b, ldb, s0, c, c_row)


def _gemv(
    double: i64, matrix: ptr, leading: i64, rows: i64, columns: i64, x: ptr, x_step: i64, y: ptr, y_step: i64
) -> None:
    """y = matrix @ x for a rows x columns matrix, transposed in memory where `leading` is negative."""
    gemv: ptr = load_ptr(blas_functions, DGEMV if double else SGEMV)
    item = 8 if double else 4
    for i in range(rows):  # BLAS scales what is there by zero, which would keep a NaN
        fill_bytes(y + i * y_step * item, 0, item)
    transposed = NO_TRANSPOSE
    if leading < 0:
        transposed = TRANSPOSE
        leading = -leading
        swapped = rows
        rows = columns
        columns = swapped
    if double:
        d1: f64 = 1.0
        call_void(gemv, ROW_MAJOR, transposed, rows, columns, d1, matrix, leading, x, x_step, d1, y, y_step)
    else:
        s1: f32 = 1.0
        call_void(gemv, ROW_MAJOR, transposed, rows, columns, s1, matrix, leading, x, x_step, s1, y, y_step)


def _row_f32(a: ptr, a_column: i64, b: ptr, b_row: i64, b_column: i64, c: ptr, columns: i64, k: i64) -> None:
    """One row of C by the plain loop: k products added in order."""
    fill_bytes(c, 0, columns * 4)
    for inner in range(k):
        factor = load_f32(a, inner * a_column * 4)
        line: ptr = b + inner * b_row * 4
        if b_column == 1:
            for j in range(columns):
                store_f32(c, j * 4, load_f32(c, j * 4) + factor * load_f32(line, j * 4))
        else:
            for j in range(columns):
                store_f32(c, j * 4, load_f32(c, j * 4) + factor * load_f32(line, j * b_column * 4))


def _row_f64(a: ptr, a_column: i64, b: ptr, b_row: i64, b_column: i64, c: ptr, columns: i64, k: i64) -> None:
    fill_bytes(c, 0, columns * 8)
    for inner in range(k):
        factor = load_f64(a, inner * a_column * 8)
        line: ptr = b + inner * b_row * 8
        if b_column == 1:
            for j in range(columns):
                store_f64(c, j * 8, load_f64(c, j * 8) + factor * load_f64(line, j * 8))
        else:
            for j in range(columns):
                store_f64(c, j * 8, load_f64(c, j * 8) + factor * load_f64(line, j * b_column * 8))


def small_f32(
    a: ptr, a_row: i64, a_column: i64, b: ptr, b_row: i64, b_column: i64, c: ptr, c_row: i64, rows: i64, columns: i64,
    k: i64,
) -> None:  # fmt: skip
    """A product that is not worth a call of BLAS; strides in bytes."""
    for i in range(rows):
        for j in range(columns):
            total: f32 = 0.0
            x: ptr = a + i * a_row
            y: ptr = b + j * b_column
            for _ in range(k):
                total += load_f32(x) * load_f32(y)
                x = x + a_column
                y = y + b_row
            store_f32(c, i * c_row + j * 4, total)


def small_f64(
    a: ptr, a_row: i64, a_column: i64, b: ptr, b_row: i64, b_column: i64, c: ptr, c_row: i64, rows: i64, columns: i64,
    k: i64,
) -> None:  # fmt: skip
    for i in range(rows):
        for j in range(columns):
            total: f64 = 0.0
            x: ptr = a + i * a_row
            y: ptr = b + j * b_column
            for _ in range(k):
                total += load_f64(x) * load_f64(y)
                x = x + a_column
                y = y + b_row
            store_f64(c, i * c_row + j * 8, total)


def product_of_integers(a: ptr, b: ptr, c: ptr, rows: i64, columns: i64, k: i64) -> None:
    """One tile of packed 64-bit integers, which wrap."""
    fill_bytes(c, 0, rows * columns * 8)
    for i in range(rows):
        for inner in range(k):
            factor = load_i64(a, (i * k + inner) * 8)
            for j in range(columns):
                at = (i * columns + j) * 8
                store_i64(c, at, load_i64(c, at) + factor * load_i64(b, (inner * columns + j) * 8))
