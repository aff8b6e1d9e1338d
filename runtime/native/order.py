"""The stable order of elements along a dimension, or of its first few: NaN counts as the largest, -0.0 as 0.0.

Memory is (outer, n, inner); a *line*, which is a task, is one outer and one inner index: n elements, `inner` apart.
Every element becomes a record of 16 bytes: a key, which compares as a number without sign as the element does, and its
place. Few records are sorted by insertion, many by their digits, the lowest first; a few of many are found in one pass.
"""

from __future__ import annotations

from eagerjit.runtime.native.language import (
    fill_bytes,
    i64,
    less_unsigned,
    load_f32,
    load_i64,
    load_ptr,
    load_u8,
    load_u16,
    load_u32,
    ptr,
    shift_right_unsigned,
    store_i64,
)

X, OUT, N, INNER, COUNT, ITEM, KIND, INFINITY, DESCENDING = 0, 8, 16, 24, 32, 40, 48, 56, 64  # a job's words, in bytes
UNSIGNED, SIGNED, FLOAT = 0, 1, 2

RECORD = 16
FEW = 24
"""Records up to which insertion is quickest."""

SOME = 64
"""Wanted elements up to which they are found in one pass, where they are an eighth of all or less."""

MANY = 8192
"""Records from which on digits have 11 bits rather than 8."""

HISTOGRAM_BYTES = 8 * 6 * 2048

def _bits(at: ptr, item: i64) -> i64:
    """An element's bits as they are."""
    match item:
        case 1:
            return load_u8(at)
        case 2:
            return load_u16(at)
        case 4:
            return load_u32(at)
    return load_i64(at)


def _key(at: ptr, job: ptr) -> i64:
    """The key of the element at an address: as many bits as the element has."""
    item = load_i64(job, ITEM)
    kind = load_i64(job, KIND)
    bits = _bits(at, item)
    sign = 1 << (8 * item - 1)
    if kind == UNSIGNED:
        return bits
    if kind == SIGNED:
        return bits ^ sign
    size = bits & (sign - 1)
    if size > load_i64(job, INFINITY):
        return sign | (sign - 1)
    if size == 0:
        return sign
    return (sign | (sign - 1)) - bits if bits & sign else bits | sign


def order_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """The order of lines begin to end."""
    n = load_i64(job, N)
    inner = load_i64(job, INNER)
    count = load_i64(job, COUNT)
    item = load_i64(job, ITEM)
    sign = 1 << (8 * item - 1)
    flip = sign | (sign - 1) if load_i64(job, DESCENDING) else 0
    for line in range(begin, end):
        x = load_ptr(job, X) + (line // inner * n * inner + line % inner) * item
        out = load_ptr(job, OUT) + (line // inner * count * inner + line % inner) * 8
        records = scratch
        if count <= SOME and 8 * count <= n:
            if load_i64(job, KIND) == FLOAT and item == 4:
                _first_of_floats(x, n, inner * 4, job, count, flip, records)
            else:
                _first_few(x, n, inner * item, job, count, flip, records)
        else:
            _fill(x, n, inner * item, job, flip, records)
            if n <= FEW:
                _insert_all(records, n)
            else:
                records = _sorted(records, scratch + RECORD * n, scratch + 2 * RECORD * n, n, 8 * item)
        for i in range(count):
            store_i64(out, 0, load_i64(records, RECORD * i + 8))
            out = out + 8 * inner
    return 0


def _fill(x: ptr, n: i64, step: i64, job: ptr, flip: i64, records: ptr) -> None:
    for i in range(n):
        store_i64(records, RECORD * i, _key(x, job) ^ flip)
        store_i64(records, RECORD * i + 8, i)
        x = x + step


def _insert(records: ptr, n: i64, key: i64, place: i64) -> None:
    """Puts a record behind those of n in order that are not larger, overwriting the one after the last."""
    at = records + RECORD * n
    while at > records and less_unsigned(key, load_i64(at, -RECORD)):
        store_i64(at, 0, load_i64(at, -RECORD))
        store_i64(at, 8, load_i64(at, 8 - RECORD))
        at = at - RECORD
    store_i64(at, 0, key)
    store_i64(at, 8, place)


def _insert_all(records: ptr, n: i64) -> None:
    for i in range(1, n):
        _insert(records, i, load_i64(records, RECORD * i), load_i64(records, RECORD * i + 8))


def _first_few(x: ptr, n: i64, step: i64, job: ptr, count: i64, flip: i64, records: ptr) -> None:
    """The first `count` records in order, by one pass that keeps the best so far."""
    if count == 0:
        return
    for i in range(count):
        _insert(records, i, _key(x, job) ^ flip, i)
        x = x + step
    worst = load_i64(records, RECORD * (count - 1))
    for i in range(count, n):
        key = _key(x, job) ^ flip
        if less_unsigned(key, worst):
            _insert(records, count - 1, key, i)
            worst = load_i64(records, RECORD * (count - 1))
        x = x + step


def _first_of_floats(x: ptr, n: i64, step: i64, job: ptr, count: i64, flip: i64, records: ptr) -> None:
    """`_first_few` of float32, which compares most elements as they are."""
    if count == 0:
        return
    base = x
    for i in range(count):
        _insert(records, i, _key(x, job) ^ flip, i)
        x = x + step
    worst = load_i64(records, RECORD * (count - 1))
    limit = load_f32(base + step * load_i64(records, RECORD * (count - 1) + 8))
    for i in range(count, n):
        value = load_f32(x)
        behind = value <= limit if flip else value >= limit
        if not behind:
            key = _key(x, job) ^ flip
            if less_unsigned(key, worst):
                _insert(records, count - 1, key, i)
                worst = load_i64(records, RECORD * (count - 1))
                limit = load_f32(base + step * load_i64(records, RECORD * (count - 1) + 8))
        x = x + step


def _sorted(records: ptr, other: ptr, histograms: ptr, n: i64, key_bits: i64) -> ptr:
    """Sorts records, going back and forth between two areas; the one that holds them in the end."""
    bits = 11 if n >= MANY else 8
    digits = 1 << bits
    turns = (key_bits + bits - 1) // bits
    fill_bytes(histograms, 0, 8 * turns * digits)
    for i in range(n):
        key = load_i64(records, RECORD * i)
        cells = histograms
        for _ in range(turns):
            cell = cells + 8 * (key & (digits - 1))
            store_i64(cell, 0, load_i64(cell) + 1)
            key = shift_right_unsigned(key, bits)
            cells = cells + 8 * digits
    for turn in range(turns):
        cells = histograms + 8 * turn * digits
        shift = turn * bits
        if load_i64(cells, 8 * (shift_right_unsigned(load_i64(records), shift) & (digits - 1))) == n:
            continue
        total = 0
        for i in range(digits):
            number = load_i64(cells, 8 * i)
            store_i64(cells, 8 * i, total)
            total += number
        for i in range(n):
            key = load_i64(records, RECORD * i)
            cell = cells + 8 * (shift_right_unsigned(key, shift) & (digits - 1))
            at = load_i64(cell)
            store_i64(cell, 0, at + 1)
            store_i64(other, RECORD * at, key)
            store_i64(other, RECORD * at + 8, load_i64(records, RECORD * i + 8))
        swapped = records
        records = other
        other = swapped
    return records
