"""Arguments of a type that a function does not take: found when the call fails, and named as PyTorch names them.

Checking first would cost every call; what a call of a wrong type raises otherwise is whatever breaks first inside.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import re
import sys
from collections.abc import Callable, Sequence
from inspect import CO_VARKEYWORDS
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from eagerjit.calling.public import known_name, parameter_names, public, refuse_others, typed
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.entry import OpCall
from eagerjit.runtime.planned import Plan, Planned, carried_out
from eagerjit.runtime.source import is_library
from eagerjit.tensors.tensor import Tensor

_NUMBERS = (numbers.Number, np.generic, Tensor)
_ACCEPTED: dict[str, tuple[type, ...]] = {
    "Tensor": (Tensor,),
    "int": _NUMBERS,
    "float": _NUMBERS,
    "bool": _NUMBERS,
    "str": (str,),
    "None": (type(None),),
    "DType": (DType, type),
    "Sequence": (list, tuple, int, np.integer, Tensor),
    "tuple": (list, tuple, int, np.integer, Tensor),
    "list": (list, tuple, int, np.integer, Tensor),
}
"""What passes for each type of an annotation: only what can't be meant is a mistake."""

_NAMED = re.compile(r"[A-Za-z_][\w.]*(\(\)|: )")
"""Messages that begin with an operation's name; those of functions made by others begin with <locals>."""

_ABOUT_SIZES = re.compile(r"(tuple|list) index out of range|(not enough|too many) values to unpack")
"""What Python says where code takes another number of dimensions for granted."""

_CALL_OPS: dict[CodeType, Callable[..., Any]] = {}
_OPERANDS = {
    **dict.fromkeys(("input", "self", "other"), _NUMBERS),
    "dim": (*_ACCEPTED["tuple"], type(None), str),
    "dtype": (DType, type, type(None)),
}
"""The same for parameters that any of several types fit."""


def explained(function: Callable[..., Any], name: str = "", module: str = "", like: Any = None) -> Callable[..., Any]:
    """The function, raising TypeError where a call fails that was given an argument of a wrong type.

    Parameters, annotations and what it says of itself are those of `like` where the function itself takes any.
    """
    known = inspect.unwrap(like or function)
    code = getattr(known, "__code__", None)
    parameters = code.co_varnames[: code.co_argcount] if code else ()
    positional = parameters[: code.co_argcount] if code else ()
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code and like is None else ()
    if code and code.co_flags & CO_VARKEYWORDS:
        names = ()
    annotations, called = getattr(known, "__annotations__", {}), name or function.__name__
    made_as = f"{getattr(known, '__qualname__', called)}()"

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if names and not kwargs.keys() <= set(names) and type(error) is TypeError:  # the call did not begin
                renamed = {known_name(key, names): value for key, value in kwargs.items()}
                if len(renamed) == len(kwargs) and renamed.keys() <= set(names):
                    return call(*args, **renamed)
            public = _called_by_user(call)
            if public is not None:
                from eagerjit.calling.overriding import asked_after_all

                answer = asked_after_all(public, args, kwargs)
                if answer is not NotImplemented:
                    return answer
            given = [*zip(positional, args, strict=False), *kwargs.items()]
            if _names_operation(error, called):
                raise
            began = not str(error).startswith(made_as)
            wrong = _mistake(called, given, parameters, annotations, error) if began else None
            if wrong is None:
                _name_operation(error, called, made_as, given)
                raise
            raise wrong from error

    vars(call).update(getattr(function, "__dict__", {}), __wrapped__=function)
    call.__annotations__ = getattr(function, "__annotations__", {})
    call.__name__ = call.__qualname__ = called
    call.__module__, call.__doc__ = module or function.__module__, known.__doc__
    return call


def _names_operation(error: Exception, called: str) -> bool:
    """Whether the message of a TypeError says already which operation refuses what, or is the user's."""
    if type(error) is not TypeError:
        return False
    message = str(error)
    named = "<locals>" not in message and (called in message or _NAMED.match(message) is not None)
    return named or _is_of_user(error)


def _is_of_user(error: Exception) -> bool:
    """Whether code of the user's, which an operation has called, raised an error."""
    frames = error.__traceback__
    while frames is not None:
        if not is_library(frames.tb_frame.f_code.co_filename):
            return True
        frames = frames.tb_next
    return False


def _name_operation(error: Exception, called: str, made_as: str, given: Sequence[tuple[str, Any]]) -> None:
    """Put the operation's name in front of a message of Python's own, and the shapes behind those about sizes."""
    message = str(error)
    if type(error) is TypeError:
        rest = message.removeprefix(made_as)
        error.args = (f"{called}(){'' if rest != message else ': '}{rest}",)
    elif type(error) in (IndexError, ValueError) and _ABOUT_SIZES.match(message) and not _is_of_user(error):
        shapes = ", ".join(f"'{name}' {list(x.shape)}" for name, x in given if isinstance(x, Tensor))
        error.args = (f"{called}(): {message}, where the shapes are {shapes}",)


def _called_by_user(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """What the user called: a function that has failed, or what passed its arguments on to it; None for neither."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code is OpCall.__call__.__code__:
        frame = frame.f_back
    return _CALL_OPS.get(frame.f_code) if is_library(frame.f_code.co_filename) else function


def explained_functions(functions: dict[str, Any], module: str) -> dict[str, Any]:
    """The plain functions of a namespace explained; ops, and functions marked `@calls_op`, explain theirs alone."""
    return {
        n: explained(f, n, module) if type(f) is FunctionType and f.__code__ not in _CALL_OPS else f
        for n, f in functions.items()
    }


def planned(plan: Callable[..., Plan]) -> Planned:
    """A planned function whose plan is explained."""
    return Planned(explained(_checked(plan)))


def _checked(plan: Callable[..., Plan]) -> Callable[..., Plan]:
    """The plan, refusing arguments of types that are none of its parameters': asked once for all calls like one."""
    kinds = typed(plan, parameter_names(plan))

    @functools.wraps(plan)
    def check(*args: Any, **kwargs: Any) -> Plan:
        refuse_others(plan.__name__, kinds, args, kwargs)
        return plan(*args, **kwargs)

    return check


def planned_public(plan: Callable[..., Plan], of_ranks: bool = False) -> Planned:
    """A function that only plans, as users call it: `public`, and explained, where native code has no plan."""

    @functools.wraps(plan)
    def call(*args: Any, **kwargs: Any) -> Any:
        return carried_out(plan(*args, **kwargs))

    return Planned(_checked(plan), explained(public(call)), of_ranks)


def planned_of_ranks(plan: Callable[..., Plan]) -> Planned:
    """The same for plans that do not depend on sizes."""
    return planned_public(plan, True)


def calls_op(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function that passes its arguments on to an op and is called too often to be wrapped."""
    _CALL_OPS[function.__code__] = function  # type: ignore[attr-defined]
    return function


def not_tensors(function: Callable[..., Any], called: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise TypeError for what a method of the library was given where it takes tensors, its object left out.

    Asked where a call has failed: looking first would cost every call.
    """
    known = inspect.unwrap(function)
    if is_library(known.__code__.co_filename):
        refuse_others(called, typed(known, parameter_names(known)[1:]), args, kwargs)


def only_tensor(called: str, value: Any) -> None:
    """Raise TypeError for a first argument that is no tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{called}(): argument 'input' (position 1) must be Tensor, not {type(value).__name__}")


def only_tensors(values: Sequence[Any]) -> None:
    """Raise TypeError for the first of several that is no tensor."""
    for position, value in enumerate(values):
        if not isinstance(value, Tensor):
            raise TypeError(f"expected Tensor as element {position} in argument 0, but got {type(value).__name__}")


def _mistake(
    name: str, given: Sequence[tuple[str, Any]], parameters: Sequence[str], annotations: dict[str, Any],
    error: Exception,
) -> TypeError | None:  # fmt: skip
    """What to raise instead of `error`, if an argument can't be meant."""
    for parameter, value in given:
        annotation = annotations.get(parameter)
        expected = _expected(parameter, annotation, error)
        if expected and (not isinstance(value, expected) or _is_several(value, annotation)):
            place = f" (position {parameters.index(parameter) + 1})" if parameter in parameters else ""
            wanted = "torch.dtype" if DType in expected else _wanted(annotation)
            return TypeError(f"{name}(): argument '{parameter}'{place} must be {wanted}, not {type(value).__name__}")
    return None


def _expected(parameter: str, annotation: Any, error: Exception) -> tuple[type, ...]:
    if not isinstance(annotation, str) or annotation in ("Any", "object"):
        return _OPERANDS.get(parameter, ())
    accepted: tuple[type, ...] = ()
    for part in annotation.split(" | "):
        kinds = _ACCEPTED.get(part.partition("[")[0].removeprefix("_dtypes."))
        if kinds is None:
            return ()
        accepted += kinds
    numbers_fit = Tensor in accepted and not isinstance(error, AttributeError)
    return (*accepted, *_NUMBERS) if numbers_fit else accepted


def _is_several(value: Any, annotation: Any) -> bool:
    """Whether a tensor stands where its one element would do, and has more of them."""
    single = isinstance(annotation, str) and "Tensor" not in annotation and annotation not in ("Any", "object")
    return single and isinstance(value, Tensor) and value.ndim > 0


def _wanted(annotation: Any) -> str:
    """The type as PyTorch's messages write it."""
    if not isinstance(annotation, str) or annotation in ("Any", "object"):
        return "Tensor or Number"
    first = annotation.partition(" | ")[0]
    return "tuple of ints" if first.startswith(("Sequence", "tuple", "list")) else first
