"""What a Module and those below it hold, compared table by table and by identity: most of it is as it was."""

from __future__ import annotations

import array
from collections import deque
from collections.abc import Iterator, Set
from typing import Any

import numpy as np

from eagerjit.guards.comparing import contents, is_plain
from eagerjit.guards.epochs import Table

_CONTAINERS = (list, tuple, dict, set, bytearray, deque, np.ndarray, array.array)


class Held:
    """What there is; `holds` tells where it is all the same, and not always: then `_jit_state` is to be compared.

    `changing` are the (dictionary, key) that need not be as they were, by the dictionary's id.
    """

    def __init__(self, root: Any, changing: Set[tuple[int, Any]]):
        self._changing, self._changed = changing, {place for place, _ in changing}
        self._tables: list[tuple[dict[str, Any], list[str], list[int]]] = []
        self._marked: list[tuple[dict[str, Any], list[tuple[str, int]]]] = []
        self._empty: list[Any] = []
        self._deep: list[tuple[Any, Any]] = []
        self._alive: list[Any] = []  # numbers and texts, whose identities others may have when they are gone
        self._modules = list(root.modules())
        self._kinds = list(map(type, self._modules))
        self._own = [vars(module) for module in self._modules]
        for own in self._own:
            self._add(own)
            for name, value in own.items():
                if (id(own), name) not in changing:
                    self._add_part(value)

    def holds(self) -> bool:
        """Whether all of it is as it was, as far as identities tell."""
        if any(self._empty) or list(map(type, self._modules)) != self._kinds:
            return False
        if list(map(id, map(vars, self._modules))) != list(map(id, self._own)):
            return False
        for table, names, ids in self._tables:
            if list(map(id, table.values())) != ids or list(table) != names:
                return False
        if any(self._kept(table) != kept for table, kept in self._marked):
            return False
        return all(contents(value, None, self._changing) == before for value, before in self._deep)

    def _add(self, table: dict[str, Any]) -> None:
        self._alive += [value for value in table.values() if is_plain(value)]
        if id(table) in self._changed:
            self._marked.append((table, self._kept(table)))
        else:
            self._tables.append((table, list(table), list(map(id, table.values()))))

    def _kept(self, table: dict[str, Any]) -> list[tuple[str, int]]:
        """The keys, and what lies there by identity, 0 where that need not be as it was."""
        place, changing = id(table), self._changing
        return [(name, 0 if (place, name) in changing else id(value)) for name, value in table.items()]

    def _add_part(self, value: Any) -> None:
        if not isinstance(value, _CONTAINERS):
            return
        if type(value) in (Table, set, list, dict) and not value:
            self._empty.append(value)
        elif type(value) is Table:
            self._add(value)
        else:
            self._deep.append((value, contents(value, None, self._changing)))


def held_by(owner: Any, changing: Set[tuple[int, Any]]) -> Held | None:
    """What is compared first of a Module; None for others, and where a class walks through Modules in its own way."""
    from eagerjit.nn.module import Module
    from eagerjit.nn.tree import Tree

    if not isinstance(owner, Module):
        return None
    own: Iterator[Any] = map(type, owner.modules())
    plain = all(kind.named_modules is Tree.named_modules and kind._jit_state is Module._jit_state for kind in own)
    return Held(owner, changing) if plain and type(owner).modules is Tree.modules else None
