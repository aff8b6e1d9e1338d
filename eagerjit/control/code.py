"""Compiled parts of control structures: graphs whose sizes are arguments, compiled once, when they first run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from eagerjit import debug
from eagerjit.compiled.compilation import executable_of
from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph, Node
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.partition import attribute_symbols, replay
from eagerjit.compiler.signature import Binding, Fresh, IntLeaf, TensorLeaf, Trace
from eagerjit.compiler.text import graph_key
from eagerjit.compiler.unify import replacements, unify
from eagerjit.runtime import cache
from eagerjit.runtime.execute import MISS
from eagerjit.tensors.tensor import Tensor, new_tensor


class Code:
    """A graph that runs on tensors, then the values of its symbols."""

    def __init__(self, graph: Graph, symbols: Sequence[str], guards: Sequence[sizes.Guard], hints: dict[str, int]):
        self.graph, self.symbols, self.guards, self.hints = graph, tuple(symbols), tuple(guards), hints
        self.key = cache.content_key(graph_key(graph), " ".join(symbols), "\n".join(map(str, guards)))
        self.n_inputs = len(graph.inputs)
        self._executable: Any = None
        self._constants: tuple[Tensor, ...] = ()

    def run(self, leaves: tuple[Any, ...]) -> tuple[Any, ...]:
        """The outputs for tensors and the symbols' values."""
        executable = self._executable
        if executable is None:
            executable = self._executable = self._compiled()
        result = executable.run((*leaves, *self._constants) if self._constants else leaves)
        if result is MISS:
            raise RuntimeError(f"{self.graph.name}: its function was recorded for arguments of other kinds")
        return result if type(result) is tuple else (result,)

    def shapes(self, values: Sequence[int]) -> list[tuple[int, ...]]:
        """The outputs' sizes for the symbols' values."""
        known = dict(zip(self.symbols, values, strict=True))
        return [tuple(sizes.evaluate(d, known) for d in n.type.shape) for n in self.graph.outputs]

    def selecting(self, outputs: Sequence[int]) -> Code:
        """The same with some of the outputs alone."""
        if list(outputs) == list(range(len(self.graph.outputs))):
            return self
        graph = self.graph
        chosen = Graph(graph.name, graph.inputs, graph.nodes, [graph.outputs[i] for i in outputs])
        return _known(Code(chosen, self.symbols, self.guards, self.hints))

    def _compiled(self) -> Any:
        """The executable; one that takes constants as arguments serves all graphs that differ in these alone.

        Numbers that eager code changes from call to call, a learning rate say, are constants of the recording.
        """
        constants = [n for n in self.graph.nodes if n.op is elementwise.constant and n.dtype.kind != "bool"]
        blank = {n: Node(elementwise.argument, (), {"strides": None}, n.type) for n in constants}
        order, new = replay(self.graph.outputs, {**{n: n for n in self.graph.inputs}, **blank})
        general = Graph(
            self.graph.name, [*self.graph.inputs, *blank.values()], order, [new[n] for n in self.graph.outputs]
        )
        key = cache.content_key(graph_key(general), " ".join(self.symbols), "\n".join(map(str, self.guards)))
        known = _variants.setdefault(key, [0, None])
        known[0] += 1
        if not constants or known[0] <= _LITERAL:
            return self._executable_of(self.graph, [])
        if known[1] is None:
            known[1] = self._executable_of(general, list(blank.values()))
        self._constants = tuple([new_tensor(np.array(n.attributes["value"], n.dtype.numpy)) for n in constants])
        return known[1]

    def _executable_of(self, graph: Graph, last: Sequence[Node]) -> Any:
        """A graph compiled to take its inputs, the sizes, and the `last` of its inputs."""
        values = {node: Node(node.op, (), dict(node.attributes), node.type) for node in graph.inputs}
        order, new = replay(graph.outputs, values)
        n_first = len(values) - len(last)
        bindings: list[Binding] = []
        for i, node in enumerate(values.values()):
            leaf = i if i < n_first else i + len(self.symbols)
            node.attributes["leaf"] = leaf  # type: ignore[index]
            bindings.append(TensorLeaf(leaf, node, None))
        bindings += [IntLeaf(n_first + i, sizes.symbol(name)) for i, name in enumerate(self.symbols)]
        outputs = [new[n] for n in graph.outputs]
        trace = Trace(
            Graph(graph.name, list(values.values()), order, outputs),
            len(bindings),
            len(bindings),
            bindings,
            [Fresh(node) for node in outputs],
            list(self.guards),
            dict(self.hints),
            checks=debug.CHECKS,
        )
        return executable_of(trace, trace.graph, [], pending=True)[0]


_LITERAL = 3
"""How many graphs that differ in constants alone are compiled for their constants."""

_variants: dict[str, list[Any]] = {}
"""Per graph without its constants: how many there were, and the executable that takes constants as arguments."""

_codes: OrderedDict[str, Code] = OrderedDict()
_LIMIT = 512


def _known(code: Code) -> Code:
    """The code kept under the same key, or this one."""
    found = _codes.pop(code.key, None) or code
    _codes[found.key] = found
    if len(_codes) > _LIMIT:
        _codes.popitem(last=False)
    return found


def code_of(
    name: str, inputs: Sequence[Node], outputs: Sequence[Node], assumptions: sizes.Assumptions
) -> tuple[Code, list[sizes.Expr]]:
    """The code that computes `outputs` from `inputs`, and what its symbols stand for in the recording."""
    given = {n: Node(elementwise.argument, (), {"leaf": i, "strides": None}, n.type) for i, n in enumerate(inputs)}
    order, new = replay(list(outputs), given)
    graph = Graph(name, list(given.values()), order, [new[n] for n in outputs])
    return canonical(graph, list(assumptions.guards), assumptions.hints)


def canonical(graph: Graph, known: Sequence[sizes.Guard], hints: Mapping[str, int]) -> tuple[Code, list[sizes.Expr]]:
    """The code of a graph, the same for graphs that differ in their symbols' names; and what its symbols stand for."""
    values = replacements(known, {s for s in hints if s.startswith("d")})
    if values:
        graph, _ = unify(graph, values)
    used = list(dict.fromkeys(s for n in (*graph.inputs, *graph.nodes) for s in _symbols(n)))
    # The symbols' first letters say what sizes may be.
    names = {s: f"{s[0]}{i}" for i, s in enumerate(used)}
    renamed: dict[str, sizes.Expr] = {s: sizes.symbol(n) for s, n in names.items()}
    if renamed:
        graph, _ = unify(graph, renamed)
    guards = [g.replaced(values) for g in known]
    guards = [g.replaced(renamed) for g in guards if not g.is_certain() and _mentions_only(g, names)]
    unique = {str(g): sizes.Guard(g.relation, g.a, g.b, g.holds) for g in guards}
    found = {n: hints.get(s, 64) for s, n in names.items()}
    code = _known(Code(graph, list(names.values()), [unique[text] for text in sorted(unique)], found))
    return code, [sizes.symbol(s) for s in used]


def specific(code: Code, values: Sequence[sizes.Expr]) -> tuple[Graph, list[sizes.Guard]]:
    """The code's graph and guards with these sizes for its symbols."""
    known = dict(zip(code.symbols, values, strict=True))
    return unify(code.graph, known)[0], [g.replaced(known) for g in code.guards]


def _symbols(node: Node) -> Iterable[str]:
    found = set().union(*(sizes.symbols(d) for d in node.type.shape))
    return sorted(found | attribute_symbols(tuple(node.attributes.values())))


def _mentions_only(guard: sizes.Guard, names: dict[str, str]) -> bool:
    return all(s in names for s in sizes.symbols(guard.a) | sizes.symbols(guard.b))
