"""Cuts the joint graph of a function and its gradient in two: what runs forward, and what runs backward."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph, Node
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.shapes import Shape
from eagerjit.compiler.signature import Binding, FloatLeaf, Fresh, IntLeaf, Question, TensorLeaf, Trace
from eagerjit.runtime.records import record

CHEAP = 60
"""Scalar operations per element up to which a value is rather computed again than kept."""

_CALLED = frozenset({"linear", "routine", "host"})
"""Families whose operands lie in memory, whatever is fused."""


def saved_values(
    forward: set[Node], wanted: Iterable[Node], overwritten: set[Node], given: Collection[Node] = ()
) -> list[Node]:
    """The forward values to keep for computing `wanted` later; of the graph's inputs only the overwritten need keeping.

    What is `given` then is kept already.

    Results of products, reductions, gathers and random numbers are kept; elementwise values are computed again where
    what they come from is kept anyway or is no larger than they are. What is computed of a kept value alone is kept in
    its place where it lies in memory anyway, as the operand of a product does.
    """
    wanted = list(wanted)
    saved: dict[Node, None] = {}
    decided: dict[Node, bool] = {}
    visited: set[Node] = set(given)

    def again(node: Node) -> bool:
        """Whether a forward value is computed again in the backward part."""
        found = decided.get(node)
        if found is not None:
            return found
        family = node.op.family
        if family == "argument":
            found = not node.attributes.get("number", False) and node not in overwritten
        elif family == "view" or (family == "generator" and not node.inputs):
            found = True
        elif family == "elementwise" and node.op.cost <= CHEAP:
            sources = _sources(node, given)
            fresh = [s for s in sources if s not in saved and s.op.family != "argument"]
            found = sum(map(_bytes, fresh)) <= _bytes(node)
        else:
            found = False
        decided[node] = found
        return found

    stack = wanted[::-1]
    while stack:
        node = stack.pop()
        if node in visited:
            continue
        visited.add(node)
        if node in forward and not again(node):
            saved[node] = None
            continue
        stack += node.inputs[::-1]
    return _moved_on(saved, visited - set(given), forward, wanted, set(given))


def _moved_on(
    saved: Iterable[Node], visited: set[Node], forward: set[Node], wanted: list[Node], given: set[Node]
) -> list[Node]:
    """The values to keep, each moved on to the last operand that is computed of it alone and is no larger."""
    kept = dict.fromkeys(saved)
    operands = {i.base for n in forward if n.op.family in _CALLED for i in n.inputs} - kept.keys()
    users: dict[Node, set[Node]] = {}
    for node in visited - kept.keys():
        for value in node.inputs:
            users.setdefault(value, set()).add(node)
    final = set(wanted)
    moved: dict[Node, None] = {}
    for value in kept:
        size, last, node = _bytes(value), value, value
        while node not in final and len(users[node]) == 1:
            (node,) = users[node]
            if node not in forward or node.op.family != "elementwise" or _bytes(node) > size:
                break
            if node in operands:
                last = node
        moved[last] = None
    read = final.union(*(n.inputs for n in _ancestors_until(wanted, given | moved.keys())))
    return [v for v in moved if v in read]


def _bytes(node: Node) -> int:
    return sizes.hint(sizes.mul(node.type.numel, node.dtype.itemsize))


def _sources(node: Node, given: Collection[Node]) -> set[Node]:
    """What an elementwise value would be computed from again: the nearest that are neither elementwise nor given."""
    out: set[Node] = set()
    stack = list(node.inputs)
    count = 0
    while stack and count < 64:
        value = stack.pop()
        count += 1
        if value in given:
            continue
        family = value.op.family
        if family == "view" or (family == "elementwise" and value.op.cost <= CHEAP):
            stack += value.inputs
        elif family != "generator" or value.inputs:
            out.add(value)
    return out | {value for value in stack if value not in given}


def replay(wanted: list[Node], given: dict[Node, Node]) -> tuple[list[Node], dict[Node, Node]]:
    """Nodes that compute `wanted` from the values in `given`, in order, and what every node became."""
    new = dict(given)
    order: list[Node] = []
    stack: list[tuple[Node, bool]] = [(n, False) for n in reversed(wanted)]
    while stack:
        node, ready = stack.pop()
        if node in new:
            continue
        if not ready:
            stack.append((node, True))
            stack += [(i, False) for i in reversed(node.inputs)]
            continue
        if node.op.family == "argument":
            raise AssertionError(f"{node} is needed by the backward part and was not given")
        made = Node(node.op, tuple(new[i] for i in node.inputs), node.attributes, node.type, node.source)
        new[node] = made
        order.append(made)
    return order, new


def with_siblings(graph: Graph, found: set[Node]) -> set[Node]:
    """The nodes, and the other results of the calls of the host among them, which cost nothing more to compute."""
    calls = {_call(n) for n in found if n.op.family == "host"}
    return found | {n for n in graph.nodes if n.op.family == "host" and _call(n) in calls} if calls else found


def _call(node: Node) -> object:
    return node.inputs, node.attributes["function"], node.attributes["arguments"]


@record
class GradientTrace:
    """A gradient as a Trace of its own: after gradients and kept values it takes numbers and tensors of the call.

    numbers     leaves of the call that are Python numbers
    tensors     leaves of the call that are tensors
    read        those whose values matter, rather than their sizes alone
    """

    trace: Trace
    numbers: list[int]
    tensors: list[int]
    read: list[int]


def gradient_trace(
    trace: Trace,
    cotangents: list[Node],
    kept: list[Node],
    wanted: list[Node],
    bindings: dict[Node, TensorLeaf],
    on_host: list[bool],
) -> GradientTrace:
    """Cut the part that computes `wanted` out of a joint graph; `on_host` says which of them the host gets."""
    given: dict[Node, Node] = {}
    inputs: list[Node] = []
    new_bindings: list[Binding] = []

    def add(node: Node, strides: Shape | None) -> None:
        leaf = len(new_bindings)
        made = Node(elementwise.argument, (), {"leaf": leaf, "strides": strides}, node.type, node.source)
        given[node] = made
        inputs.append(made)
        new_bindings.append(TensorLeaf(leaf, made, strides))

    for node in (*cotangents, *kept):
        add(node, None)
    # Other answers about sizes the forward call has checked, of sizes that the gradient may not have.
    measured = [trace.questions[position] for position in trace.measured().values()]
    needed = _ancestors_until(wanted, set(given)) | {q.node for q in measured if q.node not in given}
    used = [n for n in trace.graph.inputs if n in needed and n in bindings]
    read = [bindings[n].leaf for n in used]
    unbound = _symbols([*wanted, *given], needed) - {str(d) for n in given for d in n.type.shape if sizes.is_symbol(d)}
    for node in bindings:
        names = {str(d) for d in node.type.shape if sizes.is_symbol(d)}
        if node not in used and names & unbound:
            used.append(node)
            unbound -= names
    integers = [b for b in trace.bindings if isinstance(b, IntLeaf)]
    new_bindings += [IntLeaf(len(inputs) + i, b.size) for i, b in enumerate(integers)]
    floats = [b for b in trace.bindings if isinstance(b, FloatLeaf) and b.node in needed]
    for b in floats:
        leaf = len(new_bindings)
        given[b.node] = Node(elementwise.argument, (), {"leaf": leaf, "number": True}, b.node.type, b.node.source)
        inputs.append(given[b.node])
        new_bindings.append(FloatLeaf(leaf, given[b.node]))
    for node in used:
        add(node, bindings[node].strides)
    order, new = replay(wanted, given)
    graph = Graph(f"{trace.graph.name}_backward", inputs, order, [new[n] for n in wanted])
    outputs = [Fresh(new[n], on_host=host) for n, host in zip(wanted, on_host, strict=True)]
    count = len(new_bindings)
    result = Trace(
        graph,
        count,
        count,
        new_bindings,
        list(outputs),
        [],
        dict(trace.hints),
        cuda_graphs=trace.cuda_graphs,
        fastmath=trace.fastmath,
        checks=trace.checks,
        device=trace.device,
        questions=[Question(new[q.node], size=q.size) for q in measured],
    )
    numbers = [b.leaf for b in integers] + [b.leaf for b in floats]
    return GradientTrace(result, numbers, [bindings[n].leaf for n in used], read)


def _ancestors_until(nodes: list[Node], stops: set[Node]) -> set[Node]:
    found: set[Node] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in found and node not in stops:
            found.add(node)
            stack += node.inputs
    return found


def _symbols(wanted: list[Node], needed: set[Node]) -> set[str]:
    found: set[str] = set()
    for node in (*needed, *wanted):
        for d in node.type.shape:
            found |= sizes.symbols(d)
        found |= attribute_symbols(tuple(node.attributes.values()))
    return found


def attribute_symbols(value: Any) -> set[str]:
    """The symbols in an attribute, however deep."""
    if isinstance(value, tuple):
        return set().union(*map(attribute_symbols, value))
    return set(sizes.symbols(value)) if isinstance(value, sizes.Size) else set()
