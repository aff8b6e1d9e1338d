"""`__torch_function__`: which objects take over the functions they are passed to, and what takes over all of them."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable
from typing import Any

from eagerjit.calling.overriding import answer, begin, functions, is_asked_for, nobody_answered, overloaded
from eagerjit.runtime import mode
from eagerjit.state import set_function_modes, state
from eagerjit.tensors.tensor import Tensor


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a Tensor, or has `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a class among the arguments, or a mode, is asked before a function is called with them."""
    return not mode.plain() and (bool(state.function_modes) or bool(overloaded(relevant_args)))


def has_torch_function_unary(tensor: Any) -> bool:
    """The same of one argument."""
    return has_torch_function((tensor,))


def has_torch_function_variadic(*args: Any) -> bool:
    """The same of several arguments."""
    return has_torch_function(args)


def handle_torch_function(public_api: Any, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """What the arguments' classes make of a call. Raises TypeError where none of them takes it over."""
    asked = overloaded(relevant_args)
    result = answer(public_api, asked, args, kwargs)
    if result is NotImplemented:
        raise nobody_answered(public_api, asked)
    return result


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator of functions that ask the classes of the arguments that the dispatcher gives for a call."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def get_overridable_functions() -> dict[Any, list[Any]]:
    """The functions that classes are asked for, by the module or class that they are found in."""
    found: dict[Any, list[Any]] = {}
    for module, name, value in functions():
        owner = Tensor if module == "Tensor" else importlib.import_module(module)
        of_property = isinstance(value, property)
        found.setdefault(owner, []).append(getattr(owner, name).__get__ if of_property else value)
    return found


@functools.cache
def _names() -> dict[Any, str]:
    names: dict[Any, str] = {}
    for module, name, value in functions():
        place = f"torch.{module}" if module == "Tensor" else module.replace("eagerjit", "torch", 1)
        if isinstance(value, property):
            names[value.__get__], names[value.__set__] = f"{place}.{name}.__get__", f"{place}.{name}.__set__"
        else:
            names.setdefault(value, f"{place}.{name}")
    return names


def resolve_name(f: Any) -> str | None:
    """The qualified name of a function that classes are asked for, None for others."""
    return _names().get(f)


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is a method of Tensor, or reads or writes an attribute."""
    return getattr(func, "__name__", "") == "__get__" or any(
        is_asked_for(name, value) for name, value in list(vars(Tensor).items()) if value == func
    )


class TorchFunctionMode:
    """A context that sees every call of a public function: subclasses define `__torch_function__(self, func, types,
    args, kwargs)`, which is not asked about what it calls itself. Jitted functions run as they are meanwhile, unless
    all modes have a `compiled_call(function, args, kwargs)`."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        begin()
        set_function_modes((*state.function_modes, self))
        return self

    def __exit__(self, *exc: object) -> None:
        set_function_modes(state.function_modes[:-1])

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))
