"""Guards for single values: what they equal, or which objects they are."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.guards.comparing import MUTABLE, Unchanged, holds_containers, is_by_value, is_plain
from eagerjit.recording.arrays import LARGE
from eagerjit.recording.trace import Tracer
from eagerjit.runtime.program import Op
from eagerjit.watching.observation import TraceBreak

if TYPE_CHECKING:
    from eagerjit.effects.journal import Journal

_BY_VALUE = (int, float, str, bool, type(None))


def guard_value(tracer: Tracer, leaf: int, value: Any) -> None:
    """Guard what a name, an attribute or an item holds."""
    if _is_number_or_text(value) or _is_plain_tuple(tracer, value):
        tracer.guard_object(leaf, Op.EQUAL, value)
    elif isinstance(value, MethodType):
        guard_method(tracer, leaf, value)
    else:
        tracer.guard_object(leaf, Op.IS, value)
        if isinstance(value, np.ndarray) and value.nbytes > LARGE:
            raise TraceBreak("it reads a large NumPy array, whose contents may change", "")


def kind_of_option(journal: Journal, options: Any, key: Any) -> str:
    """How the tracer reads an option of an optimizer's: "option" for numbers and texts, "pair" for two floats.

    Others, for which it is "", are guarded; ints that are known to vary are read as those of any dictionary.
    """
    if not hasattr(type(options), "holds_options"):
        return ""
    value, written = options.get(key), (id(options), key) in journal.written
    if isinstance(value, (int, float, str)):
        return "" if type(value) is int and journal.varying.is_input(options, key, value) else "option"
    if type(value) is tuple and [*map(type, value)] == [float, float] and not written:
        return "pair"
    if key in options and key != "params" and not written:
        _guard_option(journal, options, key, value)
    return ""


def option_got(journal: Journal, options: Any, name: str, args: Any, source: str) -> Callable[..., Any] | None:
    """What gives the option that code asks `get` or `setdefault` for; None: that does it, and calls are guarded."""
    key = args[0]
    if kind := kind_of_option(journal, options, key):
        return lambda *given: journal.tracer.item_option(options, key, kind)
    if type(options.get(key)) is int:
        number = journal.input(options, key, options[key], "item")
        return lambda *given: number
    if key not in options:
        if (id(options), key) not in journal.written:
            journal.lacking(options, key)
        if name == "setdefault":
            journal.assign(options, key, args[1] if len(args) > 1 else None, "item", source)
    return None


def _guard_option(journal: Journal, options: Any, key: Any, value: Any) -> None:
    tracer = journal.tracer
    holder, leaf = tracer.new_leaf(), tracer.new_leaf()
    tracer.load(holder, Op.LOAD_OBJECT, tracer.object(options))
    tracer.load(leaf, Op.LOAD_ITEM, holder, tracer.object(key))
    guard_value(tracer, leaf, value)
    if isinstance(value, MUTABLE) or holds_containers(value):
        journal.checks.append(Unchanged(value, frozenset()))


def guard_argument(tracer: Tracer, leaf: int, value: Any) -> None:
    """Guard an argument that is no input; a method is, when all arguments have their leaves."""
    if isinstance(value, MethodType):
        return
    tracer.guard_object(leaf, Op.EQUAL if is_by_value(value) else Op.IS, value)


def guard_method(tracer: Tracer, leaf: int, value: MethodType, names: Any = ("__self__", "__func__")) -> None:
    """Guard what a method is made of: it is a new object whenever it is read."""
    for name in names:
        part = tracer.new_leaf()
        tracer.load(part, Op.LOAD_ATTRIBUTE, leaf, tracer.object(name))
        tracer.guard_object(part, Op.IS, getattr(value, name))


def _is_number_or_text(value: Any) -> bool:
    return is_plain(value) and not isinstance(value, (bool, type(None), complex, bytes))


def _is_plain_tuple(tracer: Tracer, value: Any) -> bool:
    """Whether a tuple holds nothing but plain values, and the code has not asked which tuple it is."""
    if type(value) is not tuple or id(value) in tracer.journal.told_apart:
        return False
    return all(type(x) in _BY_VALUE or _is_plain_tuple(tracer, x) for x in value)
