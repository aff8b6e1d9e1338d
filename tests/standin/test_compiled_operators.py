"""Operators that torchvision has compiled for PyTorch, against what they say in plain loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import eagerjit as ej

ej.ops.load_library("/site-packages/torchvision/_C.so")
vision = ej.ops.torchvision
RNG = np.random.default_rng(0)


def boxes(count: int, size: float = 10.0) -> np.ndarray:
    corner = RNG.random((count, 2)) * size
    return np.concatenate([corner, corner + RNG.random((count, 2)) * size / 2], 1)


def regions(count: int, images: int, size: float = 10.0) -> np.ndarray:
    return np.concatenate([RNG.integers(0, images, (count, 1)), boxes(count, size)], 1)


# -- boxes ------------------------------------------------------------------------------------------------------------


def kept(found: np.ndarray, scores: np.ndarray, threshold: float) -> list[int]:
    """Greedily, one box after the other."""
    chosen: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        a = found[i]
        for j in chosen:
            b = found[j]
            wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
            both = max(wide, 0) * max(high, 0)
            union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both
            if both > threshold * union:
                break
        else:
            chosen.append(int(i))
    return chosen


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("count", [0, 1, 60])
@pytest.mark.parametrize("dtype", [ej.float32, ej.float64])
def test_suppression(count: int, threshold: float, dtype: Any) -> None:
    found, scores = boxes(count), np.round(RNG.random(count), 1)  # with ties
    result = vision.nms(ej.tensor(found, dtype=dtype), ej.tensor(scores, dtype=dtype), threshold)
    assert result.dtype is ej.int64 and result.tolist() == kept(found, scores, threshold)


def test_suppression_of_more_boxes_than_are_compared_at_a_time() -> None:
    found, scores = boxes(2500, 100.0), RNG.random(2500)
    assert vision.nms(ej.tensor(found), ej.tensor(scores), 0.2).tolist() == kept(found, scores, 0.2)


def test_suppression_along_a_chain() -> None:
    """Each box overlaps with the next alone: every second one stays, however long it takes to know."""
    left = np.arange(200) * 0.5
    found = np.stack([left, 0 * left, left + 0.9, 0 * left + 1], 1)
    assert vision.nms(ej.tensor(found), ej.tensor(-left), 0.1).tolist() == list(range(0, 200, 2))


def test_suppression_refuses() -> None:
    four, one = ej.rand(3, 4), ej.rand(3)
    for call, says in (
        (lambda: vision.nms(one, one, 0.5), "2d tensor, got 1D"),
        (lambda: vision.nms(ej.rand(3, 5), one, 0.5), "4 elements in dimension 1, got 5"),
        (lambda: vision.nms(four, four, 0.5), "1d tensor, got 2D"),
        (lambda: vision.nms(four, ej.rand(2), 0.5), "got 3 and 2"),
        (lambda: vision.nms(four, one.double(), 0.5), "same type"),
        (lambda: vision.nms(four.long(), one.long(), 0.5), "not implemented for"),
        (lambda: vision.nms(four, one), "iou_threshold"),
        (lambda: vision.qroi_align(four), "missing a required argument|no operator torchvision::qroi_align"),
    ):
        with pytest.raises(RuntimeError, match=says):
            call()


# -- regions ----------------------------------------------------------------------------------------------------------


def between(plane: np.ndarray, y: float, x: float) -> float:
    """Between the four pixels around; 0 beyond the border by more than one."""
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    above = plane[top, left] * (left + 1 - x) + plane[top, right] * (x - left)
    below = plane[bottom, left] * (left + 1 - x) + plane[bottom, right] * (x - left)
    return float(above * (top + 1 - y) + below * (y - top))


def aligned_means(
    x: np.ndarray, rois: np.ndarray, scale: float, bins: tuple[int, int], samples: int, shift: float, least: float,
    by_position: bool,
) -> np.ndarray:  # fmt: skip
    channels = x.shape[1] // (bins[0] * bins[1] if by_position else 1)
    out = np.zeros((len(rois), channels, *bins))
    for k, c, i, j in np.ndindex(out.shape):
        image, left, top, right, bottom = rois[k]
        left, top, right, bottom = (side * scale - shift for side in (left, top, right, bottom))
        high, wide = max(bottom - top, least) / bins[0], max(right - left, least) / bins[1]
        down, across = (samples if samples > 0 else math.ceil(size) for size in (high, wide))
        plane = x[int(image), (c * bins[0] + i) * bins[1] + j if by_position else c]
        read = [
            between(plane, top + high * (i + (a + 0.5) / down), left + wide * (j + (b + 0.5) / across))
            for a in range(down)
            for b in range(across)
        ]
        out[k, c, i, j] = sum(read) / max(len(read), 1)
    return out


@pytest.mark.parametrize("samples", [-1, 1, 3])
@pytest.mark.parametrize(("scale", "aligned"), [(1.0, False), (0.5, True), (1.7, True), (1.7, False)])
def test_aligned_regions(scale: float, aligned: bool, samples: int) -> None:
    x, rois = RNG.random((2, 3, 9, 12)), regions(8, 2)
    rois[0, 1:] = 9.0, 12.0, 9.0, 12.0  # empty, at the corner
    found = vision.roi_align(ej.tensor(x), ej.tensor(rois), scale, 3, 2, samples, aligned)
    least = 0.0 if aligned else 1.0
    expected = aligned_means(x, rois, scale, (3, 2), samples, 0.5 * aligned, least, False)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)
    assert found.is_contiguous()


@pytest.mark.parametrize("samples", [-1, 2])
def test_aligned_regions_by_position(samples: int) -> None:
    x, rois = RNG.random((2, 12, 9, 12)), regions(8, 2)
    found, channels = vision.ps_roi_align(ej.tensor(x), ej.tensor(rois), 0.8, 3, 2, samples)
    np.testing.assert_allclose(found.numpy(), aligned_means(x, rois, 0.8, (3, 2), samples, 0.5, 0.0, True), atol=1e-12)
    assert channels.dtype is ej.int32 and channels[0].flatten().tolist() == list(range(12))


def pixels(start: float, length: float, bins: int, i: int, extent: int) -> range:
    low, high = math.floor(i * length / bins) + start, math.ceil((i + 1) * length / bins) + start
    return range(int(min(max(low, 0), extent)), int(min(max(high, 0), extent)))


def half_away(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x)


@pytest.mark.parametrize("scale", [1.0, 0.6, 1.5])
def test_pooled_regions(scale: float) -> None:
    x, rois = RNG.standard_normal((2, 3, 9, 12)), regions(9, 2)
    rois[0, 1:] = -2.5, -4.0, -1.5, -3.0  # beyond the border
    found, places = vision.roi_pool(ej.tensor(x), ej.tensor(rois), scale, 3, 2)
    assert places.dtype is ej.int32 and found.shape == places.shape == (9, 3, 3, 2)
    for k, c, i, j in np.ndindex(tuple(found.shape)):
        left, top, right, bottom = (half_away(side * scale) for side in rois[k, 1:])
        rows = pixels(top, max(bottom - top + 1, 1), 3, i, 9)
        columns = pixels(left, max(right - left + 1, 1), 2, j, 12)
        plane = x[int(rois[k, 0]), c]
        best = max(((plane[a, b], a * 12 + b) for a in rows for b in columns), default=(0.0, -1))
        assert (found[k, c, i, j].item(), places[k, c, i, j].item()) == best


@pytest.mark.parametrize("scale", [1.0, 0.6, 1.5])
def test_pooled_regions_by_position(scale: float) -> None:
    x, rois = RNG.standard_normal((2, 12, 9, 12)), regions(9, 2)
    found, _ = vision.ps_roi_pool(ej.tensor(x), ej.tensor(rois), scale, 3, 2)
    for k, c, i, j in np.ndindex(tuple(found.shape)):
        left, top, right, bottom = (half_away(side * scale) for side in rois[k, 1:])
        rows = pixels(top, max(bottom - top, 1), 3, i, 8)
        columns = pixels(left, max(right - left, 1), 2, j, 11)
        plane = x[int(rois[k, 0]), (c * 3 + i) * 2 + j]
        read = [plane[a, b] for a in rows for b in columns]
        assert found[k, c, i, j].item() == pytest.approx(sum(read) / len(read) if read else 0.0, abs=1e-12)


CALLS: dict[str, Any] = {
    "roi_align": lambda x, r: vision.roi_align(x, r, 0.9, 2, 2, -1, True),
    "roi_pool": lambda x, r: vision.roi_pool(x, r, 0.9, 2, 2)[0],
    "ps_roi_align": lambda x, r: vision.ps_roi_align(x, r, 0.9, 2, 2, 2)[0],
    "ps_roi_pool": lambda x, r: vision.ps_roi_pool(x, r, 0.9, 2, 2)[0],
}


@pytest.mark.parametrize("name", CALLS)
def test_gradients_of_regions(name: str) -> None:
    x = ej.tensor(RNG.standard_normal((2, 4, 6, 5)), requires_grad=True)
    rois = ej.tensor(regions(5, 2, 5.0))
    assert ej.autograd.gradcheck(lambda x: CALLS[name](x, rois), (x,))


@pytest.mark.filterwarnings("ignore:.*runs eagerly")  # where sizes depend on the regions
@pytest.mark.parametrize("name", CALLS)
def test_regions_of_other_tensors(name: str) -> None:
    """Short numbers, views, autocast, nothing, and a compiled function."""
    x, rois = ej.tensor(RNG.standard_normal((2, 4, 7, 8)), dtype=ej.float32), ej.tensor(regions(5, 2), dtype=ej.float32)
    expected = CALLS[name](x, rois)
    half = CALLS[name](x.half(), rois.half())
    assert half.dtype is ej.float16
    assert ej.equal(half, CALLS[name](x.half().float(), rois.half().float()).half())
    turned = x.permute(2, 3, 0, 1).contiguous().permute(2, 3, 0, 1)
    assert ej.equal(CALLS[name](turned, rois), expected)
    with ej.autocast("cpu", dtype=ej.bfloat16):
        assert ej.equal(CALLS[name](x, rois), expected)
    assert CALLS[name](x, rois[:0]).shape == (0, *expected.shape[1:])
    assert CALLS[name](x[:, :0], rois).shape == (5, 0, 2, 2)
    compiled = ej.jit(CALLS[name])
    for given in (x, x * 2):
        assert ej.equal(compiled(given, rois), CALLS[name](given, rois))
    assert ej.equal(compiled(x, rois.flip(0)), CALLS[name](x, rois.flip(0)))


@pytest.mark.parametrize("name", CALLS)
def test_regions_that_are_nowhere(name: str) -> None:
    rois = ej.tensor([[0, math.nan, math.nan, math.nan, math.nan], [0, 0, 0, math.nan, 3], [0, -90, -90, -80, -80]])
    assert (CALLS[name](ej.ones(1, 4, 5, 5), rois) == 0).all()


def test_regions_refuse() -> None:
    x = ej.rand(1, 5, 4, 4)
    with pytest.raises(IndexError, match="out of bounds"):
        CALLS["roi_align"](ej.rand(1, 4, 4, 4), ej.tensor([[3.0, 0, 0, 3, 3]]))
    for call, says in (
        (lambda: CALLS["roi_align"](x, ej.rand(3, 4)), r"Tensor\[K, 5\], got \[3, 4\]"),
        (lambda: CALLS["roi_pool"](x, ej.rand(3, 5).double()), "same dtype"),
        (lambda: CALLS["roi_align"](x.long(), ej.zeros(3, 5).long()), "not implemented"),
        (lambda: CALLS["ps_roi_align"](x, ej.rand(3, 5)), "multiple of pooling height"),
    ):
        with pytest.raises(RuntimeError, match=says):
            call()


# -- convolutions at moved places -------------------------------------------------------------------------------------


def beyond_is_0(plane: np.ndarray, y: float, x: float) -> float:
    top, left = math.floor(y), math.floor(x)
    total = 0.0
    for a, high in ((top, top + 1 - y), (top + 1, y - top)):
        for b, wide in ((left, left + 1 - x), (left + 1, x - left)):
            if 0 <= a < plane.shape[0] and 0 <= b < plane.shape[1]:
                total += high * wide * plane[a, b]
    return total


def case(groups: int, shares: int, masked: bool) -> tuple[np.ndarray, ...]:
    taps = 3 * 2
    return (
        RNG.standard_normal((2, 4, 5, 6)), RNG.standard_normal((6, 4 // groups, 3, 2)),
        RNG.standard_normal((2, shares * taps * 2, 3, 7)) * 2,
        RNG.random((2, shares * taps, 3, 7)) if masked else np.zeros((2, 1)), RNG.standard_normal(6),
    )  # fmt: skip


OPTIONS = (2, 1, 2, 1, 2, 1)
"""Strides, paddings, dilations."""


@pytest.mark.parametrize(("groups", "shares", "masked"), [(1, 1, False), (2, 1, True), (1, 2, True), (2, 4, False)])
def test_moved_convolution(groups: int, shares: int, masked: bool) -> None:
    x, weight, offset, mask, bias = arrays = case(groups, shares, masked)
    found = vision.deform_conv2d(*map(ej.tensor, arrays), *OPTIONS, groups, shares, masked)
    assert found.shape == (2, 6, 3, 7)
    expected = np.zeros(found.shape)
    for n, o, i, j in np.ndindex(expected.shape):
        total = bias[o]
        for c in range(4 // groups):
            channel = o // (6 // groups) * (4 // groups) + c
            share = channel // (4 // shares)
            for tap in range(6):
                at = (share * 6 + tap) * 2
                y = i * 2 - 2 + (tap // 2) * 2 + offset[n, at, i, j]
                z = j - 1 + tap % 2 + offset[n, at + 1, i, j]
                factor = mask[n, share * 6 + tap, i, j] if masked else 1.0
                total += weight[o, c, tap // 2, tap % 2] * factor * beyond_is_0(x[n, channel], y, z)
        expected[n, o, i, j] = total
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-11)


def test_gradients_of_a_moved_convolution() -> None:
    tensors = [ej.tensor(a, requires_grad=True) for a in case(2, 2, True)]
    assert ej.autograd.gradcheck(lambda *given: vision.deform_conv2d(*given, *OPTIONS, 2, 2, True), tensors)


def test_moved_convolution_refuses() -> None:
    x, weight, offset, mask, bias = map(ej.tensor, case(1, 1, True))
    for given, says in (
        ((x, weight[:, :3], offset, mask, bias), "does not fit input"),
        ((x, weight, offset[:, 1:], mask, bias), "offset of shape"),
        ((x, weight, offset, mask[:, 1:], bias), "mask of shape"),
        ((x[:, :, :1, :1], weight, offset, mask, bias), "offset of shape|too small"),
    ):
        with pytest.raises(RuntimeError, match=says):
            vision.deform_conv2d(*given, *OPTIONS, 1, 1, True)


def test_what_is_registered_for_the_compiled_ones_is_not_needed() -> None:
    def backward(*args: Any) -> Any:
        raise AssertionError("not this one")

    ej.library.register_autograd("torchvision::roi_align", backward)
    ej.library.Library("torchvision", "IMPL", "Meta").impl(vision.roi_align.default, backward)
    x = ej.rand(1, 1, 4, 4, requires_grad=True)
    vision.roi_align(x, ej.tensor([[0.0, 0, 0, 3, 3]]), 1.0, 1, 1, 2, False).sum().backward()
    assert x.grad is not None and x.grad.sum().item() == pytest.approx(1.0)


def test_other_files_are_refused() -> None:
    with pytest.raises(OSError, match=r"loads no compiled operators: /x/torchvision/other\.so"):
        ej.ops.load_library("/x/torchvision/other.so")
