"""Names of PyTorch's core that its Modules use."""

from __future__ import annotations

from typing import Any

from eagerjit.devices import Device
from eagerjit.runtime.dtypes import DType
from eagerjit.tensors.tensor import Tensor


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Device | None, DType | None, bool, Any]:
    """What the arguments of `Module.to` say: (device, dtype, non_blocking, memory_format).

    They are (dtype), (device, dtype) or (tensor), in any of which the flag may follow.
    """
    device, dtype, flag = kwargs.get("device"), kwargs.get("dtype"), kwargs.get("non_blocking", False)
    for value in args:
        if isinstance(value, Tensor):
            device, dtype = value.device, value.dtype
        elif isinstance(value, DType):
            dtype = value
        elif isinstance(value, bool):
            flag = value
        elif value is not None:
            device = value
    return None if device is None else Device(device), dtype, flag, kwargs.get("memory_format")
