"""Launching a kernel of a device: the driver is called with what lies in a frame, so that Python passes one pointer."""

from __future__ import annotations

from eagerjit.runtime.native.language import call_i32, i32, i64, load_i64, load_ptr, ptr

# The words of a frame: what stays the same from launch to launch, then what a launch writes, then its arguments.
LAUNCH, FUNCTION, THREADS, SHARED, POINTERS, GRID, STREAM, ARGUMENTS = 0, 8, 16, 24, 32, 40, 64, 72


def launch_kernel(frame: ptr) -> i64:
    """Call the driver's cuLaunchKernel; its status."""
    return call_i32(
        load_ptr(frame, LAUNCH),
        load_ptr(frame, FUNCTION),
        i32(load_i64(frame, GRID)),
        i32(load_i64(frame, GRID + 8)),
        i32(load_i64(frame, GRID + 16)),
        i32(load_i64(frame, THREADS)),
        i32(1),
        i32(1),
        i32(load_i64(frame, SHARED)),
        load_ptr(frame, STREAM),
        load_ptr(frame, POINTERS),
        ptr(0),
    )
