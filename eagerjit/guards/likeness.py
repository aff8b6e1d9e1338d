"""What Modules and optimizers are like, apart from which objects they are: later calls may find others like them."""

from __future__ import annotations

import dis
from collections import OrderedDict
from collections.abc import Iterable, Sequence, Set
from itertools import pairwise
from types import CodeType
from typing import Any

import numpy as np

from eagerjit.guards.comparing import MUTABLE, contents, has_state, is_plain
from eagerjit.guards.epochs import States, Table
from eagerjit.pytree import slots_of
from eagerjit.runtime.own_attributes import dictionary_of
from eagerjit.tensors.tensor import Parameter, Tensor, storage_of

_DICTIONARIES = (dict, OrderedDict, Table, States)
_PLACES = ("BUILD_SET", "SET_ADD", "SET_UPDATE", "FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE")
_SETS = frozenset(dis.opmap[name] for name in _PLACES if name in dis.opmap)
_TELLING = frozenset(
    "id is_ is_not hash set frozenset repr str format ascii print data_ptr __hash__ __repr__ __str__ __format__ "
    "untyped_storage storage".split()
)
"""Names of what tells where an object lies, or goes through objects in an order that depends on it."""


class Likeness:
    """Objects as they were met, by number, and a form that says what each was. Others of the same form are like them.

    `changing` are the (dictionary, key) whose values do not matter, and `marked` the same by the dictionary's number,
    which those like these have in common. What the form knows by identity is kept alive.
    `has_states` says whether one is an optimizer that has taken a step.
    """

    def __init__(self, roots: Sequence[Any], changing: Set[tuple[int, Any]], marked: Iterable[tuple[int, Any]] = ()):
        self.changing = changing
        self.marked = set(marked)
        self._keys: dict[int, list[Any]] = {}
        for place, key in changing:
            self._keys.setdefault(place, []).append(key)
        self.alive: list[Any] = []
        self.met: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._storages: dict[int, int] = {}
        self.form: Any = [self._of(root) for root in roots]
        self.ids = list(map(id, self.met))
        self.has_states = any(isinstance(one, States) and one for one in self.met)

    def _of(self, value: Any) -> Any:
        if is_plain(value):
            return type(value), repr(value) if isinstance(value, (float, complex)) else value
        if id(value) in self._numbers:
            return self._numbers[id(value)]
        if isinstance(value, Tensor):
            return self._of_tensor(value)
        kind = type(value)
        if has_state(value) and dictionary_of(value) is not None and not slots_of(kind):
            self._meet(value)
            options = vars(value).get("defaults") if is_optimizer(value) else None
            defaults = self._of_defaults(options) if type(options) is dict else None
            return kind, defaults, self._of_items(vars(value))
        if kind in _DICTIONARIES:
            return kind, self._of_items(value)
        if hasattr(kind, "holds_options"):
            return kind, self._of_options(value)
        if kind is list or isinstance(value, tuple):
            if kind is list or not all(map(is_plain, value)):
                self._meet(value)
            return kind, tuple(map(self._of, value))
        if isinstance(value, MUTABLE):
            self._meet(value)
            return kind, contents(value, None, self.changing)
        self.alive.append(value)
        return "this", id(value)

    def _meet(self, value: Any) -> None:
        self._numbers[id(value)] = len(self.met)
        self.met.append(value)

    def _of_items(self, table: Any) -> Any:
        self._meet(table)
        number = self._numbers[id(table)]
        self.marked |= {(number, key) for key in self._keys.get(id(table), ())}
        return tuple([(self._of(k), (number, k) in self.marked or (self._of(v),)) for k, v in dict.items(table)])

    def _of_options(self, options: Any) -> Any:
        """Of numbers that compiled calls read themselves, what else those depend on."""
        self._meet(options)
        self._meet(options.parts)
        return self._of_numbers(options)

    def _of_defaults(self, options: dict[str, Any]) -> Any:
        """What groups get that come later."""
        self._meet(options)
        return self._of_numbers(options)

    def _of_numbers(self, options: dict[str, Any]) -> Any:
        """Options whatever their order, which files change."""
        return tuple([(k, self._of_option(options[k])) for k in sorted(options, key=str)])

    def _of_option(self, value: Any) -> Any:
        if type(value) in (float, np.float64):
            return type(value), bool(value)
        if type(value) is tuple and [*map(type, value)] == [float, float]:
            return "two floats"
        return self._of(value)

    def _of_tensor(self, tensor: Tensor) -> Any:
        """Tensors that have a history, or lie in memory of others, are like none but themselves."""
        array = tensor._data
        bound = tensor._view is not None or tensor._node is not None or tensor._hooks
        if bound or type(array) is not np.ndarray or type(tensor) not in (Tensor, Parameter):
            self.alive.append(tensor)
            return "this", id(tensor)
        self._meet(tensor)
        storage = self._storages.setdefault(id(storage_of(tensor)), len(self._storages))
        return type(tensor), tensor._requires_grad, array.dtype.str, array.shape, array.strides, storage


def likeness_of(
    owners: Iterable[Any], changing: Set[tuple[int, Any]], constants: Iterable[Any], ran: Iterable[CodeType]
) -> tuple[list[Any], Likeness] | None:
    """Modules and optimizers of a recording, and what they are like.

    None where code may tell objects by where they lie, or where tensors among the constants share memory.
    """
    roots = [owner for owner in owners if is_optimizer(owner) or _is_module(owner)]
    if not roots or any(map(_tells_places, ran)) or share_memory(constants):
        return None
    likeness = Likeness(roots, changing)
    likeness.met.clear()  # what is no constant is not to be kept
    return roots, likeness


def is_optimizer(owner: Any) -> bool:
    """Whether it is one, whose class is not asked."""
    return has_state(owner) and "param_groups" in (dictionary_of(owner) or ())


def _is_module(owner: Any) -> bool:
    return has_state(owner) and "_modules" in (dictionary_of(owner) or ())


def _tells_places(code: CodeType) -> bool:
    return not _TELLING.isdisjoint(code.co_names) or not _SETS.isdisjoint(code.co_code[::2])


def share_memory(values: Iterable[Any]) -> bool:
    """Whether two of the tensors among some values lie in the same memory."""
    arrays = [x._data for x in values if isinstance(x, Tensor) and type(x._data) is np.ndarray and x._data.size]
    places = sorted(np.lib.array_utils.byte_bounds(array) for array in arrays)
    return any(end > start for (_, end), (start, _) in pairwise(places))
