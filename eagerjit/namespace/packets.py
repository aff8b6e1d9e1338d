"""`torch.ops.aten`: the library's own functions under PyTorch's internal names."""

from __future__ import annotations

from typing import Any


class Packet:
    """A function and its overloads, which are one function here: `aten.add.Tensor` is `aten.add`.

    Any name may be asked for. Calling one that eagerjit has no function for raises NotImplementedError.
    """

    def __init__(self, name: str):
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = function_of(self.__name__)
        if found is None:
            raise NotImplementedError(f"eagerjit has no function for torch.ops.aten.{self.__name__}")
        return found(*args, **kwargs)

    def __getattr__(self, overload: str) -> Packet:
        if overload.startswith("_"):
            raise AttributeError(f"'OpOverloadPacket' object has no attribute '{overload}'")
        return self

    def overloads(self) -> list[str]:
        """One."""
        return ["default"]

    def __str__(self) -> str:
        return f"aten.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"


class Namespace:
    """Functions by name, the same object each time."""

    def __init__(self) -> None:
        self._packets: dict[str, Packet] = {}

    def __getattr__(self, name: str) -> Packet:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._packets:
            self._packets[name] = Packet(name)
        return self._packets[name]


def function_of(name: str) -> Any:
    """The library's function of a name, None where it has none."""
    import eagerjit
    from eagerjit.nn import functional

    for owner in (eagerjit, functional, eagerjit.Tensor):
        found = getattr(owner, name, None)
        if callable(found):
            return found
    return None


def load_library(path: Any) -> None:
    """The operators of a file compiled for PyTorch, where eagerjit has its own; OSError for other files."""
    from eagerjit.standin.operators import load

    if not load(path):
        raise OSError(f"eagerjit loads no compiled operators: {path}")


aten = Namespace()
