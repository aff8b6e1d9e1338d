"""What packages take from PyTorch's core: tensors side by side in one vector, and which kind of device there is."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import eagerjit
from eagerjit.ops.index import cat
from eagerjit.tensors.tensor import Tensor


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """All elements of tensors of one dtype as a vector."""
    return cat.call([t.reshape(-1) for t in tensors], 0)


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of a vector in the shapes of tensors."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view(t.shape) for part, t in zip(parts, tensors, strict=True))


def _get_available_device_type() -> str | None:
    """The kind of the devices that there are beside the CPU, None without."""
    return "cuda" if eagerjit.cuda.is_available() else None


def _get_device_module(device_type: str) -> ModuleType:
    """The module of a kind of devices. Raises RuntimeError for a kind that has none."""
    module: ModuleType | None = getattr(eagerjit, device_type, None)
    if module is None:
        raise RuntimeError(f"Device '{device_type}' has no module 'torch.{device_type}'")
    return module
