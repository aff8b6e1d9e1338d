"""What `compile` makes of a Module: a Module around it, as PyTorch's, whose calls of the one inside are compiled."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from eagerjit.jit import JitFunction, Options
from eagerjit.nn.module import Module

_OWN = frozenset({"_orig_mod", "forward"})
_OF_FUNCTIONS = frozenset({"explain", "cache_info", "clear", "verify", "variants", "info", "options", "wait"})


class OptimizedModule(Module):
    """A Module with one child, `_orig_mod`, whose attributes are its own.

    Names of parameters, buffers and modules, also those in `state_dict`, begin with `_orig_mod.`; hooks that are
    registered here are called around those of the Module inside.
    """

    forward: JitFunction

    def __init__(self, module: Module, options: Options):
        super().__init__()
        del self.__dict__["training"]
        self._modules["_orig_mod"] = module
        self.__dict__["forward"] = JitFunction(module, options)

    @property
    def training(self) -> bool:  # type: ignore[override]
        return self._modules["_orig_mod"].training  # type: ignore[no-any-return]

    @training.setter
    def training(self, value: bool) -> None:
        self._modules["_orig_mod"].training = value

    def __len__(self) -> int:
        if not isinstance(self._orig_mod, Sized):
            raise TypeError(f"{type(self._orig_mod).__name__} does not support len()")
        return len(self._orig_mod)

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__["_modules"]["_orig_mod"]
        if name == "_orig_mod":
            return module
        if name in _OF_FUNCTIONS and not hasattr(module, name):
            return getattr(self.forward, name)
        return getattr(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _OWN or hasattr(type(self), name):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __reduce__(self) -> Any:
        return type(self), (self._orig_mod, self.forward.options)
