"""The dictionaries of Modules and optimizers: whoever changes one starts a new epoch, so that compiled calls look."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from eagerjit.runtime import mode
from eagerjit.watching.containers import CHANGING


def noting(kind: type) -> type:
    """A class of dictionaries whose methods that change something start a new epoch."""
    for name in CHANGING[dict]:
        method = getattr(kind, name, None)
        if method is not None:
            setattr(kind, name, _noting(method))
    return kind


def _noting(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method, ("__name__", "__doc__"))
    def change(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        finally:
            mode.bump_epoch()

    return change


class Copied:
    """How these dictionaries are copied. Files get plain ones, which `__setstate__` of their owner replaces again."""

    __slots__ = ()
    notes_changes = True
    """What tells code that is traced that a method written in Python does what the builtin one does."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        own: Any = self
        made: Any = type(self)()
        memo[id(self)] = made
        for key, value in dict.items(own):
            made[deepcopy(key, memo)] = deepcopy(value, memo)
        return made

    def __reduce__(self) -> Any:
        own: Any = self
        return OrderedDict, (), None, None, iter(dict.items(own))


@noting
class Table(Copied, dict[Any, Any]):
    """The parameters, buffers, parts or hooks of a Module, or what an optimizer keeps of a parameter."""

    __slots__ = ()


@noting
class States(Copied, defaultdict[Any, Any]):
    """What an optimizer keeps, by parameter."""

    def __init__(self, *args: Any):
        super().__init__(dict, *args)


def noted(value: Any) -> Any:
    """A dictionary as one that notes changes."""
    return Table(value) if isinstance(value, dict) and not isinstance(value, Copied) else value
