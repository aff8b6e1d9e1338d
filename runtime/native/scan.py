"""Sums and products of all elements up to each along a dimension; floats in order and in double precision.

Memory is (outer, n, inner); a *line* is one outer and one inner index: n elements, `inner` apart. A task is eight
lines, whose totals are one vector. Where the lines lie side by side their elements are vectors already. Otherwise
some elements of each are turned around on the stack: a cache line of each line is read, and one written, before the
next, for lines that are a power of two apart share so few places of a cache that it would not keep them. Of lines
shorter than that which follow each other, one is done after the other.
"""

from __future__ import annotations

from eagerjit.runtime.native.language import (
    address_of,
    buffer,
    f32,
    f64,
    i64,
    load_f32,
    load_f64,
    load_i32,
    load_i64,
    load_ptr,
    ptr,
    run_eight,
    store_f32,
    store_f64,
    store_i32,
    store_i64,
    store_ptr,
    transpose_tile,
    transpose_wide,
)
from eagerjit.runtime.native.threads import parallel_for, thread_count

X, OUT, N, INNER, LINES, ITEM, FLOAT, PRODUCT = 0, 8, 16, 24, 32, 40, 48, 56  # a job's words, in bytes
TOGETHER = 8
BESIDE = 64  # lines that advance together at most, for tasks that are done one after the other
COLUMNS = 16  # numbers of a line that are turned around together: a cache line of floats
LONG = 1 << 16  # integers of a line from which on threads share it
PARTS = 64


def scan_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """The lines of tasks begin to end."""
    line = begin * TOGETHER
    last = end * TOGETHER
    last = last if last < load_i64(job, LINES) else load_i64(job, LINES)
    inner = load_i64(job, INNER)
    if inner == 1 and load_i64(job, N) < COLUMNS and load_i64(job, PRODUCT) == 0:
        _short_sums(job, line, last)
        return 0
    while line < last:
        if line + TOGETHER > last:
            if load_i64(job, FLOAT):
                _one_of_floats(job, line)
            else:
                _one_of_integers(job, line)
            line += 1
        elif line % inner + TOGETHER > inner:
            _apart(job, line)
            line += TOGETHER
        else:
            beside = inner - line % inner
            beside = beside if line + beside < last else last - line
            beside = (beside if beside < BESIDE else BESIDE) & -TOGETHER
            _side_by_side(job, line, beside)
            line += beside
    return 0


def _start(job: ptr, line: i64) -> i64:
    """Where a line begins, in bytes."""
    inner = load_i64(job, INNER)
    place = line // inner * load_i64(job, N) * inner + line % inner
    return place * load_i64(job, ITEM)


# -- one line ---------------------------------------------------------------------------------------------------------
def _one_of_floats(job: ptr, line: i64) -> None:
    item = load_i64(job, ITEM)
    product = load_i64(job, PRODUCT)
    step = load_i64(job, INNER) * item
    at = load_ptr(job, X) + _start(job, line)
    out = load_ptr(job, OUT) + _start(job, line)
    total: f64 = f64(product)
    for _ in range(load_i64(job, N)):
        value: f64 = load_f64(at) if item == 8 else f64(load_f32(at))
        total = total * value if product else total + value
        if item == 8:
            store_f64(out, 0, total)
        else:
            store_f32(out, 0, f32(total))
        at = at + step
        out = out + step


def _one_of_integers(job: ptr, line: i64) -> None:
    """Integers wrap around: the parts of a long line, which threads scan, are taken together in any order."""
    n = load_i64(job, N)
    if n < LONG or load_i64(job, LINES) >= TOGETHER or thread_count() == 1:
        _scan_integers(job, line, 0, n, load_i64(job, PRODUCT))
        return
    parts: ptr = buffer(8 * PARTS + 16)
    store_ptr(parts, 8 * PARTS, job)
    store_i64(parts, 8 * PARTS + 8, line)
    parallel_for(address_of(_totals_kernel), parts, PARTS, 0, 1)
    before = load_i64(job, PRODUCT)
    for part in range(PARTS):
        total = load_i64(parts, 8 * part)
        store_i64(parts, 8 * part, before)
        before = before * total if load_i64(job, PRODUCT) else before + total
    parallel_for(address_of(_parts_kernel), parts, PARTS, 0, 1)


def _totals_kernel(parts: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """The sum or product of each part of a line."""
    job = load_ptr(parts, 8 * PARTS)
    line = load_i64(parts, 8 * PARTS + 8)
    step = load_i64(job, INNER) * 8
    at = load_ptr(job, X) + _start(job, line)
    for part in range(begin, end):
        total = load_i64(job, PRODUCT)
        place = _part(job, part) * step
        stop = _part(job, part + 1) * step
        if total:
            while place < stop:
                total *= load_i64(at, place)
                place += step
        others = 0
        while place + 3 * step < stop:
            total += load_i64(at, place) + load_i64(at, place + step)
            others += load_i64(at, place + 2 * step) + load_i64(at, place + 3 * step)
            place += 4 * step
        total += others
        while place < stop:
            total += load_i64(at, place)
            place += step
        store_i64(parts, 8 * part, total)
    return 0


def _parts_kernel(parts: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """The scans of the parts, from what comes before each."""
    job = load_ptr(parts, 8 * PARTS)
    for part in range(begin, end):
        line = load_i64(parts, 8 * PARTS + 8)
        _scan_integers(job, line, _part(job, part), _part(job, part + 1), load_i64(parts, 8 * part))
    return 0


def _part(job: ptr, part: i64) -> i64:
    """Where a part of a line begins."""
    return load_i64(job, N) * part // PARTS


def _scan_integers(job: ptr, line: i64, begin: i64, end: i64, total: i64) -> None:
    """Elements begin to end of a line, after a total."""
    step = load_i64(job, INNER) * 8
    at = load_ptr(job, X) + _start(job, line)
    out = load_ptr(job, OUT) + _start(job, line)
    place = begin * step
    stop = end * step
    if load_i64(job, PRODUCT):
        while place < stop:
            total *= load_i64(at, place)
            store_i64(out, place, total)
            place += step
        return
    while place < stop:
        total += load_i64(at, place)
        store_i64(out, place, total)
        place += step


# -- short lines ------------------------------------------------------------------------------------------------------
def _short_sums(job: ptr, line: i64, last: i64) -> None:
    """Sums of lines that follow each other: a processor begins the next ones before one is done."""
    n = load_i64(job, N)
    item = load_i64(job, ITEM)
    at = load_ptr(job, X) + line * n * item
    out = load_ptr(job, OUT) + line * n * item
    if load_i64(job, FLOAT) == 0:
        for _ in range(line, last):
            count = 0
            for _ in range(n):
                count += load_i64(at)
                store_i64(out, 0, count)
                at = at + 8
                out = out + 8
        return
    if item == 8:
        for _ in range(line, last):
            wide: f64 = f64(0)
            for _ in range(n):
                wide = wide + load_f64(at)
                store_f64(out, 0, wide)
                at = at + 8
                out = out + 8
        return
    for _ in range(line, last):
        total: f64 = f64(0)
        for _ in range(n):
            total = total + f64(load_f32(at))
            store_f32(out, 0, f32(total))
            at = at + 4
            out = out + 4


# -- eight lines ------------------------------------------------------------------------------------------------------
def _start_totals(job: ptr, totals: ptr, count: i64) -> None:
    product = load_i64(job, PRODUCT)
    for i in range(count):
        if load_i64(job, FLOAT):
            store_f64(totals, 8 * i, f64(product))
        else:
            store_i64(totals, 8 * i, product)


def _advance(job: ptr, totals: ptr, out: ptr, at: ptr) -> None:
    """Takes in an element of each line, and stores what the totals are then."""
    product = load_i64(job, PRODUCT)
    if load_i64(job, FLOAT) == 0:
        if product:
            run_eight(8, 0, 1, totals, out, at)
        else:
            run_eight(8, 0, 0, totals, out, at)
    elif load_i64(job, ITEM) == 8:
        if product:
            run_eight(8, 1, 1, totals, out, at)
        else:
            run_eight(8, 1, 0, totals, out, at)
    elif product:
        run_eight(4, 1, 1, totals, out, at)
    else:
        run_eight(4, 1, 0, totals, out, at)


def _side_by_side(job: ptr, line: i64, count: i64) -> None:
    totals: ptr = buffer(8 * BESIDE)
    _start_totals(job, totals, count)
    item = load_i64(job, ITEM)
    at = load_ptr(job, X) + _start(job, line)
    out = load_ptr(job, OUT) + _start(job, line)
    step = load_i64(job, INNER) * item
    for _ in range(load_i64(job, N)):
        for i in range(0, count, TOGETHER):
            _advance(job, totals + 8 * i, out + i * item, at + i * item)
        at = at + step
        out = out + step


def _apart(job: ptr, line: i64) -> None:
    totals: ptr = buffer(8 * TOGETHER)
    turned: ptr = buffer(8 * TOGETHER * COLUMNS)
    _start_totals(job, totals, TOGETHER)
    n = load_i64(job, N)
    item = load_i64(job, ITEM)
    step = load_i64(job, INNER) * item
    first = _start(job, line)
    begin = 0
    while begin < n:
        columns = COLUMNS if begin + COLUMNS <= n else n - begin
        at = load_ptr(job, X) + begin * step
        out = load_ptr(job, OUT) + begin * step
        squares = step == item and columns == COLUMNS
        if squares and item == 4:
            transpose_tile(8, turned, TOGETHER, at + first, n)
            transpose_tile(8, turned + 256, TOGETHER, at + first + 32, n)
        elif squares:
            for column in range(0, COLUMNS, 4):
                square: ptr = at + first + column * 8
                transpose_wide(turned + column * 64, TOGETHER, square, n)
                transpose_wide(turned + column * 64 + 32, TOGETHER, square + n * 32, n)
        else:
            for i in range(TOGETHER):
                _copy(turned + i * item, TOGETHER * item, at + _start(job, line + i), step, columns, item)
        for column in range(columns):
            row: ptr = turned + column * TOGETHER * item
            _advance(job, totals, row, row)
        if squares and item == 4:
            transpose_tile(8, out + first, n, turned, TOGETHER)
            transpose_tile(8, out + first + 32, n, turned + 256, TOGETHER)
        elif squares:
            for column in range(0, COLUMNS, 4):
                square = out + first + column * 8
                transpose_wide(square, n, turned + column * 64, TOGETHER)
                transpose_wide(square + n * 32, n, turned + column * 64 + 32, TOGETHER)
        else:
            for i in range(TOGETHER):
                _copy(out + _start(job, line + i), step, turned + i * item, TOGETHER * item, columns, item)
        begin += columns


def _copy(to: ptr, to_step: i64, source: ptr, step: i64, n: i64, item: i64) -> None:
    """Elements that are so many bytes apart."""
    for _ in range(n):
        if item == 4:
            store_i32(to, 0, load_i32(source))
        else:
            store_i64(to, 0, load_i64(source))
        to = to + to_step
        source = source + step
