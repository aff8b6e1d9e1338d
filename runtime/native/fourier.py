"""Fourier transforms of many lines: as many at a time as a vector has lanes, in scratch memory (Stockham's algorithm).

A task reads a block of lines into elements (`fourier_code.py`), each lane's numbers in the order of their line. A stage
of radix r makes r transforms of each in place of one, a r-th as long, and leaves results in their final order; after
the last stage the elements are the results.

Real signals go in pairs: the transform of a + i b holds those of a and b, whose numbers k and n - k are conjugates.
Of their spectra either halves are kept, or all numbers.

Lines are counted in groups: number i of line l of group g lies at (g * GROUP + l * LINE + i * ELEMENT) numbers, real or
complex ones as KIND says.
"""

from __future__ import annotations

from eagerjit.runtime.native.fourier_code import HALF
from eagerjit.runtime.native.language import (
    address_of,
    copy_bytes,
    fill_bytes,
    fourier_stage,
    i64,
    join_pairs,
    load_f32,
    load_f64,
    load_i64,
    load_ptr,
    ptr,
    put_pairs,
    scale_pairs,
    separate_pairs,
    store_f32,
    store_f64,
    take_pairs,
    transpose_tile,
    turn_pairs,
)
from eagerjit.runtime.native.threads import is_worth_threads, parallel_for, serial_for

# Words of a job, offsets in bytes.
LENGTH = 0  # of a transform
LINES = 8  # of a group
GROUPS = 16
ITEM = 24  # bytes of a real number
SWAP = 32  # HALF for the inverse, whose real and imaginary parts change places, else 0
STAGES = 40
TABLE = 48  # per stage STAGE_BYTES: its radix, how many groups of butterflies, of how many each, and their roots
SCALE = 56  # the address of a real number that results are multiplied with, or 0
TURN = 64  # the address of a factor for each number of each line of a group, or 0: their real parts,
TURN_IMAGINARY = 72  # and their imaginary parts
TURN_ROW = 80  # bytes from the factors of a line's number to those of its next one
WORK = 88  # about how many scalar operations
PAIRED = 96  # whether lines are real signals, twice as many at a time; to be made real, their spectra are halves
FROM = 104
TO = 152
JOB_BYTES = 200
STAGE_BYTES = 32

# Of FROM and of TO.
MEMORY = 0
KIND = 8
COUNT = 16  # numbers of a line that there are
LINE = 24
ELEMENT = 32
GROUP = 40

COMPLEX = 0
REAL = 1

_FULL = 2 * HALF


def fourier(job: ptr) -> i64:
    """All groups of lines; 0, or OUT_OF_MEMORY."""
    tasks = load_i64(job, GROUPS) * _blocks_of(job)
    scratch = 2 * _buffer_bytes(job)
    if is_worth_threads(load_i64(job, WORK)):
        return parallel_for(address_of(_blocks), job, tasks, scratch, 1)
    return serial_for(address_of(_blocks), job, tasks, scratch)


def _lanes(job: ptr) -> i64:
    return HALF // load_i64(job, ITEM)


def _blocks_of(job: ptr) -> i64:
    """The blocks of a group's lines."""
    lines = _lanes(job) << load_i64(job, PAIRED)
    return (load_i64(job, LINES) + lines - 1) // lines


def _buffer_bytes(job: ptr) -> i64:
    """Room for a block's elements, or for what is read or kept of two spectra."""
    n = load_i64(job, LENGTH)
    kept = 2 * load_i64(job + TO, COUNT) if load_i64(job, PAIRED) else 0
    return (kept if kept > n + 2 else n + 2) * _FULL


def _blocks(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Blocks of lines, numbered over the groups."""
    n = load_i64(job, LENGTH)
    blocks = _blocks_of(job)
    for task in range(begin, end):
        group = task // blocks
        first = task % blocks * (_lanes(job) << load_i64(job, PAIRED))
        elements: ptr = scratch
        others: ptr = scratch + _buffer_bytes(job)
        _read(elements, others, job, group, first)
        if load_i64(job, TURN):
            _turn(elements, job, first)
        for stage in range(load_i64(job, STAGES)):
            what: ptr = load_ptr(job, TABLE) + stage * STAGE_BYTES
            _stage(what, others, elements, load_i64(job, SWAP), load_i64(job, ITEM))
            spare: ptr = elements
            elements = others
            others = spare
        if load_i64(job, SCALE):
            for i in range(n):
                if load_i64(job, ITEM) == 4:
                    scale_pairs(0, elements + i * _FULL, load_ptr(job, SCALE))
                else:
                    scale_pairs(1, elements + i * _FULL, load_ptr(job, SCALE))
        _write(elements, others, job, group, first)
    return 0


def _count(job: ptr, first: i64) -> i64:
    """The lines from one on that lanes are taken by."""
    left = load_i64(job, LINES) - first
    left = left if left > 0 else 0
    return left if left < _lanes(job) else _lanes(job)


def _place(side: ptr, item: i64, group: i64, line: i64) -> ptr:
    """Where a line begins."""
    numbers = group * load_i64(side, GROUP) + line * load_i64(side, LINE)
    return load_ptr(side, MEMORY) + numbers * (item if load_i64(side, KIND) == REAL else 2 * item)


def _stage(what: ptr, to: ptr, source: ptr, swap: i64, item: i64) -> None:
    radix = load_i64(what)
    groups = load_i64(what, 8)
    run = load_i64(what, 16)
    if item == 4:
        fourier_stage(0, radix, groups, run, to, source, load_ptr(what, 24), swap)
    else:
        fourier_stage(1, radix, groups, run, to, source, load_ptr(what, 24), swap)


def _turn(elements: ptr, job: ptr, line: i64) -> None:
    item = load_i64(job, ITEM)
    reals: ptr = load_ptr(job, TURN) + line * item
    imaginary: ptr = load_ptr(job, TURN_IMAGINARY) + line * item
    row = load_i64(job, TURN_ROW)
    for i in range(load_i64(job, LENGTH)):
        if item == 4:
            turn_pairs(0, elements + i * _FULL, reals + i * row, imaginary + i * row, load_i64(job, SWAP))
        else:
            turn_pairs(1, elements + i * _FULL, reals + i * row, imaginary + i * row, load_i64(job, SWAP))


# -- reading ----------------------------------------------------------------------------------------------------------
def _read(elements: ptr, others: ptr, job: ptr, group: i64, first: i64) -> None:
    """The elements of a block; those of lanes without a line are zeros. The other elements are overwritten."""
    n = load_i64(job, LENGTH)
    paired = load_i64(job, PAIRED)
    if load_i64(job + FROM, KIND) == REAL:
        _read_real(elements, job, group, first)
        if paired:
            _read_real(elements + HALF, job, group, first + _lanes(job))
        else:
            for i in range(n):
                fill_bytes(elements + i * _FULL + HALF, 0, HALF)
    elif paired:
        half = n // 2 + 1
        _read_complex(elements, job, group, first, half)
        _read_complex(others, job, group, first + _lanes(job), half)
        _make_real(elements, n)
        _make_real(others, n)
        for i in range(half):
            low: ptr = elements + i * _FULL
            high: ptr = elements + (n - i) * _FULL
            if load_i64(job, ITEM) == 4:
                join_pairs(0, low, high, low, others + i * _FULL)
            else:
                join_pairs(1, low, high, low, others + i * _FULL)
    else:
        _read_complex(elements, job, group, first, n)


def _make_real(elements: ptr, n: i64) -> None:
    """Makes those numbers of a real signal's spectrum real that are their own conjugates."""
    fill_bytes(elements + HALF, 0, HALF)
    if n % 2 == 0:
        fill_bytes(elements + n // 2 * _FULL + HALF, 0, HALF)


def _read_complex(elements: ptr, job: ptr, group: i64, first: i64, wanted: i64) -> None:
    """So many numbers of each line; those that there are not are zeros."""
    side: ptr = job + FROM
    item = load_i64(job, ITEM)
    given = load_i64(side, COUNT)
    line = load_i64(side, LINE)
    element = load_i64(side, ELEMENT)
    source: ptr = _place(side, item, group, first)
    count = _count(job, first)
    whole = i64(count == _lanes(job))
    if not whole:
        fill_bytes(elements, 0, given * _FULL)
    fill_bytes(elements + given * _FULL, 0, (wanted - given) * _FULL)
    begin = 0
    if whole and line == 1:
        for i in range(given):
            if item == 4:
                take_pairs(0, elements + i * _FULL, source + i * element * 8)
            else:
                take_pairs(1, elements + i * _FULL, source + i * element * 16)
        begin = given
    elif whole and element == 1 and item == 4:
        begin = given & -4
        for i in range(0, begin, 4):
            transpose_tile(8, elements + i * _FULL, 8, source + i * 8, 2 * line)
    for i in range(begin, given):
        for lane in range(count):
            at: ptr = source + (i * element + lane * line) * 2 * item
            _copy_number(elements + i * _FULL + lane * item, at, item)
            _copy_number(elements + i * _FULL + HALF + lane * item, at + item, item)


def _read_real(parts: ptr, job: ptr, group: i64, first: i64) -> None:
    """The numbers of each line as real, or imaginary, parts of the elements."""
    side: ptr = job + FROM
    item = load_i64(job, ITEM)
    given = load_i64(side, COUNT)
    line = load_i64(side, LINE)
    element = load_i64(side, ELEMENT)
    source: ptr = _place(side, item, group, first)
    count = _count(job, first)
    whole = i64(count == _lanes(job))
    for i in range(given if whole else 0, load_i64(job, LENGTH)):
        fill_bytes(parts + i * _FULL, 0, HALF)
    begin = 0
    if whole and line == 1:
        for i in range(given):
            copy_bytes(parts + i * _FULL, source + i * element * item, HALF)
        begin = given
    elif whole and element == 1 and item == 4:
        begin = given & -8
        for i in range(0, begin, 8):
            transpose_tile(8, parts + i * _FULL, 16, source + i * 4, line)
    for i in range(begin, given):
        for lane in range(count):
            _copy_number(parts + i * _FULL + lane * item, source + (i * element + lane * line) * item, item)


def _copy_number(to: ptr, source: ptr, item: i64) -> None:
    if item == 4:
        store_f32(to, 0, load_f32(source))
    else:
        store_f64(to, 0, load_f64(source))


# -- writing ----------------------------------------------------------------------------------------------------------
def _write(elements: ptr, others: ptr, job: ptr, group: i64, first: i64) -> None:
    """The first COUNT numbers of each line of a block. The other elements are overwritten."""
    n = load_i64(job, LENGTH)
    paired = load_i64(job, PAIRED)
    if load_i64(job + TO, KIND) == REAL:
        _write_real(elements, job, group, first)
        if paired:
            _write_real(elements + HALF, job, group, first + _lanes(job))
    elif paired:
        kept = load_i64(job + TO, COUNT)
        for i in range(kept):
            low: ptr = elements + i * _FULL
            high: ptr = elements + (n - i if i else 0) * _FULL
            if load_i64(job, ITEM) == 4:
                separate_pairs(0, others + i * _FULL, others + (kept + i) * _FULL, low, high)
            else:
                separate_pairs(1, others + i * _FULL, others + (kept + i) * _FULL, low, high)
        _write_complex(others, job, group, first)
        _write_complex(others + kept * _FULL, job, group, first + _lanes(job))
    else:
        _write_complex(elements, job, group, first)


def _write_complex(elements: ptr, job: ptr, group: i64, first: i64) -> None:
    side: ptr = job + TO
    item = load_i64(job, ITEM)
    given = load_i64(side, COUNT)
    line = load_i64(side, LINE)
    element = load_i64(side, ELEMENT)
    to: ptr = _place(side, item, group, first)
    count = _count(job, first)
    begin = 0
    if count == _lanes(job) and line == 1:
        for i in range(given):
            if item == 4:
                put_pairs(0, to + i * element * 8, elements + i * _FULL)
            else:
                put_pairs(1, to + i * element * 16, elements + i * _FULL)
        begin = given
    elif count == _lanes(job) and element == 1 and item == 4:
        begin = given & -4
        for i in range(0, begin, 4):
            transpose_tile(8, to + i * 8, 2 * line, elements + i * _FULL, 8)
    for i in range(begin, given):
        for lane in range(count):
            at: ptr = to + (i * element + lane * line) * 2 * item
            _copy_number(at, elements + i * _FULL + lane * item, item)
            _copy_number(at + item, elements + i * _FULL + HALF + lane * item, item)


def _write_real(parts: ptr, job: ptr, group: i64, first: i64) -> None:
    side: ptr = job + TO
    item = load_i64(job, ITEM)
    given = load_i64(side, COUNT)
    line = load_i64(side, LINE)
    element = load_i64(side, ELEMENT)
    to: ptr = _place(side, item, group, first)
    count = _count(job, first)
    begin = 0
    if count == _lanes(job) and line == 1:
        for i in range(given):
            copy_bytes(to + i * element * item, parts + i * _FULL, HALF)
        begin = given
    elif count == _lanes(job) and element == 1 and item == 4:
        begin = given & -8
        for i in range(0, begin, 8):
            transpose_tile(8, to + i * 4, line, parts + i * _FULL, 16)
    for i in range(begin, given):
        for lane in range(count):
            _copy_number(to + (i * element + lane * line) * item, parts + i * _FULL + lane * item, item)
