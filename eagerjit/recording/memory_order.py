"""The order in which elements lie in memory: that of a recorded tensor, and that of what elementwise work gives.

A result of elementwise work lies in the order of its operands, as PyTorch's does: of `x.T + 1` the columns are
neighbours. Values of a recording are row-major, so such work is recorded on operands with their dimensions in the order
of memory, and its result is turned back.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import is_contiguous, layout
from eagerjit.compiler.ops import elementwise, views
from eagerjit.compiler.shapes import contiguous_strides, inverse
from eagerjit.state import state
from eagerjit.tensors.promotion import result_type
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak, user_line

Exprs = tuple[sizes.Expr, ...]
Order = tuple[int, ...]


def refuse_single(sizes: tuple[Any, ...]) -> None:
    """End a recording that asks for a stride along a dimension of one element: any will do, and none is kept."""
    if any(type(n) is int and n == 1 for n in sizes):
        raise TraceBreak("the stride along a dimension of one element was asked for", user_line())


def laid_out(tracer: Any, tensor: Tensor) -> Node:
    """A node laid out as the plain call's tensor is, also where compiled code has a copy of what a view shows."""
    strides = _strides(tracer, tensor) if views_copy(tensor) else None
    if strides is None:
        return tracer.place(tensor)  # type: ignore[no-any-return]
    return Node(elementwise.argument, (), {"strides": strides}, tracer.value(tensor).type)


def views_copy(tensor: Tensor) -> bool:
    """Whether one of the views that lead to a tensor of a trace is a copy in compiled code."""
    while tensor._view is not None and type(tensor._data) is Node:
        if not tensor._view.op.in_place:
            return True
        tensor = tensor._view.base
    return False


def _strides(tracer: Any, tensor: Tensor) -> Exprs | None:
    view = tensor._view
    if view is None or type(tensor._data) is not Node:
        return layout(tracer.place(tensor)).strides
    strides = _strides(tracer, view.base)
    if strides is None:
        return None
    found: Exprs | None = view.op.strides(tracer.value(view.base).type.shape, strides, *view.arguments)
    return found


def in_memory_order(
    tracer: Any,
    compute: Callable[[tuple[Any, ...]], Any],
    arguments: tuple[Any, ...],
    apart: Container[int] = (),
    promotion: str = "",
) -> Any:
    """What elementwise work gives of these arguments, in the order of those that are tensors and not `apart`."""
    operands = {i: a for i, a in enumerate(arguments) if isinstance(a, Tensor) and i not in apart}
    cast = _cast(promotion, [*operands.values()]) if promotion and len(operands) > 1 else ()
    order = result_order([_in_its_order(tracer, a) for a in operands.values()], cast)
    if order is None:
        return compute(arguments)
    result = compute(tuple([_turned(tracer, a, order) if i in operands else a for i, a in enumerate(arguments)]))
    if isinstance(result, tuple):
        return tuple([_turned_back(tracer, part, order) for part in result])
    return _turned_back(tracer, result, order)


def _cast(promotion: str, operands: Sequence[Tensor]) -> list[bool]:
    """Which operands have to be cast to the dtype that an operation is computed in."""
    computed = result_type(*operands)
    whole = promotion == "float" and not computed.is_differentiable
    return [whole or x.dtype is not computed for x in operands]


def _in_its_order(tracer: Any, tensor: Tensor) -> Node:
    """A node whose dimensions lie as the plain call's tensor has them; a value that was written there does, too."""
    return laid_out(tracer, tensor) if views_copy(tensor) else tracer.value(tensor)  # type: ignore[no-any-return]


def in_row_major_order(tracer: Any, body: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """What a body gives of these arguments, in row-major order wherever they lie."""
    before, tracer.row_major = tracer.row_major, True
    try:
        return body(*arguments)
    finally:
        tracer.row_major = before


def _turned(tracer: Any, tensor: Tensor, order: Order) -> Tensor:
    """An operand with its dimensions in an order; a number broadcasts in any."""
    node = tracer.value(tensor)
    return tensor if node.type.shape == () else tracer.wrap(permuted(tracer, node, order))


def _turned_back(tracer: Any, result: Tensor, order: Order) -> Tensor:
    node = tracer.value(result)
    if node.op.family in ("view", "argument"):
        node = tracer.record(elementwise.cast, (node,), dtype=node.type.dtype)
    return tracer.wrap(in_order(tracer, node, order))  # type: ignore[no-any-return]


def permuted(tracer: Any, node: Node, order: Order) -> Node:
    """A value with as many dimensions as the order has, in it."""
    missing = len(order) - len(node.type.shape)
    if missing:
        node = tracer.record(views.reshape, (node,), shape=(*(1,) * missing, *node.type.shape))
    return tracer.record(views.permute, (node,), dims=order)  # type: ignore[no-any-return]


def in_order(tracer: Any, node: Node, order: Order) -> Node:
    """The value whose dimensions were put in an order, with its own; it lies in memory of its own in that order."""
    made: Node = tracer.record(views.permute, (node,), dims=inverse(order))
    tracer.turned.add(made)
    return made


def written_like(tracer: Any, node: Node, place: Node) -> Node:
    """A value in memory of its own, in the order of what it is written over."""
    return copied(tracer, node, result_order([place]))


def copied(tracer: Any, node: Node, order: Order | None) -> Node:
    """A value in memory of its own, in an order; None is row-major."""
    if order is None:
        return tracer.record(elementwise.cast, (node,), dtype=node.type.dtype)  # type: ignore[no-any-return]
    made = tracer.record(elementwise.cast, (permuted(tracer, node, order),), dtype=node.type.dtype)
    return in_order(tracer, made, order)


def result_order(operands: Sequence[Node], cast: Sequence[bool] = ()) -> Order | None:
    """The order of what is computed of these operands, as `order_of_steps` has it; None where that is row-major.

    Operands that are `cast` count as copies of their own: PyTorch casts them on the CPU before it asks for an order.
    """
    if all(_is_plain(node) for node in operands) or all(map(is_contiguous, operands)):
        return None
    rank = max(len(node.type.shape) for node in operands)
    shapes = [(*(1,) * (rank - len(node.type.shape)), *node.type.shape) for node in operands]
    if any(0 in shape for shape in shapes):
        return None
    strides = [
        _dense_strides(node) if is_cast else layout(node).strides
        for node, is_cast in zip(operands, cast or (False,) * len(operands), strict=True)
    ]
    return order_of_steps(shapes, [(*(0,) * (rank - len(steps)), *steps) for steps in strides])


def _dense_strides(node: Node) -> Exprs:
    """The strides of a copy in the order of a node."""
    shape = node.type.shape
    order = order_of_steps([shape], [layout(node).strides]) or tuple(range(len(shape)))
    dense = contiguous_strides(tuple([shape[d] for d in order]))
    return tuple([dense[order.index(d)] for d in range(len(shape))])


def order_of_array(array: Any) -> Order | None:
    """The order of a copy of an array; None where that is row-major."""
    if array.flags.c_contiguous or array.ndim < 2 or not array.size:
        return None
    return order_of_steps([array.shape], [tuple(map(abs, array.strides))])


def dense_order(tensor: Tensor) -> Order | None:
    """The order in which a tensor's elements fill its memory; None for row-major order, and where they leave gaps."""
    tracer = state.tracer
    if tracer is None:
        order = order_of_array(tensor._data)
        return order if order is not None and tensor._data.transpose(order).flags.c_contiguous else None
    node = laid_out(tracer, tensor)
    order = result_order([node])
    if order is None:
        return None
    shape, strides = (tuple([part[d] for d in order]) for part in (node.type.shape, layout(node).strides))
    expected = contiguous_strides(shape)
    dense = all(d == 1 or sizes.equal(s, e) for d, s, e in zip(shape, strides, expected, strict=True))
    return order if dense else None


def lies_in(tensor: Tensor, order: Order | None) -> bool:
    """Whether a tensor's elements fill memory in an order; None is row-major."""
    return tensor.is_contiguous() if order is None else tensor.detach().permute(order).is_contiguous()


def order_of_steps(shapes: Sequence[Exprs], steps: Sequence[Exprs]) -> Order | None:
    """The dimensions of operands from that with the longest steps through memory to that with the shortest.

    None where that is the order they have. As PyTorch's TensorIterator has it: the first operand that tells two
    dimensions apart decides, one along which it is broadcast tells nothing, and dimensions that none tells apart stay
    as they are.
    """
    apart = [[0 if d == 1 else s for d, s in zip(*pair, strict=True)] for pair in zip(shapes, steps, strict=True)]
    order = [*range(len(shapes[0]))]
    for at in range(len(order) - 2, -1, -1):
        for other in range(at + 1, len(order)):
            longer = _compared(apart, shapes, order[at], order[other])
            if longer > 0:
                break
            if longer < 0:
                order[at], order[other] = order[other], order[at]
                at = other
    return None if order == sorted(order) else tuple(order)


def _is_plain(node: Node) -> bool:
    return node.op.family != "view" and node.attributes.get("strides") is None


def _compared(steps: Sequence[Sequence[sizes.Expr]], shapes: Sequence[Exprs], first: int, second: int) -> int:
    """Whether the steps of one dimension are longer than another's (1), shorter (-1), or nothing tells (0)."""
    for own, shape in zip(steps, shapes, strict=True):
        if sizes.equal(own[first], 0) or sizes.equal(own[second], 0):
            continue
        if sizes.less(own[second], own[first]):
            return 1
        if sizes.less(own[first], own[second]) or sizes.less(shape[first], shape[second]):
            return -1
    return 0
