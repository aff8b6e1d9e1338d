"""One product of row-major matrices on the calling thread, by BLAS where there is one."""

from __future__ import annotations

from eagerjit.runtime.native.language import (
    call_void,
    f32,
    f64,
    i64,
    load_f32,
    load_f64,
    load_ptr,
    ptr,
    store_f32,
    store_f64,
)
from eagerjit.runtime.native.products import DGEMM, ROW_MAJOR, SGEMM, TRANSPOSE, blas_functions


def gemm(
    double: i64, a_transposed: i64, b_transposed: i64, m: i64, n: i64, k: i64, a: ptr, lda: i64, b: ptr, ldb: i64,
    add: i64, c: ptr, ldc: i64,
) -> None:  # fmt: skip
    """C = A @ B, or C += A @ B if `add`; float64 if `double`, else float32. Rows of the matrices are `ld*` apart."""
    function: ptr = load_ptr(blas_functions, DGEMM if double else SGEMM)
    if function == 0:
        _plain(double, a_transposed == TRANSPOSE, b_transposed == TRANSPOSE, m, n, k, a, lda, b, ldb, add, c, ldc)
        return
    if double:
        d1: f64 = 1.0
        d0: f64 = 1.0 if add else 0.0
        call_void(function, ROW_MAJOR, a_transposed, b_transposed, m, n, k, d1, a, lda, b, ldb, d0, c, ldc)
    else:
        s1: f32 = 1.0
        s0: f32 = f32(1.0) if add else f32(0.0)
        call_void(function, ROW_MAJOR, a_transposed, b_transposed, m, n, k, s1, a, lda, b, ldb, s0, c, ldc)


def _plain(
    double: i64, a_transposed: i64, b_transposed: i64, m: i64, n: i64, k: i64, a: ptr, lda: i64, b: ptr, ldb: i64,
    add: i64, c: ptr, ldc: i64,
) -> None:  # fmt: skip
    """The same without BLAS: k products added in order."""
    a_row = 1 if a_transposed else lda
    a_column = lda if a_transposed else 1
    b_row = 1 if b_transposed else ldb
    b_column = ldb if b_transposed else 1
    for i in range(m):
        for j in range(n):
            if double:
                d: f64 = load_f64(c, (i * ldc + j) * 8) if add else 0.0
                for x in range(k):
                    d += load_f64(a, (i * a_row + x * a_column) * 8) * load_f64(b, (x * b_row + j * b_column) * 8)
                store_f64(c, (i * ldc + j) * 8, d)
            else:
                s: f32 = load_f32(c, (i * ldc + j) * 4) if add else f32(0.0)
                for x in range(k):
                    s += load_f32(a, (i * a_row + x * a_column) * 4) * load_f32(b, (x * b_row + j * b_column) * 4)
                store_f32(c, (i * ldc + j) * 4, s)
