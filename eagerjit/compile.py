"""From a finished trace to something that can be called: passes, lowering, code, loading."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from eagerjit.compiler import sizes
from eagerjit.compiler.codegen.llvm import emit_module
from eagerjit.compiler.ir import Graph, Node
from eagerjit.compiler.loops import Kernel
from eagerjit.compiler.lower.assemble import Compiled, compile_trace
from eagerjit.compiler.passes import run_pipeline
from eagerjit.compiler.signature import FloatLeaf, Fresh, IntLeaf, Object, Output, Same, TensorLeaf, Trace
from eagerjit.compiler.unify import replacements, unify
from eagerjit.runtime import cache, cpu, execute, log
from eagerjit.tensor import Tensor
from eagerjit.trace import Tracer


@dataclass(slots=True)
class Report:
    """What compiling a call produced, for inspection: the graph as traced and as compiled, kernels, plan and times."""

    traced: Graph
    compiled: Compiled
    trace: Trace
    objects: list[Any]
    seconds: dict[str, float] = field(default_factory=dict)


def finish(
    tracer: Tracer, n_arguments: int, results: Sequence[Any], aliases: bool = False, **conditions: Any
) -> tuple[Any, Report]:
    """Compile a recording whose results are these (Tensors, or constants to hand back): an Executable and a report."""
    trace = describe(tracer, n_arguments, results, aliases, **conditions)
    traced = trace.graph
    started = time.perf_counter()
    simplified(trace)
    executable, report = executable_of(trace, traced, tracer.objects)
    report.seconds["passes"] = time.perf_counter() - started - sum(report.seconds.values())
    return executable, report


def executable_of(trace: Trace, traced: Graph, objects: list[Any]) -> tuple[Any, Report]:
    """Lower, compile and load a trace whose passes have run."""
    started = time.perf_counter()
    compiled = compile_trace(trace, max(cpu.vector_width_bits() // 32, 4))
    lowered = time.perf_counter()
    addresses = load_kernels(compiled.kernels)
    executable = execute.load(compiled.program, addresses, objects)
    loaded = time.perf_counter()
    if log.COMPILE:
        counts = f"{len(traced.nodes)} nodes, {len(compiled.kernels)} kernels"
        log.write("compile", f"{trace.graph.name}: {counts}, {(loaded - started) * 1e3:.1f} ms")
    return executable, Report(traced, compiled, trace, objects, {"lower": lowered - started, "code": loaded - lowered})


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
            outputs.append(Fresh(tracer.value(result), aliases))
    writes = tracer.final_writes()
    inputs = {b.leaf: b.node for b in tracer.bindings if isinstance(b, TensorLeaf)}
    graph = Graph(
        tracer.name,
        tracer.inputs,
        tracer.nodes,
        [o.node for o in outputs if isinstance(o, Fresh)],
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
        **conditions,
    )


def simplified(trace: Trace) -> None:
    """Run the passes on the trace's graph, and follow its nodes."""
    values = replacements(trace.guards)
    graph = trace.graph
    if values:
        graph, new = unify(graph, values)
        for b in trace.bindings:
            if isinstance(b, (TensorLeaf, FloatLeaf)):
                b.node = new[b.node]
            if isinstance(b, TensorLeaf):
                b.strides = b.node.attributes.get("strides")
            elif isinstance(b, IntLeaf):
                b.size = sizes.substitute(b.size, values)
        trace.guards = [g for g in (g.replaced(values) for g in trace.guards) if not g.is_certain()]
    graph = run_pipeline(graph)
    trace.graph = graph
    nodes = iter(graph.outputs)
    for output in trace.outputs:
        if isinstance(output, Fresh):
            output.node = next(nodes)
    trace.writes = [(leaf, value) for (leaf, _), (_, value) in zip(trace.writes, graph.writes, strict=True)]


_loaded: dict[str, Any] = {}


def load_kernels(kernels: Sequence[Kernel]) -> list[int]:
    """Addresses of the kernels' machine code, from memory, the disk cache, or the compiler."""
    if not kernels:
        return []
    text = emit_module(kernels, cpu.vector_width_bits())
    module = _loaded.get(text)
    if module is None:
        module = _loaded[text] = cpu.load_object(cache.cached_compile(text))
    return [module.address(k.name) for k in kernels]
