"""Searches: places in sorted rows, extremes and linear recurrences along lines, where flags hold.

Lines are those of `scan.py`: n elements, `inner` apart; a task is up to eight of them, taken side by side.
"""

from __future__ import annotations

from eagerjit.runtime.native.language import (
    buffer,
    f32,
    f64,
    i64,
    load_f32,
    load_f64,
    load_i64,
    load_ptr,
    load_u8,
    ptr,
    store_f64,
    store_i64,
)

SORTED, VALUES, PLACES, ROW, VALUES_PER_ROW, TOTAL, KIND, RIGHT = 0, 8, 16, 24, 32, 40, 48, 56  # words of a search
X, OUT, N, INNER, LINES, LINE_KIND, LARGEST = 0, 8, 16, 24, 32, 40, 48  # of extremes so far
FACTORS, TERMS, RESULT, LENGTH, APART, ALL_LINES = 0, 8, 16, 24, 32, 40  # of a recurrence
FLAGS, POSITIONS, COUNT = 0, 8, 24  # of positions, whose flags are N

INTEGERS, DOUBLES, SINGLES, ORDERED_INTEGERS = 0, 1, 2, 3
CHUNK = 1024
"""Values that a task looks up."""

STEPS_BYTES = 16 * 64
"""Of a search: two numbers for each of its levels."""

TOGETHER = 8


def search_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """The places of the values of tasks begin to end."""
    first = begin * CHUNK
    last = end * CHUNK
    last = last if last < load_i64(job, TOTAL) else load_i64(job, TOTAL)
    per_row = load_i64(job, VALUES_PER_ROW)
    size = 4 if load_i64(job, KIND) == SINGLES else 8
    row = load_ptr(job, SORTED) + first // per_row * load_i64(job, ROW) * size if first < last else 0
    left = per_row - first % per_row if first < last else 0
    while first < last:
        count = left if left < last - first else last - first
        values = load_ptr(job, VALUES) + first * size
        out = load_ptr(job, PLACES) + first * 8
        match load_i64(job, KIND):
            case 0:
                _among_integers(row, load_i64(job, ROW), values, out, count, load_i64(job, RIGHT))
            case 1:
                _among_doubles(row, load_i64(job, ROW), values, out, count, load_i64(job, RIGHT))
            case 2:
                _among_singles(row, load_i64(job, ROW), values, out, count, load_i64(job, RIGHT))
            case 3:
                _walk(row, load_i64(job, ROW), values, out, count, load_i64(job, RIGHT))
        first += count
        row = row + load_i64(job, ROW) * size
        left = per_row
    return 0


def _before_integers(other: i64, value: i64, right: i64) -> i64:
    return not (other > value if right else other >= value)


def _before_doubles(other: f64, value: f64, right: i64) -> i64:
    return not (other > value if right else other >= value)


def _before_singles(other: f32, value: f32, right: i64) -> i64:
    return not (other > value if right else other >= value)


def _steps(steps: ptr, n: i64) -> i64:
    """How far a search among n goes on at each of its levels: at one step not at all, or so far; how many levels.

    They are the same for all values, and a step is read where it might be branched on: a processor foresees no
    comparison, but so is busy with several values at once.
    """
    levels = 0
    left = n
    while left > 0:
        half = left >> 1 if left > 1 else 1
        store_i64(steps, 16 * levels, 0)
        store_i64(steps, 16 * levels + 8, half)
        levels += 1
        left -= half
    return levels


def _among_integers(row: ptr, n: i64, values: ptr, out: ptr, count: i64, right: i64) -> None:
    steps = buffer(STEPS_BYTES)
    levels = _steps(steps, n)
    for i in range(count):
        value = load_i64(values, 8 * i)
        low = 0
        for level in range(levels):
            at = row + 8 * (low + load_i64(steps, 16 * level + 8))
            low += load_i64(steps, 16 * level + 8 * _before_integers(load_i64(at, -8), value, right))
        store_i64(out, 8 * i, low)


def _walk(row: ptr, n: i64, values: ptr, out: ptr, count: i64, right: i64) -> None:
    """Of integers in order: each place is found from the last one on."""
    low = 0
    for i in range(count):
        value = load_i64(values, 8 * i)
        if i == 0:
            _among_integers(row, n, values, out, 1, right)
            low = load_i64(out)
        while low < n and _before_integers(load_i64(row, 8 * low), value, right):
            low += 1
        store_i64(out, 8 * i, low)


def _among_doubles(row: ptr, n: i64, values: ptr, out: ptr, count: i64, right: i64) -> None:
    if n > 0 and _float_at(row, n - 1, 8) != _float_at(row, n - 1, 8):
        _among_nans(row, n, values, out, count, right, 8)
        return
    steps = buffer(STEPS_BYTES)
    levels = _steps(steps, n)
    for i in range(count):
        value = load_f64(values, 8 * i)
        low = 0
        for level in range(levels):
            at = row + 8 * (low + load_i64(steps, 16 * level + 8))
            low += load_i64(steps, 16 * level + 8 * _before_doubles(load_f64(at, -8), value, right))
        store_i64(out, 8 * i, low)


def _among_singles(row: ptr, n: i64, values: ptr, out: ptr, count: i64, right: i64) -> None:
    if n > 0 and _float_at(row, n - 1, 4) != _float_at(row, n - 1, 4):
        _among_nans(row, n, values, out, count, right, 4)
        return
    steps = buffer(STEPS_BYTES)
    levels = _steps(steps, n)
    for i in range(count):
        value = load_f32(values, 4 * i)
        low = 0
        for level in range(levels):
            at = row + 4 * (low + load_i64(steps, 16 * level + 8))
            low += load_i64(steps, 16 * level + 8 * _before_singles(load_f32(at, -4), value, right))
        store_i64(out, 8 * i, low)


def _among_nans(row: ptr, n: i64, values: ptr, out: ptr, count: i64, right: i64, size: i64) -> None:
    """Of a row with NaN at its end, which no value comes before: where a search ends depends on its steps."""
    for i in range(count):
        value = _float_at(values, i, size)
        low = 0
        high = n
        while low < high:
            middle = (low + high) // 2
            if _before_doubles(_float_at(row, middle, size), value, right):
                low = middle + 1
            else:
                high = middle
        store_i64(out, 8 * i, low)


def _start(line: i64, n: i64, inner: i64) -> i64:
    """The first element of a line."""
    return line // inner * n * inner + line % inner


def running_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Where the extremes so far are, in the lines of tasks begin to end."""
    line = begin * TOGETHER
    last = end * TOGETHER
    last = last if last < load_i64(job, LINES) else load_i64(job, LINES)
    inner = load_i64(job, INNER)
    while line < last:
        count = 1
        if inner > 1:
            count = inner - line % inner
            count = count if count < TOGETHER else TOGETHER
            count = count if count < last - line else last - line
        if load_i64(job, LINE_KIND) == INTEGERS:
            _extreme_integers(job, line, count)
        else:
            _extreme_floats(job, line, count)
        line += count
    return 0


def _extreme_integers(job: ptr, line: i64, count: i64) -> None:
    """Of `count` neighbouring lines."""
    best = buffer(64)
    places = buffer(64)
    n = load_i64(job, N)
    inner = load_i64(job, INNER)
    flip = 0 if load_i64(job, LARGEST) else -1  # ~x is the larger, the smaller x is
    at = load_ptr(job, X) + 8 * _start(line, n, inner)
    out = load_ptr(job, OUT) + 8 * _start(line, n, inner)
    for j in range(count):
        store_i64(best, 8 * j, -(1 << 63))
        store_i64(places, 8 * j, 0)
    if inner == 1:
        most = -(1 << 63)
        place = 0
        for i in range(n):
            value = load_i64(at, 8 * i) ^ flip
            if value >= most:
                most = value
                place = i
            store_i64(out, 8 * i, place)
        return
    for i in range(n):
        for j in range(count):
            value = load_i64(at, 8 * j) ^ flip
            if value >= load_i64(best, 8 * j):
                store_i64(best, 8 * j, value)
                store_i64(places, 8 * j, i)
            store_i64(out, 8 * j, load_i64(places, 8 * j))
        at = at + 8 * inner
        out = out + 8 * inner


def _extreme_of_singles(at: ptr, out: ptr, n: i64, sign: f32) -> None:
    """Of a line whose elements are neighbours, by far the commonest."""
    place = 0
    most: f32 = sign * load_f32(at) if n > 0 else 0.0
    for i in range(n):
        value = sign * load_f32(at, 4 * i)
        if not value < most and (most == most or value != value):
            most = value
            place = i
        store_i64(out, 8 * i, place)


def _float_at(at: ptr, i: i64, size: i64) -> f64:
    return f64(load_f32(at, 4 * i)) if size == 4 else load_f64(at, 8 * i)


def _extreme_floats(job: ptr, line: i64, count: i64) -> None:
    """Of `count` neighbouring lines; once there is a NaN, the last one is the extreme."""
    best = buffer(64)
    places = buffer(64)
    n = load_i64(job, N)
    inner = load_i64(job, INNER)
    sign: f64 = 1.0 if load_i64(job, LARGEST) else -1.0
    size = 4 if load_i64(job, LINE_KIND) == SINGLES else 8
    at = load_ptr(job, X) + size * _start(line, n, inner)
    out = load_ptr(job, OUT) + 8 * _start(line, n, inner)
    if inner == 1 and size == 4:
        _extreme_of_singles(at, out, n, f32(sign))
        return
    for i in range(n):
        for j in range(count):
            value = sign * _float_at(at, j, size)
            known = load_f64(best, 8 * j)
            if i == 0 or (not value < known and (known == known or value != value)):
                store_f64(best, 8 * j, value)
                store_i64(places, 8 * j, i)
            store_i64(out, 8 * j, load_i64(places, 8 * j))
        at = at + size * inner
        out = out + 8 * inner


def recurrence_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """h[i] = a[i] * h[i-1] + b[i] in the lines of tasks begin to end."""
    line = begin * TOGETHER
    last = end * TOGETHER
    last = last if last < load_i64(job, ALL_LINES) else load_i64(job, ALL_LINES)
    n = load_i64(job, LENGTH)
    inner = load_i64(job, APART)
    totals = buffer(64)
    while line < last:
        count = inner - line % inner
        count = count if count < TOGETHER else TOGETHER
        count = count if count < last - line else last - line
        place = 8 * _start(line, n, inner)
        a = load_ptr(job, FACTORS) + place
        b = load_ptr(job, TERMS) + place
        out = load_ptr(job, RESULT) + place
        for j in range(count):
            store_f64(totals, 8 * j, 0.0)
        for _ in range(n):
            for j in range(count):
                total = load_f64(a, 8 * j) * load_f64(totals, 8 * j) + load_f64(b, 8 * j)
                store_f64(totals, 8 * j, total)
                store_f64(out, 8 * j, total)
            a = a + 8 * inner
            b = b + 8 * inner
            out = out + 8 * inner
        line += count
    return 0


def positions_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Where flags hold; the one task takes all of them."""
    flags = load_ptr(job, FLAGS)
    out = load_ptr(job, POSITIONS)
    n = load_i64(job, N)
    count = load_i64(job, COUNT)
    found = 0
    i = 0
    while i + 8 <= n and found + 8 <= count:
        if load_i64(flags, i) != 0:
            for j in range(i, i + 8):
                store_i64(out, 8 * found, j)
                found += load_u8(flags, j) != 0
        i += 8
    while i < n and found < count:
        store_i64(out, 8 * found, i)
        found += load_u8(flags, i) != 0
        i += 1
    return 0
