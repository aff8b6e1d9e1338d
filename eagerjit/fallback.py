"""When a jitted function runs eagerly: effects that compiled code would not have, and the warning that says so."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType
from typing import Any

from eagerjit.guards import Effect, Observer, has_state, inspect_code, unwrap
from eagerjit.tensor import Tensor


class JitWarning(UserWarning):
    """A jitted function runs eagerly, or compiles again and again; the message says which line and why."""


def may_have_effects(function: Any, args: Any, kwargs: Any) -> bool:
    """Whether the code that a callable may reach could change something that a trace does not see."""
    code, _ = unwrap(function)
    if code is None:
        return False
    reachable = inspect_code(code, None)
    for owner in [*reachable.owners, *args, *kwargs.values()]:
        for method in _forward_methods(owner):
            reachable.effects += inspect_code(method, None).effects
    return bool(reachable.effects)


def observe(function: Any, args: Any, kwargs: Any) -> tuple[Any, Effect | None]:
    """The result of an eager call, and the first effect that really happened in it."""
    with Observer() as observer:
        result = function(*args, **kwargs)
    code, owner = unwrap(function)
    assert code is not None
    found = inspect_code(code, observer, [owner, *args, *kwargs.values()]).effects
    return result, found[0] if found else None


def _forward_methods(owner: Any) -> list[FunctionType]:
    """The methods that calling a Module or a callable object runs."""
    if isinstance(owner, (type, FunctionType, BuiltinFunctionType, Tensor)):
        return []
    modules = owner.modules() if has_state(owner) and hasattr(owner, "modules") else [owner]
    found = {type(m).__dict__.get("forward") or type(m).__dict__.get("__call__") for m in modules}
    return [f for f in found if isinstance(f, FunctionType)]
