"""A part of the native runtime: native modules that are loaded together, as objects that the disk cache keeps."""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
from collections.abc import Iterator
from enum import IntEnum
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from eagerjit.runtime import cache, cpu, images, sources
from eagerjit.runtime.native import language

if TYPE_CHECKING:
    from eagerjit.runtime.native.translate import Translated

_MAKERS = (
    *("language", "expressions", "eights", "fourier_code", "panel_code", "row_code", "intrinsics", "statements"),
    *("translate", "parts", "library"),
)
"""What objects of native modules depend on besides; most of it is imported where the disk has none."""

_LENGTH = 8


class NativeLibrary:
    """Loaded native code: addresses of its public functions and globals."""

    def __init__(self, loaded: cpu.LoadedObject):
        self._loaded = loaded

    def address(self, name: str) -> int:
        """Address of a public function or global; KeyError if there is none such."""
        return self._loaded.address(name)

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
        return cache.content_key(cpu.target_key(), *_fingerprint([*self.modules, *self._given()]))

    def _given(self) -> list[ModuleType]:
        return [module for part in self._base for module in part.modules if module not in self.modules]

    def load(self, *base: NativeLibrary) -> NativeLibrary:
        """The part, compiled well, over its loaded bases."""
        code = self.stored()
        if code is None:
            code = self.store([cpu.compile_text(self.translated().whole(), "inline")])
        given = {
            name: library.address(name)
            for part, library in zip(self._base, base, strict=True)
            for module in part.modules
            if module not in self.modules
            for name in (*functions(module), *memory(module))
            if any(name.encode() in one for one in code)
        }
        return NativeLibrary(cpu.load_object(*code, symbols=given))

    def translated(self) -> Translated:
        """The part's LLVM text."""
        from eagerjit.runtime.native.translate import Translated

        return Translated(self.modules, self._given())

    def stored(self) -> list[bytes] | None:
        """The part's well compiled code, if the disk has it."""
        stored = cache.get("native", self.key)
        return None if stored is None else list(_taken_apart(stored))

    def store(self, objects: list[bytes]) -> list[bytes]:
        """Links the part's well compiled objects and keeps what comes of them, which is returned."""
        code = cpu.linked(*objects)
        cache.put("native", self.key, b"".join(len(one).to_bytes(_LENGTH, "little") + one for one in code))
        return code


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


def _fingerprint(modules: list[ModuleType]) -> list[str]:
    """All the object code depends on: sources of the modules and of the translator, and the constants they see."""
    folder = os.path.dirname(str(language.__file__))
    files = dict.fromkeys([*(f"{folder}/{name}.py" for name in _MAKERS), str(images.__file__)])
    files |= dict.fromkeys(str(module.__file__) for module in modules)
    parts = []
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, (int, float)):
                parts.append(f"{name}={value!r}")
            elif isinstance(value, type) and issubclass(value, IntEnum):
                parts.append(f"{name}={[(member.name, member.value) for member in value]}")
            elif isinstance(value, ModuleType) and value.__name__.startswith("eagerjit."):
                files[str(value.__file__)] = None
    return [*parts, sources.digest([*files])]
