"""Fourier transforms of many lines: as many at a time as a vector has lanes, in scratch memory (Stockham's algorithm).

A task reads a block of lines into elements (`fourier_code.py`), each lane's numbers in the order of their line. A stage
of radix r makes r transforms of each in place of one, a r-th as long, and leaves results in their final order; after
the last stage the elements are the results.

Lines are counted in groups: number i of line l of group g lies at (g * GROUP + l * LINE + i * ELEMENT) numbers, real or
complex ones as KIND says.
"""

from __future__ import annotations

from eagerjit.runtime.native.fourier_code import HALF
from eagerjit.runtime.native.language import (
    address_of,
    conjugate_pairs,
    copy_bytes,
    fill_bytes,
    fourier_stage,
    i64,
    load_f32,
    load_f64,
    load_i64,
    load_ptr,
    ptr,
    put_pairs,
    scale_pairs,
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
FROM = 96
TO = 144
JOB_BYTES = 192
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
MIRRORED = 2  # the first half of complex numbers; the others are conjugates of these

_FULL = 2 * HALF


def fourier(job: ptr) -> i64:
    """All groups of lines; 0, or OUT_OF_MEMORY."""
    lanes = HALF // load_i64(job, ITEM)
    tasks = load_i64(job, GROUPS) * ((load_i64(job, LINES) + lanes - 1) // lanes)
    scratch = 2 * load_i64(job, LENGTH) * _FULL
    if is_worth_threads(load_i64(job, WORK)):
        return parallel_for(address_of(_blocks), job, tasks, scratch, 1)
    return serial_for(address_of(_blocks), job, tasks, scratch)


def _blocks(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Blocks of lines, numbered over the groups."""
    n = load_i64(job, LENGTH)
    lines = load_i64(job, LINES)
    item = load_i64(job, ITEM)
    lanes = HALF // item
    blocks = (lines + lanes - 1) // lanes
    for task in range(begin, end):
        group = task // blocks
        first = task % blocks * lanes
        count = lines - first if lines - first < lanes else lanes
        elements: ptr = scratch
        others: ptr = scratch + n * _FULL
        _read(elements, _place(job + FROM, item, group, first), job, lanes, count)
        if load_i64(job, TURN):
            _turn(elements, job, first)
        for stage in range(load_i64(job, STAGES)):
            what: ptr = load_ptr(job, TABLE) + stage * STAGE_BYTES
            _stage(what, others, elements, load_i64(job, SWAP), item)
            spare: ptr = elements
            elements = others
            others = spare
        if load_i64(job, SCALE):
            for i in range(n):
                if item == 4:
                    scale_pairs(0, elements + i * _FULL, load_ptr(job, SCALE))
                else:
                    scale_pairs(1, elements + i * _FULL, load_ptr(job, SCALE))
        _write(_place(job + TO, item, group, first), elements, job + TO, item, lanes, count)
    return 0


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
def _read(elements: ptr, source: ptr, job: ptr, lanes: i64, count: i64) -> None:
    """The elements of `count` lines; those of lanes without a line are zeros."""
    side: ptr = job + FROM
    item = load_i64(job, ITEM)
    given = load_i64(side, COUNT)
    line = load_i64(side, LINE)
    element = load_i64(side, ELEMENT)
    if count < lanes:
        fill_bytes(elements, 0, given * _FULL)
    if load_i64(side, KIND) == REAL:
        _read_real(elements, source, given, item, line, element, lanes, count)
    else:
        _read_complex(elements, source, given, item, line, element, lanes, count)
    n = load_i64(job, LENGTH)
    fill_bytes(elements + given * _FULL, 0, (n - given) * _FULL)
    if load_i64(side, KIND) == MIRRORED:
        for i in range(1, (n + 1) // 2):
            if item == 4:
                conjugate_pairs(0, elements + (n - i) * _FULL, elements + i * _FULL)
            else:
                conjugate_pairs(1, elements + (n - i) * _FULL, elements + i * _FULL)


def _read_complex(
    elements: ptr, source: ptr, given: i64, item: i64, line: i64, element: i64, lanes: i64, count: i64
) -> None:
    begin = 0
    if count == lanes and line == 1:
        for i in range(given):
            if item == 4:
                take_pairs(0, elements + i * _FULL, source + i * element * 8)
            else:
                take_pairs(1, elements + i * _FULL, source + i * element * 16)
        begin = given
    elif count == lanes and element == 1 and item == 4:
        begin = given & -4
        for i in range(0, begin, 4):
            transpose_tile(8, elements + i * _FULL, 8, source + i * 8, 2 * line)
    for i in range(begin, given):
        for lane in range(count):
            at: ptr = source + (i * element + lane * line) * 2 * item
            _copy_number(elements + i * _FULL + lane * item, at, item)
            _copy_number(elements + i * _FULL + HALF + lane * item, at + item, item)


def _read_real(
    elements: ptr, source: ptr, given: i64, item: i64, line: i64, element: i64, lanes: i64, count: i64
) -> None:
    begin = 0
    if count == lanes and line == 1:
        for i in range(given):
            copy_bytes(elements + i * _FULL, source + i * element * item, HALF)
        begin = given
    elif count == lanes and element == 1 and item == 4:
        begin = given & -8
        for i in range(0, begin, 8):
            transpose_tile(8, elements + i * _FULL, 16, source + i * 4, line)
    for i in range(begin, given):
        for lane in range(count):
            _copy_number(elements + i * _FULL + lane * item, source + (i * element + lane * line) * item, item)
    for i in range(given):
        fill_bytes(elements + i * _FULL + HALF, 0, HALF)


def _copy_number(to: ptr, source: ptr, item: i64) -> None:
    if item == 4:
        store_f32(to, 0, load_f32(source))
    else:
        store_f64(to, 0, load_f64(source))


# -- writing ----------------------------------------------------------------------------------------------------------
def _write(to: ptr, elements: ptr, side: ptr, item: i64, lanes: i64, count: i64) -> None:
    """The first COUNT numbers of each of `count` lines."""
    given = load_i64(side, COUNT)
    line = load_i64(side, LINE)
    element = load_i64(side, ELEMENT)
    if load_i64(side, KIND) == REAL:
        _write_real(to, elements, given, item, line, element, lanes, count)
    else:
        _write_complex(to, elements, given, item, line, element, lanes, count)


def _write_complex(
    to: ptr, elements: ptr, given: i64, item: i64, line: i64, element: i64, lanes: i64, count: i64
) -> None:
    begin = 0
    if count == lanes and line == 1:
        for i in range(given):
            if item == 4:
                put_pairs(0, to + i * element * 8, elements + i * _FULL)
            else:
                put_pairs(1, to + i * element * 16, elements + i * _FULL)
        begin = given
    elif count == lanes and element == 1 and item == 4:
        begin = given & -4
        for i in range(0, begin, 4):
            transpose_tile(8, to + i * 8, 2 * line, elements + i * _FULL, 8)
    for i in range(begin, given):
        for lane in range(count):
            at: ptr = to + (i * element + lane * line) * 2 * item
            _copy_number(at, elements + i * _FULL + lane * item, item)
            _copy_number(at + item, elements + i * _FULL + HALF + lane * item, item)


def _write_real(
    to: ptr, elements: ptr, given: i64, item: i64, line: i64, element: i64, lanes: i64, count: i64
) -> None:
    begin = 0
    if count == lanes and line == 1:
        for i in range(given):
            copy_bytes(to + i * element * item, elements + i * _FULL, HALF)
        begin = given
    elif count == lanes and element == 1 and item == 4:
        begin = given & -8
        for i in range(0, begin, 8):
            transpose_tile(8, to + i * 4, line, elements + i * _FULL, 16)
    for i in range(begin, given):
        for lane in range(count):
            _copy_number(to + (i * element + lane * line) * item, elements + i * _FULL + lane * item, item)
