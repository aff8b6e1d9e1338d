"""Checks that raise where they fail, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit import overrides
from eagerjit.tensors.tensor import Tensor

Message = Callable[[], str] | None


def _check_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """Raises an exception of this type, with what `message` gives, where the condition does not hold."""
    if not cond:
        shown = "Expected cond to be True, but got False." if message is None else str(message())
        raise error_type(shown)


def _check(cond: Any, message: Message = None) -> None:
    """`_check_with` RuntimeError."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Message = None) -> None:
    """`_check_with` IndexError."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Message = None) -> None:
    """`_check_with` ValueError."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Message = None) -> None:
    """`_check_with` TypeError."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Message = None) -> None:
    """`_check_with` NotImplementedError."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """`_check_with` of all elements of a tensor."""
    _check_with(error_type, cond.all(), message)


def _check_tensor_all(cond: Any, message: Message = None) -> None:
    """`_check` of all elements of a tensor."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_is_size(i: Any, message: Message = None, *, max: int | None = None) -> None:
    """Raises RuntimeError for a negative number."""
    _check(i >= 0 and (max is None or i <= max), message)


def _assert(condition: Any, message: str) -> Any:
    """Raises AssertionError with the message where the condition does not hold."""
    if type(condition) not in (bool, Tensor) and overrides.has_torch_function_unary(condition):
        return overrides.handle_torch_function(_assert, (condition,), condition, message)
    if not condition:
        raise AssertionError(message)
    return None


def _assert_async(input: Any, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raises RuntimeError where the tensor's one element is 0."""
    if input.numel() != 1:
        size = "no values" if input.numel() == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {size} is ambiguous")
    if not input:
        raise RuntimeError(assert_msg)
