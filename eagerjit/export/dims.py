"""Names of sizes that differ from call to call, for `torch.export` and `torch.onnx.export`."""

from __future__ import annotations


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
