"""Orthogonal factors, eigenvalues and singular values of small matrices, as `factors.py` has the other factors."""

from __future__ import annotations

from eagerjit.runtime.native.agreed import GEQRF, GESDD, ORGQR, SYEVD
from eagerjit.runtime.native.factors import (
    ARGUMENTS,
    COLUMNS,
    INFO,
    KIND,
    LARGEST,
    LENGTH,
    LENGTH_INTEGERS,
    MIDDLE,
    NUMBERS_BYTES,
    RIGHT,
    ROWS,
    count_matrices,
    free,
    is_declined,
    lapack_function,
    malloc,
)
from eagerjit.runtime.native.kinds import COMPLEX, bytes_of, turned_matrix
from eagerjit.runtime.native.language import (
    buffer,
    c_string,
    call_void,
    copy_bytes,
    fill_bytes,
    i64,
    load_i32,
    load_i64,
    load_ptr,
    ptr,
    store_i64,
)

TIMES = 16
"""About how many times as long as a triangular factorization these take."""

UPPER = ord("U")
BLOCK = 32
"""Columns that LAPACK likes to treat together: room for them is room enough."""


def factor_qr(words: ptr, about: ptr) -> i64:
    """Q with orthonormal columns, as many as it has room for, and the upper triangular R."""
    rank = load_i64(about, ARGUMENTS)
    item = bytes_of(load_i64(about, KIND))
    m = load_i64(words, 8 * rank - 8)
    n = load_i64(words, 8 * rank)
    k = load_i64(words, 16 * rank + 8)
    least = m if m < n else n
    most = m if m > n else n
    count = count_matrices(words + 8, rank)
    if most > LARGEST or is_declined(about, GEQRF, TIMES * count, m, n):
        return 0
    length = most * BLOCK
    turned = malloc((m * (n + k) + most + length) * item)
    if turned == 0:
        return 0
    wide: ptr = turned + m * n * item
    scales: ptr = wide + m * k * item
    space: ptr = scales + most * item
    numbers = buffer(NUMBERS_BYTES)
    store_i64(numbers, ROWS, m)
    store_i64(numbers, COLUMNS, n)
    store_i64(numbers, MIDDLE, least)
    store_i64(numbers, RIGHT, k)
    store_i64(numbers, LENGTH, length)
    source = load_ptr(words)
    q = load_ptr(words, 8 * rank + 8)
    r = load_ptr(words, 16 * rank + 16)
    for _ in range(count):
        turned_matrix(turned, source, m, n, item)
        call_void(
            lapack_function(about, GEQRF), numbers + ROWS, numbers + COLUMNS, turned, numbers + ROWS, scales, space,
            numbers + LENGTH, numbers + INFO,
        )  # fmt: skip
        copy_bytes(wide, turned, m * least * item)
        for j in range(n):
            filled = j + 1 if j + 1 < m else m
            fill_bytes(turned + (j * m + filled) * item, 0, (m - filled) * item)
        _first_rows(r, turned, m, n, k, item)
        call_void(
            lapack_function(about, ORGQR), numbers + ROWS, numbers + RIGHT, numbers + MIDDLE, wide, numbers + ROWS,
            scales, space, numbers + LENGTH, numbers + INFO,
        )  # fmt: skip
        turned_matrix(q, wide, k, m, item)
        source = source + m * n * item
        q = q + m * k * item
        r = r + k * n * item
    free(turned)
    return 1


def _first_rows(to: ptr, turned: ptr, m: i64, n: i64, k: i64, item: i64) -> None:
    """The first k rows of a turned m by n matrix, each after the other."""
    for i in range(k):
        for j in range(n):
            copy_bytes(to + (i * n + j) * item, turned + (j * m + i) * item, item)


def factor_eigh(words: ptr, about: ptr) -> i64:
    """Eigenvalues, rising, and eigenvectors as columns, from one triangle of symmetric matrices."""
    return _eigenvalues(words, about, 1)


def factor_eigvalsh(words: ptr, about: ptr) -> i64:
    """Eigenvalues, rising, from one triangle of symmetric matrices."""
    return _eigenvalues(words, about, 0)


def _eigenvalues(words: ptr, about: ptr, with_vectors: i64) -> i64:
    rank = load_i64(about, ARGUMENTS)
    kind = load_i64(about, KIND)
    item = bytes_of(kind)
    n = load_i64(words, 8 * rank)
    count = count_matrices(words + 8, rank)
    if kind >= COMPLEX or n > LARGEST or is_declined(about, SYEVD, TIMES * count, n, n):
        return 0
    length = 1 + (6 + BLOCK) * n + 2 * n * n
    integers = 3 + 5 * n
    turned = malloc((n * n + length) * item + 8 * integers)
    if turned == 0:
        return 0
    space: ptr = turned + n * n * item
    whole: ptr = space + length * item
    numbers = buffer(NUMBERS_BYTES)
    store_i64(numbers, ROWS, n)
    store_i64(numbers, LENGTH, length)
    store_i64(numbers, LENGTH_INTEGERS, integers)
    half: ptr = c_string("U") if load_i64(about, ARGUMENTS + 8) == UPPER else c_string("L")
    source = load_ptr(words)
    values = load_ptr(words, 8 * rank + 8)
    vectors: ptr = load_ptr(words, 16 * rank + 8) if with_vectors else turned
    wanted: ptr = c_string("V") if with_vectors else c_string("N")
    function = lapack_function(about, SYEVD)
    status = 1
    for _ in range(count):
        turned_matrix(turned, source, n, n, item)
        call_void(
            function, wanted, half, numbers + ROWS, turned, numbers + ROWS, values, space, numbers + LENGTH,
            whole, numbers + LENGTH_INTEGERS, numbers + INFO, 1, 1,
        )  # fmt: skip
        if load_i32(numbers, INFO) != 0:
            status = 0
            break
        source = source + n * n * item
        values = values + n * item
        if with_vectors:
            turned_matrix(vectors, turned, n, n, item)
            vectors = vectors + n * n * item
    free(turned)
    return status


def factor_svd(words: ptr, about: ptr) -> i64:
    """Left vectors as columns, singular values, falling, and right vectors as rows."""
    return _singular_values(words, about, 1)


def factor_svdvals(words: ptr, about: ptr) -> i64:
    """Singular values, falling."""
    return _singular_values(words, about, 0)


def _singular_values(words: ptr, about: ptr, with_vectors: i64) -> i64:
    rank = load_i64(about, ARGUMENTS)
    kind = load_i64(about, KIND)
    item = bytes_of(kind)
    m = load_i64(words, 8 * rank - 8)
    n = load_i64(words, 8 * rank)
    least = m if m < n else n
    left = load_i64(words, 16 * rank + 8) if with_vectors else 1
    right = load_i64(words, 32 * rank + 8) if with_vectors else 1
    most = m if m > n else n
    count = count_matrices(words + 8, rank)
    if most > LARGEST or is_declined(about, GESDD, TIMES * count, m, n):
        return 0
    length = 5 * least * least + 2 * most * least + (7 + BLOCK) * most
    turned = malloc((m * n + m * left + n * right + length) * item + length * bytes_of(kind & 1) + 64 * least)
    if turned == 0:
        return 0
    columns: ptr = turned + m * n * item
    rows: ptr = columns + m * left * item
    space: ptr = rows + n * right * item
    reals: ptr = space + length * item
    whole: ptr = reals + length * bytes_of(kind & 1)
    numbers = buffer(NUMBERS_BYTES)
    store_i64(numbers, ROWS, m)
    store_i64(numbers, COLUMNS, n)
    store_i64(numbers, RIGHT, right)
    store_i64(numbers, LENGTH, length)
    wanted: ptr = c_string("A") if left == m and right == n else c_string("S")
    if with_vectors == 0:
        wanted = c_string("N")
    source = load_ptr(words)
    u = load_ptr(words, 8 * rank + 8)
    values: ptr = load_ptr(words, 16 * rank + 16) if with_vectors else u
    v: ptr = load_ptr(words, 24 * rank + 16) if with_vectors else u
    function = lapack_function(about, GESDD)
    status = 1
    for _ in range(count):
        turned_matrix(turned, source, m, n, item)
        if kind >= COMPLEX:
            call_void(
                function, wanted, numbers + ROWS, numbers + COLUMNS, turned, numbers + ROWS, values, columns,
                numbers + ROWS, rows, numbers + RIGHT, space, numbers + LENGTH, reals, whole, numbers + INFO, 1,
            )  # fmt: skip
        else:
            call_void(
                function, wanted, numbers + ROWS, numbers + COLUMNS, turned, numbers + ROWS, values, columns,
                numbers + ROWS, rows, numbers + RIGHT, space, numbers + LENGTH, whole, numbers + INFO, 1,
            )  # fmt: skip
        if load_i32(numbers, INFO) != 0:
            status = 0
            break
        if with_vectors:
            turned_matrix(u, columns, left, m, item)
            turned_matrix(v, rows, n, right, item)
            u = u + m * left * item
            v = v + n * right * item
        source = source + m * n * item
        values = values + least * bytes_of(kind & 1)
    free(turned)
    return status
