"""Assembles a Program: schedules the graph, builds kernels, plans memory, and writes the instructions."""

from __future__ import annotations

from collections.abc import Iterator

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.affine import without_ones
from eagerjit.compiler.ir import Graph, Node
from eagerjit.compiler.layout import is_contiguous, layout
from eagerjit.compiler.lower.attention import attention
from eagerjit.compiler.lower.build import Blocking, Built
from eagerjit.compiler.lower.calls import host_call
from eagerjit.compiler.lower.checks import checking, last_failing
from eagerjit.compiler.lower.emit import Argument, Pointer, Temporary
from eagerjit.compiler.lower.groups import Group, HostStep, Library, Step
from eagerjit.compiler.lower.libraries import RESULT, is_attention, multiplications, operands, spatial
from eagerjit.compiler.lower.matrices import is_small, matrices
from eagerjit.compiler.lower.memory import Plan
from eagerjit.compiler.lower.memory_order import memory_order, permuted
from eagerjit.compiler.lower.placement import Placement, Work, copy_name
from eagerjit.compiler.lower.pointwise import Target, pointwise
from eagerjit.compiler.lower.product import convolution, is_product, product, with_following
from eagerjit.compiler.lower.reduction import RowKernel, total
from eagerjit.compiler.lower.regions import RegionBuilder
from eagerjit.compiler.lower.routines import along, call_of, order, work_of
from eagerjit.compiler.lower.searches import SEARCHES, search_kernels
from eagerjit.compiler.lower.several import merged
from eagerjit.compiler.lower.sparse import product_kernel
from eagerjit.compiler.ops import linear, routines, sparse
from eagerjit.compiler.shapes import Shape, contiguous_strides
from eagerjit.compiler.signature import Fresh, Object, Question, Same, TensorLeaf, Trace
from eagerjit.runtime import dtypes
from eagerjit.runtime.program import Failure, Op, Program
from eagerjit.runtime.records import record, replace


@record
class Compiled:
    """A Program with everything that explains it."""

    program: Program
    kernels: list[loops.Kernel]
    built: list[Built | list[Node]]
    """Per instruction a kernel, or the results of a call."""
    plan: Plan
    graph: Graph


class Assembler(Placement):
    """Turns one Trace into a Compiled."""

    def run(self) -> Compiled:
        """The Program and its kernels."""
        steps = self._in_phases(self.steps)
        stored = self._stored(steps)
        self._read_leaves()
        self._choose_overwritten(steps)
        self._choose_in_place(steps, last_failing(self.scheduler, steps))
        work = self._build(steps, stored)
        self._choose_direct()
        copied, written = self._strided_outputs(len(steps)), self._strided_writes(len(steps))
        plan_ = self._plan(work)
        self._allocate(plan_)
        functions, kernels = self._deduplicate([*work, *copied, *written])
        phases = self._split(steps, work)
        launches = [[self._launch(w, functions) for w in phase] for phase in phases]
        checks = [self._answer(q, phase) for phase, q in enumerate(self.trace.questions, 1)]
        launches[-1] += [self._launch(w, functions) for w in copied]
        launches[-1] += self._copies()
        launches[-1] += [self._launch(w, functions) for w in written]
        phases[-1] += [*copied, *written]
        work += [*copied, *written]
        failures = [self._failure(*f) for f in self.failures.messages]
        amounts = [self.size(self._total_work(phase)) for phase in phases]
        effects = list(self._effects())
        instructions: list[tuple[int, ...]] = []
        for prologue, amount, phase_launches, check in zip(
            self.prologues, amounts, launches, [*checks, []], strict=True
        ):
            instructions += [*prologue, (Op.BEGIN, amount), *phase_launches, (Op.FINISH,), *check]
        instructions += effects
        program = Program(
            self.trace.n_arguments,
            self.trace.n_leaves,
            self.n_slots,
            len(self.trace.outputs),
            instructions,
            [*(k.name for k in kernels), *self.routines],
            failures,
            int(self.trace.epoch),
            self.calls,
        )
        explained = [w.built if w.built is not None else w.results for w in work]
        return Compiled(program, kernels, explained, plan_, self.graph)

    def _build(self, steps: list[Step], stored: set[Node]) -> list[Work]:
        work: list[Work] = []
        inline, changed = self.scheduler.inline, set(self.overwritten.values())
        for position, step in enumerate(steps):
            if isinstance(step, Library):
                made = self._library_kernels(position, step.node) if self.blocking.products else [None]
                work += [Work(position, b, [step.node]) for b in made]
                continue
            if isinstance(step, HostStep):
                made_ = self._called_kernels(position, step)
                work += [Work(position, b) for b in made_] or [Work(position, None, step.nodes)]
                continue
            if not isinstance(step, Group):
                name = f"k{position}_{step.node.op.name}"
                place = Pointer(self._memory(step.node))
                shared, written = step.node in changed, self._last(step.node) in self.in_place
                sharing = (shared or written, written)
                builder = RegionBuilder(name, step.node, place, inline, self.failures, self.blocking, *sharing)
                work += [Work(position, b) for b in builder.build()]
                continue
            name = f"k{position}_{_title(step)}"
            places: dict[Node, Argument] = {n: Pointer(self._memory(n)) for n in step.nodes if n in stored}
            if step.total:
                built = total(name, step, places, inline, self.failures, self.blocking)
            elif step.row or step.columns:
                built = RowKernel(name, step, places, inline, self.failures, self.blocking).build()
            else:
                strides = {n: self.strides.get(n) or contiguous_strides(n.type.shape) for n in places}
                targets = [Target(n, place, strides[n]) for n, place in places.items()]
                built = [pointwise(name, step, targets, inline, self.failures, self.blocking)]
            work += [Work(position, b) for b in built]
        for w in work:
            w.reads = self._reads(w)
        if not self.blocking.products:
            return work
        return merged(self._with_following(work), lambda w: self.phase_of[steps[w.step].number], self._memory)

    def _called_kernels(self, position: int, step: HostStep) -> list[Built]:
        """The kernels that do what a call of the host does, if there are any."""
        for kind, suits, build in (("attention", is_attention, attention), ("matrices", is_small, matrices)):
            if self.blocking.products and suits(step.node):
                return build(f"k{position}_{kind}", step.nodes, lambda node: Pointer(self._memory(node)))
        return []

    def _library_kernels(self, position: int, node: Node) -> list[Built] | list[None]:
        """The kernels that do what a library does for the CPU; None if there are none."""
        place, name = Pointer(self._memory(node)), f"k{position}_{node.op.name}"
        if node.op is routines.order:
            return order(name, node, place)
        if node.op is sparse.weighted_rows:
            return [product_kernel(name, node, place)]
        if node.op.family == "routine":
            return search_kernels(name, node, place) if node.op in SEARCHES else along(name, node, place)
        if not node.dtype.is_floating_point or node.op.family != "linear":
            return [None]
        return [product(name, node, place) if node.op is linear.matmul else convolution(name, node, place)]

    def _with_following(self, work: list[Work]) -> list[Work]:
        """Products joined with the kernels right after them that alone read them."""
        kept = {layout(n).root for n in self.graph.results()}
        joined: list[Work] = []
        for w in work:
            before = joined[-1] if joined else None
            if before is not None and before.results and before.built and is_product(before.built) and w.built:
                node = before.results[0]
                alone = [id(o) for o in work if node in o.reads] == [id(before), id(w)] and node not in kept
                both = with_following(before.built, node, w.built, self.blocking) if alone else None
                if both is not None:
                    joined[-1] = Work(w.step, both)
                    joined[-1].reads = self._reads(joined[-1])
                    continue
            joined.append(w)
        return joined

    def _reads(self, work: Work) -> list[Node]:
        if work.built is None:
            return [layout(i).root for i in work.results[0].inputs]
        return [a.root for a in work.built.arguments if isinstance(a, Pointer)]

    def _in_phases(self, steps: list[Step]) -> list[Step]:
        """The steps that answer each question first, in their order: nothing is written before the last answer.

        Of the others those come first that may fail, so that a call that fails has written nothing.
        """
        final = len(self.trace.questions)
        self.phase_of = {s.number: final for s in steps}
        for k, q in reversed(list(enumerate(self.trace.questions))):
            root = layout(q.node).root
            if root not in self.scheduler.step_of:  # an input, known already
                continue
            number = self.scheduler.find(self.scheduler.step_of[root])
            needed = self.scheduler.steps[number].needs | 1 << number
            for s in steps:
                if needed >> s.number & 1:
                    self.phase_of[s.number] = k
        first = checking(self.scheduler, steps) if self.trace.writes else 0
        return sorted(steps, key=lambda s: (self.phase_of[s.number], not first >> s.number & 1))

    def _split(self, steps: list[Step], work: list[Work]) -> list[list[Work]]:
        """The work of each phase."""
        phases: list[list[Work]] = [[] for _ in range(len(self.trace.questions) + 1)]
        for w in work:
            phases[self.phase_of[steps[w.step].number]].append(w)
        return phases

    def _answer(self, q: Question, phase: int) -> list[tuple[int, ...]]:
        """Read a size, or check that a question has the answer it was recorded with."""
        where = layout(q.node)
        pointer = self._argument(Pointer(where.root, where.offset))
        if q.size is None:
            return [(Op.CHECK_VALUE, pointer, q.node.dtype.itemsize, q.bits)]
        if self.known_from.get(str(q.size)) == phase:
            return [(Op.READ_SIZE, self.size(q.size), pointer)]
        slot = self.slot()
        return [(Op.READ_SIZE, slot, pointer), (Op.CHECK_EQ, slot, self.size(q.size))]

    def _failure(self, exception: str, message: str, size: sizes.Expr | None) -> Failure:
        """What a kernel's check raises; a size known only at run time is shown by its slot."""
        if size is None or isinstance(size, int):
            return Failure(exception, message if size is None else message % size)
        return Failure(exception, message, self.size(size))

    def _deduplicate(self, work: list[Work]) -> tuple[dict[str, int], list[loops.Kernel]]:
        """One function per different kernel text."""
        functions: dict[str, int] = {}
        kernels: list[loops.Kernel] = []
        for w in work:
            if w.built is None:
                continue
            if self.trace.fastmath:
                w.built.kernel = replace(w.built.kernel, contract=True)
            text = loops.body_text(w.built.kernel)
            if text not in functions:
                functions[text] = len(kernels)
                kernels.append(w.built.kernel)
        called = [call_of(w.results[0]).name for w in work if w.built is None and w.results[0].op.family == "routine"]
        self.routines = list(dict.fromkeys(called))
        functions |= {name: len(kernels) + i for i, name in enumerate(self.routines)}
        return functions, kernels

    def _launch(self, work: Work, functions: dict[str, int]) -> tuple[int, ...]:
        built = work.built
        if built is None:
            node = work.results[0]
            if node.op.family == "routine":
                return self._routine(node, functions)
            return self._host(work.results) if node.op.family != "linear" else getattr(self, f"_{node.op.scalar}")(node)
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

    def _routine(self, node: Node, functions: dict[str, int]) -> tuple[int, ...]:
        call = call_of(node)
        slots = [self._argument(Pointer(where.root, where.offset)) for where in map(layout, node.inputs)]
        slots += [self._argument(Pointer(node)), *map(self.size, call.words)]
        scratch = -1 if call.scratch == 0 else self.size(call.scratch)
        numbers = self.size(call.tasks), self.size(work_of(node)), scratch
        return (Op.KERNEL, functions[call.name], *numbers, len(slots), *slots)

    def _host(self, results: list[Node]) -> tuple[int, ...]:
        call, words = host_call(results)
        self.calls.append(call)
        slots = [self._argument(w) if isinstance(w, Pointer) else self.size(w) for w in words]
        return (Op.CALL, len(self.calls) - 1, len(slots), *slots)

    def _convolution(self, node: Node) -> tuple[int, ...]:
        x, w, y = operands(node)
        sizes_ = (x.type.shape[0], w.type.shape[1], sizes.floordiv(w.type.shape[0], node.attributes["groups"]))
        slots = [self._argument(Pointer(where.root, where.offset)) for where in map(layout, (x, w, y))]
        slots += [self.size(s) for s in (*sizes_, node.attributes["groups"], *spatial(node))]
        dtype = dtypes.bfloat16 if node.attributes.get("short") else node.dtype
        return (Op.CONVOLUTION, RESULT[node.op], dtype.code, *slots)

    def _copies(self) -> list[tuple[int, ...]]:
        """Results that could not be computed in place are copied when everything has been read."""
        node_of = {b.leaf: b.node for b in self.trace.bindings if isinstance(b, TensorLeaf)}
        copies = []
        for pointer, node in self.extra:
            copies.append(self._copy(pointer, node))
        for leaf, value in self.trace.writes:
            if self.in_place.get(layout(value).root) != leaf and not self._is_strided(node_of[leaf]):
                copies.append(self._copy(self.pointer_slots[node_of[leaf]], value))
        return copies

    def _strided_outputs(self, position: int) -> list[Work]:
        """Kernels that copy outputs out of memory in which they are not contiguous."""
        work: list[Work] = []
        for k, output in enumerate(self.trace.outputs):
            if not isinstance(output, Fresh) or output.aliases or is_contiguous(output.node):
                continue
            node = output.node
            if self.direct.get(layout(node).root) != k:
                target = Temporary(copy_name(k), node.dtype.short)
                strides = contiguous_strides(node.type.shape)
                work.append(self._copy_kernel(f"output{k}_copy", position, node, target, strides))
        return work

    def _copy_kernel(self, name: str, position: int, node: Node, target: Argument, strides: Shape) -> Work:
        group = Group(-1, without_ones(node.type.shape))
        places = [Target(node, target, strides)]
        built = pointwise(name, group, places, self.scheduler.inline, self.failures, self.blocking)
        return Work(position, built)

    def _strided_writes(self, position: int) -> list[Work]:
        """Kernels that put the values of written inputs into memory that is not contiguous; they run last of all."""
        node_of = {b.leaf: b.node for b in self.trace.bindings if isinstance(b, TensorLeaf)}
        work: list[Work] = []
        for leaf, value in self.trace.writes:
            target = node_of[leaf]
            if self._is_strided(target) and self.in_place.get(layout(value).root) != leaf:
                order = memory_order(target)
                strides = tuple(target.attributes["strides"][d] for d in order)
                turned = permuted(value, order)
                work.append(self._copy_kernel(f"input{leaf}_write", position, turned, Pointer(target), strides))
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
            elif w.results[0].op.family == "linear":
                result = sizes.add(result, multiplications(w.results[0]))
            elif w.results[0].op.family == "routine":
                result = sizes.add(result, work_of(w.results[0]))
        return result

    def _effects(self) -> Iterator[tuple[int, ...]]:
        """What the call returns and leaves behind."""
        leaf_of = {b.node: b.leaf for b in self.trace.bindings if isinstance(b, TensorLeaf)}
        for k, output in enumerate(self.trace.outputs):
            if isinstance(output, Same):
                yield (Op.OUTPUT_LEAF, k, output.leaf)
            elif isinstance(output, Object):
                yield (Op.OUTPUT_OBJECT, k, output.object)
        for k, node in self.views:
            where = layout(node)
            pointer = self._argument(Pointer(where.root, where.offset))
            dims = [self.size(d) for d in node.type.shape]
            strides = [self.size(s) for s in where.strides]
            is_output = where.root in self.direct
            base = self.direct[where.root] if is_output else leaf_of[where.root]
            rank = len(node.type.shape)
            yield (Op.OUTPUT_VIEW, k, int(is_output), base, node.dtype.code, rank, pointer, *dims, *strides)
        for leaf, grad in self.trace.gradients:
            yield (Op.SET_GRAD, leaf, grad)
        for (leaf, _), line, times in zip(self.trace.writes, self.trace.lines, self.trace.times, strict=True):
            if times:
                yield (Op.BUMP_VERSION, leaf, line, times)


def _title(group: Group) -> str:
    """A name from the operations that the kernel computes."""
    names = [n.op.name for n in group.nodes if n.op.name not in ("cast", "reshape")]
    kept = list(dict.fromkeys(names)) or ["copy"]
    return "_".join(kept[:4])


def compile_trace(trace: Trace, blocking: Blocking) -> Compiled:
    """Lower a recorded call: to kernels, and to the Program that launches them."""
    return Assembler(trace, blocking).run()
