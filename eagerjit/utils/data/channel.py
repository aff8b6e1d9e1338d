"""How batches travel between processes: pickled, the bytes of arrays in memory that both processes map.

A message is one pickle on a duplex pipe. Where its arrays are large, their bytes lie in an unnamed file in memory whose
descriptor follows the message; nothing is left behind, whichever process dies.
"""

from __future__ import annotations

import mmap
import os
import pickle
from collections.abc import Sequence
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

_SMALL = 1 << 16
_ALIGNMENT = 64


def send(connection: Connection, value: Any) -> None:
    """Send any value that pickle can write."""
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(value, 5, buffer_callback=buffers.append)
    parts = [b.raw() for b in buffers]
    if sum(p.nbytes for p in parts) < _SMALL or not hasattr(os, "memfd_create"):
        connection.send_bytes(pickle.dumps((text, [bytes(p) for p in parts], None), 5))
        return
    places, end = [], 0
    for part in parts:
        places.append((end, part.nbytes))
        end += -(-part.nbytes // _ALIGNMENT) * _ALIGNMENT
    descriptor = os.memfd_create("batch")
    try:
        os.ftruncate(descriptor, end)
        with mmap.mmap(descriptor, end) as memory:
            for (start, size), part in zip(places, parts, strict=True):
                memory[start : start + size] = part
        connection.send_bytes(pickle.dumps((text, places, end), 5))
        reduction.send_handle(connection, descriptor, None)
    finally:
        os.close(descriptor)


def receive(connection: Connection) -> Any:
    """The next value; arrays are over the memory that came with it. EOFError once the other side has closed."""
    text, parts, size = pickle.loads(connection.recv_bytes())
    buffers: Sequence[Any] = list(map(bytearray, parts)) if size is None else _mapped(connection, parts, size)
    return pickle.loads(text, buffers=buffers)


def _mapped(connection: Connection, places: list[tuple[int, int]], size: int) -> list[memoryview]:
    descriptor = reduction.recv_handle(connection)
    try:
        memory = memoryview(mmap.mmap(descriptor, size))
    finally:
        os.close(descriptor)
    return [memory[start : start + length] for start, length in places]
