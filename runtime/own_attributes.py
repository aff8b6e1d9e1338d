"""What an object holds under names of its own, found without asking it: its class's code may answer for `__dict__`."""

from __future__ import annotations

from types import MethodDescriptorType, WrapperDescriptorType
from typing import Any

_PLAIN = object.__getattribute__
_OF_PYTHON = (MethodDescriptorType, WrapperDescriptorType)


def dictionary_of(value: Any) -> Any:
    """The dictionary of an object's attributes, a view of it for a class; None where there is none."""
    if not _is_looked_up_by_code(type(value)):
        return getattr(value, "__dict__", None)
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def own_attributes(value: Any) -> Any:
    """The same, and an empty dictionary where there is none."""
    return dictionary_of(value) or {}


def _is_looked_up_by_code(kind: type) -> bool:
    """Whether code of a program takes part in finding attributes; Python's own may know other dictionaries."""
    if type(kind) is type and kind.__getattribute__ is _PLAIN and not hasattr(kind, "__getattr__"):
        return False
    for name in ("__getattribute__", "__getattr__"):
        found = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
        if found is not None and not isinstance(found, _OF_PYTHON):
            return True
    return False
