"""What programs ask of `torch.onnx` in passing: nothing is ever exported."""

from __future__ import annotations

from typing import Any

__all__ = ["is_in_onnx_export", "parse_args", "register_custom_op_symbolic"]


def is_in_onnx_export() -> bool:
    """False."""
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int, **options: Any) -> None:
    """Nothing: how an operator would be exported is never asked."""


def parse_args(*arg_descriptors: str) -> Any:
    """A decorator that gives the function back."""
    return lambda function: function
