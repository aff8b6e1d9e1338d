"""Batching: a graph over single examples becomes a graph over a batch, which is a new first dimension.

One rule per family of primitives says how an operation takes inputs of which some have the batch dimension. What no
batched value reaches is computed once, as before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Appended, Graph, Node, TensorType, ancestors
from eagerjit.compiler.ops import (
    convolution,
    elementwise,
    indexing,
    linear,
    reductions,
    routines,
    searches,
    sparse,
    views,
)
from eagerjit.compiler.ops.declare import Primitive
from eagerjit.compiler.ops.host import TENSOR, host
from eagerjit.runtime import dtypes
from eagerjit.runtime.host import FUNCTIONS
from eagerjit.runtime.records import record

RANDOMNESS_ERROR = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
    "randomness flags on vmap or perform the randomness operation out of vmap"
)


@record
class Value:
    """What a node became; `batched` if its first dimension is the batch."""

    node: Node
    batched: bool


class Batcher(Appended):
    """Appends the nodes of the batched graph.

    calls   what calls of Python functions became: their results belong together
    """

    def __init__(self, size: sizes.Expr, randomness: str):
        self.size, self.randomness, self.source = size, randomness, ""
        self.nodes: list[Node] = []
        self.calls: dict[Any, list[Value]] = {}

    def reshape(self, node: Node, shape: tuple[sizes.Expr, ...]) -> Node:
        """The node under another shape."""
        return node if node.shape == shape else self.emit(views.reshape, node, shape=shape)

    def everywhere(self, value: Value) -> Node:
        """The value with a batch dimension: the same for every example if it had none."""
        if value.batched:
            return value.node
        return self.emit(views.expand, value.node, shape=(self.size, *value.node.shape))

    def ranked(self, value: Value, rank: int) -> Node:
        """The value with dimensions of size 1 between the batch and the others, up to a rank per example."""
        node = value.node
        if not value.batched or len(node.shape) == rank + 1:
            return node
        return self.reshape(node, (node.shape[0], *(1,) * (rank + 1 - len(node.shape)), *node.shape[1:]))

    def inline(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """The outputs of a graph over single examples for these inputs."""
        values = dict(zip(graph.inputs, inputs, strict=True))
        for node in graph.nodes:
            values[node] = _batched(self, node, [values[n] for n in node.inputs])
        return [values[n] for n in graph.outputs]


Rule = Callable[[Batcher, Node, list[Value]], Node | Value]
"""Gives a node with the batch dimension, or a value that says whether it has it."""


def _elementwise(b: Batcher, node: Node, inputs: list[Value]) -> Node:
    rank = len(node.shape)
    return b.emit(node.op, *(b.ranked(v, rank) for v in inputs), **node.attributes)


def _reduction(b: Batcher, node: Node, inputs: list[Value]) -> Node:
    return b.emit(node.op, inputs[0].node, axes=tuple(a + 1 for a in node.attributes["axes"]))


def _reshape(b: Batcher, node: Node, inputs: list[Value]) -> Node:
    return b.reshape(inputs[0].node, (b.size, *node.attributes["shape"]))


def _permute(b: Batcher, node: Node, inputs: list[Value]) -> Node:
    return b.emit(node.op, inputs[0].node, dims=(0, *(d + 1 for d in node.attributes["dims"])))


def _flip(b: Batcher, node: Node, inputs: list[Value]) -> Node:
    return b.emit(node.op, inputs[0].node, dims=tuple(d + 1 for d in node.attributes["dims"]))


def _expand(b: Batcher, node: Node, inputs: list[Value]) -> Node:
    return b.emit(node.op, b.ranked(inputs[0], len(node.shape)), shape=(b.size, *node.attributes["shape"]))


def _along(b: Batcher, node: Node, inputs: list[Value]) -> Node:
    """An operation along one dimension of all its inputs."""
    moved = dict(node.attributes, dim=node.attributes["dim"] + 1)
    return b.emit(node.op, *map(b.everywhere, inputs), **moved)


def _replace_block(b: Batcher, node: Node, inputs: list[Value]) -> Node:
    a = node.attributes
    return b.emit(node.op, *map(b.everywhere, inputs), starts=(0, *a["starts"]), steps=(1, *a["steps"]))


def _matmul(b: Batcher, node: Node, inputs: list[Value]) -> Node:
    left, right = inputs
    if not right.batched and len(node.shape) == 2:
        # One taller product instead of many with the same right matrix.
        size, rows, inner = left.node.shape
        tall = b.emit(node.op, b.reshape(left.node, (sizes.mul(size, rows), inner)), right.node)
        return b.reshape(tall, (size, rows, right.node.shape[1]))
    return b.emit(node.op, *map(b.everywhere, inputs))


def _side_by_side(b: Batcher, node: Node) -> Node:
    """Channels of all examples as channels of one image."""
    moved = b.emit(views.permute, node, dims=(1, 0, *range(2, len(node.shape))))
    size, count, channels, *rest = moved.shape
    return b.reshape(moved, (size, sizes.mul(count, channels), *rest))


def _convolution(b: Batcher, node: Node, inputs: list[Value]) -> Node:
    """More images under one weight; or, where weights differ, examples as groups of channels."""
    image, weight = inputs
    if not weight.batched:
        out = b.emit(node.op, _flattened(b, image.node), weight.node, **node.attributes)
        return b.reshape(out, (b.size, *node.shape))
    groups = {"groups": sizes.mul(b.size, node.attributes["groups"])}
    images = _side_by_side(b, b.everywhere(image))
    out = b.emit(node.op, images, _flattened(b, weight.node), **{**node.attributes, **groups})
    split = b.reshape(out, (out.shape[0], b.size, *node.shape[1:]))
    return b.emit(views.permute, split, dims=(1, 0, *range(2, len(split.shape))))


def _convolution_weight(b: Batcher, node: Node, inputs: list[Value]) -> Node:
    groups = {"groups": sizes.mul(b.size, node.attributes["groups"])}
    images = [_side_by_side(b, b.everywhere(v)) for v in inputs]
    return b.reshape(b.emit(node.op, *images, **{**node.attributes, **groups}), (b.size, *node.shape))


def _rows(b: Batcher, index: Node, count: sizes.Expr) -> Node:
    """Rows of every example as rows of all examples stacked; those out of range stay so."""
    if index.dtype is not dtypes.int64:
        index = b.emit(elementwise.cast, index, dtype=dtypes.int64)
    total = b.emit(elementwise.size_value, size=count)
    zero = b.emit(elementwise.constant, value=0, dtype=dtypes.int64)
    outside = b.emit(elementwise.constant, value=-1, dtype=dtypes.int64)
    first = b.emit(elementwise.mul, b.emit(elementwise.iota, size=b.size, dtype=dtypes.int64), total)
    first = b.reshape(first, (b.size, *(1,) * (len(index.shape) - 1)))
    inside = b.emit(elementwise.logical_and, b.emit(elementwise.ge, index, zero), b.emit(elementwise.lt, index, total))
    return b.emit(elementwise.where, inside, b.emit(elementwise.add, index, first), outside)


def _flattened(b: Batcher, node: Node) -> Node:
    """The rows of all examples stacked."""
    return b.reshape(node, (sizes.mul(b.size, node.shape[1]), *node.shape[2:]))


def _take_rows(b: Batcher, node: Node, inputs: list[Value]) -> Node:
    table, index = inputs
    if not table.batched:
        return b.emit(node.op, table.node, index.node)
    if not index.batched:
        x, count = table.node, len(index.node.shape)
        moved = b.emit(views.permute, x, dims=(1, 0, *range(2, len(x.shape))))
        out = b.emit(node.op, moved, index.node)
        return b.emit(views.permute, out, dims=(count, *range(count), *range(count + 1, len(out.shape))))
    return b.emit(node.op, _flattened(b, table.node), _rows(b, index.node, table.node.shape[1]))


def _change_rows(b: Batcher, node: Node, inputs: list[Value]) -> Node:
    base, index, value = map(b.everywhere, inputs)
    out = b.emit(node.op, _flattened(b, base), _rows(b, index, base.shape[1]), value)
    return b.reshape(out, base.shape)


def _host(b: Batcher, node: Node, inputs: list[Value]) -> Node | Value:
    """A control structure says itself how it runs on a batch; other functions work along their first argument's dim."""
    function, arguments = FUNCTIONS[node.attributes["function"]], node.attributes["arguments"]
    if hasattr(function, "batched"):
        key = node.inputs, node.attributes["function"], arguments
        if key not in b.calls:
            b.calls[key] = function.batched(b, arguments, inputs)
        return b.calls[key][node.attributes["result"]]
    if arguments[0] != TENSOR or type(arguments[1]) is not int or not node.inputs[0].shape or len(inputs) > 1:
        raise NotImplementedError(f"vmap: there is no batching rule for {node.attributes['function']} in a loop")
    moved = (arguments[0], arguments[1] + 1, *arguments[2:])
    shape = (b.size, *node.attributes["shape"])
    return b.emit(node.op, inputs[0].node, **{**node.attributes, "arguments": moved, "shape": shape})


def _in_rows(b: Batcher, node: Node, inputs: list[Value]) -> Node:
    return b.emit(node.op, *map(b.everywhere, inputs), **node.attributes)


def _positions(b: Batcher, node: Node, inputs: list[Value]) -> Node:
    raise NotImplementedError("vmap: how many flags hold differs between examples")


def _weighted_rows(b: Batcher, node: Node, inputs: list[Value]) -> Node:
    """Of one sparse matrix: the examples' columns side by side."""
    weights, x, starts, places = inputs
    if weights.batched or starts.batched or places.batched:
        raise NotImplementedError("vmap: sparse matrices that differ between examples are not supported")
    rows, columns = x.node.shape[1], x.node.shape[2]
    beside = b.reshape(b.emit(views.permute, x.node, dims=(1, 0, 2)), (rows, sizes.mul(b.size, columns)))
    made = b.emit(node.op, weights.node, beside, starts.node, places.node)
    return b.emit(views.permute, b.reshape(made, (made.shape[0], b.size, columns)), dims=(1, 0, 2))


def _random(b: Batcher, node: Node, inputs: list[Value]) -> Node:
    raise NotImplementedError("vmap: a generator's state that differs between examples is not supported")


RULES: dict[Primitive, Rule] = {
    views.reshape: _reshape,
    views.permute: _permute,
    views.expand: _expand,
    views.slice_: _along,
    views.flip: _flip,
    linear.matmul: _matmul,
    convolution.convolution: _convolution,
    convolution.convolution_input: _convolution,
    convolution.convolution_weight: _convolution_weight,
    indexing.take_rows: _take_rows,
    indexing.add_rows: _change_rows,
    indexing.put_rows: _change_rows,
    indexing.gather: _along,
    indexing.scatter_add: _along,
    indexing.scatter: _along,
    indexing.slice_scatter: _along,
    indexing.replace_block: _replace_block,
    indexing.cat: _along,
    routines.scan: _along,
    routines.order: _along,
    searches.search: _in_rows,
    searches.running: _along,
    searches.recurrence: _along,
    searches.positions: _positions,
    sparse.weighted_rows: _weighted_rows,
    elementwise.random_bits: _random,
    host: _host,
}
FAMILIES: dict[str, Rule] = {"elementwise": _elementwise, "reduction": _reduction}


def rule_of(op: Primitive) -> Rule:
    """The batching rule of a primitive. Raises NotImplementedError where there is none."""
    rule = RULES.get(op) or FAMILIES.get(op.family)
    if rule is None:
        raise NotImplementedError(f"vmap: there is no batching rule for {op.name}")
    return rule


def batch(
    graph: Graph,
    batched: Sequence[bool],
    size: sizes.Expr,
    randomness: str = "error",
    wanted: Sequence[bool | None] | None = None,
) -> tuple[Graph, list[bool]]:
    """The graph over a batch of `size` examples, and which of its outputs and written values have the batch dimension.

    `batched` says which inputs do. `randomness` is "error", "same" (examples share random numbers) or "different".
    `wanted` says per output whether it has to: True, False for the sum over the examples, None for as it comes.
    Raises RuntimeError for random numbers with "error".
    """
    b = Batcher(size, randomness)
    found = arguments(graph, batched, size)
    given = [v.node for v in found]
    values = dict(zip(graph.inputs, found, strict=True))
    for node in graph.nodes:
        values[node] = _batched(b, node, [values[n] for n in node.inputs])
    forms = [None] * len(graph.outputs) if wanted is None else wanted
    results = [_formed(b, values, n, form) for n, form in zip(graph.outputs, forms, strict=True)]
    written = [values[n] for _, n in graph.writes]
    targets = [values[n].node for n, _ in graph.writes]
    writes = [(t, v.node) for t, v in zip(targets, written, strict=True)]
    needed = ancestors([v.node for v in (*results, *written)])  # what is summed in another way is not
    nodes = [n for n in b.nodes if n in needed]
    out = Graph(f"{graph.name}_batch", given, nodes, [v.node for v in results], writes)
    return out, [v.batched for v in (*results, *written)]


def _formed(b: Batcher, values: dict[Node, Value], node: Node, form: bool | None) -> Value:
    """An output with the batch dimension, summed over it, or as it comes."""
    if form is None:
        return values[node]
    return Value(b.everywhere(values[node]), True) if form else Value(_total(b, values, node), False)


def _total(b: Batcher, values: dict[Node, Value], node: Node) -> Node:
    """The sum of a value over the examples: one product over all of them where it is one for each."""
    value = values[node]
    if not value.batched:
        count = b.emit(elementwise.cast, b.emit(elementwise.size_value, size=b.size), dtype=node.dtype)
        return b.emit(elementwise.mul, value.node, b.emit(views.expand, count, shape=node.shape))
    if node.op is views.reshape:
        return b.reshape(_total(b, values, node.inputs[0]), node.shape)
    if node.op is views.permute:
        return b.emit(node.op, _total(b, values, node.inputs[0]), **node.attributes)
    if node.op is indexing.add_rows:
        base, *added = node.inputs
        return b.emit(node.op, _total(b, values, base), *(b.everywhere(values[n]) for n in added))
    if node.op is convolution.convolution_weight:
        images = [_flattened(b, b.everywhere(values[n])) for n in node.inputs]
        return b.emit(node.op, *images, **node.attributes)
    if node.op is linear.matmul and len(node.shape) == 2:
        left, right = [b.everywhere(values[n]) for n in node.inputs]
        size, rows, inner = left.shape
        side = b.reshape(b.emit(views.permute, left, dims=(1, 0, 2)), (rows, sizes.mul(size, inner)))
        return b.emit(node.op, side, _flattened(b, right))
    return b.emit(reductions.sum_, value.node, axes=(0,))


def arguments(graph: Graph, batched: Sequence[bool], size: sizes.Expr) -> list[Value]:
    """New inputs for a graph, some of them with the batch dimension."""
    found = []
    for node, has_batch in zip(graph.inputs, batched, strict=True):
        type_ = TensorType(node.dtype, (size, *node.shape)) if has_batch else node.type
        attributes = {**node.attributes, "strides": None} if has_batch else node.attributes
        found.append(Value(Node(node.op, (), attributes, type_, node.source), has_batch))
    return found


def _batched(b: Batcher, node: Node, inputs: list[Value]) -> Value:
    b.source = node.source
    if node.op is elementwise.random_bits and b.randomness == "error":
        raise RuntimeError(RANDOMNESS_ERROR)
    if any(v.batched for v in inputs):
        made = rule_of(node.op)(b, node, inputs)
        return made if isinstance(made, Value) else Value(made, True)
    if node.op is elementwise.random_bits and b.randomness == "different":
        shape = (b.size, *node.attributes["shape"])
        return Value(b.emit(node.op, inputs[0].node, **{**node.attributes, "shape": shape}), True)
    return Value(b.emit(node.op, *(v.node for v in inputs), **node.attributes), False)
