"""Tensors made in less common ways: with strides, over buffers, as windows of signals."""

from __future__ import annotations

import builtins
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eagerjit.calling.public import public
from eagerjit.devices import check_device
from eagerjit.ops.strided import as_strided
from eagerjit.runtime import dtypes
from eagerjit.state import Defaults, state
from eagerjit.tensors import from_data
from eagerjit.tensors.creation import arange, constant_array, empty, finish, full, ones
from eagerjit.tensors.fitting import whole_or_traced
from eagerjit.tensors.making import makes
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor, new_tensor
from eagerjit.watching.observation import TraceBreak, user_line


@makes
def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Uninitialised memory seen with these sizes and strides."""
    check_device(device)
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: sizes {list(size)} and strides {list(stride)}")
    count = 0 if 0 in size else 1 + sum((d - 1) * s for d, s in zip(size, stride, strict=True))
    memory = empty(count, dtype=dtype)
    return finish(as_strided(memory, size, stride, 0).detach(), requires_grad)


def new_empty_strided(self: Tensor, size: Any, stride: Any, *, dtype: Any = None, **options: Any) -> Tensor:
    """`empty_strided` of the tensor's dtype, where it lies."""
    return empty_strided(size, stride, dtype=dtype or self.dtype, **{"device": self.device, **options})


@makes
def empty_permuted(size: Any, physical_layout: Any, *, dtype: Any = None, **options: Any) -> Tensor:
    """Uninitialised memory whose dimensions lie in the order given, outermost first."""
    if sorted(physical_layout) != list(builtins.range(len(size))):
        raise RuntimeError(
            f"Number of dimensions in size does not match the length of the physical_layout: {list(physical_layout)} "
            f"does not permute {len(size)} dimensions"
        )
    made = empty([size[d] for d in physical_layout], dtype=dtype, **options)
    return made.permute([list(physical_layout).index(d) for d in builtins.range(len(size))])


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A vector over the memory of an object with the buffer protocol."""
    view = memoryview(buffer).cast("B")
    size = dtype.numpy.itemsize
    if len(view) == 0 or count == 0:
        raise ValueError(f"both buffer length ({len(view)}) and count ({count}) must not be 0")
    if not 0 <= offset < len(view):
        raise ValueError(
            f"offset must be non-negative and no greater than buffer length ({len(view)}) - 1, but got {offset}"
        )
    rest = len(view) - offset
    if count < 0:
        if rest % size:
            raise ValueError(f"buffer length ({rest} bytes) after offset must be a multiple of element size ({size})")
        count = rest // size
    if count * size > rest:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than "
            f"actual buffer length ({len(view)} bytes)"
        )
    if state.tracer is not None:  # a tensor of each call's, over memory that its code may read
        raise TraceBreak("it makes a tensor over a buffer", user_line())
    return finish(new_tensor(np.frombuffer(view, dtype.numpy, count, offset)), requires_grad)


@makes
def scalar_tensor(
    s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A number as a 0-d tensor of the default dtype."""
    return full((), s, dtype=dtype or Defaults.dtype, device=device, requires_grad=requires_grad)


def _shape_as_tensor(self: Tensor) -> Tensor:
    """The sizes as integers of 64 bits."""
    return from_data.tensor(list(self.shape), dtype=dtypes.int64)


@makes
def range(
    start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """start, start + step, ... up to and including end."""
    first, last = (0, start) if end is None else (start, end)
    dtype = dtype or Defaults.dtype
    if dtype is dtypes.bool_ or dtype.is_complex:
        raise NotImplementedError(f"\"range_cpu\" not implemented for '{TYPE_NAMES[dtype]}'")
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (last - first) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    array = first + np.arange(math.floor((last - first) / step) + 1) * step
    return finish(constant_array(array.astype(dtype.numpy)), requires_grad)


@public
def fill(input: Tensor, value: Any) -> Tensor:
    """A number everywhere, with the shape and dtype of input."""
    return input.clone().fill_(value)


# -- windows ----------------------------------------------------------------------------------------------------------


def _window(name: str, shape: Callable[..., Tensor], doc: str) -> Callable[..., Tensor]:
    def window(
        window_length: int, periodic: bool = True, *options: Any, dtype: Any = None, device: Any = None,
        requires_grad: bool = False, **named: Any,
    ) -> Tensor:  # fmt: skip
        check_device(device)
        window_length = whole_or_traced(window_length)
        if window_length < 0:
            raise RuntimeError(f"{name}_window requires non-negative window_length, got window_length={window_length}")
        dtype = dtype or Defaults.dtype
        if not dtype.is_floating_point:
            raise RuntimeError(f"{name}_window expects floating point dtypes, got: {dtype}")
        if unknown := named.keys() - set(inspect.signature(shape).parameters):
            raise TypeError(f"{name}_window() got an unexpected keyword argument '{min(unknown)}'")
        if window_length < 2:
            return ones(window_length, dtype=dtype, requires_grad=requires_grad)
        places = arange(window_length, dtype=dtypes.float64) / (window_length if periodic else window_length - 1)
        return finish(shape(places, *options, **named).to(dtype), requires_grad)

    window.__name__ = window.__qualname__ = f"{name}_window"
    window.__doc__ = f"{doc}, of this length; `periodic` leaves out the last point, which would repeat the first."
    return makes(window)


def _hamming(x: Tensor, alpha: float = 0.54, beta: float = 0.46) -> Tensor:
    return alpha - beta * (2 * math.pi * x).cos()


def _kaiser(x: Tensor, beta: float = 12.0) -> Tensor:
    return (beta * (1 - (2 * x - 1) ** 2).clamp(min=0).sqrt()).i0() / full((), beta, dtype=dtypes.float64).i0()


hann_window = _window("hann", lambda x: 0.5 - 0.5 * (2 * math.pi * x).cos(), "Hann's window")
hamming_window = _window("hamming", _hamming, "Hamming's window")
bartlett_window = _window("bartlett", lambda x: 1 - (2 * x - 1).abs(), "Bartlett's window, a triangle")
blackman_window = _window(
    "blackman", lambda x: 0.42 - 0.5 * (2 * math.pi * x).cos() + 0.08 * (4 * math.pi * x).cos(), "Blackman's window"
)
kaiser_window = _window("kaiser", _kaiser, "Kaiser's window")
