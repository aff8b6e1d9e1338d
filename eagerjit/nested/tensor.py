"""NestedTensor: a Tensor of components that differ in size, all in one dense tensor, the values.

In layout `jagged` components differ along one dimension, and the values have all components' rows one after the other.
In layout `strided` they may differ along every dimension, and the values are one after the other in one dimension.

Functions of the library are given nested tensors by way of `__torch_function__`: each asks the tables of `handlers.py`.
"""

from __future__ import annotations

import math
from typing import Any

from eagerjit.calling import overriding
from eagerjit.nested.rows import Rows, rows_of
from eagerjit.runtime.once import once
from eagerjit.runtime.records import record
from eagerjit.state import state
from eagerjit.tensors.making import jagged, strided
from eagerjit.tensors.parted import PartedTensor, fact
from eagerjit.tensors.tensor import Shape, Tensor
from eagerjit.watching.observation import refuse_subclass


@record(frozen=True, eq=False)
class Jagged:
    """Components along the first dimension, whose rows lie along dimension `dim` of the whole."""

    rows: Rows
    dim: int


@record(frozen=True, eq=False)
class Blocks:
    """Components of these shapes, as many dimensions each."""

    shapes: tuple[tuple[int, ...], ...]

    @property
    def ndim(self) -> int:
        """How many dimensions components have."""
        return len(self.shapes[0]) if self.shapes else 0

    def ends(self) -> list[tuple[int, int]]:
        """Where each component's values begin, and how many it has."""
        sizes, start = [math.prod(shape) for shape in self.shapes], 0
        found = []
        for size in sizes:
            found.append((start, size))
            start += size
        return found


class NestedTensor(PartedTensor, taken=False):
    """Components of different sizes, in layout `jagged` or `strided`. The first dimension counts them."""

    __slots__ = ("_places_",)

    _places_: Any

    not_compiled = "it computes with a nested tensor"
    __hash__ = Tensor.__hash__

    @property
    def _entries(self) -> Tensor:
        if state.tracer is not None:
            refuse_subclass(self)
        return self._values_

    @_entries.setter
    def _entries(self, values: Tensor) -> None:
        self._values_ = values

    @property
    def _is_jagged(self) -> bool:
        return type(self._places_) is Jagged

    @property
    def shape(self) -> Any:
        """The sizes, one of them a RaggedSize. Raises RuntimeError in layout `strided`: ask `size(dim)`."""
        if not self._is_jagged:
            raise RuntimeError("a nested tensor of layout torch.strided has no shape: ask size(dim) of a dimension")
        sizes, rows = list(self._entries.shape), self._places_.rows
        sizes[self._places_.dim - 1] = rows.size
        return Shape((len(rows), *sizes))

    ndim = fact(lambda self: self._entries.ndim + 1 if self._is_jagged else self._places_.ndim + 1, "Dimensions.")
    layout = fact(lambda self: jagged if self._is_jagged else strided, "How the components lie in memory.")
    is_nested = fact(lambda self: True, "Whether the tensor is of kind nested: always.")
    is_sparse = fact(lambda self: False, "Whether the layout is `sparse_coo`: never.")
    is_sparse_csr = fact(lambda self: False, "Whether the layout is `sparse_csr`: never.")

    @property
    def data(self) -> NestedTensor:
        """The tensor without its history; another one may be assigned."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        self._places_ = value._places_
        self._entries = value._entries.detach().requires_grad_(self._requires_grad)

    @property
    def grad(self) -> Any:
        """The gradient, a nested tensor with the same components."""
        found = self._entries.grad
        return None if found is None else self.with_values(found)

    @grad.setter
    def grad(self, value: Any) -> None:
        self._entries.grad = value if value is None else self.values_of(value)

    @grad.deleter
    def grad(self) -> None:
        self._entries.grad = None

    _grad = grad

    @property
    def _ragged_idx(self) -> int:
        return jagged_in("_ragged_idx", self).dim

    def offsets(self) -> Tensor:
        """Where components begin among the rows, and where the last one ends: (components + 1,). Layout `jagged`."""
        return jagged_in("offsets", self).rows.offsets

    def lengths(self) -> Tensor | None:
        """How many rows components have, where not all rows up to the next one are theirs; else None."""
        return jagged_in("lengths", self).rows.lengths

    def with_values(self, values: Tensor) -> NestedTensor:
        """Components with other values: in layout `jagged` their other dimensions may differ."""
        places = self._places_
        if self._is_jagged and values.device != self._values_.device:
            places = Jagged(places.rows.on(values.device), places.dim)
        return made(places, values)

    def values_of(self, gradient: Tensor) -> Tensor:
        """The values of a gradient. Raises RuntimeError for one with other components."""
        if not isinstance(gradient, NestedTensor) or not alike(gradient, self):
            raise RuntimeError(f"a gradient of {described(gradient)} for a nested tensor of {described(self)}")
        return gradient._entries

    def detach(self) -> Any:
        """The same components without history."""
        return self.with_values(self._entries.detach())

    def in_own_memory(self) -> NestedTensor:
        """A copy of the values, without history."""
        return self.with_values(self._entries.detach().clone())

    def clone(self, **options: Any) -> Any:
        """A copy in memory of its own."""
        return self.with_values(self._entries.clone())

    def __repr__(self, **options: Any) -> str:
        from eagerjit.nested.printing import text

        return text(self)

    __str__ = __repr__

    def __reduce_ex__(self, protocol: Any) -> Any:
        places = self._places_
        parts = (places.rows.offsets, places.rows.lengths, places.dim) if self._is_jagged else places.shapes
        return rebuilt, (self._is_jagged, parts, self._values_.detach(), self._requires_grad, dict(self.__dict__))


def rebuilt(is_jagged: bool, parts: Any, values: Tensor, requires_grad: bool, attributes: dict[str, Any]) -> Any:
    """A nested tensor as it was reduced."""
    places: Any = Jagged(rows_of(*parts[:2]), parts[2]) if is_jagged else Blocks(parts)
    tensor = made(places, values).requires_grad_(requires_grad)
    tensor.__dict__.update(attributes)
    return tensor


def made(places: Jagged | Blocks, values: Tensor) -> Any:
    """A nested tensor with these values, whose place on the tape is its own."""
    _begin()
    tensor: Any = object.__new__(NestedTensor)
    if state.tracer is not None:
        refuse_subclass(tensor)
    tensor._places_, tensor._values_ = places, values
    return tensor


def jagged_in(name: str, tensor: Any) -> Jagged:
    """How a tensor of layout `jagged` is divided. Raises RuntimeError for another one."""
    if isinstance(tensor, NestedTensor) and tensor._is_jagged:
        return tensor._places_  # type: ignore[no-any-return]
    raise RuntimeError(f"{name}(): only of nested tensors of layout torch.jagged, not of {described(tensor)}")


def alike(one: NestedTensor, other: NestedTensor) -> bool:
    """Whether tensors have the same components: in layout `jagged`, rows of the same index tensors."""
    a, b = one._places_, other._places_
    if one._is_jagged != other._is_jagged:
        return False
    if not one._is_jagged:
        return bool(a.shapes == b.shapes)
    return a.rows is b.rows and a.dim == b.dim and one._entries.ndim == other._entries.ndim


def described(tensor: Any) -> str:
    """A tensor's sizes, for errors."""
    if isinstance(tensor, NestedTensor) and not tensor._is_jagged:
        return f"components {', '.join(map(str, tensor._places_.shapes))}"
    return f"shape {tuple(tensor.shape)}"


@once
def _begin() -> None:
    """Let functions of the library ask nested tensors, now that there are any."""
    NestedTensor.__torch_function__ = classmethod(_answer)
    overriding.begin()


def _answer(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What a function of the library does with a nested tensor among its arguments."""
    from eagerjit.nested.handlers import handler_of

    name = func.__name__
    if name == "__get__":
        name = next(n for n, value in vars(Tensor).items() if value is func.__self__)
    asked = overriding.overloaded([*args, *(kwargs or {}).values()])
    given = next((a for a in asked if isinstance(a, NestedTensor)), None)
    handler = None if given is None or any(not isinstance(a, NestedTensor) for a in asked) else handler_of(name, given)
    if handler is None:
        raise unsupported(name, next(a for a in asked if isinstance(a, NestedTensor)))
    return handler(func, *args, **(kwargs or {}))


def unsupported(name: str, tensor: NestedTensor) -> NotImplementedError:
    """What is raised for operations that nested tensors do not have."""
    return NotImplementedError(
        f"aten.{name}: there is no such operation on nested tensors of layout {tensor.layout}, here a {tensor.dtype} "
        f"tensor of {described(tensor)}"
    )
