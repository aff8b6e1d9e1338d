"""The native runtime where the disk does not have it: compiled quickly, and well by a thread that takes its time.

Quick code is of the modules that compiled functions and operators need; what the others do Python does until there is
better code. The thread compiles a module at a time, some 50 ms, and nobody waits for it longer: it stands back where
somebody records or compiles, and a process that exits waits for what is being compiled at that moment and drops the
rest. The disk keeps what is done. A child of a fork has no such thread and goes on as it is.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Sequence

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
    """The first modules of a part compiled quickly, with a cell for each function that better code can be put into."""

    def __init__(self, part: Part, later: str):
        at = [module.__name__.rpartition(".")[2] for module in part.modules].index(later)
        self._modules = part.modules[:at]
        self._functions = {name for module in self._modules for name in functions(module)}
        self.is_improved = False
        super().__init__(self._compiled(part))

    def _compiled(self, part: Part) -> cpu.LoadedObject:
        key = cache.content_key(part.key, "quick")
        code = cache.get("native", key)
        if code is None:
            from eagerjit.runtime.native.translate import Translated

            (code,) = cpu.linked(cpu.compile_text(Translated(self._modules, ()).replaceable(), "quick"))
            cache.put("native", key, code)
        return cpu.load_object(code)

    def has(self, name: str) -> bool:
        return self.is_improved or name in self._functions

    def improve(self, objects: Sequence[bytes]) -> None:
        """Puts well compiled code in the place of what runs, over the same memory, and gives out its addresses."""
        from eagerjit.runtime.native.translate import code_cell

        with lock:
            names = {name for module in self._modules for name in memory(module, private=True)}
            better = cpu.load_object(*objects, symbols={name: self._loaded.address(name) for name in names})
            for name in self._functions:
                cell = ctypes.c_int64.from_address(self._loaded.address(code_cell(name)))
                cell.value = better.address(name)
            self._replaced, self._loaded, self.is_improved = self._loaded, better, True


def load(part: Part, later: str) -> QuickLibrary:
    """The part compiled quickly, but for the modules from `later` on, and improved in the background."""
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
