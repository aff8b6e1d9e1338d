"""Models as ONNX files, and what programs ask of `torch.onnx` in passing."""

from __future__ import annotations

import importlib
from enum import Enum
from typing import Any

from eagerjit.state import state

__all__ = [
    "ONNXProgram", "OperatorExportTypes", "TrainingMode", "export", "is_in_onnx_export", "parse_args",
    "register_custom_op_symbolic",
]  # fmt: skip


class TrainingMode(Enum):
    """In which mode a Module would be exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(Enum):
    """As which operators a Module would be exported."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def __getattr__(name: str) -> Any:
    if name in ("export", "_export", "ONNXProgram"):
        exporting = importlib.import_module("eagerjit.onnx.exporting")
        return exporting.ONNXProgram if name == "ONNXProgram" else exporting.export
    raise AttributeError(f"module 'eagerjit.onnx' has no attribute '{name}'")


def is_in_onnx_export() -> bool:
    """Whether `export` runs the model just now."""
    return state.exporting


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int, **options: Any) -> None:
    """Nothing: how an operator would be exported is never asked."""


def parse_args(*arg_descriptors: str) -> Any:
    """A decorator that gives the function back."""
    return lambda function: function
