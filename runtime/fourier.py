"""Fourier transforms of NumPy arrays along one dimension, by the native runtime.

A length whose prime factors are 2, 3, 5 and 7 is transformed in stages. Where few lines are long, a line is seen as a
matrix of a rows and b columns, whose columns are transformed, multiplied with roots of 1, and then its rows: number
k1 + a * k2 of the result is number k2 of row k1 (Bailey, "FFTs in external or hierarchical memory", 1990).
"""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any

import numpy as np

from eagerjit.runtime import memory
from eagerjit.runtime.native import fourier_calls
from eagerjit.runtime.native import fourier_job as layout
from eagerjit.runtime.native.fourier_code import HALF, RADICES
from eagerjit.runtime.native.fourier_line_code import FIRST_RADIX
from eagerjit.runtime.native.library import routine
from eagerjit.runtime.records import record

LONGEST = 1 << 22
"""Numbers of a line at most: factors for all of them are kept."""

ALONE = 2048
"""Numbers of a line up to which it is transformed by itself: beyond, stages leave a first cache either way."""

LONG = 2048
"""Numbers from which on few lines are taken apart."""

COMPLEX, REAL = layout.COMPLEX, layout.REAL


@record(frozen=True)
class Side:
    """Numbers of lines in memory: what they are, how many there are of a line, and how far apart things are."""

    array: np.ndarray
    kind: int
    count: int
    line: int
    element: int
    group: int

    def words(self) -> tuple[int, ...]:
        """As a job has them."""
        return self.array.ctypes.data, self.kind, self.count, self.line, self.element, self.group


@functools.lru_cache(maxsize=1024)
def factors(n: int) -> tuple[int, ...]:
    """The radices of a length's stages; none where there are other prime factors, or nothing to do."""
    found = []
    alone = n <= ALONE and n % 32 == 0
    for radix in sorted(RADICES, reverse=True):
        while n % radix == 0 and (radix != 8 or (alone and n % 32 != 16)):
            found.append(radix)
            n //= radix
    return tuple(found) if n == 1 else ()


def suits(n: int) -> bool:
    """Whether lines of this length are transformed here."""
    return n == 1 or (1 < n <= LONGEST and bool(factors(n)))


def transform(
    x: np.ndarray, axis: int, n: int, forward: bool, scale: float, count: int, real: bool = False
) -> np.ndarray:
    """The first `count` numbers of the transforms of length n along an axis, times a factor; `real` parts alone.

    x is contiguous and has elements, n along the axis if they are real. If `real`, it is half a spectrum, or less.
    """
    single = x.dtype in (np.float32, np.complex64)
    kind = np.float32 if single else np.float64
    shape = list(x.shape)
    shape[axis] = count
    out = memory.empty(shape, np.dtype(kind if real else np.result_type(kind, np.complex64)))
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    given = min(x.shape[axis], n // 2 + 1 if real else n)
    if inner == 1 and outer < HALF // kind(0).itemsize and n >= LONG:
        if real and given == n // 2 + 1:
            return _long(_whole_spectrum(x.reshape(outer, -1), n), out, outer, n, forward, scale, single)
        if given == n:
            return _long(x, out, outer, n, forward, scale, single)
    lengths = x.shape[axis], count
    if inner >= min(outer, HALF // kind(0).itemsize):  # neighbours fill vectors
        steps, lines, groups = [(1, inner, m * inner) for m in lengths], inner, outer
    else:
        steps, lines, groups = [(m * inner, inner, 1) for m in lengths], outer, inner
    source = Side(x, REAL if x.dtype.kind == "f" else COMPLEX, given, *steps[0])
    to = Side(out, REAL if real else COMPLEX, count, *steps[1])
    if n % 2 or source.kind == to.kind:
        _run(n, lines, groups, forward, scale, single, source, to)
    else:
        halves = _halves(n, single, real, forward)
        _run(n // 2, lines, groups, forward, 2 * scale if real else scale, single, source, to, halves=halves)
    return out


def _whole_spectrum(half: np.ndarray, n: int) -> np.ndarray:
    """The spectra of n numbers of which, the signals being real, these are the first halves."""
    kept = n // 2 + 1
    whole = np.empty((len(half), n), half.dtype)
    whole[:, :kept] = half[:, :kept]
    np.conjugate(half[:, n - kept : 0 : -1], out=whole[:, kept:])
    return whole


def _long(
    x: np.ndarray, out: np.ndarray, groups: int, n: int, forward: bool, scale: float, single: bool
) -> np.ndarray:
    """Few lines, in two passes over all of their numbers."""
    a = max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)
    b = n // a
    dtype = np.dtype(np.complex64 if single else np.complex128)
    between, whole = memory.empty((groups, n), dtype), memory.empty((groups, n), dtype)
    source = Side(x, REAL if x.dtype.kind == "f" else COMPLEX, a, 1, b, n)
    _run(a, b, groups, forward, 1.0, single, source, Side(between, COMPLEX, a, 1, b, n))
    sides = Side(between, COMPLEX, b, b, 1, n), Side(whole, COMPLEX, b, 1, a, n)
    _run(b, a, groups, forward, scale, single, *sides, _between(a, b, single))
    found = whole[:, : out.size // groups].reshape(out.shape)
    out[...] = found.real if out.dtype.kind == "f" else found
    return out


def _run(
    n: int,
    lines: int,
    groups: int,
    forward: bool,
    scale: float,
    single: bool,
    source: Side,
    to: Side,
    turn: np.ndarray | None = None,
    halves: np.ndarray | None = None,
) -> None:
    """Every line of every group, natively; MemoryError where there is no memory to do it in."""
    table = _stages(n, single)
    factor = np.array([scale], np.float32 if single else np.float64)
    turning = (0, 0, 0)
    if turn is not None:
        turning = turn.ctypes.data, turn[1].ctypes.data, turn.strides[1]
    job = (ctypes.c_int64 * (layout.JOB_BYTES // 8))(
        *(n, lines, groups, factor.itemsize, 0 if forward else HALF, len(table.words), table.words.ctypes.data),
        *(0 if scale == 1.0 else factor.ctypes.data, *turning, n * lines * groups * n.bit_length()),
        0 if halves is None else halves.ctypes.data,
        *source.words(),
        *to.words(),
    )
    if _native()(job):
        raise MemoryError(f"no memory for transforms of length {n}")


@functools.cache
def _native() -> Any:
    return routine("fourier").function("fourier", ctypes.c_int64, ctypes.c_void_p)


@record(frozen=True)
class Stages:
    """A row of words for each stage, and the roots of 1 that they point to."""

    words: np.ndarray
    roots: tuple[np.ndarray, ...]


def _stages(n: int, single: bool) -> Stages:
    return _short_stages(n, single) if n <= fourier_calls.LONGEST else _long_stages(n, single)


@functools.cache
def _short_stages(n: int, single: bool) -> Stages:
    """Kept for good, where native code finds them."""
    stages = _made_stages(n, single)
    place = routine("fourier").address("fourier_lengths") + 16 * (2 * n + (not single))
    (ctypes.c_int64 * 2).from_address(place)[:] = [len(stages.words), stages.words.ctypes.data]
    return stages


@functools.lru_cache(maxsize=64)
def _long_stages(n: int, single: bool) -> Stages:
    return _made_stages(n, single)


def _made_stages(n: int, single: bool) -> Stages:
    rows, tables = [], []
    left, run = n, 1
    for radix in factors(n):
        groups = left // radix
        place = np.arange(groups)[:, None] * np.arange(1, radix)
        roots = _roots(place, left, single)
        tables.append(roots.view(roots.real.dtype))
        rows.append([radix, groups, run, tables[-1].ctypes.data, 0])
        if run == 1 and radix == FIRST_RADIX and groups % (HALF // tables[-1].itemsize) == 0:
            tables.append(_side_by_side(roots))
            rows[-1][-1] = tables[-1].ctypes.data
        left, run = groups, run * radix
    return Stages(np.array(rows, np.int64), tuple(tables))


def _side_by_side(roots: np.ndarray) -> np.ndarray:
    """Real and imaginary parts of a row for each group of butterflies, as many groups beside each other as lanes."""
    parts = np.stack([roots.real, roots.imag], -1)
    return np.ascontiguousarray(parts.reshape(-1, HALF // parts.itemsize, *parts.shape[1:]).transpose(0, 2, 3, 1))


def _halves(n: int, single: bool, to_real: bool, forward: bool) -> np.ndarray:
    make = _short_halves if n <= fourier_calls.LONGEST else _long_halves
    return make(n, single, to_real, forward)


@functools.cache
def _short_halves(n: int, single: bool, to_real: bool, forward: bool) -> np.ndarray:
    """Kept for good, where native code finds them."""
    factors = _made_halves(n, single, to_real, forward)
    place = routine("fourier").address("fourier_halves") + 8 * (4 * (2 * n + (not single)) + 2 * to_real + forward)
    ctypes.c_int64.from_address(place).value = factors.ctypes.data
    return factors


@functools.lru_cache(maxsize=64)
def _long_halves(n: int, single: bool, to_real: bool, forward: bool) -> np.ndarray:
    return _made_halves(n, single, to_real, forward)


def _made_halves(n: int, single: bool, to_real: bool, forward: bool) -> np.ndarray:
    """-+(i / 2) exp(-+2 pi i k / n) for every k below n / 2 and to be made real or not, real and imaginary parts of as
    many beside each other as a vector has lanes."""
    lanes = HALF // (4 if single else 8)
    place = np.arange((n // 2 + lanes - 1) // lanes * lanes)
    factors = (0.5j if to_real else -0.5j) * np.exp(place * ((-2j if forward else 2j) * math.pi / n))
    parts = factors.view(np.float64).astype(np.float32 if single else np.float64)
    return np.ascontiguousarray(parts.reshape(-1, lanes, 2).transpose(0, 2, 1))


@functools.lru_cache(maxsize=4)
def _between(a: int, b: int, single: bool) -> np.ndarray:
    """(2, b, a padded): exp(-2 pi i j k / (a b)) for every j below b and k below a, real and imaginary parts."""
    roots = _roots(np.arange(b)[:, None] * np.arange(a), a * b, single)
    lanes = HALF // (4 if single else 8)
    kind = np.float32 if single else np.float64
    parts = np.zeros((2, b, (a + lanes - 1) // lanes * lanes), kind)
    parts[0, :, :a], parts[1, :, :a] = roots.real, roots.imag
    return parts


def _roots(place: np.ndarray, n: int, single: bool) -> np.ndarray:
    """exp(-2 pi i place / n)."""
    return np.exp(place % n * (-2j * math.pi / n)).astype(np.complex64 if single else np.complex128)
