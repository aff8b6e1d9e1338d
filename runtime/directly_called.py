"""Objects that native code calls directly.

They begin as plain Python objects, so that making hundreds starts nothing. The first native executable turns an object
into one of a class that native code calls, which does the same.
"""

from __future__ import annotations

import copy
import functools
from types import MethodType
from typing import Any, ClassVar

from eagerjit.runtime import heap_types, layout
from eagerjit.runtime.binding import bound
from eagerjit.runtime.native.library import native
from eagerjit.runtime.once import lock


class DirectlyCalled:
    """What objects that native code calls directly share with Python functions."""

    __slots__ = ()
    native_slots: ClassVar[dict[int, str]]
    """The slots that native code reads, by where it is told of their places."""

    def _call_natively(self, function: str) -> None:
        """Moves the object to the class that native code calls directly."""
        with lock:
            kind = type(self)
            if kind not in _native_types:
                self._vectorcall = native().address(function)  # type: ignore[misc]
                self.__class__ = _native_type(kind)  # type: ignore[arg-type]

    def _is_native(self) -> bool:
        return type(self) in _native_types

    def _call_in_python(self) -> None:
        """Moves the object back to the class it was made of."""
        if type(self) in _native_types:
            self.__class__ = _native_types[type(self)]

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)  # type: ignore[arg-type]

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Functions are not copied; of a method, the object that it is bound to is."""
        if not isinstance(getattr(self, "__wrapped__", None), MethodType):
            return self
        described: Any = self.__reduce__()  # not a name, which finds a function
        return described[0](*copy.deepcopy(described[1], memo))


class OfTensors(DirectlyCalled):
    """Functions that are methods of tensors' classes alone: PyTorch's, which are C's, bind to no other instances."""

    __slots__ = ()

    def __set_name__(self, owner: type, name: str) -> None:
        if bound.tensor_types and not issubclass(owner, bound.tensor_types):
            setattr(owner, name, staticmethod(self))  # type: ignore[arg-type]


_native_types: dict[type, type] = {}
"""Classes that native code calls directly, with the class each derives from."""


@functools.cache
def _native_type(owner: type[DirectlyCalled]) -> type:
    """The class that instances of `owner` (Function, OpCall or a subclass) move to."""
    layout.describe({place: heap_types.slot_offset(owner, name) for place, name in owner.native_slots.items()})
    made: type = heap_types.vectorcall_type(owner)
    _native_types[made] = owner
    return made
