"""A recording that keeps its tape: gradients of any order are recorded in it later, whenever they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from eagerjit.autograd import walk_graph
from eagerjit.autograd.node import GradNode, refresh_all
from eagerjit.compiler.ir import Node, TensorType
from eagerjit.func.inner import InnerTracer
from eagerjit.runtime import mode
from eagerjit.tensors.tensor import Storage, Tensor, new_tensor, share_storage, storage_of


class TapedTracer(InnerTracer):
    """Records a function with a tape that ends at `leaves`: tensors, one per input, that gradients go to."""

    def __init__(self, name: str, draws: Any = 1):
        super().__init__(name, draws)
        self.leaves: dict[Node, Tensor] = {}
        self.ended: list[tuple[Storage, int]] = []
        self._outsiders: dict[int, tuple[Tensor, Tensor]] = {}

    def parameter(self, type_: TensorType) -> Tensor:
        """A tensor that is given to the recording."""
        tensor = self.wrap(self.input(None, type_))  # type: ignore[arg-type]
        tensor._requires_grad = mode.grad_mode() and type_.dtype.is_differentiable
        self.leaves[tensor._data] = tensor
        return tensor

    def __exit__(self, *exc: object) -> None:
        foreign = {id(storage_of(t)) for t in self.written.values()}
        for key in [k for k in self._versions if k not in foreign]:
            del self._versions[key]  # the tape of this recording lives on, and counts its own tensors' writes
        self.ended += [(storage, storage.version) for storage, _ in self._versions.values()]
        super().__exit__(*exc)

    @contextmanager
    def with_gradients(self, recorded: bool = True) -> Iterator[None]:
        """A context in which what is recorded is put on the tape, or not."""
        before = mode.set_grad_mode(recorded)
        try:
            with self:
                yield
        finally:
            mode.set_grad_mode(before)

    def isolate(self, outputs: Sequence[Tensor]) -> list[Tensor]:
        """Cut the tape of these tensors off the surroundings: it ends at the leaves, not at tensors from outside."""
        refresh_all(outputs)
        outputs = [self.settled(self._leaf(t)) for t in outputs]
        stack = [t._node for t in outputs]
        seen: set[GradNode] = set()
        while stack:
            node = stack.pop()
            if node is None or node in seen or node.inputs is None:
                continue
            seen.add(node)
            outside, node.inputs = node.inputs, tuple([self._inside_of(x) for x in node.inputs])
            if node.versions is not None:
                pairs = zip(outside, node.inputs, node.versions, strict=True)
                node.versions = tuple([v if x is y or id(x) in self.written else 0 for x, y, v in pairs])
            tensors = [t for x in node.inputs for t in (x if isinstance(x, (list, tuple)) else (x,))]
            stack += [t._node for t in (*tensors, node.replaced) if isinstance(t, Tensor)]
        return outputs

    def _inside_of(self, argument: Any) -> Any:
        if isinstance(argument, Tensor):
            return self._leaf(argument)
        if type(argument) in (list, tuple) and any(isinstance(x, Tensor) for x in argument):
            return type(argument)(map(self._inside_of, argument))
        return argument

    def _leaf(self, tensor: Tensor) -> Tensor:
        """The leaf that stands for a tensor from outside; a tensor of this recording itself."""
        if self.is_own(tensor):
            return tensor
        known = self._outsiders.get(id(tensor))
        if known is None:
            leaf = new_tensor(self.value(tensor))
            leaf._requires_grad = tensor._requires_grad
            if id(tensor) in self.written:
                share_storage(leaf, tensor)  # whose version tells what was read before it was written
            position = self._positions.get(id(tensor))
            self.leaves.setdefault(leaf._data if position is None else self.inputs[position], leaf)
            known = self._outsiders[id(tensor)] = (tensor, leaf)
        return known[1]

    def reached(self, tensor: Tensor) -> set[Node]:
        """The inputs that a gradient of this tensor flows to."""
        if not tensor._requires_grad:
            return set()
        found = {id(tensor)}
        for edges in walk_graph.collect([tensor], None)[0].values():
            found.update(id(t) for e in edges for t in (e if isinstance(e, list) else (e,)))
        return {node for node, leaf in self.leaves.items() if id(leaf) in found}

    def leaf_of_input(self, node: Node) -> Tensor:
        """The leaf of an input, which the tape need not have met."""
        leaf = self.leaves.get(node)
        if leaf is None:
            leaf = self.leaves[node] = new_tensor(node)
            leaf._requires_grad = True
        return leaf

    def settled(self, tensor: Tensor) -> Tensor:
        """The tensor with the value that it has now: a view's is another one when its base was written."""
        tensor._data = self.value(tensor)
        return tensor
