"""Classes of named fields with slots, as `dataclasses` makes them, whose methods cost nothing where a class is defined.

`dataclasses` writes and compiles five methods of each class, 0.4 ms in all: as much as loading two modules takes, and
most programs make no instance of most classes. Here `__init__` is compiled for the first instance, and the others work
for all classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T", bound=type)
R = TypeVar("R")


@overload
def record(cls: T) -> T: ...
@overload
def record(*, frozen: bool = False, eq: bool = True) -> Callable[[T], T]: ...
@dataclass_transform(field_specifiers=(field,))
def record(cls: Any = None, *, frozen: bool = False, eq: bool = True) -> Any:
    """A class of the fields that a class without base classes annotates; their values may be given by position.

    What `__post_init__` says comes last. `frozen` ones do not change. Without `eq` an instance equals itself alone.
    Fields that are mutable by default have `dataclasses.field(default_factory=...)`.
    """
    return partial(_made, frozen=frozen, eq=eq) if cls is None else _made(cls, frozen, eq)


def replace(one: R, **changes: Any) -> R:
    """A copy of a record with other values in some fields."""
    return type(one)(**{**as_dict(one), **changes})


def as_dict(one: Any) -> dict[str, Any]:
    """The values of a record by the names of its fields, in their order."""
    return {name: getattr(one, name) for name in one.__slots__}


def _made(cls: Any, frozen: bool, eq: bool) -> type:
    if cls.__bases__ != (object,):
        raise TypeError(f"{cls.__qualname__} is a record, which has no base classes")
    names = tuple(cls.__annotations__)
    written = {k: v for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__")}
    defaults = {name: written.pop(name) for name in names if name in written}

    def first(self: Any, *args: Any, **kwargs: Any) -> None:
        made.__init__ = _init(cls, names, defaults, frozen)  # type: ignore[misc]
        self.__init__(*args, **kwargs)

    methods: dict[str, Any] = {"__init__": first, "__repr__": _repr}
    if eq:
        values = attrgetter(*names)
        methods["__eq__"] = lambda self, other: values(self) == values(other) if type(other) is made else NotImplemented
        methods["__hash__"] = (lambda self: hash(values(self))) if frozen else None
    if frozen:
        methods |= {"__setattr__": _refuse, "__delattr__": _refuse, "__getstate__": _state, "__setstate__": _set_state}
    made = type(cls.__name__, (), {**methods, "__slots__": names, "__match_args__": names, **written})
    return made


def _init(cls: Any, names: tuple[str, ...], defaults: dict[str, Any], frozen: bool) -> Callable[..., None]:
    """`__init__` as somebody would write it."""
    known: dict[str, Any] = {"__name__": cls.__module__, "_set": object.__setattr__, "_absent": MISSING}
    parameters, body = [], []
    for name in names:
        value = name
        if name not in defaults:
            parameters.append(name)
        elif not isinstance(defaults[name], Field):
            known[f"_{name}"] = defaults[name]
            parameters.append(f"{name}=_{name}")
        else:
            known[f"_{name}"] = defaults[name].default_factory
            parameters.append(f"{name}=_absent")
            value = f"_{name}() if {name} is _absent else {name}"
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    exec(f"def __init__(self, {', '.join(parameters)}):\n " + "\n ".join(body), known)
    known["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return known["__init__"]


def _repr(self: Any) -> str:
    return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in as_dict(self).items())})"


def _refuse(self: Any, name: str, value: object = None) -> None:
    raise FrozenInstanceError(f"a {type(self).__name__} does not change: cannot assign to field {name!r}")


def _state(self: Any) -> list[Any]:
    return [*as_dict(self).values()]


def _set_state(self: Any, values: list[Any]) -> None:
    for name, value in zip(self.__slots__, values, strict=True):
        object.__setattr__(self, name, value)
