"""Packs operands of a matrix product into adjacent rows of the type it is computed in, and stores results."""

from __future__ import annotations

from eagerjit.runtime import dtypes
from eagerjit.runtime.native.language import (
    i64,
    load_bf16,
    load_f16,
    load_f32,
    load_i8,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_u16,
    load_u32,
    ptr,
    store_bf16,
    store_f16,
    store_f32,
    store_i8,
    store_i16,
    store_i32,
    store_i64,
)

BOOL = dtypes.bool_.code
UINT8 = dtypes.uint8.code
INT8 = dtypes.int8.code
INT16 = dtypes.int16.code
INT32 = dtypes.int32.code
UINT16 = dtypes.uint16.code
UINT32 = dtypes.uint32.code
FLOAT16 = dtypes.float16.code
BFLOAT16 = dtypes.bfloat16.code
FLOAT32 = dtypes.float32.code


def item_size(dtype: i64) -> i64:
    if dtype == BOOL or dtype == UINT8 or dtype == INT8:
        return 1
    if dtype == INT16 or dtype == UINT16 or dtype == FLOAT16 or dtype == BFLOAT16:
        return 2
    return 4 if dtype == INT32 or dtype == UINT32 or dtype == FLOAT32 else 8


def work_size(dtype: i64) -> i64:
    """Bytes of the type a product is computed in: float32 for the short floats, 64-bit integers for all integers."""
    return 4 if dtype == FLOAT32 or dtype == FLOAT16 or dtype == BFLOAT16 else 8


def pack(dtype: i64, to: ptr, source: ptr, rows: i64, columns: i64, row: i64, column: i64) -> None:
    """Copies a strided matrix to adjacent rows of the type the product is computed in."""
    for i in range(rows):
        _pack_row(dtype, to + i * columns * work_size(dtype), source + i * row * item_size(dtype), columns, column)


def _pack_row(dtype: i64, to: ptr, source: ptr, n: i64, stride: i64) -> None:
    match dtype:
        case dtypes.float32.code:
            for j in range(n):
                store_f32(to, j * 4, load_f32(source, j * stride * 4))
        case dtypes.float16.code:
            for j in range(n):
                store_f32(to, j * 4, load_f16(source, j * stride * 2))
        case dtypes.bfloat16.code:
            for j in range(n):
                store_f32(to, j * 4, load_bf16(source, j * stride * 2))
        case dtypes.int32.code:
            for j in range(n):
                store_i64(to, j * 8, load_i32(source, j * stride * 4))
        case dtypes.int16.code:
            for j in range(n):
                store_i64(to, j * 8, load_i16(source, j * stride * 2))
        case dtypes.int8.code:
            for j in range(n):
                store_i64(to, j * 8, load_i8(source, j * stride))
        case dtypes.uint8.code | dtypes.bool_.code:
            for j in range(n):
                store_i64(to, j * 8, load_u8(source, j * stride))
        case dtypes.uint16.code:
            for j in range(n):
                store_i64(to, j * 8, load_u16(source, j * stride * 2))
        case dtypes.uint32.code:
            for j in range(n):
                store_i64(to, j * 8, load_u32(source, j * stride * 4))
        case _:  # float64, int64, uint64
            for j in range(n):
                store_i64(to, j * 8, load_i64(source, j * stride * 8))


def unpack(dtype: i64, to: ptr, to_row: i64, source: ptr, rows: i64, columns: i64) -> None:
    """Stores a computed tile in its own element type."""
    for i in range(rows):
        start = i * columns
        _unpack_row(dtype, to + i * to_row * item_size(dtype), source + start * work_size(dtype), columns)


def _unpack_row(dtype: i64, to: ptr, source: ptr, n: i64) -> None:
    match dtype:
        case dtypes.float16.code:
            for j in range(n):
                store_f16(to, j * 2, load_f32(source, j * 4))
        case dtypes.bfloat16.code:
            for j in range(n):
                store_bf16(to, j * 2, load_f32(source, j * 4))
        case dtypes.int32.code | dtypes.uint32.code:
            for j in range(n):
                store_i32(to, j * 4, load_i64(source, j * 8))
        case dtypes.int16.code | dtypes.uint16.code:
            for j in range(n):
                store_i16(to, j * 2, load_i64(source, j * 8))
        case dtypes.int8.code | dtypes.uint8.code:
            for j in range(n):
                store_i8(to, j, load_i64(source, j * 8))
        case dtypes.bool_.code:
            for j in range(n):
                store_i8(to, j, load_i64(source, j * 8) != 0)
        case _:  # int64, uint64
            for j in range(n):
                store_i64(to, j * 8, load_i64(source, j * 8))
