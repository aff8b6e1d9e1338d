"""The instructions of a Program as they are written: slots, sizes, and what is read and checked first."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.lower.any_order import in_any_order
from eagerjit.compiler.lower.build import Blocking
from eagerjit.compiler.lower.emit import Failures
from eagerjit.compiler.lower.groups import computed_in_parts
from eagerjit.compiler.lower.memory_order import in_order, turned
from eagerjit.compiler.lower.phases import Phases
from eagerjit.compiler.lower.prepare import prepared
from eagerjit.compiler.lower.recomputed import recomputed
from eagerjit.compiler.lower.schedule import Scheduler
from eagerjit.compiler.lower.tables import tables
from eagerjit.compiler.lower.unturned import unturned
from eagerjit.compiler.shapes import Shape
from eagerjit.compiler.signature import FloatLeaf, IntLeaf, Load, ObjectGuard, SameGuard, TensorLeaf, Trace, WriteGuard
from eagerjit.runtime.program import HostCall, Op


class Instructions:
    """The instruction list of one Trace, and the slots that hold its sizes, pointers and numbers."""

    def __init__(self, trace: Trace, blocking: Blocking):
        self.trace = prepared(trace, blocking.products)
        apart: frozenset[Node] = frozenset()
        self.trace = unturned(self.trace if blocking.products else turned(self.trace))
        if not blocking.products:
            self.trace, apart = in_order(in_any_order(self.trace))
        self.graph, self.blocking = self.trace.graph, blocking
        self.known_from = {name: position + 1 for name, position in self.trace.measured().items()}
        """For every size that is measured in the course of the call the phase from which on it is known."""
        self.scheduler = self._scheduler(apart)
        self.steps = self.scheduler.run()
        if not trace.checks:
            self.trace, again, replaced = recomputed(self.trace, self.scheduler, self.steps, blocking)
            if again:
                self.graph = self.trace.graph
                apart = frozenset(replaced.get(node, node) for node in apart)
                self.scheduler = self._scheduler(apart, again)
                self.steps = self.scheduler.run()
        self.failures = Failures(self.trace.checks)
        self.prologues: list[list[tuple[int, ...]]] = [[] for _ in range(len(self.trace.questions) + 1)]
        self.slot_phase: dict[int, int] = {}
        self.n_slots = 0
        self.size_slots: dict[sizes.Expr, int] = {}
        self.pointer_slots: dict[Node, int] = {}
        self.offset_slots: dict[tuple[Node, sizes.Expr], int] = {}
        self.number_slots: dict[Node, int] = {}
        self.temporary_slots: dict[str, int] = {}
        self.deferred: list[tuple[int, sizes.Expr]] = []
        self.in_place: dict[Node, int] = {}
        self.strides: dict[Node, Shape] = {}  # of values in memory of inputs that do not lie in order
        self.overwritten: dict[Node, Node] = {}
        self.direct: dict[Node, int] = {}
        self.calls: list[HostCall] = []

    def _scheduler(self, apart: Collection[Node], again: Collection[Node] = ()) -> Scheduler:
        phases = Phases(self.graph, self.known_from, [q.node for q in self.trace.questions])
        return Scheduler(self.graph, phases, apart, self._inline(), again, element_by_element=self.blocking.products)

    def _inline(self) -> dict[Node, bool]:
        """What is computed where it is read, and what is not, besides the usual."""
        if self.blocking.products:
            return dict.fromkeys(computed_in_parts(self.graph), True)
        return dict.fromkeys(tables(self.graph.nodes), False)

    def slot(self, count: int = 1) -> int:
        """The first of `count` new slots."""
        first = self.n_slots
        self.n_slots += count
        return first

    def put(self, op: Op, *operands: int, needs: Iterable[int] = ()) -> int:
        """Append an instruction to the prologue of the first phase in which the slots it `needs` are known."""
        phase = max((self.slot_phase.get(slot, 0) for slot in needs), default=0)
        self.prologues[phase].append((op, *operands))
        return phase

    def computed(self, op: Op, a: int, b: int) -> int:
        """The slot of a number computed from two others."""
        result = self.slot()
        phase = self.put(op, result, a, b, needs=(a, b))
        if phase:
            self.slot_phase[result] = phase
        return result

    def size(self, x: sizes.Expr) -> int:
        """The slot that holds a size, computing it at its first use."""
        found = self.size_slots.get(x)
        if found is not None:
            return found
        if isinstance(x, int):
            slot = self.slot()
            self.put(Op.CONST, slot, x)
        else:
            slot = self._polynomial(x)
        self.size_slots[x] = slot
        return slot

    def _polynomial(self, x: sizes.Size) -> int:
        terms: list[int] = []
        for monomial, coefficient in x.terms:
            factors = [self._atom(a) for a in monomial]
            if coefficient != 1 or not factors:
                factors.append(self.size(coefficient))
            terms.append(self._fold(Op.MUL, factors))
        return self._fold(Op.ADD, terms)

    def _fold(self, op: Op, slots: list[int]) -> int:
        total_ = slots[0]
        for other in slots[1:]:
            total_ = self.computed(op, total_, other)
        return total_

    def _atom(self, atom: sizes.Atom) -> int:
        if isinstance(atom, str):
            return self.size_slots[sizes.symbol(atom)]
        key = sizes.Size((((atom,), 1),))
        found = self.size_slots.get(key)
        if found is None:
            op = {"//": Op.FLOORDIV, "%": Op.MOD, "min": Op.MIN, "max": Op.MAX}[atom.op]
            a, b = self.size(atom.a), self.size(atom.b)
            found = self.size_slots[key] = self.computed(op, a, b)
        return found

    def _read_leaves(self) -> None:
        for name, phase in self.known_from.items():
            # A size that is measured has its slot before anything asks for it.
            self.size_slots[sizes.symbol(name)] = slot = self.slot()
            self.slot_phase[slot] = phase
        known_whole = self._known_whole()
        for b in self.trace.bindings:
            match b:
                case Load(leaf, op, operands):
                    if leaf not in known_whole:
                        self.put(op, leaf, *operands)
                case ObjectGuard(leaf, op, constant):
                    self.put(op, leaf, constant)
                case SameGuard(leaf, other, expected):
                    self.put(Op.SAME, leaf, other, int(expected))
                case WriteGuard(leaf):
                    self.put(Op.WRITABLE, leaf)
                case TensorLeaf(leaf) if leaf in known_whole:
                    self._read_captured(b, known_whole[leaf])
                case TensorLeaf():
                    self._read_tensor(b)
                case FloatLeaf(leaf, node, words):
                    slot = self.number_slots[node] = self.slot()
                    self.put(Op.READ_FLOAT, leaf, slot)
                    if words is not None:
                        self.put(Op.CHECK_GE, slot, words[0])
                        within = self.computed(Op.LE, slot, self.size(words[1]))
                        self.put(Op.CHECK_TRUE, within, 1, needs=(within,))
                case IntLeaf(leaf, size):
                    slot = self.slot()
                    self.put(Op.READ_INT, leaf, slot)
                    self._bind(size, slot, None)
        for slot, size in self.deferred:
            self.put(Op.CHECK_EQ, slot, self.size(size), needs=(self.size(size),))
        if self.trace.grad_mode is not None:
            self.put(Op.GRAD_MODE, self.trace.grad_mode)
        if self.trace.epoch:
            self.put(Op.EPOCH, 0)
        for g in self.trace.guards:
            result = self.computed(Op.EQ if g.relation == "==" else Op.LT, self.size(g.a), self.size(g.b))
            self.put(Op.CHECK_TRUE, result, int(g.holds), needs=(result,))
        tensors = [b.leaf for b in self.trace.bindings if isinstance(b, TensorLeaf) and b.leaf < self.trace.n_arguments]
        if self.trace.distinct and len(tensors) > 1:
            self.put(Op.DIFFERENT, len(tensors), *tensors)
        if self.trace.writes:
            written = [leaf for leaf, _ in self.trace.writes]
            others = [b.leaf for b in self.trace.bindings if isinstance(b, TensorLeaf) and b.leaf not in written]
            self.put(Op.DISTINCT, len(written), *written, len(others), *others)
        loads = [b for b in self.trace.bindings if isinstance(b, Load)]
        graded = dict.fromkeys(b.operands[0] for b in loads if b.op == Op.LOAD_GRAD)
        arguments = [leaf for leaf in graded if leaf < self.trace.n_arguments]
        if self.trace.gradients and arguments and len(graded) > 1:
            # One tensor given twice has one gradient, not two.
            others = [leaf for leaf in graded if leaf not in arguments]
            self.put(Op.DISTINCT, len(arguments), *arguments, len(others), *others)

    def _known_whole(self) -> dict[int, int]:
        """Leaves that are a constant Tensor of known sizes, which one instruction reads, with the Tensor's object."""
        objects = {b.leaf: b.operands[0] for b in self.trace.bindings if isinstance(b, Load) and b.op == Op.LOAD_OBJECT}
        found = {}
        for b in self.trace.bindings:
            if isinstance(b, TensorLeaf) and b.strides is None and b.leaf in objects:
                if all(isinstance(d, int) for d in b.node.type.shape):
                    found[b.leaf] = objects[b.leaf]
        return found

    def _read_captured(self, leaf: TensorLeaf, constant: int) -> None:
        type_ = leaf.node.type
        pointer = self.pointer_slots[leaf.node] = self.slot()
        dims = [d for d in type_.shape if isinstance(d, int)]
        self.put(Op.CAPTURED, leaf.leaf, constant, type_.dtype.code, leaf.grad, pointer, *dims)

    def _read_tensor(self, leaf: TensorLeaf) -> None:
        type_ = leaf.node.type
        rank = len(type_.shape)
        pointer, dims, strides = self.slot(), self.slot(rank), self.slot(rank)
        self.pointer_slots[leaf.node] = pointer
        contiguous = leaf.strides is None
        self.put(Op.TENSOR, leaf.leaf, type_.dtype.code, rank, int(contiguous), leaf.grad, pointer, dims, strides)
        for position, (d, s) in enumerate(zip(type_.shape, leaf.strides or (None,) * rank, strict=True)):
            self._bind(d, dims + position, 2)
            if s is not None:
                self._bind(s, strides + position, None)

    def _bind(self, x: sizes.Expr, slot: int, least: int | None) -> None:
        """Give a symbol its slot, or check a known size."""
        if isinstance(x, int):
            self.put(Op.CHECK_CONST, slot, x)
            return
        if x in self.size_slots or not sizes.is_symbol(x):
            self.deferred.append((slot, x))
            return
        self.size_slots[x] = slot
        if least is not None:
            self.put(Op.CHECK_GE, slot, least)
