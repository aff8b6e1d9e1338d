"""The tracer: records every operation of a call as a Graph.

Recording works on types alone: a traced tensor holds a Node where others hold an ndarray. Tensors from outside
(arguments, parameters, whatever else the function reaches) keep their identity and become inputs of the graph when they
are first read. In-place writes are values of the trace until it ends; the compiled call then performs them.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node, TensorType
from eagerjit.compiler.ops.declare import Primitive
from eagerjit.compiler.passes.complexes import is_complex, is_split
from eagerjit.recording.examples import Examples
from eagerjit.recording.memory_order import written_like
from eagerjit.recording.numbers import wrap
from eagerjit.recording.reached import Memory, lies_in_its_base
from eagerjit.recording.traced_inputs import Inputs
from eagerjit.runtime import busy, dtypes, mode
from eagerjit.runtime.interrupts import surely
from eagerjit.runtime.program import Op
from eagerjit.runtime.source import here
from eagerjit.state import set_tracer, state
from eagerjit.tensors.tensor import Shape, Storage, Tensor, check_writable, new_tensor, storage_of
from eagerjit.watching.observation import TraceBreak, refuse_evaluated, user_line
from eagerjit.watching.slots import GradientOf

MOST_OPERATIONS = 100_000
"""Operations of one call: a loop with as many rounds is faster where what it repeats is compiled."""


class Tracer(Inputs, Examples):
    """One recording. Use it as a context; operations of this thread are recorded while it is entered."""

    values_only = False
    """Whether this records the body of an op: nobody sees which of its values share memory."""

    def __init__(self, name: str, needs_grad: bool = False, begins: str = ""):
        super().__init__()
        self.name, self.begins = name, begins or name  # and the line where its code begins
        self.needs_grad = needs_grad
        self.first_sequence = mode.next_sequence()
        self.nodes: list[Node] = []
        self.draws: Any = 1  # examples that draw random numbers of their own where the code draws once
        self.source: str | None = None
        self.gradients: dict[int, tuple[Tensor, Tensor | None]] = {}
        self.gradients_found: dict[int, GradientOf] = {}
        self.assigned: set[int] = set()  # tensors whose gradients the function sets, whichever there are
        self.written: dict[int, Tensor] = {}
        self.owners: list[Any] = []
        self.observation: Any = None
        self.broken: Any = None
        self.journal: Any = None
        self.checks: list[Any] = []
        self.guards: list[Any] = []
        self.attributes: list[tuple[int, Any]] = []  # what holds of the attributes of arguments
        self.found: dict[int, Any] | None = None  # leaves that an earlier recording of this call found
        self.slots: dict[int, Any] = {}  # leaf: where a tensor or number is found that the function replaces
        self.notes: list[tuple[Any, list[Tensor]]] = []
        self.created: list[weakref.ref[Tensor]] = []
        self._versions: dict[int, list[Any]] = {}
        self._writes: dict[int, int] = {}
        self._silent: dict[int, Tensor] = {}
        self._related: dict[int, Tensor] = {}
        self._before: tuple[Any, Any] | None = None
        self.replaced: dict[int, tuple[Tensor, Tensor]] = {}  # tensors that were given other memory, and what shows it
        self._hidden: set[int] = set()

    def __enter__(self) -> Tracer:
        busy.begin()
        self._before = state.tracer, sizes.active.assumptions
        try:
            set_tracer(self)
            sizes.active.assumptions = self.assumptions
        except BaseException:
            surely(self.leave)
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        surely(self.leave)

    def leave(self) -> None:
        """Record no more, and give tensors back what the recording has changed of them; nothing, if that was done."""
        if self._before is None:
            return
        tracer, sizes.active.assumptions = self._before
        set_tracer(tracer)
        for key, (storage, writes) in list(self._versions.items()):
            storage.version -= writes  # other threads may have written it meanwhile
            del self._versions[key]
        for key, (tensor, flag) in list(self.flags.items()):
            tensor._requires_grad = flag
            del self.flags[key]
        self._before = None
        busy.end()

    # -- values -------------------------------------------------------------------------------------------------------

    def capture(self, tensor: Tensor) -> Node:
        """Make a tensor that the function reached without an argument an input: sizes are those it has."""
        if not isinstance(tensor._data, np.ndarray):
            raise RuntimeError("a tensor of another trace was used: it left the function that was traced")
        leaf = self.new_leaf()
        self.load(leaf, Op.LOAD_OBJECT, self.object(tensor))
        self.constants.add(leaf)
        if not self._is_related(tensor):
            return self.tensor_leaf(tensor, leaf, symbolic=False)
        self._related[id(tensor)] = tensor
        self.leaf_of[id(tensor)] = leaf
        if self.needs_grad:
            self.guard_slot(tensor, "_requires_grad", False)
        self.owners.append(Memory(tensor))
        node = tensor._view.read(self, self.value(tensor._view.base))
        self._values[id(tensor)] = (tensor, node, self.writes_to(tensor))
        return node

    def _is_related(self, tensor: Tensor) -> bool:
        """Whether a captured tensor is read through the one it views, so that writes to either are seen in both.

        Arguments stand for themselves: the next call may get others. So do tensors with gradients of their own.
        """
        if tensor._view is None:
            return False
        while tensor._view is not None:
            if tensor._requires_grad or not tensor._view.op.in_place or id(tensor) in self._arguments:
                return False
            if not lies_in_its_base(tensor):
                return False
            tensor = tensor._view.base
            if id(tensor) in self.replaced:
                raise TraceBreak("a tensor that others view was given other memory", user_line())
            if id(tensor) in self._related:
                return True
        if tensor._requires_grad or not isinstance(tensor._data, np.ndarray):
            return False
        return id(tensor) not in self._arguments or not self.is_found(self.leaf_of[id(tensor)])

    def value(self, tensor: Tensor) -> Node:
        """The node that holds a tensor's present value."""
        if self.journal is not None and self.journal.snapshots:
            self.journal.snapshots.renew(tensor)
        if id(tensor) in self.replaced:
            return self.value(self.replaced[id(tensor)][1])
        known = self._values.get(id(tensor))
        view = tensor._view
        if known is not None and (view is None or known[2] == self.writes_to(tensor)):
            return known[1]
        if known is None and type(tensor._data) is not Node:
            return self.capture(tensor)
        if view is None:
            return tensor._data
        node = view.read(self, self.value(view.base))
        self._values[id(tensor)] = (tensor, node, self.writes_to(tensor))
        return node

    def writes_to(self, tensor: Tensor) -> int:
        """How often the memory of a tensor was written in this trace."""
        return self._writes.get(id(self.memory_of(tensor)), 0)

    def memory_of(self, tensor: Tensor) -> Tensor:
        """The tensor in whose memory another one lies: the one that it views, or whose memory it was given."""
        while True:
            if id(tensor) in self.replaced:
                tensor = self.replaced[id(tensor)][1]
            elif tensor._view is not None and id(tensor) not in self._arguments:
                tensor = tensor._view.base
            else:
                return tensor

    def related(self) -> list[Tensor]:
        """The tensors from outside that are read through those that they view."""
        return list(self._related.values())

    def views_hidden(self, tensor: Tensor) -> bool:
        """Whether a tensor, noticed by versions, views what a tensor had that was given other memory."""
        while tensor._view is not None and not self.is_silent(tensor):
            tensor = tensor._view.base
            if id(tensor) in self._hidden:
                return True
        return False

    def hide(self, tensor: Tensor, hidden: Tensor) -> None:
        """Let a tensor that nobody sees have all that was known of another one's memory."""
        self._hidden.add(id(hidden))
        tables: tuple[dict[int, Any], ...] = self._arguments, self.leaf_of, self._writes
        for table in tables:
            if id(tensor) in table:
                table[id(hidden)] = table[id(tensor)]
        if id(tensor) in self._values:
            _, node, writes = self._values[id(tensor)]
            self._values[id(hidden)] = hidden, node, writes
        if self.written.pop(id(tensor), None) is not None:
            self.written[id(hidden)] = hidden

    def place(self, tensor: Tensor) -> Node:
        """A node that lies where a tensor does: a view in its base's memory, whatever was written there since."""
        if id(tensor) in self.replaced:
            return self.place(self.replaced[id(tensor)][1])
        if type(tensor._data) is not Node:
            self.value(tensor)
            if id(tensor) in self._arguments:
                return self._arguments[id(tensor)]
        view = tensor._view
        return self.value(tensor) if view is None else view.read(self, self.place(view.base))

    def shape_of(self, tensor: Tensor) -> Shape:
        """A tensor's sizes as user code sees them."""
        return Shape(map(wrap, self.value(tensor).type.shape))

    def wrap(self, node: Node) -> Tensor:
        """A tensor of this trace."""
        tensor = new_tensor(node)
        self.created.append(weakref.ref(tensor))
        return tensor

    def view(self, base: Tensor, node: Node) -> Tensor:
        """A tensor of this trace that shares its memory with another."""
        tensor = self.wrap(node)
        self._values[id(tensor)] = (tensor, node, self.writes_to(base))
        return tensor

    def is_silent(self, tensor: Tensor) -> bool:
        """Whether a tensor was made by `silence`."""
        return id(tensor) in self._silent

    def silence(self, tensor: Tensor, kind: type = Tensor) -> Any:
        """Let writes through this view of another tensor go unnoticed by the versions that gradients compare."""
        tensor.__class__ = kind
        tensor._storage = Storage()
        self._silent[id(tensor)] = tensor
        return tensor

    def result_of(self, op: Any, arguments: tuple[Any, ...]) -> Any:
        """What a call of an op gives, by recording its body."""
        return op.computed(arguments)

    def own_result(self, tensor: Tensor) -> Tensor:
        """A tensor that gets the history of being what the user's function returned: one of this trace."""
        if self.host is None or type(tensor._data) is Node:
            return tensor
        if self.host.is_new(tensor):
            return tensor.clone()
        raise TraceBreak("a function gives a tensor from outside a gradient history", user_line())

    def record(self, primitive: Primitive, inputs: tuple[Node, ...], **attributes: Any) -> Node:
        """Append one primitive. A misfit is the RuntimeError that the eager call raises."""
        try:
            type_ = primitive.type_rule(*(n.type for n in inputs), **attributes)
        except ValueError as error:
            raise self.misfit(error, inputs, attributes) from None
        if not self.evaluated:
            self._refuse_evaluated(primitive, type_, [n.type for n in inputs], attributes)
        shape = tuple(map(self._settled, type_.shape))
        if shape != type_.shape:
            type_ = TensorType(type_.dtype, shape)
            if "shape" in attributes:
                attributes["shape"] = shape
        node = Node(primitive, inputs, attributes, type_, user_line() if self.source is None else self.source)
        self.nodes.append(node)
        if len(self.nodes) > MOST_OPERATIONS:
            many = f"it makes over {MOST_OPERATIONS:,} operations: decorate what its loop repeats"
            raise TraceBreak(many, user_line())
        self.check_places(node)
        return node

    def _refuse_evaluated(
        self, primitive: Primitive, result: TensorType, given: list[TensorType], attributes: dict[str, Any]
    ) -> None:
        """End a recording with an operation that only NumPy computes."""
        if result.dtype in dtypes.FLOAT8:
            refuse_evaluated(result.dtype)
        if is_complex(result, *given) and not is_split(primitive, attributes):
            refuse_evaluated(next(t.dtype for t in (*given, result) if t.dtype.is_complex))

    def _settled(self, size: sizes.Expr) -> sizes.Expr:
        """A size of a result: 0 and 1, which broadcast and reduce in ways of their own, are always known."""
        if isinstance(size, int) or sizes.least(size) > 1:
            return size
        if self.assumptions.decide("<", 1, size):
            return size
        number = sizes.evaluate(size, self.assumptions.hints)
        self.assumptions.decide("==", size, number)
        return number

    def write(self, tensor: Tensor, node: Node, noticed: bool = True) -> None:
        """Make `node` the tensor's value from here on; views and their base follow."""
        if id(tensor) in self.replaced:
            if noticed:
                self.count_write(tensor)
            return self.write(self.replaced[id(tensor)][1], node, noticed=False)
        # Other tensors may hold the node too: a tensor that was written has memory, and so a node, of its own.
        node = written_like(self, node, self.place(tensor))
        view = tensor._view
        if self.journal is not None and self.journal.snapshots:
            self.journal.snapshots.release(tensor)
        known = self.value(tensor)
        self.keep_place(node, known)
        if view is not None and id(tensor) not in self._arguments:
            if id(tensor) in self._silent:
                if noticed:
                    self.count_write(tensor)
                noticed = False
                if view.base._node is not None and type(view.base._data) is Node:
                    raise TraceBreak("a value that has a gradient is overwritten through .data", user_line())
            self.write(view.base, view.write(self, self.value(view.base), node), noticed)
        else:
            if type(tensor._data) is not Node:
                check_writable(tensor._data)
                self.written[id(tensor)] = tensor
            self._writes[id(tensor)] = self._writes.get(id(tensor), 0) + 1
            if noticed:
                self.count_write(tensor)
        if type(tensor._data) is Node and known is tensor._data:
            tensor._data = node
        self._values[id(tensor)] = (tensor, node, self.writes_to(tensor))

    def count_write(self, tensor: Tensor) -> None:
        """Let the versions that gradients compare notice a write."""
        storage = storage_of(tensor)
        self._versions.setdefault(id(storage), [storage, 0])[1] += 1
        storage.version += 1
        storage.source = here()

    def times_noticed(self, tensor: Tensor) -> int:
        """How many writes the versions of a tensor have noticed in this trace."""
        return 0 if tensor._storage is None else self._versions.get(id(tensor._storage), (None, 0))[1]

    # -- gradients ----------------------------------------------------------------------------------------------------

    def get_grad(self, tensor: Tensor) -> Tensor | None:
        """A tensor's grad; one from before the call becomes an input, its absence a guard."""
        known = self.gradients.get(id(tensor))
        if known is not None:
            return known[1]
        if type(tensor._data) is Node:
            return tensor._grad
        self.value(tensor)
        leaf = self.new_leaf()
        self.load(leaf, Op.LOAD_GRAD, self.leaf_of[id(tensor)])
        before = tensor._grad if self.found is None or leaf in self.found else None
        if before is not None and before._requires_grad:  # gradients would go on in that of the call that was recorded
            raise TraceBreak("it reads a gradient that has a history of its own", user_line())
        if before is None:
            self.guard_object(leaf, Op.IS, None)
        else:
            self.gradient_leaf(tensor, before, leaf)
        self.gradients[id(tensor)] = (tensor, before)
        return before

    def set_grad(self, tensor: Tensor, grad: Tensor | None) -> None:
        """Give a tensor another grad; the compiled call does it when it ends."""
        if type(tensor._data) is Node:
            tensor._grad = grad
            return
        self.value(tensor)
        self.gradient_of(tensor)
        self.gradients[id(tensor)] = (tensor, grad)
        self.assigned.add(id(tensor))

    # -- the end ------------------------------------------------------------------------------------------------------

    def final_writes(self) -> list[tuple[int, Node]]:
        """(leaf, value) for every outside tensor that was written; each value has memory of its own."""
        return [(self.leaf_of[id(tensor)], self.value(tensor)) for tensor in self.written.values()]

    def outside(self) -> list[tuple[Tensor, int]]:
        """Every tensor from outside that was read, with its leaf."""
        return [(self._values[key][0], leaf) for key, leaf in self.leaf_of.items()
                if key in self._values and key not in self._hidden]  # fmt: skip

    def held(self) -> list[Node]:
        """The present values of all tensors of the call that are still held."""
        self.created = [r for r in self.created if r() is not None]
        made = [t._data for t in (r() for r in self.created) if t is not None and type(t._data) is Node]
        return [*made, *(node for _, node, _ in self._values.values())]

    def leaked(self) -> list[Tensor]:
        """Traced tensors that something outside still holds; call it when the trace is no longer needed."""
        tables: tuple[dict[Any, Any], ...]
        tables = self._values, self._silent, self.replaced, self.originals, self.gradients, self._items
        for table in tables:
            table.clear()
        return [t for t in (r() for r in self.created) if t is not None]
