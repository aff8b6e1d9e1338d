"""The five views that all others are made of. Eager views are NumPy's; traced ones are nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eagerjit.autograd.node import GradNode, record
from eagerjit.calling.dispatch import OPS, Op
from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.ops import indexing, views
from eagerjit.compiler.shapes import expanded_strides, inverse, reshape_strides, simplified
from eagerjit.recording.numbers import expression, wrap
from eagerjit.runtime import device_array, mode
from eagerjit.runtime.native.agreed import PART_SHOWN, PART_WRITTEN
from eagerjit.state import state
from eagerjit.tensors.tensor import WRITTEN_SEVERAL_TIMES, Tensor, View, new_tensor, share_storage

Exprs = tuple[sizes.Expr, ...]


class ViewOp(Op):
    """An op whose result aliases its input.

    eager       (array, *arguments) -> ndarray over the same memory
    traced      (tracer, node, *arguments) -> node
    overwrite   (tracer, base, value, *arguments) -> the base's value when the view has been set to `value`
    rule        (g, out, input, *arguments) -> gradient
    erase       (g, *arguments) -> g with zeros where the view is; None for views of everything
    part        (g, *arguments) -> g where the view is, for a g that need not lie in memory as the base does
    """

    linear = True
    detaches = False
    """Whether a view is meant to be written without what it is a view of having a gradient of that."""
    in_place = True
    """Whether a trace sees the view in its base's memory, rather than a copy of it."""
    parts = 0
    """PART_SHOWN for a part of each row, or some rows, of its base, in memory of its own."""
    written: Op | None = None
    """What is on the tape where the view was written; None before it has been."""
    strides: Callable[..., Exprs | None]
    """(shape and strides of the base, *arguments) -> the view's strides, where algebra can tell them."""

    def __init__(
        self,
        name: str,
        eager: Callable[..., np.ndarray],
        traced: Callable[..., Node],
        overwrite: Callable[..., Node],
        rule: Callable[..., Any],
        erase: Callable[..., Any] | None = None,
        part: Callable[..., Any] | None = None,
    ):
        self.name, self.view_eager, self.record, self.overwrite = name, eager, traced, overwrite
        self.rules, self.erase, self.part = (rule,) + (None,) * 8, erase, part or self
        self.differentiable, self.fused_rules = True, False
        self.numbers = self.shapes = frozenset()
        self.gradients = {}
        OPS[name] = self

    def __call__(self, base: Tensor, *arguments: Any) -> Tensor:
        """The view; arguments are normalised already."""
        tracer = state.tracer
        if tracer is None:
            out = new_tensor(self.view_eager(base._data, *arguments))
        else:
            out = tracer.view(base, self.record(tracer, tracer.value(base), *arguments))
        share_storage(out, base)
        tracked = mode.grad_mode()
        out._view = View(base, self, arguments, tracked)
        if tracked:
            out._storage.register(out)
            if base._requires_grad:
                record(self, (base, *arguments), out)
        return out

    def backward(self, node: GradNode, grads: tuple[Any, ...], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """The gradient by the declared rule, which reads no result."""
        return self.gradient_body(needs, 1)(*grads, None, *node.inputs)  # type: ignore[misc]

    def gradient_body(self, needs: tuple[bool, ...], n_outputs: int) -> Callable[..., Any]:
        """The declared rule; views keep their dtype and the rules give back the input's shape."""
        rule: Any = self.rules[0]  # type: ignore[index]  # views have theirs declared

        def gradient(g: Any, out: Any, base: Any, *arguments: Any) -> tuple[Any, ...]:
            return (rule(g, out, base, *arguments), *(None,) * len(arguments))

        return gradient


class _Overwrite(Op):
    """(base, value, *arguments of the view) -> base with the view overwritten: a node of the tape, never computed."""

    saved_by, parts = None, PART_WRITTEN

    def __init__(self, view: ViewOp):
        self.name, self.view = f"overwrite_{view.name}", view
        self.differentiable, self.fused_rules = True, False
        self.rules = (lambda g, out, base, value: None,) * 2
        self.numbers = self.shapes = frozenset()

    def gradient_body(self, needs: tuple[bool, ...], n_outputs: int) -> Callable[..., Any]:
        """The value gets the view of the gradient; the base gets what the value left of it."""
        view = self.view

        def gradient(g: Any, out: Any, base: Any, value: Any, *arguments: Any) -> tuple[Any, ...]:
            rest = part = None
            if needs[0]:
                rest = g.new_zeros(base.shape) if view.erase is None else view.erase(g, *arguments)
            if needs[1]:
                part = view.part(g, *arguments)
            return (rest, part, *(None,) * len(arguments))

        return gradient


def overwriting(view: ViewOp) -> Op:
    """What is on the tape where a view was written."""
    if view.written is None:
        view.written = _Overwrite(view)
    return view.written


def by_ops(function: Callable[..., Any]) -> Callable[..., Any]:
    """How a trace reads or overwrites a view that is made of operations: (tracer, *nodes, *arguments) -> node."""

    def record(tracer: Any, *arguments: Any) -> Node:
        before = mode.set_grad_mode(False)
        try:
            return tracer.value(function(*(tracer.wrap(a) if isinstance(a, Node) else a for a in arguments)))
        finally:
            mode.set_grad_mode(before)

    return record


def _reshape_array(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """NumPy's reshape, refused where it would copy."""
    if array.flags.c_contiguous:
        return array.reshape(shape)
    try:
        return np.reshape(array, shape, copy=False)
    except ValueError:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        ) from None


def _reshape_node(tracer: Any, node: Node, shape: tuple[Any, ...]) -> Node:
    target = tuple(map(expression, shape))
    if target in (node.type.shape, simplified(node.type.shape)):
        return node
    return tracer.record(views.reshape, (node,), shape=target)


def _permute_node(tracer: Any, node: Node, dims: tuple[int, ...]) -> Node:
    return tracer.record(views.permute, (node,), dims=dims)


def _expand_node(tracer: Any, node: Node, shape: tuple[Any, ...]) -> Node:
    return tracer.record(views.expand, (node,), shape=tuple(map(expression, shape)))


def _expand_array(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    try:
        np.broadcast_to(array, shape)
    except ValueError:
        sizes = array.shape
        odd = max(i for i in range(-len(sizes), 0) if sizes[i] not in (1, shape[i]))
        raise RuntimeError(
            f"The expanded size of the tensor ({shape[odd]}) must match the existing size ({sizes[odd]}) at "
            f"non-singleton dimension {odd + len(shape)}.  Target sizes: {list(shape)}.  Tensor sizes: {list(sizes)}"
        ) from None
    # A view of it may be writable although it is not as a whole; NumPy's own is read-only for good, and forgets the
    # strides of dimensions of one element.
    strides: Any = expanded_strides(array.shape, array.strides, shape)
    return device_array.as_strided(array, shape, strides)


def _expand_overwrite(tracer: Any, base: Node, value: Node, shape: tuple[Any, ...]) -> Node:
    """An expansion by dimensions of one element shows the base as it is; any other shows elements several times, or
    none.
    """
    before, after = base.type.shape, value.type.shape
    if 0 in after:
        return base
    in_front = (1,) * (len(after) - len(before))
    if all(old != 1 or new == 1 for old, new in zip((*in_front, *before), after, strict=True)):
        return _reshape_node(tracer, value, tuple(map(wrap, before)))
    raise RuntimeError(WRITTEN_SEVERAL_TIMES)


def _slice_node(tracer: Any, node: Node, dim: int, start: Any, stop: Any, step: int) -> Node:
    return tracer.record(views.slice_, (node,), dim=dim, start=expression(start), stop=expression(stop), step=step)


def _slice_overwrite(tracer: Any, base: Node, value: Node, dim: int, start: Any, stop: Any, step: int) -> Node:
    bounds = {"start": expression(start), "stop": expression(stop), "step": step}
    return tracer.record(indexing.slice_scatter, (base, value), dim=dim, **bounds)


alias_view = ViewOp(
    "alias",
    lambda array: array.view(),
    lambda tracer, node: node,
    lambda tracer, base, value: value,
    lambda g, out, input: g,
)
alias_view.detaches = True
def _reshape_rule(g: Any, out: Any, input: Any, shape: Any) -> Any:
    from eagerjit.ops.views import reshaped

    return reshaped(g, input.shape)


reshape_view = ViewOp(
    "view",
    _reshape_array,
    _reshape_node,
    lambda tracer, base, value, shape: _reshape_node(tracer, value, tuple(map(wrap, base.type.shape))),
    _reshape_rule,
    part=lambda g, shape: g.reshape(shape),
)
permute_view = ViewOp(
    "permute",
    lambda array, dims: array.transpose(dims),
    _permute_node,
    lambda tracer, base, value, dims: _permute_node(tracer, value, inverse(dims)),
    lambda g, out, input, dims: g.permute(inverse(dims)),
)
expand_view = ViewOp(
    "expand", _expand_array, _expand_node, _expand_overwrite, lambda g, out, input, shape: g.sum_to_size(input.shape)
)
def _erase_slice(g: Any, dim: int, start: Any, stop: Any, step: int) -> Any:
    return g.replace_slice(g.new_zeros(g.slice(dim, start, stop, step).shape), dim, start, stop, step)


slice_view = ViewOp(
    "slice",
    lambda array, dim, start, stop, step: array[(slice(None),) * dim + (slice(start, stop, step),)],
    _slice_node,
    _slice_overwrite,
    lambda g, out, input, dim, start, stop, step: g.new_zeros(input.shape).replace_slice(g, dim, start, stop, step),
    _erase_slice,
)


def _select_node(tracer: Any, node: Node, dim: int, index: Any) -> Node:
    row = _slice_node(tracer, node, dim, index, index + 1, 1)
    shape = node.type.shape
    return tracer.record(views.reshape, (row,), shape=(*shape[:dim], *shape[dim + 1 :]))


def _select_overwrite(tracer: Any, base: Node, value: Node, dim: int, index: Any) -> Node:
    shape = base.type.shape
    row = tracer.record(views.reshape, (value,), shape=(*shape[:dim], 1, *shape[dim + 1 :]))
    return _slice_overwrite(tracer, base, row, dim, index, index + 1, 1)


select_view = ViewOp(
    "select",
    lambda array, dim, index: array[(slice(None),) * dim + (index, ...)],
    _select_node,
    _select_overwrite,
    lambda g, out, input, dim, index: g.new_zeros(input.shape).replace_slice(
        g.unsqueeze(dim), dim, index, index + 1, 1
    ),
    lambda g, dim, index: _erase_slice(g, dim, index, index + 1, 1),
)

alias_view.strides = lambda shape, strides: strides
reshape_view.strides = lambda shape, strides, wanted: reshape_strides(shape, strides, tuple(map(expression, wanted)))
permute_view.strides = lambda shape, strides, dims: tuple(strides[d] for d in dims)
expand_view.strides = lambda shape, strides, wanted: expanded_strides(shape, strides, tuple(map(expression, wanted)))
slice_view.strides = lambda shape, strides, dim, start, stop, step: (
    *strides[:dim], sizes.mul(strides[dim], step), *strides[dim + 1 :]
)  # fmt: skip
select_view.strides = lambda shape, strides, dim, index: (*strides[:dim], *strides[dim + 1 :])

slice_view.parts = select_view.parts = PART_SHOWN
VIEWS = (alias_view, reshape_view, permute_view, expand_view, slice_view, select_view)
"""What native code puts on the tape, in its order (`runtime/native/views.py`)."""


def in_units(strides: Exprs, count: int) -> Exprs | None:
    """Strides in so many elements at a time; None where algebra cannot divide them."""
    found = [sizes.exact_quotient(s, count) for s in strides]
    known = tuple(s for s in found if s is not None)
    return known if len(known) == len(strides) else None
