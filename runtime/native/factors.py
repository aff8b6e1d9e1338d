"""Factors of small matrices, by LAPACK's functions on the calling thread: what calls of the host try first.

A function takes the words of a call (addresses, each with its dimensions, of arguments and then of results) and a
description (`runtime/direct.py`). It gives 1 where the results are computed, and 0 for what Python is to do: matrices
that are large, factorizations that fail. LAPACK's matrices are turned: a column's numbers lie beside each other.
"""

from __future__ import annotations

from eagerjit.runtime.native.agreed import GETRF, GETRS, POTRF, TRSM
from eagerjit.runtime.native.kinds import COMPLEX, bytes_of, part_of, spread_nan, store, turned_matrix
from eagerjit.runtime.native.language import (
    buffer,
    c_string,
    call_void,
    copy_bytes,
    external,
    fill_bytes,
    global_bytes,
    i64,
    load_i32,
    load_i64,
    load_ptr,
    ptr,
    store_i64,
)

# Of a description, in bytes. An argument: a tensor's dimensions; how many numbers a tuple has and these, 4 bits each; a
# text's first letter; a float's bits, a bool or an integer, or 0 where the words have it.
FUNCTION = 0
KIND = 8  # of the numbers: SINGLE, DOUBLE, and two more for complex ones
WORK = 16  # multiplications at most
ARGUMENTS = 24

lapack_functions = global_bytes(8 * 4 * 8)
"""Addresses of these functions, each for the four kinds; 0 where there is no LAPACK."""

LARGEST = 512
"""Rows and columns of a matrix at most: of larger ones the host's LAPACK makes several threads worth their while."""

# Where the numbers lie that LAPACK is given by address; as integers of 32 bits they are the lower halves of these.
ROWS, COLUMNS, MIDDLE, RIGHT, LENGTH, LENGTH_INTEGERS, INFO, ONE = 0, 8, 16, 24, 32, 40, 48, 56
NUMBERS_BYTES = 80

malloc = external("ptr malloc(i64)")
free = external("void free(ptr)")
log = external("f64 log(f64)")
hypot = external("f64 hypot(f64, f64)")


def lapack_function(about: ptr, which: i64) -> ptr:
    return load_ptr(lapack_functions, 8 * (4 * which + load_i64(about, KIND)))


def is_declined(about: ptr, which: i64, matrices: i64, rows: i64, columns: i64) -> i64:
    """Whether Python is to do it: there is nothing to do, no function for it, or more than one call should take on."""
    most = rows if rows > columns else columns
    if matrices <= 0 or rows <= 0 or columns <= 0 or lapack_function(about, which) == 0:
        return 1
    return matrices > load_i64(about, WORK) // (most * rows * columns)


def count_matrices(dims: ptr, rank: i64) -> i64:
    """How many there are."""
    count = 1
    for d in range(rank - 2):
        count = count * load_i64(dims, 8 * d)
    return count


def _place(dims: ptr, rank: i64, of: ptr, of_rank: i64, number: i64) -> i64:
    """The number of the operand's matrix that belongs to one of the result's, whose dimensions are the broadcast ones.
    """
    place = 0
    step = 1
    for i in range(of_rank - 2):
        extent = load_i64(of, 8 * (of_rank - 3 - i))
        index = number % extent
        number = number // extent
        if i < rank - 2:
            own = load_i64(dims, 8 * (rank - 3 - i))
            if own > 1:
                place += step * index
            step = step * own
    return place


def _unit(to: ptr, n: i64, kind: i64) -> None:
    item = bytes_of(kind)
    fill_bytes(to, 0, n * n * item)
    for i in range(n):
        store(to + i * (n + 1) * item, kind, 1.0, 0.0)


def factor_cholesky(words: ptr, about: ptr) -> i64:
    """The lower triangular L of A = L L^H: read by columns, the lower triangle of A is the upper one of its transpose.
    """
    rank = load_i64(about, ARGUMENTS)
    n = load_i64(words, 8 * rank)
    count = count_matrices(words + 8, rank)
    if n > LARGEST or is_declined(about, POTRF, count, n, n):
        return 0
    numbers = buffer(NUMBERS_BYTES)
    store_i64(numbers, ROWS, n)
    row = n * bytes_of(load_i64(about, KIND))
    out = load_ptr(words, 8 * rank + 8)
    copy_bytes(out, load_ptr(words), count * n * row)
    for _ in range(count):
        call_void(lapack_function(about, POTRF), c_string("U"), numbers + ROWS, out, numbers + ROWS, numbers + INFO, 1)
        if load_i32(numbers, INFO) != 0:
            return 0
        for i in range(n):
            pivot = part_of(out + i * (row + row // n), load_i64(about, KIND), 0)
            if pivot != pivot:  # not all versions of LAPACK say so
                return 0
            fill_bytes(out + i * row + (i + 1) * (row // n), 0, row - (i + 1) * (row // n))
        out = out + n * row
    return 1


# -- factors with exchanges of rows -----------------------------------------------------------------------------------
def _factor(about: ptr, source: ptr, to: ptr, pivots: ptr, numbers: ptr) -> i64:
    """L and U of a matrix, turned, and the rows exchanged; 0, or the first pivot that is 0."""
    turned_matrix(to, source, load_i64(numbers, ROWS), load_i64(numbers, COLUMNS), bytes_of(load_i64(about, KIND)))
    call_void(
        lapack_function(about, GETRF), numbers + ROWS, numbers + COLUMNS, to, numbers + ROWS, pivots, numbers + INFO
    )
    spread_nan(to, load_i64(numbers, ROWS), load_i64(numbers, COLUMNS), load_i64(about, KIND))
    return load_i32(numbers, INFO)


def factor_lu(words: ptr, about: ptr) -> i64:
    """L and U in one matrix, and the rows exchanged."""
    rank = load_i64(about, ARGUMENTS)
    m = load_i64(words, 8 * rank - 8)
    n = load_i64(words, 8 * rank)
    count = count_matrices(words + 8, rank)
    if is_declined(about, GETRF, count, m, n):
        return 0
    size = m * n * bytes_of(load_i64(about, KIND))
    turned = malloc(size)
    if turned == 0:
        return 0
    numbers = buffer(NUMBERS_BYTES)
    store_i64(numbers, ROWS, m)
    store_i64(numbers, COLUMNS, n)
    source = load_ptr(words)
    out = load_ptr(words, 8 * rank + 8)
    pivots = load_ptr(words, 16 * rank + 16)
    for _ in range(count):
        _factor(about, source, turned, pivots, numbers)
        turned_matrix(out, turned, n, m, bytes_of(load_i64(about, KIND)))
        source = source + size
        out = out + size
        pivots = pivots + 4 * (m if m < n else n)
    free(turned)
    return 1


def factor_permutation(words: ptr, about: ptr) -> i64:
    """Where each row of P comes from, after the exchanges of rows (integers of 32 bits)."""
    rank = load_i64(about, ARGUMENTS)
    steps = load_i64(words, 8 * rank)
    result = words + 8 * (rank + 1)
    if load_i64(about, ARGUMENTS + 8) == 0:  # the number of rows is among the words
        result = result + 8
    m = load_i64(result, 8 * rank) if steps > 0 else 0
    count = count_matrices(words + 8, rank + 1)
    if m < steps or m == 0 or count * m > load_i64(about, WORK):
        return 0
    order = malloc(8 * m)
    if order == 0:
        return 0
    pivots = load_ptr(words)
    out = load_ptr(result)
    for _ in range(count):
        for i in range(m):
            store_i64(order, 8 * i, i)
        for i in range(steps):
            other = i64(load_i32(pivots, 4 * i)) - 1
            if other < 0 or other >= m:
                free(order)
                return 0
            row = load_i64(order, 8 * i)
            store_i64(order, 8 * i, load_i64(order, 8 * other))
            store_i64(order, 8 * other, row)
        for i in range(m):
            store_i64(out, 8 * load_i64(order, 8 * i), i)
        pivots = pivots + 4 * steps
        out = out + 8 * m
    free(order)
    return 1


def factor_inv(words: ptr, about: ptr) -> i64:
    """Inverses."""
    rank = load_i64(about, ARGUMENTS)
    n = load_i64(words, 8 * rank)
    count = count_matrices(words + 8, rank)
    if n > LARGEST or is_declined(about, GETRF, count, n, n):
        return 0
    return _solutions(about, count, n, n, words, words, 0, words + 8 * (rank + 1), rank)


def factor_solve(words: ptr, about: ptr) -> i64:
    """X of A X = B."""
    rank = load_i64(about, ARGUMENTS)
    of = words + 8 * (rank + 1)
    of_rank = load_i64(about, ARGUMENTS + 8)
    out = of + 8 * (of_rank + 1)
    out_rank = rank if rank > of_rank else of_rank
    n = load_i64(words, 8 * rank)
    k = load_i64(of, 8 * of_rank)
    count = count_matrices(out + 8, out_rank)
    if n > LARGEST or k > LARGEST or is_declined(about, GETRF, count, n, n if n > k else k):
        return 0
    return _solutions(about, count, n, k, words, of, 1, out, out_rank)


def _solutions(
    about: ptr, count: i64, n: i64, k: i64, a: ptr, b: ptr, has_right: i64, out: ptr, out_rank: i64
) -> i64:
    """What A times the result is B, or 1."""
    kind = load_i64(about, KIND)
    item = bytes_of(kind)
    turned = malloc(n * (n + k) * item + 8 * n)
    if turned == 0:
        return 0
    right: ptr = turned + n * n * item
    pivots: ptr = right + n * k * item
    numbers = buffer(NUMBERS_BYTES)
    store_i64(numbers, ROWS, n)
    store_i64(numbers, COLUMNS, n)
    store_i64(numbers, RIGHT, k)
    rank = load_i64(about, ARGUMENTS)
    status = 1
    for number in range(count):
        place = _place(a + 8, rank, out + 8, out_rank, number)
        if _factor(about, load_ptr(a) + place * n * n * item, turned, pivots, numbers) != 0:
            status = 0
            break
        if has_right:
            place = _place(b + 8, load_i64(about, ARGUMENTS + 8), out + 8, out_rank, number)
            turned_matrix(right, load_ptr(b) + place * n * k * item, n, k, item)
        else:
            _unit(right, n, kind)
        call_void(
            lapack_function(about, GETRS), c_string("N"), numbers + ROWS, numbers + RIGHT, turned, numbers + ROWS,
            pivots, right, numbers + ROWS, numbers + INFO, 1,
        )  # fmt: skip
        turned_matrix(load_ptr(out) + number * n * k * item, right, k, n, item)
    free(turned)
    return status


def factor_det(words: ptr, about: ptr) -> i64:
    """Determinants."""
    return _determinants(words, about, 0)


def factor_slogdet(words: ptr, about: ptr) -> i64:
    """Signs and logarithms of determinants."""
    return _determinants(words, about, 1)


def _determinants(words: ptr, about: ptr, apart: i64) -> i64:
    rank = load_i64(about, ARGUMENTS)
    kind = load_i64(about, KIND)
    item = bytes_of(kind)
    n = load_i64(words, 8 * rank)
    count = count_matrices(words + 8, rank)
    if n > LARGEST or is_declined(about, GETRF, count, n, n):
        return 0
    turned = malloc(n * n * item + 8 * n)
    if turned == 0:
        return 0
    pivots: ptr = turned + n * n * item
    numbers = buffer(NUMBERS_BYTES)
    store_i64(numbers, ROWS, n)
    store_i64(numbers, COLUMNS, n)
    source = load_ptr(words)
    out = load_ptr(words, 8 * rank + 8)
    logarithms: ptr = load_ptr(words, 16 * rank) if apart else ptr(0)
    for _ in range(count):
        _factor(about, source, turned, pivots, numbers)
        _product(turned, pivots, n, kind, out, logarithms)
        source = source + n * n * item
        out = out + item
        if apart:
            logarithms = logarithms + (4 << (kind & 1))
    free(turned)
    return 1


def _product(factors: ptr, pivots: ptr, n: i64, kind: i64, out: ptr, logarithms: ptr) -> None:
    """The product of the diagonal, and -1 for each exchange; apart its sign and the logarithm of its size."""
    real = 1.0
    imaginary = 0.0
    size = 0.0
    step = (n + 1) * bytes_of(kind)
    for i in range(n):
        if load_i32(pivots, 4 * i) != i + 1:
            real = -real
            imaginary = -imaginary
        re = part_of(factors + i * step, kind, 0)
        im = part_of(factors + i * step, kind, 1) if kind >= COMPLEX else 0.0
        if logarithms:
            length = hypot(re, im) if kind >= COMPLEX else (-re if re < 0.0 else re)
            size += log(length)
            if length > 0.0:
                re = re / length
                im = im / length
        if kind >= COMPLEX:
            before = real
            real = real * re - imaginary * im
            imaginary = before * im + imaginary * re
        else:
            real = real * re
    store(out, kind, real, imaginary)
    if logarithms:
        store(logarithms, kind & 1, size, 0.0)


# -- triangles --------------------------------------------------------------------------------------------------------
def factor_triangular(words: ptr, about: ptr) -> i64:
    """X of A X = B, of which one triangle of A is read: as transposes lie there, X^T A^T = B^T."""
    rank = load_i64(about, ARGUMENTS)
    b = words + 8 * (rank + 1)
    b_rank = load_i64(about, ARGUMENTS + 8)
    out = b + 8 * (b_rank + 1)
    out_rank = rank if rank > b_rank else b_rank
    kind = load_i64(about, KIND)
    item = bytes_of(kind)
    n = load_i64(words, 8 * rank)
    k = load_i64(b, 8 * b_rank)
    count = count_matrices(out + 8, out_rank)
    if is_declined(about, TRSM, count, n, k):
        return 0
    numbers = buffer(NUMBERS_BYTES)
    store_i64(numbers, ROWS, n)
    store_i64(numbers, RIGHT, k)
    store(numbers + ONE, kind, 1.0, 0.0)
    half: ptr = c_string("L") if load_i64(about, ARGUMENTS + 16) else c_string("U")
    diagonal: ptr = c_string("U") if load_i64(about, ARGUMENTS + 24) else c_string("N")
    for number in range(count):
        to = load_ptr(out) + number * n * k * item
        place = _place(b + 8, b_rank, out + 8, out_rank, number)
        copy_bytes(to, load_ptr(b) + place * n * k * item, n * k * item)
        place = _place(words + 8, rank, out + 8, out_rank, number)
        call_void(
            lapack_function(about, TRSM), c_string("R"), half, c_string("N"), diagonal, numbers + RIGHT, numbers + ROWS,
            numbers + ONE, load_ptr(words) + place * n * n * item, numbers + ROWS, to, numbers + RIGHT, 1, 1, 1, 1,
        )  # fmt: skip
    return 1
