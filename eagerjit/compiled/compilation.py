"""From a finished trace to something that can be called: passes, lowering, code, loading."""

from __future__ import annotations

import contextlib
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from eagerjit import debug
from eagerjit.compiled import stored
from eagerjit.compiled.machine_code import Code, loaded, machine_code
from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph, Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.passes import run_pipeline
from eagerjit.compiler.signature import (
    FloatLeaf,
    Fresh,
    IntLeaf,
    Object,
    Output,
    Same,
    TensorLeaf,
    Trace,
)
from eagerjit.compiler.unify import equal_products, replacements, unified
from eagerjit.recording.trace import Tracer
from eagerjit.runtime import cache, cpu, execute, log, routines
from eagerjit.runtime.once import once
from eagerjit.runtime.program import Program
from eagerjit.runtime.records import record, replace
from eagerjit.tensors.tensor import Tensor, storage_of
from eagerjit.watching.observation import TraceBreak

if TYPE_CHECKING:  # what lowers and emits is imported by the first call that nothing on the disk answers
    from eagerjit.compiler.lower.assemble import Compiled


@record
class Report:
    """What compiling a call produced, for inspection: the graph as traced and as compiled, kernels, plan and times."""

    traced: Graph
    trace: Trace
    objects: list[Any]
    pending: bool
    seconds: dict[str, float] = field(default_factory=dict)
    stored: bool = False
    load: Callable[[list[Any]], Any] | None = None
    """What loads the same program for other objects; None where that is not done."""

    _compiled: Compiled | None = None

    @property
    def compiled(self) -> Compiled:
        """Kernels and plan; made again where the program came from the disk."""
        if self._compiled is None:
            compile_trace, blocking = _lowering()
            if self.pending:
                simplified(self.trace)
                self.pending = False
            with sizes.after_recording(self.trace.hints):
                self._compiled = compile_trace(self.trace, blocking(_lanes()))
        return self._compiled


backend: Callable[[Report], Any] | None = None
"""Makes an executable of a report in place of the CPU's code, if set."""


@contextlib.contextmanager
def made_by(make: Callable[[Report], Any]) -> Iterator[None]:
    """What is compiled within the block is made by this function of its report, whose passes have run."""
    global backend

    def made(report: Report) -> Any:
        assert report.compiled is not None
        return make(report)

    before, backend = backend, made
    try:
        yield
    finally:
        backend = before


def finish(
    tracer: Tracer, n_arguments: int, results: Sequence[Any], aliases: bool = False, **conditions: Any
) -> tuple[Any, Report]:
    """Compile a recording whose results are these (Tensors, or constants to hand back): an Executable and a report."""
    trace = describe(tracer, n_arguments, results, aliases, **conditions)
    return executable_of(trace, trace.graph, tracer.objects, pending=True)


def executable_of(trace: Trace, traced: Graph, objects: list[Any], pending: bool = False) -> tuple[Any, Report]:
    """Compile and load a trace, or load what it was compiled to before; `pending`: its passes have not run yet."""
    started = time.perf_counter()
    report = Report(traced, trace, objects, pending)
    if backend is not None:
        return backend(report), report
    if trace.device is not None:
        from eagerjit.cuda import execution

        return execution.loaded(report, trace.device), report
    key = stored.program_key(trace) if cache.enabled() else ""
    found = stored.read(key) if key else None
    if found is None:
        program, code = _compiled(report)
        if not all(-(2**63) <= word < 2**63 for word in program.words()):
            raise TraceBreak("it computes with an integer of more than 64 bits", traced.name)
        if key:
            stored.write(key, program, code, traced.name)
    else:
        program, code = found
        report.stored = True
    if log.FUSE:
        _log_fusion(traced.name, report.compiled)
    before = time.perf_counter()
    modules = [loaded(one) for one in code.objects]
    addresses = [modules[i].address(code.objects[i].symbols[j]) for i, j in code.places]
    addresses += [routines.address(name) for name in program.kernels[len(addresses) :]]
    executable = execute.load(program, addresses, objects)
    kind = type(executable)
    report.load = lambda others: _with_code(kind(program, addresses, others), traced.name, modules)
    executable = _with_code(executable, traced.name, modules)
    report.seconds["load"] = time.perf_counter() - before
    if log.COMPILE:
        origin = "from the disk cache" if report.stored else "compiled"
        milliseconds = (time.perf_counter() - started) * 1e3
        counts = f"{len(traced.nodes)} operations, {len(program.kernels)} kernels"
        log.write("compile", f"{traced.name}: {counts}, {origin} in {milliseconds:.1f} ms")
    return executable, report


_alive: dict[int, Any] = {}


def _with_code(executable: Any, name: str, modules: list[Any]) -> Any:
    """An executable, with which its machine code stays loaded."""
    if log.LAUNCH:
        executable = LoggedExecutable(executable, name)
    _alive[id(executable)] = modules
    weakref.finalize(executable, _alive.pop, id(executable), None)
    return executable


class LoggedExecutable:
    """An executable that writes one line per run; native callers leave it to Python."""

    def __init__(self, executable: Any, name: str):
        self.executable, self.name = executable, name
        self.epochs, self.n_arguments, self.n_outputs = executable.epochs, executable.n_arguments, executable.n_outputs

    def run(self, leaves: Sequence[Any]) -> Any:
        """Run it and say how long that took."""
        started = time.perf_counter()
        result = self.executable.run(leaves)
        took = (time.perf_counter() - started) * 1e6
        outcome = "a guard failed" if result is execute.MISS else f"{took:.1f} us"
        log.write("launch", f"{self.name}: {outcome}")
        return result


def _compiled(report: Report) -> tuple[Program, Code]:
    """The program and machine code of a trace, with the times of each stage."""
    times = [time.perf_counter()]
    if report.pending:
        simplified(report.trace)
        report.pending = False
    times.append(time.perf_counter())
    compiled = report.compiled
    times.append(time.perf_counter())
    code = machine_code(compiled.kernels, lambda: stored.latest(report.traced.name))
    times.append(time.perf_counter())
    for name, start, end in zip(("passes", "lower", "code"), times, times[1:], strict=False):
        report.seconds[name] = end - start
    return compiled.program, code


def _log_fusion(name: str, compiled: Compiled) -> None:
    """One line per kernel: what it computes, and why it is not part of the kernel before."""
    from eagerjit.compiler.lower.build import Built

    for built in compiled.built:
        if isinstance(built, Built):
            reason = built.reasons[0] if built.reasons else ""
            log.write("fuse", f"{name}: {built.kernel.name}: {', '.join(built.sources)}: {reason}")


@once
def _lowering() -> Any:
    """What lowers a trace, imported under the lock: a fork in the middle would leave its child half of the modules."""
    from eagerjit.compiler.lower.assemble import compile_trace
    from eagerjit.compiler.lower.build import Blocking

    return compile_trace, Blocking


def _lanes() -> int:
    """Lanes of a vector loop that reduces nothing."""
    return max(cpu.vector_width_bits() // 32, 4)


def describe(
    tracer: Tracer, n_arguments: int, results: Sequence[Any], aliases: bool = False, **conditions: Any
) -> Trace:
    """The recording as a Trace."""
    outputs: list[Output] = []
    for result in results:
        if not isinstance(result, Tensor):
            outputs.append(Object(tracer.object(result)))
        elif type(result._data) is not Node and id(result) in tracer.leaf_of:
            outputs.append(Same(tracer.leaf_of[id(result)]))
        else:
            view = result._view is not None
            node = tracer.place(result) if view else tracer.value(result)
            # A number of the call has no memory that a result could be a view of.
            memory = "number" not in layout(node).root.attributes
            outputs.append(Fresh(node, (aliases or view or node in tracer.turned) and memory, tracer.is_on_host(node)))
    writes = tracer.final_writes()
    inputs = {b.leaf: b.node for b in tracer.bindings if isinstance(b, TensorLeaf)}
    graph = Graph(
        tracer.name,
        tracer.inputs,
        tracer.nodes,
        [*(o.node for o in outputs if isinstance(o, Fresh)), *(q.node for q in tracer.questions)],
        [(inputs[leaf], node) for leaf, node in writes],
    )
    return Trace(
        graph,
        n_arguments,
        tracer.n_leaves,
        tracer.bindings,
        outputs,
        list(tracer.assumptions.guards),
        dict(tracer.assumptions.hints),
        writes=writes,
        lines=[_line(tracer, node) for _, node in writes],
        times=_times_written(tracer),
        questions=[replace(q) for q in tracer.questions],
        checks=debug.CHECKS,
        device=tracer.device,
        **conditions,
    )


def _line(tracer: Tracer, written: Node) -> int:
    """The constant object that names the line of a write; -1 for eager operations, which any line may call."""
    return tracer.object(sys.intern(written.source)) if ":" in written.source else -1


def _times_written(tracer: Tracer) -> list[int]:
    """Per tensor of `final_writes` by how much its version counter moves; once for those that share one."""
    counted: set[int] = set()
    out = []
    for tensor in tracer.written.values():
        storage = storage_of(tensor)
        out.append(0 if id(storage) in counted else tracer.times_noticed(tensor))
        counted.add(id(storage))
    return out


def simplified(trace: Trace) -> None:
    """Run the passes on the trace's graph, and follow its nodes."""
    with sizes.after_recording(trace.hints):
        _simplify(trace)


def _views_argument(output: Output) -> bool:
    """Whether a result lies in memory of the caller's."""
    return isinstance(output, Fresh) and output.aliases and layout(output.node).root.op.family == "argument"


def _simplify(trace: Trace) -> None:
    views = [_views_argument(o) for o in trace.outputs]
    measured = {str(q.size) for q in trace.questions if q.size is not None}
    values = replacements(trace.guards, measured)
    products = equal_products(trace.guards, values)
    graph = trace.graph
    if values or products:
        graph, new = unified(graph, values, products)
        for b in trace.bindings:
            if isinstance(b, (TensorLeaf, FloatLeaf)):
                b.node = new[b.node]
            if isinstance(b, TensorLeaf):
                b.strides = b.node.attributes.get("strides")
            elif isinstance(b, IntLeaf):
                b.size = sizes.substitute(b.size, values)
        for q in trace.questions:
            q.size = None if q.size is None else sizes.substitute(q.size, values)
        trace.guards = [g for g in (g.replaced(values) for g in trace.guards) if not g.is_certain()]
    graph = run_pipeline(graph)
    trace.graph = graph
    nodes = iter(graph.outputs)
    for output, view in zip(trace.outputs, views, strict=True):
        if isinstance(output, Fresh):
            output.node = next(nodes)
            if view and not _views_argument(output):
                raise TraceBreak("a view of an argument cannot be told from a copy", trace.graph.name)
    for q in trace.questions:
        q.node = next(nodes)
    trace.writes = [(leaf, value) for (leaf, _), (_, value) in zip(trace.writes, graph.writes, strict=True)]
