"""Fourier transforms of lines whose numbers are neighbours, one at a time, or two real ones as one of complex numbers.

A line is a cache's worth where as many lines as a vector has lanes are not, and its numbers need not be turned around.
"""

from __future__ import annotations

from eagerjit.runtime.native.fourier_code import HALF
from eagerjit.runtime.native.fourier_job import (
    BESIDE,
    BUTTERFLIES,
    COUNT,
    ELEMENT,
    FROM,
    FULL,
    ITEM,
    KIND,
    LENGTH,
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
    copy_number,
    lanes_of,
    place_of,
    run_stage,
    scale_elements,
)
from eagerjit.runtime.native.language import (
    copy_bytes,
    fourier_start,
    i64,
    join_conjugates,
    join_numbers,
    load_i64,
    load_ptr,
    ptr,
    put_pairs,
    separate_numbers,
    store_f32,
    store_f64,
    take_pairs,
)


def takes_lines(job: ptr) -> i64:
    """Whether lines are transformed by themselves: all of their numbers are there, next to each other."""
    stages: ptr = load_ptr(job, TABLE)
    if load_i64(job, STAGES) == 0 or load_i64(stages, BESIDE) == 0 or load_i64(job, TURN):
        return 0
    if load_i64(job + FROM, ELEMENT) != 1 or load_i64(job + TO, ELEMENT) != 1:
        return 0
    n = load_i64(job, LENGTH)
    real = load_i64(job + FROM, KIND) == REAL or load_i64(job + TO, KIND) == REAL
    if real != load_i64(job, PAIRED):
        return 0
    given = load_i64(job + FROM, COUNT)
    return i64(given == (n // 2 + 1 if load_i64(job + TO, KIND) == REAL else n))


def line_tasks(job: ptr) -> i64:
    """The lines, or pairs of them."""
    paired = load_i64(job, PAIRED)
    return (load_i64(job, LINES) + paired) >> paired


def line_scratch(job: ptr) -> i64:
    """Bytes: twice room for the elements of two spectra, whose last ones may be begun."""
    return 2 * _buffer_bytes(job)


def _buffer_bytes(job: ptr) -> i64:
    return (2 * (load_i64(job, LENGTH) // lanes_of(job)) + 4) * FULL


def lines_alone(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Lines, or pairs of them; the last of an odd number is paired with itself."""
    item = load_i64(job, ITEM)
    count = load_i64(job, LENGTH) // lanes_of(job)
    for task in range(begin, end):
        first = task << load_i64(job, PAIRED)
        second = first + 1 if first + 1 < load_i64(job, LINES) else first
        elements: ptr = scratch
        others: ptr = scratch + _buffer_bytes(job)
        _start(job, elements, others, first, second)
        for stage in range(1, load_i64(job, STAGES)):
            what: ptr = load_ptr(job, TABLE) + stage * STAGE_BYTES
            run_stage(what, load_i64(what, RUN) // lanes_of(job), others, elements, load_i64(job, SWAP), item)
            spare: ptr = elements
            elements = others
            others = spare
        scale_elements(elements, count, job)
        if load_i64(job + TO, KIND) == REAL:
            _write_real(elements, job, first, 0)
            if second != first:
                _write_real(elements, job, second, HALF)
        elif load_i64(job, PAIRED):
            _write_spectra(elements, others, job, first, second)
        else:
            _write_numbers(elements, job, first)
    return 0


# -- reading ----------------------------------------------------------------------------------------------------------
def _start(job: ptr, elements: ptr, others: ptr, first: i64, second: i64) -> None:
    """The first stage of a line or of two; the other elements are overwritten."""
    side: ptr = job + FROM
    item = load_i64(job, ITEM)
    source: ptr = place_of(side, item, 0, first)
    if load_i64(side, KIND) == REAL:
        _start_apart(job, elements, source, place_of(side, item, 0, second), HALF)
        return
    if load_i64(job, PAIRED):
        _join(job, others, elements, source, place_of(side, item, 0, second))
    else:
        _take(job, others, source, load_i64(job, LENGTH) // lanes_of(job))
    _start_apart(job, elements, others, others + HALF, FULL)


def _start_apart(job: ptr, elements: ptr, reals: ptr, imaginary: ptr, step: i64) -> None:
    """The first stage of numbers whose parts lie apart, a vector's `step` bytes after another's."""
    stage: ptr = load_ptr(job, TABLE)
    groups = load_i64(stage, BUTTERFLIES)
    roots: ptr = load_ptr(stage, BESIDE)
    swap = load_i64(job, SWAP)
    low: ptr = imaginary if swap else reals
    high: ptr = reals if swap else imaginary
    if load_i64(job, ITEM) == 4:
        fourier_start(0, groups, elements, low, high, step, roots, swap)
    else:
        fourier_start(1, groups, elements, low, high, step, roots, swap)


def _join(job: ptr, elements: ptr, others: ptr, first: ptr, second: ptr) -> None:
    """The spectrum of two real signals as one of complex numbers; the other elements are overwritten."""
    count = load_i64(job, LENGTH) // lanes_of(job)
    middle = count // 2
    a: ptr = others
    b: ptr = others + (middle + 1) * FULL
    _take_half(job, a, first)
    _take_half(job, b, second)
    for i in range(middle):
        at = i * FULL
        if load_i64(job, ITEM) == 4:
            join_numbers(0, elements + at, a + at, b + at)
        else:
            join_numbers(1, elements + at, a + at, b + at)
    for i in range(middle, count):
        to: ptr = elements + i * FULL
        at = (count - i - 1) * FULL
        if load_i64(job, ITEM) == 4:
            join_conjugates(0, to, a + at, a + at + FULL, b + at, b + at + FULL)
        else:
            join_conjugates(1, to, a + at, a + at + FULL, b + at, b + at + FULL)


def _take(job: ptr, elements: ptr, source: ptr, count: i64) -> None:
    """So many elements of numbers in a row."""
    for i in range(count):
        if load_i64(job, ITEM) == 4:
            take_pairs(0, elements + i * FULL, source + i * FULL)
        else:
            take_pairs(1, elements + i * FULL, source + i * FULL)


def _take_half(job: ptr, elements: ptr, source: ptr) -> None:
    """Half a spectrum; its first and last numbers are made real."""
    item = load_i64(job, ITEM)
    middle = load_i64(job, LENGTH) // lanes_of(job) // 2
    _take(job, elements, source, middle)
    last: ptr = elements + middle * FULL
    copy_number(last, source + middle * FULL, item)
    if item == 4:
        store_f32(elements, HALF, 0.0)
        store_f32(last, HALF, 0.0)
    else:
        store_f64(elements, HALF, 0.0)
        store_f64(last, HALF, 0.0)


# -- writing ----------------------------------------------------------------------------------------------------------
def _write_real(elements: ptr, job: ptr, line: i64, part: i64) -> None:
    item = load_i64(job, ITEM)
    lanes = lanes_of(job)
    count = load_i64(job + TO, COUNT)
    to: ptr = place_of(job + TO, item, 0, line)
    for i in range(count // lanes):
        copy_bytes(to + i * HALF, elements + i * FULL + part, HALF)
    for i in range(count // lanes * lanes, count):
        copy_number(to + i * item, elements + i // lanes * FULL + i % lanes * item + part, item)


def _write_spectra(elements: ptr, others: ptr, job: ptr, first: i64, second: i64) -> None:
    """Of two real signals as one of complex numbers; the other elements are overwritten."""
    lanes = lanes_of(job)
    count = load_i64(job, LENGTH) // lanes
    kept = (load_i64(job + TO, COUNT) + lanes - 1) // lanes
    copy_bytes(elements + count * FULL, elements, FULL)
    for i in range(kept):
        to: ptr = others + i * FULL
        low: ptr = elements + i * FULL
        high: ptr = elements + (count - i - 1) * FULL
        if load_i64(job, ITEM) == 4:
            separate_numbers(0, to, to + kept * FULL, low, high, high + FULL)
        else:
            separate_numbers(1, to, to + kept * FULL, low, high, high + FULL)
    _write_numbers(others, job, first)
    if second != first:
        _write_numbers(others + kept * FULL, job, second)


def _write_numbers(elements: ptr, job: ptr, line: i64) -> None:
    item = load_i64(job, ITEM)
    lanes = lanes_of(job)
    count = load_i64(job + TO, COUNT)
    to: ptr = place_of(job + TO, item, 0, line)
    for i in range(count // lanes):
        if item == 4:
            put_pairs(0, to + i * FULL, elements + i * FULL)
        else:
            put_pairs(1, to + i * FULL, elements + i * FULL)
    for i in range(count // lanes * lanes, count):
        at: ptr = elements + i // lanes * FULL + i % lanes * item
        copy_number(to + 2 * i * item, at, item)
        copy_number(to + (2 * i + 1) * item, at + HALF, item)
