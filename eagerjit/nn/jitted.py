"""Jitted Modules: the same parameters, buffers and attributes as the Module they are made of, and compiled calls."""

from __future__ import annotations

import functools
from typing import Any

from eagerjit.jit import JitFunction, Options
from eagerjit.nn.module import Module

_FUNCTION_NAMES = frozenset({"explain", "cache_info", "clear", "verify", "variants", "info", "options", "wait"})


class JittedModule:
    """What the class of a jitted Module adds to the Module's own class. `_orig_mod` is the Module."""

    __slots__ = ()
    _orig_mod: Module
    _compiled: JitFunction

    def __getattr__(self, name: str) -> Any:
        if name in _FUNCTION_NAMES:
            return getattr(self._compiled, name)
        return getattr(self._orig_mod, name)  # whose class may have got more since

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "_orig_mod":
            setattr(self._orig_mod, name, value)
        elif value is not self._orig_mod:
            raise AttributeError("a jitted Module is that of one Module for good: jit the other one")

    def __reduce__(self) -> Any:
        return jit_module, (self._orig_mod, self._compiled.options)

    @property
    def __wrapped__(self) -> Module:
        return self._orig_mod


def jit_module(module: Module, options: Options) -> Any:
    """A Module with the very state of `module`, whose calls are compiled; an instance of the Module's class too."""
    if isinstance(module, JittedModule):
        return module
    made: Any = object.__new__(_jitted_class(type(module)))  # type: ignore[arg-type]
    object.__setattr__(made, "__dict__", module.__dict__)
    object.__setattr__(made, "_orig_mod", module)
    object.__setattr__(made, "_compiled", JitFunction(module, options))
    return made


@functools.cache
def _jitted_class(owner: type[Module]) -> type:
    """The class of jitted instances of a class."""
    made = type(owner.__name__, (JittedModule, owner), {
        "__slots__": ("_orig_mod", "_compiled"), "__module__": owner.__module__, "__qualname__": owner.__qualname__,
        "__doc__": owner.__doc__,
    })  # fmt: skip
    # The compiled function itself stands where Python looks for a method: a call runs no code of ours.
    made.__call__ = made.__dict__["_compiled"]  # type: ignore[method-assign]
    return made
