"""Devices. Tensors live in the memory of the CPU."""

from __future__ import annotations

from typing import Any


class Device:
    """Where a tensor lives: `device("cpu")`."""

    __slots__ = ("index", "type")

    index: int | None
    type: str

    def __init__(self, type: Any = "cpu", index: int | None = None):
        if isinstance(type, Device):
            type, index = type.type, type.index
        if not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' must be str, not {type.__class__.__name__}")
        name, _, number = type.partition(":")
        self.type = name
        self.index = int(number) if number else index
        if name != "cpu":
            raise RuntimeError(f"device {type!r} is not available: this build computes on 'cpu'")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing changes: there is one device."""


CPU = Device("cpu")


def check_device(device: Any) -> None:
    """Refuse devices that tensors can't be made on."""
    if device is not None and device != "cpu":
        Device(device)
