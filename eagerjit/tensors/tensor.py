"""Tensor: an ndarray, or a node of the trace being recorded, with its place in the autograd graph.

The class holds state and identity only; operators and methods are attached from the op declarations by `methods.py`.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from eagerjit.compiler.ir import Node
from eagerjit.runtime import dtypes, layout, mode
from eagerjit.runtime.binding import bound
from eagerjit.runtime.remembered import Remembered
from eagerjit.runtime.source import Place
from eagerjit.runtime.views import TensorCall
from eagerjit.state import note_leaf, note_methods, state
from eagerjit.tensors.typed import TensorOperators


class Storage:
    """What all views of one memory share: how often it was written in place, and where last; the views themselves, and
    how many there have been.

    `whole` is the array of all of it where no tensor needs to be over all, as in a file. Others have no such attribute.
    """

    __slots__ = ("registered", "source", "version", "views", "whole")
    whole: np.ndarray

    def __init__(self) -> None:
        self.version = self.registered = 0
        self.source: Place | None = None
        self.views: list[weakref.ref[Tensor]] = []

    def register(self, view: Tensor) -> None:
        """Remember a view, for as long as it lives, as one that in-place writes change."""
        if len(self.views) >= 16 and len(self.views) & (len(self.views) - 1) == 0:
            self.views = [r for r in self.views if r() is not None]
        self.views.append(weakref.ref(view))
        view._view.number = self.registered
        self.registered += 1


class View:
    """How a tensor was made from its base: the same view of another value, and the base with the view overwritten.

    `tracked` views take part in the gradients of in-place writes; those made without gradients do not. `among` is
    the function that gave this view as one of several, to which writes with gradients are refused. `number` is the
    view's among all that were registered.
    """

    __slots__ = ("among", "arguments", "base", "number", "op", "tracked")

    def __init__(self, base: Tensor, op: Any, arguments: tuple[Any, ...], tracked: bool, among: Any = None):
        self.base, self.op, self.arguments, self.tracked, self.among = base, op, arguments, tracked, among
        self.number = 0

    def read(self, tracer: Any, base: Node) -> Node:
        """The view of another value of the base."""
        return self.op.record(tracer, base, *self.arguments)

    def write(self, tracer: Any, base: Node, value: Node) -> Node:
        """The base's value after the view was overwritten."""
        return self.op.overwrite(tracer, base, value, *self.arguments)


class TensorClass(type):
    """The class of Tensor: where programs give it other methods, compiled calls look whether they still apply."""

    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        note_methods()

    def __delattr__(cls, name: str) -> None:
        super().__delattr__(name)
        note_methods()


class Tensor(TensorOperators, metaclass=TensorClass):
    """A multi-dimensional array of one dtype, with PyTorch's interface.

    Make one with `tensor`, `zeros`, `randn`, `from_numpy` and so on.
    """

    __slots__ = (
        "__dict__", "__weakref__", "_data", "_grad", "_hooks", "_index", "_node", "_requires_grad", "_storage", "_view",
    )  # fmt: skip

    _data: Any
    _node: Any
    _index: int
    _requires_grad: bool
    _grad: Tensor | None
    _storage: Storage | None
    _hooks: Any
    _view: Any

    def __init_subclass__(cls, taken: bool = True, **options: Any) -> None:
        super().__init_subclass__(**options)
        if is_asked(cls):
            from eagerjit.calling.overriding import begin

            begin()
        elif taken:
            layout.accept(cls)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What an operation on instances of a subclass does: the plain one, whose results are of the subclass too."""
        from eagerjit.calling.overriding import plainly

        return plainly(cls, func, types, args, kwargs)

    def __new__(cls, *args: Any, **kwargs: Any) -> Tensor:
        from eagerjit.tensors.legacy import legacy_tensor

        return legacy_tensor(cls, *args, **kwargs)

    @property
    @Remembered
    def dtype(self) -> dtypes.DType:
        """The element type."""
        data = self._data
        return data.type.dtype if type(data) is Node else dtypes.BY_NUMPY[data.dtype]

    @property
    @Remembered
    def shape(self) -> Any:
        """The sizes, a `Size` tuple."""
        if state.tracer is not None:
            return state.tracer.shape_of(self)
        return Shape(self._data.shape)

    @property
    @Remembered
    def ndim(self) -> int:
        """The number of dimensions."""
        data = self._data
        return len(data.type.shape) if type(data) is Node else data.ndim

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this tensor."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if type(value) is not bool:
            raise RuntimeError("requires_grad must be a bool")
        Tensor.requires_grad_(self, value)  # a subclass's own method may assign the attribute

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Sets `requires_grad` of a leaf, in place. Raises RuntimeError for integers and for results of operations."""
        if not isinstance(requires_grad, int):
            kind = type(requires_grad).__name__
            raise TypeError(f"requires_grad_(): argument 'requires_grad' (position 1) must be bool, not {kind}")
        if self._node is not None:
            if requires_grad:
                return self
            self._refuse_in_trace("requires_grad of a tensor from outside that has a history was set")
            raise RuntimeError("you can only change requires_grad flags of leaf variables.")
        if requires_grad and not self.dtype.is_differentiable:
            raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
        tracer = state.tracer
        if tracer is not None and self._requires_grad != bool(requires_grad):
            tracer.set_requires_grad(self, bool(requires_grad))
        if requires_grad and state.begun is not None and not self._requires_grad:
            state.begun.append(self)
        self._requires_grad = bool(requires_grad)
        return self

    @property
    def grad_fn(self) -> Any:
        """The autograd node that produced this tensor, None for a leaf."""
        if self._requires_grad:
            self._refuse_in_trace("the history of a tensor from outside was read")
            bound.refresh(self)
        return self._node

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation produced this tensor."""
        if self._requires_grad and state.tracer is not None:
            state.tracer.guard_leaf(self)
        return self._node is None

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient, None before the first backward."""
        if state.tracer is not None:
            return state.tracer.get_grad(self)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"assigned grad expected to be a Tensor or None but got type {type(value).__name__}")
            if value is self:
                raise RuntimeError("can't assign a tensor as its own grad")
            if tuple(value.shape) != tuple(self.shape) or value.dtype is not self.dtype:
                given, own = f"{value.dtype} of {list(value.shape)}", f"{self.dtype} of {list(self.shape)}"
                raise RuntimeError(f"assigned grad has data of a different size or dtype: {given} for {own}")
        if state.tracer is not None:
            state.tracer.set_grad(self, value)
        else:
            self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def _version(self) -> int:
        root = self
        while root._view is not None:
            root = root._view.base
        root._refuse_in_trace("the version of a tensor from outside was read")
        return version_of(self)

    def _refuse_in_trace(self, reason: str) -> None:
        """End a trace that would keep something of an outside tensor that the next call's may not have."""
        if state.tracer is not None and type(self._data) is not Node:
            from eagerjit.watching.observation import TraceBreak, user_line

            raise TraceBreak(reason, user_line())

    def __hash__(self) -> int:
        if state.tracer is not None:
            state.tracer.compares_identities = True
            state.tracer.hashed.add(id(self))
        return id(self)


def plain_function(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The `__torch_function__` of classes that are not asked: the plain call."""
    before = mode.set_plain(True)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        mode.set_plain(before)


def is_asked(kind: type) -> bool:
    """Whether a class is asked before functions are called with its instances."""
    function = getattr(kind, "__torch_function__", None)
    if function is None or function is plain_function or kind is Tensor:
        return False
    return getattr(function, "__module__", "") not in _OF_PYTORCH  # its tensors are data here, as NumPy's arrays are


_OF_PYTORCH = ("torch._tensor", "torch._C")


class ParameterClass(TensorClass):
    """The class of Parameter."""


class Parameter(Tensor, metaclass=ParameterClass, taken=False):
    """A leaf Tensor that a Module registers when it is assigned as an attribute.

    Operations on it, and on instances of its subclasses, give plain Tensors. Of an instance of another subclass of
    Tensor it makes one of that class, which is a Parameter too.
    """

    __slots__ = ()
    __torch_function__: Any = plain_function

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if not isinstance(requires_grad, int):
            raise TypeError(f"Parameter(): argument 'requires_grad' must be bool, not {type(requires_grad).__name__}")
        if data is not None and is_asked(type(data)):
            made: Any = data.detach().requires_grad_(requires_grad)
            made._is_param = True
            return made
        if data is not None and state.tracer is not None:
            parameter = state.tracer.silence(data.detach(), cls)
        else:
            parameter = new_tensor(np.empty(0, np.float32) if data is None else data._data, cls)
            if data is not None:
                from eagerjit.ops.strided import share_whole

                share_whole(parameter, data)
        if requires_grad and data is not None and not data.dtype.is_differentiable:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        Tensor.requires_grad_(parameter, bool(requires_grad))
        return note_leaf(parameter)


class Shape(tuple):
    """A tensor's sizes: a tuple with `numel`, whose slices and sums are sizes too."""

    __slots__ = ()

    def __new__(cls, sizes: Any = ()) -> Shape:
        made = tuple.__new__(cls, sizes)
        for position, size in enumerate(made):
            if type(size) is int:
                continue
            if isinstance(size, Tensor):
                return cls(d.__index__() if isinstance(d, Tensor) else d for d in made)
            if isinstance(size, (float, str)):
                kind = type(size).__name__
                raise TypeError(f"torch.Size() takes an iterable of 'int' (item {position} is '{kind}')")
        return made

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Shape(found) if type(index) is slice else found

    def __add__(self, other: Any) -> Any:
        return Shape(tuple.__add__(self, other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return Shape(other + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count: Any) -> Any:
        return Shape(tuple.__mul__(self, count))

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        """Whether ranks and sizes are equal; sizes are compared, and guarded when symbolic, only if the ranks are."""
        return isinstance(other, tuple) and len(self) == len(other) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def numel(self) -> int:
        """The product of all sizes."""
        total = 1
        for size in self:
            total = total * size
        return total

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"


def new_tensor(data: Any, cls: type = Tensor) -> Any:
    """A Tensor over an ndarray or a traced node."""
    tensor: Any = object.__new__(cls)
    tensor._data = data
    tensor._node = None
    tensor._index = 0
    tensor._requires_grad = False
    tensor._grad = None
    tensor._storage = None
    tensor._hooks = None
    tensor._view = None
    return tensor


new_tensor = TensorCall(new_tensor)


def check_writable(array: np.ndarray) -> None:
    """Refuse to write memory that is read-only, or in which several elements are one."""
    if any(d > 1 and s == 0 for d, s in zip(array.shape, array.strides, strict=True)) and array.size > 0:
        raise RuntimeError(WRITTEN_SEVERAL_TIMES)
    if not array.flags.writeable:
        raise RuntimeError("unsupported operation: the written-to memory is read-only. Please clone() the tensor.")


WRITTEN_SEVERAL_TIMES = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
    "Please clone() the tensor before performing the operation."
)


def version_of(tensor: Tensor) -> int:
    """How often the memory of a tensor was written in place."""
    return 0 if tensor._storage is None else tensor._storage.version


def note_written(tensor: Tensor, place: Any) -> None:
    """Note on the node that made this memory where it was overwritten."""
    while tensor._view is not None:
        if tensor._node is not None and not tensor._view.tracked:  # in a trace, the result of an op that ends in a view
            tensor._node.overwrite(tensor._index, place)
        tensor = tensor._view.base
    if tensor._node is not None:
        tensor._node.overwrite(tensor._index, place)


def storage_of(tensor: Tensor) -> Storage:
    """The storage record of a tensor, made when first needed."""
    if tensor._storage is None:
        tensor._storage = Storage()
    return tensor._storage


def share_storage(view: Tensor, base: Tensor) -> None:
    """Let a view count the same in-place writes as its base."""
    view._storage = storage_of(base)
