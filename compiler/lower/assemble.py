"""Assembles a Program: schedules the graph, builds kernels, plans memory, and writes the instructions."""

from __future__ import annotations

from dataclasses import dataclass, field

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.affine import without_ones
from eagerjit.compiler.ir import Graph, Node
from eagerjit.compiler.layout import is_contiguous, layout
from eagerjit.compiler.lower.build import Built
from eagerjit.compiler.lower.emit import Amount, Argument, Failures, Number, Pointer, Scratch, Temporary
from eagerjit.compiler.lower.groups import Group, Library, Step
from eagerjit.compiler.lower.memory import Plan, Request, plan
from eagerjit.compiler.lower.pointwise import Target, pointwise
from eagerjit.compiler.lower.prepare import prepared
from eagerjit.compiler.lower.reduction import RowKernel, total
from eagerjit.compiler.lower.regions import RegionBuilder
from eagerjit.compiler.lower.schedule import Scheduler
from eagerjit.compiler.shapes import Shape, contiguous_strides
from eagerjit.compiler.signature import FloatLeaf, Fresh, IntLeaf, Load, Object, ObjectGuard, Same, TensorLeaf, Trace
from eagerjit.runtime.dtypes import BY_SHORT
from eagerjit.runtime.program import Failure, Op, Program


@dataclass(slots=True)
class Compiled:
    """A Program with everything that explains it."""

    program: Program
    kernels: list[loops.Kernel]
    built: list[Built | Library]
    plan: Plan
    graph: Graph


@dataclass(slots=True)
class Work:
    """One instruction to come: a kernel or a matrix product."""

    step: int
    built: Built | None
    library: Node | None
    reads: list[Node] = field(default_factory=list)


class Assembler:
    """Turns one Trace into a Compiled."""

    def __init__(self, trace: Trace, lanes: int):
        self.trace = prepared(trace)
        self.graph, self.lanes = self.trace.graph, lanes
        self.scheduler = Scheduler(self.graph)
        self.failures = Failures()
        self.instructions: list[tuple[int, ...]] = []
        self.n_slots = 0
        self.size_slots: dict[sizes.Expr, int] = {}
        self.pointer_slots: dict[Node, int] = {}
        self.offset_slots: dict[tuple[Node, sizes.Expr], int] = {}
        self.number_slots: dict[Node, int] = {}
        self.temporary_slots: dict[str, int] = {}
        self.deferred: list[tuple[int, sizes.Expr]] = []
        self.in_place: dict[Node, int] = {}
        self.direct: dict[Node, int] = {}

    # -- slots and sizes ----------------------------------------------------------------------------------------------

    def slot(self, count: int = 1) -> int:
        """The first of `count` new slots."""
        first = self.n_slots
        self.n_slots += count
        return first

    def put(self, op: Op, *operands: int) -> None:
        """Append an instruction."""
        self.instructions.append((op, *operands))

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
            result = self.slot()
            self.put(op, result, total_, other)
            total_ = result
        return total_

    def _atom(self, atom: sizes.Atom) -> int:
        if isinstance(atom, str):
            return self.size_slots[sizes.symbol(atom)]
        key = sizes.Size((((atom,), 1),))
        found = self.size_slots.get(key)
        if found is None:
            op = {"//": Op.FLOORDIV, "%": Op.MOD, "min": Op.MIN, "max": Op.MAX}[atom.op]
            a, b = self.size(atom.a), self.size(atom.b)
            found = self.size_slots[key] = self.slot()
            self.put(op, found, a, b)
        return found

    # -- what the trace relied on -------------------------------------------------------------------------------------

    def _read_leaves(self) -> None:
        for b in self.trace.bindings:
            match b:
                case Load(leaf, op, operands):
                    self.put(op, leaf, *operands)
                case ObjectGuard(leaf, op, constant):
                    self.put(op, leaf, constant)
                case TensorLeaf():
                    self._read_tensor(b)
                case FloatLeaf(leaf, node):
                    self.number_slots[node] = self.slot()
                    self.put(Op.READ_FLOAT, leaf, self.number_slots[node])
                case IntLeaf(leaf, size):
                    slot = self.slot()
                    self.put(Op.READ_INT, leaf, slot)
                    self._bind(size, slot, None)
        for slot, size in self.deferred:
            self.put(Op.CHECK_EQ, slot, self.size(size))
        if self.trace.grad_mode is not None:
            self.put(Op.GRAD_MODE, int(self.trace.grad_mode))
        if self.trace.epoch:
            self.put(Op.EPOCH, 0)
        for g in self.trace.guards:
            result = self.slot()
            a, b = self.size(g.a), self.size(g.b)
            self.put(Op.EQ if g.relation == "==" else Op.LT, result, a, b)
            self.put(Op.CHECK_TRUE, result, int(g.holds))
        if self.trace.writes:
            written = [leaf for leaf, _ in self.trace.writes]
            others = [b.leaf for b in self.trace.bindings if isinstance(b, TensorLeaf) and b.leaf not in written]
            self.put(Op.DISTINCT, len(written), *written, len(others), *others)

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

    # -- kernels ------------------------------------------------------------------------------------------------------

    def _stored(self, steps: list[Step]) -> set[Node]:
        """Nodes that must be in memory: results, and what another step than their own reads."""
        scheduler = self.scheduler
        stored = {layout(n).root for n in self.graph.results()}
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
        if node in self.scheduler.step_of:
            return [node]
        return [origin for i in node.inputs for origin in self._computed(i)]

    def _build(self, steps: list[Step], stored: set[Node]) -> list[Work]:
        work: list[Work] = []
        inline = self.scheduler.inline
        for position, step in enumerate(steps):
            if isinstance(step, Library):
                work.append(Work(position, None, step.node))
                continue
            if not isinstance(step, Group):
                name = f"k{position}_{step.node.op.name}"
                builder = RegionBuilder(name, step.node, Pointer(self._memory(step.node)), inline, self.failures, self.lanes)
                work += [Work(position, b, None) for b in builder.build()]
                continue
            name = f"k{position}_{_title(step)}"
            places: dict[Node, Argument] = {n: Pointer(self._memory(n)) for n in step.nodes if n in stored}
            if step.total:
                built = total(name, step, places, inline, self.failures, self.lanes)
            elif step.row or step.columns:
                built = RowKernel(name, step, places, inline, self.failures, self.lanes).build()
            else:
                targets = [
                    Target(n, place, contiguous_strides(n.type.shape)) for n, place in places.items()
                ]
                built = [pointwise(name, step, targets, inline, self.failures, self.lanes)]
            work += [Work(position, b, None) for b in built]
        for w in work:
            w.reads = self._reads(w)
        return work

    def _memory(self, node: Node) -> Node:
        """The node whose memory a result is written to: its own, or the input that it overwrites."""
        leaf = self.in_place.get(node)
        if leaf is None:
            return node
        return next(b.node for b in self.trace.bindings if isinstance(b, TensorLeaf) and b.leaf == leaf)

    def _reads(self, work: Work) -> list[Node]:
        if work.library is not None:
            return [layout(i).root for i in work.library.inputs]
        assert work.built is not None
        return [a.root for a in work.built.arguments if isinstance(a, Pointer)]

    def _choose_in_place(self, steps: list[Step], stored: set[Node]) -> None:
        """Let a written input's new value go straight to its memory where nothing reads the old one afterwards."""
        position = {s.number: i for i, s in enumerate(steps)}
        node_of = {b.leaf: b.node for b in self.trace.bindings if isinstance(b, TensorLeaf)}
        strided = {b.leaf for b in self.trace.bindings if isinstance(b, TensorLeaf) and b.strides is not None}
        # An output that is a view of a written input shows what the input holds in the end, so it reads nothing.
        found = [(layout(o.node).root, o.aliases) for o in self.trace.outputs if isinstance(o, Fresh)]
        outputs = {root for root, aliases in found if not aliases or root.op.family != "argument"}
        readers = self._readers(steps)
        for leaf, value in self.trace.writes:
            old = node_of[leaf]
            if leaf in strided or value in outputs or old in outputs or value in self.in_place or value.type != old.type:
                continue
            number = self.scheduler.step_of.get(value)
            step = self.scheduler.steps.get(self.scheduler.find(number)) if number is not None else None
            if not isinstance(step, Group) or value not in step.full or (not step.dims and len(step.nodes) > 1):
                continue
            here = position[step.number]
            if self.phase_of[step.number] < len(self.trace.questions):
                continue
            if any(at > here for at, _ in readers.get(old, ())):
                continue
            if all(direct for at, direct in readers.get(old, ()) if at == here):
                self.in_place[value] = leaf

    def _readers(self, steps: list[Step]) -> dict[Node, list[tuple[int, bool]]]:
        """Per input the steps that read it, and whether as a whole and in order."""
        readers: dict[Node, list[tuple[int, bool]]] = {}
        for position, step in enumerate(steps):
            for node in step.nodes if isinstance(step, Group) else [step.node]:
                plain = isinstance(step, Group) and node.op.family == "elementwise" and node in step.full
                for value in node.inputs:
                    for root, viewed in self._arguments(value, False):
                        direct = plain and not viewed and root.type.shape == node.type.shape
                        readers.setdefault(root, []).append((position, direct))
        return readers

    def _arguments(self, node: Node, viewed: bool) -> list[tuple[Node, bool]]:
        if node.op.family == "argument":
            return [(node, viewed)]
        if node in self.scheduler.step_of:
            return []
        return [found for i in node.inputs for found in self._arguments(i, True)]

    # -- the program --------------------------------------------------------------------------------------------------

    def run(self) -> Compiled:
        """The Program and its kernels."""
        steps = self._in_phases(self.scheduler.run())
        stored = self._stored(steps)
        self._read_leaves()
        self._choose_in_place(steps, stored)
        work = self._build(steps, stored)
        self._choose_direct()
        copied, written = self._strided_outputs(len(steps)), self._strided_writes(len(steps))
        plan_ = self._plan(work, stored)
        self._allocate(plan_, work)
        functions, kernels = self._deduplicate([*work, *copied, *written])
        phases = self._split(steps, work)
        launches = [[self._launch(w, functions) for w in phase] for phase in phases]
        checks = [self._answer(node, bits) for node, bits in self.trace.questions]
        launches[-1] += [self._launch(w, functions) for w in copied]
        launches[-1] += self._copies()
        launches[-1] += [self._launch(w, functions) for w in written]
        phases[-1] += [*copied, *written]
        work += [*copied, *written]
        failures = [self._failure(*f) for f in self.failures.messages]
        amounts = [self.size(self._total_work(phase)) for phase in phases]
        for amount, instructions, check in zip(amounts, launches, [*checks, None], strict=True):
            self.put(Op.BEGIN, amount)
            self.instructions += instructions
            self.put(Op.FINISH)
            if check is not None:
                self.instructions.append(check)
        self._effects()
        program = Program(
            self.trace.n_arguments,
            self.trace.n_leaves,
            self.n_slots,
            len(self.trace.outputs),
            self.instructions,
            [k.name for k in kernels],
            failures,
            int(self.trace.epoch),
        )
        explained = [w.built if w.built is not None else Library(w.step, w.library) for w in work]
        return Compiled(program, kernels, explained, plan_, self.graph)

    def _failure(self, exception: str, message: str, size: sizes.Expr | None) -> Failure:
        """What a kernel's check raises; a size known only at run time is shown by its slot."""
        if size is None or isinstance(size, int):
            return Failure(exception, message if size is None else message % size)
        return Failure(exception, message, self.size(size))

    def _in_phases(self, steps: list[Step]) -> list[Step]:
        """The steps that answer each question first, in the order of the questions: nothing is written before the last."""
        final = len(self.trace.questions)
        self.phase_of = {s.number: final for s in steps}
        for k, (node, _) in reversed(list(enumerate(self.trace.questions))):
            number = self.scheduler.find(self.scheduler.step_of[layout(node).root])
            needed = self.scheduler.steps[number].needs | 1 << number
            for s in steps:
                if needed >> s.number & 1:
                    self.phase_of[s.number] = k
        return sorted(steps, key=lambda s: self.phase_of[s.number])

    def _split(self, steps: list[Step], work: list[Work]) -> list[list[Work]]:
        """The work of each phase."""
        phases: list[list[Work]] = [[] for _ in range(len(self.trace.questions) + 1)]
        for w in work:
            phases[self.phase_of[steps[w.step].number]].append(w)
        return phases

    def _answer(self, node: Node, bits: int) -> tuple[int, ...]:
        """The check that a question has the answer it was recorded with."""
        where = layout(node)
        return (Op.CHECK_VALUE, self._argument(Pointer(where.root, where.offset)), node.dtype.itemsize, bits)

    def _choose_direct(self) -> None:
        """Results computed straight into the memory of an output."""
        for k, output in enumerate(self.trace.outputs):
            if not isinstance(output, Fresh):
                continue
            root = layout(output.node).root
            if root.op.family == "argument" or root in self.direct or root in self.in_place:
                continue
            self.direct[root] = k

    def _plan(self, work: list[Work], stored: set[Node]) -> Plan:
        first: dict[Node, int] = {}
        last: dict[Node, int] = {}
        names: dict[Node, str] = {}
        requests: list[Request] = []
        for position, w in enumerate(work):
            for root in [*w.reads, *([w.library] if w.library is not None else [])]:
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
                    end = max(
                        i for i, o in enumerate(work) if o.built is not None and temporary in o.built.arguments
                    )
                    requests.append(Request(temporary.name, size, position, end))
        for _, value in self.trace.writes:
            root = layout(value).root
            if root in last:
                last[root] = len(work)
        for node, _ in self.trace.questions:
            last[layout(node).root] = len(work)
        for root, start in first.items():
            size = sizes.mul(root.type.numel, root.dtype.itemsize)
            requests.append(Request(names[root], size, start, last[root]))
        self._names = names
        return plan(requests)

    def _allocate(self, plan_: Plan, work: list[Work]) -> None:
        """Arena and outputs, and the pointers into them."""
        if plan_.blocks:
            arena = self.slot()
            self.put(Op.ARENA, arena, self.size(plan_.total))
            pointers = {id(b): self._advanced(arena, b.offset, 1) for b in plan_.blocks}
            for root, name in self._names.items():
                self.pointer_slots[root] = pointers[id(plan_.block_of[name])]
            for name, block in plan_.block_of.items():
                self.temporary_slots[name] = pointers[id(block)]
        for root, k in self.direct.items():
            output = self.trace.outputs[k]
            shape = output.node.type.shape if self._covers(output.node, root) else root.type.shape
            pointer = self.slot()
            self.pointer_slots[root] = pointer
            self.put(Op.OUTPUT, k, root.dtype.code, len(shape), pointer, *(self.size(d) for d in shape))
        for value, leaf in self.in_place.items():
            self.pointer_slots[value] = self.pointer_slots[self._memory(value)]
        self.extra: list[tuple[int, Node]] = []
        self.views: list[tuple[int, Node]] = []
        for k, output in enumerate(self.trace.outputs):
            if isinstance(output, Fresh):
                self._place_output(k, output)

    def _covers(self, node: Node, root: Node) -> bool:
        """Whether a view is all of its root in order: then the output has the view's shape at once."""
        return is_contiguous(node) and node.type.numel == root.type.numel

    def _place_output(self, k: int, output: Fresh) -> None:
        """Outputs that are not their root's own memory: views of it, or copies of an overwritten or duplicate one."""
        root = layout(output.node).root
        if self.direct.get(root) == k:
            if not self._covers(output.node, root):
                self.views.append((k, output.node))
        elif output.aliases:
            self.views.append((k, output.node))
        else:
            pointer = self.slot()
            shape = output.node.type.shape
            self.put(Op.OUTPUT, k, root.dtype.code, len(shape), pointer, *(self.size(d) for d in shape))
            if is_contiguous(output.node):
                self.extra.append((pointer, output.node))
            else:
                self.temporary_slots[_copy_name(k)] = pointer

    def _advanced(self, pointer: int, offset: sizes.Expr, itemsize: int) -> int:
        if isinstance(offset, int) and offset == 0:
            return pointer
        distance = self.size(sizes.mul(offset, itemsize))
        result = self.slot()
        self.put(Op.ADD, result, pointer, distance)
        return result

    def _deduplicate(self, work: list[Work]) -> tuple[dict[str, int], list[loops.Kernel]]:
        """One function per different kernel text."""
        functions: dict[str, int] = {}
        kernels: list[loops.Kernel] = []
        for w in work:
            if w.built is None:
                continue
            text = loops.body_text(w.built.kernel)
            if text not in functions:
                functions[text] = len(kernels)
                kernels.append(w.built.kernel)
        return functions, kernels

    def _launch(self, work: Work, functions: dict[str, int]) -> tuple[int, ...]:
        if work.library is not None:
            return self._matmul(work.library)
        built = work.built
        assert built is not None
        scratch = -1 if built.scratch == 0 else self.size(built.scratch)
        arguments = [self._argument(a) for a in built.arguments]
        function = functions[loops.body_text(built.kernel)]
        return (
            Op.KERNEL,
            function,
            self.size(built.tasks),
            self.size(built.work),
            scratch,
            len(arguments),
            *arguments,
        )

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

    def _matmul(self, node: Node) -> tuple[int, ...]:
        a, b = map(layout, node.inputs)
        rank = len(node.type.shape)
        shape_a = node.inputs[0].type.shape
        out = contiguous_strides(node.type.shape)
        pointers = [self._argument(Pointer(x.root, x.offset)) for x in (a, b)]
        pointers.append(self._argument(Pointer(node)))
        dims = [self.size(d) for d in (shape_a[-2], node.type.shape[-1], shape_a[-1])]
        steps = [self.size(s) for s in (*a.strides[-2:], *b.strides[-2:], out[-2])]
        batch = [
            self.size(x)
            for i in range(rank - 2)
            for x in (node.type.shape[i], a.strides[i], b.strides[i], out[i])
        ]
        return (Op.MATMUL, node.dtype.code, rank - 2, *pointers, *dims, *steps, *batch)

    def _copies(self) -> list[tuple[int, ...]]:
        """Results that could not be computed in place are copied when everything has been read."""
        node_of = {b.leaf: b.node for b in self.trace.bindings if isinstance(b, TensorLeaf)}
        copies = []
        for pointer, node in self.extra:
            copies.append(self._copy(pointer, node))
        for leaf, value in self.trace.writes:
            if self.in_place.get(value) != leaf and not self._is_strided(node_of[leaf]):
                copies.append(self._copy(self.pointer_slots[node_of[leaf]], value))
        return copies

    def _is_strided(self, argument: Node) -> bool:
        return argument.attributes.get("strides") is not None

    def _strided_outputs(self, position: int) -> list[Work]:
        """Kernels that copy outputs out of memory in which they are not contiguous."""
        work: list[Work] = []
        for k, output in enumerate(self.trace.outputs):
            if not isinstance(output, Fresh) or output.aliases or is_contiguous(output.node):
                continue
            node = output.node
            if self.direct.get(layout(node).root) != k:
                target = Temporary(_copy_name(k), node.dtype.short)
                work.append(self._copy_kernel(f"output{k}_copy", position, node, target, contiguous_strides(node.type.shape)))
        return work

    def _copy_kernel(self, name: str, position: int, node: Node, target: Argument, strides: Shape) -> Work:
        group = Group(-1, without_ones(node.type.shape))
        places = [Target(node, target, strides)]
        built = pointwise(name, group, places, self.scheduler.inline, self.failures, self.lanes)
        return Work(position, built, None)

    def _strided_writes(self, position: int) -> list[Work]:
        """Kernels that put the values of written inputs into memory that is not contiguous; they run last of all."""
        node_of = {b.leaf: b.node for b in self.trace.bindings if isinstance(b, TensorLeaf)}
        work: list[Work] = []
        for leaf, value in self.trace.writes:
            target = node_of[leaf]
            if self._is_strided(target):
                strides = target.attributes["strides"]
                work.append(self._copy_kernel(f"input{leaf}_write", position, value, Pointer(target), strides))
        return work

    def _copy(self, pointer: int, node: Node) -> tuple[int, ...]:
        where = layout(node)
        source = self._argument(Pointer(where.root, where.offset))
        return (Op.COPY, pointer, source, self.size(sizes.mul(node.type.numel, node.dtype.itemsize)))

    def _total_work(self, work: list[Work]) -> sizes.Expr:
        result: sizes.Expr = 0
        for w in work:
            if w.built is not None:
                result = sizes.add(result, w.built.work)
            elif w.library is not None:
                inner = w.library.inputs[0].type.shape[-1]
                result = sizes.add(result, sizes.mul(w.library.type.numel, inner))
        return result

    def _effects(self) -> None:
        leaf_of = {b.node: b.leaf for b in self.trace.bindings if isinstance(b, TensorLeaf)}
        for k, output in enumerate(self.trace.outputs):
            if isinstance(output, Same):
                self.put(Op.OUTPUT_LEAF, k, output.leaf)
            elif isinstance(output, Object):
                self.put(Op.OUTPUT_OBJECT, k, output.object)
        for k, node in self.views:
            where = layout(node)
            pointer = self._argument(Pointer(where.root, where.offset))
            dims = [self.size(d) for d in node.type.shape]
            strides = [self.size(s) for s in where.strides]
            is_output = where.root in self.direct
            base = self.direct[where.root] if is_output else leaf_of[where.root]
            rank = len(node.type.shape)
            self.put(Op.OUTPUT_VIEW, k, int(is_output), base, node.dtype.code, rank, pointer, *dims, *strides)
        for leaf, output in self.trace.gradients:
            self.put(Op.SET_GRAD, leaf, output)
        for leaf, _ in self.trace.writes:
            self.put(Op.BUMP_VERSION, leaf)


def _copy_name(output: int) -> str:
    return f"copy of output {output}"


def _title(group: Group) -> str:
    """A name from the operations that the kernel computes."""
    names = [n.op.name for n in group.nodes if n.op.name not in ("cast", "reshape")]
    kept = list(dict.fromkeys(names)) or ["copy"]
    return "_".join(kept[:4])


def compile_trace(trace: Trace, lanes: int) -> Compiled:
    """Lower a recorded call: to kernels, and to the Program that launches them."""
    return Assembler(trace, lanes).run()
