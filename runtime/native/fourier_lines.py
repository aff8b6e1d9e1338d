"""Fourier transforms of lines whose numbers are neighbours, one at a time.

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
    HALVES,
    ITEM,
    KIND,
    LENGTH,
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
    f32,
    fourier_start,
    i64,
    join_numbers,
    load_f32,
    load_f64,
    load_i64,
    load_ptr,
    mirror_numbers,
    ptr,
    put_pairs,
    split_numbers,
    store_f32,
    store_f64,
)


def takes_lines(job: ptr) -> i64:
    """Whether lines are transformed by themselves: all of their numbers are there, next to each other."""
    stages: ptr = load_ptr(job, TABLE)
    if load_i64(job, STAGES) == 0 or load_i64(stages, BESIDE) == 0 or load_i64(job, TURN):
        return 0
    if load_i64(job + FROM, ELEMENT) != 1 or load_i64(job + TO, ELEMENT) != 1:
        return 0
    n = load_i64(job, LENGTH)
    given = load_i64(job + FROM, COUNT)
    if load_i64(job + FROM, KIND) == REAL:
        return i64(load_i64(job, HALVES) != 0 and given == 2 * n)
    if load_i64(job + TO, KIND) == REAL:
        return i64(load_i64(job, HALVES) != 0 and given == n + 1)
    return i64(given == n)


def line_scratch(job: ptr) -> i64:
    """Bytes: twice room for a line's elements and another one."""
    return 2 * _buffer_bytes(job)


def _buffer_bytes(job: ptr) -> i64:
    return (load_i64(job, LENGTH) // lanes_of(job) + 1) * FULL


def lines_alone(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    item = load_i64(job, ITEM)
    count = load_i64(job, LENGTH) // lanes_of(job)
    for line in range(begin, end):
        elements: ptr = scratch
        others: ptr = scratch + _buffer_bytes(job)
        _start(job, elements, others, place_of(job + FROM, item, 0, line), count)
        for stage in range(1, load_i64(job, STAGES)):
            what: ptr = load_ptr(job, TABLE) + stage * STAGE_BYTES
            run_stage(what, load_i64(what, RUN) // lanes_of(job), others, elements, load_i64(job, SWAP), item)
            spare: ptr = elements
            elements = others
            others = spare
        scale_elements(elements, count, job)
        if load_i64(job, HALVES) and load_i64(job + FROM, KIND) == REAL:
            _write_spectrum(elements, others, job, line, count)
        else:
            _write_numbers(elements, job, line)
    return 0


# -- reading ----------------------------------------------------------------------------------------------------------
def _start(job: ptr, elements: ptr, others: ptr, source: ptr, count: i64) -> None:
    """The first stage of a line, whose real numbers go for pairs; the other elements are overwritten."""
    item = load_i64(job, ITEM)
    stage: ptr = load_ptr(job, TABLE)
    groups = load_i64(stage, BUTTERFLIES)
    roots: ptr = load_ptr(stage, BESIDE)
    swap = load_i64(job, SWAP)
    if load_i64(job + TO, KIND) == REAL:
        _join(job, others, source, count)
        if item == 4:
            fourier_start(0, 1, groups, elements, others, roots, swap)
        else:
            fourier_start(1, 1, groups, elements, others, roots, swap)
    elif item == 4:
        fourier_start(0, 0, groups, elements, source, roots, swap)
    else:
        fourier_start(1, 0, groups, elements, source, roots, swap)


def _join(job: ptr, elements: ptr, half: ptr, count: i64) -> None:
    """The transform of a real line's pairs from half its spectrum, whose first and last numbers count as real."""
    n = load_i64(job, LENGTH)
    item = load_i64(job, ITEM)
    lanes = lanes_of(job)
    for i in range(count):
        high: ptr = half + (n + 1 - (i + 1) * lanes) * 2 * item
        factors: ptr = load_ptr(job, HALVES) + i * FULL
        if item == 4:
            join_numbers(0, elements + i * FULL, half + i * FULL, high, factors)
        else:
            join_numbers(1, elements + i * FULL, half + i * FULL, high, factors)
    last: ptr = half + n * 2 * item
    if item == 4:
        store_f32(elements, 0, (load_f32(half) + load_f32(last)) * f32(0.5))
        store_f32(elements, HALF, (load_f32(half) - load_f32(last)) * f32(0.5))
    else:
        store_f64(elements, 0, (load_f64(half) + load_f64(last)) * 0.5)
        store_f64(elements, HALF, (load_f64(half) - load_f64(last)) * 0.5)


# -- writing ----------------------------------------------------------------------------------------------------------
def _write_spectrum(elements: ptr, others: ptr, job: ptr, line: i64, count: i64) -> None:
    """As much as is wanted of a real line's from that of its pairs; the other elements are overwritten."""
    n = load_i64(job, LENGTH)
    item = load_i64(job, ITEM)
    wanted = load_i64(job + TO, COUNT)
    out: ptr = place_of(job + TO, item, 0, line)
    if wanted > n:
        _split(job, out, elements, count)
        if wanted > n + 1:
            _mirror(out, n, wanted, item)
    else:
        _split(job, others, elements, count)
        copy_bytes(out, others, wanted * 2 * item)


def _split(job: ptr, to: ptr, elements: ptr, count: i64) -> None:
    """Half a real line's spectrum."""
    n = load_i64(job, LENGTH)
    item = load_i64(job, ITEM)
    lanes = lanes_of(job)
    copy_bytes(elements + count * FULL, elements, FULL)
    for i in range(count // 2 + 1):
        high_to: ptr = to + (n + 1 - (i + 1) * lanes) * 2 * item
        low: ptr = elements + i * FULL
        high: ptr = elements + (count - i - 1) * FULL
        factors: ptr = load_ptr(job, HALVES) + i * FULL
        if item == 4:
            split_numbers(0, to + i * FULL, high_to, low, high, high + FULL, factors)
        else:
            split_numbers(1, to + i * FULL, high_to, low, high, high + FULL, factors)
    _make_real(to, item)
    _make_real(to + 2 * n * item, item)


def _mirror(spectrum: ptr, n: i64, end: i64, item: i64) -> None:
    """Of a real line's spectrum the numbers beyond number n, its middle."""
    lanes = HALF // item
    whole = (end - n) // lanes
    for i in range(whole):
        to: ptr = spectrum + (n + i * lanes) * 2 * item
        source: ptr = spectrum + (n + 1 - (i + 1) * lanes) * 2 * item
        if item == 4:
            mirror_numbers(0, to, source)
        else:
            mirror_numbers(1, to, source)
    for k in range(n + whole * lanes, end):
        place: ptr = spectrum + k * 2 * item
        opposite: ptr = spectrum + (2 * n - k) * 2 * item
        copy_number(place, opposite, item)
        if item == 4:
            store_f32(place, 4, -load_f32(opposite, 4))
        else:
            store_f64(place, 8, -load_f64(opposite, 8))
    _make_real(spectrum + 2 * n * item, item)


def _make_real(number: ptr, item: i64) -> None:
    if item == 4:
        store_f32(number, 4, 0.0)
    else:
        store_f64(number, 8, 0.0)


def _write_numbers(elements: ptr, job: ptr, line: i64) -> None:
    """Complex numbers, or the pairs that real ones are; of an odd number of these the last is half a pair."""
    item = load_i64(job, ITEM)
    lanes = lanes_of(job)
    parts = load_i64(job + TO, COUNT) << (load_i64(job + TO, KIND) != REAL)
    count = parts >> 1
    to: ptr = place_of(job + TO, item, 0, line)
    for i in range(count // lanes):
        if item == 4:
            put_pairs(0, to + i * FULL, elements + i * FULL)
        else:
            put_pairs(1, to + i * FULL, elements + i * FULL)
    for part in range(count // lanes * lanes * 2, parts):
        i = part >> 1
        at: ptr = elements + i // lanes * FULL + i % lanes * item + (part & 1) * HALF
        copy_number(to + part * item, at, item)
