"""Switching the recording of gradients on and off."""

from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import isgeneratorfunction
from typing import Any

from eagerjit.runtime import mode
from eagerjit.utils._contextlib import _DecoratorContextManager, resumed_inside


def is_grad_enabled() -> bool:
    """Whether operations of this thread are recorded for gradients, or were but for inference mode."""
    return mode.asked_grad_mode()


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return mode.inference()


class _GradMode(_DecoratorContextManager):
    """A context manager and decorator that sets grad mode; every entry remembers the mode before it."""

    def __init__(self, enabled: bool):
        self.enabled = enabled
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(mode.ask_grad_mode(self.enabled))

    def __exit__(self, *exc: object) -> None:
        mode.ask_grad_mode(self._before.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        enabled = self.enabled
        if isgeneratorfunction(function):
            return resumed_inside(self.clone, function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            before = mode.ask_grad_mode(enabled)
            try:
                return function(*args, **kwargs)
            finally:
                mode.ask_grad_mode(before)

        return wrapped


def _or_decorator(enabled: bool) -> Any:
    """`@no_grad` works without parentheses too."""

    def new(cls: type, function: Callable[..., Any] | None = None) -> Any:
        made: Any = object.__new__(cls)
        _GradMode.__init__(made, enabled)
        return made if function is None else made(function)

    return new


class no_grad(_GradMode):
    """A context or decorator in which no gradients are recorded: results of this thread's operations need none.

    Leaves that are made in it keep the `requires_grad` that they are given.
    """

    __new__ = _or_decorator(False)

    def __init__(self, function: Callable[..., Any] | None = None):
        """All is done in `__new__`."""


class enable_grad(_GradMode):
    """A context or decorator in which gradients are recorded."""

    __new__ = _or_decorator(True)

    def __init__(self, function: Callable[..., Any] | None = None):
        """All is done in `__new__`."""


class inference_mode(_DecoratorContextManager):
    """A context or decorator in which no gradients are recorded, not even in `enable_grad`; `inference_mode(False)`
    records them."""

    def __new__(cls, mode: Any = True) -> Any:
        return object.__new__(cls) if isinstance(mode, bool) else cls()(mode)

    def __init__(self, mode: bool = True):
        self.enabled = mode
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._before.append(mode.set_inference(self.enabled, not self.enabled))

    def __exit__(self, *exc: object) -> None:
        mode.set_inference(*self._before.pop())

    def clone(self) -> inference_mode:
        return inference_mode(self.enabled)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if isgeneratorfunction(function):
            return resumed_inside(functools.partial(inference_mode, self.enabled), function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with inference_mode(self.enabled):
                return function(*args, **kwargs)

        return wrapped


class set_grad_enabled(_GradMode):
    """Sets grad mode at once; as a context it also sets it back."""

    def __init__(self, enabled: bool):
        if not isinstance(enabled, bool):
            kind = type(enabled).__name__
            raise TypeError(f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {kind}")
        super().__init__(enabled)
        self._outer = mode.ask_grad_mode(self.enabled)

    def __enter__(self) -> None:
        self._before.append(self._outer)
        mode.ask_grad_mode(self.enabled)

    def clone(self) -> set_grad_enabled:
        return set_grad_enabled(self.enabled)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        mode.ask_grad_mode(self._outer)
        return super().__call__(function)
