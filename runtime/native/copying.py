"""Copies of short runs of numbers, for which a call of the C library would take longer."""

from __future__ import annotations

from eagerjit.runtime.native.language import (
    copy_bytes,
    i64,
    load_i32,
    load_i64,
    ptr,
    store_i32,
    store_i64,
)


def copy_apart(to: ptr, source: ptr, n: i64, step: i64, item: i64) -> None:
    """Copies every step-th of the elements."""
    if item == 4:
        for i in range(n):
            store_i32(to, i * 4, load_i32(source, i * step * 4))
    else:
        for i in range(n):
            store_i64(to, i * 8, load_i64(source, i * step * 8))


def copy_run(to: ptr, source: ptr, n: i64) -> None:
    """Copies a multiple of 4 bytes: short runs are not worth a call."""
    while n >= 64:
        copy_bytes(to, source, 64)
        to = to + 64
        source = source + 64
        n -= 64
    if n & 32:
        copy_bytes(to, source, 32)
        to = to + 32
        source = source + 32
    if n & 16:
        copy_bytes(to, source, 16)
        to = to + 16
        source = source + 16
    if n & 8:
        copy_bytes(to, source, 8)
        to = to + 8
        source = source + 8
    if n & 4:
        copy_bytes(to, source, 4)
