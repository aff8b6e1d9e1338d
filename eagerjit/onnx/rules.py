"""What ONNX's operators make of primitives, by the primitive's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.onnx.writer import Writer, element_type

Rule = Callable[..., str]
"""(writer, node, *names of the inputs) -> name of the result; NotImplementedError for what ONNX cannot say."""


def registering(table: dict[str, Rule]) -> Callable[..., Callable[[Rule], Rule]]:
    """What puts a rule for some primitives into a table."""

    def rule(*names: str) -> Callable[[Rule], Rule]:
        def register(function: Rule) -> Rule:
            table.update(dict.fromkeys(names, function))
            return function

        return register

    return rule


def cast(w: Writer, x: str, dtype: Any) -> str:
    """A tensor in another dtype."""
    return w.node("Cast", x, to=element_type(dtype))
