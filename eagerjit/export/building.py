"""A recorded call as an `fx.Graph` of the library's ops, and of primitives where an op cannot be called again."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator, Mapping
from typing import Any

from eagerjit import fx
from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.ops.elementwise import argument
from eagerjit.export.functions import FUNCTIONS, generator_state, op_function, primitive, sym_size
from eagerjit.export.recording import Call, Recorded, nodes_in
from eagerjit.generator import default_generator
from eagerjit.namespace.packets import aten
from eagerjit.tensors.creation import empty
from eagerjit.tensors.tensor import Tensor

_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip


class Builder:
    """Writes a graph; what a node needs is written when it is first asked for.

    values      the graph's nodes by the recorded ones: at first those of the inputs and of the tensors that are held
    """

    def __init__(self, asked: str, found: Recorded, graph: fx.Graph, values: dict[Node, fx.Node]):
        self.asked, self.found, self.graph, self.values = asked, found, graph, values
        self._calls: dict[int, fx.Node] = {}
        self._sizes: dict[str, Any] = {}

    def results(self) -> list[Any]:
        """The leaves of what is returned, after the nodes that compute them and those that write to tensors."""
        leaves = [self.tensor(x) if isinstance(x, Node) else self._number(x) for x in self.found.leaves]
        for tensor, node in self.found.writes:
            value = self.graph.call_function(aten.detach, (self.tensor(node),))
            self.graph.call_function(aten.copy_, (self._written(tensor), value))
        return leaves

    def _number(self, value: Any) -> Any:
        if isinstance(value, sizes.Size):
            return self.size(value)
        if isinstance(value, (bool, int, float, complex, str, type(None))):
            return value
        raise RuntimeError(f"{self.asked}: the result holds a {type(value).__name__}, which a graph does not make")

    def _written(self, tensor: Tensor) -> fx.Node:
        node = next((n for n, held in self.found.held.items() if held is tensor), None)
        if node is None:
            raise RuntimeError(f"{self.asked}: an argument is written to, which exported programs do not do")
        if tensor.requires_grad:
            raise RuntimeError(f"{self.asked}: a parameter is written to, which exported programs do not do")
        return self.tensor(node)

    def tensor(self, node: Node) -> fx.Node:
        """The node of a value, with all that it is computed from before it."""
        pending = [node]
        while pending:
            current = pending[-1]
            missing = [n for n in self._needed(current) if n not in self.values]
            if current in self.values or not missing:
                pending.pop()
            if current not in self.values and not missing:
                self.values[current] = self._made(current)
                self._describe(current)
            pending += missing if current not in self.values else []
        return self.values[node]

    def _needed(self, node: Node) -> Iterator[Node]:
        call = self._call(node)
        return iter(node.inputs) if call is None else nodes_in(call.arguments)

    def _call(self, node: Node) -> Call | None:
        """The op that the node is a result of, where calling it again gives the same."""
        return self.found.calls.get(node)

    def _made(self, node: Node) -> fx.Node:
        if node.op is argument:
            return self._state(self.found.held[node])
        call = self._call(node)
        if call is None:
            attributes = {k: self._value(v) for k, v in node.attributes.items() if v is not None}
            return self.graph.call_function(primitive(node.op.name), tuple(map(self._value, node.inputs)), attributes)
        if id(call.arguments) not in self._calls:
            given = tuple(map(self._value, call.arguments))
            self._calls[id(call.arguments)] = self.graph.call_function(op_function(call.op), given)
        made = self._calls[id(call.arguments)]
        return made if call.number is None else self.graph.call_function(operator.getitem, (made, call.number))

    def _state(self, tensor: Tensor) -> fx.Node:
        """The node of a tensor that is neither an input nor held by the program: a generator's state."""
        if tensor is not default_generator.state:
            raise RuntimeError(f"{self.asked}: random numbers come from a generator other than the default one")
        return self.graph.call_function(generator_state)

    def _value(self, value: Any) -> Any:
        if isinstance(value, Node):
            return self.values[value]
        if isinstance(value, sizes.Size):
            return self.size(value)
        return tuple(map(self._value, value)) if type(value) is tuple else value

    def size(self, size: sizes.Expr) -> Any:
        """A size: a number, or the node that computes it from the inputs' sizes."""
        settled = sizes.substitute(size, self.found.known)
        return settled if isinstance(settled, int) else self._computed(ast.parse(str(settled), mode="eval").body)

    def _computed(self, tree: ast.expr) -> Any:
        text = ast.unparse(tree)
        if text not in self._sizes:
            self._sizes[text] = self._of_tree(tree)
        return self._sizes[text]

    def _of_tree(self, tree: ast.expr) -> Any:
        match tree:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=symbol):
                number, dim, _ = self.found.varying[symbol]
                return self.graph.call_function(sym_size, (self.values[self.found.inputs[number]], dim))
            case ast.UnaryOp(operand=operand):
                return self.graph.call_function(operator.neg, (self._computed(operand),))
            case ast.BinOp(left=left, op=op, right=right):
                return self.graph.call_function(_OPERATORS[type(op)], (self._computed(left), self._computed(right)))
            case ast.Call(func=ast.Name(id=name), args=args):
                return self.graph.call_function(FUNCTIONS[name], tuple(map(self._computed, args)))
        raise AssertionError(ast.dump(tree))

    def _describe(self, node: Node) -> None:
        describe(self.values[node], node, self.found.known)


def describe(made: fx.Node, node: Node, known: Mapping[str, int]) -> None:
    """Note on a graph's node the user's line, and a tensor without memory like the value where its size is known."""
    made.meta["stack_trace"] = node.source
    shape = [sizes.substitute(size, known) for size in node.shape]
    if all(isinstance(size, int) for size in shape):
        made.meta["val"] = empty(shape, dtype=node.dtype, device="meta")
