"""NumPy's arrays and numbers that a call being traced reads: inputs, as tensors and Python's numbers are.

Traced code gets a stand-in for each. Tensors made of it, operators with a tensor on the other side and questions about
its type and sizes are recorded. What NumPy computes itself every call computes with it (`host_work.py`).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from eagerjit.recording.array_functions import (
    CREATING,
    METHODS,
    NUMBER_METHODS,
    WRITING_METHODS,
    Changed,
    computes,
    filling,
    is_elementwise,
    writes_first,
)
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.runtime import dtypes
from eagerjit.state import state
from eagerjit.tensors.limits import contiguous_format
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import MadeText, TraceBreak, user_line

NUMBERS = frozenset(
    (np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32,
     np.uint64)
)  # fmt: skip
"""The classes of NumPy's numbers that are one of Python's for tensors."""

LARGE = 1 << 16
"""Bytes up to which an array's contents are compared at every call."""


def computed(what: str, kind: type[TraceBreak] = TraceBreak) -> TraceBreak:
    """What ends a recording in which NumPy computes."""
    return kind(f"{what}, which compiled code would not do", user_line())


def by_host(function: Any, *args: Any, **kwargs: Any) -> Any:
    """What NumPy computes in every call; raises TraceBreak where compiled calls cannot do the same."""
    host = getattr(state.tracer, "host", None)
    if host is None:
        raise computed(f"NumPy computes {function.__name__} of an array that is an input")
    return host.perform(function, *args, **kwargs)


def made_by_host(function: Any, args: Any, kwargs: Any) -> bool:
    """Whether a function makes an array of numbers of the call, so that each call has to make its own."""
    numbers = (SymbolicInt, TracedFloat, TracedNumber)
    given = [x for a in (*args, *kwargs.values()) for x in (a if isinstance(a, (list, tuple)) else (a,))]
    if function not in CREATING or not any(type(x) in numbers for x in given):
        return False
    host = getattr(state.tracer, "host", None)
    return host is not None and host.takes((args, kwargs))


def _any_tensor(values: Any) -> bool:
    return any(isinstance(x, Tensor) for x in values)


class _StandIn:
    """What stand-ins of arrays and of numbers have in common."""

    __slots__ = ()
    _methods: frozenset[str] = frozenset()

    def __getattr__(self, name: str) -> Any:
        if name in self._methods:
            return functools.partial(by_host, getattr(self.__class__, name), self)
        if name.startswith("__") and not name.startswith("__array"):
            raise AttributeError(name)
        raise computed(f"NumPy is asked for {name} of an array that is an input")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", ())
        if _any_tensor((*inputs, *out)) and method == "__call__" and not options and not out:
            tensor = next(x for x in inputs if isinstance(x, Tensor))
            return tensor.__array_ufunc__(ufunc, "__call__", *inputs)
        if _any_tensor((*inputs, *out)) or not is_elementwise(ufunc):
            raise computed(f"NumPy computes {ufunc.__name__} of an array that is an input")
        function = getattr(ufunc, method)
        if method == "at":
            return _written(inputs[0], function, *inputs[1:], **options)
        if not out:
            return by_host(function, *inputs, **options)
        if len(out) != 1:
            raise computed(f"NumPy writes results of {ufunc.__name__}")
        _written(out[0], filling(function), *inputs, **options)
        return out[0]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not any(issubclass(kind, Tensor) for kind in types):
            if writes_first(function):
                return _written(args[0], function, *args[1:], **kwargs)
            if computes(function, kwargs):
                return by_host(function, *args, **kwargs)
        raise computed(f"NumPy computes {function.__name__} of an array that is an input")


class TracedArray(_StandIn):
    """An ndarray whose contents are those of each call; `isinstance` takes it for one.

    `tensor` is the one over the array's memory: an input, or where the array is `shown`, one that code has.
    """

    __slots__ = ("_given", "shown", "tensor")
    __class__ = property(lambda self: np.ndarray)  # type: ignore[assignment]
    _methods = METHODS

    def __init__(self, tensor: Tensor, shown: bool = False):
        self.tensor = tensor
        self.shown = self._given = shown

    def __getattr__(self, name: str) -> Any:
        if name in WRITING_METHODS:
            return functools.partial(_written, self, getattr(np.ndarray, name))
        return super().__getattr__(name)

    def shared(self) -> Tensor:
        """A tensor over the memory, another one at every call, whose versions do not count the others' writes."""
        if not self._given:
            self._given = True
            return self.tensor
        return self._overlay()

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes."""
        assert state.tracer is not None
        return tuple(state.tracer.shape_of(self.tensor))

    @property
    def size(self) -> Any:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype:
        """The elements' type."""
        return self.tensor.dtype.numpy

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.size * self.dtype.itemsize)

    def astype(self, dtype: Any, **options: Any) -> TracedArray:
        """A copy in another type."""
        wanted, own = dtypes.BY_NUMPY.get(np.dtype(dtype)), self.tensor.dtype
        kept = wanted is None or wanted.is_complex or (own.is_floating_point and not wanted.is_floating_point)
        if kept or options:
            return by_host(np.ndarray.astype, self, dtype, **options)
        return TracedArray(self.tensor.detach().to(wanted, copy=True), self.shown)

    def copy(self, **options: Any) -> TracedArray:
        """The same elements in memory of their own."""
        return by_host(np.ndarray.copy, self, **options) if options else TracedArray(
            self.tensor.detach().clone(memory_format=contiguous_format), self.shown
        )

    def reshape(self, *shape: Any, **options: Any) -> TracedArray:
        """The elements in row-major order in other sizes, in the same memory where that can be."""
        return by_host(np.ndarray.reshape, self, *shape, **options) if options else TracedArray(
            self.tensor.detach().reshape(*shape), self.shown
        )

    def transpose(self, *axes: Any) -> TracedArray:
        """The same memory with its dimensions in another order, by default from last to first."""
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes or range(self.ndim)[::-1]
        return TracedArray(self.tensor.detach().permute(tuple(order)), self.shown)

    @property
    def T(self) -> TracedArray:
        """The same memory with its dimensions from last to first."""
        return self.transpose()

    def __getitem__(self, key: Any) -> Any:
        """A part that lies in the same memory, or one element."""
        if not _is_basic(key):
            return by_host(operator.getitem, self, key)
        parts = key if type(key) is tuple else (key,)
        if any(isinstance(p, slice) and p.step is not None and p.step < 0 for p in parts):
            raise TraceBreak("it reads a NumPy array backwards", user_line())
        found = self.tensor.detach()[key]
        if any(p is None or p is Ellipsis or isinstance(p, slice) for p in parts) or found.ndim:
            return TracedArray(found, self.shown)
        kind = self.dtype.type
        if kind not in NUMBERS or kind is np.uint64:
            return by_host(operator.getitem, self, key)
        return TracedNumber(found.item(), kind)

    def __setitem__(self, key: Any, value: Any) -> None:
        alike = type(value) is TracedArray and value.dtype is self.dtype
        if _is_basic(key) and (alike or (isinstance(value, float) and self.dtype == np.float64)):
            self._overlay()[key] = value.tensor.detach() if alike else getattr(value, "number", value)
        else:
            _written(self, operator.setitem, key, value)

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(int(self.__len__()))])

    def _overlay(self) -> Tensor:
        """A tensor over the memory whose versions count no writes: those of NumPy are not counted."""
        assert state.tracer is not None
        return state.tracer.silence(self.tensor.detach())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])


CONVERTING = frozenset((np.array, np.asarray, np.asanyarray, np.ascontiguousarray))
"""What makes arrays of arrays: `converted` does it for those that are inputs."""


def converted(function: Any, array: TracedArray, dtype: Any = None, **options: Any) -> Any:
    """An array as another one, which is the same where the function copies only what it must."""
    if function in (np.asarray, np.asanyarray) and not options and (dtype is None or np.dtype(dtype) == array.dtype):
        return array
    if function is np.array and not options:
        return array.copy() if dtype is None else array.astype(dtype)
    return by_host(function, array, **options) if dtype is None else by_host(function, array, dtype, **options)


def _is_basic(key: Any) -> bool:
    """Whether a key picks a part of an array as those of tensors do."""
    parts = key if type(key) is tuple else (key,)
    return all(p is None or p is Ellipsis or isinstance(p, (int, slice, np.integer)) for p in parts) and not any(
        isinstance(p, bool) for p in parts
    )


def _written(array: Any, write: Any, *args: Any, **kwargs: Any) -> None:
    """What NumPy writes to an array, computed by the host on a copy and written by the compiled call."""
    if type(array) is not TracedArray:
        raise computed(f"NumPy's {write.__name__} writes an array")
    array._overlay().copy_(by_host(Changed(write), array, *args, **kwargs).tensor.detach())


class TracedNumber(_StandIn):
    """A number of NumPy's whose value is that of each call; `isinstance` takes it for one of its class.

    `number` is the Python number that it is for tensors, an input.
    """

    __slots__ = ("kind", "number")
    __class__ = property(lambda self: self.kind)  # type: ignore[assignment]
    _methods = NUMBER_METHODS

    def __init__(self, number: Any, kind: type):
        self.number, self.kind = number, kind

    def item(self) -> Any:
        """The Python number."""
        return self.number

    dtype = property(lambda self: np.dtype(self.kind))
    shape = property(lambda self: ())
    ndim = property(lambda self: 0)
    size = property(lambda self: 1)

    def __float__(self) -> float:
        return float(self.number)

    def __int__(self) -> int:
        return int(self.number)

    def __index__(self) -> int:
        if issubclass(self.kind, np.floating):
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return operator.index(self.number)

    def __bool__(self) -> bool:
        return bool(self.number != 0)

    def __format__(self, specification: str) -> str:
        if self.kind is not np.float64:  # whose texts are those of Python's floats
            raise computed("NumPy formats a number that is an input")
        return format(self.number, specification)


def _exact(name: str, a: Any, b: Any) -> Any:
    """Arithmetic of NumPy's that compiled code does alike and without warnings of division; None for other operands."""
    if name not in ("add", "sub", "mul", "truediv"):
        return None
    numbers = [x.number if type(x) is TracedNumber and x.kind in (np.float64, np.int64) else x for x in (a, b)]
    are_numbers = all(type(x) in (int, float, SymbolicInt, TracedFloat) for x in numbers)
    if name == "truediv" and not ((are_numbers or type(b) in (int, float, SymbolicInt)) and numbers[1] != 0):
        return None
    if are_numbers:
        made = getattr(operator, name)(*numbers)
        kind = np.int64 if isinstance(made, int) else np.float64
        return TracedNumber(made, kind) if type(made) in (SymbolicInt, TracedFloat) else kind(made)
    kinds = {x.dtype for x in (a, b) if type(x) is TracedArray}
    others = {type(x) for x in (a, b) if type(x) is not TracedArray}
    if len(kinds) != 1 or not others <= {int, float, SymbolicInt, TracedFloat} or not kinds & _ROUNDING:
        return None
    return TracedArray(getattr(operator, name)(*[x.tensor.detach() if type(x) is TracedArray else x for x in (a, b)]))


_ROUNDING = {np.dtype(np.float32), np.dtype(np.float64)}
"""The types whose operations round once, as compiled code does."""


def _operators(name: str, ufunc: Any) -> None:
    function = divmod if name == "divmod" else getattr(operator, f"__{name}__")

    def forward(self: Any, other: Any) -> Any:
        found = _exact(name, self, other)
        if found is not None:
            return found
        return self.__array_ufunc__(ufunc, "__call__", self, other) if isinstance(other, Tensor) else (
            by_host(function, self, other)
        )

    def reflected(self: Any, other: Any) -> Any:
        found = _exact(name, other, self)
        if found is not None:
            return found
        return self.__array_ufunc__(ufunc, "__call__", other, self) if isinstance(other, Tensor) else (
            by_host(function, other, self)
        )

    setattr(_StandIn, f"__{name}__", forward)
    if name in _COMPARISONS:
        return
    setattr(_StandIn, f"__r{name}__", reflected)
    if name != "divmod":
        in_place = getattr(operator, f"__i{name}__")

        def change(self: TracedArray, other: Any) -> TracedArray:
            _written(self, in_place, other)
            return self

        setattr(TracedArray, f"__i{name}__", change)


def _ended(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        kind = MadeText if name in ("__repr__", "__str__", "__format__") else TraceBreak
        raise computed(f"NumPy computes {name.strip('_')} of an array that is an input", kind)

    return method


def _compared(name: str) -> Any:
    """A comparison of numbers that Python's would decide alike: of ints, and of float64 with floats."""
    general = getattr(_StandIn, f"__{name}__")

    def compare(self: TracedNumber, other: Any) -> Any:
        exact = issubclass(self.kind, np.integer) and isinstance(other, int)
        exact = exact or (self.kind is np.float64 and isinstance(other, (int, float)))
        return np.bool_(getattr(operator, name)(self.number, other)) if exact else general(self, other)

    return compare


_COMPARISONS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_ARITHMETIC = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "matmul": np.matmul, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift, "divmod": np.divmod,
}  # fmt: skip
for _name, _ufunc in (_COMPARISONS | _ARITHMETIC).items():
    _operators(_name, _ufunc)
    if _name in _COMPARISONS:
        setattr(TracedNumber, f"__{_name}__", _compared(_name))
for _name in ("__delitem__", "__complex__", "__array__", "__hash__", "__repr__", "__str__", "__format__", "__copy__",
              "__deepcopy__", "__reduce_ex__", "__reduce__", "__sizeof__", "__trunc__", "__floor__",
              "__ceil__"):  # fmt: skip
    setattr(_StandIn, _name, _ended(_name))
for _function in (operator.neg, operator.pos, operator.abs, operator.invert, operator.contains, round):
    _name = "invert" if _function is operator.invert else _function.__name__
    _method = functools.partialmethod(lambda self, function, *args: by_host(function, self, *args), _function)
    setattr(_StandIn, f"__{_name}__", _method)
for _function in (operator.neg, operator.abs):
    _general = getattr(_StandIn, f"__{_function.__name__}__")
    setattr(TracedNumber, f"__{_function.__name__}__", lambda self, function=_function, general=_general: (
        TracedNumber(function(self.number), np.float64) if self.kind is np.float64 else general(self)
    ))
TracedArray.__bool__ = lambda self: by_host(bool, self)  # type: ignore[attr-defined]
for _name in ("__int__", "__float__", "__index__"):
    setattr(TracedArray, _name, _ended(_name))
