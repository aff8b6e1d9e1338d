"""Pooling over sliding windows: maxima, means, norms, and maxima put back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eagerjit.autograd.formal import RELU_LIKE
from eagerjit.calling.dispatch import Op
from eagerjit.calling.spatial import SpatialOp
from eagerjit.ops.activation import widened
from eagerjit.ops.host import has_kernels
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.windows import Numbers, chosen_spread, count, window_maximum, window_sum
from eagerjit.recording.channels_last import in_format_of
from eagerjit.runtime import dtypes, mode
from eagerjit.runtime.planned import Plan
from eagerjit.tensors.fitting import whole, wholes
from eagerjit.tensors.mistakes import planned
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor

# -- ops over (batch, channels, ...) ----------------------------------------------------------------------------------


def _max_pool(
    input: Tensor, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers, ceil_mode: bool
) -> tuple[Tensor, Tensor]:
    """The largest number in each window, and where it is."""
    best, place = window_maximum(input, kernel, stride, padding, dilation, ceil_mode, True)
    assert place is not None
    return best, place


def scattered(values: Any, places: Any, like: Any) -> Any:
    """Numbers added to their places in zeros of the size of (batch, channels, ...)."""
    flat = values.new_zeros((*like.shape[:2], math.prod(tuple(like.shape[2:]))))
    return flat.scatter_add(2, places.flatten(2), values.contiguous().flatten(2)).reshape(like.shape)


def _max_pool_gradient(g: Any, out: Any, input: Any, *how: Any) -> Any:
    """Of a GPU's programs one has a whole plane that is scattered to: there places look at their windows instead."""
    found = chosen_spread(g[0], out[1], input.shape[2:], *how[:4]) if has_kernels(g[0]) else None
    return scattered(g[0], out[1], input) if found is None else found


max_pool_op = SpatialOp("max_pool", _max_pool, (_max_pool_gradient, *(None,) * 5))
max_pool_op.absent_gradients, max_pool_op.results_read, max_pool_op.formal = True, (1,), RELU_LIKE
max_pool_op.ranks, max_pool_op.follows = (3, 4, 5), True  # PyTorch takes lines for images of one row


def _max_pool_values(
    input: Tensor, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers, ceil_mode: bool
) -> Tensor:
    """The largest number in each window."""
    return window_maximum(input, kernel, stride, padding, dilation, ceil_mode, False)[0]


max_pool_values = SpatialOp("max_pool_values", _max_pool_values, differentiable=False)


def _seen(windows: Any, size: Any, kernel: int, stride: int, padding: int, with_padding: bool) -> Tensor:
    """How many places each window along a dimension sees, those of the padding among them or not."""
    from eagerjit.tensors.creation import arange

    start = arange(windows) * stride - padding
    if with_padding:
        return (start + kernel).clamp(max=size + padding) - start
    return (start + kernel).clamp(max=size) - start.clamp(min=0)


def _avg_pool(
    input: Tensor, kernel: Numbers, stride: Numbers, padding: Numbers, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:  # fmt: skip
    """The mean of each window."""
    (x,) = widened(input)
    sizes = x.shape[2:]
    rank = len(kernel)
    windows = tuple(
        count(n, k, s, p, 1, ceil_mode) for n, k, s, p in zip(sizes, kernel, stride, padding, strict=True)
    )
    total = window_sum.call(x, windows, kernel, stride, padding)
    divisor: Any = 1
    if divisor_override is not None:
        divisor = divisor_override
    elif not ceil_mode and (count_include_pad or not any(padding)):
        for k in kernel:
            divisor *= k
    else:
        for d in range(rank):
            seen = _seen(windows[d], sizes[d], kernel[d], stride[d], padding[d], count_include_pad)
            divisor = divisor * seen.reshape((-1, *(1,) * (rank - 1 - d)))
        divisor = as_dtype(divisor, x.dtype)
    if input.dtype.is_floating_point:
        return as_dtype(total / divisor, input.dtype)
    return as_dtype(total.div(divisor, rounding_mode="trunc"), input.dtype)


avg_pool_op = SpatialOp("avg_pool", _avg_pool)
avg_pool_op.formal, avg_pool_op.follows = RELU_LIKE, True
avg_pool_op.ranks = 3, 4  # PyTorch takes lines for images of one row


# -- arguments --------------------------------------------------------------------------------------------------------


def numbers(name: str, what: str, value: Any, rank: int) -> Numbers:
    """One int per spatial dimension. Raises RuntimeError where there are neither one nor `rank`."""
    if not isinstance(value, (tuple, list)):
        return (whole(value),) * rank
    if len(value) == 1:
        return wholes(value) * rank
    if len(value) != rank:
        raise RuntimeError(f"{name}: {what} must either be a single int, or a tuple of {rank} ints, not {list(value)}")
    return wholes(value)


def batched(name: str, input: Tensor, rank: int) -> Tensor:
    """The input with a batch dimension. Raises RuntimeError for other ranks."""
    if name.startswith("adaptive_max") and rank > 1 and input.ndim <= rank:
        sizes = list(input.shape)
        raise ValueError(f"{name}: Input dimension should be at least {rank + 1}, but got input of size {sizes}")
    if input.ndim not in (rank + 1, rank + 2):
        error = IndexError if name == "avg_pool2d" and input.ndim < 3 else RuntimeError
        raise error(
            f"{name}: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor, but got input of size "
            f"{list(input.shape)}"
        )
    first = -rank if name.startswith("adaptive_avg") else -rank - 1
    if any(n == 0 for n in input.shape[first:]):
        raise RuntimeError(
            f"{name}: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got: {list(input.shape)}"
        )
    return input if input.ndim == rank + 2 else input.unsqueeze(0)


def _windows(
    name: str, x: Tensor, rank: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Kernel, stride, padding and dilation. Raises RuntimeError where they are not possible."""
    kernel = numbers(name, "kernel_size", kernel_size, rank)
    empty = stride is None or (isinstance(stride, (tuple, list)) and not stride)
    steps = kernel if empty else numbers(name, "stride", stride, rank)
    zeros, spread = numbers(name, "padding", padding, rank), numbers(name, "dilation", dilation, rank)
    for what, values in (("kernel size", kernel), ("stride", steps), ("dilation", spread)):
        if any(v <= 0 for v in values):
            raise RuntimeError(f"{name}: {what} should be greater than zero, but got {list(values)}")
    if any(p < 0 or p > k // 2 for p, k in zip(zeros, kernel, strict=True)):
        raise RuntimeError(
            f"{name}: pad should be non-negative and at most half of kernel size, but got pad={list(zeros)} and "
            f"kernel_size={list(kernel)}"
        )
    sizes = x.shape[2:]
    out = [count(*each, ceil_mode) for each in zip(sizes, kernel, steps, zeros, spread, strict=True)]
    if any(n < 1 for n in out):
        given, found = (" x ".join(map(str, (x.shape[1], *values))) for values in (sizes, out))
        raise RuntimeError(
            f"{name}: Given input size: ({given}). Calculated output size: ({found}). Output size is too small"
        )
    return kernel, steps, zeros, spread


def _like(result: Tensor, input: Tensor) -> Tensor:
    """The result without the batch dimension that the input lacked."""
    return result if result.ndim == input.ndim else result.squeeze(0)


def _pooled(op: Op, part: int | None, input: Tensor, *how: Any) -> Any:
    """The results of an op on an input that may lack the batch dimension, or one of several."""
    result = op.call(input if input.ndim == len(how[0]) + 2 else input.contiguous().unsqueeze(0), *how)
    if part is not None:
        return _like(result[part], input)
    return tuple(_like(r, input) for r in result) if isinstance(result, tuple) else _like(result, input)


# -- the functions ----------------------------------------------------------------------------------------------------


_SIZES = """\
Of (batch, channels, ...) or (channels, ...); windows of `kernel_size` are `stride` apart, which is the kernel's size
unless it is given. There are floor((n + 2 * padding - dilation * (kernel - 1) - 1) / stride) + 1, with `ceil_mode`
rounded up as far as they begin inside. Raises RuntimeError where a window does not fit."""


def _max_function(rank: int) -> Callable[..., Any]:
    name = f"max_pool{rank}d"

    def function(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: Any = False,
    ) -> Plan:  # fmt: skip
        x = batched(name, input, rank)
        if x.dtype is dtypes.bool_:
            raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'")
        how = (*_windows(name, x, rank, kernel_size, stride, padding, dilation, ceil_mode), bool(ceil_mode))
        recorded = input._requires_grad and mode.grad_mode()
        op = max_pool_op if return_indices or recorded else max_pool_values
        if x is input and (return_indices or not recorded):
            return op.call, (input, *how)
        return _pooled, (op, None if return_indices or not recorded else 0, input, *how)

    function.__doc__ = (
        f"The largest number in each window over the last {rank} dimensions.\n\n{_SIZES}\nWith `return_indices` also "
        "where it is: its place among the input's, row by row."
    )
    return planned(_named(function, name))


def _avg_function(rank: int) -> Callable[..., Tensor]:
    name = f"avg_pool{rank}d"

    def run(
        input: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
        divisor_override: Any,
    ) -> Plan:  # fmt: skip
        x = batched(name, input, rank)
        if not x.dtype.is_floating_point and x.dtype is not dtypes.int64:
            raise NotImplementedError(f"\"{name}\" not implemented for '{TYPE_NAMES[x.dtype]}'")
        kernel, steps, zeros, _ = _windows(name, x, rank, kernel_size, stride, padding, 1, ceil_mode)
        if rank == 3 and any(k > n for k, n in zip(kernel, x.shape[2:], strict=True)):
            raise RuntimeError(f"{name}: input image {list(x.shape[2:])} smaller than kernel size {list(kernel)}")
        if divisor_override == 0:
            raise RuntimeError(f"{name}: divisor must be not zero")
        how = (kernel, steps, zeros, bool(ceil_mode), bool(count_include_pad), divisor_override)
        return (avg_pool_op.call, (input, *how)) if x is input else (_pooled, (avg_pool_op, None, input, *how))

    if rank == 1:
        def function(
            input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
            count_include_pad: bool = True,
        ) -> Plan:  # fmt: skip
            return run(input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)
    else:
        def function(  # type: ignore[misc]
            input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
            count_include_pad: bool = True, divisor_override: int | None = None,
        ) -> Plan:  # fmt: skip
            return run(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    function.__doc__ = (
        f"The mean of each window over the last {rank} dimensions.\n\n{_SIZES}\nZeros of the padding count if "
        "`count_include_pad`; `divisor_override` stands for the count."
    )
    return planned(_named(function, name))


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    return function


max_pool1d, max_pool2d, max_pool3d = map(_max_function, (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = map(_avg_function, (1, 2, 3))


def _with_indices(function: Callable[..., Any]) -> Callable[..., Any]:
    def pooled(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: Any = True,
    ) -> Any:  # fmt: skip
        return function(input, kernel_size, stride, padding, dilation, ceil_mode, True)

    pooled.__doc__ = f"{function.__name__} with where the largest numbers are."
    return _named(pooled, f"{function.__name__}_with_indices")


max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = map(
    _with_indices, (max_pool1d, max_pool2d, max_pool3d)
)


def _lp_function(rank: int) -> Callable[..., Tensor]:
    pool = (avg_pool1d, avg_pool2d, avg_pool3d)[rank - 1]
    largest = (max_pool1d, max_pool2d, max_pool3d)[rank - 1]

    def function(
        input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> Tensor:
        if rank == 1 and isinstance(kernel_size, (tuple, list)) and len(kernel_size) == 1:
            raise TypeError(f"{name}(): kernel_size is a number, not {type(kernel_size).__name__}")
        if norm_type == math.inf:
            return largest(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        if norm_type == -math.inf:
            return -largest(-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        size = 1
        for k in numbers(name, "kernel_size", kernel_size, rank):
            size *= k
        mean = pool(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
        return (mean.sign() * mean.abs().relu()).mul(size).pow(1.0 / norm_type)

    name = f"lp_pool{rank}d"
    function.__doc__ = "The norm of each window: the root of the sum of powers `norm_type`."
    return _named(function, name)


lp_pool1d, lp_pool2d, lp_pool3d = map(_lp_function, (1, 2, 3))


def _unpool_function(rank: int) -> Callable[..., Tensor]:
    name = f"max_unpool{rank}d"

    def function(
        input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Tensor:
        if indices.dtype is not dtypes.int64:
            raise RuntimeError(f"{name}: elements in indices should be type int64 but got: {indices.dtype}")
        if tuple(indices.shape) != tuple(input.shape):
            raise RuntimeError(
                f"{name}: Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but "
                f"got indices tensor with shape: {list(indices.shape)}"
            )
        x, places = batched(name, input, rank), batched(name, indices, rank)
        kernel, zeros = numbers(name, "kernel_size", kernel_size, rank), numbers(name, "padding", padding, rank)
        steps = kernel if stride is None or stride == [] else numbers(name, "stride", stride, rank)
        natural = [
            (n - 1) * s - 2 * p + k for n, s, p, k in zip(x.shape[2:], steps, zeros, kernel, strict=True)
        ]
        size = list(natural) if output_size is None else list(output_size)[-rank:]
        if len(size) != rank:
            raise ValueError(f"output_size should be a sequence containing {rank} or {rank + 2} elements, not {size}")
        for n, wanted, s in zip(natural, size, steps, strict=True):
            if not n - s < wanted < n + s:
                raise ValueError(f"{name}: invalid output_size {size} (each must be within the stride of {natural})")
        flat = x.new_zeros((*x.shape[:2], math.prod(tuple(size))))
        out = flat.scatter(2, places.flatten(2), x.flatten(2)).reshape((*x.shape[:2], *size))
        return in_format_of(_like(out, input), [input] if rank == 2 else [])

    function.__doc__ = "Zeros with numbers put back to where `max_pool` found them."
    return _named(function, name)


max_unpool1d, max_unpool2d, max_unpool3d = map(_unpool_function, (1, 2, 3))
