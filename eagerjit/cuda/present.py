"""The devices that there are. The driver is looked for when a program first asks."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any, NoReturn

from eagerjit.devices import Device, check_device
from eagerjit.runtime.once import once
from eagerjit.tensors.placement import named

if TYPE_CHECKING:
    from eagerjit.runtime.gpu import devices as gpu


def found() -> gpu.Platform | None:
    """The driver and its devices, looked for at the first call; None without a driver or a device."""
    from eagerjit.runtime.gpu import devices

    return devices.platform() if devices.available() else None


def usable(device: Any) -> Device | None:
    """A device that tensors are to lie on, with its number; None for the host.

    Raises AssertionError without a driver, RuntimeError without a device of this number or without Triton, which
    compiles what devices run.
    """
    asked = Device(device)
    if asked.type != "cuda":
        check_device(asked)
        return None
    chosen = device_of(asked)
    if not has_compiler():
        raise RuntimeError(f"cannot put tensors on cuda:{chosen.index}: Triton, its compiler, is not installed")
    return named(chosen.index)


def missing() -> str | None:
    """What keeps tensors from lying on a device, None if nothing does."""
    from eagerjit.runtime.gpu import devices

    try:
        if not devices.platform().devices:
            return "the NVIDIA driver finds no device"
    except (OSError, AttributeError, RuntimeError) as error:
        return f"no NVIDIA driver: {error}"
    return None if has_compiler() else "Triton, which compiles kernels, is not installed: it comes with eagerjit[gpu]"


@once
def has_compiler() -> bool:
    """Whether Triton is installed."""
    return importlib.util.find_spec("triton") is not None


def absent(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises AssertionError: there is no CUDA device."""
    raise AssertionError("Torch not compiled with CUDA enabled: no CUDA driver with a device was found")


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
