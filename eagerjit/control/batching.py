"""Control structures over a batch: the same structures with bodies over a batch.

A structure is found as a call in a graph. Where only the condition's answer would differ between examples, a cond is
both branches and a choice, and a while loop runs until no example goes on, those that are done standing still.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eagerjit.compiler import batch, sizes
from eagerjit.compiler.batch import Batcher, Value
from eagerjit.compiler.ir import Graph, Node, TensorType
from eagerjit.compiler.ops import elementwise, reductions, views
from eagerjit.compiler.ops.host import TENSOR, host
from eagerjit.control.code import Code, canonical, specific
from eagerjit.control.structure import Runner
from eagerjit.runtime import dtypes
from eagerjit.runtime.host import FUNCTIONS

Guards = Sequence[sizes.Guard]


def scan(
    b: Batcher, code: Code, n_carry: int, n_elements: int, arguments: Sequence[Any], inputs: Sequence[Value],
    runner: Callable[[Code], Runner],
) -> list[Value]:  # fmt: skip
    """The results of a scan for all examples; elements and what is stacked have the batch second inside."""
    length, *values = arguments[code.n_inputs :]
    graph, guards = specific(code, values)
    flags = [v.batched for v in inputs]
    while True:
        sub = Batcher(b.size, b.randomness)
        given = batch.arguments(graph, flags, b.size)
        outputs = sub.inline(graph, given)
        more = [f or o.batched for f, o in zip(flags[:n_carry], outputs, strict=False)]
        if more == flags[:n_carry]:
            break
        flags[:n_carry] = more
    nodes = [sub.everywhere(o) if i < n_carry and flags[i] else o.node for i, o in enumerate(outputs)]
    batched = [*flags[:n_carry], *(o.batched for o in outputs[n_carry:])]
    made, symbols = _code(Graph(graph.name, [v.node for v in given], sub.nodes, nodes), guards)
    called = [b.everywhere(v) if f else v.node for v, f in zip(inputs, flags, strict=True)]
    for i in range(n_carry, n_carry + n_elements):
        called[i] = _swapped(b, called[i]) if flags[i] else called[i]
    types = [n.type if i < n_carry else TensorType(n.dtype, (length, *n.shape)) for i, n in enumerate(nodes)]
    results = _emit(b, runner(made), called, [length, *symbols], types)
    out = []
    for i, (result, has_batch) in enumerate(zip(results, batched, strict=True)):
        moved = _swapped(b, result) if has_batch and i >= n_carry else result
        out.append(Value(moved, has_batch))
    return out


def cond(
    b: Batcher, branches: Sequence[tuple[Code, tuple[int, ...], slice]], arguments: Sequence[Any],
    inputs: Sequence[Value], runner: Callable[[list[tuple[Code, tuple[int, ...], slice]]], Runner],
) -> list[Value]:  # fmt: skip
    """The results of a cond for all examples."""
    graphs = [specific(code, arguments[where]) for code, _, where in branches]
    given = [[inputs[i] for i in positions] for _, positions, _ in branches]
    if inputs[0].batched:
        either = [b.inline(graph, values) for (graph, _), values in zip(graphs, given, strict=True)]
        predicate = b.reshape(inputs[0].node, (b.size,))
        return [Value(_choice(b, predicate, x, y), True) for x, y in zip(*either, strict=True)]
    subs = [Batcher(b.size, b.randomness) for _ in branches]
    heads = [batch.arguments(g, [v.batched for v in vs], b.size) for (g, _), vs in zip(graphs, given, strict=True)]
    found = [sub.inline(graph, head) for sub, (graph, _), head in zip(subs, graphs, heads, strict=True)]
    batched = [x.batched or y.batched for x, y in zip(*found, strict=True)]
    parts: list[tuple[Code, tuple[int, ...], slice]] = []
    numbers: list[sizes.Expr] = []
    nodes: list[Node] = []
    for sub, (graph, guards), head, outputs, (_, positions, _) in zip(
        subs, graphs, heads, found, branches, strict=True
    ):
        nodes = [sub.everywhere(o) if f else o.node for o, f in zip(outputs, batched, strict=True)]
        code, symbols = _code(Graph(graph.name, [v.node for v in head], sub.nodes, nodes), guards)
        first = len(inputs) + len(numbers)
        parts.append((code, positions, slice(first, first + len(symbols))))
        numbers += symbols
    results = _emit(b, runner(parts), [v.node for v in inputs], numbers, [n.type for n in nodes])
    return [Value(r, f) for r, f in zip(results, batched, strict=True)]


def while_loop(
    b: Batcher, condition: Code, step: Code, n_carry: int, arguments: Sequence[Any], inputs: Sequence[Value],
    runner: Callable[[Code, Code], Runner], counting: bool,
) -> list[Value]:  # fmt: skip
    """The last carries of a while loop for all examples."""
    numbers = arguments[step.n_inputs :]
    asked, guards = specific(condition, numbers[: len(condition.symbols)])
    body, more_guards = specific(step, numbers[len(condition.symbols) :])
    flags = [v.batched for v in inputs]
    while True:
        sub = Batcher(b.size, b.randomness)
        given = batch.arguments(body, flags, b.size)
        (going,) = sub.inline(asked, given)
        after = sub.inline(body, given)[:-1]
        more = [f or going.batched or o.batched for f, o in zip(flags[:n_carry], after, strict=False)]
        if more == flags[:n_carry]:
            break
        flags[:n_carry] = more
    if going.batched:
        predicate = sub.reshape(going.node, (b.size,))
        after = [Value(_choice(sub, predicate, new, old), True) for new, old in zip(after, given, strict=False)]
    after = [Value(sub.everywhere(o), True) if f else o for o, f in zip(after, flags, strict=False)]
    (next_,) = sub.inline(asked, [*after, *given[n_carry:]])
    heads = [v.node for v in given]
    nodes = [*(o.node for o in after), _any(sub, next_)]
    made, symbols = _code(Graph(body.name, heads, sub.nodes, nodes), [*guards, *more_guards])
    first = Batcher(b.size, b.randomness)
    given = batch.arguments(asked, flags, b.size)
    start = _any(first, first.inline(asked, given)[0])
    made_first, symbols_first = _code(Graph(asked.name, [v.node for v in given], first.nodes, [start]), guards)
    called = [b.everywhere(v) if f else v.node for v, f in zip(inputs, flags, strict=True)]
    numbers = [*symbols_first, *symbols]
    if counting:  # the runs of the example that goes on longest
        (count,) = _emit(b, runner(made_first, made), called, numbers, [TensorType(dtypes.int64, ())])
        return [Value(count, False)]
    results = _emit(b, runner(made_first, made), called, numbers, [n.type for n in nodes[:n_carry]])
    return [Value(r, f) for r, f in zip(results, flags, strict=False)]


def _code(graph: Graph, guards: Guards) -> tuple[Code, list[sizes.Expr]]:
    assumptions = sizes.active.assumptions
    return canonical(graph, guards, {} if assumptions is None else assumptions.hints)


def _swapped(b: Batcher, node: Node) -> Node:
    """The first two dimensions exchanged."""
    return b.emit(views.permute, node, dims=(1, 0, *range(2, len(node.shape))))


def _choice(b: Batcher, predicate: Node, x: Value, y: Value) -> Node:
    """Per example x where the predicate holds, else y."""
    x_node, y_node = b.everywhere(x), b.everywhere(y)
    return b.emit(elementwise.where, b.ranked(Value(predicate, True), len(x_node.shape) - 1), x_node, y_node)


def _any(b: Batcher, value: Value) -> Node:
    """Whether any example's condition holds."""
    return b.emit(reductions.any_, b.reshape(value.node, (b.size,)), axes=(0,)) if value.batched else value.node


def _emit(
    b: Batcher, runner: Runner, inputs: Sequence[Node], numbers: Sequence[sizes.Expr], types: Sequence[TensorType]
) -> list[Node]:
    """The results of a call, of these types."""
    FUNCTIONS.setdefault(runner.key, runner)
    arguments = (*(TENSOR for _ in inputs), *numbers)
    return [
        b.emit(host, *inputs, function=runner.key, arguments=arguments, result=i, dtype=t.dtype, shape=t.shape)
        for i, t in enumerate(types)
    ]
