"""Functions that a control structure runs: recorded once, on types, with everything that their gradients need.

A body is a recording of its own (a tape included), so that gradients of any order are recorded in it later, whenever
they are asked for; a gradient is a body again. What it reads from outside becomes an input.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from eagerjit import pytree
from eagerjit.autograd import engine
from eagerjit.autograd.node import GradNode
from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node, TensorType
from eagerjit.compiler.ops import elementwise
from eagerjit.func.inner import InnerTracer
from eagerjit.runtime import dtypes, mode
from eagerjit.runtime.source import line_of
from eagerjit.state import Defaults, state
from eagerjit.tensors.tensor import Tensor, new_tensor, storage_of
from eagerjit.watching.observation import TraceBreak

NUMBERS = (bool, int, float)


class BodyTracer(InnerTracer):
    """Records a body. `leaves` are the tensors, one per input, that gradients start from."""

    def __init__(self, name: str):
        super().__init__(name)
        self.began = mode.next_sequence()
        self.leaves: dict[Node, Tensor] = {}
        self.parameters: list[tuple[Node, Tensor]] = []
        self._outsiders: dict[int, tuple[Tensor, Tensor]] = {}

    def type_outside(self, tensor: Tensor) -> TensorType:
        """The type of a tensor from outside; where no trace encloses this one its sizes are symbols too."""
        if self.outer is not None or type(tensor._data) is Node:
            return super().type_outside(tensor)
        array = tensor._data
        shape = tuple(self.new_symbol("s", d) if d > 1 else d for d in array.shape)
        return TensorType(dtypes.BY_NUMPY[array.dtype], shape)

    def parameter(self, type_: TensorType) -> Tensor:
        """A tensor that the body is called with."""
        tensor = self.wrap(self.input(None, type_))  # type: ignore[arg-type]
        tensor._requires_grad = mode.grad_mode() and type_.dtype.is_differentiable
        self.leaves[tensor._data] = tensor
        self.parameters.append((tensor._data, tensor))
        return tensor

    def set_grad(self, tensor: Tensor, grad: Tensor | None) -> None:
        """Gradients cannot leave a body."""
        raise RuntimeError(f"{self.name}: .backward() inside of its function; use autograd.grad or func.grad")

    def __exit__(self, *exc: object) -> None:
        foreign = {id(storage_of(t)) for t in self.written.values()}
        for key in [k for k in self._versions if k not in foreign]:
            del self._versions[key]  # the tape of this recording lives on, and counts its own tensors' writes
        super().__exit__(*exc)

    @contextmanager
    def with_gradients(self) -> Iterator[None]:
        """A context in which what is recorded is put on the tape."""
        before = mode.set_grad_mode(True)
        try:
            with self:
                yield
        finally:
            mode.set_grad_mode(before)

    # -- the tape -----------------------------------------------------------------------------------------------------

    def isolate(self, outputs: Sequence[Tensor]) -> list[Tensor]:
        """Cut the tape of these tensors off the surroundings: it ends at the leaves, not at tensors from outside."""
        outputs = [self.settled(self._leaf(t)) for t in outputs]
        stack = [t._node for t in outputs]
        seen: set[GradNode] = set()
        while stack:
            node = stack.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            node.inputs = tuple([self._inside_of(x) for x in node.inputs or ()])
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
        if self._is_own(tensor):
            return tensor
        known = self._outsiders.get(id(tensor))
        if known is None:
            leaf = new_tensor(self.value(tensor))
            leaf._requires_grad = tensor._requires_grad
            self.leaves.setdefault(leaf._data, leaf)
            known = self._outsiders[id(tensor)] = (tensor, leaf)
        return known[1]

    def leaf_of_input(self, node: Node) -> Tensor:
        """The leaf of an input, which the tape need not have met."""
        leaf = self.leaves.get(node)
        if leaf is None:
            leaf = self.leaves[node] = new_tensor(node)
            leaf._requires_grad = True
        return leaf

    def reached(self, tensor: Tensor) -> set[Node]:
        """The inputs that a gradient of this tensor flows to."""
        if tensor._node is None:
            return {tensor._data} if tensor._requires_grad else set()
        nodes, *_ = engine.collect([tensor], None)
        edges = [t for found in nodes.values() for e in found for t in (e if isinstance(e, list) else (e,))]
        return {t._data for t in edges if t is not None and t._node is None}

    def pull(self, outputs: Sequence[tuple[Tensor, Tensor]], wanted: Sequence[Node]) -> list[Tensor]:
        """Gradients of the wanted inputs from those of outputs; zeros where none arrive. Entered by the caller."""
        roots = [(o, g) for o, g in outputs if o._requires_grad]
        targets = [self.leaf_of_input(n) for n in wanted]
        found = engine.run([o for o, _ in roots], [g for _, g in roots], targets, True, True)
        return [
            self.settled(t.detach().new_zeros(t.shape) if g is None else g) for t, g in zip(targets, found, strict=True)
        ]

    def settled(self, tensor: Tensor) -> Tensor:
        """The tensor with the value that it has now: a view's is another one when its base was written."""
        tensor._data = self.value(tensor)
        return tensor

    # -- the surroundings ---------------------------------------------------------------------------------------------

    def size(self, size: sizes.Expr) -> sizes.Expr:
        """A size as it is outside: a number where the surroundings do not know this recording's symbols."""
        if state.tracer is not None and state.tracer.assumptions is self.assumptions:
            return size
        return sizes.evaluate(size, self.assumptions.hints)

    def shape(self, shape: Sequence[sizes.Expr]) -> list[int]:
        """Sizes in the call being recorded, for messages and comparisons."""
        return [sizes.evaluate(d, self.assumptions.hints) for d in shape]


def record(name: str, function: Callable[[], Any]) -> tuple[Any, list[Tensor]]:
    """(structure of the result, its leaves as tensors) of a function that runs in a tracer already entered."""
    try:
        result = function()
    except TraceBreak as problem:
        raise RuntimeError(
            f"{name}: {problem.source}: {problem.reason}. Its function is recorded once, as one graph for all values"
        ) from None
    leaves: list[Any] = []
    structure = pytree.flatten(result, leaves)
    for x in leaves:
        if not isinstance(x, (Tensor, *NUMBERS)):
            raise RuntimeError(f"{name}: its function must return tensors and numbers, got {type(x).__name__}")
    return structure, [x if isinstance(x, Tensor) else number(x) for x in leaves]


def number(value: Any) -> Tensor:
    """A Python number as a 0-d tensor."""
    dtype = dtypes.bool_ if isinstance(value, bool) else dtypes.int64 if isinstance(value, int) else Defaults.dtype
    if state.tracer is None:
        return new_tensor(np.array(value, dtype.numpy))
    return state.tracer.wrap(state.tracer.constant(value, dtype))


def inputs_read(wanted: Sequence[Node], given: Container[Node] = ()) -> set[Node]:
    """The inputs, and of the given values those, that the wanted ones are computed from."""
    found: set[Node] = set()
    seen: set[Node] = set()
    stack = list(wanted)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in given or node.op is elementwise.argument:
            found.add(node)
        else:
            stack += node.inputs
    return found


def generators_drawn_from(name: str, tracer: BodyTracer) -> list[tuple[Node, Tensor]]:
    """(input, state) for every generator that a body advances. Raises RuntimeError for any other write outside."""
    for node, tensor in tracer.parameters:
        if tracer.value(tensor) is not node:
            raise _refused(name, tensor)
    found = []
    for position, tensor in tracer.written_outside():
        if "generator" not in tensor.__dict__:
            raise _refused(name, tensor)
        found.append((tracer.inputs[position], tensor))
    return found


def _refused(name: str, tensor: Tensor) -> RuntimeError:
    line = line_of(storage_of(tensor).source) or "an unknown line"
    return RuntimeError(
        f"{name}: {line}: its function writes a tensor from outside (shape {list(tensor.shape)}) in place; clone() it, "
        "and carry or return what should last"
    )
