"""torchvision's operators on boxes (x1, y1, x2, y2)."""

from __future__ import annotations

from typing import Any

from eagerjit import cat, no_grad
from eagerjit.calling.dispatch import Op
from eagerjit.runtime import dtypes
from eagerjit.tensors.tensor import Tensor

_BLOCK = 1024
"""Boxes that are compared with each other at a time."""


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The numbers of the boxes that no better box overlaps by more than the threshold, which is itself one of these.

    By decreasing score; overlap is the area of the intersection divided by that of the union. Raises RuntimeError for
    other shapes than (n, 4) and (n,), or dtypes that differ or are no floating-point ones.
    """
    _check(dets, scores)
    with no_grad():
        order = scores.argsort(dim=0, descending=True, stable=True)
        boxes = dets.take_rows(order)
        kept: list[Tensor] = []
        numbers = [order[:0]]
        for block, places in zip(boxes.split(_BLOCK), order.split(_BLOCK), strict=True):
            free = block.new_ones(block.shape[0], dtype=dtypes.bool_)
            for others in kept:
                free = free & ~_overlaps.call(block, others, iou_threshold).any(1)
            better = _overlaps.call(block, block, iou_threshold).tril(-1)
            chosen, before = free, None
            # What the first k boxes' better ones leave of them is settled after k rounds, and mostly after a few.
            while before is None or not bool((chosen == before).all()):
                chosen, before = free & ~(better & chosen).any(1), chosen
            kept.append(block[chosen])
            numbers.append(places[chosen])
        return cat(numbers)


def _overlaps_body(boxes: Tensor, others: Tensor, threshold: float) -> Tensor:
    """(boxes, others): which overlap by more than a threshold."""
    left, top, right, bottom = (side.unsqueeze(1) for side in boxes.unbind(1))
    others_left, others_top, others_right, others_bottom = others.unbind(1)
    width = (right.minimum(others_right) - left.maximum(others_left)).clamp(min=0)
    height = (bottom.minimum(others_bottom) - top.maximum(others_top)).clamp(min=0)
    both = width * height
    areas = (right - left) * (bottom - top)
    others_areas = (others_right - others_left) * (others_bottom - others_top)
    return (both / (areas + others_areas - both)).double() > threshold


_overlaps = Op("box_overlaps", _overlaps_body, None, differentiable=False)


def _check(dets: Any, scores: Any) -> None:
    if dets.ndim != 2:
        raise RuntimeError(f"boxes should be a 2d tensor, got {dets.ndim}D")
    if dets.shape[1] != 4:
        raise RuntimeError(f"boxes should have 4 elements in dimension 1, got {dets.shape[1]}")
    if scores.ndim != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {scores.ndim}D")
    if dets.shape[0] != scores.shape[0]:
        raise RuntimeError(
            "boxes and scores should have same number of elements in dimension 0, got "
            f"{dets.shape[0]} and {scores.shape[0]}"
        )
    if dets.dtype is not scores.dtype:
        raise RuntimeError("dets should have the same type as scores")
    if dets.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(f"\"nms_kernel\" not implemented for '{dets.dtype}'")


def _cuda_version() -> int:
    """-1: nothing here was compiled for some version of CUDA."""
    return -1


OPERATORS = {"nms": nms, "_cuda_version": _cuda_version}
