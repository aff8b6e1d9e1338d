"""Public functions that are no plain Python functions are pickled by the place where programs find them."""

from __future__ import annotations

import importlib
import pickle
import sys
from types import ModuleType
from typing import Any

from eagerjit.runtime.binding import bound

_PACKAGE = __name__.partition(".")[0]


class PubliclyNamed:
    """What a module of the package, or the class Tensor, has under a name; raises PicklingError where none does."""

    __slots__ = ()
    __name__: str

    def __reduce__(self) -> Any:
        return by_public_name, self.public_name()

    def public_name(self) -> tuple[str, str]:
        """(module, name in it); of a method the name with its class."""
        loaded = [name for name in list(sys.modules) if name == _PACKAGE or name.startswith(f"{_PACKAGE}.")]
        modules = {name: sys.modules[name] for name in sorted(loaded, key=lambda name: (name.count("."), name))}
        for module, holder in modules.items():
            if self._is(getattr(holder, self.__name__, None)):
                return module, self.__name__
        for kind in bound.tensor_types:
            for name in (self.__name__, *vars(kind)):
                if self._is(getattr(kind, name, None)):
                    return _home(kind, modules), f"{kind.__qualname__}.{name}"
        for module, holder in modules.items():
            for name, value in list(vars(holder).items()):
                if self._is(value):
                    return module, name
        raise pickle.PicklingError(f"Can't pickle {self!r}: no module has it")

    def _is(self, thing: Any) -> bool:
        """Whether something is this, or stands in its place since classes are asked (`__torch_function__`)."""
        return thing is self or (isinstance(thing, PubliclyNamed) and thing == self)


def _home(kind: type, modules: dict[str, ModuleType]) -> str:
    """The first module that has a class: the one it tells may be that of another library."""
    return next(module for module, holder in modules.items() if getattr(holder, kind.__name__, None) is kind)


def by_public_name(module: str, name: str) -> Any:
    """What `public_name` told of. Raises UnpicklingError for anything else."""
    if module.partition(".")[0] != _PACKAGE:
        raise pickle.UnpicklingError(f"{module}.{name} is no function of {_PACKAGE}")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not isinstance(found, PubliclyNamed):
        raise pickle.UnpicklingError(f"{module}.{name} is no function that is pickled by name")
    return found
