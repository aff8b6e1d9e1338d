"""What has to be spelled out before lowering: copies that views need, reductions of nothing, values to be checked."""

from __future__ import annotations

from collections.abc import Iterator

from eagerjit.compiler.ir import Graph, Node, TensorType, made, rebuild
from eagerjit.compiler.layout import is_contiguous, layout
from eagerjit.compiler.lower.gathers import picked, picks
from eagerjit.compiler.lower.libraries import RESULT, is_attention
from eagerjit.compiler.lower.scattered import in_parallel
from eagerjit.compiler.lower.turned import with_last_channels, with_turned_factors
from eagerjit.compiler.ops import elementwise, indexing, linear, reductions, views
from eagerjit.compiler.passes.dead import remove_dead
from eagerjit.compiler.passes.simplify import with_inputs
from eagerjit.compiler.signature import Fresh, Trace
from eagerjit.runtime import dtypes
from eagerjit.runtime.records import replace

CONTIGUOUS = ("host", "routine")
"""Families whose inputs lie in row-major order, as those of convolutions do."""

SCATTERS = (indexing.scatter_add, indexing.scatter)
UNSEEN = ("linear", "reduction")
"""Families whose results no elementwise operation computes: to be checked they are copied by one."""


def watched(node: Node) -> Node:
    """The operation that a check is about: for a copy that was made for the check, what it copies."""
    is_copy = node.op is elementwise.cast and node.inputs[0].op.family in UNSEEN
    return node.inputs[0] if is_copy else node


def prepared(trace: Trace, narrow: bool = False) -> Trace:
    """The trace with explicit nodes where an operation would need a kernel of another kind than its family's."""
    wanted = (_is_copy, _is_empty, _reads_in_order, _is_slender, _is_outer)
    needed = (any(is_wanted(n) for is_wanted in wanted) for n in trace.graph.nodes)
    if not narrow and not trace.checks and not any(needed):
        return trace
    replaced: dict[Node, Node] = {}
    copies: dict[Node, Node] = {}
    nodes: list[Node] = []
    results = set(trace.graph.results())
    orders = _orders(trace.graph) if narrow else {}
    viewed = set(_viewed(results)) if narrow else set()
    for node in trace.graph.nodes:
        current = with_inputs(node, replaced)
        if _repeats(current) and node not in results:
            replaced[node] = current.inputs[0]
            continue
        if _is_copy(current):
            nodes += _copied(current)
        elif _is_empty(current):
            nodes += _identity(current)
        elif node in orders:
            nodes += _turned(current, orders[node])
        elif narrow and current.op in SCATTERS and (shared := list(in_parallel(current, trace.hints))):
            nodes += shared
        elif narrow and picks(current) and node.inputs[0] not in viewed:
            nodes += picked(current)
        elif narrow and current.op is linear.matmul:
            nodes += with_turned_factors(_narrowed(current), trace.hints)
        elif _is_slender(current):
            nodes += _summed(current)
        elif _is_outer(current):
            nodes.append(made(elementwise.mul, current.inputs, current.source))
        elif narrow and current.op in RESULT:
            current = _narrowed(current)
            nodes += list(with_last_channels(current, trace.hints)) or _contiguous(current, {})
        elif _reads_in_order(current) and not (narrow and is_attention(current)):
            nodes += _contiguous(current, copies if current.op.family == "host" else {})
        else:
            nodes.append(current)
        if trace.checks and node.op.family in UNSEEN and node.dtype.kind == "float":
            nodes.append(_copy(nodes[-1]))
        if nodes[-1] is not node:
            replaced[node] = nodes[-1]
    found = with_nodes(trace, nodes, replaced)
    return replace(found, graph=remove_dead(found.graph))


def with_nodes(trace: Trace, nodes: list[Node], replaced: dict[Node, Node]) -> Trace:
    """The trace with these nodes, what else it says of nodes mapped through `replaced`."""
    outputs = [replace(o, node=replaced.get(o.node, o.node)) if isinstance(o, Fresh) else o for o in trace.outputs]
    writes = [(leaf, replaced.get(value, value)) for leaf, value in trace.writes]
    questions = [replace(q, node=replaced.get(q.node, q.node)) for q in trace.questions]
    graph = rebuild(trace.graph, nodes, replaced)
    return replace(trace, graph=graph, outputs=outputs, writes=writes, questions=questions)


def _viewed(results: set[Node]) -> Iterator[Node]:
    """The results and what they are views of, whose strides a program sees."""
    for node in results:
        yield node
        while node.op.family == "view":
            node = node.inputs[0]
            yield node


def _reads_in_order(node: Node) -> bool:
    return node.op.family in CONTIGUOUS or (node.op.family == "linear" and node.op is not linear.matmul)


def _is_copy(node: Node) -> bool:
    """Whether this is a reshape of memory that cannot be viewed in the new shape."""
    return node.op.family == "view" and layout(node).root is node


def _orders(graph: Graph) -> dict[Node, tuple[int, ...]]:
    """Results of attention that are copied to have their dimensions in another order, and that order.

    Kernels write them in it, and what else reads them, as no copy has to, reads them as they lie then.
    """
    users = graph.users() if any(map(is_attention, graph.nodes)) else {}
    found: dict[Node, tuple[int, ...]] = {}
    for node in filter(is_attention, graph.nodes):
        for view in users[node]:
            if view.op is views.permute and view.attributes["dims"][-1] == len(node.shape) - 1:
                if any(_is_copy(user) or _is_same(user) for user in users[view]):
                    found.setdefault(node, view.attributes["dims"])
    kept = set(graph.results())
    return {node: order for node, order in found.items() if node not in kept}


def _is_same(node: Node) -> bool:
    """Whether this is a copy in row-major order."""
    return node.op is elementwise.cast and node.dtype == node.inputs[0].dtype


def _repeats(node: Node) -> bool:
    """Whether this copies a result that lies in row-major order since it has been turned."""
    return _is_same(node) and "order" in node.inputs[0].base.attributes and is_contiguous(node.inputs[0])


def _turned(node: Node, order: tuple[int, ...]) -> Iterator[Node]:
    """Attention's result in this order, and a view of it in its own."""
    shape = tuple(node.shape[d] for d in order)
    attributes = {**node.attributes, "shape": shape, "order": order}
    made = Node(node.op, node.inputs, attributes, TensorType(node.dtype, shape), node.source)
    yield made
    back = tuple(sorted(range(len(order)), key=order.__getitem__))
    yield Node(views.permute, (made,), {"dims": back}, node.type, node.source)


def _copy(value: Node, source: str | None = None) -> Node:
    return Node(elementwise.cast, (value,), {"dtype": value.dtype}, value.type, source or value.source)


def _copied(node: Node) -> Iterator[Node]:
    copy = _copy(node.inputs[0], node.source)
    yield copy
    yield Node(node.op, (copy,), node.attributes, node.type, node.source)


def _narrowed(node: Node) -> Node:
    """A product, or a convolution, of factors as they were in a 16-bit format: kernels multiply those exactly."""
    factors = [i.inputs[0] if i.op is elementwise.cast and i.dtype.short == "f32" else i for i in node.inputs]
    if len({f.dtype for f in factors}) > 1 or factors[0].dtype.short not in ("f16", "bf16"):
        return node
    if node.op is not linear.matmul and not all(map(is_contiguous, factors)):
        return node
    return Node(node.op, tuple(factors), node.attributes, node.type, node.source)


def _is_slender(node: Node) -> bool:
    """Whether this is a matrix times a vector of numbers that BLAS has not, for which it would convert the matrix."""
    blas = node.dtype.is_complex or node.dtype.short in ("f32", "f64")
    return node.op is linear.matmul and 1 in node.shape[-2:] and not blas


def _summed(node: Node) -> Iterator[Node]:
    """A product as sums along rows of the matrix, wherever these lie."""
    left, right = node.inputs
    rank = len(node.shape)
    computed = dtypes.float32 if node.dtype.is_floating_point else dtypes.int64
    turned = made(views.permute, (right,), node.source, dims=(*range(rank - 2), rank - 1, rank - 2))
    wide = [made(elementwise.cast, (x,), node.source, dtype=computed) for x in (left, turned)]
    products = made(elementwise.mul, tuple(wide), node.source)
    sums = made(reductions.sum_, (products,), node.source, axes=(rank - 1,))
    shaped = made(views.reshape, (sums,), node.source, shape=node.shape)
    yield from (turned, *wide, products, sums, shaped)
    yield made(elementwise.cast, (shaped,), node.source, dtype=node.dtype)


def _is_outer(node: Node) -> bool:
    """Whether this is a product of columns with rows: each element is the product of two numbers."""
    return node.op is linear.matmul and node.inputs[0].shape[-1] == 1 and not node.dtype.is_complex


def _contiguous(node: Node, copies: dict[Node, Node]) -> Iterator[Node]:
    """A call whose inputs lie in row-major order; with the same `copies`, results of one call remain those of one."""
    if all(map(is_contiguous, node.inputs)):
        yield node
        return
    inputs: list[Node] = []
    for value in node.inputs:
        if not is_contiguous(value):
            if value not in copies:
                copies[value] = _copy(value, node.source)
                yield copies[value]
            value = copies[value]
        inputs.append(value)
    yield Node(node.op, tuple(inputs), node.attributes, node.type, node.source)


def _is_empty(node: Node) -> bool:
    """Whether this is a reduction of a tensor without elements."""
    return node.op.family == "reduction" and node.inputs[0].type.numel == 0


def _identity(node: Node) -> Iterator[Node]:
    """What reducing nothing gives, in the result's shape."""
    dtype = node.dtype
    value = reductions.IDENTITY.get(node.op.scalar, 0)
    number = float(value) if dtype.is_floating_point else value
    constant = Node(elementwise.constant, (), {"value": number, "dtype": dtype}, TensorType(dtype, ()), node.source)
    yield constant
    expanded = Node(views.expand, (constant,), {"shape": node.shape}, node.type, node.source)
    yield expanded
    yield Node(elementwise.cast, (expanded,), {"dtype": dtype}, node.type, node.source)
