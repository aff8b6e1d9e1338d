"""Where an attribute is found, without reading it: that may run the user's code."""

from __future__ import annotations

import functools
from types import FunctionType, MethodDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any

from eagerjit.runtime.own_attributes import own_attributes
from eagerjit.runtime.source import is_library
from eagerjit.watching.slots import ABSENT

_READ_BY: dict[type, tuple[str, ...]] = {
    functools.partialmethod: ("func", "args", "keywords"),
    functools.singledispatchmethod: ("func", "dispatcher"),
    functools.cached_property: ("func",),
}


def own(owner: Any, name: str) -> Any:
    """What an object (or a class and its bases) holds under a name in dictionaries of its own."""
    if isinstance(owner, type):
        return _in_classes(owner, name)
    return own_attributes(owner).get(name, ABSENT)


def inherited(owner: Any, name: str) -> Any:
    """What the class of an object holds under a name."""
    return _in_classes(type(owner), name)


def is_computed(owner: Any, name: str) -> bool:
    """Whether reading an attribute runs the user's code: a property, a descriptor, `__getattr__`."""
    kind = type(owner)
    if _is_users(_in_classes(kind, "__getattribute__")):
        return True
    found, held = inherited(owner, name), own(owner, name)
    if found is not ABSENT and (held is ABSENT or _overrides(found)):
        if isinstance(found, property):
            return _is_users(found.fget)
        return _is_users(getattr(found, "func", None)) or _is_users(_in_classes(type(found), "__get__"))
    if held is not ABSENT:
        return isinstance(owner, type) and _is_users(_in_classes(type(held), "__get__"))
    if isinstance(owner, ModuleType):
        return _is_users(vars(owner).get("__getattr__"))
    return _is_users(_in_classes(kind, "__getattr__"))


def by_builtin(owner: Any, name: str) -> Any:
    """The function of Python's that a class has for `__getattr__`, where an attribute is found by it; else None."""
    found = inherited(owner, "__getattr__")
    builtin = isinstance(found, (MethodDescriptorType, WrapperDescriptorType))
    return found if builtin and own(owner, name) is inherited(owner, name) is ABSENT else None


def is_cached_later(owner: Any, name: str) -> bool:
    """Whether reading an attribute will keep what a function gives, as `functools.cached_property` does."""
    return isinstance(inherited(owner, name), functools.cached_property) and own(owner, name) is ABSENT


def computed_by_library(owner: Any, name: str) -> tuple[Any, tuple[str, ...]]:
    """The descriptor of Python's library that computes an attribute, and which attributes of its own it reads."""
    in_class = isinstance(owner, type)
    if not in_class and own(owner, name) is not ABSENT:
        return None, ()
    found = own(owner, name) if in_class else inherited(owner, name)
    return found, _READ_BY.get(type(found), ())


def assigns(owner: Any, name: str) -> bool:
    """Whether assigning an attribute runs code that is watched itself: that of a property or the user's descriptor."""
    found = inherited(owner, name)
    return isinstance(found, property) or _is_users(_in_classes(type(found), "__set__"))


def holds_options(container: Any) -> bool:
    """Whether a dictionary is a group of an optimizer's."""
    return hasattr(type(container), "holds_options")


def kept(owner: Any, name: str) -> Any:
    """What an object keeps under a name, in its dictionary or a slot; None where it keeps nothing of its own."""
    own = own_attributes(owner)
    if name in own:
        return own[name]
    base = next((base for base in type(owner).__mro__ if name in vars(base)), object)
    return getattr(owner, name, None) if "__slots__" in vars(base) and is_data(owner, name) else None


def is_data(owner: Any, name: str) -> bool:
    """Whether reading an attribute finds what was assigned, rather than computing something."""
    if is_computed(owner, name) or by_builtin(owner, name) is not None:
        return False
    for base in owner.__mro__ if isinstance(owner, type) else type(owner).__mro__:
        if name in vars(base):
            found = vars(base)[name]
            return type(found).__name__ == "member_descriptor" or _in_classes(type(found), "__get__") is ABSENT
    return True


def _in_classes(kind: type, name: str) -> Any:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), ABSENT)


def is_overridden(kind: type, name: str) -> bool:
    """Whether a class gives an attribute, whatever its objects hold under the name: a property, a descriptor."""
    return _overrides(_in_classes(kind, name))


def _overrides(found: Any) -> bool:
    return _in_classes(type(found), "__set__") is not ABSENT


def _is_users(function: Any) -> bool:
    return isinstance(function, FunctionType) and not is_library(function.__code__.co_filename)
