"""Depthwise convolutions: every channel has a kernel of its own, so that products of matrices would have one row.

They are sums of taps times strided slices, one fused loop; their gradients likewise, and these are each other's.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from eagerjit.autograd.formal import TOGETHER
from eagerjit.calling.dispatch import Op
from eagerjit.calling.spatial import SpatialOp
from eagerjit.ops import index
from eagerjit.ops.activation import widened
from eagerjit.ops.convolution import biased
from eagerjit.ops.padding import surrounded
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.windows import Numbers, bordered, count, taps_of
from eagerjit.recording.channels_last import lies_last
from eagerjit.tensors.tensor import Tensor

MOST_TAPS = 49


def _taps(weight: Tensor, kernel: Numbers, input: Tensor) -> dict[Numbers, Tensor]:
    """Each tap of every channel, shaped to multiply (batch, channels, ...).

    Where the input's channels are neighbours those of a tap are brought together.
    """
    found = {tap: _tap(weight, tap) for tap in product(*map(range, kernel))}
    if lies_last(input) and len(found) > 1:
        rows = index.cat.call([x.reshape((1, -1)) for x in found.values()], 0)
        found = {tap: rows.select(0, i).reshape(found[tap].shape) for i, tap in enumerate(found)}
    return found


def _tap(weight: Tensor, tap: Numbers) -> Tensor:
    out = weight.select(1, 0)
    for t in reversed(tap):
        out = out.select(out.ndim - 1, t)
    return out.reshape((-1, *(1,) * len(tap)))


def _depthwise(
    input: Tensor, weight: Tensor, bias: Tensor | None, kernel: Numbers, stride: Numbers, padding: Numbers,
    dilation: Numbers,
) -> Tensor:  # fmt: skip
    """Each channel of (batch, channels, ...) under its own kernel (channels, 1, ...), plus bias."""
    x, w = widened(input, weight)
    windows = tuple(count(*each) for each in zip(x.shape[2:], kernel, stride, padding, dilation, strict=True))
    x = bordered(x, windows, kernel, stride, padding, dilation, 0)
    total: Any = None
    taps = _taps(w, kernel, input)
    for tap, seen in taps_of(x, windows, kernel, stride, dilation):
        part = seen * taps[tap]
        total = part if total is None else total + part
    return biased(total, bias, input.dtype)


def _depthwise_input(
    output: Tensor, weight: Tensor, size: Any, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers
) -> Tensor:
    """The gradient of a depthwise convolution for its input of spatial sizes `size`."""
    y, w = widened(output, weight)
    before, after = [0, 0], [0, 0]
    for n, windows, k, s, p, d in zip(size, y.shape[2:], kernel, stride, padding, dilation, strict=True):
        missing = n + p - (windows - 1) * s - 1
        before.append(d * (k - 1) - p)
        after.append(missing if missing > 0 else 0)
    spread = surrounded(y, before, after, (1, 1, *stride))
    total: Any = None
    taps = _taps(w, kernel, output)
    for tap, seen in taps_of(spread, tuple(size), kernel, (1,) * len(kernel), dilation):
        part = seen * taps[tuple(k - 1 - t for k, t in zip(kernel, tap, strict=True))]
        total = part if total is None else total + part
    return as_dtype(total, output.dtype)


def _depthwise_weight(
    output: Tensor, input: Tensor, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers
) -> Tensor:
    """The gradient of a depthwise convolution for its weight."""
    y, x = widened(output, input)
    windows = y.shape[2:]
    x = bordered(x, windows, kernel, stride, padding, dilation, 0)
    # Where both factors lie side by side they are summed at once, the rest for all taps together.
    if len(kernel) > 1 and stride[-2] == 1:
        factors, together = _in_planes(x, windows, kernel, stride, dilation), 2
    else:
        factors, together = [seen for _, seen in taps_of(x, windows, kernel, stride, dilation)], 1
    axes = tuple(range(y.ndim - together, y.ndim))
    sums = [(y * seen).sum(axes).unsqueeze(1) for seen in factors]
    found = index.cat.call(sums, 1) if len(sums) > 1 else sums[0]
    found = found.sum((0, *range(3, found.ndim)))
    return as_dtype(found.permute((1, 0)).reshape((y.shape[1], 1, *kernel)), output.dtype)


def _in_planes(x: Tensor, windows: Any, kernel: Numbers, stride: Numbers, dilation: Numbers) -> list[Tensor]:
    """What every tap sees, its lines and columns in memory as those of the output: a copy for each of a line's taps."""
    ones = (1,) * (len(kernel) - 1)
    whole, across = (*x.shape[2:-1], windows[-1]), (*ones, kernel[-1])
    columns = [seen.unsqueeze(0) for _, seen in taps_of(x, whole, across, (*ones, stride[-1]), dilation)]
    copied = index.cat.call(columns, 0) if len(columns) > 1 else columns[0]
    down, steps = (*kernel[:-1], 1), (*stride[:-1], 1)
    each = [taps_of(copied.select(0, t), windows, down, steps, dilation) for t in range(kernel[-1])]
    return [seen for line in zip(*each, strict=True) for _, seen in line]


depthwise = SpatialOp(
    "depthwise_convolution",
    _depthwise,
    (
        lambda g, out, x, w, b, *how: depthwise_input.call(g, w, tuple(x.shape[2:]), *how),
        lambda g, out, x, w, b, *how: depthwise_weight.call(g, x, *how),
        lambda g, out, x, w, b, *how: g.sum((0, *range(2, g.ndim))),
        *(None,) * 4,
    ),
)
depthwise.formal, depthwise.follows = TOGETHER, True
depthwise_input = SpatialOp(
    "depthwise_convolution_input",
    _depthwise_input,
    (
        lambda g, out, y, w, size, *how: depthwise.call(g, w, None, *how),
        lambda g, out, y, w, size, *how: depthwise_weight.call(y, g, *how),
        *(None,) * 5,
    ),
    shapes=("size",),
)
depthwise_weight = Op(
    "depthwise_convolution_weight",
    _depthwise_weight,
    (
        lambda g, out, y, x, *how: depthwise.call(x, g, None, *how),
        lambda g, out, y, x, *how: depthwise_input.call(y, g, tuple(x.shape[2:]), *how),
        *(None,) * 4,
    ),
)


def kernel_of(weight: Tensor, padding: Numbers, dilation: Numbers) -> Numbers | None:
    """The kernel's sizes, for which code is made; None where matrix products had better do it."""
    kernel = tuple(map(int, weight.shape[2:]))
    taps = 1
    for k in kernel:
        taps *= k
    fits = all(p <= d * (k - 1) for p, d, k in zip(padding, dilation, kernel, strict=True))
    return kernel if 0 < taps <= MOST_TAPS and fits else None
