"""The stable order of elements along a dimension, or of its first few: NaN counts as the largest, -0.0 as 0.0.

Memory is (outer, n, inner); a *line*, which is a task, is one outer and one inner index: n elements, `inner` apart.
Every element has a key, which compares as a number without sign as the element does. Few are sorted by insertion, as
records of 16 bytes that hold a key and its place; of some more, each one's place is how many others come before it;
many are sorted by their digits, the lowest first, as such records or, where few keys differ in their last bits alone,
as words of 8 bytes with the first 32. A few of many are found in one pass.
"""

from __future__ import annotations

from eagerjit.runtime.native.language import (
    copy_bytes,
    fill_bytes,
    i64,
    leading_zeros,
    less_of_eight,
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
FEW, COUNTED = 8, 96
"""Elements up to which insertion is quickest, and up to which each is compared with all others: vectors do that."""

SOME = 64
"""Wanted elements up to which they are found in one pass, where they are an eighth of all or less.

More of them are looked for so as long as that moves few records: all n are sorted where it takes `MOVES` * n.
"""
MOVES = 4

MANY = 8192
"""Records from which on digits have 11 bits rather than 8."""

SPLIT, FIRST_BITS = 1 << 15, 11
"""Words from which on they are first parted by a digit of so many bits: the parts fit into a cache."""

LOW = 0xFFFFFFFF
LEAST, MOST = -(1 << 63), (1 << 63) - 1

HISTOGRAM_BYTES = 8 * 6 * 2048
LINE_BYTES = 2 * RECORD
"""Scratch memory per element: two records; in the second one there is the key first."""


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
    return _key_of(_bits(at, load_i64(job, ITEM)), load_i64(job, ITEM), load_i64(job, KIND), load_i64(job, INFINITY))


def _key_of(bits: i64, item: i64, kind: i64, infinity: i64) -> i64:
    sign = 1 << (8 * item - 1)
    if kind == UNSIGNED:
        return bits
    if kind == SIGNED:
        return bits ^ sign
    size = bits & (sign - 1)
    if size > infinity:
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
        if not _first(x, n, inner * item, job, count, flip, records):
            if n > FEW:
                _sort(x, n, inner * item, job, flip, scratch, out, 8 * inner)
                continue
            _fill(x, n, inner * item, job, flip, records)
            _insert_all(records, n)
        for i in range(count):
            store_i64(out, 0, load_i64(records, RECORD * i + 8))
            out = out + 8 * inner
    return 0


def _fill(x: ptr, n: i64, step: i64, job: ptr, flip: i64, records: ptr) -> None:
    for i in range(n):
        store_i64(records, RECORD * i, _key(x, job) ^ flip)
        store_i64(records, RECORD * i + 8, i)
        x = x + step


def _insert(records: ptr, n: i64, key: i64, place: i64) -> i64:
    """Puts a record behind those of n in order that are not larger, overwriting the one after the last; those moved."""
    at = records + RECORD * n
    while at > records and less_unsigned(key, load_i64(at, -RECORD)):
        store_i64(at, 0, load_i64(at, -RECORD))
        store_i64(at, 8, load_i64(at, 8 - RECORD))
        at = at - RECORD
    store_i64(at, 0, key)
    store_i64(at, 8, place)
    return (records + RECORD * n - at) // RECORD


def _insert_all(records: ptr, n: i64) -> None:
    for i in range(1, n):
        _insert(records, i, load_i64(records, RECORD * i), load_i64(records, RECORD * i + 8))


def _first(x: ptr, n: i64, step: i64, job: ptr, count: i64, flip: i64, records: ptr) -> i64:
    """The first `count` records in order, by one pass that keeps the best so far; 0 where another way is quicker."""
    if 8 * count > n or (count > SOME and count * count > MOVES * n):
        return 0
    if count == 0:
        return 1
    moves = MOVES * n if count > SOME else 1 << 62
    if load_i64(job, KIND) == FLOAT and load_i64(job, ITEM) == 4:
        return _first_of_floats(x, n, step, job, count, flip, records, moves)
    return _first_few(x, n, step, job, count, flip, records, moves)


def _first_few(x: ptr, n: i64, step: i64, job: ptr, count: i64, flip: i64, records: ptr, moves: i64) -> i64:
    """`_first`; 0 after so many moves."""
    for i in range(count):
        _insert(records, i, _key(x, job) ^ flip, i)
        x = x + step
    worst = load_i64(records, RECORD * (count - 1))
    for i in range(count, n):
        key = _key(x, job) ^ flip
        if less_unsigned(key, worst):
            moves -= _insert(records, count - 1, key, i)
            if moves < 0:
                return 0
            worst = load_i64(records, RECORD * (count - 1))
        x = x + step
    return 1


def _first_of_floats(
    x: ptr, n: i64, step: i64, job: ptr, count: i64, flip: i64, records: ptr, moves: i64
) -> i64:
    """`_first_few` of float32, which compares most elements as they are."""
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
                moves -= _insert(records, count - 1, key, i)
                if moves < 0:
                    return 0
                worst = load_i64(records, RECORD * (count - 1))
                limit = load_f32(base + step * load_i64(records, RECORD * (count - 1) + 8))
        x = x + step
    return 1


def _sort(x: ptr, n: i64, step: i64, job: ptr, flip: i64, scratch: ptr, out: ptr, apart: i64) -> None:
    """The order of many elements: the places of the first ones, `apart` bytes from each other."""
    item = load_i64(job, ITEM)
    kind = load_i64(job, KIND)
    infinity = load_i64(job, INFINITY)
    keys = scratch + RECORD * n
    if n <= COUNTED:
        for i in range(n):
            store_i64(keys, 8 * i, _key_of(_bits(x, item), item, kind, infinity) ^ flip ^ LEAST)
            x = x + step
        _count_before(keys, n, load_i64(job, COUNT), out, apart, scratch)
        return
    least = -1
    most = 0
    for i in range(n):
        key = _key_of(_bits(x, item), item, kind, infinity) ^ flip
        store_i64(keys, 8 * i, key)
        least = key if less_unsigned(key, least) else least
        most = key if less_unsigned(most, key) else most
        x = x + step
    width = 0 if most == least else 64 - leading_zeros(most - least)
    cells = scratch + LINE_BYTES * n
    count = load_i64(job, COUNT)
    if n >> 32 == 0:
        shift = width - 32 if width > 32 else 0
        found = _sorted_words(keys, scratch, scratch + 8 * n, cells, n, least, shift, width - shift)
        if shift == 0 or _finish(found, keys, n):
            for i in range(count):
                store_i64(out, i * apart, load_u32(found, 8 * i))
            return
    found = _sorted_records(keys, scratch, keys, cells, n, least, width)
    for i in range(count):
        store_i64(out, i * apart, load_i64(found, RECORD * i + 8))


def _count_before(keys: ptr, n: i64, count: i64, out: ptr, apart: i64, taken: ptr) -> None:
    """The order of keys that compare with their sign, equal ones as they stand; `taken` is room for as many words."""
    whole = (n + 7) // 8 * 8
    for i in range(n, whole):
        store_i64(keys, 8 * i, MOST)
    fill_bytes(taken, 0, 8 * n)
    for i in range(n):
        key = load_i64(keys, 8 * i)
        less = 0
        for j in range(0, whole, 8):
            less += less_of_eight(keys + 8 * j, key)
        equal = load_i64(taken, 8 * less)
        store_i64(taken, 8 * less, equal + 1)
        if less + equal < count:
            store_i64(out, (less + equal) * apart, i)


def _turns(n: i64, width: i64) -> i64:
    """By how many digits keys of so many bits are sorted."""
    bits = 11 if n >= MANY else 8
    return (width + bits - 1) // bits


def _finish(words: ptr, keys: ptr, n: i64) -> i64:
    """Orders by whole keys what is in order by their first 32 bits; 0 where that takes more than a few moves each."""
    moves = 0
    for i in range(1, n):
        word = load_i64(words, 8 * i)
        high = shift_right_unsigned(word, 32)
        at = words + 8 * i
        while at > words and shift_right_unsigned(load_i64(at, -8), 32) == high:
            if not less_unsigned(load_i64(keys, 8 * (word & LOW)), load_i64(keys, 8 * load_u32(at, -8))):
                break
            store_i64(at, 0, load_i64(at, -8))
            at = at - 8
            moves += 1
        store_i64(at, 0, word)
        if moves > n:
            return 0
    return 1


def _count_digits(cells: ptr, key: i64, bits: i64, turns: i64) -> None:
    for _ in range(turns):
        cell = cells + 8 * (key & ((1 << bits) - 1))
        store_i64(cell, 0, load_i64(cell) + 1)
        key = shift_right_unsigned(key, bits)
        cells = cells + (8 << bits)


def _start_digits(cells: ptr, bits: i64) -> None:
    """Where those with each digit begin, for how many there are."""
    total = 0
    for i in range(1 << bits):
        number = load_i64(cells, 8 * i)
        store_i64(cells, 8 * i, total)
        total += number


def _sorted_words(
    keys: ptr, words: ptr, other: ptr, cells: ptr, n: i64, least: i64, shift: i64, width: i64
) -> ptr:
    """Words of a key's first bits and a place in order, in whichever of two areas they end up."""
    if n >= SPLIT and width > FIRST_BITS:
        _part_words(keys, words, other, cells, n, least, shift, width - FIRST_BITS)
        return words
    for i in range(n):
        key = shift_right_unsigned(load_i64(keys, 8 * i) - least, shift)
        store_i64(words, 8 * i, key << 32 | i)
    return _in_order(words, other, cells, n, width, 11 if n >= MANY else 8)


def _part_words(keys: ptr, words: ptr, other: ptr, cells: ptr, n: i64, least: i64, shift: i64, left: i64) -> None:
    """The words in order: parted by the first digit, which `left` bits follow, and then part by part."""
    fill_bytes(cells, 0, 8 << FIRST_BITS)
    for i in range(n):
        digit = shift_right_unsigned(load_i64(keys, 8 * i) - least, shift + left)
        store_i64(cells, 8 * digit, load_i64(cells, 8 * digit) + 1)
    _start_digits(cells, FIRST_BITS)
    for i in range(n):
        key = shift_right_unsigned(load_i64(keys, 8 * i) - least, shift)
        cell = cells + 8 * (key >> left)
        at = load_i64(cell)
        store_i64(cell, 0, at + 1)
        store_i64(words, 8 * at, key << 32 | i)
    begin = 0
    for digit in range(1 << FIRST_BITS):
        end = load_i64(cells, 8 * digit)
        _sort_part(words + 8 * begin, other, cells + (8 << FIRST_BITS), end - begin, left)
        begin = end


def _sort_part(words: ptr, other: ptr, cells: ptr, n: i64, width: i64) -> None:
    """Words in order that lie in a cache mostly; the other area is as large."""
    if n <= FEW:
        for i in range(1, n):
            word = load_i64(words, 8 * i)
            at = words + 8 * i
            while at > words and less_unsigned(word, load_i64(at, -8)):
                store_i64(at, 0, load_i64(at, -8))
                at = at - 8
            store_i64(at, 0, word)
        return
    most = 62 - leading_zeros(n)  # a digit has a quarter as many values as there are words
    if _in_order(words, other, cells, n, width, most if most < 11 else 11) != words:
        copy_bytes(words, other, 8 * n)


def _in_order(words: ptr, other: ptr, cells: ptr, n: i64, width: i64, most: i64) -> ptr:
    """Words by so many bits of their keys, digits of `most` bits at most: in whichever of two areas they end up."""
    turns = (width + most - 1) // most
    bits = (width + turns - 1) // turns if turns else 0
    fill_bytes(cells, 0, (8 * turns) << bits)
    for i in range(n):
        _count_digits(cells, shift_right_unsigned(load_i64(words, 8 * i), 32), bits, turns)
    for turn in range(turns):
        _start_digits(cells, bits)
        digit = 32 + turn * bits
        for i in range(n):
            word = load_i64(words, 8 * i)
            cell = cells + 8 * (shift_right_unsigned(word, digit) & ((1 << bits) - 1))
            at = load_i64(cell)
            store_i64(cell, 0, at + 1)
            store_i64(other, 8 * at, word)
        cells = cells + (8 << bits)
        swapped = words
        words = other
        other = swapped
    return words


def _sorted_records(keys: ptr, records: ptr, other: ptr, cells: ptr, n: i64, least: i64, width: i64) -> ptr:
    """Records in order, in whichever of two areas they end up."""
    turns = _turns(n, width)
    bits = (width + turns - 1) // turns if turns else 0
    fill_bytes(cells, 0, (8 * turns) << bits)
    for i in range(n):
        key = load_i64(keys, 8 * i) - least
        store_i64(records, RECORD * i, key)
        store_i64(records, RECORD * i + 8, i)
        _count_digits(cells, key, bits, turns)
    for turn in range(turns):
        _start_digits(cells, bits)
        shift = turn * bits
        for i in range(n):
            key = load_i64(records, RECORD * i)
            cell = cells + 8 * (shift_right_unsigned(key, shift) & ((1 << bits) - 1))
            at = load_i64(cell)
            store_i64(cell, 0, at + 1)
            store_i64(other, RECORD * at, key)
            store_i64(other, RECORD * at + 8, load_i64(records, RECORD * i + 8))
        cells = cells + (8 << bits)
        swapped = records
        records = other
        other = swapped
    return records
