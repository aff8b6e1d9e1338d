"""Functions of a tensor's layout whose answers are kept: sizes, strides, dtype.

A `Remembered` begins as a plain Python callable, and stays one where native execution is off; otherwise native code
(`native/remembered.py`) answers what was asked before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

from eagerjit.runtime import heap_types, layout
from eagerjit.runtime.answers import Answers
from eagerjit.runtime.directly_called import OfTensors
from eagerjit.runtime.native import context as c
from eagerjit.runtime.once import lock


class Remembered(OfTensors, heap_types.raw_base("RememberedBase", c.REMEMBERED_FIELDS)):  # type: ignore[misc]
    """A function of a tensor, and of numbers or None, whose result is immutable.

    It must depend on nothing but dtype, sizes and strides of the tensor and on the numbers. What it raises is not kept.
    """

    __slots__ = ("__dict__", "__weakref__", "_answers", "function", "learner")
    native_slots: ClassVar = {c.REMEMBERED_FUNCTION: "function", c.REMEMBERED_LEARN: "learner"}

    def __init__(self, function: Callable[..., Any]):
        functools.update_wrapper(self, function)
        self.function, self.learner = function, self._learn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if layout.serves("remembered_call"):
            with lock:
                self._answers = Answers(self)
                self._call_natively("remembered_call")
        return self.function(*args, **kwargs)

    def __reduce__(self) -> str:
        return str(self.__qualname__)

    def _learn(self, key: bytes, arguments: tuple[Any, ...]) -> Any:
        """Call the function and keep its answer."""
        result = self.function(*arguments)
        with lock:
            self._answers.keep(key, result)
        return result
