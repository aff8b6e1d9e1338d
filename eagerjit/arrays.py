"""NumPy's arrays and numbers that a call being traced reads: inputs, as tensors and Python's numbers are.

Traced code gets a stand-in for each. Tensors made of it, operators with a tensor on the other side and questions about
its type and sizes are recorded. What NumPy computes itself ends the recording: it would be computed once.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from eagerjit.numbers import SymbolicInt, TracedFloat
from eagerjit.observation import TraceBreak, user_line
from eagerjit.runtime import dtypes
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

    def astype(self, dtype: Any) -> TracedArray:
        """A copy in another type, where the conversion is exact or rounds once."""
        wanted, own = dtypes.BY_NUMPY.get(np.dtype(dtype)), self.tensor.dtype
        if wanted is None or wanted.is_complex or (own.is_floating_point and not wanted.is_floating_point):
            raise computed(f"NumPy converts an array that is an input to {np.dtype(dtype)}")
        return TracedArray(self.tensor.detach().to(wanted, copy=True))

    def copy(self) -> TracedArray:
        """The same elements in memory of their own."""
        return TracedArray(self.tensor.detach().clone())

    def reshape(self, *shape: Any) -> TracedArray:
        """The elements in row-major order in other sizes, in the same memory where that can be."""
        return TracedArray(self.tensor.detach().reshape(*shape))

    def transpose(self, *axes: Any) -> TracedArray:
        """The same memory with its dimensions in another order, by default from last to first."""
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes or range(self.ndim)[::-1]
        return TracedArray(self.tensor.detach().permute(*order))

    @property
    def T(self) -> TracedArray:
        """The same memory with its dimensions from last to first."""
        return self.transpose()

    def __getitem__(self, key: Any) -> Any:
        """A part that lies in the same memory, or one element."""
        parts = key if type(key) is tuple else (key,)
        if not all(p is None or p is Ellipsis or isinstance(p, (int, slice, np.integer)) for p in parts) or any(
            isinstance(p, bool) for p in parts
        ):
            raise computed("NumPy picks elements of an array that is an input")
        found = self.tensor.detach()[key]
        if any(p is None or p is Ellipsis or isinstance(p, slice) for p in parts) or found.ndim:
            return TracedArray(found)
        kind = self.dtype.type
        if kind not in NUMBERS or kind is np.uint64:
            raise computed("NumPy picks an element of an array that is an input")
        return TracedNumber(found.item(), kind)

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


def _exact(name: str, a: Any, b: Any) -> Any:
    """Arithmetic of NumPy's that compiled code does alike and without warnings of division; None for other operands."""
    divided = name == "truediv" and type(b) in (int, float) and b != 0
    if name not in ("add", "sub", "mul") and not divided:
        return None
    if all((type(x) is TracedNumber and x.kind is np.float64) or type(x) in (int, float, TracedFloat) for x in (a, b)):
        numbers = [x.number if type(x) is TracedNumber else x for x in (a, b)]
        return TracedNumber(getattr(operator, name)(*numbers), np.float64)
    kinds = {x.dtype for x in (a, b) if type(x) is TracedArray}
    others = {type(x) for x in (a, b) if type(x) is not TracedArray}
    if len(kinds) != 1 or not others <= {int, float, SymbolicInt, TracedFloat} or not kinds & _ROUNDING:
        return None
    return TracedArray(getattr(operator, name)(*[x.tensor.detach() if type(x) is TracedArray else x for x in (a, b)]))


_ROUNDING = {np.dtype(np.float32), np.dtype(np.float64)}
"""The types whose operations round once, as compiled code does."""


def _operators(name: str, ufunc: Any) -> None:
    def forward(self: Any, other: Any) -> Any:
        found = _exact(name, self, other)
        return _with_tensor(ufunc, (self, other), name) if found is None else found

    def reflected(self: Any, other: Any) -> Any:
        found = _exact(name, other, self) if name != "truediv" else None
        return _with_tensor(ufunc, (other, self), name) if found is None else found

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
for _name in ("__iter__", "__setitem__", "__delitem__", "__contains__", "__neg__", "__pos__", "__abs__",
              "__invert__", "__complex__", "__array__", "__hash__", "__repr__", "__str__", "__format__", "__round__",
              "__copy__", "__deepcopy__", "__reduce_ex__", "__reduce__", "__sizeof__", "__trunc__", "__floor__",
              "__ceil__", *(f"__i{_name}__" for _name in _ARITHMETIC)):  # fmt: skip
    setattr(_StandIn, _name, _ended(_name))
for _name in ("__bool__", "__int__", "__float__", "__index__"):
    setattr(TracedArray, _name, _ended(_name))
