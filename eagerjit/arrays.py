"""NumPy's arrays and numbers that a call being traced reads: inputs, as tensors and Python's numbers are.

Traced code gets a stand-in for each. Tensors made of it, operators with a tensor on the other side and questions about
its type and sizes are recorded. What NumPy computes itself ends the recording: it would be computed once.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from eagerjit.observation import TraceBreak, user_line
from eagerjit.state import state
from eagerjit.tensor import Tensor

NUMBERS = frozenset(
    (np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32,
     np.uint64)
)  # fmt: skip
"""The classes of NumPy's numbers that are one of Python's for tensors."""

LARGE = 1 << 16
"""Bytes up to which an array's contents are compared at every call."""


def computed(what: str) -> TraceBreak:
    """What ends a recording in which NumPy computes."""
    return TraceBreak(f"{what}, which compiled code would not do", user_line())


def _with_tensor(ufunc: Any, inputs: tuple[Any, ...], name: str) -> Any:
    """A function of NumPy's on tensors and others, as tensors take it; without tensors it ends the recording."""
    tensor = next((x for x in inputs if isinstance(x, Tensor)), None)
    if tensor is None:
        raise computed(f"NumPy computes {name} of an array that is an input")
    return tensor.__array_ufunc__(ufunc, "__call__", *inputs)


class _StandIn:
    """What stand-ins of arrays and of numbers have in common."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and not name.startswith("__array"):
            raise AttributeError(name)
        raise computed(f"NumPy is asked for {name} of an array that is an input")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            raise computed(f"NumPy computes {ufunc.__name__} of an array that is an input")
        return _with_tensor(ufunc, inputs, ufunc.__name__)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise computed(f"NumPy computes {function.__name__} of an array that is an input")


class TracedArray(_StandIn):
    """An ndarray whose contents are those of each call; `isinstance` takes it for one.

    `tensor` is the input over the array's memory.
    """

    __slots__ = ("_given", "tensor")
    __class__ = property(lambda self: np.ndarray)  # type: ignore[assignment]

    def __init__(self, tensor: Tensor):
        self.tensor = tensor
        self._given = False

    def shared(self) -> Tensor:
        """A tensor over the memory, another one at every call, whose versions do not count the others' writes."""
        if not self._given:
            self._given = True
            return self.tensor
        assert state.tracer is not None
        return state.tracer.silence(self.tensor.detach())

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

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])


class TracedNumber(_StandIn):
    """A number of NumPy's whose value is that of each call; `isinstance` takes it for one of its class.

    `number` is the Python number that it is for tensors, an input.
    """

    __slots__ = ("kind", "number")
    __class__ = property(lambda self: self.kind)  # type: ignore[assignment]

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


def _operators(name: str, ufunc: Any) -> None:
    def forward(self: Any, other: Any) -> Any:
        return _with_tensor(ufunc, (self, other), name)

    def reflected(self: Any, other: Any) -> Any:
        return _with_tensor(ufunc, (other, self), name)

    setattr(_StandIn, f"__{name}__", forward)
    if name not in _COMPARISONS:
        setattr(_StandIn, f"__r{name}__", reflected)


def _ended(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise computed(f"NumPy computes {name.strip('_')} of an array that is an input")

    return method


def _compared(name: str) -> Any:
    """A comparison of numbers that Python's would decide alike: of ints, and of float64 with floats."""
    general = getattr(_StandIn, f"__{name}__")

    def compare(self: TracedNumber, other: Any) -> Any:
        exact = issubclass(self.kind, np.integer) and isinstance(other, int)
        exact = exact or (self.kind is np.float64 and isinstance(other, (int, float)))
        return getattr(operator, name)(self.number, other) if exact else general(self, other)

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
for _name in ("__iter__", "__getitem__", "__setitem__", "__delitem__", "__contains__", "__neg__", "__pos__", "__abs__",
              "__invert__", "__complex__", "__array__", "__hash__", "__repr__", "__str__", "__format__", "__round__",
              "__copy__", "__deepcopy__", "__reduce_ex__", "__reduce__", "__sizeof__", "__trunc__", "__floor__",
              "__ceil__", *(f"__i{_name}__" for _name in _ARITHMETIC)):  # fmt: skip
    setattr(_StandIn, _name, _ended(_name))
for _name in ("__bool__", "__int__", "__float__", "__index__"):
    setattr(TracedArray, _name, _ended(_name))
