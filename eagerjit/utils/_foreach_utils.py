"""Lists of tensors in groups of one device and dtype, as optimizers of PyTorch's kind go through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerjit.tensors.tensor import Tensor


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Kinds of devices, besides the CPU, on which `torch._foreach_*` runs."""
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Kinds of devices on which a step is fused: each, where it is compiled."""
    return ["cuda", "cpu"]


def _device_has_foreach_support(device: Any) -> bool:
    """Whether `torch._foreach_*` runs on a device."""
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: Sequence[Tensor | None], device: Any) -> bool:
    """Whether `torch._foreach_*` takes tensors of a device: those of classes of their own it does not."""
    return _device_has_foreach_support(device) and all(t is None or type(t) is Tensor for t in tensors)


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """Lists that belong together, place by place, in groups by the device and dtype of the first list's tensors.

    A list may be empty, and any but the first may hold None. With `with_indices` the places of a group are given too.
    """
    if not tensorlistlist or not tensorlistlist[0]:
        raise RuntimeError("Expected a first list of tensors that is not empty")
    first, *others = tensorlistlist
    if any(part and len(part) != len(first) for part in others):
        raise RuntimeError("Expected lists of as many tensors as the first one holds, or of none")
    if any(tensor is None for tensor in first):
        raise RuntimeError("Tensors of the first list of nested Tensor lists are supposed to be defined")
    places: dict[tuple[Any, Any], list[int]] = {}
    for place, tensor in enumerate(first):
        places.setdefault((tensor.device, tensor.dtype), []).append(place)
    return {
        key: ([[part[i] for i in found] if part else [] for part in tensorlistlist], found if with_indices else [])
        for key, found in places.items()
    }
