"""`__torch_function__`: classes that are asked before a function of the library is called with their instances.

Programs without such classes pay nothing for them. Native code takes no instances of theirs, and when the first one is
made every public function is altered in place, so that what native code leaves to Python asks first: the function stays
the object that programs know, and that the classes are told of.
"""

from __future__ import annotations

import dis
import functools
import importlib
import threading
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any, cast

import numpy as np

from eagerjit.calling.kinds import are_operands
from eagerjit.calling.twofold import made_public, plain_of
from eagerjit.devices import Device
from eagerjit.namespace import late
from eagerjit.runtime import layout, mode
from eagerjit.runtime.binding import bound
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.entry import OpCall
from eagerjit.runtime.once import once
from eagerjit.runtime.remembered import Remembered
from eagerjit.state import set_function_modes, state
from eagerjit.tensors.tensor import Parameter, ParameterClass, Shape, Tensor, is_asked
from eagerjit.watching.observation import refuse_subclass

OPERATORS = {
    "__radd__": "add", "__add__": "add", "__iadd__": "add_", "__sub__": "sub", "__isub__": "sub_",
    "__rmul__": "mul", "__mul__": "mul", "__imul__": "mul_", "__truediv__": "div", "__itruediv__": "div_",
    "__rtruediv__": "__rdiv__", "__ifloordiv__": "floor_divide_", "__rand__": "bitwise_and", "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor", "__pow__": "pow", "__ipow__": "pow_", "__mod__": "remainder", "__imod__": "remainder_",
    "__matmul__": "matmul",
    "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge", "__neg__": "neg",
    "__abs__": "abs", "__pos__": "positive",
}  # fmt: skip
"""Methods by the operators that are reported as these."""

OF_OPERANDS = frozenset((
    *(f"__{how}{name}__" for how in ("", "i") for name in "add sub mul truediv mod and or xor lshift rshift".split()),
    *"__radd__ __rmul__ __rand__ __ror__ __rxor__ __matmul__ __ifloordiv__ __ne__ __lt__ __le__ __gt__ __ge__".split(),
))  # fmt: skip
"""Operators that classes are asked for where all operands are tensors, numbers or asked themselves, as in PyTorch."""

OF_ANYTHING = frozenset(
    "__rsub__ __rtruediv__ __floordiv__ __rfloordiv__ __pow__ __rpow__ __ipow__ __rmod__ __rmatmul__ __rlshift__ "
    "__rrshift__ __eq__".split()
)
"""Operators that classes are asked for whatever the operands are: those that PyTorch has written in Python."""

_NOWHERE = b"\xf8"
"""What a table of lines says of one instruction that belongs to no line."""

SPECIAL = (
    *OPERATORS, "__rsub__", "__rdiv__", "__floordiv__", "__rfloordiv__", "__rpow__", "__rmod__", "__rmatmul__",
    "__eq__", "__invert__", "__and__", "__iand__", "__or__", "__ior__", "__xor__", "__ixor__",
    "__lshift__", "__rlshift__", "__ilshift__", "__rshift__", "__rrshift__",
    "__irshift__", "__getitem__", "__setitem__", "__len__", "__repr__", "__format__", "__bool__", "__float__",
    "__int__", "__complex__", "__index__", "__contains__", "__reversed__", "__array__", "__deepcopy__",
    "__reduce_ex__", "_version", "_base",
)  # fmt: skip
"""What classes are asked for beside methods that have plain names."""

NEVER = frozenset(
    "as_subclass is_tensor is_storage typename set_printoptions set_default_device get_default_device "
    "set_default_tensor_type has_torch_function has_torch_function_unary has_torch_function_variadic "
    "handle_torch_function layout".split()
)
"""Functions that nobody is asked for."""

OF_DATA = frozenset("tensor as_tensor asarray from_numpy frombuffer".split())
"""Functions that only modes are asked for: to them tensors are data."""


PLAIN = frozenset({
    Tensor, Parameter, Shape, int, float, bool, complex, str, type(None), slice, type(...), DType, Device, np.ndarray
})  # fmt: skip
"""Classes that are known not to be asked."""


def _found(module: str, name: str) -> Any:
    """A function by the place that `functions` gives for it."""
    return getattr(Tensor if module == "Tensor" else importlib.import_module(module), name)


_KINDS = (OpCall, Remembered, FunctionType, property)


def _is_ours(value: Any) -> bool:
    """Whether a function or property of Tensor is the library's: those that packages add are called as they are."""
    function = value.fget if isinstance(value, property) else value
    return not isinstance(function, FunctionType) or (function.__module__ or "").startswith("eagerjit")


def is_asked_for(name: str, value: Any) -> bool:
    """Whether classes are asked for what Tensor has under a name."""
    asked = name in SPECIAL or not (name.startswith("_") or name in NEVER)
    return asked and isinstance(value, _KINDS) and _is_ours(value)


def functions() -> Iterator[tuple[str, str, Any]]:
    """(module or "Tensor", name, the function or property) of all that classes are asked for."""
    import eagerjit

    for name in list(vars(Tensor)):
        if is_asked_for(name, value := getattr(Tensor, name)):
            yield "Tensor", name, value
    names = {"eagerjit": (*eagerjit._functions, *late.HOMES, "numel", "is_floating_point")}
    names["eagerjit.autograd"] = ("grad", "backward")
    for module in ("eagerjit.nn.functional", "eagerjit.linalg", "eagerjit.fft", "eagerjit.special"):
        names[module] = tuple(importlib.import_module(module).__all__)
    for module, listed in names.items():
        for name in listed:
            if name not in NEVER and isinstance(value := _found(module, name), _KINDS):
                yield module, name, value


@once
def begin() -> None:
    """Let every public function ask from now on, and every op that Modules call past these."""
    from eagerjit.calling.dispatch import Op
    from eagerjit.ops.recurrent import layer

    _tell_apart(list(functions()))
    for module, name, value in list(functions()):
        if isinstance(value, property):
            _alter(value.fget, value.__get__, of_self=True)
            _alter(value.fset, value.__set__)
        elif module == "Tensor" and name in OPERATORS:
            _alter(value, getattr(Tensor, OPERATORS[name]), operator=name)
        else:
            if name in SPECIAL or (module == "Tensor" and not hasattr(Tensor, value.__name__)):
                value.__name__ = value.__qualname__ = name
            _alter(value, value, of_data=name in OF_DATA, operator=name)
    _alter(layer, layer)
    _alter_code(cast(FunctionType, Op.slow), None, asking=_asks_operand, question=_question_of_op)
    ParameterClass.__instancecheck__ = _is_parameter  # type: ignore[method-assign]
    layout.heed_subclasses()


def _tell_apart(found: list[tuple[str, str, Any]]) -> None:
    """Give methods that are functions of a namespace too an object for each."""
    methods = {id(value) for module, _, value in found if module == "Tensor"}
    shared = methods & {id(value) for module, _, value in found if module != "Tensor"}
    told = [(module, name, value) for module, name, value in found if id(value) in shared and name not in OF_DATA]
    plain = {id(value): plain_of(value) for _, _, value in told}
    for module, name, value in told:
        of_tensor = module == "Tensor"
        made = made_public(module, OPERATORS.get(name, name) if of_tensor else name, value, plain[id(value)])
        setattr(Tensor if of_tensor else importlib.import_module(module), name, made)
        _alter(made, made)
        _alter(value, made)


def _is_parameter(cls: type, instance: Any) -> bool:
    """Whether something is a Parameter: tensors of other classes say so themselves."""
    if type.__instancecheck__(cls, instance):
        return True
    return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


_questions: dict[Any, Callable[..., Any]] = {}
"""What asks, by the function that was altered, or by what an op had Python run."""


def _alter(thing: Any, public: Any, of_data: bool = False, operator: str = "", of_self: bool = False) -> None:
    """Let what Python runs of a function ask first."""
    asking = _questions.values()
    if isinstance(thing, OpCall) and thing.slow not in asking:
        _questions[thing.slow] = thing.slow = _question(public, thing.slow, of_data, bool(thing._reflected), operator)
    elif isinstance(thing, Remembered) and thing.function not in asking:
        _questions[thing.function] = thing.function = _question(public, thing.function)
    elif type(thing) is FunctionType and thing not in _questions:
        _alter_code(thing, public, of_data, _asks_itself if of_self else _asks, operator=operator)


def _alter_code(
    function: FunctionType, public: Any, of_data: bool = False, asking: Any = None, question: Any = None,
    operator: str = "",
) -> None:
    """Give a function another code, which has the old one called where nothing is asked."""
    code = function.__code__
    plain = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    plain.__kwdefaults__, plain.__annotations__ = function.__kwdefaults__, function.__annotations__
    plain.__dict__.update(function.__dict__)
    plain.__qualname__, plain.__module__ = function.__qualname__, function.__module__
    function.__wrapped__ = plain  # type: ignore[attr-defined]  # its signature is read there
    function.__defaults__ = None
    _questions[function] = (
        _question(public, plain, of_data, operator=operator) if question is None else question(plain)
    )
    function.__kwdefaults__ = {
        "_question": _questions[function], "_plain": plain, "_kinds": PLAIN, "_state": state
    }  # fmt: skip
    function.__code__ = _within(asking.__code__.replace(co_name=code.co_name), code.co_freevars)


def _within(code: CodeType, names: tuple[str, ...]) -> CodeType:
    """The code for a function that has variables of those around it: debuggers read them in its frames, where the first
    instruction puts them.
    """
    if not names:
        return code
    begin = bytes((dis.opmap["COPY_FREE_VARS"], len(names)))
    return code.replace(
        co_freevars=names, co_code=begin + code.co_code, co_linetable=_NOWHERE + code.co_linetable
    )


def _asks(*args: Any, _question: Any, _plain: Any, _kinds: Any, _state: Any, **kwargs: Any) -> Any:
    if not kwargs and _kinds.issuperset(map(type, args)) and not _state.function_modes:
        return _plain(*args)
    return _question(*args, **kwargs)


def _asks_itself(self: Any, *, _question: Any, _plain: Any, _kinds: Any, _state: Any) -> Any:
    return _plain(self) if type(self) in _kinds and not _state.function_modes else _question(self)


def _asks_operand(self: Any, *args: Any, _question: Any, _plain: Any, _kinds: Any, _state: Any, **kwargs: Any) -> Any:
    if not kwargs and _kinds.issuperset(map(type, args)) and not _state.function_modes:
        return _plain(self, *args)
    return _question(self, *args, **kwargs)


def _question_of_op(plain: Callable[..., Any]) -> Callable[..., Any]:
    """What asks for the op that is called."""
    return lambda op, *args, **kwargs: _question(op.call, functools.partial(plain, op))(*args, **kwargs)


def _question(
    public: Any, plain: Callable[..., Any], of_data: bool = False, reflected: bool = False, operator: str = ""
) -> Callable[..., Any]:
    """A function that asks the classes of its arguments, and calls the plain one where there are none."""

    @functools.wraps(plain)
    def question(*args: Any, **kwargs: Any) -> Any:
        if mode.plain() or (PLAIN.issuperset(map(type, args)) and not kwargs and not state.function_modes):
            return plain(*args, **kwargs)
        asked = overloaded((*args, *kwargs.values()) if kwargs else args)
        if of_data and asked and getattr(type(asked[0]), "is_data", True):
            return _as_data(plain, args, kwargs)
        if not asked and not state.function_modes:
            return plain(*args, **kwargs)
        if operator in OF_OPERANDS and not all(are_operands((a,)) or overloaded((a,)) for a in args):
            return NotImplemented
        try:
            result = answer(public, asked, args[::-1] if reflected else args, kwargs)
            if result is NotImplemented:
                raise nobody_answered(public, asked)
        except TypeError:
            if operator in OF_OPERANDS or operator in OF_ANYTHING:
                return NotImplemented  # the other operand's class has its turn
            raise
        return result

    return question


def nobody_answered(public: Any, asked: list[Any]) -> TypeError:
    """What a call raises that nobody takes over who is asked."""
    name, kinds = getattr(public, "__name__", repr(public)), ", ".join(type(one).__name__ for one in asked)
    return TypeError(
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned NotImplemented: {kinds}"
    )


def _as_data(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    before = mode.set_plain(True)
    try:
        return function(*args, **kwargs)
    finally:
        mode.set_plain(before)


def overloaded(arguments: Iterable[Any]) -> list[Any]:
    """One argument of each class that is asked, subclasses before their bases; lists and tuples are looked into."""
    found: list[Any] = []
    for argument in arguments:
        looked_into = issubclass(type(argument), (list, tuple))  # not what stands for a list of a recorded call's ints
        for one in argument if looked_into else (argument,):
            kind = type(one)
            if kind in PLAIN or not is_asked(kind) or any(type(f) is kind for f in found):
                continue
            before = (i for i, f in enumerate(found) if issubclass(kind, type(f)))
            found.insert(next(before, len(found)), one)
    return found


def answer(public: Any, asked: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the innermost mode or the first class that takes a call over makes of it, NotImplemented if none does."""
    types = tuple(map(type, asked))
    for one in asked if state.tracer is not None else ():
        if not getattr(type(one), "is_recorded", False):
            refuse_subclass(one)
    modes = state.function_modes
    if modes:
        set_function_modes(modes[:-1])
        try:
            result = modes[-1].__torch_function__(public, types, args, kwargs)
        finally:
            set_function_modes(modes)
        if result is not NotImplemented:
            return result
    for one in asked:
        result = one.__torch_function__(public, types, args, kwargs)
        if result is not NotImplemented:
            return result
    return NotImplemented


def asked_after_all(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the class of an argument that is no Tensor makes of a failed call; NotImplemented if there is none."""
    if bound.subclasses or not overloaded((*args, *kwargs.values())):
        return NotImplemented
    begin()
    question = _questions.get(function)
    return NotImplemented if question is None else question(*args, **kwargs)


def plainly(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """`Tensor.__torch_function__`: the plain call, whose tensors become instances of the class.

    NotImplemented for a function that asks although the call is plain: one of PyTorch's own, which knows no such mode.
    """
    running = getattr(_plain, "function", None)
    if func is running or not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    before, _plain.function = mode.set_plain(True), func
    try:
        result = func(*args, **(kwargs or {}))
        return result if func in unconverted() else converted(result, cls, _tensors(args, kwargs or {}))
    finally:
        _plain.function = running
        mode.set_plain(before)


_plain = threading.local()
"""Which function a thread runs plainly."""


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> set[int]:
    """The addresses of what was given to a call; lists and tuples are looked into."""
    given = [*args, *kwargs.values()]
    return set(map(id, given + [one for several in given if isinstance(several, (list, tuple)) for one in several]))


@functools.cache
def unconverted() -> frozenset[Any]:
    """Functions whose results stay what they are: the tensor's own attributes."""
    return frozenset({Tensor._base.__get__, Tensor.grad.__get__})  # type: ignore[attr-defined]


def converted(result: Any, cls: type, given: Any = ()) -> Any:
    """Tensors, and those in tuples and lists, as instances of a class: of the addresses given there are aliases."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor):
        if isinstance(result, cls):
            return result
        if type(result) is Tensor and id(result) not in given:
            return reclassed(result, cls)
        return result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        parts = [converted(part, cls, given) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result


def reclassed(made: Tensor, cls: type) -> Any:
    """A tensor that nobody else holds as an instance of a class."""
    try:
        made.__class__ = cls
    except TypeError:  # of classes with slots of their own
        return made.as_subclass(cls)
    return made
