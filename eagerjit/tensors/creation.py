"""Making tensors filled with a rule; those made of data are `from_data.py`'s."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.kinds import are_operands
from eagerjit.compiler.ops import elementwise
from eagerjit.ops import views
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.views import shape_argument
from eagerjit.recording.numbers import SymbolicInt, TracedFloat, expression, to_float
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.making import ARANGE, EMPTY, EYE, FULL, LIKE, LINSPACE, ONES, ZEROS, MakeCall
from eagerjit.runtime.memory import fresh
from eagerjit.state import Defaults, state
from eagerjit.tensors.elements import to_array
from eagerjit.tensors.fitting import HALVES, check_fit, fitted, whole, whole_or_traced
from eagerjit.tensors.from_data import as_tensor, constant_array, finish, from_numpy, tensor
from eagerjit.tensors.making import makes
from eagerjit.tensors.mistakes import explained
from eagerjit.tensors.placement import device_filled
from eagerjit.tensors.promotion import TYPE_NAMES, number_dtype
from eagerjit.tensors.tensor import Tensor, new_tensor

__all__ = ["as_tensor", "constant_array", "finish", "from_numpy", "tensor", "to_array"]

Sizes = tuple[Any, ...]

_MANY = 1 << 12  # elements that threads fill, in memory that is kept for reuse


# -- filled -----------------------------------------------------------------------------------------------------------


def sizes_of(size: Sizes) -> Sizes:
    """Sizes given one by one or as one sequence. Raises TypeError for none, RuntimeError for negative ones."""
    if not size:
        raise TypeError("a size is missing: give sizes one by one, or a sequence of them, which may be empty")
    if len(size) == 1 and type(size[0]) is not int and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    for d in size:
        if type(d) is not int or not 0 <= d < 2**63:
            break
    else:
        return size
    shape = shape_argument(size)
    for d in shape:
        if type(d) is int and d < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {d}: {list(shape)}")
    return shape


@makes
def empty(*size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Uninitialised memory in this shape; inside a jitted function zeros. Arguments are those of `zeros`."""
    shape, dtype = sizes_of(size), dtype or Defaults.dtype
    if state.tracer is not None:
        return finish(filled(shape, 0, dtype), requires_grad)
    made = new_tensor(fresh(shape, dtype.numpy)) if state.device is None else device_filled(shape, None, dtype)
    return finish(made, requires_grad)


@makes
def full(
    size: Any, fill_value: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """One value everywhere; its type decides the dtype: bool, int64, the default one for floats or its complex one."""
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"full(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    shape = sizes_of((size,))
    if isinstance(fill_value, Tensor):
        if fill_value.ndim:
            raise TypeError("full(): argument 'fill_value' (position 2) must be Number, not Tensor")
        made = fill_value.to(dtype or fill_value.dtype).expand(shape).clone()
        return finish(made, requires_grad)
    if isinstance(fill_value, np.generic):
        fill_value = fill_value.item()
    found = number_dtype(fill_value)
    return finish(filled(shape, fill_value, dtype or found), requires_grad)


def _filled_body(value: Any, shape: Sizes, dtype: DType) -> Tensor:
    """One value everywhere."""
    return emit(elementwise.cast, views.expand(as_dtype(value, dtype), shape), dtype=dtype)


_filled_op = Op("filled", _filled_body, None, ("value",), differentiable=False, shapes=("shape",))


def filled(shape: Sizes, value: Any, dtype: DType) -> Tensor:
    """A contiguous tensor of one value."""
    tracer = state.tracer
    if tracer is None and state.device is not None:
        return device_filled(shape, value, dtype)
    if tracer is None and math.prod(shape) >= _MANY and dtype in dtypes.ALL:
        check_fit(value, dtype)
        return _filled_op.call(fitted(value, dtype), tuple(shape), dtype)
    if tracer is None and type(value) is int and (value == 0 or value == 1):
        if value == 0:
            return new_tensor(np.zeros(shape, dtype.numpy))
        array = fresh(shape, dtype.numpy)
        array.fill(1)
        return new_tensor(array)
    if dtype not in HALVES or any(d != 1 for d in shape):
        check_fit(value, dtype)
    if tracer is None:
        array = fresh(shape, dtype.numpy)
        if dtype is dtypes.float32 and type(value) in (int, float):
            array.fill(value)
            return new_tensor(array)
        with np.errstate(over="ignore"):
            array.fill(fitted(value, dtype))
        return new_tensor(array)
    from eagerjit.compiler.ops import views

    scalar = tracer.constant(value, dtype)
    spread = tracer.record(views.expand, (scalar,), shape=tuple(map(expression, shape)))
    return tracer.wrap(tracer.record(elementwise.cast, (spread,), dtype=dtype))


@makes
def zeros(
    *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Zeros in this shape, given as sizes or as one sequence of them; in the default dtype unless it is named.

    Raises RuntimeError for negative sizes.
    """
    made = filled(sizes_of(size), 0, dtype or Defaults.dtype)
    return finish(made, requires_grad)


@makes
def ones(
    *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones in this shape; see `zeros`."""
    made = filled(sizes_of(size), 1, dtype or Defaults.dtype)
    return finish(made, requires_grad)


@makes
def empty_like(input: Tensor, *, dtype: DType | None = None, **options: Any) -> Tensor:
    """`empty` with the shape and dtype of input."""
    return empty(tuple(input.shape), dtype=dtype or input.dtype, **options)


@makes
def zeros_like(input: Tensor, *, dtype: DType | None = None, **options: Any) -> Tensor:
    """Zeros with the shape and dtype of input."""
    if not options and state.tracer is None:
        return filled(input._data.shape, 0, dtype or input.dtype)
    return zeros(tuple(input.shape), dtype=dtype or input.dtype, **options)


@makes
def ones_like(input: Tensor, *, dtype: DType | None = None, **options: Any) -> Tensor:
    """Ones with the shape and dtype of input."""
    if not options and state.tracer is None:
        return filled(input._data.shape, 1, dtype or input.dtype)
    return ones(tuple(input.shape), dtype=dtype or input.dtype, **options)


@makes
def full_like(input: Tensor, fill_value: Any, *, dtype: DType | None = None, **options: Any) -> Tensor:
    """One value with the shape and dtype of input."""
    return full(tuple(input.shape), fill_value, dtype=dtype or input.dtype, **options)


_BOUNDS = (int, float, np.generic, Tensor, SymbolicInt, TracedFloat)
"""What a sequence may begin and end with."""


# -- sequences --------------------------------------------------------------------------------------------------------


def _arange_body(start: Any, step: Any, length: Any, dtype: DType) -> Tensor:
    """start + i * step."""
    wide = dtypes.int64 if not dtype.is_floating_point else dtypes.float64
    index = emit(elementwise.iota, size=expression(length), dtype=wide)
    if not (type(step) is int and step == 1):
        index = index * step
    if not (type(start) is int and start == 0):
        index = index + start
    return emit(elementwise.cast, index, dtype=dtype)


_arange = Op("arange", _arange_body, None, differentiable=False)
long_arange = Op("long_arange", _arange_body, None, ("start", "step", "length"), differentiable=False)


@makes
def arange(
    start: Any = None, end: Any = None, step: Any = 1, *, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """start, start + step, ... before end: a vector of ceil((end - start) / step) numbers.

    int64 if all three are integers, else the default dtype. Raises RuntimeError for a step of 0 or one that leads away
    from end.
    """
    start, end = (0, start) if end is None else (0 if start is None else start, end)
    if end is None:
        raise TypeError("arange() missing 1 required argument: 'end'")
    if state.tracer is None and dtype is None and type(start) is type(end) is type(step) is int and start <= end:
        if step > 0:
            length = (end - start + step - 1) // step
            if length >= _MANY:
                made = long_arange.call(start, step, length, dtypes.int64)
            else:
                made = new_tensor(np.arange(start, end, step))
            return finish(made, requires_grad)
    if wrong := [x for x in (start, end, step) if not isinstance(x, _BOUNDS)]:
        raise TypeError(f"arange(): arguments must be Numbers, not {type(wrong[0]).__name__}")
    start, end, step = (x.item() if isinstance(x, (Tensor, np.generic)) else x for x in (start, end, step))
    whole = all(isinstance(x, (int, SymbolicInt)) for x in (start, end, step))
    dtype = dtype or (dtypes.int64 if whole else Defaults.dtype)
    if dtype is dtypes.bool_ or dtype.is_complex:
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{TYPE_NAMES[dtype]}'")
    if (not whole and not dtype.is_floating_point) or (type(end) is int and not -(2**63) <= end < 2**63):
        for bound in (start, end, step):
            check_fit(bound, dtypes.int64 if not dtype.is_floating_point else dtype)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not whole and dtype is dtypes.int64:
        whole, start, end, step = True, int(start), int(end), int(step)
        if step == 0:
            raise ValueError("step must be nonzero")
    if not whole and (span := to_float(end) - to_float(start)) - span != 0.0:  # infinite, or no number
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    length = -((start - end) // step) if whole else _ceiling(span / to_float(step))
    if not whole and not dtype.is_floating_point:
        start, step = int(start), int(step)  # PyTorch counts in steps of what they are as integers
    if state.tracer is not None:
        return finish(_arange.run((start, step, length, dtype)), requires_grad)
    if length >= _MANY and dtype in dtypes.ALL:
        return finish(long_arange.call(start, step, length, dtype), requires_grad)
    if whole and not dtype.is_floating_point:
        array = np.arange(start, end, step, dtype=np.int64)
    else:
        array = start + np.arange(length, dtype=np.float64) * step
    return finish(new_tensor(array.astype(dtype.numpy, copy=False)), requires_grad)


def _ceiling(number: Any) -> Any:
    """The smallest int that is not less, of a number of a trace too."""
    if state.tracer is None:
        return math.ceil(number)
    from eagerjit.recording.rounding import rounded

    return rounded(math.ceil, number)


def _linspace_body(start: Any, end: Any, steps: Any, dtype: DType) -> Tensor:
    """Counted in equal steps from the nearer end, so that both ends are exact."""
    step = (end - start) / (steps - 1)
    index = emit(elementwise.iota, size=expression(steps), dtype=dtypes.int64)
    first, second = index.double() * step + start, end - (steps - 1 - index).double() * step
    return emit(elementwise.cast, first.where(index * 2 < steps, second), dtype=dtype)


_linspace = Op("linspace", _linspace_body, None, ("start", "end", "steps"), differentiable=False)


def _ends(name: str, start: Any, end: Any, dtype: DType | None) -> tuple[Any, Any]:
    """Numbers of which tensors without dimensions stand for some; integers where integers are made."""
    dims = [x.ndim if isinstance(x, Tensor) else 0 for x in (start, end)]
    if any(dims):
        raise RuntimeError(
            f"{name} only supports 0-dimensional start and end tensors, but got start with {dims[0]} dimension(s) and "
            f"end with {dims[1]} dimension(s)."
        )
    for argument, x in (("start", start), ("end", end)):
        if not are_operands((x,)):
            raise TypeError(f"{name}(): argument '{argument}' must be Tensor or Number, not {type(x).__name__}")
    start, end = (x.item() if isinstance(x, Tensor) else x for x in (start, end))
    if dtype is not None and not dtype.is_differentiable:
        start, end = (int(x) if isinstance(x, float) else x for x in (start, end))
    return start, end


@makes
def linspace(
    start: Any, end: Any, steps: int, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`steps` evenly spaced values from start to end, both included; of integers these are integers.

    Raises RuntimeError for a negative number of steps.
    """
    start, end = _ends("linspace", start, end, dtype)
    if isinstance(start, complex) or isinstance(end, complex):
        return finish(_complex_linspace(complex(start), complex(end), steps, dtype), requires_grad)
    steps = whole_or_traced(steps)
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if steps < 2:
        return full((steps,), to_float(start), dtype=dtype or Defaults.dtype, requires_grad=requires_grad)
    made = _linspace.call(to_float(start), to_float(end), steps, dtype or Defaults.dtype)
    return finish(made, requires_grad)


def _complex_dtype(name: str, dtype: DType | None) -> DType:
    """The dtype of what lies between complex numbers. Raises RuntimeError if it is to be real."""
    inferred = number_dtype(1j)
    if dtype is not None and not dtype.is_complex:
        raise RuntimeError(f"torch.{name}(): inferred dtype {inferred} can't be safely cast to passed dtype {dtype}")
    return dtype or inferred


def _complex_linspace(start: complex, end: complex, steps: int, dtype: DType | None) -> Tensor:
    """`linspace` of the real and of the imaginary parts."""
    from eagerjit.ops import complexes

    part = _complex_dtype("linspace", dtype).to_real()
    return complexes.complex(
        linspace(start.real, end.real, steps, dtype=part), linspace(start.imag, end.imag, steps, dtype=part)
    )


@makes
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """base ** linspace(start, end, steps)."""
    if isinstance(base, complex):
        raise TypeError("logspace(): argument 'base' must be float, not complex")
    start, end = _ends("logspace", start, end, None if steps == 1 else dtype)
    if isinstance(start, complex) or isinstance(end, complex):
        dtype = _complex_dtype("logspace", dtype)
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    dtype = dtype or Defaults.dtype
    if dtype.is_floating_point:
        from eagerjit.ops.pointwise import power

        exponents = linspace(start, end, steps, dtype=dtypes.float64)
        return finish(power.call(to_float(base), exponents).to(dtype), requires_grad)
    array = np.logspace(start, end, steps, base=base).astype(dtype.numpy)  # powers of 10 exactly
    return finish(constant_array(array), requires_grad)


@makes
def eye(
    n: int, m: int | None = None, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The identity matrix, or a rectangle (n, m) with ones on its diagonal. RuntimeError for negative sizes."""
    if isinstance(n, Tensor) and n.ndim:
        raise TypeError("eye(): argument 'n' (position 1) must be int, not Tensor")
    columns = n if m is None else m
    dtype = dtype or Defaults.dtype
    if isinstance(n, float) or isinstance(columns, float):
        raise TypeError("eye(): argument 'n' (position 1) must be int, not float")
    if n < 0 or columns < 0:
        raise RuntimeError(f"eye: n and m must be greater or equal to 0, got {n} and {columns}")
    if state.tracer is not None:
        return finish((arange(n).unsqueeze(1) == arange(columns)).to(dtype), requires_grad)
    rows, columns = whole(n), whole(columns)
    if state.device is not None:
        return finish(new_tensor(np.eye(rows, columns, dtype=dtype.numpy)), requires_grad)
    made = filled((rows, columns), 0, dtype)
    made._data[:columns].reshape(-1)[:: columns + 1] = 1
    return finish(made, requires_grad)


WITH_ZEROS, WITH_ONES = (_filled_op.call, 0.0), (_filled_op.call, 1.0)
empty, empty_like = MakeCall(EMPTY, explained(empty)), MakeCall(LIKE + EMPTY, explained(empty_like))
zeros, ones = MakeCall(ZEROS, explained(zeros), WITH_ZEROS), MakeCall(ONES, explained(ones), WITH_ONES)
zeros_like = MakeCall(LIKE + ZEROS, explained(zeros_like), WITH_ZEROS)
ones_like = MakeCall(LIKE + ONES, explained(ones_like), WITH_ONES)
full, arange = MakeCall(FULL, explained(full)), MakeCall(ARANGE, explained(arange))
linspace, eye = MakeCall(LINSPACE, explained(linspace)), MakeCall(EYE, explained(eye))
