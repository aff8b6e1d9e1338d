"""Functions that a control structure runs: recorded once, on types, with everything that their gradients need.

A body is a recording of its own (a tape included), so that gradients of any order are recorded in it later, whenever
they are asked for; a gradient is a body again. What it reads from outside becomes an input.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from eagerjit import pytree
from eagerjit.autograd import engine
from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node, TensorType
from eagerjit.compiler.ops import elementwise
from eagerjit.func.taped import TapedTracer
from eagerjit.runtime import dtypes
from eagerjit.runtime.meta_array import META, MetaArray
from eagerjit.runtime.source import line_of
from eagerjit.state import Defaults, state
from eagerjit.tensors.tensor import Tensor, new_tensor, storage_of
from eagerjit.watching.observation import TraceBreak

NUMBERS = (bool, int, float)


class BodyTracer(TapedTracer):
    """Records a body."""

    def __init__(self, name: str):
        super().__init__(name)
        self.on_meta = self.outer is not None and self.outer.on_meta
        self.parameters: list[tuple[Node, Tensor]] = []

    def type_outside(self, tensor: Tensor) -> TensorType:
        """The type of a tensor from outside; where no trace encloses this one its sizes are symbols too."""
        if self.outer is not None or type(tensor._data) is Node:
            return super().type_outside(tensor)
        array = tensor._data
        self.on_meta = self.on_meta or isinstance(array, MetaArray)
        shape = tuple(self.new_symbol("s", d) if d > 1 else d for d in array.shape)
        return TensorType(dtypes.BY_NUMPY[array.dtype], shape)

    def parameter(self, type_: TensorType) -> Tensor:
        """A tensor that the body is called with."""
        tensor = super().parameter(type_)
        if self.on_meta:
            self.places[tensor._data] = META
        self.parameters.append((tensor._data, tensor))
        return tensor

    def set_grad(self, tensor: Tensor, grad: Tensor | None) -> None:
        """Gradients cannot leave a body."""
        raise RuntimeError(f"{self.name}: .backward() inside of its function; use autograd.grad or func.grad")

    # -- the tape -----------------------------------------------------------------------------------------------------

    def pull(self, outputs: Sequence[tuple[Tensor, Tensor]], wanted: Sequence[Node]) -> list[Tensor]:
        """Gradients of the wanted inputs from those of outputs; zeros where none arrive. Entered by the caller."""
        roots = [(o, g) for o, g in outputs if o._requires_grad]
        targets = [self.leaf_of_input(n) for n in wanted]
        found = engine.run([o for o, _ in roots], [g for _, g in roots], targets, True, True)
        return [
            self.settled(t.detach().new_zeros(t.shape) if g is None else g) for t, g in zip(targets, found, strict=True)
        ]

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
