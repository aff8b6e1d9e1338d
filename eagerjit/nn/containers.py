"""Modules that hold modules."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from eagerjit.nn.module import Module
from eagerjit.runtime import mode


class _Sequence(Module):
    """Submodules under the names 0, 1, 2, ..."""

    def _position(self, index: int) -> str:
        count = len(self)
        index = operator.index(index)
        if not -count <= index < count:
            raise IndexError(f"index {index} is out of range")
        return list(self._modules)[index % count]

    def _renamed(self, modules: Iterable[Any]) -> None:
        """Hold these modules, under new names."""
        kept = list(modules)
        self._modules.clear()
        self._modules.update((str(i), m) for i, m in enumerate(kept))
        mode.bump_epoch()

    def __getitem__(self, index: Any) -> Any:
        return self._modules[self._position(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._position(index), module)

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)
        gone = names[index] if isinstance(index, slice) else [self._position(index)]
        self._renamed(m for n, m in self._modules.items() if n not in gone)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{type(self).__name__}.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Add a module before the one at `index`."""
        modules = list(self._modules.values())
        if not -len(modules) <= index <= len(modules):
            raise IndexError(f"Index out of range: {index}")
        modules.insert(index, module)
        self._renamed(modules)
        return self

    def pop(self, key: int = -1) -> Any:
        """Take a module out."""
        module = self[key]
        del self[key]
        return module

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)


class Sequential(_Sequence):
    """Modules called one after the other, each with what the one before returns.

    Given one by one, or under names in an OrderedDict; indexed by number or slice. Raises TypeError for what is no
    Module.
    """

    def __init__(self, *args: Any):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for index, module in enumerate(args):
                self.add_module(str(index), module)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return super().__getitem__(index)

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __mul__(self, count: int) -> Sequential:
        if not isinstance(count, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {count.__class__}")
        if count <= 0:
            raise ValueError(f"Non-positive multiplication factor {count} for {type(self)}")
        return Sequential(*list(self) * count)

    __rmul__ = __mul__

    def __imul__(self, count: int) -> Self:
        repeated = self * count
        return self.extend(list(repeated)[len(self) :])

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input


class ModuleList(_Sequence):
    """A list of modules, whose parameters are those of the Module that it is assigned to; it is not called itself."""

    def __init__(self, modules: Iterable[Module] | None = None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return super().__getitem__(index)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        lines: list[str] = []
        texts = [repr(module) for module in self]
        first = 0
        while first < len(texts):
            last = first
            while last + 1 < len(texts) and texts[last + 1] == texts[first]:
                last += 1
            label = f"({first})" if last == first else f"({first}-{last}): {last - first + 1} x"
            lines.append(f"{label}{':' if last == first else ''} {texts[first]}".replace("\n", "\n  "))
            first = last + 1
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines) + "\n)" if lines else f"{type(self).__name__}()"


class ModuleDict(Module):
    """A dictionary of modules under names without dots, in order of insertion; it is not called itself."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]  # type: ignore[return-value]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]
        mode.bump_epoch()

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and modules."""
        return self._modules.items()

    def pop(self, key: str) -> Module:
        """Take a module out."""
        module = self[key]
        del self[key]
        return module

    def clear(self) -> None:
        """Take all modules out."""
        self._modules.clear()
        mode.bump_epoch()

    def update(self, modules: Any) -> None:
        """Add or replace modules."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                f"{type(modules).__name__}"
            )
        for key, module in modules.items() if hasattr(modules, "items") else modules:
            self[key] = module
