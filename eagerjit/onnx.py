"""What programs ask of `torch.onnx` in passing: nothing is ever exported, and asking for it says so."""

from __future__ import annotations

from enum import Enum
from typing import Any, NoReturn

__all__ = [
    "OperatorExportTypes", "TrainingMode", "dynamo_export", "export", "is_in_onnx_export", "parse_args",
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


def export(model: Any, args: Any = (), f: Any = None, **options: Any) -> NoReturn:
    """Raises NotImplementedError: there is no exporter."""
    raise NotImplementedError(
        "torch.onnx.export: eagerjit writes no ONNX files; save the state with eagerjit.save, load it with PyTorch and "
        "export it there"
    )


dynamo_export = _export = export


def is_in_onnx_export() -> bool:
    """False."""
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int, **options: Any) -> None:
    """Nothing: how an operator would be exported is never asked."""


def parse_args(*arg_descriptors: str) -> Any:
    """A decorator that gives the function back."""
    return lambda function: function
