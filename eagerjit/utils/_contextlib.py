"""Contexts that decorate functions; of generators, every stretch between two `yield`s runs inside."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any

Contexts = Callable[[], AbstractContextManager[Any]]


def inside(context: Contexts, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called in a context made for every call; a generator, resumed in one made every time."""
    if inspect.isgeneratorfunction(function):
        return resumed_inside(context, function)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with context():
            return function(*args, **kwargs)

    return wrapped


def resumed_inside(context: Contexts, function: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Any]:
    """A generator function whose generators leave the context while they wait: their callers are not in it."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        resume: Callable[[], Any] = functools.partial(next, generator)
        while True:
            try:
                with context():
                    value = resume()
            except StopIteration as end:
                return end.value
            try:
                resume = functools.partial(generator.send, (yield value))
            except GeneratorExit:
                with context():
                    generator.close()
                raise
            except BaseException as problem:
                resume = functools.partial(generator.throw, problem)

    return wrapped


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """The function inside of a context that may be entered again and again, or of those that a function makes.

    Raises AssertionError for a context that is a function too, RuntimeError for classes: their methods can be decorated
    one by one.
    """
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise AssertionError(f"context_decorator: {ctx} is both a context and a function that makes contexts")
    if inspect.isclass(func):
        raise RuntimeError("context_decorator: Cannot decorate classes, only functions and methods of theirs")
    return inside(ctx if callable(ctx) else lambda: ctx, func)


class _DecoratorContextManager:
    """A context that may decorate functions: `clone` makes the one for a call."""

    def __call__(self, orig_func: Callable[..., Any]) -> Callable[..., Any]:
        if not inspect.isclass(orig_func):
            return inside(self.clone, orig_func)
        warnings.warn(
            "Decorating classes is deprecated: decorate functions or methods, such as `__init__`, instead.",
            FutureWarning,
            stacklevel=2,
        )
        return inside(self.clone, lambda *args, **kwargs: orig_func(*args, **kwargs))

    def __enter__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __enter__")

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __exit__")

    def clone(self) -> Any:
        """Another context of the class, which is made without arguments unless a subclass says otherwise."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """A context that decorates functions without parentheses too."""

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        return super().__new__(cls) if orig_func is None else cls()(orig_func)
