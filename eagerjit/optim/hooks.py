"""Hooks around every step of an optimizer, whoever defined it: those of the optimizer, and those of all optimizers."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import chain
from typing import Any

from eagerjit.guards.epochs import Table
from eagerjit.tensors.hooks import Handle, add_hook

_before: dict[int, Any] = Table()
_after: dict[int, Any] = Table()


def hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step between its hooks."""

    @wraps(step)
    def between(*args: Any, **kwargs: Any) -> Any:
        optimizer = args[0]
        for hook in [*chain(_before.values(), optimizer._optimizer_step_pre_hooks.values())]:
            changed = hook(optimizer, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
            args, kwargs = changed
        result = step(*args, **kwargs)
        for hook in [*chain(optimizer._optimizer_step_post_hooks.values(), _after.values())]:
            hook(optimizer, args, kwargs)
        return result

    between.hooked = True  # type: ignore[attr-defined]  # asked for above
    return between


def hook_step(kind: Any) -> None:
    """Make a class's step, wherever it was defined, call hooks."""
    if not getattr(kind.step, "hooked", False):
        kind.step = hooked(kind.step)


def common() -> tuple[int, ...]:
    """Which hooks all optimizers have, comparable."""
    return (*map(id, _before.values()), 0, *map(id, _after.values()))


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> Handle:
    """Calls hook(optimizer, args, kwargs) before every step of every optimizer; may return other (args, kwargs)."""
    return add_hook(_before, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> Handle:
    """Calls hook(optimizer, args, kwargs) after every step of every optimizer."""
    return add_hook(_after, hook)
