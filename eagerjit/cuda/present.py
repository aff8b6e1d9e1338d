"""The devices that there are. The driver is looked for when a program first asks."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from eagerjit.devices import Device

if TYPE_CHECKING:
    from eagerjit.runtime.gpu import devices as gpu

_DEVICES = "eagerjit.runtime.gpu.devices"


def found() -> gpu.Platform | None:
    """The driver and its devices; None without a driver, a device, or EAGERJIT_CUDA=1.

    Tensors lie in the memory of the CPU, and programs that see a device put them there: so devices are shown to those
    who ask for them in the environment.
    """
    wanted = os.environ.get("EAGERJIT_CUDA") == "1"
    if not wanted and _DEVICES not in sys.modules:
        return None
    from eagerjit.runtime.gpu import devices

    return devices.platform() if (wanted or devices.is_started()) and devices.available() else None


def absent(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises AssertionError: there is no CUDA device."""
    raise AssertionError("Torch not compiled with CUDA enabled: eagerjit computes on the CPU")


def needed() -> gpu.Platform:
    """The driver and its devices; AssertionError without them."""
    return found() or absent()


def index_of(device: Any, optional: bool = True) -> int | None:
    """The number of a device that is given as a number, a name or a device; None for this thread's.

    ValueError for a device of another kind, and where a number is wanted and none is given.
    """
    if device is None or isinstance(device, int):
        return device
    wanted = Device(device)
    if wanted.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {wanted}")
    if wanted.index is None and not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return wanted.index


def device_of(device: Any = None) -> gpu.Device:
    """A device that is given in any of these ways."""
    return needed().device(index_of(device))
