"""`explain`: what was compiled for a call, as data and as a one-screen report."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagerjit.compiled.names import Names, gradient_names
from eagerjit.compiler import loops, sizes
from eagerjit.compiler.codegen.llvm import emit_kernel
from eagerjit.compiler.ir import Graph
from eagerjit.compiler.lower.build import Built
from eagerjit.compiler.signature import FloatLeaf, IntLeaf, ObjectGuard, SameGuard, TensorLeaf, WriteGuard
from eagerjit.compiler.text import print_graph
from eagerjit.runtime import cpu
from eagerjit.runtime.host import FUNCTIONS
from eagerjit.runtime.mode import GRAD_OFF
from eagerjit.runtime.program import Op
from eagerjit.runtime.records import record
from eagerjit.tensors.tensor import Tensor

if TYPE_CHECKING:
    from eagerjit.compiled.compilation import Report
    from eagerjit.compiled.variants import Variant


@record(frozen=True)
class KernelReport:
    """One launch: the kernel, the user's lines it computes, and why its first node did not join another kernel."""

    name: str
    lines: tuple[str, ...]
    reasons: tuple[str, ...]
    kernel: loops.Kernel | None

    @property
    def ir(self) -> str:
        """The kernel IR; a matrix product has none."""
        return str(self.kernel) if self.kernel is not None else ""

    @property
    def source(self) -> str:
        """The LLVM IR."""
        return emit_kernel(self.kernel, cpu.vector_width_bits()) if self.kernel is not None else ""

    @property
    def assembly(self) -> str:
        """The machine's assembly."""
        return cpu.assembly(self.source) if self.kernel is not None else ""


class Explanation:
    """The report on one compiled version of a function."""

    def __init__(self, name: str, report: Report, leaves: Mapping[int, str], backward: Explanation | None = None):
        self.name = name
        self.inputs = dict(leaves)
        """What the user calls the leaves that inputs of the graph and guards are about."""
        self.graph: Graph = report.traced
        """The recorded graph, before any pass."""
        self.optimized: Graph = report.compiled.graph
        self.bodies: dict[str, tuple[Graph, ...]] = bodies_of(self.optimized)
        """What the control structures that it calls run, by their names."""
        self.program = report.compiled.program
        self.kernels = [_kernel(b) for b in report.compiled.built]
        self.memory_plan = report.compiled.plan
        self._hints = report.trace.hints
        self.guards = guards_of(report, self.inputs)
        self.timings = dict(report.seconds)
        """Seconds by stage."""
        self.gpu = _gpu_kernels(report)
        """The launches on the GPU that EAGERJIT_TARGET names, as Triton and PTX; none where it names none."""
        self.backward = backward
        """The report on the gradient of a call whose results need one."""

    @property
    def assembly(self) -> str:
        """The assembly of all kernels."""
        return "\n".join(k.assembly for k in self.kernels if k.kernel is not None)

    def __str__(self) -> str:
        """One screen; the parts are there in full as attributes."""
        lines = [
            f"{self.name}: {self.summary()}",
            "",
            *_shortened(self._graph_lines(), GRAPH_LINES, ".optimized"),
            *self._bodies(),
            "",
            "launches (why each did not join the kernel before it):",
            *_shortened(self._launches(), LAUNCH_LINES, ".kernels"),
            "",
            "guards:",
            *_shortened([f"  {g}" for g in self.guards], GUARD_LINES, ".guards"),
            "",
            *_shortened(self._memory_lines(), MEMORY_LINES, ".memory_plan"),
            "",
            *self._gpu_lines(),
            "times: " + ", ".join(f"{k} {v * 1e3:.1f} ms" for k, v in self.timings.items()),
        ]
        if self.backward is not None:
            lines += ["", f"its gradient has a report of its own, .backward: {self.backward.summary()}"]
        return "\n".join(lines) + "\n"

    def summary(self) -> str:
        """How much was recorded and what is left of it to be launched."""
        own = [k.name for k in self.kernels if k.kernel is not None]
        return (
            f"{len(self.graph.nodes)} operations recorded, {len(self.optimized.nodes)} after the passes; "
            f"launches: {len(own)} of {len(set(own))} kernels, {len(self.kernels) - len(own)} library calls"
        )

    def _graph_lines(self) -> list[str]:
        """The graph's text, and behind its inputs what the user calls them."""
        lines = print_graph(self.optimized).rstrip().split("\n")
        inputs = self.optimized.inputs
        column = max((lines[i].rfind("  # ") for i in range(1, len(inputs) + 1)), default=0)
        for i, node in enumerate(inputs, 1):
            name = self.inputs.get(node.attributes["leaf"])
            if name:
                lines[i] = f"{lines[i]} {name}" if node.source else f"{lines[i]:<{column}}  # {name}"
        return lines

    def _memory_lines(self) -> list[str]:
        """The plan, in bytes of the call that was recorded."""
        with sizes.after_recording(self._hints):
            return str(self.memory_plan).split("\n")

    def _gpu_lines(self) -> list[str]:
        lines = [line for kernel in self.gpu for line in (*str(kernel).split("\n"), "")]
        return _shortened(lines, GPU_LINES, ".gpu")

    def _bodies(self) -> list[str]:
        out = []
        for name, graphs in self.bodies.items():
            for graph in graphs:
                lines = print_graph(graph).rstrip().split("\n")
                out += ["", f"run by {name}:", *_shortened(lines, GRAPH_LINES, f".bodies[{name!r}]")]
        return out

    def _launches(self) -> list[str]:
        out = []
        for position, kernel in enumerate(self.kernels):
            where = ", ".join(map(_short, kernel.lines[:4]))
            reason = f": {kernel.reasons[0]}" if kernel.reasons and kernel.reasons[0] else ""
            out.append(f"  {position:3} {kernel.name:<32} {where}{reason}")
        return out


GRAPH_LINES, LAUNCH_LINES, GUARD_LINES, MEMORY_LINES, GPU_LINES = 24, 24, 10, 8, 60
"""Lines of each part that a printed report shows."""
WIDTH = 160


def _shortened(lines: list[str], limit: int, rest: str) -> list[str]:
    lines = [line if len(line) <= WIDTH else f"{line[:WIDTH]} ..." for line in lines]
    if len(lines) <= limit:
        return lines
    half = limit // 2
    return [*lines[:half], f"  ... {len(lines) - limit} more in {rest} ...", *lines[half - limit :]]


_left: dict[str, int] = {}


def leave_report(directory: Path, function: Any, variant: Variant) -> None:
    """Write what was compiled into a directory: the report, the graph and all kernels in full."""
    explanation = explain(function, variant)
    name = re.sub(r"[^\w.]+", "_", f"{function.__module__}.{function.__qualname__}")
    number = _left[name] = _left.get(name, 0) + 1
    recorded, optimized = print_graph(explanation.graph), print_graph(explanation.optimized)
    parts = [str(explanation), "recorded:", recorded, "optimized:", optimized]
    parts += [k.ir for k in explanation.kernels if k.kernel is not None]
    if explanation.backward is not None:
        parts.append(str(explanation.backward))
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.{number}.txt").write_text("\n".join(parts))


def explain(function: Any, variant: Variant) -> Explanation:
    """The report on one variant of a jitted function."""
    name, report, gradient = function.__qualname__, variant.report, variant.backward
    found = Names(function.__wrapped__, report.trace, report.objects)
    names = {i: text for i, (text, _) in found.leaves(variant.structure, report.trace, report.objects).items()}
    backward = None
    if gradient is not None:
        backward = Explanation(f"{name}, backward", gradient.report, gradient_names(gradient, report, names))
    made = Explanation(name, report, names, backward)
    kinds = variant.asked.kinds
    made.guards += [f"{names[leaf]}: an instance of {kind.__name__}" for leaf, kind in kinds.items()]
    return made


def _short(line: str) -> str:
    return line.rpartition("/")[2]


def _gpu_kernels(report: Report) -> list[Any]:
    if not os.environ.get("EAGERJIT_TARGET"):
        return []
    from eagerjit.compiled import gpu_kernels

    architecture = gpu_kernels.target()
    assert architecture is not None
    return list(gpu_kernels.reports(report.trace, architecture))


def _kernel(built: Any) -> KernelReport:
    if isinstance(built, Built):
        return KernelReport(built.kernel.name, built.sources, built.reasons, built.kernel)
    node = built[0]
    name = node.attributes.get("function", node.op.name)
    return KernelReport(name, (node.source,), (), None)


def bodies_of(graph: Graph) -> dict[str, tuple[Graph, ...]]:
    """The graphs that the control structures called in a graph run, and those called in these, by name."""
    found: dict[str, tuple[Graph, ...]] = {}
    for node in graph.nodes:
        name = node.attributes.get("function")
        if not isinstance(name, str) or name in found:
            continue
        graphs = getattr(FUNCTIONS.get(name), "graphs", ())
        if graphs:
            found[name] = graphs
            for inner in graphs:
                found |= bodies_of(inner)
    return found


def guards_of(report: Report, names: Mapping[int, str]) -> list[str]:
    """What must hold for a compiled version to serve a call, one line per guard; `names` is what leaves are called."""
    trace, objects = report.trace, report.objects
    out = []
    for b in trace.bindings:
        name = names.get(b.leaf) or f"leaf {b.leaf}"
        if isinstance(b, TensorLeaf):
            layout = "contiguous" if b.strides is None else f"strides {list(b.strides)}"
            needs = "" if b.grad == 2 else f", requires_grad={bool(b.grad)}"
            out.append(f"{name}: {b.node.type}, {layout}{needs}")
        elif isinstance(b, (FloatLeaf, IntLeaf)):
            out.append(f"{name}: any {'float' if isinstance(b, FloatLeaf) else f'int, {b.size}'}")
        elif isinstance(b, ObjectGuard) and b.op is Op.TYPE_IS:
            if (kind := objects[b.object]) is not Tensor:  # which the line of a tensor says
                out.append(f"{name} is of class {kind.__name__}")
        elif isinstance(b, ObjectGuard):
            out.append(f"{name} {b.op.name.lower()} {_shown(objects[b.object])}")
        elif isinstance(b, SameGuard):
            out.append(f"{name} is {'' if b.expected else 'not '}{names.get(b.other, f'leaf {b.other}')}")
        elif isinstance(b, WriteGuard):
            out.append(f"{name} is no view made without gradients")
    out += [f"{g}  # {_short(g.source)}" for g in trace.guards]
    if trace.grad_mode is not None:
        out.append(f"grad mode is {'off' if trace.grad_mode & GRAD_OFF else 'on'}")
    return out


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, (str, int, float, bool, type(None))) else f"<{type(value).__name__}>"
    return text if len(text) < 60 else text[:57] + "..."
