"""Fourier transforms of many lines: as many at a time as a vector has lanes, in scratch memory (Stockham's algorithm).

A task reads a block of lines into elements (`fourier_code.py`), each lane's numbers in the order of their line. A stage
of radix r makes r transforms of each in place of one, a r-th as long, and leaves results in their final order; after
the last stage the elements are the results.

A real line of 2 n numbers is one of n pairs, which go for complex numbers. With Z their transform, number k of the
line's is E + T and number n - k the conjugate of E - T, where E is the mean of Z_k and the conjugate of Z_(n - k), and
T their difference times -i exp(-pi i k / n) / 2. The opposite has the factor's conjugate and finds half of Z, for which
the scale is doubled. Lines never share a transform: what is in one, however large, reaches no other.

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
    HALVES,
    ITEM,
    KIND,
    LENGTH,
    LINE,
    LINES,
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
    turn_tile,
)
from eagerjit.runtime.native.fourier_lines import line_scratch, lines_alone, takes_lines
from eagerjit.runtime.native.language import (
    address_of,
    combine_pairs,
    copy_bytes,
    fill_bytes,
    i64,
    load_i64,
    load_ptr,
    mirror_pairs,
    ptr,
    put_pairs,
    take_pairs,
    turn_pairs,
)
from eagerjit.runtime.native.threads import is_worth_threads, parallel_for, serial_for


def fourier(job: ptr) -> i64:
    """All groups of lines; 0, or OUT_OF_MEMORY."""
    if takes_lines(job):
        return _run(job, address_of(lines_alone), load_i64(job, LINES), line_scratch(job))
    return _run(job, address_of(_blocks), load_i64(job, GROUPS) * _blocks_of(job), 2 * _buffer_bytes(job))


def _run(job: ptr, kernel: ptr, tasks: i64, scratch: i64) -> i64:
    if is_worth_threads(load_i64(job, WORK)):
        return parallel_for(kernel, job, tasks, scratch, 1)
    return serial_for(kernel, job, tasks, scratch)


def _blocks_of(job: ptr) -> i64:
    """The blocks of a group's lines."""
    lanes = lanes_of(job)
    return (load_i64(job, LINES) + lanes - 1) // lanes


def _buffer_bytes(job: ptr) -> i64:
    """Room for a block's elements, or for what is read or kept of spectra."""
    n = load_i64(job, LENGTH)
    kept = load_i64(job + TO, COUNT) if load_i64(job + TO, KIND) != REAL else 0
    return (kept if kept > n + 2 else n + 2) * FULL


def _blocks(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Blocks of lines, numbered over the groups."""
    n = load_i64(job, LENGTH)
    blocks = _blocks_of(job)
    for task in range(begin, end):
        group = task // blocks
        first = task % blocks * lanes_of(job)
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


def _combine(to: ptr, elements: ptr, job: ptr) -> None:
    """Numbers 0 to LENGTH of half a spectrum from those of its pairs' transform, or the opposite."""
    n = load_i64(job, LENGTH)
    item = load_i64(job, ITEM)
    lanes = lanes_of(job)
    for k in range(n // 2 + 1):
        low = k * FULL
        high = (n - k) * FULL
        factor: ptr = load_ptr(job, HALVES) + (2 * (k & -lanes) + (k & lanes - 1)) * item
        if item == 4:
            combine_pairs(0, to + low, to + high, elements + low, elements + high, factor)
        else:
            combine_pairs(1, to + low, to + high, elements + low, elements + high, factor)


def _mirror(elements: ptr, begin: i64, end: i64, n: i64, job: ptr) -> None:
    """The numbers of a range from those that they are the conjugates of, the line being n real numbers."""
    for i in range(begin, end):
        if load_i64(job, ITEM) == 4:
            mirror_pairs(0, elements + i * FULL, elements + (n - i) * FULL)
        else:
            mirror_pairs(1, elements + i * FULL, elements + (n - i) * FULL)


def _make_real(elements: ptr, n: i64) -> None:
    """Makes those numbers of the spectrum of n real numbers real that are their own conjugates."""
    fill_bytes(elements + HALF, 0, HALF)
    if n % 2 == 0:
        fill_bytes(elements + n // 2 * FULL + HALF, 0, HALF)


# -- reading ----------------------------------------------------------------------------------------------------------
def _read(elements: ptr, others: ptr, job: ptr, group: i64, first: i64) -> None:
    """The elements of a block; those of lanes without a line are zeros. The other elements are overwritten."""
    n = load_i64(job, LENGTH)
    halves = load_i64(job, HALVES)
    if load_i64(job + TO, KIND) == REAL and halves:
        _read_numbers(others, job, group, first, n + 1)
        _make_real(others, 2 * n)
        _combine(elements, others, job)
    elif load_i64(job + TO, KIND) == REAL:
        _read_numbers(elements, job, group, first, n // 2 + 1)
        _make_real(elements, n)
        _mirror(elements, n // 2 + 1, n, n, job)
    elif load_i64(job + FROM, KIND) == REAL and not halves:
        _read_reals(elements, job, group, first)
    else:
        _read_numbers(elements, job, group, first, n)


def _read_numbers(elements: ptr, job: ptr, group: i64, first: i64, wanted: i64) -> None:
    """So many numbers of each line, complex ones or pairs of real ones; those that there are not are zeros."""
    side: ptr = job + FROM
    item = load_i64(job, ITEM)
    real = i64(load_i64(side, KIND) == REAL)
    given = load_i64(side, COUNT) >> real
    line = load_i64(side, LINE) << 1 - real
    element = 2 * load_i64(side, ELEMENT) * item
    imaginary = element // 2 if real else item
    source: ptr = place_of(side, item, group, first)
    count = _count(job, first)
    whole = i64(count == lanes_of(job))
    if not whole:
        fill_bytes(elements, 0, given * FULL)
    fill_bytes(elements + given * FULL, 0, (wanted - given) * FULL)
    begin = 0
    if whole and line == 1:
        for i in range(given):
            copy_bytes(elements + i * FULL, source + i * element, HALF)
            copy_bytes(elements + i * FULL + HALF, source + i * element + imaginary, HALF)
        begin = given
    elif whole and line == 2 and not real:
        for i in range(given):
            if item == 4:
                take_pairs(0, elements + i * FULL, source + i * element)
            else:
                take_pairs(1, elements + i * FULL, source + i * element)
        begin = given
    elif whole and element == 2 * item:
        tile = lanes_of(job) // 2
        begin = given // tile * tile
        for i in range(given // tile):
            turn_tile(elements + i * tile * FULL, 2 * tile, source + i * HALF, line, item)
    for i in range(begin, given):
        for lane in range(count):
            at: ptr = source + i * element + lane * line * item
            copy_number(elements + i * FULL + lane * item, at, item)
            copy_number(elements + i * FULL + HALF + lane * item, at + imaginary, item)


def _read_reals(elements: ptr, job: ptr, group: i64, first: i64) -> None:
    """The real numbers of each line as complex ones."""
    side: ptr = job + FROM
    item = load_i64(job, ITEM)
    given = load_i64(side, COUNT)
    line = load_i64(side, LINE)
    element = load_i64(side, ELEMENT)
    source: ptr = place_of(side, item, group, first)
    count = _count(job, first)
    fill_bytes(elements, 0, load_i64(job, LENGTH) * FULL)
    begin = 0
    if count == lanes_of(job) and line == 1:
        for i in range(given):
            copy_bytes(elements + i * FULL, source + i * element * item, HALF)
        begin = given
    elif count == lanes_of(job) and element == 1:
        begin = given // count * count
        for i in range(given // count):
            turn_tile(elements + i * count * FULL, 2 * count, source + i * HALF, line, item)
    for i in range(begin, given):
        for lane in range(count):
            copy_number(elements + i * FULL + lane * item, source + (i * element + lane * line) * item, item)


# -- writing ----------------------------------------------------------------------------------------------------------
def _write(elements: ptr, others: ptr, job: ptr, group: i64, first: i64) -> None:
    """The first COUNT numbers of each line of a block. The other elements are overwritten."""
    n = load_i64(job, LENGTH)
    halves = load_i64(job, HALVES)
    found: ptr = elements
    if load_i64(job + FROM, KIND) == REAL and halves:
        copy_bytes(elements + n * FULL, elements, FULL)
        _combine(others, elements, job)
        _make_real(others, 2 * n)
        _mirror(others, n + 1, load_i64(job + TO, COUNT), 2 * n, job)
        found = others
    elif load_i64(job + FROM, KIND) == REAL:
        _make_real(elements, n)
    if load_i64(job + TO, KIND) == REAL and not halves:
        _write_reals(found, job, group, first)
    else:
        _write_numbers(found, job, group, first)


def _write_numbers(elements: ptr, job: ptr, group: i64, first: i64) -> None:
    """Complex numbers, or the pairs that real ones are; of an odd number of these the last is half a pair."""
    side: ptr = job + TO
    item = load_i64(job, ITEM)
    real = i64(load_i64(side, KIND) == REAL)
    parts = load_i64(side, COUNT) << 1 - real
    line = load_i64(side, LINE) << 1 - real
    element = 2 * load_i64(side, ELEMENT) * item
    imaginary = element // 2 if real else item
    to: ptr = place_of(side, item, group, first)
    count = _count(job, first)
    whole = i64(count == lanes_of(job))
    begin = 0
    if whole and line == 1:
        for i in range(parts >> 1):
            copy_bytes(to + i * element, elements + i * FULL, HALF)
            copy_bytes(to + i * element + imaginary, elements + i * FULL + HALF, HALF)
        begin = parts >> 1
    elif whole and line == 2 and not real:
        for i in range(parts >> 1):
            if item == 4:
                put_pairs(0, to + i * element, elements + i * FULL)
            else:
                put_pairs(1, to + i * element, elements + i * FULL)
        begin = parts >> 1
    elif whole and element == 2 * item:
        tile = lanes_of(job) // 2
        begin = (parts >> 1) // tile * tile
        for i in range((parts >> 1) // tile):
            turn_tile(to + i * HALF, line, elements + i * tile * FULL, 2 * tile, item)
    for part in range(2 * begin, parts):
        i = part >> 1
        place: ptr = to + i * element + (part & 1) * imaginary
        for lane in range(count):
            copy_number(place + lane * line * item, elements + i * FULL + (part & 1) * HALF + lane * item, item)


def _write_reals(elements: ptr, job: ptr, group: i64, first: i64) -> None:
    """The real parts of a block's numbers."""
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
            copy_bytes(to + i * element * item, elements + i * FULL, HALF)
        begin = given
    elif count == lanes_of(job) and element == 1:
        begin = given // count * count
        for i in range(given // count):
            turn_tile(to + i * HALF, line, elements + i * count * FULL, 2 * count, item)
    for i in range(begin, given):
        for lane in range(count):
            copy_number(to + (i * element + lane * line) * item, elements + i * FULL + lane * item, item)
