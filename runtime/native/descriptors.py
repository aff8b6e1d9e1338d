"""Tensor maps of launches: the driver makes one anew where a tensor lies elsewhere than at the launch before."""

from __future__ import annotations

from eagerjit.runtime.native.language import call_i32, i32, i64, load_i64, load_ptr, ptr, store_i64, store_ptr

# A record (`runtime/gpu/descriptors.py`): which argument it is, where the tensor of its map lies (0: there is none
# yet), what the driver is told, then the map.
ARGUMENT, TENSOR, FORMAT, RANK, SWIZZLE, DIMS, STRIDES, BOX, APART, MAP = 0, 8, 16, 24, 32, 40, 80, 120, 144, 192
MAP_BYTES, MAP_ALIGNMENT = 128, 64
RECORD_BYTES = MAP + MAP_BYTES
PROMOTED = 2  # what is fetched to the L2 cache is 128 bytes at least


def give_maps(maps: ptr, given: ptr, pointers: ptr) -> i64:
    """Pointers to maps for the arguments that are tensors' addresses; the status of the driver's function.

    `maps` are words: how many records there are, the address of the driver's cuTensorMapEncodeTiled, the records.
    """
    for i in range(load_i64(maps, 0)):
        record = load_ptr(maps, 16 + 8 * i)
        at = 8 * load_i64(record, ARGUMENT)
        tensor = load_i64(given, at)
        if load_i64(record, TENSOR) != tensor:
            store_i64(record, TENSOR, 0)
            status = call_i32(
                load_ptr(maps, 8),
                record + MAP,
                i32(load_i64(record, FORMAT)),
                i32(load_i64(record, RANK)),
                ptr(tensor),
                record + DIMS,
                record + STRIDES,
                record + BOX,
                record + APART,
                i32(0),
                i32(load_i64(record, SWIZZLE)),
                i32(PROMOTED),
                i32(0),
            )
            if status:
                return status
            store_i64(record, TENSOR, tensor)
        store_ptr(pointers, at, record + MAP)
    return 0
