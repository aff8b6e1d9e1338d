"""Whether a debugger follows this thread: functions then run plainly, so that it stops in them where it was told to.

Tools that watch and never stop, as those that measure coverage do, change nothing. Debuggers are modules: while none is
imported, which native code sees by the number of modules, nobody is asked.
"""

from __future__ import annotations

import sys
from typing import Any

from eagerjit.runtime import mode

_DEBUGGERS = ("bdb", "_pydevd_bundle")
"""What debuggers import and are made of: Python's own, which most derive from, and that of editors."""
_monitoring: Any = getattr(sys, "monitoring", None)


def is_debugged() -> bool:
    """Whether a debugger follows this thread; native code asks again when one may have come since."""
    words = mode.words
    if words[mode.MODULES_WORD] != len(sys.modules):
        words[mode.MODULES_WORD] = len(sys.modules)
        words[mode.DEBUGGERS_WORD] = any(name in sys.modules for name in _DEBUGGERS)
    return bool(words[mode.DEBUGGERS_WORD]) and (_stops(sys.gettrace()) or _monitors())


def _stops(trace: Any) -> bool:
    """Whether a trace function is a debugger's."""
    if trace is None:
        return False
    kinds = type(getattr(trace, "__self__", trace)).__mro__
    modules = [getattr(trace, "__module__", None) or "", *(kind.__module__ for kind in kinds)]
    return any(name.partition(".")[0] in _DEBUGGERS for name in modules)


def _monitors() -> bool:
    """Whether a debugger has asked CPython 3.12 or later for the events of all threads."""
    return _monitoring is not None and _monitoring.get_tool(_monitoring.DEBUGGER_ID) is not None
