"""Tensors whose memory is a file's."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

from eagerjit.state import Defaults, state
from eagerjit.tensors.creation import finish
from eagerjit.tensors.making import makes
from eagerjit.tensors.tensor import Tensor, new_tensor
from eagerjit.watching.observation import TraceBreak, user_line


def mapped(filename: Any, shared: bool, size: int) -> np.ndarray:
    """The first bytes of a file, read when they are used, and written back if `shared`.

    A shared file is made if it is not there, and longer if it is too short. Raises RuntimeError for what cannot be
    opened or mapped.
    """
    if state.tracer is not None:
        raise TraceBreak("it maps a file", user_line())
    way = "read-write" if shared else "read-only"
    try:
        number = os.open(filename, os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY, 0o600)
    except OSError as problem:
        raise RuntimeError(f"unable to open file <{filename}> in {way} mode: {_text(problem)}") from None
    try:
        length = os.fstat(number).st_size
        if length < size and not shared:
            raise RuntimeError(f"file <{filename}> size <{length}> is smaller than the required mapping size <{size}>")
        if length < size:
            os.truncate(number, size)
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        return np.frombuffer(mmap.mmap(number, size, access=access) if size else bytearray(), np.uint8)
    except (OSError, ValueError, OverflowError) as problem:
        raise RuntimeError(f"unable to mmap {size} bytes from file <{filename}>: {_text(problem)}") from None
    finally:
        os.close(number)


def _text(problem: Exception) -> str:
    return f"{problem.strerror} ({problem.errno})" if isinstance(problem, OSError) else str(problem)


@makes
def from_file(
    filename: str, shared: bool | None = None, size: int | None = 0, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A vector of the first `size` elements of a file, which is read when they are used.

    With `shared`, what is written to the tensor goes to the file, which is made if it is not there, and longer if it is
    too short. Without, the file stays as it is. Raises RuntimeError for a file that cannot be opened, and without
    `shared` for one that is too short; TypeError for a name that is no str.
    """
    if not isinstance(filename, str):
        raise TypeError(f"from_file(): argument 'filename' (position 1) must be str, not {type(filename).__name__}")
    dtype = dtype or Defaults.dtype
    found = mapped(filename, bool(shared), (size or 0) * dtype.itemsize)
    return finish(new_tensor(found.view(dtype.numpy)), requires_grad)
