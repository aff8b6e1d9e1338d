"""Layouts of convolutions' weights: they are row-major, whatever is asked for."""

from __future__ import annotations

from typing import Any


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """The Module as it is: a layout is the compiler's choice inside of kernels."""
    return module


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """The Module as it is: a layout is the compiler's choice inside of kernels."""
    return module
