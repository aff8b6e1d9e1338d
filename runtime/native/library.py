"""The native library: native modules as one object, convolutions as another, compiled once per machine and kept."""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from eagerjit.runtime import cache, cpu
from eagerjit.runtime.native import language
from eagerjit.runtime.once import once

MODULES: tuple[str, ...] = (
    "eagerjit.runtime.native.memory",
    "eagerjit.runtime.native.threads",
    "eagerjit.runtime.native.packing",
    "eagerjit.runtime.native.products",
    "eagerjit.runtime.native.tiles",
    "eagerjit.runtime.native.copying",
    "eagerjit.runtime.native.panels",
    "eagerjit.runtime.native.tile_products",
    "eagerjit.runtime.native.matmul",
    "eagerjit.runtime.native.scan",
    "eagerjit.runtime.native.order",
    "eagerjit.runtime.native.search",
    "eagerjit.runtime.native.context",
    "eagerjit.runtime.native.flags",
    "eagerjit.runtime.native.objects",
    "eagerjit.runtime.native.places",
    "eagerjit.runtime.native.guards",
    "eagerjit.runtime.native.loads",
    "eagerjit.runtime.native.work",
    "eagerjit.runtime.native.device_memory",
    "eagerjit.runtime.native.device",
    "eagerjit.runtime.native.captured",
    "eagerjit.runtime.native.execute",
    "eagerjit.runtime.native.operators",
    "eagerjit.runtime.native.nodes",
    "eagerjit.runtime.native.entry",
    "eagerjit.runtime.native.answers",
    "eagerjit.runtime.native.remembered",
    "eagerjit.runtime.native.views",
    "eagerjit.runtime.native.subscripts",
    "eagerjit.runtime.native.view_calls",
    "eagerjit.runtime.native.elements",
    "eagerjit.runtime.native.making",
    "eagerjit.runtime.native.planned",
    "eagerjit.runtime.native.launch",
)
"""Native source files; adding one is a line here."""

CONVOLUTION_MODULES: tuple[str, ...] = (
    "eagerjit.runtime.native.copying",
    "eagerjit.runtime.native.tiles",
    "eagerjit.runtime.native.gemm",
    "eagerjit.runtime.native.windows",
    "eagerjit.runtime.native.convolution_plan",
    "eagerjit.runtime.native.covering",
    "eagerjit.runtime.native.chunks",
    "eagerjit.runtime.native.few_channels",
    "eagerjit.runtime.native.direct_plan",
    "eagerjit.runtime.native.direct",
    "eagerjit.runtime.native.direct_weight",
    "eagerjit.runtime.native.turned",
    "eagerjit.runtime.native.convolution",
)
"""Those of convolutions, an object of their own: many programs have none."""

_TRANSLATOR = ("language", "expressions", "eights", "panel_code", "intrinsics", "translate")
"""What makes object code of the others, imported where the disk has none."""


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


@once
def native() -> NativeLibrary:
    """The native library, loaded on first use."""
    modules = [importlib.import_module(name) for name in MODULES]
    library = NativeLibrary(cpu.load_object(compiled(modules)))
    os.register_at_fork(after_in_child=library.function("forget_threads", None))
    return library


@once
def convolutions() -> NativeLibrary:
    """The native convolutions, loaded on first use; the executor finds them from then on."""
    base = native()
    modules = [importlib.import_module(name) for name in CONVOLUTION_MODULES]
    given = [importlib.import_module(name) for name in MODULES if name not in CONVOLUTION_MODULES]
    code = compiled(modules, given)
    for name in {name for module in given for name in vars(module) if _is_defined_in(module, name)}:
        if name.encode() in code:
            cpu.define_symbol(name, base.address(name))
    library = NativeLibrary(cpu.load_object(code))
    place = ctypes.c_int64.from_address(base.address("convolution_function"))
    place.value = library.address("convolution")
    return library


def _is_defined_in(module: ModuleType, name: str) -> bool:
    """Whether a module's variable stands for memory or for code of its own, for others to use."""
    value = getattr(module, name)
    if name.startswith("_"):
        return False
    if isinstance(value, FunctionType):
        return value.__module__ == module.__name__
    return isinstance(value, language.Global) and not value.symbol


def compiled(modules: list[ModuleType], base: Sequence[ModuleType] = ()) -> bytes:
    """Object code of native modules, from the cache unless a source, a folded constant or the target changed."""
    key = cache.content_key(cpu.target_key(), *_fingerprint([*modules, *base]))
    stored = cache.get("native", key)
    if stored is None:
        from eagerjit.runtime.native import translate

        stored = cpu.compile_text(translate.translate(modules, base), passes="inline")
        cache.put("native", key, stored)
    return stored


def _fingerprint(modules: list[ModuleType]) -> list[bytes]:
    """All the object code depends on: sources of the modules and of the translator, and the constants they see."""
    folder = Path(str(language.__file__)).parent
    parts = [(folder / f"{name}.py").read_bytes() for name in _TRANSLATOR]
    parts += [Path(str(module.__file__)).read_bytes() for module in modules]
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, (int, float)):
                parts.append(f"{name}={value!r}".encode())
            elif isinstance(value, type) and issubclass(value, IntEnum):
                parts.append(f"{name}={[(member.name, member.value) for member in value]}".encode())
            elif isinstance(value, ModuleType) and value.__name__.startswith("eagerjit."):
                parts.append(Path(str(value.__file__)).read_bytes())
    return parts
