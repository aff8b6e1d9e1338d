"""`torch.export`: there is no exported form of programs here, which is said where one is asked for.

`Dim` names sizes for `torch.onnx.export`.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["Dim", "export", "load", "save"]

_INSTEAD = "eagerjit.jit compiles functions and Modules, eagerjit.fx.symbolic_trace gives graphs of them"


class Dim:
    """A size that differs from call to call, by name; `min` and `max` are what the caller promises of it.

    Dim.DYNAMIC and Dim.AUTO have no name, Dim.STATIC is a size that does not differ.
    """

    DYNAMIC: Dim
    AUTO: Dim
    STATIC: Dim

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None):
        if name and not name.isidentifier():
            raise ValueError(f"Dim: the name must be an identifier, got {name!r}")
        self.__name__, self.min, self.max, self.is_static = name, min, max, False

    def __repr__(self) -> str:
        return f"Dim({self.__name__!r})"


Dim.DYNAMIC, Dim.AUTO, Dim.STATIC = Dim(""), Dim(""), Dim("")
Dim.STATIC.is_static = True


def export(mod: Any, args: Any = (), kwargs: Any = None, **options: Any) -> NoReturn:
    """Raises NotImplementedError: no ExportedProgram is made."""
    raise NotImplementedError(f"torch.export.export: eagerjit makes no ExportedProgram; {_INSTEAD}")


def save(ep: Any, f: Any, **options: Any) -> NoReturn:
    """Raises NotImplementedError."""
    raise NotImplementedError(f"torch.export.save: eagerjit has no ExportedProgram; {_INSTEAD}")


def load(f: Any, **options: Any) -> NoReturn:
    """Raises NotImplementedError."""
    raise NotImplementedError(f"torch.export.load: eagerjit has no ExportedProgram; {_INSTEAD}")
