"""Kinds of arguments that an op takes, read off its body's annotations; others raise PyTorch's TypeError.

Asked where no native table serves a call. Tables know arguments by their classes, so that what is refused gets into
none, and calls that they serve ask nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import unwrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eagerjit.calling.arguments import settled
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.runtime.dtypes import DType
from eagerjit.state import state
from eagerjit.tensors.fitting import whole
from eagerjit.tensors.making import PYTHON_TYPES
from eagerjit.tensors.tensor import Tensor

if TYPE_CHECKING:
    from eagerjit.calling.dispatch import Op

_OPERANDS = (Tensor, bool, int, float, complex, SymbolicInt, TracedFloat, np.generic)


class Kind(NamedTuple):
    """What one parameter takes, and the words for it."""

    position: int
    takes: Callable[[Any], bool]
    words: str


def _is_tensor(value: Any) -> bool:
    """None is left to the body, which knows whether it can do without."""
    return value is None or isinstance(value, Tensor)


def _is_flag(value: Any) -> bool:
    return type(value) is bool


def is_integer(value: Any) -> bool:
    """Whether PyTorch takes it for an int: a tensor or an array that has dimensions is none."""
    if type(value) is int:
        return whole(value) is value
    if isinstance(value, Tensor):
        return value.dtype.kind in ("int", "uint") and value.ndim == 0
    return hasattr(value, "__index__") and not isinstance(value, (bool, np.bool_, np.ndarray))


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.ndim == 0 and not value.requires_grad
    return isinstance(value, (int, float, complex, np.number, np.bool_))


def _is_real(value: Any) -> bool:
    """None is left to the body as well."""
    if value is None:
        return True
    if isinstance(value, Tensor):
        return _is_number(value) and not value.dtype.is_complex
    return isinstance(value, (int, float, np.integer, np.floating, np.bool_))


def _is_dtype(value: Any) -> bool:
    return value is None or isinstance(value, DType)


_KINDS = {
    "Tensor": (_is_tensor, "Tensor"),
    "Tensor | None": (_is_tensor, "Tensor"),
    "bool": (_is_flag, "bool"),
    "int": (is_integer, "int"),
    "float": (_is_real, "float"),
    "float | None": (_is_real, "float"),
    "complex": (_is_number, "Number"),
}
_DTYPE = (_is_dtype, "torch.dtype")


def kinds_of(body: Callable[..., Any], names: Sequence[str]) -> tuple[Kind, ...]:
    """What a body's annotations say of its parameters, where that is one of a few kinds."""
    annotations = unwrap(body).__annotations__
    found = [_DTYPE if name == "dtype" else _KINDS.get(annotations.get(name, "")) for name in names]
    return tuple(Kind(position, *kind) for position, kind in enumerate(found) if kind is not None)


def are_operands(arguments: tuple[Any, ...]) -> bool:
    """Whether operators take them all: tensors and numbers."""
    return all([isinstance(a, _OPERANDS) for a in arguments])


def taken(op: Op, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a call settled. Raises TypeError for those of kinds that the op does not take.

    Other ops' bodies may give numbers where users give tensors.
    """
    if state.tracer is None or state.tracer.source is None:
        for position, takes, words in op.kinds:
            if not takes(value := arguments[position]):
                arguments = (*arguments[:position], _read(op, position, value, words), *arguments[position + 1 :])
    return tuple(map(settled, arguments))


def _read(op: Op, position: int, value: Any, words: str) -> Any:
    """What an argument of another kind stands for: Python's types are dtypes."""
    kind = type(value)
    if words == "torch.dtype" and kind is type and value in PYTHON_TYPES:
        return PYTHON_TYPES[value]
    given = f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__
    place = f"argument '{op.parameters[position]}' (position {position + 1})"
    raise TypeError(f"{op.name}(): {place} must be {words}, not {given}")
