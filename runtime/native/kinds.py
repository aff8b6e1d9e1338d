"""Matrices of numbers of several kinds in memory: read, written, turned."""

from __future__ import annotations

from eagerjit.runtime.native.language import (
    f32,
    f64,
    i64,
    load_f32,
    load_f64,
    load_i32,
    load_i64,
    ptr,
    store_f32,
    store_f64,
    store_i32,
    store_i64,
)

SINGLE, DOUBLE, COMPLEX = 0, 1, 2


def bytes_of(kind: i64) -> i64:
    """The bytes of a number."""
    return 4 << ((kind & 1) + (kind >> 1))


def turned_matrix(to: ptr, source: ptr, rows: i64, columns: i64, item: i64) -> None:
    """The transpose of a matrix whose rows lie one after the other."""
    for i in range(rows):
        for j in range(columns):
            place: ptr = to + (j * rows + i) * item
            match item:
                case 4:
                    store_i32(place, 0, load_i32(source))
                case 8:
                    store_i64(place, 0, load_i64(source))
                case 16:
                    store_i64(place, 0, load_i64(source))
                    store_i64(place, 8, load_i64(source, 8))
            source = source + item


def store(place: ptr, kind: i64, real: f64, imaginary: f64) -> None:
    if kind & 1:
        store_f64(place, 0, real)
        if kind >= COMPLEX:
            store_f64(place, 8, imaginary)
    else:
        store_f32(place, 0, f32(real))
        if kind >= COMPLEX:
            store_f32(place, 4, f32(imaginary))


def part_of(place: ptr, kind: i64, part: i64) -> f64:
    """A number's real part, or imaginary one."""
    if kind & 1:
        return load_f64(place, 8 * part)
    return f64(load_f32(place, 4 * part))


def spread_nan(factors: ptr, rows: i64, columns: i64, kind: i64) -> None:
    """What is right of and below a pivot that is no number is none: not all versions of LAPACK divide by such a pivot.
    """
    item = bytes_of(kind)
    for k in range(rows if rows < columns else columns):
        place: ptr = factors + k * (rows + 1) * item
        pivot = part_of(place, kind, 0)
        if kind >= COMPLEX and pivot == pivot:
            pivot = part_of(place, kind, 1)
        if pivot != pivot:
            for j in range(k, columns):
                for i in range(k + 1, rows):
                    store(factors + (j * rows + i) * item, kind, pivot, pivot)
            return
