"""Fourier transforms of few numbers, along one dimension after the other: what calls of the host try first.

The functions are direct ones (`runtime/direct.py`). The words of a call are the signal's address and dimensions, the
size of a real result, the address of the factor (each unless it is a constant, which the description has), and the
result's address and dimensions.
"""

from __future__ import annotations

from eagerjit.runtime.native.factors import ARGUMENTS, KIND, WORK
from eagerjit.runtime.native.fourier import fourier
from eagerjit.runtime.native.fourier_code import HALF
from eagerjit.runtime.native.fourier_job import COMPLEX as PAIRS
from eagerjit.runtime.native.fourier_job import (
    COUNT,
    ELEMENT,
    FROM,
    GROUP,
    GROUPS,
    HALVES,
    ITEM,
    JOB_BYTES,
    LENGTH,
    LINE,
    LINES,
    MEMORY,
    REAL,
    SCALE,
    STAGES,
    SWAP,
    TABLE,
    TO,
    TURN,
)
from eagerjit.runtime.native.fourier_job import KIND as SIDE_KIND
from eagerjit.runtime.native.fourier_job import WORK as JOB_WORK
from eagerjit.runtime.native.kinds import COMPLEX
from eagerjit.runtime.native.language import (
    buffer,
    copy_bytes,
    external,
    f32,
    f64,
    f64_of_bits,
    global_bytes,
    i64,
    leading_zeros,
    load_f64,
    load_i64,
    load_ptr,
    ptr,
    store_f32,
    store_f64,
    store_i64,
    store_ptr,
)

LONGEST = 2047
"""Numbers of a line at most: those above may be taken apart."""

fourier_lengths = global_bytes(16 * (LONGEST + 1) * 2)
"""By length and precision how many stages there are and where their table is; 0 before Python has made it."""

fourier_halves = global_bytes(8 * (LONGEST + 1) * 8)
"""By length, precision, whether lines are made real and direction where factors for halves are (`HALVES`), or 0."""

FULL, HALF_OF_REAL, WHOLE = range(3)

malloc = external("ptr malloc(i64)")
free = external("void free(ptr)")


def fourier_full(words: ptr, about: ptr) -> i64:
    """Complex numbers from complex or real ones."""
    return _transformed(words, about, FULL)


def fourier_half(words: ptr, about: ptr) -> i64:
    """The half of the spectrum of real numbers, along the last of the dimensions."""
    return _transformed(words, about, HALF_OF_REAL)


def fourier_whole(words: ptr, about: ptr) -> i64:
    """Real numbers from half a spectrum."""
    return _transformed(words, about, WHOLE)


def _transformed(words: ptr, about: ptr, what: i64) -> i64:
    rank = load_i64(about, ARGUMENTS)
    dims = load_i64(about, ARGUMENTS + 8)
    passes = dims & 15
    double = load_i64(about, KIND) & 1
    shape = buffer(8 * 16)
    copy_bytes(shape, words + 8, 8 * rank)
    count = 1
    for d in range(rank):
        count = count * load_i64(shape, 8 * d)
    rest: ptr = words + 8 * (rank + 1)
    forward = i64(what == HALF_OF_REAL)
    factor = load_i64(about, ARGUMENTS + (16 if what == HALF_OF_REAL else 24))
    size = 0
    if what == FULL:
        forward = load_i64(about, ARGUMENTS + 16)
    elif what == WHOLE:
        size = load_i64(about, ARGUMENTS + 16)
        if size == 0:
            size = load_i64(rest)
            rest = rest + 8
    scale = f64_of_bits(factor)
    if factor == 0:
        scale = load_f64(load_ptr(rest))
        rest = rest + 8
    if passes == 0 or count <= 0 or 64 * (count + size) > load_i64(about, WORK):
        return 0
    # Every pass but one that changes the extent leaves its lines where they were.
    between: ptr = load_ptr(rest)
    if passes > 1 and what == WHOLE:
        between = malloc(count * (16 if double else 8))
        if between == 0:
            return 0
    job = buffer(JOB_BYTES)
    store_i64(job, ITEM, 8 if double else 4)
    store_i64(job, SWAP, 0 if forward else HALF)
    store_i64(job, TURN, 0)
    source: ptr = load_ptr(words)
    real = i64(load_i64(about, KIND) < COMPLEX)
    done = 1
    for number in range(passes):
        last = number == passes - 1
        own = number == 0 if what == HALF_OF_REAL else last
        place = passes - 1 - number
        if what == WHOLE:
            place = number if last else passes - 2 - number
        axis = (dims >> (4 + 4 * place)) & 15
        before = load_i64(shape, 8 * axis)
        length = size if own and what == WHOLE else before
        kept = length // 2 + 1 if own and what == HALF_OF_REAL else length
        to: ptr = load_ptr(rest) if last else between
        store_ptr(job, FROM + MEMORY, source)
        store_i64(job, FROM + SIDE_KIND, REAL if real else PAIRS)
        store_ptr(job, TO + MEMORY, to)
        store_i64(job, TO + SIDE_KIND, REAL if own and what == WHOLE else PAIRS)
        if not _along(job, shape, rank, axis, length, kept, double, scale if own else 1.0):
            done = 0
            break
        store_i64(shape, 8 * axis, kept)
        source = to
        real = 0
    if between != load_ptr(rest):
        free(between)
    return done


def _along(
    job: ptr, shape: ptr, rank: i64, axis: i64, length: i64, kept: i64, double: i64, scale: f64
) -> i64:
    """One dimension's transforms; 0 where that is Python's."""
    if length < 1 or length > LONGEST:
        return 0
    to_real = i64(load_i64(job, TO + SIDE_KIND) == REAL)
    halved = i64(to_real != (load_i64(job, FROM + SIDE_KIND) == REAL) and length % 2 == 0)
    n = length >> halved
    stages = fourier_lengths + 16 * (2 * n + double)
    forward = i64(load_i64(job, SWAP) == 0)
    halves = load_i64(fourier_halves, 8 * (4 * (2 * length + double) + 2 * to_real + forward)) if halved else 0
    if load_i64(stages, 8) == 0 or (halved and halves == 0):
        return 0
    if halved and to_real:
        scale = scale * 2.0
    factor = buffer(8)
    if double:
        store_f64(factor, 0, scale)
    else:
        store_f32(factor, 0, f32(scale))
    outer = 1
    inner = 1
    for d in range(rank):
        if d < axis:
            outer = outer * load_i64(shape, 8 * d)
        if d > axis:
            inner = inner * load_i64(shape, 8 * d)
    before = load_i64(shape, 8 * axis)
    wanted = length // 2 + 1 if to_real else length
    store_i64(job, LENGTH, n)
    store_i64(job, HALVES, halves)
    side_by_side = inner >= outer or inner >= (4 if double else 8)  # neighbours fill vectors
    store_i64(job, LINES, inner if side_by_side else outer)
    store_i64(job, GROUPS, outer if side_by_side else inner)
    store_i64(job, STAGES, load_i64(stages))
    store_i64(job, TABLE, load_i64(stages, 8))
    store_i64(job, SCALE, 0 if scale == 1.0 else i64(factor))
    store_i64(job, JOB_WORK, n * inner * outer * (64 - leading_zeros(n)))
    _steps(job + FROM, before if before < wanted else wanted, before, inner, side_by_side)
    _steps(job + TO, kept, kept, inner, side_by_side)
    return fourier(job) == 0


def _steps(side: ptr, count: i64, extent: i64, inner: i64, side_by_side: i64) -> None:
    """Where the numbers of lines are that lie along a dimension of this extent."""
    store_i64(side, COUNT, count)
    store_i64(side, LINE, 1 if side_by_side else extent * inner)
    store_i64(side, ELEMENT, inner)
    store_i64(side, GROUP, extent * inner if side_by_side else 1)
