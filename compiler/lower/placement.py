"""Where results live: in an output, in the memory of an input that they overwrite, or in a piece of the arena."""

from __future__ import annotations

from dataclasses import field

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import is_contiguous, layout
from eagerjit.compiler.lower.build import Built
from eagerjit.compiler.lower.emit import Amount, Argument, Number, Pointer, Scratch, Temporary
from eagerjit.compiler.lower.groups import Group, HostStep, Region, Step, ends
from eagerjit.compiler.lower.instructions import Instructions
from eagerjit.compiler.lower.memory import Plan, Request, plan
from eagerjit.compiler.ops import indexing, views
from eagerjit.compiler.shapes import Shape, contiguous_strides
from eagerjit.compiler.signature import Fresh, TensorLeaf
from eagerjit.runtime.dtypes import BY_SHORT
from eagerjit.runtime.program import Op
from eagerjit.runtime.records import record


@record
class Work:
    """One instruction to come: a kernel, or a call that computes `results`."""

    step: int
    built: Built | None
    results: list[Node] = field(default_factory=list)
    reads: list[Node] = field(default_factory=list)


class Placement(Instructions):
    """Chooses the memory of every result of a Trace."""

    phase_of: dict[int, int]

    def _stored(self, steps: list[Step]) -> set[Node]:
        """Nodes that must be in memory: results, what another step than their own reads, and what nothing reads."""
        scheduler = self.scheduler
        stored = {layout(n).root for n in self.graph.results()}
        # What nothing reads is there for the error that it may raise, which its kernel has to check.
        read = {i for n in self.graph.nodes for i in n.inputs}
        stored.update(n for n in self.graph.nodes if n in scheduler.step_of and n not in read)
        for step in steps:
            nodes = step.nodes if isinstance(step, Group) else [step.node]
            for node in nodes:
                for value in node.inputs:
                    for origin in self._computed(value):
                        elsewhere = scheduler.find(scheduler.step_of[origin]) != step.number
                        if elsewhere or not isinstance(step, Group):
                            stored.add(origin)
        return stored

    def _computed(self, node: Node) -> list[Node]:
        """The computed nodes that a value is made of, through views and inlined nodes."""
        return [n for n in self._ends(node) if n in self.scheduler.step_of]

    def _ends(self, node: Node) -> list[Node]:
        """The computed nodes and inputs that a value is made of."""
        return ends(node, self.scheduler.step_of)

    def _last(self, node: Node) -> Node:
        """The last of the values that follow each other in a result's memory."""
        while node in self.overwritten:
            node = self.overwritten[node]
        return node

    def _memory(self, node: Node) -> Node:
        """The node whose memory a result is written to: its own, what follows it, or the input that it overwrites."""
        node = self._last(node)
        leaf = self.in_place.get(node)
        if leaf is None:
            return node
        return next(b.node for b in self.trace.bindings if isinstance(b, TensorLeaf) and b.leaf == leaf)

    def _choose_overwritten(self, steps: list[Step]) -> None:
        """Let a value be changed where it is by what replaces some of its elements, if nothing reads it afterwards."""
        kept = {layout(n).root for n in (*self.graph.results(), *(q.node for q in self.trace.questions))}
        last: dict[Node, int] = {}
        for position, step in enumerate(steps):
            last.update((root, position) for n in _nodes(step) for value in n.inputs for root in self._ends(value))
        for position, step in enumerate(steps):
            if not isinstance(step, Region):
                continue
            root = layout(step.node.inputs[0]).root
            if root in kept or root not in self.scheduler.step_of or root in self.overwritten:
                continue
            if last[root] == position and self._changes(step.node, root):
                self.overwritten[root] = step.node

    def _choose_in_place(self, steps: list[Step], last_failing: int) -> None:
        """Let a written input's new value go straight to its memory where nothing reads the old one afterwards.

        A call that fails has written to no input: what replaces some elements of one checks all of its indices first.
        """
        position = {s.number: i for i, s in enumerate(steps)}
        node_of = {b.leaf: b.node for b in self.trace.bindings if isinstance(b, TensorLeaf)}
        # An output that is a view of a written input shows what the input holds in the end, so it reads nothing.
        found = [(layout(o.node).root, o.aliases) for o in self.trace.outputs if isinstance(o, Fresh)]
        outputs = {root for root, aliases in found if not aliases or root.op.family != "argument"}
        readers, before = self._readers(steps), {after: node for node, after in self.overwritten.items()}
        for leaf, value in self.trace.writes:
            old, root = node_of[leaf], layout(value).root
            if root in outputs or old in outputs or root in self.in_place:
                continue
            first = root
            while first in before:
                first = before[first]
            number = self.scheduler.step_of.get(first)
            step = self.scheduler.steps.get(self.scheduler.find(number)) if number is not None else None
            if not isinstance(step, Group | Region) or self.phase_of[step.number] < len(self.trace.questions):
                continue
            here = position[step.number]
            if here < last_failing + (not isinstance(step, Region)):
                continue
            turned = self._is_strided(old)
            apart = turned and not _lies_like(value, old)
            if apart and not self._may_lie_apart(value, old, step):
                continue
            if not turned and not _is_whole(value, root):
                continue
            if any(at > here for at, *_ in readers.get(old, ())):
                continue
            if isinstance(step, Region):
                alone = not turned and self._changes(step.node, old)
            else:
                fits = first.type == old.type or (turned and first is root and first.dtype == old.dtype)
                fits = fits and first in step.full and bool(step.dims or len(step.nodes) == 1)
                own = [(direct, itself) for at, direct, itself in readers.get(old, ()) if at == here]
                alone = fits and all(itself if apart else direct for direct, itself in own)
                alone = alone and step.is_last(first)
            if alone and (turned or value is root or root.op.family == "index"):
                self.in_place[root] = leaf
                if apart:
                    self.strides[root] = layout(old).strides

    def _may_lie_apart(self, value: Node, old: Node, step: Step) -> bool:
        """Whether a value may lie in memory of any strides: elements are stored one by one and never read there."""
        if not isinstance(step, Group) or step.total or step.row or step.columns:
            return False
        if value not in step.full or value.type.shape != old.type.shape:
            return False
        if sum(layout(v).root is value for _, v in self.trace.writes) != 1:
            return False
        others = (n for s in self.steps if s is not step for n in _nodes(s))
        return not any(value in self._ends(i) for node in others for i in node.inputs)

    def _changes(self, node: Node, old: Node) -> bool:
        """Whether a result is `old` with some elements replaced, by what is not read from it."""
        if node.op is indexing.cat or not _is_whole(node.inputs[0], old):
            return False
        return not any(old in self._ends(i) for i in node.inputs[1:])

    def _readers(self, steps: list[Step]) -> dict[Node, list[tuple[int, bool, bool]]]:
        """Per input the steps that read it, whether as a whole in the order in which it lies, and whether as it is."""
        readers: dict[Node, list[tuple[int, bool, bool]]] = {}
        for position, step in enumerate(steps):
            for node in step.nodes if isinstance(step, Group) else [step.node]:
                plain = isinstance(step, Group) and node.op.family == "elementwise" and node in step.full
                for value in node.inputs:
                    for root in self._ends(value):
                        if root.op.family == "argument" and root not in self.scheduler.step_of:
                            same = plain and value.type.shape == node.type.shape
                            how = position, same and _is_all_of(value, root), same and value is root
                            readers.setdefault(root, []).append(how)
        return readers

    def _choose_direct(self) -> None:
        """Results computed straight into the memory of an output: rather a tensor's own than that of a view."""
        fresh = [(k, o) for k, o in enumerate(self.trace.outputs) if isinstance(o, Fresh)]
        for k, output in sorted(fresh, key=lambda found: found[1].aliases):
            root = layout(output.node).root
            if root.op.family == "argument" or root in self.direct or root in self.in_place:
                continue
            if not output.aliases and not self._covers(output.node, root):
                continue
            self.direct[root] = k

    def _plan(self, work: list[Work]) -> Plan:
        first: dict[Node, int] = {}
        last: dict[Node, int] = {}
        names: dict[Node, str] = {}
        requests: list[Request] = []
        ends = {a: i for i, w in enumerate(work) if w.built is not None for a in w.built.arguments}
        for position, w in enumerate(work):
            for root in map(self._last, [*w.reads, *w.results]):
                if root.op.family == "argument" and root not in self.scheduler.step_of:
                    continue
                if root in self.direct or root in self.in_place:
                    continue
                first.setdefault(root, position)
                last[root] = position
                names.setdefault(root, f"%{len(names)}:{root.op.name}")
            if w.built is not None:
                for temporary, count in w.built.temporaries.items():
                    size = sizes.mul(count, BY_SHORT[temporary.dtype].itemsize)
                    requests.append(Request(temporary.name, size, position, ends[temporary], self._phase(size)))
        copied = [o.node for o in self.trace.outputs if isinstance(o, Fresh) and not o.aliases]
        for value in [*copied, *(value for _, value in self.trace.writes)]:
            root = layout(value).root
            if root in last:
                last[root] = len(work)
        for q in self.trace.questions:
            last[layout(q.node).root] = len(work)
        for root, start in first.items():
            size = sizes.mul(root.type.numel, root.dtype.itemsize)
            requests.append(Request(names[root], size, start, last[root], self._phase(size)))
        self._names = names
        return plan(requests)

    def _allocate(self, plan_: Plan) -> None:
        """Arenas and outputs, and the pointers into them."""
        for block in plan_.blocks:  # where a block ends the next one begins: no offset is computed from nothing
            end = sizes.add(block.offset, block.size)
            if end not in self.size_slots and not isinstance(block.offset, int):
                self.size_slots[end] = self.computed(Op.ADD, self.size(block.offset), self.size(block.size))
        arenas = {phase: self._new_memory(Op.ARENA, (), (self.size(total),)) for phase, total in plan_.totals.items()}
        pointers = {id(b): self._advanced(arenas[b.phase], b.offset, 1) for b in plan_.blocks}
        for root, name in self._names.items():
            self.pointer_slots[root] = pointers[id(plan_.block_of[name])]
        for name, block in plan_.block_of.items():
            self.temporary_slots[name] = pointers[id(block)]
        for root, k in self.direct.items():
            output = self.trace.outputs[k]
            assert isinstance(output, Fresh)
            shape = output.node.type.shape if self._covers(output.node, root) else root.type.shape
            self.pointer_slots[root] = self._new_output(k, root, shape)
        for value in self.in_place:
            self.pointer_slots[value] = self.pointer_slots[self._memory(value)]
        for value in self.overwritten:
            self.pointer_slots[value] = self.pointer_slots[self._last(value)]
        self.extra: list[tuple[int, Node]] = []
        self.views: list[tuple[int, Node]] = []
        for k, output in enumerate(self.trace.outputs):
            if isinstance(output, Fresh):
                self._place_output(k, output)

    def _new_output(self, k: int, root: Node, shape: Shape) -> int:
        return self._new_memory(Op.OUTPUT, (k, root.dtype.code, len(shape)), tuple(map(self.size, shape)))

    def _new_memory(self, op: Op, kind: tuple[int, ...], sizes_: tuple[int, ...]) -> int:
        """The slot of a pointer to memory whose sizes are in slots."""
        pointer = self.slot()
        self.slot_phase[pointer] = self.put(op, *kind, pointer, *sizes_, needs=sizes_)
        return pointer

    def _phase(self, size: sizes.Expr) -> int:
        """The phase from which on a size is known."""
        return max((self.known_from.get(s, 0) for s in sizes.symbols(size)), default=0)

    def _covers(self, node: Node, root: Node) -> bool:
        """Whether a view is all of its root in order: then the output has the view's shape at once."""
        if layout(node).strides != contiguous_strides(node.type.shape):  # those of dimensions of size 1 can be seen
            return False
        whole = node
        while whole is not root and whole.op in (views.reshape, views.permute):  # whose sizes need not be equal as text
            whole = whole.inputs[0]
        return whole.type.numel == root.type.numel

    def _place_output(self, k: int, output: Fresh) -> None:
        """Outputs that are not their root's own memory: views of it, or copies of an overwritten or duplicate one."""
        root = layout(output.node).root
        if self.direct.get(root) == k:
            if not self._covers(output.node, root):
                self.views.append((k, output.node))
        elif output.aliases:
            self.views.append((k, output.node))
        else:
            pointer = self._new_output(k, root, output.node.type.shape)
            if is_contiguous(output.node):
                self.extra.append((pointer, output.node))
            else:
                self.temporary_slots[copy_name(k)] = pointer

    def _advanced(self, pointer: int, offset: sizes.Expr, itemsize: int) -> int:
        if isinstance(offset, int) and offset == 0:
            return pointer
        return self.computed(Op.ADD, pointer, self.size(sizes.mul(offset, itemsize)))

    def _argument(self, argument: Argument) -> int:
        match argument:
            case Pointer(root, offset):
                key = (root, offset)
                if key not in self.offset_slots:
                    self.offset_slots[key] = self._advanced(self.pointer_slots[root], offset, root.dtype.itemsize)
                return self.offset_slots[key]
            case Temporary(name, _):
                return self.temporary_slots[name]
            case Scratch(_, _, offset):
                return self.size(offset)
            case Number(node):
                return self.number_slots[node]
            case Amount(size):
                return self.size(size)
        raise AssertionError(argument)

    def _is_strided(self, argument: Node) -> bool:
        return argument.attributes.get("strides") is not None


def _nodes(step: Step) -> list[Node]:
    return step.nodes if isinstance(step, Group | HostStep) else [step.node]


def _is_whole(view: Node, root: Node) -> bool:
    """Whether a view is all of `root` in order."""
    return _is_all_of(view, root) and is_contiguous(root)


def _is_all_of(view: Node, root: Node) -> bool:
    """Whether a view is all of the memory of `root` in the order in which it lies there."""
    where = layout(view)
    return where.root is root and where.offset == 0 and view.type.numel == root.type.numel and is_contiguous(view)


def _lies_like(value: Node, old: Node) -> bool:
    """Whether the elements of a value lie in all of its memory as those of `old` do in theirs."""
    where, wanted = layout(value), layout(old)
    steps = zip(value.type.shape, where.strides, wanted.strides, strict=True)
    same = value.type.shape == old.type.shape and all(d == 1 or a == b for d, a, b in steps)
    return same and where.offset == 0 and where.root.type.numel == value.type.numel


def copy_name(output: int) -> str:
    return f"copy of output {output}"
