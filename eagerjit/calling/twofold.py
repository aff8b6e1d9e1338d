"""Methods, and functions of a namespace, where one object was both: what classes are told that they are asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import Parameter as Declared
from typing import Any

from eagerjit.runtime.entry import OpCall
from eagerjit.runtime.planned import Planned
from eagerjit.runtime.public_names import PubliclyNamed
from eagerjit.runtime.remembered import Remembered
from eagerjit.runtime.views import ViewCall


class Public(PubliclyNamed):
    """One of the two that an object was, called natively as it is.

    It equals that object, which programs may have noted before, but not the other of the two.
    """

    __slots__ = ()
    module: str
    shared: Any

    def _name(self, module: str, name: str, shared: Any) -> None:
        functools.update_wrapper(self, shared)  # type: ignore[arg-type]
        self.module, self.shared = module, shared  # type: ignore[misc]
        self.__name__ = self.__qualname__ = name  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Public):
            return (self.module, self.__name__, self.shared) == (other.module, other.__name__, other.shared)
        return other is self.shared

    def __hash__(self) -> int:
        return hash(self.shared)

    def public_name(self) -> tuple[str, str]:
        of_tensor = self.module == "Tensor"
        return ("eagerjit", f"Tensor.{self.__name__}") if of_tensor else (self.module, self.__name__)


class _PublicOp(Public, OpCall):
    __slots__ = ()

    def __init__(self, module: str, name: str, shared: OpCall, plain: Callable[..., Any], op: Any = None):
        OpCall.__init__(
            self, name, plain, shared.op if op is None else op, shared.parameters,
            [d for d in shared.defaults if d is not Declared.empty], shared.numbers,
            bool(shared._records), bool(shared._reflected), shared.shapes, shared._writes, shared.copying,
            shared.siblings, bool(shared._casts),
        )  # fmt: skip
        self._name(module, name, shared)
        self.serve_as(shared)


class _PublicView(_PublicOp, ViewCall):
    __slots__ = ()

    def __init__(self, module: str, name: str, shared: ViewCall, plain: Callable[..., Any]):
        super().__init__(module, name, shared, plain)
        self._kind = shared._kind


class _PublicPlanned(_PublicOp, Planned):
    __slots__ = ()

    def __init__(self, module: str, name: str, shared: Planned, plain: Callable[..., Any]):
        self._plan, self._named = shared._plan, shared._named
        super().__init__(module, name, shared, plain, self._learn)
        self._kind = shared._kind


class _PublicRemembered(Public, Remembered):
    __slots__ = ()

    def __init__(self, module: str, name: str, shared: Remembered, plain: Callable[..., Any]):
        Remembered.__init__(self, plain)
        self._name(module, name, shared)


_KINDS: dict[type, Any] = {
    Planned: _PublicPlanned, ViewCall: _PublicView, OpCall: _PublicOp, Remembered: _PublicRemembered
}  # fmt: skip


def plain_of(shared: Any) -> Callable[..., Any]:
    """What Python runs of what is called natively."""
    return shared.function if isinstance(shared, Remembered) else shared.slow


def made_public(module: str, name: str, shared: Any, plain: Callable[..., Any]) -> Any:
    """One of the two: the module that has it, or "Tensor", and the name there; it has Python run `plain`."""
    return next(made for kind, made in _KINDS.items() if isinstance(shared, kind))(module, name, shared, plain)
