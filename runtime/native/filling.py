"""New tensors of one number."""

from __future__ import annotations

from eagerjit.runtime.dtypes import bfloat16, bool_, float16, float32, float64, int64
from eagerjit.runtime.native.context import ITEM_SIZES, context
from eagerjit.runtime.native.elements import fresh
from eagerjit.runtime.native.language import (
    buffer,
    copy_bytes,
    f32,
    f64,
    fill_bytes,
    i64,
    load_i64,
    load_ptr,
    ptr,
    store_bf16,
    store_f16,
    store_f32,
    store_f64,
    store_i8,
    store_i16,
    store_i32,
    store_i64,
)

BOOL, INT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = (
    d.code for d in (bool_, int64, float16, bfloat16, float32, float64)
)

FILLED = 1 << 16
"""Elements up to which one thread fills them at once; kernels fill more."""

COPIED = 4096
"""Bytes that are copied at a time: as many as stay in a core's cache."""


def store_number(data: ptr, code: i64, i: i64, value: f64) -> None:
    """Stores a number that the dtype has as an element."""
    if code == FLOAT32:
        store_f32(data, 4 * i, f32(value))
    elif code == FLOAT64:
        store_f64(data, 8 * i, value)
    elif code == FLOAT16:
        store_f16(data, 2 * i, f32(value))
    elif code == BFLOAT16:
        store_bf16(data, 2 * i, f32(value))
    else:
        size = load_i64(context, ITEM_SIZES + 8 * code)
        if size == 8:
            store_i64(data, 8 * i, i64(value))
        elif size == 4:
            store_i32(data, 4 * i, i64(value))
        elif size == 2:
            store_i16(data, 2 * i, i64(value))
        else:
            store_i8(data, i, i64(value))


def filled(code: i64, sizes: ptr, rank: i64, value: f64) -> ptr:
    """One number everywhere."""
    place = buffer(16)
    made = fresh(code, sizes, rank, place, FILLED)
    if made:
        data = load_ptr(place, 0)
        count = load_i64(place, 8)
        item = load_i64(context, ITEM_SIZES + 8 * code)
        if value == 0.0:
            fill_bytes(data, 0, count * item)
        elif count > 0:
            store_number(data, code, 0, value)
            _repeat(data, item, count * item)
    return made


def _repeat(data: ptr, there: i64, total: i64) -> None:
    """Copies the first bytes behind each other, as many as a core's cache holds at a time."""
    while there < total:
        more = there if there < COPIED else COPIED
        more = more if more < total - there else total - there
        copy_bytes(data + there, data, more)
        there += more
