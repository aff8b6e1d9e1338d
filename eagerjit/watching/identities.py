"""Code that asks which object an argument is: by `id`, as a key, by an `==` that is Python's own.

Objects among the arguments that are taken apart are copies while a call is recorded, and others in other calls. Where
code tells them apart, those of their class are known by identity instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import TYPE_CHECKING, Any

from eagerjit.watching.containers import CONTAINERS
from eagerjit.watching.observation import ByIdentity
from eagerjit.watching.slots import Slot

if TYPE_CHECKING:
    from eagerjit.effects.journal import Journal

_OF_C = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, MethodWrapperType)
_LOOKING = frozenset(
    "isinstance issubclass type getattr hasattr setattr delattr vars callable len iter next super dir bool int float "
    "list tuple enumerate zip map filter reversed sorted sum min max any all property staticmethod classmethod object "
    "partial append appendleft insert extend extendleft __setattr__ __delattr__ __getattribute__ __init__ __new__ "
    "__init_subclass__ __reduce__ __reduce_ex__ __getstate__ __dir__ __sizeof__ __format__".split()
)
"""Functions of C's that do the same with an object as with a copy of it."""

_WRITING = frozenset("repr str format ascii print __repr__ __str__".split())


def note_identity(journal: Journal, values: Iterable[Any], source: str) -> None:
    """Code asks which objects these are, or those in lists and tuples among them."""
    for value in values:
        for part in (value, *value) if type(value) in (list, tuple) else (value,):
            if id(part) in journal.paths and _is_by_identity(part):
                _refuse(journal, part, source)


def _is_by_identity(value: Any) -> bool:
    """Whether an object is equal to itself alone."""
    kind = type(value)
    return not isinstance(value, CONTAINERS) and (kind.__eq__ is object.__eq__ or kind.__hash__ is object.__hash__)


def _refuse(journal: Journal, copy: Any, source: str) -> None:
    """End a recording that asks which object a copy is."""
    kind, path = type(copy), journal.paths[id(copy)]
    slots = {(id(step.holder), step.key) for step in path[:1] if type(step) is Slot}
    journal.varying.left |= slots
    problem = journal.refuse(f"it asks which {kind.__name__} it is given", source, ByIdentity)
    if not slots and path[0] != 2 and isinstance(problem, ByIdentity):
        problem.kind = kind


def note_compared(journal: Journal, operands: Sequence[Any], source: str) -> None:
    """Code asks whether one object is the other."""
    others = [x for x in operands if id(x) not in journal.paths]
    if len(others) == 1 and type(operands[0]) is type(operands[1]) and not journal.is_fresh(others[0]):
        note_identity(journal, operands, source)


def note_called(journal: Journal, function: Any, args: Sequence[Any], source: str) -> None:
    """Code is about to call something, which may be C code that tells objects apart."""
    if not isinstance(function, (*_OF_C, type)) or not journal.paths:
        return
    name = function.__name__
    if function is id and args and id(args[0]) in journal.paths:
        _refuse(journal, args[0], source)
    if name in _LOOKING or (isinstance(function, type) and function.__module__ != "builtins"):
        return
    bound = getattr(function, "__self__", None)
    given = [bound, *args] if isinstance(function, MethodWrapperType) else args
    if name in _WRITING:
        given = [x for x in given if is_written_by_address(x)]
    note_identity(journal, given, source)


def is_written_by_address(value: Any) -> bool:
    """Whether the text of an object names its address."""
    kind = type(value)
    return kind.__repr__ is object.__repr__ and kind.__str__ is object.__str__ and kind.__format__ is object.__format__
