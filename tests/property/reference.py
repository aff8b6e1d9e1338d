"""A second interpreter of random programs: the same lines over NumPy arrays, with PyTorch's dtype rules written anew.

`Array` has the methods that programs use, on plain NumPy views, in-place assignments and reductions; nothing here comes
from eagerjit. Floats are computed in float64 and rounded once. `Reference` runs a program line by line beside the eager
library: after each line every variable is compared, integers and bools exactly, floats within an error bound, and then
takes the library's values, so that rounding errors do not add up and no comparison falls the other way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

DTYPES = {
    "bool": np.dtype(np.bool_),
    "uint8": np.dtype(np.uint8),
    "int8": np.dtype(np.int8),
    "int16": np.dtype(np.int16),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
BOOL, UINT8, INT64, FLOAT32 = (DTYPES[n] for n in ("bool", "uint8", "int64", "float32"))
_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
_LARGEST = {name: float(ml_dtypes.finfo(DTYPES[name]).max) for name in _EPSILON}
_SMALLEST = {name: float(ml_dtypes.finfo(DTYPES[name]).tiny) for name in _EPSILON}
SLACK = 32
"""Units in the last place that one operation may be off, beyond what its sums may lose."""


def floating(dtype: np.dtype) -> bool:
    """Whether a dtype is a float."""
    return NAMES[dtype] in _EPSILON


# -- PyTorch's promotion ----------------------------------------------------------------------------------------------


def promoted(a: np.dtype, b: np.dtype) -> np.dtype:
    """The dtype that holds values of both."""
    if a == b:
        return a
    if floating(a) or floating(b):
        if floating(a) and floating(b):
            wide = {a, b} == {DTYPES["float16"], DTYPES["bfloat16"]}
            return FLOAT32 if wide else max(a, b, key=lambda d: d.itemsize)
        return a if floating(a) else b
    if BOOL in (a, b):
        return b if a == BOOL else a
    return np.promote_types(a, b)


def _kind(dtype: np.dtype) -> int:
    return 2 if floating(dtype) else 0 if dtype == BOOL else 1


def result_type(operands: Sequence[Any]) -> np.dtype:
    """PyTorch's result dtype: numbers and 0-d tensors count only where they are of a higher kind than the others."""
    groups: list[np.dtype | None] = [None, None, None]
    for x in operands:
        if isinstance(x, Array):
            level, dtype = (0 if x.ndim else 1), x.dtype
        else:
            level, dtype = 2, BOOL if isinstance(x, bool) else INT64 if isinstance(x, int) else FLOAT32
        known = groups[level]
        groups[level] = dtype if known is None else promoted(known, dtype)
    out: np.dtype | None = None
    for dtype in groups:
        if out is None:
            out = dtype
        elif dtype is not None and _kind(dtype) > _kind(out):
            out = promoted(out, dtype)
    assert out is not None
    return out


# -- arrays -----------------------------------------------------------------------------------------------------------


def narrow(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Values as a dtype; what has no such value makes the line uncertain."""
    if not floating(dtype) and dtype != BOOL and values.dtype.kind in "fV":
        wide = values.astype(np.float64)
        info = np.iinfo(dtype)
        if not np.all((wide >= info.min) & (wide < 2.0 ** (info.bits - (info.min < 0)))):
            Reference.uncertain = True
    if values.dtype == DTYPES["bfloat16"] and dtype == BOOL:
        values = values.astype(np.float32)
    return values.astype(dtype)


def _operand(x: Any, dtype: np.dtype) -> np.ndarray:
    return narrow(x.data, dtype) if isinstance(x, Array) else np.asarray(x).astype(dtype)


def _wide(x: np.ndarray) -> np.ndarray:
    """Floats in float64, others as they are."""
    return x.astype(np.float64) if floating(x.dtype) else x


class Array:
    """A tensor of the reference; `slack` bounds the absolute error that the sums of this line have left in it."""

    def __init__(self, data: np.ndarray, slack: float = 0.0):
        self.data, self.slack = data, slack

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def ndim(self) -> int:
        return self.data.ndim

    def numel(self) -> int:
        return self.data.size

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self.data)))

    def __bool__(self) -> bool:
        return bool(self.data.reshape(()).item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        return int(self.item())

    def item(self) -> Any:
        value = self.data.reshape(()).item()
        if not floating(self.dtype):
            return value
        # A number of Python's carries no bound of its own: the line's results may be off by as much.
        Reference.off = max(Reference.off, self.slack / max(abs(float(value)), 1e-30))
        return float(value)

    def tolist(self) -> Any:
        return self.data.astype(np.float64).tolist() if floating(self.dtype) else self.data.tolist()

    # -- views --------------------------------------------------------------------------------------------------------

    def _view(self, data: np.ndarray) -> Array:
        return Array(data, self.slack)

    def t(self) -> Array:
        return self._view(self.data.T)

    def transpose(self, a: int, b: int) -> Array:
        return self._view(np.swapaxes(self.data, a, b) if self.ndim else self.data[...])

    def permute(self, *dims: int) -> Array:
        return self._view(self.data.transpose(dims))

    def unsqueeze(self, dim: int) -> Array:
        return self._view(np.expand_dims(self.data, dim))

    def squeeze(self) -> Array:
        return self._view(self.data.squeeze()[...])

    def reshape(self, *shape: int) -> Array:
        try:
            return self._view(self.data.reshape(shape))
        except ValueError as error:
            raise RuntimeError(str(error)) from None

    def view(self, *shape: int) -> Array:
        out = self.reshape(*shape)
        if out.data.size and not np.shares_memory(out.data, self.data):
            raise RuntimeError("not a view")
        return out

    def flatten(self) -> Array:
        return self.reshape(-1)

    def expand(self, *shape: int) -> Array:
        lead = len(shape) - self.ndim
        sizes = [self.shape[i - lead] if d == -1 else d for i, d in enumerate(shape)]
        strides = np.broadcast_to(self.data, sizes).strides
        return self._view(np.lib.stride_tricks.as_strided(self.data, sizes, strides))

    def narrow(self, dim: int, start: int, length: int) -> Array:
        index = [slice(None)] * self.ndim
        index[dim] = slice(start, start + length)
        return self._view(self.data[tuple(index)])

    def chunk(self, count: int, dim: int) -> list[Array]:
        step = -(-self.shape[dim] // count)
        parts = max(-(-self.shape[dim] // max(step, 1)), 1)
        return [self.narrow(dim % self.ndim, i * step, step) for i in range(parts if step else count)]

    def detach(self) -> Array:
        return self._view(self.data[...])

    def view_as(self, other: Array) -> Array:
        return self.view(*other.shape)

    def requires_grad_(self) -> Array:
        return self

    def __getitem__(self, index: Any) -> Array:
        found = np.asarray(self.data[_index(index)])
        return self._view(found if np.shares_memory(found, self.data) else np.ascontiguousarray(found))

    def __setitem__(self, index: Any, value: Any) -> None:
        target = self.data[_index(index)]
        source = narrow(value.data, self.dtype) if isinstance(value, Array) else np.asarray(value).astype(self.dtype)
        while source.ndim > target.ndim and source.shape[0] == 1:
            source = source[0]
        self.data[_index(index)] = source.copy()

    # -- new arrays ---------------------------------------------------------------------------------------------------

    def clone(self) -> Array:
        return _rounded(self.data.copy(), self.dtype, operands=[self])

    def to(self, dtype: np.dtype) -> Array:
        return self if dtype == self.dtype else _rounded(narrow(self.data, dtype), dtype, operands=[self])

    def double(self) -> Array:
        return self.to(DTYPES["float64"])

    def float(self) -> Array:
        return self.to(FLOAT32)

    def masked_fill(self, mask: Array, value: Any) -> Array:
        return _rounded(np.where(mask.data, np.asarray(value).astype(self.dtype), self.data), self.dtype)

    def gather(self, dim: int, index: Array) -> Array:
        if self.ndim == 0:
            return Array(self.data.copy())
        return _rounded(np.take_along_axis(self.data, index.data, dim), self.dtype)

    def index_select(self, dim: int, index: Array) -> Array:
        return _rounded(np.take(self.data, index.data, dim), self.dtype)

    def flip(self, dim: int) -> Array:
        return _rounded(np.flip(self.data, dim) if self.data.ndim else self.data.copy(), self.dtype)

    def roll(self, shift: int, dim: int) -> Array:
        return _rounded(np.roll(self.data, shift, dim), self.dtype)

    def tril(self) -> Array:
        return _rounded(np.tril(self.data), self.dtype)

    def nonzero(self) -> Array:
        return _rounded(np.argwhere(self.data), INT64)

    def unique(self) -> Array:
        return Array(np.unique(_keys(self.data), equal_nan=False).astype(self.dtype))

    def sort(self, dim: int) -> SimpleNamespace:
        if not self.ndim:
            return SimpleNamespace(values=self.clone(), indices=Array(np.zeros((), np.int64)))
        order = np.argsort(_keys(self.data), dim, kind="stable")
        values = np.take_along_axis(self.data, order, dim)
        return SimpleNamespace(values=_rounded(values, self.dtype), indices=_rounded(order, INT64))

    def cumsum(self, dim: int) -> Array:
        dtype = self.dtype if floating(self.dtype) else INT64
        values = _wide(self.data.astype(dtype))
        return _rounded(np.cumsum(values, dim) if self.ndim else values, dtype, _mass(values))

    def matmul(self, other: Array) -> Array:
        a, b = _wide(self.data), _wide(other.data)
        with np.errstate(all="ignore"):
            mass = float(np.max(np.matmul(np.abs(np.nan_to_num(a)), np.abs(np.nan_to_num(b))), initial=0.0))
            out = np.asarray(np.matmul(a, b))
        return _rounded(out, self.dtype, mass if floating(self.dtype) else 0.0)

    __matmul__ = matmul

    # -- reductions ---------------------------------------------------------------------------------------------------

    def _reduced(self, function: Callable[..., Any], values: np.ndarray, dtype: np.dtype, dim: Any, keepdim: bool):
        axis = tuple(dim) if isinstance(dim, (tuple, list)) else dim
        if self.ndim == 0:
            axis, keepdim = None, False
        out = np.asarray(function(values, axis=axis, keepdims=keepdim))
        return _rounded(out, dtype, _mass(values) if floating(dtype) else 0.0)

    def sum(self, dim: Any = None, keepdim: bool = False) -> Array:
        dtype = self.dtype if floating(self.dtype) else INT64
        return self._reduced(np.sum, _wide(self.data.astype(dtype)), dtype, dim, keepdim)

    def mean(self, dim: Any = None, keepdim: bool = False) -> Array:
        return self._reduced(np.mean, _wide(self.data), self.dtype, dim, keepdim)

    def prod(self, dim: Any = None, keepdim: bool = False) -> Array:
        dtype = self.dtype if floating(self.dtype) else INT64
        out = self._reduced(np.prod, _wide(self.data.astype(dtype)), dtype, dim, keepdim)
        if floating(dtype) and not np.all(np.isfinite(_wide(out.data)) & (np.abs(_wide(out.data)) > 1e-30)):
            Reference.uncertain = True  # products over- or underflow on the way, in an order of their own
        return Array(out.data, SLACK * self.data.size * _EPSILON.get(NAMES[dtype], 0.0) * _largest(_wide(out.data)))

    def amax(self, dim: Any = None, keepdim: bool = False) -> Array:
        return Array(self._reduced(np.max, _wide(self.data), self.dtype, dim, keepdim).data)

    def amin(self, dim: Any = None, keepdim: bool = False) -> Array:
        return Array(self._reduced(np.min, _wide(self.data), self.dtype, dim, keepdim).data)

    def argmax(self, dim: Any = None, keepdim: bool = False) -> Array:
        if self.ndim == 0:
            return Array(np.zeros((), np.int64))
        if dim is None:
            return Array(np.asarray(np.argmax(_keys(self.data).reshape(-1))).astype(np.int64))
        return Array(np.asarray(np.argmax(_keys(self.data), axis=dim, keepdims=keepdim)).astype(np.int64))

    def any(self, dim: Any = None, keepdim: bool = False) -> Array:
        return self._reduced(np.any, self.data != 0, UINT8 if self.dtype == UINT8 else BOOL, dim, keepdim)

    def all(self, dim: Any = None, keepdim: bool = False) -> Array:
        return self._reduced(np.all, self.data != 0, UINT8 if self.dtype == UINT8 else BOOL, dim, keepdim)

    def var(self, dim: Any = None, keepdim: bool = False) -> Array:
        def variance(values: np.ndarray, axis: Any, keepdims: bool) -> Any:
            off = (values - np.mean(values, axis=axis, keepdims=True)) ** 2
            total = np.sum(off, axis=axis, keepdims=keepdims)
            return total / (off.size // max(np.size(total), 1) - 1)

        wide = _wide(self.data)
        if wide.size < 2:
            Reference.uncertain = True
        out = self._reduced(variance, wide, self.dtype, dim, keepdim)
        return Array(out.data, out.slack * max(1.0, _largest(wide)))

    def logsumexp(self, dim: int, keepdim: bool = False) -> Array:
        dtype = self.dtype if floating(self.dtype) else FLOAT32

        def reduce(values: np.ndarray, axis: Any, keepdims: bool) -> Any:
            return np.logaddexp.reduce(values, axis=axis, keepdims=keepdims)

        return self._reduced(reduce, self.data.astype(np.float64), dtype, dim, keepdim)

    def softmax(self, dim: int) -> Array:
        return self._softmax(dim, np.exp)

    def log_softmax(self, dim: int) -> Array:
        return self._softmax(dim, lambda x: x)

    def _softmax(self, dim: int, finish: Callable[..., Any]) -> Array:
        wide = np.atleast_1d(_wide(self.data))
        top = np.max(wide, axis=dim, keepdims=True) if wide.size else 0.0
        shifted = wide - np.where(np.isfinite(top), top, 0.0)
        total = np.sum(np.exp(shifted), axis=dim, keepdims=True)
        if np.any(np.isinf(wide)):
            Reference.uncertain = True
        return _rounded(finish(shifted - np.log(total)).reshape(self.shape), self.dtype, 1.0 + _largest(wide))

    # -- writes -------------------------------------------------------------------------------------------------------

    def _write(self, value: Array | Any) -> Array:
        source = value.data if isinstance(value, Array) else np.asarray(value)
        if source.shape != self.shape and np.broadcast_shapes(source.shape, self.shape) != self.shape:
            raise ValueError(f"cannot write {source.shape} into {self.shape}")
        self.data[...] = narrow(source, self.dtype).copy()
        self.slack = getattr(value, "slack", 0.0)
        return self

    def add_(self, other: Any) -> Array:
        return self._write(self + other)

    def sub_(self, other: Any) -> Array:
        return self._write(self - other)

    def mul_(self, other: Any) -> Array:
        return self._write(self * other)

    def copy_(self, other: Any) -> Array:
        return self._write(other)

    def fill_(self, value: Any) -> Array:
        return self._write(_operand(value, self.dtype))

    def zero_(self) -> Array:
        return self.fill_(0)

    def neg_(self) -> Array:
        return self._write(self.neg())

    def abs_(self) -> Array:
        return self._write(self.abs())

    def tanh_(self) -> Array:
        return self._write(self.tanh())

    def exp_(self) -> Array:
        return self._write(self.exp())

    def __iadd__(self, other: Any) -> Array:
        return self.add_(other)

    def __pow__(self, other: Any) -> Array:
        return power(self, other)

    def __rpow__(self, other: Any) -> Array:
        return power(other, self)


def _index(index: Any) -> Any:
    """An index for NumPy; an ellipsis at its end keeps a single element an array."""
    parts = list(index) if isinstance(index, tuple) else [index]
    parts = [p.data if isinstance(p, Array) else p for p in parts]
    return tuple(parts) if any(p is Ellipsis for p in parts) else (*parts, Ellipsis)


def _keys(data: np.ndarray) -> np.ndarray:
    return data.astype(np.float32) if data.dtype == DTYPES["bfloat16"] else data


def _largest(wide: np.ndarray) -> float:
    """The largest finite magnitude."""
    return float(np.max(np.abs(np.nan_to_num(wide, posinf=0.0, neginf=0.0)), initial=0.0))


def _mass(wide: np.ndarray) -> float:
    """What sums of these may lose, in units of epsilon."""
    return _largest(wide) * max(wide.size, 1) ** 0.5 + _largest(wide)


def _rounded(values: np.ndarray, dtype: np.dtype, mass: float = 0.0, operands: Sequence[Any] = ()) -> Array:
    """Values in row-major order, or in the order of the operands of elementwise work."""
    slack = SLACK * _EPSILON[NAMES[dtype]] * mass if floating(dtype) else 0.0
    order = _memory_order(np.shape(values), [x.data for x in operands if isinstance(x, Array)])
    turned = np.asarray(values).astype(dtype).transpose(order)
    return Array(np.ascontiguousarray(turned).reshape(turned.shape).transpose(np.argsort(order)), slack)


def _memory_order(shape: tuple[int, ...], operands: Sequence[np.ndarray]) -> list[int]:
    """The dimensions by the steps of the first operand that tells two apart, long ones first."""
    spread = [np.broadcast_to(x, shape) for x in operands]
    order = list(range(len(shape)))
    if 0 in shape or all(x.flags.c_contiguous for x in operands):
        return order
    for start in reversed(range(len(shape) - 1)):
        at = start
        for other in range(start + 1, len(shape)):
            first, second = order[at], order[other]
            pairs = [(x.strides[first], x.strides[second]) for x in spread]
            known = [(a, b) for a, b in pairs if a and b and shape[first] > 1 and shape[second] > 1]
            wider = shape[first] < shape[second]
            told = next((a - b or -1 for a, b in known if a != b or wider), 0)
            if told > 0:
                break
            if told < 0:
                order[at], order[other] = second, first
                at = other
    return order


# -- elementwise operations -------------------------------------------------------------------------------------------

_UNARY: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sin": np.sin,
    "cos": np.cos,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
}
_SAME = {
    "neg": np.negative,
    "abs": np.abs,
    "square": lambda x: x * x,
    "relu": lambda x: np.where(x <= 0, np.zeros((), x.dtype), x),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "sign": lambda x: (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype),
}


def _unary(name: str) -> Callable[[Array], Array]:
    def function(x: Array) -> Array:
        dtype = x.dtype if floating(x.dtype) else FLOAT32
        return _rounded(_UNARY[name](x.data.astype(np.float64)), dtype, operands=[x])

    return function


def _same(name: str) -> Callable[[Array], Array]:
    def function(x: Array) -> Array:
        if name == "square" and x.dtype == BOOL:
            return _rounded(x.data, INT64, operands=[x])
        if x.dtype == BOOL or (name in ("floor", "ceil", "round") and not floating(x.dtype)):
            return x.clone()
        return _rounded(_SAME[name](_wide(x.data)), x.dtype, operands=[x])

    return function


def _binary(compute: Callable[..., Any], kind: str = "") -> Callable[..., Array]:
    def function(a: Any, b: Any) -> Array:
        dtype = result_type((a, b))
        if kind == "divide" and not floating(dtype):
            dtype = FLOAT32
        x, y = (_wide(_operand(v, dtype)) for v in (a, b))
        if dtype == BOOL and kind != "compare":
            x, y = x.astype(np.uint8), y.astype(np.uint8)
        out = np.asarray(compute(x, y))
        if kind == "compare":
            return _rounded(out, BOOL, operands=[a, b])
        inherited = sum(x.slack for x in (a, b) if isinstance(x, Array))
        return Array(_rounded(out, dtype, operands=[a, b]).data, inherited * (1 + max(map(_largest, (x, y)))))

    return function


def _power(x: np.ndarray, y: np.ndarray) -> Any:
    if x.dtype.kind in "iu" and np.any(y < 0):
        Reference.uncertain = True
        y = np.maximum(y, 0)
    return np.power(x, y)


power = _binary(_power)
_OPERATORS = {
    "add": _binary(np.add),
    "sub": _binary(np.subtract),
    "mul": _binary(np.multiply),
    "truediv": _binary(np.divide, "divide"),
    "floordiv": _binary(np.floor_divide),
    "gt": _binary(np.greater, "compare"),
    "lt": _binary(np.less, "compare"),
    "ge": _binary(np.greater_equal, "compare"),
    "le": _binary(np.less_equal, "compare"),
    "eq": _binary(np.equal, "compare"),
    "ne": _binary(np.not_equal, "compare"),
}


def _install() -> None:
    for name in _UNARY:
        setattr(Array, name, _unary(name))
    for name in _SAME:
        setattr(Array, name, _same(name))
    Array.isnan = lambda self: _rounded(np.isnan(_wide(self.data)), BOOL, operands=[self])
    for name, function in _OPERATORS.items():
        setattr(Array, f"__{name}__", lambda self, other, f=function: f(self, other))
        setattr(Array, f"__r{name}__", lambda self, other, f=function: f(other, self))
    Array.__neg__ = Array.neg
    Array.__hash__ = None


_install()


def where(condition: Array, a: Any, b: Any) -> Array:
    """a where the condition holds, else b."""
    dtype = result_type((a, b))
    values = np.where(condition.data, _operand(a, dtype), _operand(b, dtype))
    return _rounded(values, dtype, operands=[condition, a, b])


def _joined(join: Callable[..., Any]) -> Callable[..., Array]:
    def function(arrays: Sequence[Array], dim: int) -> Array:
        dtype = arrays[0].dtype
        for a in arrays:
            dtype = promoted(dtype, a.dtype)
        parts = [a.data.astype(dtype) for a in arrays]
        filled = [p for p in parts if p.shape != (0,)]  # of these, cat takes no sizes
        return _rounded(join(parts if join is np.stack or not filled else filled, axis=dim), dtype)

    return function


def _random(dtype: np.dtype | None = None) -> Callable[..., Array]:
    """Random values, about which nothing but dtype and sizes is known here."""

    def function(like: Any, *rest: Any) -> Array:
        Reference.uncertain = True
        shape = like.shape if isinstance(like, Array) else like
        return Array(np.zeros(shape, dtype or like.dtype))

    return function


def _dropout(x: Array, p: float) -> Array:
    if not floating(x.dtype):
        raise RuntimeError("dropout makes floats")
    return _random()(x)


def _integers(low: int, high: int, shape: Sequence[int]) -> Array:
    Reference.uncertain = True
    return Array(np.zeros(shape, np.int64))


TORCH = SimpleNamespace(
    **DTYPES,
    where=where,
    maximum=_binary(np.maximum),
    minimum=_binary(np.minimum),
    atan2=_binary(np.arctan2, "divide"),
    pow=power,
    cat=_joined(np.concatenate),
    stack=_joined(np.stack),
    arange=lambda n: Array(np.arange(n)),
    tensor=lambda values: Array(np.asarray(values)),
    rand_like=_random(),
    rand=_random(FLOAT32),
    randint=_integers,
    nn=SimpleNamespace(functional=SimpleNamespace(dropout=_dropout)),
)


# -- beside the library -----------------------------------------------------------------------------------------------


class Reference:
    """Runs lines beside the library.

    `uncertain` is set where a line's values cannot be known here; `off` bounds the relative error of the numbers that
    it took out of tensors.
    """

    uncertain = False
    off = 0.0

    def __init__(self, scope: dict[str, Any]):
        self.scope: dict[str, Any] = {}
        for name, value in scope.items():
            if _is_tensor(value):
                self.scope[name] = self._array(value, [n for n in self.scope if _is_tensor(scope[n])], scope)
            elif name != "torch" and not name.startswith("__"):
                self.scope[name] = value
        self.scope["torch"] = TORCH

    def _array(self, tensor: Any, earlier: list[str], scope: dict[str, Any]) -> Array:
        """An argument: the same object as an earlier one, one in its memory, or one of its own."""
        for name in earlier:
            if scope[name] is tensor:
                return self.scope[name]
            if tensor.numel() and scope[name]._data.ctypes.data == tensor._data.ctypes.data:
                return self.scope[name].detach()
        return Array(_copy(tensor))

    def step(self, line: str, scope: dict[str, Any]) -> str | None:
        """Run a line that the library has run in `scope`; what differs, or None."""
        Reference.uncertain, Reference.off = False, 0.0
        try:
            with np.errstate(all="ignore"):
                exec(line, self.scope)
        except Exception as error:
            return f"the reference raises {type(error).__name__}: {error}"
        for name, actual in scope.items():
            expected = self.scope.get(name)
            if _is_tensor(actual):
                problem = self._mismatch(actual, expected)
            elif isinstance(actual, (bool, int)):
                problem = None if actual == expected or Reference.uncertain else f"{actual}, not {expected}"
            else:
                continue
            if problem is not None:
                return f"{name}: {problem}"
        self._adopt(scope)
        return None

    def _mismatch(self, actual: Any, expected: Any) -> str | None:
        if not isinstance(expected, Array):
            return f"a tensor, not {expected!r}"
        found = actual.detach()._data
        if found.dtype != expected.dtype:
            return f"{found.dtype}, not {expected.dtype}"
        if found.shape != expected.shape:
            return f"{found.shape}, not {expected.shape}"
        if Reference.uncertain or _close(found, expected):
            return None
        return f"{found.reshape(-1)[:8]}, not {expected.data.reshape(-1)[:8]}"

    def _adopt(self, scope: dict[str, Any]) -> None:
        """Take the library's values; views keep sharing their memory."""
        for name, actual in scope.items():
            expected = self.scope.get(name)
            if isinstance(expected, Array):
                if expected.data.flags.writeable:
                    expected.data[...] = actual.detach()._data
                expected.slack = 0.0
            elif isinstance(actual, (bool, int, float)):
                self.scope[name] = actual


def _is_tensor(value: Any) -> bool:
    return hasattr(type(value), "requires_grad")


def _copy(tensor: Any) -> np.ndarray:
    """The values, in memory of the same order: what is a view and what a copy depends on it."""
    data = tensor.detach()._data
    span = sum((d - 1) * abs(s) for d, s in zip(data.shape, data.strides, strict=True)) if data.size else 0
    whole = np.zeros(span // data.itemsize + 1, data.dtype)
    copy = np.lib.stride_tricks.as_strided(whole, data.shape, data.strides) if data.size else np.zeros_like(data)
    copy[...] = data
    return copy


def _close(actual: np.ndarray, expected: Array) -> bool:
    name = NAMES[actual.dtype]
    if name not in _EPSILON:
        return bool(np.array_equal(actual, expected.data))
    a, b = actual.astype(np.float64), expected.data.astype(np.float64)
    with np.errstate(all="ignore"):
        bound = SLACK * _EPSILON[name] * np.abs(b) + expected.slack + SLACK * _SMALLEST[name]
        bound += Reference.off * (np.abs(b) + _largest(b))
        limit = _LARGEST[name] * (1 - SLACK * _EPSILON[name])
        near = (np.abs(a - b) <= bound) | ((np.abs(a) > limit) & (np.abs(b) > limit) & (np.sign(a) == np.sign(b)))
    return bool(np.all((a == b) | near | (np.isnan(a) & np.isnan(b))))
