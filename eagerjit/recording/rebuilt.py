"""What a traced function returns, and gives to objects, made of a call's results by Python code written for it."""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from eagerjit import pytree
from eagerjit.effects.clocks import Later, evaluated
from eagerjit.pytree import LEAF, Derived, Structure
from eagerjit.recording.arrays import TracedArray
from eagerjit.recording.rebuilding import AGAIN, ARGUMENT, RECORD
from eagerjit.recording.traced_texts import TracedText, written
from eagerjit.tensors.tensor import Tensor

Rebuild = Callable[[Sequence[Any], Any], Any]
"""Makes a value of the results of a call, and of its (args, kwargs)."""


def is_rebuilt(structure: Structure, order: list[int], extra: bool) -> bool:
    """Whether the function's result is made of its tensors, which are not the executable's outputs as they come."""
    if structure == LEAF and not extra:
        return False
    in_order = len(order) != 1 and order == list(range(len(order)))
    return extra or not in_order or structure[0] is not tuple or not pytree.is_flat(structure)


def rebuilt(structure: Structure, order: Sequence[int]) -> Rebuild:
    """What makes a value of this structure; `order` says which result each leaf is."""
    return Code(order).function(structure)


class Code:
    """The lines of such a function: all that has parts is a variable, as Python bounds how deep expressions nest."""

    def __init__(self, order: Sequence[int]):
        self.order = iter(order)
        self.lines: list[str] = []
        self.known: dict[str, Any] = {"__name__": __name__}
        self.names: dict[int, str] = {}
        self.made: list[str] = []  # containers in the order in which they were met, as AGAIN counts them
        self.numbers = itertools.count()

    def function(self, structure: Structure) -> Rebuild:
        """The function that returns the value."""
        return self.finished(self.value(structure))

    def finished(self, returned: str) -> Rebuild:
        """The function of these lines, which returns what an expression gives."""
        self.lines.append(f"return {returned}")
        text = "def made(flat, call=None):\n    " + "\n    ".join(self.lines)
        exec(compile(text, "<string>", "exec"), self.known)
        return self.known["made"]  # type: ignore[no-any-return]

    def leaf(self) -> str:
        """An expression for the next leaf."""
        return f"flat[{next(self.order)}]"

    def value(self, structure: Structure) -> str:
        """An expression for a value, after the lines that it needs."""
        if structure == LEAF:
            return self.leaf()
        kind, keys, children = structure
        if kind is AGAIN:
            return self.made[keys]
        if kind is ARGUMENT:
            return self.variable(f"{self.constant(keys)}.find(call)")
        if kind is Later:
            given = f"{self.constant(keys)}, {self.items(children)}, call.readings"
            return self.variable(f"{self.constant(evaluated)}({given})")
        if kind is TracedText:
            return self.variable(f"{self.constant(written)}({self.constant(keys)}, {self.items(children)})")
        if issubclass(kind, np.generic):
            return self.variable(f"{self.constant(kind)}({self.value(children[0])})")
        if kind is tuple:
            parts = [self.value(child) for child in children]
            return self.variable(f"({', '.join(parts)}{',' * (len(parts) == 1)})")
        if kind is slice:
            return self.variable(f"{self.constant(slice)}(*{self.items(children)})")
        if issubclass(kind, tuple):
            if hasattr(kind, "n_sequence_fields"):  # as time.struct_time
                return self.variable(f"{self.constant(kind)}({self.items(children)})")
            new = self.constant(tuple.__new__)  # a `__new__` of its own has run already
            return self.variable(f"{new}({self.constant(kind)}, {self.items(children)})")
        return self.container(kind, keys, children)

    def container(self, kind: type, keys: Any, children: Sequence[Structure]) -> str:
        """A variable that is a container: there before its parts are, which may hold it."""
        position = len(self.made)
        self.made.append("")
        if kind is np.ndarray:
            made = f"flat[{next(self.order)}].copy()"
        elif kind is Tensor:
            made, children = self.value(children[0]), children[1:]
        elif kind is TracedArray:
            array = f"flat[{next(self.order)}]._data"
            made = f"{array}.view()" if keys else f"{self.constant(_as_given)}({array})"
        elif kind in (frozenset, range):
            made = f"{self.constant(kind)}({'*' if kind is range else ''}{self.items(children)})"
        elif kind in (list, set, deque):
            made = f"{self.constant(kind)}({f'maxlen={keys}' if kind is deque else ''})"
        elif kind in (dict, OrderedDict, Counter, defaultdict):
            made = f"{self.constant(kind)}({self.constant(keys[0]) if kind is defaultdict else ''})"
        else:
            base = keys.base if type(keys) is Derived else SimpleNamespace if kind is SimpleNamespace else object
            made = f"{self.constant(base.__new__)}({self.constant(kind)})"
        name = self.made[position] = self.variable(made)
        if kind in (list, set, deque) and children:
            self.lines.append(f"{name}.{'update' if kind is set else 'extend'}({self.items(children)})")
        elif type(keys) is Derived:
            self.fill(name, keys, children)
        elif kind in (dict, OrderedDict, Counter, defaultdict):
            for key, value in self.entries(keys[1] if kind is defaultdict else keys, children):
                self.lines.append(f"{name}[{key}] = {value}")
        elif kind not in (np.ndarray, TracedArray, frozenset, range, list, set, deque):
            self.attributes(name, keys, children)
        return name

    def fill(self, name: str, made: Derived, children: Sequence[Structure]) -> None:
        """Give an instance of a derived class its items and attributes: nothing of the class's own runs."""
        count = len(children) - len(made.names)
        if made.keys is None:
            self.lines.append(f"{self.constant(list.extend)}({name}, {self.items(children[:count])})")
        for key, value in self.entries(made.keys, children[:count]) if made.keys is not None else ():
            self.lines.append(f"{self.constant(made.base.__setitem__)}({name}, {key}, {value})")
        self.attributes(name, made.names, children[count:])

    def entries(self, keys: Sequence[Any], children: Sequence[Structure]) -> Iterator[tuple[str, str]]:
        """Expressions for keys and values, each after the lines that it needs."""
        given = iter(children)
        named = [self.value(next(given)) if key is RECORD else self.constant(key) for key in keys]
        for key, child in zip(named, given, strict=True):
            yield key, self.value(child)

    def attributes(self, name: str, names: Sequence[str], children: Sequence[Structure]) -> None:
        """Give an object its attributes."""
        for key, child in zip(names, children, strict=True):
            value = self.value(child)
            self.lines.append(f"{self.constant(object.__setattr__)}({name}, {self.constant(key)}, {value})")

    def items(self, children: Sequence[Structure]) -> str:
        """An expression for a list of values."""
        return f"[{', '.join([self.value(child) for child in children])}]"

    def variable(self, expression: str) -> str:
        """A variable that holds what an expression gives."""
        name = f"v{next(self.numbers)}"
        self.lines.append(f"{name} = {expression}")
        return name

    def constant(self, value: Any) -> str:
        """A name for an object that every call has."""
        name = self.names.setdefault(id(value), f"c{len(self.known)}")
        self.known[name] = value
        return name


def _as_given(array: np.ndarray) -> np.ndarray:
    """What NumPy gave, of which a tensor has a view."""
    base = array.base
    whole = type(base) is np.ndarray and base.base is None and base.shape == array.shape
    return base if whole and base.strides == array.strides else array  # type: ignore
