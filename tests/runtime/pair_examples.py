"""Functions of products of pairs, for `test_pairs.py`."""

from __future__ import annotations

from eagerjit.runtime.native.language import i64, multiply_pairs, multiply_seen_pairs, ptr


def blocks_of_pairs(blocks: i64, a: ptr, b: ptr, c: ptr, add: i64) -> None:
    multiply_pairs(blocks, a, a + blocks * 1024, b, b + blocks * 1024, c, add)


def seen_pairs(count: i64, a: ptr, b: ptr, places: ptr, plane: i64, c: ptr, c_row: i64, add: i64) -> None:
    multiply_seen_pairs(count, a, b, places, plane, c, c_row, add)
