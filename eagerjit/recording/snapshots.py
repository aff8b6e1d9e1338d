"""Tensors over arrays that traced code made: what NumPy writes to such an array, its tensors see.

What NumPy makes of numbers that are no inputs is the same in every call, so an array's contents are a constant of the
recording wherever a tensor over it is read. A tensor that is written is on its own, as nobody else has its array.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.tensors.tensor import Tensor, new_tensor
from eagerjit.watching.observation import TraceBreak, user_line

if TYPE_CHECKING:
    from eagerjit.recording.trace import Tracer


class Snapshots:
    """The tensors of one recording that lie over arrays made in it, each with what the array held last."""

    def __init__(self, tracer: Tracer, alive: list[Any]):
        self.tracer, self._alive = tracer, alive
        self._known: dict[int, tuple[Tensor, np.ndarray, bytes]] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def add(self, made: Tensor, array: np.ndarray) -> None:
        """Let a tensor that is a copy of an array stand for one over it."""
        self._known[id(made)] = made, array, array.tobytes()

    def arrays(self) -> list[np.ndarray]:
        """The arrays that tensors lie over."""
        return [array for _, array, _ in self._known.values()]

    def renew(self, tensor: Tensor) -> None:
        """Bring what a tensor views up to date with the array that it lies over."""
        while tensor._view is not None:
            tensor = tensor._view.base
        known = self._known.get(id(tensor))
        if known is None or known[1].tobytes() == known[2]:
            return
        made, array, _ = self._known.pop(id(tensor))
        if made._node is not None:
            raise TraceBreak("NumPy writes an array that a tensor with a gradient lies over", user_line())
        now = new_tensor(np.array(array, made.dtype.numpy, order="C"))
        self.tracer.write(made, self.tracer.value(now), False)
        self.add(made, array)

    def renew_all(self) -> None:
        """Bring all tensors up to date, at the end of the recording."""
        for made, *_ in list(self._known.values()):
            self.renew(made)

    def release(self, tensor: Tensor) -> None:
        """A tensor is about to be written. Raises TraceBreak where code could see that in its array."""
        known = self._known.pop(id(tensor), None)
        if known is None:
            return
        array = known[1]
        others = sys.getrefcount(array) - sum(x is array for x in self._alive) - _OWN_REFERENCES
        if array.base is not None or others > 0:
            raise TraceBreak("an array that the function made is written through a tensor", user_line())


_OWN_REFERENCES = 3
"""Those of `Snapshots.release`: a variable, the tuple that it is from, and the argument of `getrefcount`."""
