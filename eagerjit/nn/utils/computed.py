"""Attributes of single modules that are computed when they are read: their class gets a property of that name.

A property rather than an assignment before each call: nothing that was computed in a compiled call is kept in a module.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from eagerjit.runtime import mode

_FUNCTIONS = "_computed"


def compute(module: Any, name: str, function: Callable[[Any], Any]) -> None:
    """Let reading an attribute of a module call a function of the module; its `complete` is given the class made."""
    module.__dict__.setdefault(_FUNCTIONS, {})[name] = function
    _rebuild_class(module)


def forget(module: Any, name: str) -> None:
    """Let an attribute be an ordinary one again."""
    module.__dict__[_FUNCTIONS].pop(name)
    _rebuild_class(module)


def plain_class(module: Any) -> type:
    """The class of a module without computed attributes."""
    return getattr(type(module), "_plain_class", type(module))


def _rebuild_class(module: Any) -> None:
    functions = module.__dict__[_FUNCTIONS]
    owner = plain_class(module)
    if not functions:
        del module.__dict__[_FUNCTIONS]
        module.__class__ = owner
    else:
        members = {name: property(partial(_read, name)) for name in functions}
        made: Any = type(owner.__name__, (owner,), {
            **members, "_plain_class": owner, "__module__": owner.__module__, "__qualname__": owner.__qualname__,
            "__doc__": owner.__doc__,
        })  # fmt: skip
        made.__reduce_ex__ = _reduced  # a function of the library in the body of a Module's class would bind to nothing
        for function in functions.values():
            getattr(function, "complete", _nothing)(made)
        module.__class__ = made
    mode.bump_epoch()


def _nothing(kind: type) -> None:
    """What most functions add to the class of their module."""


def _read(name: str, module: Any) -> Any:
    try:
        return module.__dict__[_FUNCTIONS][name](module)
    except AttributeError as error:  # of the function: __getattr__ would take it for one of the property
        raise RuntimeError(f"the attribute '{name}' cannot be computed: {error}") from error


def _reduced(module: Any, protocol: Any) -> Any:
    """How a module is copied or pickled: its plain class and its state, from which the properties follow."""
    return _restored, (plain_class(module), module.__getstate__())


def _restored(owner: type, state: dict[str, Any]) -> Any:
    module: Any = object.__new__(owner)
    module.__setstate__(state)
    _rebuild_class(module)
    return module
