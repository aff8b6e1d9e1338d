"""Syntax trees are made by one thread at a time.

CPython counts how deep trees are for all threads together, and raises SystemError in a thread that another one came in
between of, which happens where a collection of garbage runs Python code.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

PATIENCE = 1.0
"""Seconds that threads of the program which make trees are waited for at most."""

_lock = threading.Lock()


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Within the block no other thread makes a tree, and no garbage is collected."""
    with _lock:
        latest = time.monotonic() + PATIENCE
        while _others_parse() and time.monotonic() < latest:
            time.sleep(0.001)
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()


def _others_parse() -> bool:
    """Whether another thread is at making a tree."""
    for thread, innermost in sys._current_frames().items():
        frame: FrameType | None = innermost if thread != threading.get_ident() else None
        while frame is not None:
            if frame.f_code is ast.parse.__code__:
                return True
            frame = frame.f_back
    return False
