"""Devices: the CPU and CUDA devices, where tensors live; others can be named, and nothing can be put there."""

from __future__ import annotations

import functools
import re
import threading
from typing import Any

from eagerjit.state import set_device

_KINDS = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy",
    "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip
_FORM = r"([a-z]+)(?::(0|[1-9]\d*))?"
_COMPILED = {"cuda": "CUDA", "xpu": "XPU"}
NO_ACCELERATOR = "Cannot access accelerator device when none is available."


class Device:
    """Where a tensor lives: `device("cpu")`, `device("cuda", 1)`. As a context: where tensors are made by default.

    Other kinds can be named to be compared and passed on.
    """

    __slots__ = ("index", "type")

    index: int | None
    type: str

    def __init__(self, type: Any = None, index: int | None = None):
        if isinstance(type, Device):
            if index is not None:
                raise TypeError("device(): a device takes no other index")
            self.type, self.index = type.type, type.index
            return
        if isinstance(type, int) and not isinstance(type, bool):
            from eagerjit.cuda.present import found

            if found() is None:
                raise RuntimeError(NO_ACCELERATOR)
            self.type, self.index = "cuda", type
            return
        if not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' must be str, not {type.__class__.__name__}")
        if not type:
            raise RuntimeError("Device string must not be empty")
        form = re.fullmatch(_FORM, type)
        if form is None:
            raise RuntimeError(f"Invalid device string: '{type}'")
        name, number = form.groups()
        if name not in _KINDS:
            raise RuntimeError(f"Expected one of {', '.join(_KINDS)} device type at start of device string: {type}")
        if index is not None and number is not None:
            raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {type}")
        if index is not None and index < 0:
            raise RuntimeError("Device index must not be negative")
        self.type, self.index = name, int(number) if number is not None else index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __reduce__(self) -> Any:
        return Device, (self.type,) if self.index is None else (self.type, self.index)

    def __enter__(self) -> Device:
        from eagerjit.tensors.placement import wanted

        _before.entered.append(set_device(wanted(self)))
        return self

    def __exit__(self, *exc: object) -> None:
        """The default device is again what it was."""
        set_device(_before.entered.pop())

    def __call__(self, function: Any) -> Any:
        """The function with this as its default device."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return call


class _Before(threading.local):
    """The default devices of the contexts that this thread is in, outermost first."""

    def __init__(self) -> None:
        self.entered: list[Device | None] = []


_before = _Before()
CPU = Device("cpu")


def check_device(device: Any) -> None:
    """Refuse devices but the CPU, as PyTorch without them does."""
    if device is None or device == "cpu" or (type(device) is Device and device.type == "cpu"):
        return
    wanted = Device(device)
    if wanted.type == "cpu":
        return
    if wanted.type in _COMPILED:
        raise AssertionError(f"Torch not compiled with {_COMPILED[wanted.type]} enabled: this is made on the CPU alone")
    raise NotImplementedError(f"Could not run on device '{wanted}': tensors lie on the CPU or on CUDA devices")
