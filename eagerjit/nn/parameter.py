"""Parameters, buffers, and both before their shape is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.tensors.creation import empty
from eagerjit.tensors.placement import device_of
from eagerjit.tensors.tensor import Parameter, Tensor, new_tensor, plain_function

__all__ = [
    "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "UninitializedTensorMixin", "is_lazy",
]  # fmt: skip

_ParameterMeta = type(Parameter)


class _BufferType(type):
    """Tells buffers by a mark: they are Tensors of the very class Tensor, which native calls know."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(metaclass=_BufferType):
    """A tensor that a Module registers as a buffer when it is assigned as an attribute."""

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        made = new_tensor(np.empty(0, np.float32)) if data is None else data.detach()
        made._is_buffer, made.persistent = True, persistent
        return made


class UninitializedTensorMixin:
    """A tensor whose shape is not known yet: `materialize` gives it one."""

    __slots__ = ()
    __torch_function__: Any = plain_function
    cls_to_become: type

    @property
    def shape(self) -> Any:
        """Refused: there is none yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Make it an ordinary parameter or buffer of this shape, with undefined contents."""
        made: Any = self
        place = device_of(made) if device is None else device
        made._data = empty(tuple(shape), dtype=dtype or made.dtype, device=place)._data
        made.__class__ = self.cls_to_become

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        made: Any = self
        return type(self), (made.requires_grad, made.device, made.dtype)


class UninitializedParameter(UninitializedTensorMixin, Parameter, taken=False):
    """A parameter whose shape the first call of its module tells."""

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        made = new_tensor(empty(0, dtype=dtype, device=device)._data, cls)
        made._requires_grad = bool(requires_grad)
        return made


class UninitializedBuffer(UninitializedTensorMixin, Tensor, taken=False):
    """A buffer whose shape the first call of its module tells."""

    __slots__ = ()
    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        made: Any = new_tensor(empty(0, dtype=dtype, device=device)._data, cls)
        made._requires_grad, made._is_buffer, made.persistent = bool(requires_grad), True, persistent
        return made


def is_lazy(tensor: Any) -> bool:
    """Whether a parameter or buffer has no shape yet."""
    return isinstance(tensor, UninitializedTensorMixin)
