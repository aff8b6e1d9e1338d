"""`Variable`, the name that tensors with gradients had."""

from __future__ import annotations

from typing import Any

from eagerjit.autograd.callbacks import at_end_of_walk
from eagerjit.tensors.tensor import Tensor


class _Engine:
    """What programs ask of PyTorch's engine."""

    queue_callback = staticmethod(at_end_of_walk)


class _VariableType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableType):
    """`Variable(tensor, requires_grad=True)` is the tensor's memory as a new leaf; every Tensor is an instance."""

    _execution_engine = _Engine()

    def __new__(cls, data: Tensor, requires_grad: bool = False, volatile: bool = False) -> Tensor:  # type: ignore[misc]
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        if not isinstance(requires_grad, int):
            raise TypeError(f"'{type(requires_grad).__name__}' object cannot be interpreted as an integer")
        return data.detach().requires_grad_(requires_grad)
