"""torchvision's convolution whose kernel's places are moved by tensors (Zhu et al., Deformable ConvNets v2, 2018)."""

from __future__ import annotations

from typing import Any

from eagerjit import arange, sparse_csr_tensor, stack
from eagerjit.standin.operators.precision import in_float32
from eagerjit.tensors.tensor import Tensor


@in_float32
def deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, stride_h: int, stride_w: int, pad_h: int,
    pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int, use_mask: bool,
) -> Tensor:  # fmt: skip
    """The convolution of what lies at moved places, between pixels, 0 beyond the border, times a mask.

    input (images, channels, height, width), weight (results, channels / groups, rows, columns),
    offset (images, offset_groups * rows * columns * 2, result's height, width), y and x in turn,
    mask   (images, offset_groups * rows * columns, result's height, width)
    """
    images, channels, height, width = input.shape
    results, _, down, across = weight.shape
    high = (height + 2 * pad_h - dilation_h * (down - 1) - 1) // stride_h + 1
    wide = (width + 2 * pad_w - dilation_w * (across - 1) - 1) // stride_w + 1
    taps = down * across
    _check(input, weight, offset, mask, groups, offset_groups, use_mask, taps, high, wide)
    if 0 in (images, channels, results, high, wide):
        return input.new_zeros(images, results, high, wide) + bias.reshape(1, -1, 1, 1)
    moved = offset.reshape(images, offset_groups, taps, 2, high, wide)
    rows, columns = (arange(n, device=input.device).to(input.dtype) for n in (high, wide))
    tap = arange(taps, device=input.device)
    y = moved[:, :, :, 0] + ((tap // across) * dilation_h - pad_h)[:, None, None] + (rows * stride_h)[:, None]
    x = moved[:, :, :, 1] + ((tap % across) * dilation_w - pad_w)[:, None, None] + columns * stride_w
    kept = channels // offset_groups
    pixels = input.reshape(images * offset_groups, kept, height, width).permute(0, 2, 3, 1).reshape(-1, kept)
    plane = arange(images * offset_groups, device=input.device).reshape(images, offset_groups, 1, 1, 1)
    read = _read(pixels, plane, y, x, height, width).reshape(images, offset_groups, taps, high * wide, kept)
    if use_mask:
        read = read * mask.reshape(images, offset_groups, taps, high * wide, 1)
    factor = read.permute(0, 1, 4, 2, 3).reshape(images, groups, channels // groups * taps, high * wide)
    found = weight.reshape(groups, results // groups, -1) @ factor
    return found.reshape(images, results, high, wide) + bias.reshape(1, -1, 1, 1)


def _read(pixels: Tensor, plane: Tensor, y: Tensor, x: Tensor, height: int, width: int) -> Tensor:
    """Rows of pixels at places between them: the four around each, by their distances."""
    top, left = y.detach().floor(), x.detach().floor()
    weights, places = [], []
    for row, high in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, wide in ((left, 1 - (x - left)), (left + 1, x - left)):
            there = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            weights.append((high * wide).where(there, 0.0))
            i, j = row.clamp(0, height - 1).long(), column.clamp(0, width - 1).long()
            places.append((plane * height + i) * width + j)
    count = y.numel()
    starts = arange(0, 4 * count + 1, 4, device=y.device)
    at, by = stack(places, -1).reshape(-1), stack(weights, -1).reshape(-1)
    return sparse_csr_tensor(starts, at, by, (count, pixels.shape[0])) @ pixels


def _check(
    input: Any, weight: Any, offset: Any, mask: Any, groups: int, offset_groups: int, use_mask: bool, taps: int,
    high: int, wide: int,
) -> None:  # fmt: skip
    if weight.shape[1] * groups != input.shape[1]:
        raise RuntimeError(
            f"deform_conv2d: weight {list(weight.shape)} of {groups} groups does not fit input {list(input.shape)}"
        )
    if weight.shape[0] % groups:
        raise RuntimeError(f"deform_conv2d: weight {list(weight.shape)} is not divisible by {groups} groups")
    if input.shape[1] % offset_groups:
        raise RuntimeError(
            f"deform_conv2d: {input.shape[1]} channels are not divisible by {offset_groups} offset groups"
        )
    if high <= 0 or wide <= 0:
        raise RuntimeError(f"Calculated output size too small - out_h: {high} out_w: {wide}")
    expected = [input.shape[0], offset_groups * taps * 2, high, wide]
    if list(offset.shape) != expected:
        raise RuntimeError(f"deform_conv2d: offset of shape {expected} expected, got {list(offset.shape)}")
    expected[1] //= 2
    if use_mask and list(mask.shape) != expected:
        raise RuntimeError(f"deform_conv2d: mask of shape {expected} expected, got {list(mask.shape)}")


OPERATORS = {"deform_conv2d": deform_conv2d}
