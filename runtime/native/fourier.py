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
from eagerjit.runtime.native.fourier_job import (
    COUNT,
    ELEMENT,
    FROM,
    FULL,
    GROUPS,
    ITEM,
    KIND,
    LENGTH,
    LINE,
    LINES,
    PAIRED,
    REAL,
    RUN,
    STAGE_BYTES,
    STAGES,
    SWAP,
    TABLE,
    TO,
    TURN,
    TURN_IMAGINARY,
    TURN_ROW,
    WORK,
    copy_number,
    lanes_of,
    place_of,
    run_stage,
    scale_elements,
)
from eagerjit.runtime.native.fourier_lines import line_scratch, line_tasks, lines_alone, takes_lines
from eagerjit.runtime.native.language import (
    address_of,
    copy_bytes,
    fill_bytes,
    i64,
    join_pairs,
    load_i64,
    load_ptr,
    ptr,
    put_pairs,
    separate_pairs,
    take_pairs,
    transpose_tile,
    turn_pairs,
)
from eagerjit.runtime.native.threads import is_worth_threads, parallel_for, serial_for


def fourier(job: ptr) -> i64:
    """All groups of lines; 0, or OUT_OF_MEMORY."""
    if takes_lines(job):
        return _run(job, address_of(lines_alone), line_tasks(job), line_scratch(job))
    return _run(job, address_of(_blocks), load_i64(job, GROUPS) * _blocks_of(job), 2 * _buffer_bytes(job))


def _run(job: ptr, kernel: ptr, tasks: i64, scratch: i64) -> i64:
    if is_worth_threads(load_i64(job, WORK)):
        return parallel_for(kernel, job, tasks, scratch, 1)
    return serial_for(kernel, job, tasks, scratch)


def _blocks_of(job: ptr) -> i64:
    """The blocks of a group's lines."""
    lines = lanes_of(job) << load_i64(job, PAIRED)
    return (load_i64(job, LINES) + lines - 1) // lines


def _buffer_bytes(job: ptr) -> i64:
    """Room for a block's elements, or for what is read or kept of two spectra."""
    n = load_i64(job, LENGTH)
    kept = 2 * load_i64(job + TO, COUNT) if load_i64(job, PAIRED) else 0
    return (kept if kept > n + 2 else n + 2) * FULL


def _blocks(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Blocks of lines, numbered over the groups."""
    n = load_i64(job, LENGTH)
    blocks = _blocks_of(job)
    for task in range(begin, end):
        group = task // blocks
        first = task % blocks * (lanes_of(job) << load_i64(job, PAIRED))
        elements: ptr = scratch
        others: ptr = scratch + _buffer_bytes(job)
        _read(elements, others, job, group, first)
        if load_i64(job, TURN):
            _turn(elements, job, first)
        for stage in range(load_i64(job, STAGES)):
            what: ptr = load_ptr(job, TABLE) + stage * STAGE_BYTES
            run_stage(what, load_i64(what, RUN), others, elements, load_i64(job, SWAP), load_i64(job, ITEM))
            spare: ptr = elements
            elements = others
            others = spare
        scale_elements(elements, n, job)
        _write(elements, others, job, group, first)
    return 0


def _count(job: ptr, first: i64) -> i64:
    """The lines from one on that lanes are taken by."""
    left = load_i64(job, LINES) - first
    left = left if left > 0 else 0
    return left if left < lanes_of(job) else lanes_of(job)


def _turn(elements: ptr, job: ptr, line: i64) -> None:
    item = load_i64(job, ITEM)
    reals: ptr = load_ptr(job, TURN) + line * item
    imaginary: ptr = load_ptr(job, TURN_IMAGINARY) + line * item
    row = load_i64(job, TURN_ROW)
    for i in range(load_i64(job, LENGTH)):
        if item == 4:
            turn_pairs(0, elements + i * FULL, reals + i * row, imaginary + i * row, load_i64(job, SWAP))
        else:
            turn_pairs(1, elements + i * FULL, reals + i * row, imaginary + i * row, load_i64(job, SWAP))


# -- reading ----------------------------------------------------------------------------------------------------------
def _read(elements: ptr, others: ptr, job: ptr, group: i64, first: i64) -> None:
    """The elements of a block; those of lanes without a line are zeros. The other elements are overwritten."""
    n = load_i64(job, LENGTH)
    paired = load_i64(job, PAIRED)
    if load_i64(job + FROM, KIND) == REAL:
        _read_real(elements, job, group, first)
        if paired:
            _read_real(elements + HALF, job, group, first + lanes_of(job))
        else:
            for i in range(n):
                fill_bytes(elements + i * FULL + HALF, 0, HALF)
    elif paired:
        half = n // 2 + 1
        _read_complex(elements, job, group, first, half)
        _read_complex(others, job, group, first + lanes_of(job), half)
        _make_real(elements, n)
        _make_real(others, n)
        for i in range(half):
            low: ptr = elements + i * FULL
            high: ptr = elements + (n - i) * FULL
            if load_i64(job, ITEM) == 4:
                join_pairs(0, low, high, low, others + i * FULL)
            else:
                join_pairs(1, low, high, low, others + i * FULL)
    else:
        _read_complex(elements, job, group, first, n)


def _make_real(elements: ptr, n: i64) -> None:
    """Makes those numbers of a real signal's spectrum real that are their own conjugates."""
    fill_bytes(elements + HALF, 0, HALF)
    if n % 2 == 0:
        fill_bytes(elements + n // 2 * FULL + HALF, 0, HALF)


def _read_complex(elements: ptr, job: ptr, group: i64, first: i64, wanted: i64) -> None:
    """So many numbers of each line; those that there are not are zeros."""
    side: ptr = job + FROM
    item = load_i64(job, ITEM)
    given = load_i64(side, COUNT)
    line = load_i64(side, LINE)
    element = load_i64(side, ELEMENT)
    source: ptr = place_of(side, item, group, first)
    count = _count(job, first)
    whole = i64(count == lanes_of(job))
    if not whole:
        fill_bytes(elements, 0, given * FULL)
    fill_bytes(elements + given * FULL, 0, (wanted - given) * FULL)
    begin = 0
    if whole and line == 1:
        for i in range(given):
            if item == 4:
                take_pairs(0, elements + i * FULL, source + i * element * 8)
            else:
                take_pairs(1, elements + i * FULL, source + i * element * 16)
        begin = given
    elif whole and element == 1 and item == 4:
        begin = given & -4
        for i in range(0, begin, 4):
            transpose_tile(8, elements + i * FULL, 8, source + i * 8, 2 * line)
    for i in range(begin, given):
        for lane in range(count):
            at: ptr = source + (i * element + lane * line) * 2 * item
            copy_number(elements + i * FULL + lane * item, at, item)
            copy_number(elements + i * FULL + HALF + lane * item, at + item, item)


def _read_real(parts: ptr, job: ptr, group: i64, first: i64) -> None:
    """The numbers of each line as real, or imaginary, parts of the elements."""
    side: ptr = job + FROM
    item = load_i64(job, ITEM)
    given = load_i64(side, COUNT)
    line = load_i64(side, LINE)
    element = load_i64(side, ELEMENT)
    source: ptr = place_of(side, item, group, first)
    count = _count(job, first)
    whole = i64(count == lanes_of(job))
    for i in range(given if whole else 0, load_i64(job, LENGTH)):
        fill_bytes(parts + i * FULL, 0, HALF)
    begin = 0
    if whole and line == 1:
        for i in range(given):
            copy_bytes(parts + i * FULL, source + i * element * item, HALF)
        begin = given
    elif whole and element == 1 and item == 4:
        begin = given & -8
        for i in range(0, begin, 8):
            transpose_tile(8, parts + i * FULL, 16, source + i * 4, line)
    for i in range(begin, given):
        for lane in range(count):
            copy_number(parts + i * FULL + lane * item, source + (i * element + lane * line) * item, item)


# -- writing ----------------------------------------------------------------------------------------------------------
def _write(elements: ptr, others: ptr, job: ptr, group: i64, first: i64) -> None:
    """The first COUNT numbers of each line of a block. The other elements are overwritten."""
    n = load_i64(job, LENGTH)
    paired = load_i64(job, PAIRED)
    if load_i64(job + TO, KIND) == REAL:
        _write_real(elements, job, group, first)
        if paired:
            _write_real(elements + HALF, job, group, first + lanes_of(job))
    elif paired:
        kept = load_i64(job + TO, COUNT)
        for i in range(kept):
            low: ptr = elements + i * FULL
            high: ptr = elements + (n - i if i else 0) * FULL
            if load_i64(job, ITEM) == 4:
                separate_pairs(0, others + i * FULL, others + (kept + i) * FULL, low, high)
            else:
                separate_pairs(1, others + i * FULL, others + (kept + i) * FULL, low, high)
        _write_complex(others, job, group, first)
        _write_complex(others + kept * FULL, job, group, first + lanes_of(job))
    else:
        _write_complex(elements, job, group, first)


def _write_complex(elements: ptr, job: ptr, group: i64, first: i64) -> None:
    side: ptr = job + TO
    item = load_i64(job, ITEM)
    given = load_i64(side, COUNT)
    line = load_i64(side, LINE)
    element = load_i64(side, ELEMENT)
    to: ptr = place_of(side, item, group, first)
    count = _count(job, first)
    begin = 0
    if count == lanes_of(job) and line == 1:
        for i in range(given):
            if item == 4:
                put_pairs(0, to + i * element * 8, elements + i * FULL)
            else:
                put_pairs(1, to + i * element * 16, elements + i * FULL)
        begin = given
    elif count == lanes_of(job) and element == 1 and item == 4:
        begin = given & -4
        for i in range(0, begin, 4):
            transpose_tile(8, to + i * 8, 2 * line, elements + i * FULL, 8)
    for i in range(begin, given):
        for lane in range(count):
            at: ptr = to + (i * element + lane * line) * 2 * item
            copy_number(at, elements + i * FULL + lane * item, item)
            copy_number(at + item, elements + i * FULL + HALF + lane * item, item)


def _write_real(parts: ptr, job: ptr, group: i64, first: i64) -> None:
    side: ptr = job + TO
    item = load_i64(job, ITEM)
    given = load_i64(side, COUNT)
    line = load_i64(side, LINE)
    element = load_i64(side, ELEMENT)
    to: ptr = place_of(side, item, group, first)
    count = _count(job, first)
    begin = 0
    if count == lanes_of(job) and line == 1:
        for i in range(given):
            copy_bytes(to + i * element * item, parts + i * FULL, HALF)
        begin = given
    elif count == lanes_of(job) and element == 1 and item == 4:
        begin = given & -8
        for i in range(0, begin, 8):
            transpose_tile(8, to + i * 4, line, parts + i * FULL, 16)
    for i in range(begin, given):
        for lane in range(count):
            copy_number(to + (i * element + lane * line) * item, parts + i * FULL + lane * item, item)
