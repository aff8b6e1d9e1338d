"""A part of the native runtime: native modules that are loaded together, as objects that the disk cache keeps."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from eagerjit.runtime import cache, cpu, sources
from eagerjit.runtime.native import language

if TYPE_CHECKING:
    from eagerjit.runtime.native.translate import Translated

_CONSTANTS = ("dtypes", "making", "mode", "program", "views")
"""Modules outside of this folder whose constants are folded in."""

_LINKERS = ("cpu", "images", "relocations")
"""Modules outside of this folder that decide what objects are like."""

_LENGTH = 8


class NativeLibrary:
    """Loaded native code: addresses of its public functions and globals."""

    def __init__(self, loaded: cpu.LoadedObject):
        self._loaded = loaded

    def address(self, name: str) -> int:
        """Address of a public function or global; KeyError if there is none such."""
        return self._loaded.address(name)

    def has(self, name: str) -> bool:
        """Whether a public function is there, and not only with better code."""
        return True

    def find(self, name: str) -> int:
        """The address of a public function or global; 0 if there is none such."""
        with contextlib.suppress(KeyError):
            return self.address(name)
        return 0

    def function(self, name: str, result: Any, *arguments: Any, keep_gil: bool = False) -> Any:
        """A public function as a ctypes callable of these types; `keep_gil` for quick ones that rely on the GIL."""
        kind = ctypes.PYFUNCTYPE if keep_gil else ctypes.CFUNCTYPE
        return kind(result, *arguments)(self.address(name))


class Part:
    """Native modules, by name, over the parts `base`."""

    def __init__(self, *names: str, base: tuple[Part, ...] = ()):
        self._names, self._base = names, base

    @functools.cached_property
    def modules(self) -> list[ModuleType]:
        """The modules themselves, whose variables say what is folded in."""
        return [importlib.import_module(f"eagerjit.runtime.native.{name}") for name in self._names]

    @functools.cached_property
    def key(self) -> str:
        """What stands for the objects on the disk: a source, a folded constant or the target changes it."""
        names = [*self._names, *(name for part in self._base for name in part._names)]
        machine = f"{cpu.target_key()} processors={os.cpu_count()}"
        return cache.content_key(machine, " ".join(names), _sources())

    def _given(self) -> list[ModuleType]:
        return [module for part in self._base for module in part.modules if module not in self.modules]

    def load(self, *base: NativeLibrary) -> NativeLibrary:
        """The part, compiled well, over its loaded bases."""
        stored = self.stored()
        return self.loaded(stored or self.store([cpu.compile_text(self.translated().whole(), "inline")]), *base)

    @staticmethod
    def loaded(stored: list[bytes], *base: NativeLibrary) -> NativeLibrary:
        """What the disk has of a part, over its loaded bases."""
        names, *code = stored
        given = {name: at for library in base for name in names.decode().split() if (at := library.find(name))}
        return NativeLibrary(cpu.load_object(*code, symbols=given))

    def translated(self) -> Translated:
        """The part's LLVM text."""
        from eagerjit.runtime.native.translate import Translated

        return Translated(self.modules, self._given())

    def stored(self) -> list[bytes] | None:
        """What the disk has: the names that the part takes from its bases, then its well compiled code."""
        stored = cache.get("native", self.key)
        return None if stored is None else list(_taken_apart(stored))

    def store(self, objects: list[bytes]) -> list[bytes]:
        """Links the part's well compiled objects and keeps what `stored` gives from then on, which is returned."""
        code = cpu.linked(*objects)
        given = (name for module in self._given() for name in (*functions(module), *memory(module)))
        names = " ".join(name for name in given if any(name.encode() in one for one in code))
        kept = [names.encode(), *code]
        cache.put("native", self.key, b"".join(len(one).to_bytes(_LENGTH, "little") + one for one in kept))
        return kept


def functions(module: ModuleType) -> list[str]:
    """The symbols of a module's public functions."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__ and not name.startswith("_")
    ]


def memory(module: ModuleType, private: bool = False) -> list[str]:
    """The symbols of a module's memory, and where it takes that of others, theirs."""
    short = module.__name__.rpartition(".")[2]
    named = [name for name, value in vars(module).items() if isinstance(value, language.Global) and not value.symbol]
    return [f"{short}.{name}" if name.startswith("_") else name for name in named if private or name[0] != "_"]


def _taken_apart(stored: bytes) -> Iterator[bytes]:
    """Objects that are stored one behind the other, each behind its length."""
    at = 0
    while at < len(stored):
        end = at + _LENGTH + int.from_bytes(stored[at : at + _LENGTH], "little")
        yield stored[at + _LENGTH : end]
        at = end


@functools.cache
def _sources() -> str:
    """A digest of all that objects depend on besides the machine, which no module has to be imported for."""
    folder = Path(__file__).parent
    beside = [str(folder.parent / f"{name}.py") for name in (*_CONSTANTS, *_LINKERS)]
    return sources.digest([*sources.modules_below(folder), *beside])
