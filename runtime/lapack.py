"""The threads of NumPy's LAPACK: one for small matrices.

OpenBLAS divides even these among all processors and lets its threads spin for milliseconds. On processors that do other
work as well, a factor of a matrix of 64 columns takes a thousand times as long as on one thread.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

SMALL = 256
"""Rows and columns up to which several threads gain nothing."""


@functools.cache
def _threads() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """What tells and sets the number of threads of the OpenBLAS in NumPy's wheel; None where there is none."""
    folder = Path(np.__file__).parent
    for place in (folder.parent / "numpy.libs", folder / ".dylibs"):
        for path in sorted(place.glob("libscipy_openblas64_*")):
            library = ctypes.CDLL(str(path))
            told, set_ = (getattr(library, f"scipy_openblas_{verb}_num_threads64_", None) for verb in ("get", "set"))
            if told is not None and set_ is not None:
                return told, set_
    return None


_lock = threading.Lock()
_using: list[int] = []
"""The number of threads before the first of the calls that run now, once for each of them."""


@contextmanager
def _one_thread() -> Iterator[None]:
    """OpenBLAS on one thread, until the last of the calls that want it so has ended."""
    threads = _threads()
    if threads is None:
        yield
        return
    told, set_ = threads
    with _lock:
        _using.append(_using[0] if _using else told())
        set_(1)
    try:
        yield
    finally:
        with _lock:
            before = _using.pop()
            if not _using:
                set_(before)


def on_few_threads(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of matrices that runs on one thread where all of them are small."""

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        shapes = [a.shape[-2:] for a in arguments if isinstance(a, np.ndarray)]
        if any(size > SMALL for shape in shapes for size in shape):
            return function(*arguments)
        with _one_thread():
            return function(*arguments)

    return call
