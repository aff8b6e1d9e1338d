"""Hooks of all Modules: around their calls, and when they get parameters, buffers and parts.

Compiled functions run eagerly while there are any: what such hooks see and change is that of plain calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from eagerjit.state import Defaults, state
from eagerjit.tensors.hooks import Handle, add_hook
from eagerjit.watching.observation import TraceBreak, user_line


class GlobalHook(NamedTuple):
    """A hook of all Modules, and how it was asked to be called."""

    kind: str
    hook: Callable[..., Any]
    with_kwargs: bool = False
    always: bool = False


def hooks_of(kind: str) -> list[GlobalHook]:
    """The hooks of a kind, in the order in which they were added."""
    hooks = Defaults.module_hooks
    return [found for found in hooks.values() if found.kind == kind] if hooks else []


class _HooksOf(Mapping[Any, Callable[..., Any]]):
    """The hooks of a kind that there are now, by the keys of their handles: what packages ask PyTorch's modules for."""

    def __init__(self, kind: str):
        self.kind = kind

    def __getitem__(self, key: Any) -> Callable[..., Any]:
        found = Defaults.module_hooks[key]
        if found.kind != self.kind:
            raise KeyError(key)
        return found.hook

    def __iter__(self) -> Iterator[Any]:
        return iter([key for key, found in Defaults.module_hooks.items() if found.kind == self.kind])

    def __len__(self) -> int:
        return len(hooks_of(self.kind))


_global_parameter_registration_hooks = _HooksOf("parameter")
_global_buffer_registration_hooks = _HooksOf("buffer")
_global_module_registration_hooks = _HooksOf("module")
_global_forward_pre_hooks, _global_forward_hooks = _HooksOf("forward_pre"), _HooksOf("forward")
_global_backward_pre_hooks, _global_backward_hooks = _HooksOf("backward_pre"), _HooksOf("backward")


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """What a Module gets under a name, as the hooks for this kind of it leave it."""
    for found in hooks_of(kind):
        changed = found.hook(module, name, value)
        value = value if changed is None else changed
    return value


def _add(kind: str, hook: Callable[..., Any], with_kwargs: bool = False, always: bool = False) -> Handle:
    if state.tracer is not None:
        raise TraceBreak("a hook of all Modules is added", user_line())
    return add_hook(Defaults.module_hooks, GlobalHook(kind, hook, with_kwargs, always))


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> Handle:
    """Calls hook(module, args) before the forward of every Module; what it returns takes the place of the arguments."""
    return _add("forward_pre", hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> Handle:
    """Calls hook(module, args, result) after the forward of every Module; what it returns takes the result's place.

    With `with_kwargs` it is hook(module, args, kwargs, result). `always_call`: also when forward raises.
    """
    return _add("forward", hook, with_kwargs, always_call)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> Handle:
    """Calls hook(module, grad_output) in the backward of every Module; what it returns takes its place."""
    return _add("backward_pre", hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> Handle:
    """Calls hook(module, grad_input, grad_output) in the backward of every Module; what it returns is grad_input."""
    return _add("backward", hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> Handle:
    """The older name of `register_module_full_backward_hook`."""
    return register_module_full_backward_hook(hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> Handle:
    """Calls hook(module, name, parameter) for every parameter that a Module gets; what it returns takes its place."""
    return _add("parameter", hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> Handle:
    """Calls hook(module, name, buffer) for every buffer that a Module gets; what it returns takes its place."""
    return _add("buffer", hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> Handle:
    """Calls hook(module, name, part) for every Module that a Module gets; what it returns takes its place."""
    return _add("module", hook)
