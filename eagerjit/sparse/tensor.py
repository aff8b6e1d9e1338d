"""SparseTensor: a Tensor that consists of a pattern of places and of one dense tensor, the values there.

Its place on the tape is that of its values, so there is one autograd engine, which knows of dense tensors alone.
Functions of the library are given sparse tensors by way of `__torch_function__`: each asks the tables of `handlers.py`.
"""

from __future__ import annotations

from typing import Any

from eagerjit.calling import overriding
from eagerjit.runtime import mode
from eagerjit.runtime.once import once
from eagerjit.runtime.records import record
from eagerjit.sparse.pattern import Compressed, Coordinates, Pattern
from eagerjit.state import state
from eagerjit.tensors.making import sparse_coo, sparse_csc, sparse_csr
from eagerjit.tensors.outputs import taken_out
from eagerjit.tensors.parted import PartedTensor, fact
from eagerjit.tensors.tensor import Shape, Tensor
from eagerjit.watching.observation import refuse_subclass

KINDS = {sparse_coo: "Sparse", sparse_csr: "SparseCsr", sparse_csc: "SparseCsc"}
"""What PyTorch's messages call the layouts."""


@record(frozen=True, eq=False)
class Unchanged:
    """Whether a sparse tensor consists of what it did when a function was recorded; its values may be others."""

    tensor: SparseTensor
    values: Tensor
    facts: Any
    pattern: Pattern
    versions: tuple[int, ...]

    def __call__(self) -> bool:
        now, values = self.tensor._pattern_, self.tensor._values_
        same = now is self.pattern and values is self.values
        return same and facts_of(values) == self.facts and now.versions() == self.versions


def facts_of(values: Tensor) -> Any:
    """What code may read of values beside elements."""
    return values._requires_grad, values._node is None, values._data.dtype, values._data.shape


def _met(tensor: SparseTensor) -> None:
    """Let compiled calls look whether a tensor from outside consists of the same parts; end other recordings."""
    assert state.tracer is not None
    journal = state.tracer.journal
    if journal is None:
        refuse_subclass(tensor)
    elif not any(type(c) is Unchanged and c.tensor is tensor for c in journal.checks):
        values, pattern = tensor._values_, tensor._pattern_
        journal.checks.append(Unchanged(tensor, values, facts_of(values), pattern, pattern.versions()))


def _part(name: str) -> property:
    """What a sparse tensor consists of: recordings note what they read, and end where it is replaced."""

    def get(self: Any) -> Any:
        if state.tracer is not None:
            _met(self)
        return getattr(self, name)

    def replace(self: Any, value: Any) -> None:
        if state.tracer is not None:
            refuse_subclass(self)
        setattr(self, name, value)

    return property(get, replace)


class SparseTensor(PartedTensor, taken=False):
    """Values at some places of a tensor that is zero elsewhere, in layout `sparse_coo`, `sparse_csr` or `sparse_csc`.

    `_pattern` has the places, `_entries` the values there, one row of dense dimensions each; `_sizes` are all sizes.
    """

    __slots__ = ("_pattern_", "_sizes_")

    _pattern_: Pattern
    _sizes_: Shape

    _entries, _pattern, _sizes = _part("_values_"), _part("_pattern_"), _part("_sizes_")

    is_recorded = True
    not_compiled = "it makes a sparse tensor, or replaces what one consists of"
    __hash__ = Tensor.__hash__

    shape = fact(lambda self: self._sizes, "The sizes, a `Size` tuple.")
    ndim = fact(lambda self: len(self._sizes), "The number of dimensions.")
    layout = fact(lambda self: self._pattern.layout, "How the elements lie in memory.")
    is_sparse = fact(lambda self: self._pattern.layout is sparse_coo, "Whether the layout is `sparse_coo`.")
    is_sparse_csr = fact(lambda self: self._pattern.layout is sparse_csr, "Whether the layout is `sparse_csr`.")
    T = fact(lambda self: self.t(), "The transpose.")

    @property
    def data(self) -> SparseTensor:
        """The tensor without its history; another one may be assigned."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        self._pattern, self._sizes = value._pattern, value._sizes
        self._entries = value._entries.detach().requires_grad_(self._requires_grad)

    @property
    def grad(self) -> Any:
        """The values' gradient, a sparse tensor with the same places."""
        from eagerjit.sparse.conversion import once_each

        found = self._entries.grad
        return None if found is None else once_each(like(self, found))

    @grad.setter
    def grad(self, value: Any) -> None:
        self._entries.grad = value if value is None else self.values_of(value)

    @grad.deleter
    def grad(self) -> None:
        self._entries.grad = None

    _grad = grad

    # The engine walks in a mode in which nobody is asked, and adds gradients up in either order.

    def __add__(self, other: Any) -> Any:
        from eagerjit.sparse.pointwise import add

        turned = mode.plain() and isinstance(other, Tensor) and not isinstance(other, SparseTensor)
        return add(other, self) if turned else add(self, other)

    def __radd__(self, other: Any) -> Any:
        from eagerjit.sparse.pointwise import add

        return add(other, self)

    def _increase(self, other: Any) -> Any:
        """Add a gradient: in place, or the sum of a dense one."""
        from eagerjit.sparse.pointwise import add, add_

        return add_(self, other) if isinstance(other, SparseTensor) else add(other, self)

    def with_values(self, values: Tensor) -> SparseTensor:
        """Other values at the same places."""
        return like(self, values)

    def values_of(self, gradient: Tensor) -> Tensor:
        """A gradient's values at this tensor's places."""
        return gradient.sparse_mask(self)._entries  # type: ignore[no-any-return]

    def in_own_memory(self) -> SparseTensor:
        """A copy of places and values, without history."""
        return made(self._pattern.cloned(), self._entries.detach().clone(), self._sizes)

    def clone(self, **options: Any) -> Any:
        """A copy in memory of its own."""
        from eagerjit.sparse.conversion import clone

        return clone(self, **options)

    def detach(self) -> Any:
        """The same tensor without history."""
        return made(self._pattern, self._entries.detach(), self._sizes)

    def coalesce(self) -> Any:
        """The same tensor with its places in order, the values of equal ones added up."""
        from eagerjit.sparse.conversion import coalesce

        return coalesce(self)

    def __repr__(self, **options: Any) -> str:
        from eagerjit.sparse.printing import text

        return text(self)

    __str__ = __repr__

    def __reduce_ex__(self, protocol: Any) -> Any:
        return rebuilt, (*self._pattern.parts, self._entries.detach(), tuple(self._sizes), *self._about())

    def _about(self) -> tuple[Any, ...]:
        return self._pattern.layout, getattr(self._pattern, "coalesced", True), self._requires_grad, dict(self.__dict__)


def rebuilt(*parts: Any) -> SparseTensor:
    """A sparse tensor as it was reduced."""
    *places, values, sizes, layout, coalesced, requires_grad, attributes = parts
    tensor = made(pattern_of(layout, places, sizes, coalesced), values, sizes)
    tensor.requires_grad_(requires_grad)
    tensor.__dict__.update(attributes)
    return tensor


def pattern_of(layout: Any, places: Any, sizes: Any, coalesced: bool) -> Pattern:
    """A pattern from its index tensors."""
    if layout is sparse_coo:
        return Coordinates(places[0], tuple(sizes[: places[0].shape[0]]), coalesced)
    lines, columns = places
    return Compressed(layout, lines, columns, tuple(sizes[:2]))


def made(pattern: Pattern, entries: Tensor, sizes: Any = None) -> SparseTensor:
    """A sparse tensor with these values, whose place on the tape is its own."""
    _begin()
    tensor = object.__new__(SparseTensor)
    if state.tracer is not None:
        refuse_subclass(tensor)
    tensor._pattern_, tensor._values_ = pattern, entries
    tensor._sizes_ = Shape((*pattern.sizes, *entries.shape[1:]) if sizes is None else sizes)
    return tensor


def like(tensor: SparseTensor, entries: Tensor) -> SparseTensor:
    """Other values at the same places."""
    return made(tensor._pattern, entries)


@once
def _begin() -> None:
    """Let functions of the library ask sparse tensors, now that there are any."""
    SparseTensor.__torch_function__ = classmethod(_answer)
    overriding.begin()
    _increase_by_sparse()


def _increase_by_sparse() -> None:
    """Let the engine add sparse gradients to dense ones."""
    from eagerjit.sparse.pointwise import add_

    entry: Any = Tensor._increase  # type: ignore[attr-defined]
    plain = entry.slow
    entry.slow = lambda self, other: (add_ if isinstance(other, SparseTensor) else plain)(self, other)


def _answer(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What a function of the library does with a sparse tensor among its arguments."""
    from eagerjit.sparse.handlers import HANDLERS

    name = func.__name__
    if name == "__set__":
        return _assign(func, *args)
    if name == "__get__":
        name = next(n for n, value in vars(Tensor).items() if value is func.__self__)
    handler = HANDLERS.get(name)
    if handler is None:
        given = next(a for a in overriding.overloaded([*args, *(kwargs or {}).values()]) if isinstance(a, SparseTensor))
        raise unsupported(name, given)
    if kwargs and kwargs.get("out") is not None:
        return _written(name, handler, args, dict(kwargs))
    return handler(*args, **(kwargs or {}))


def _written(name: str, handler: Any, args: Any, options: dict[str, Any]) -> Any:
    """A function's result, where `out=` says."""
    from eagerjit.sparse.handlers import WRITING

    out, write = options["out"], taken_out(name, args, options)
    given = next((a for a in overriding.overloaded([*args, *options.values()]) if isinstance(a, SparseTensor)), None)
    if write is None or name not in WRITING or given is None:
        raise unsupported(f"{name}.out", out if given is None else given)
    return write(handler(*args, **options))


def _assign(setter: Any, tensor: Tensor, value: SparseTensor) -> None:
    """Give a dense tensor a sparse gradient."""
    if setter.__self__ is not Tensor.grad:  # type: ignore[attr-defined]
        raise unsupported("__set__", value)
    if state.tracer is not None:
        refuse_subclass(value)
    before = mode.set_plain(True)
    try:
        setter(tensor, value)
    finally:
        mode.set_plain(before)


def unsupported(name: str, tensor: SparseTensor) -> NotImplementedError:
    """What is raised for operations that sparse tensors do not have."""
    backend = KINDS[tensor._pattern.layout] + ("CUDA" if tensor.is_cuda else "CPU")
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{backend}' backend: there is no such operation on "
        f"sparse tensors, here a {tensor.dtype} tensor of shape {list(tensor._sizes)} and layout {tensor.layout}"
    )


def wrong_layout(name: str, wanted: str, given: Tensor) -> RuntimeError:
    """What is raised for a tensor of another layout than a function needs."""
    kind = KINDS[given._pattern.layout] if isinstance(given, SparseTensor) else "Strided"
    return RuntimeError(f"{name} expected sparse {wanted}tensor layout but got {kind}")
