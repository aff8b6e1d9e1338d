"""Tensors that consist of one dense tensor, their values, and of what says where these belong.

Their place on the tape is that of their values, so there is one autograd engine, which knows of dense tensors alone.
"""

from __future__ import annotations

from typing import Any

from eagerjit.tensors.tensor import Tensor, plain_function


def _of_values(name: str) -> property:
    """A slot that a tensor shares with its values."""
    slot = getattr(Tensor, name)
    return property(lambda self: slot.__get__(self._values_), lambda self, value: slot.__set__(self._values_, value))


def fact(read: Any, doc: str) -> property:
    """An attribute for reading."""
    return property(read, doc=doc)


class PartedTensor(Tensor, taken=False):
    """A base of classes of such tensors: `_values_` are the values, `_entries` the same for whoever may be recorded."""

    __slots__ = ("_values_",)

    _values_: Tensor
    _entries: Any

    is_data = False
    __torch_function__: Any = plain_function  # of derived classes too, until their first instance is made
    __hash__ = Tensor.__hash__

    _data, _node, _index = _of_values("_data"), _of_values("_node"), _of_values("_index")
    _requires_grad, _hooks = _of_values("_requires_grad"), _of_values("_hooks")
    _storage, _view = _of_values("_storage"), _of_values("_view")

    dtype = fact(lambda self: self._entries.dtype, "The element type.")
    device = fact(lambda self: self._entries.device, "Where the tensor lives.")
    is_cpu = fact(lambda self: self._entries.is_cpu, "Whether the tensor lives on the CPU.")
    is_cuda = fact(lambda self: self._entries.is_cuda, "Whether the tensor lives on a CUDA device.")
    is_leaf = fact(lambda self: self._entries.is_leaf, "Whether no recorded operation produced this tensor.")
    grad_fn = fact(lambda self: self._entries.grad_fn, "The autograd node that produced the values.")
    itemsize = fact(lambda self: self._entries.itemsize, "Bytes of an element.")

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to the values."""
        return self._entries._requires_grad  # type: ignore[no-any-return]

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._entries.requires_grad = value

    def with_values(self, values: Tensor) -> Any:
        """A tensor of this one's kind with other values in the same places."""
        raise NotImplementedError

    def in_own_memory(self) -> Any:
        """A copy of everything, without history."""
        raise NotImplementedError

    def _as_this(self, made: Any) -> Any:
        """A tensor with this one's attributes, which requires a gradient if this one does."""
        made.requires_grad_(self._requires_grad)
        made.__dict__.update(self.__dict__)
        return made

    def __format__(self, specification: str) -> str:
        return object.__format__(self, specification)

    def __copy__(self) -> Any:
        return self._as_this(self.detach())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user support the deepcopy protocol at the moment"
            )
        if id(self) not in memo:
            memo[id(self)] = self._as_this(self.in_own_memory())
        return memo[id(self)]

    def values_of(self, gradient: Tensor) -> Tensor:
        """The values of a gradient of this tensor."""
        raise NotImplementedError
