"""A recording inside of another, or inside of eager code: what a function does to tensors that stand for one example.

Tensors of the surroundings become inputs when they are first read. The graph is then transformed and run outside, where
it is one operation like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph, Node, TensorType
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.ops.declare import Primitive
from eagerjit.recording.trace import Tracer
from eagerjit.runtime import dtypes
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.runtime.program import Op
from eagerjit.state import set_tracer, state
from eagerjit.tensors.placement import place_number
from eagerjit.tensors.tensor import Tensor


class InnerTracer(Tracer):
    """Records a function whose surroundings go on existing: the trace that encloses it, or eager tensors."""

    def __init__(self, name: str, draws: Any = 1):
        super().__init__(name)
        self.lifted: list[Tensor] = []
        self._own: set[Node] = set()
        self._positions: dict[int, int] = {}
        self._inside: dict[Node, Node] = {}
        self._outside: dict[Node, Node] = {}
        self.own_draws = self.draws = draws
        self.first_sequence = 0 if state.tracer is None else state.tracer.first_sequence
        self.enclose(state.tracer)

    def enclose(self, outer: Tracer | None) -> None:
        """Record inside of this trace, or of eager code."""
        self.outer = outer
        self.outlives_call = outer is not None and outer.outlives_call
        if outer is None:
            return
        self.observation, self.leaves_made = outer.observation, outer.leaves_made
        self.assumptions, self.owners, self.numbers_vary = outer.assumptions, outer.owners, outer.numbers_vary
        self.draws = self.own_draws * outer.draws

    # -- values -------------------------------------------------------------------------------------------------------

    def input(self, outside: Tensor, type_: TensorType) -> Node:
        """An input of the graph that is given this tensor, or one example of it."""
        node = Node(elementwise.argument, (), {"leaf": len(self.inputs), "strides": None}, type_)
        self.inputs.append(node)
        self.lifted.append(outside)
        self._own.add(node)
        if DeviceArray.exist:
            self.places[node] = place_number(outside)
        return node

    def is_own(self, tensor: Tensor) -> bool:
        return type(tensor._data) is Node and tensor._data in self._own

    def value(self, tensor: Tensor) -> Node:
        """The node that holds a tensor's present value; a tensor from outside becomes an input."""
        if id(tensor) in self._values or self.is_own(tensor):
            return super().value(tensor)
        if tensor._storage is not None and id(tensor._storage) in self._versions and tensor._view is not None:
            return super().value(tensor)
        self._positions[id(tensor)] = len(self.inputs)
        node = self.input(tensor, self.type_outside(tensor))
        self._values[id(tensor)] = (tensor, node, self.writes_to(tensor))
        return node

    def type_outside(self, tensor: Tensor) -> TensorType:
        """The type of a tensor from outside."""
        if self.outer is not None:
            return self.outer.value(tensor).type
        if type(tensor._data) is Node:
            raise RuntimeError("a tensor of another trace was used: it left the function that was traced")
        return TensorType(dtypes.BY_NUMPY[tensor._data.dtype], tensor._data.shape)

    def record(self, primitive: Primitive, inputs: tuple[Node, ...], **attributes: Any) -> Node:
        """Append one primitive; nodes of the enclosing trace become inputs."""
        node = super().record(primitive, tuple(n if n in self._own else self.lift(n) for n in inputs), **attributes)
        self._own.add(node)
        return node

    def place(self, tensor: Tensor) -> Node:
        """A node that has a tensor's value: where it lies in memory is the enclosing trace's affair."""
        return self.value(tensor)

    def lift(self, node: Node) -> Node:
        """A node of the enclosing trace as an input."""
        known = self._inside.get(node)
        if known is None:
            assert self.outer is not None
            known = self._inside[node] = self.input(self.outer.wrap(node), node.type)
            self._outside[known] = node
        return known

    def write(self, tensor: Tensor, node: Node, noticed: bool = True) -> None:
        """Note a write; those to tensors from outside happen there when the recording has been run."""
        foreign = not self.is_own(tensor)
        if foreign and tensor._view is not None:
            self.value(tensor._view.base)
        super().write(tensor, node, noticed)
        if foreign and tensor._view is None:
            self.written[id(tensor)] = tensor

    # -- the surroundings ---------------------------------------------------------------------------------------------

    def get_grad(self, tensor: Tensor) -> Tensor | None:
        """A tensor's grad, as it is outside."""
        foreign = not self.is_own(tensor)
        return self.outer.get_grad(tensor) if foreign and self.outer is not None else tensor._grad

    def guard_own_slot(self, tensor: Tensor, name: str, value: Any) -> None:
        """Require something of a tensor from outside, where the enclosing trace does."""
        if self.outer is not None:
            self.outer.guard_own_slot(tensor, name, value)

    def guard_ends(self, tensors: Iterable[Tensor]) -> None:
        """Require of outside tensors at which a gradient ends what the enclosing trace requires."""
        if self.outer is not None:
            self.outer.guard_ends(tensors)

    def set_grad(self, tensor: Tensor, grad: Tensor | None) -> None:
        """Gradients cannot leave one example."""
        raise RuntimeError(
            "You are attempting to call Tensor.backward() or to set .grad inside of vmap. "
            "Use func.grad or autograd.grad."
        )

    def object(self, value: Any) -> int:
        """The index of a constant object."""
        return super().object(value) if self.outer is None else self.outer.object(value)

    def new_leaf(self) -> int:
        """The number of one more leaf."""
        return super().new_leaf() if self.outer is None else self.outer.new_leaf()

    def new_symbol(self, prefix: str, hint: int) -> Any:
        """A size known only at run time."""
        return super().new_symbol(prefix, hint) if self.outer is None else self.outer.new_symbol(prefix, hint)

    def guard_object(self, leaf: int, op: Op, value: Any) -> None:
        """Require that a leaf of the enclosing trace is this object."""
        if self.outer is not None:
            self.outer.guard_object(leaf, op, value)

    def load(self, leaf: int, op: Op, *operands: int) -> None:
        """How a leaf of the enclosing trace is found."""
        if self.outer is not None:
            self.outer.load(leaf, op, *operands)

    def item_number(self, container: dict[str, Any], key: str) -> Any:
        """A number in a dictionary: an input where a trace encloses this one."""
        return container[key] if self.outer is None else self.outer.item_number(container, key)

    def note_item(self, container: dict[str, Any], key: str, value: Any) -> None:
        """A dictionary got a number: the enclosing trace reads it from there too."""
        if self.outer is not None:
            self.outer.note_item(container, key, value)

    def specialize(self, node: Node) -> None:
        """Tie the enclosing trace to the numbers that `node` was calculated from."""
        if node in self._outside or node not in self._own:
            assert self.outer is not None
            self.outer.specialize(self._outside.get(node, node))
        else:
            super().specialize(node)

    # -- the end ------------------------------------------------------------------------------------------------------

    def written_outside(self) -> list[tuple[int, Tensor]]:
        """(input, tensor) for every tensor from outside that was written in place."""
        return [(self._positions[key], t) for key, t in self.written.items()]

    def graph(self, results: list[Tensor]) -> Graph:
        """The recording so far."""
        outputs = [self.value(r) for r in results]
        return Graph(self.name, list(self.inputs), list(self.nodes), outputs)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """A context in which operations happen outside of the recording."""
        assert self._before is not None
        set_tracer(self.outer)
        before, sizes.active.assumptions = sizes.active.assumptions, self._before[1]
        try:
            yield
        finally:
            set_tracer(self)
            sizes.active.assumptions = before
