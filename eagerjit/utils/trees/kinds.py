"""Which classes are those of named tuples, and of CPython's own tuples with names."""

from __future__ import annotations

from typing import Any

_MAY_BE_DERIVED_FROM = 1 << 10
"""CPython's flag of classes that others may derive from."""


def is_namedtuple(obj: Any) -> bool:
    """Whether an object, or the instances of a class, are named tuples."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple_class(cls: Any) -> bool:
    """Whether instances of a class are named tuples."""
    if not (isinstance(cls, type) and issubclass(cls, tuple)):
        return False
    names = getattr(cls, "_fields", None)
    if not isinstance(names, tuple) or any(type(name) is not str for name in names):
        return False
    return callable(getattr(cls, "_make", None)) and callable(getattr(cls, "_asdict", None))


def is_structseq(obj: Any) -> bool:
    """Whether an object, or the instances of a class, are of the kind of `os.stat_result`."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_instance(obj: Any) -> bool:
    """Whether an object is of the kind of `os.stat_result`."""
    return is_structseq_class(type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether a class is of the kind of `os.stat_result`."""
    if not isinstance(cls, type) or cls.__bases__ != (tuple,) or cls.__flags__ & _MAY_BE_DERIVED_FROM:
        return False
    counts = ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    return all(isinstance(getattr(cls, name, None), int) for name in counts)
