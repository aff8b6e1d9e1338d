"""The native runtime while it has been compiled quickly only: a thread compiles it well, a module at a time.

Nobody waits for it longer than for one module, some 50 ms: it stands back where somebody has LLVM compile, and a
process that exits waits for what is being compiled at that moment and drops the rest. The disk keeps what is done. A
child of a fork has no such thread and goes on as it is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from eagerjit.runtime import cpu
from eagerjit.runtime.native.parts import NativeLibrary, Part

IDLE_SECONDS = 0.1
"""Nobody has had LLVM compile for as long when the thread goes on."""

_PAUSE_SECONDS = 0.001  # between two modules: whoever waits for the lock gets it

_improved: list[NativeLibrary] = []
_threads: list[threading.Thread] = []


def start(part: Part, running: NativeLibrary, ahead: Sequence[Part]) -> None:
    """Compiles the parts `ahead`, which are going to be loaded, then `part`, to take the place of what is running."""
    thread = threading.Thread(target=_work, args=(part, running, ahead), name="eagerjit-native", daemon=False)
    _threads.append(thread)
    thread.start()


def wait() -> None:
    """Waits until well compiled code runs, and the disk has it."""
    for thread in _threads:
        thread.join()


def _work(part: Part, running: NativeLibrary, ahead: Sequence[Part]) -> None:
    _is_idle(IDLE_SECONDS)
    for one in (*ahead, part):
        for _ in one.compile_ahead():
            if not _is_idle(_PAUSE_SECONDS):
                return
    _improved.append(part.improve(running))


def _is_idle(pause: float) -> bool:
    """True after the pause, once nobody has compiled for a while; False where the process is about to exit."""
    main = threading.main_thread()
    while main.is_alive() and pause > 0:
        main.join(pause)
        pause = cpu.compiled_at + IDLE_SECONDS - time.monotonic()
    return main.is_alive()
