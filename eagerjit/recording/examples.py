"""What a recording does for tensors that stand for one of many examples; any other recording does nothing special."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Examples:
    """How ops are recorded."""

    single_example = False
    """Whether tensors stand for one of many examples."""

    def outside_of(self, op: Any, arguments: tuple[Any, ...]) -> Any:
        """The result of an op for every example, where tensors stand for one of many."""
        raise NotImplementedError

    def run_body(self, body: Callable[[tuple[Any, ...]], Any], arguments: tuple[Any, ...]) -> Any:
        """What an op gives that user code calls while gradients are recorded."""
        return body(arguments)

    def as_taped(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """An op's arguments with the gradients that the tape knows, and no others."""
        return arguments

    def refuse_own_gradient(self, name: str, tensors: Sequence[Any]) -> None:
        """Refuse a function with a gradient of its own, where that would not be asked."""
