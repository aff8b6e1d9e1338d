"""Names of `torch.compiler`: what steers PyTorch's compiler has nothing to steer where compiling changes no result."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from eagerjit.state import state

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "set_stance",
]  # fmt: skip

_IGNORED = frozenset(
    ("dynamic", "backend", "mode", "options", "disable", "name", "recompile_limit", "isolate_recompiles", "shapes_spec")
)


def compile(model: Any = None, *, fullgraph: bool = False, **ignored: Any) -> Any:
    """`jit` under PyTorch's name; arguments of other compilers (dynamic, backend, mode, options) change nothing.

    Of a Module it makes an `OptimizedModule` around it: names in its `state_dict` begin with `_orig_mod.`.
    """
    unknown = ignored.keys() - _IGNORED
    if unknown:
        raise TypeError(f"compile() got an unexpected keyword argument '{min(unknown)}'")
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, **ignored)
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    if ignored.get("disable"):
        return model
    from eagerjit.jit import Options, jit
    from eagerjit.nn.module import Module
    from eagerjit.nn.optimized import OptimizedModule

    if not isinstance(model, Module):
        return jit(model, fullgraph=fullgraph)
    return model if isinstance(model, OptimizedModule) else OptimizedModule(model, Options(fullgraph))


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The plain function of a compiled one, any other itself; also as a decorator with arguments."""
    if fn is None:
        return disable
    from eagerjit.jit import JitFunction

    return fn.__wrapped__ if isinstance(fn, JitFunction) else fn


def allow_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


assume_constant_result = allow_in_graph


def is_compiling() -> bool:
    """Whether a model is being exported; False while a function is compiled: programs do the same compiled and not."""
    return state.exporting


is_dynamo_compiling = is_exporting = is_compiling


def reset() -> None:
    """Nothing is kept beside compiled functions themselves; see their `clear`."""


cudagraph_mark_step_begin = reset


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """["eagerjit"]."""
    return ["eagerjit"]


def set_stance(stance: str = "default", **options: Any) -> Any:
    """A context that changes nothing."""
    return contextlib.nullcontext()
