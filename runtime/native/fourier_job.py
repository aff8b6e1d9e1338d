"""What a transform's job says, and what both ways to do it have in common (`fourier.py`, `fourier_lines.py`)."""

from __future__ import annotations

from eagerjit.runtime.native.fourier_code import HALF
from eagerjit.runtime.native.language import (
    fourier_stage,
    i64,
    load_f32,
    load_f64,
    load_i64,
    load_ptr,
    ptr,
    scale_pairs,
    store_f32,
    store_f64,
    transpose_tile,
    transpose_wide,
)

# Words of a job, offsets in bytes.
LENGTH = 0  # of a transform of complex numbers
LINES = 8  # of a group
GROUPS = 16
ITEM = 24  # bytes of a real number
SWAP = 32  # HALF for the inverse, whose real and imaginary parts change places, else 0
STAGES = 40
TABLE = 48  # of STAGE_BYTES per stage
SCALE = 56  # the address of a real number that results are multiplied with, or 0
TURN = 64  # the address of a factor for each number of each line of a group, or 0: their real parts,
TURN_IMAGINARY = 72  # and their imaginary parts
TURN_ROW = 80  # bytes from the factors of a line's number to those of its next one
WORK = 88  # about how many scalar operations
HALVES = 96  # of real lines of 2 * LENGTH numbers the address of an element's factor for each of LENGTH, or 0
FROM = 104
TO = 152
JOB_BYTES = 200

# Of a stage.
RADIX = 0
BUTTERFLIES = 8  # groups of them
RUN = 16  # butterflies of a group
ROOTS = 24  # a group's after the other
BESIDE = 32  # of the first stage: those of as many groups as a vector has lanes side by side, or 0
STAGE_BYTES = 40

# Of FROM and of TO.
MEMORY = 0
KIND = 8
COUNT = 16  # numbers of a line that there are
LINE = 24
ELEMENT = 32
GROUP = 40

COMPLEX = 0
REAL = 1

FULL = 2 * HALF
"""Bytes of an element."""


def lanes_of(job: ptr) -> i64:
    return HALF // 4 if load_i64(job, ITEM) == 4 else HALF // 8


def place_of(side: ptr, item: i64, group: i64, line: i64) -> ptr:
    """Where a line begins."""
    numbers = group * load_i64(side, GROUP) + line * load_i64(side, LINE)
    return load_ptr(side, MEMORY) + numbers * (item if load_i64(side, KIND) == REAL else 2 * item)


def run_stage(what: ptr, run: i64, to: ptr, source: ptr, swap: i64, item: i64) -> None:
    """The butterflies of a stage, `run` elements in a row per group."""
    radix = load_i64(what, RADIX)
    groups = load_i64(what, BUTTERFLIES)
    if item == 4:
        fourier_stage(0, radix, groups, run, to, source, load_ptr(what, ROOTS), swap)
    else:
        fourier_stage(1, radix, groups, run, to, source, load_ptr(what, ROOTS), swap)


def scale_elements(elements: ptr, count: i64, job: ptr) -> None:
    if not load_i64(job, SCALE):
        return
    for i in range(count):
        if load_i64(job, ITEM) == 4:
            scale_pairs(0, elements + i * FULL, load_ptr(job, SCALE))
        else:
            scale_pairs(1, elements + i * FULL, load_ptr(job, SCALE))


def turn_tile(to: ptr, to_row: i64, source: ptr, source_row: i64, item: i64) -> None:
    """The transpose of as many rows as a vector has lanes, each a vector; rows are so many real numbers apart."""
    if item == 4:
        transpose_tile(8, to, to_row, source, source_row)
    else:
        transpose_wide(to, to_row, source, source_row)


def copy_number(to: ptr, source: ptr, item: i64) -> None:
    if item == 4:
        store_f32(to, 0, load_f32(source))
    else:
        store_f64(to, 0, load_f64(source))
