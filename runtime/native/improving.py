"""The native runtime where the disk does not have it: compiled quickly, and well by a thread that takes its time.

Quick code is of two groups of modules, of which the second is compiled when one of its functions is asked for. The
thread compiles a module at a time, some 50 ms, and nobody waits for it longer: it stands back where somebody records or
compiles, and a process that exits waits for what is being compiled at that moment and drops the rest. The disk keeps
what is done. A child of a fork has no such thread and goes on as it is.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Mapping, Sequence
from types import ModuleType

from eagerjit.runtime import busy, cache, cpu
from eagerjit.runtime.native.parts import NativeLibrary, Part, functions, memory
from eagerjit.runtime.once import lock

IDLE_SECONDS = 0.2
"""Nobody has waited for a recording or for LLVM for as long when the thread goes on."""

PATIENCE_SECONDS = 10.0
"""The thread waits no longer than this, all in all: some programs record all the time."""

_PAUSE_SECONDS = 0.001  # between two modules: whoever waits for the lock gets it

_threads: list[threading.Thread] = []


class QuickLibrary(NativeLibrary):
    """A part compiled quickly, with a cell for each public function that better code can be put into."""

    def __init__(self, part: Part, later: str):
        self._part = part
        at = [module.__name__.rpartition(".")[2] for module in part.modules].index(later)
        self._modules, self._later = part.modules[:at], part.modules[at:]
        self._functions = {name for module in self._modules for name in functions(module)}
        self._rest: cpu.LoadedObject | None = None
        self.is_improved = False
        super().__init__(self._compiled("first", self._modules, (), {}))

    def _compiled(
        self, group: str, modules: Sequence[ModuleType], base: Sequence[ModuleType], symbols: Mapping[str, int]
    ) -> cpu.LoadedObject:
        key = cache.content_key(self._part.key, "quick", group)
        code = cache.get("native", key)
        if code is None:
            from eagerjit.runtime.native.translate import Translated

            (code,) = cpu.linked(cpu.compile_text(Translated(modules, base).replaceable(), "quick"))
            cache.put("native", key, code)
        return cpu.load_object(code, symbols={name: at for name, at in symbols.items() if name.encode() in code})

    def has(self, name: str) -> bool:
        return self.is_improved or self._rest is not None or name in self._functions

    def address(self, name: str) -> int:
        with lock:
            try:
                return super().address(name)
            except KeyError:
                if self.is_improved:
                    raise
            if self._rest is None:
                names = [name for module in self._modules for name in (*functions(module), *memory(module))]
                given = {name: self._loaded.address(name) for name in names}
                self._rest = self._compiled("second", self._later, self._modules, given)
            return self._rest.address(name)

    def improve(self, objects: Sequence[bytes]) -> None:
        """Puts well compiled code in the place of what runs, over the same memory, and gives out its addresses."""
        from eagerjit.runtime.native.translate import code_cell

        with lock:
            names = {name for module in self._modules for name in memory(module, private=True)}
            better = cpu.load_object(*objects, symbols={name: self._loaded.address(name) for name in names})
            groups = [(self._loaded, self._modules), *([(self._rest, self._later)] if self._rest else [])]
            cells = {
                loaded.address(code_cell(name)): better.address(name)
                for loaded, modules in groups
                for module in modules
                for name in functions(module)
            }
            for cell, code in cells.items():
                ctypes.c_int64.from_address(cell).value = code
            self._replaced, self._loaded, self.is_improved = self._loaded, better, True


def load(part: Part, later: str) -> QuickLibrary:
    """The part, compiled quickly, the modules from `later` on when they are needed, and improved in the background."""
    library = QuickLibrary(part, later)
    thread = threading.Thread(target=_improve, args=(part, library), name="eagerjit-native", daemon=False)
    _threads.append(thread)
    thread.start()
    return library


def wait() -> None:
    """Waits until well compiled code runs, and the disk has it."""
    for thread in _threads:
        thread.join()


def _improve(part: Part, library: QuickLibrary) -> None:
    """The life of the thread."""
    objects: list[bytes] = []
    latest = time.monotonic() + PATIENCE_SECONDS
    if not _is_idle(IDLE_SECONDS, latest):
        return
    translated = part.translated()
    for module in part.modules:
        key = cache.content_key(part.key, module.__name__)
        code = cache.get("native", key)
        if code is None:
            if not _is_idle(_PAUSE_SECONDS, latest):
                return
            code = cpu.compile_aside(translated.of(module), "inline")
            cache.put("native", key, code)
        objects.append(code)
    library.improve(objects)
    part.store([cpu.compile_aside(translated.memory(), "none"), *objects])


def _is_idle(pause: float, latest: float) -> bool:
    """True after the pause, once nobody has been busy for a while or it is late; False where the process is to exit."""
    main = threading.main_thread()
    while main.is_alive() and pause > 0:
        main.join(pause)
        pause = min(IDLE_SECONDS - busy.idle_seconds(), latest - time.monotonic())
    return main.is_alive()
