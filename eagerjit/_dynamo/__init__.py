"""Names of `torch._dynamo`: settings may be set, and change nothing."""

from __future__ import annotations

from typing import Any

from eagerjit._dynamo import config
from eagerjit._dynamo.eval_frame import OptimizedModule, is_dynamo_supported
from eagerjit.compiling import allow_in_graph, disable, is_compiling, reset

__all__ = [
    "OptimizedModule", "allow_in_graph", "config", "disable", "graph_break", "is_compiling", "is_dynamo_supported",
    "mark_dynamic", "optimize", "reset",
]  # fmt: skip


def graph_break(msg: str = "") -> None:
    """Nothing."""


def mark_dynamic(t: Any, index: Any, **limits: Any) -> None:
    """Nothing: all sizes are run-time inputs anyway."""


maybe_mark_dynamic = mark_dynamic


def mark_static(t: Any, index: Any = None) -> None:
    """Nothing: sizes that decide what is compiled become guards by themselves."""


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Nothing: compiled functions find their tensors anew in every call."""


def assume_constant_result(fn: Any) -> Any:
    """The function itself, which compiled functions call as they call any other."""
    return fn


def optimize(*args: Any, **kwargs: Any) -> Any:
    """What compiles a function; see `eagerjit.jit`."""
    from eagerjit.jit import jit

    return jit
