"""`torch.export`: there is no exported form of programs here, which is said where one is asked for."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["export", "load", "save"]

_INSTEAD = "eagerjit.jit compiles functions and Modules, eagerjit.fx.symbolic_trace gives graphs of them"


def export(mod: Any, args: Any = (), kwargs: Any = None, **options: Any) -> NoReturn:
    """Raises NotImplementedError: no ExportedProgram is made."""
    raise NotImplementedError(f"torch.export.export: eagerjit makes no ExportedProgram; {_INSTEAD}")


def save(ep: Any, f: Any, **options: Any) -> NoReturn:
    """Raises NotImplementedError."""
    raise NotImplementedError(f"torch.export.save: eagerjit has no ExportedProgram; {_INSTEAD}")


def load(f: Any, **options: Any) -> NoReturn:
    """Raises NotImplementedError."""
    raise NotImplementedError(f"torch.export.load: eagerjit has no ExportedProgram; {_INSTEAD}")
