"""The marks in a Module that was not converted. Nothing is converted."""

from __future__ import annotations

from typing import Any

from eagerjit.nn.module import Module

__all__ = ["DeQuantStub", "FakeQuantizeBase", "ObserverBase", "QuantStub"]


class QuantStub(Module):
    """Marks where values would be quantized; gives them back."""

    def __init__(self, qconfig: Any = None):
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        """`x` itself."""
        return x


class DeQuantStub(QuantStub):
    """Marks where values would be floating point again."""


class ObserverBase(Module):
    """Watches the range of values; nothing is an instance, as nothing is converted."""


class FakeQuantizeBase(Module):
    """Rounds values as quantizing would; nothing is an instance, as nothing is converted."""
