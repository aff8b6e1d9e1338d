"""torchvision's operators that pool regions of images: (region, channel, bin, bin) of (image, channel, height, width).

A region is a row (image, x1, y1, x2, y2). What a bin is is separable, weights of rows of pixels times weights of
columns. All bins together are a sparse matrix, times the pixels' channels; its transpose is the gradient.
"""

from __future__ import annotations

from typing import Any

from eagerjit import arange, cat, no_grad, sparse_csr_tensor
from eagerjit.runtime import dtypes
from eagerjit.runtime.records import record
from eagerjit.standin.operators.precision import in_float32
from eagerjit.tensors.tensor import Tensor


@record(frozen=True, eq=False)
class Axis:
    """Along one side of the images: which pixels bins have, (region, bin), and their weights.

    `low` and `count` are the first one and how many there are; `weights` is (region, bin, the most of them).
    """

    low: Tensor
    count: Tensor
    weights: Tensor


def _sampled(start: Tensor, size: Tensor, bins: int, samples: int, extent: int) -> Axis:
    """Bins of a size per region whose samples lie at equal distances, each between its neighbours.

    `samples` are as many per bin; of 0 and less, as many as a bin has pixels. Those beyond the border by more than a
    pixel count as 0.
    """
    device = start.device
    if samples > 0:
        counts, most = (size * 0 + samples), samples
    else:
        counts = size.ceil().clamp(min=0).nan_to_num(0.0)
        most = int(counts.max())
    first = start.unsqueeze(1) + arange(bins, device=device) * size.unsqueeze(1)
    counts, size = counts[:, None, None], size[:, None, None]
    number = arange(most, device=device).to(start.dtype)
    at = first.unsqueeze(2) + (number + 0.5) * size / counts
    there = (number < counts) & (at >= -1) & (at <= extent)
    at = at.clamp(0, extent - 1)
    low = at.where(there, float("inf")).amin(2).clamp(max=extent).floor().long()
    high = at.where(there, -1.0).amax(2).ceil().long()
    count = (high - low + 1).clamp(min=0)
    pixel = low.unsqueeze(2) + arange(int(count.max()), device=device)
    near = (1 - (at.unsqueeze(2) - pixel.unsqueeze(3)).abs()).clamp(min=0)
    weights = near.where(there.unsqueeze(2), 0.0).sum(3) / counts
    return Axis(low, count, weights)


def _whole(start: Tensor, length: Tensor, bins: int, extent: int) -> Axis:
    """Bins of whole pixels from a start per region, cut at the extent, of which each weighs the same."""
    size = (length / bins).unsqueeze(1)
    number = arange(bins, device=start.device).to(length.dtype)
    low = ((number * size).floor() + start.unsqueeze(1)).clamp(0, extent).long()
    high = (((number + 1) * size).ceil() + start.unsqueeze(1)).clamp(0, extent).long()
    count = (high - low).clamp(min=0)
    one = (1 / count.clamp(min=1).to(length.dtype)).unsqueeze(2)
    return Axis(low, count, one.expand(*count.shape, max(int(count.max()), 1)))


def _mean(input: Tensor, images: Tensor, rows: Axis, columns: Axis, by_position: bool) -> Tensor:
    """Bins' weighted sums; of channels by position each bin has its own share."""
    count, channels, height, width = input.shape
    regions, down = rows.low.shape
    across = columns.low.shape[1]
    bins = regions * down * across
    with no_grad():
        sizes = (rows.count.unsqueeze(2) * columns.count.unsqueeze(1)).reshape(-1)
        starts = cat((sizes.new_zeros(1), sizes.cumsum(0)))
        bin = arange(bins, device=input.device).repeat_interleave(sizes)
        row = bin // across
        region = row // down
        column = region * across + bin % across
        wide = columns.count.reshape(-1)[column]
        number = arange(bin.shape[0], device=input.device) - starts[bin]
        i, j = number // wide, number % wide
        weights = rows.weights.reshape(-1)[row * rows.weights.shape[2] + i]
        weights = weights * columns.weights.reshape(-1)[column * columns.weights.shape[2] + j]
        plane = images[region]
        if by_position:
            plane = plane * (down * across) + bin % (down * across)
        pixel = (plane * height + rows.low.reshape(-1)[row] + i) * width + columns.low.reshape(-1)[column] + j
    if by_position:
        kept = channels // (down * across)
        pixels = input.reshape(count, kept, down * across, height, width).permute(0, 2, 3, 4, 1).reshape(-1, kept)
    else:
        kept, pixels = channels, input.permute(0, 2, 3, 1).reshape(-1, channels)
    matrix = sparse_csr_tensor(starts, pixel, weights, (bins, pixels.shape[0]))
    return (matrix @ pixels).reshape(regions, down, across, kept).permute(0, 3, 1, 2).contiguous()


def _check(name: str, input: Any, rois: Any, bins: int = 0) -> None:
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise RuntimeError(f"{name}: Tensor rois should have shape as Tensor[K, 5], got {list(rois.shape)}")
    if input.dtype is not rois.dtype:
        raise RuntimeError(f"{name}: input and rois must have the same dtype, got {input.dtype} and {rois.dtype}")
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"\"{name}\" not implemented for '{input.dtype}'")
    if bins and input.shape[1] % bins:
        raise RuntimeError(f"{name}: input channels must be a multiple of pooling height * pooling width")


def _empty(input: Tensor, rois: Tensor, channels: int, *bins: int) -> bool:
    return 0 in (rois.shape[0], channels, *bins, *input.shape)


def _sides(rois: Tensor, scale: float, offset: float) -> tuple[Tensor, ...]:
    return tuple(side * scale - offset for side in rois[:, 1:].unbind(1))


def _rounded(rois: Tensor, scale: float) -> tuple[Tensor, ...]:
    """Halves away from zero, as C's `round`."""
    return tuple((side.abs() * scale + 0.5).floor() * side.sign() for side in rois[:, 1:].unbind(1))


@in_float32
def roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int,
    aligned: bool,
) -> Tensor:  # fmt: skip
    """Means of samples between pixels (He et al., Mask R-CNN, 2017)."""
    _check("roi_align", input, rois)
    if _empty(input, rois, input.shape[1], pooled_height, pooled_width):
        return input.new_zeros(rois.shape[0], input.shape[1], pooled_height, pooled_width)
    with no_grad():
        left, top, right, bottom = _sides(rois, spatial_scale, 0.5 if aligned else 0.0)
        high, wide = bottom - top, right - left
        if not aligned:
            high, wide = high.clamp(min=1), wide.clamp(min=1)
        rows = _sampled(top, high / pooled_height, pooled_height, sampling_ratio, input.shape[2])
        columns = _sampled(left, wide / pooled_width, pooled_width, sampling_ratio, input.shape[3])
    return _mean(input, rois[:, 0].long(), rows, columns, False)


@in_float32
def ps_roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int
) -> tuple[Tensor, Tensor]:
    """`roi_align` where each bin has channels of its own (Li et al., Light-Head R-CNN, 2017), and which."""
    bins = pooled_height * pooled_width
    _check("ps_roi_align", input, rois, bins)
    mapping = _mapping(rois, input.shape[1], pooled_height, pooled_width)
    if _empty(input, rois, mapping.shape[1], pooled_height, pooled_width):
        return input.new_zeros(*mapping.shape), mapping
    with no_grad():
        left, top, right, bottom = _sides(rois, spatial_scale, 0.5)
        rows = _sampled(top, (bottom - top) / pooled_height, pooled_height, sampling_ratio, input.shape[2])
        columns = _sampled(left, (right - left) / pooled_width, pooled_width, sampling_ratio, input.shape[3])
    return _mean(input, rois[:, 0].long(), rows, columns, True), mapping


@in_float32
def ps_roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """Means of whole pixels where each bin has channels of its own (Dai et al., R-FCN, 2016), and which.

    As in torchvision, no bin has the last row and column.
    """
    _check("ps_roi_pool", input, rois, pooled_height * pooled_width)
    mapping = _mapping(rois, input.shape[1], pooled_height, pooled_width)
    if _empty(input, rois, mapping.shape[1], pooled_height, pooled_width):
        return input.new_zeros(*mapping.shape), mapping
    with no_grad():
        left, top, right, bottom = _rounded(rois, spatial_scale)
        rows = _whole(top, (bottom - top).clamp(min=1), pooled_height, input.shape[2] - 1)
        columns = _whole(left, (right - left).clamp(min=1), pooled_width, input.shape[3] - 1)
    return _mean(input, rois[:, 0].long(), rows, columns, True), mapping


def _mapping(rois: Tensor, channels: int, down: int, across: int) -> Tensor:
    """The channel that a number was read of."""
    kept = channels // max(down * across, 1)
    found = arange(kept * down * across, device=rois.device, dtype=dtypes.int32).reshape(kept, down, across)
    return found.expand(rois.shape[0], -1, -1, -1).contiguous()


@in_float32
def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """Maxima of whole pixels (Girshick, Fast R-CNN, 2015), 0 where there are none, and their places, -1 there."""
    _check("roi_pool", input, rois)
    _, channels, height, width = input.shape
    shape = rois.shape[0], channels, pooled_height, pooled_width
    if _empty(input, rois, channels, pooled_height, pooled_width):
        return input.new_zeros(*shape), input.new_full(shape, -1, dtype=dtypes.int32)
    images = rois[:, 0].long()
    with no_grad():
        left, top, right, bottom = _rounded(rois, spatial_scale)
        rows = _whole(top, (bottom - top + 1).clamp(min=1), pooled_height, height)
        columns = _whole(left, (right - left + 1).clamp(min=1), pooled_width, width)
        pixels = input.permute(0, 2, 3, 1).reshape(-1, channels)
        best = input.new_full((rois.shape[0] * pooled_height * pooled_width, channels), float("-inf"))
        place = input.new_full(best.shape, -1, dtype=dtypes.int64)
        for i in range(int(rows.count.max())):
            for j in range(int(columns.count.max())):
                there = (i < rows.count).unsqueeze(2) & (j < columns.count).unsqueeze(1)
                pixel = (rows.low + i).unsqueeze(2) * width + (columns.low + j).unsqueeze(1)
                read = pixels.take_rows((images[:, None, None] * (height * width) + pixel).where(there, 0).reshape(-1))
                better = (read > best) & there.reshape(-1, 1)
                best = read.where(better, best)
                place = pixel.reshape(-1, 1).where(better, place)
        place = place.reshape(rois.shape[0], pooled_height, pooled_width, channels).permute(0, 3, 1, 2).contiguous()
        plane = (images.unsqueeze(1) * channels + arange(channels, device=input.device))[:, :, None, None]
        wanted = plane * (height * width) + place.clamp(min=0)
    return input.reshape(-1).take(wanted).where(place >= 0, 0.0), place.int()


OPERATORS = {"roi_align": roi_align, "ps_roi_align": ps_roi_align, "ps_roi_pool": ps_roi_pool, "roi_pool": roi_pool}
