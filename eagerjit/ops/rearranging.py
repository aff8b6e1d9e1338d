"""Channels and space rearranged: pixel and channel shuffles, windows as columns and back."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.calling.spatial import SpatialOp
from eagerjit.ops import index, views
from eagerjit.ops.convolution import numbers
from eagerjit.ops.padding import surrounded
from eagerjit.ops.windows import Numbers, bordered, count, taps_of
from eagerjit.recording.channels_last import in_format_of
from eagerjit.tensors.moving import row_major
from eagerjit.tensors.tensor import Tensor


def _spread_pixels(input: Tensor, r: int) -> Tensor:
    """(..., channels * r * r, height, width) as (..., channels, height * r, width * r); the sizes fit."""
    *batch, channels, height, width = input.shape
    channels = int(channels) // (r * r)  # code is for this many: that they divide is known then, and not only checked
    n = len(batch)
    parts = input.contiguous().reshape((*batch, channels, r, r, height, width))
    moved = parts.permute((*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return moved.contiguous().reshape((*batch, channels, height * r, width * r))


def _gather_pixels(input: Tensor, r: int) -> Tensor:
    """(..., channels, height * r, width * r) as (..., channels * r * r, height, width); the sizes fit."""
    *batch, channels, height, width = input.shape
    height, width = height // r, width // r
    n = len(batch)
    x = input.narrow(-2, 0, height * r).narrow(-1, 0, width * r)  # all of it, in sizes of which algebra can tell
    parts = x.reshape((*batch, channels, height, r, width, r))
    moved = parts.permute((*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return moved.contiguous().reshape((*batch, channels * (r * r), height, width))


spread_pixels = SpatialOp("pixel_shuffle", _spread_pixels, (lambda g, out, input, r: gather_pixels.call(g, r), None))
gather_pixels = SpatialOp("pixel_unshuffle", _gather_pixels, (lambda g, out, input, r: spread_pixels.call(g, r), None))


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., channels * r * r, height, width) as (..., channels, height * r, width * r)."""
    r = upscale_factor
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    channels = input.shape[-3]
    if channels % (r * r) != 0:
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    return spread_pixels.call(input, r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(..., channels, height * r, width * r) as (..., channels * r * r, height, width)."""
    r = downscale_factor
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    for name, place in (("height", -2), ("width", -1)):
        size = input.shape[place]
        if size % r != 0:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({place})={size} "
                f"is not divisible by {r}"
            )
    return gather_pixels.call(input, r)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels in the order first of each group, second of each group, ..."""
    if input.ndim <= 2:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    batch, channels, *rest = input.shape
    channels = int(channels)
    if channels % groups != 0:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
        )
    parts = input.reshape((batch, groups, channels // groups, *rest)).transpose(1, 2)
    return in_format_of(row_major.call(parts).reshape((batch, channels, *rest)), [input])


# -- windows as columns -----------------------------------------------------------------------------------------------


def _columns(input: Tensor, kernel: Numbers, dilation: Numbers, padding: Numbers, stride: Numbers) -> Tensor:
    """What every window of (batch, channels, ...) sees, as (batch, channels * taps, windows)."""
    sizes = zip(input.shape[2:], kernel, stride, padding, dilation, strict=True)
    windows = tuple(count(*each) for each in sizes)
    x = bordered(input, windows, kernel, stride, padding, dilation, 0)
    seen = [t.unsqueeze(2) for _, t in taps_of(x, windows, kernel, stride, dilation)]
    together = index.cat.call(seen, 2) if len(seen) > 1 else seen[0]
    return together.reshape((x.shape[0], x.shape[1] * len(seen), math.prod(windows)))


def _image(
    input: Tensor, size: Any, kernel: Numbers, dilation: Numbers, padding: Numbers, stride: Numbers
) -> Tensor:
    """The sums of what columns put at each place of (batch, channels, *size): `columns` transposed."""
    sizes = zip(size, kernel, stride, padding, dilation, strict=True)
    windows = tuple(count(*each) for each in sizes)
    taps = 1
    for k in kernel:
        taps *= k
    columns = input.contiguous().reshape((input.shape[0], int(input.shape[1]) // taps, taps, *windows))
    out = None
    for number in range(taps):
        rest, before, after = number, [0, 0], [0, 0]
        steps = []
        for d in reversed(range(len(kernel))):
            steps.append(rest % kernel[d] * dilation[d])
            rest //= kernel[d]
        for moved, n, w, p, s in zip(reversed(steps), size, windows, padding, stride, strict=True):
            missing = n + 2 * p - moved - (w - 1) * s - 1
            before.append(moved)
            after.append(missing)
        part = surrounded(columns.select(2, number), before, after, (1, 1, *stride))
        out = part if out is None else out + part
    assert out is not None
    for d, (n, p) in enumerate(zip(size, padding, strict=True)):
        out = views.narrow(out, d + 2, p, n)
    return out.clone()


columns_op = Op(
    "columns",
    _columns,
    (lambda g, out, input, *how: image_op.call(g, tuple(input.shape[2:]), *how), *(None,) * 4),
)
image_op = Op(
    "image_of_columns",
    _image,
    (lambda g, out, input, size, *how: columns_op.call(g, *how), *(None,) * 5),
    shapes=("size",),
)


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Every window of (batch, channels, height, width) as a column: (batch, channels * taps, windows)."""
    if input.ndim not in (3, 4):
        kind = IndexError if input.ndim < 3 else RuntimeError
        raise kind(f"unfold: expected 3D or 4D (batch mode) tensor, but got input of size {list(input.shape)}")
    if any(d == 0 for d in input.shape[-3:]):
        raise RuntimeError(
            f"Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
            f"input, but got: {list(input.shape)}"
        )
    kernel, spread = numbers("kernel_size", kernel_size, 2), numbers("dilation", dilation, 2)
    zeros, steps = numbers("padding", padding, 2), numbers("stride", stride, 2)
    _positive(kernel_size=kernel, dilation=spread, stride=steps)
    x = input if input.ndim == 4 else input.unsqueeze(0)
    windows = [count(*each) for each in zip(x.shape[2:], kernel, steps, zeros, spread, strict=True)]
    if any(n < 1 for n in windows):
        raise RuntimeError(
            f"Given input with spatial size {tuple(x.shape[2:])}, kernel_size={kernel}, dilation={spread}, "
            f"padding={zeros}, calculated shape of the array of sliding blocks as {tuple(windows)}, but its components "
            "must be at least one."
        )
    out = columns_op.call(x, kernel, spread, zeros, steps)
    return out if input.ndim == 4 else out.squeeze(0)


def _positive(**values: Numbers) -> None:
    for name, each in values.items():
        if any(v <= 0 for v in each):
            raise RuntimeError(f"{name} should be greater than zero, but got {each}")


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Columns (batch, channels * taps, windows) summed where their windows lie: (batch, channels, *output_size)."""
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {list(input.shape)}"
        )
    size = output_size if isinstance(output_size, (tuple, list)) and len(output_size) == 2 else (
        numbers("output_size", output_size, 2)
    )
    size, kernel = views.shape_argument(tuple(size)), numbers("kernel_size", kernel_size, 2)
    spread, zeros, steps = (
        numbers(name, v, 2) for name, v in (("dilation", dilation), ("padding", padding), ("stride", stride))
    )
    _positive(output_size=size, kernel_size=kernel, dilation=spread, stride=steps)
    x = input if input.ndim == 3 else input.unsqueeze(0)
    if x.shape[1] % (kernel[0] * kernel[1]) != 0:
        raise RuntimeError(
            f"Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={x.shape[1]} and kernel_size={kernel}."
        )
    windows = [count(*each) for each in zip(size, kernel, steps, zeros, spread, strict=True)]
    if any(n < 1 for n in windows) or windows[0] * windows[1] != x.shape[2]:
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={kernel}, dilation={spread}, padding={zeros}, stride={steps}, "
            f"expected size of input's dimension 2 to match the calculated number of sliding blocks {windows[0]} * "
            f"{windows[1]} = {windows[0] * windows[1]}, but got input.size(2)={x.shape[2]}."
        )
    out = image_op.call(x, size, kernel, spread, zeros, steps)
    return out if input.ndim == 3 else out.squeeze(0)
