"""Functions of thousands of operations compile, in kernels of bounded size, and give what the plain calls give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eagerjit as torch
from benchmarks.compile_time import GRAPHS, plot, table
from eagerjit.compiler.lower.groups import Group, HostStep
from eagerjit.compiler.lower.phases import Phases
from eagerjit.compiler.lower.schedule import MAX_COST, MAX_NODES, Scheduler


@pytest.mark.parametrize("kind", GRAPHS)
def test_long_functions_are_compiled_and_exact(kind: str) -> None:
    function: Callable[[Any], Any] = GRAPHS[kind](torch, 1200)
    jitted = torch.jit(function, fullgraph=True)
    x = torch.linspace(-1, 1, 36).reshape(6, 6)
    expected = function(x)
    assert bool(torch.isfinite(expected).all()) and jitted(x).tolist() == expected.tolist()
    graph = jitted.explain(x).optimized
    steps = Scheduler(graph, Phases(graph, {}, ()), (), {}).run()
    groups = [s for s in steps if isinstance(s, Group)]
    assert groups and all(len(g.nodes) <= MAX_NODES for g in groups)
    assert all(g.cost == sum(n.op.cost for n in g.nodes) < MAX_COST + 100 for g in groups)


def test_long_chains_of_numbers_and_gradients() -> None:
    def function(x: Any) -> Any:
        scale = x.sum()
        for _ in range(600):
            scale = scale * 0.999 + 0.001
        for _ in range(400):
            x = x * 1.001
        return (x * scale).sum()

    grads = []
    for call in (function, torch.jit(function, fullgraph=True)):
        x = torch.linspace(0, 1, 12).requires_grad_()
        call(x).backward()
        grads.append(x.grad.tolist())
    assert grads[0] == grads[1]


def test_a_step_is_asked_for_once_whatever_the_number_of_questions() -> None:
    """Loops that ask for an element in each iteration took time by the product of their kernels and questions."""

    class Asked(HostStep):
        reads = 0

        def __getattribute__(self, name: str) -> Any:
            if name == "needs":
                Asked.reads += 1
            return super().__getattribute__(name)

    graph = torch.jit(lambda x: [(x * n).sum() for n in range(8)]).explain(torch.ones(6)).graph
    questions = [node for node in graph.nodes if node.op.family == "reduction"]
    phases = Phases(graph, {f"measured{n}": n for n in range(1, 9)}, questions)
    steps = {number: Asked(number, [node]) for number, node in enumerate(graph.nodes)}
    for number, node in enumerate(graph.nodes):
        phases.note(number, (node,))
    last = 1 << len(steps)
    phases.late = dict.fromkeys(phases.late, last)
    assert phases.allow((), last, 0, steps) and 8 <= Asked.reads <= len(steps)


def test_rows_that_are_written_one_by_one_are_recorded_in_linear_size() -> None:
    """Each row is a view that the code drops; the views that were kept alive were read anew after each write."""

    def operations(rows: int) -> int:
        def function(x: Any) -> Any:
            out = torch.zeros(rows, 4)
            for row in range(rows):
                out[row] = x * row
            return out.sum()

        return len(torch.jit(function).explain(torch.ones(4, requires_grad=True)).graph.nodes)

    first, second, third = map(operations, (10, 20, 40))
    assert third - second == 2 * (second - first)


def test_the_report_shows_growth() -> None:
    seconds = dict.fromkeys(("trace", "passes", "lower", "code"), 0.1)
    rows = [("chain", 10, 1, {**seconds, "total": 0.5}), ("chain", 100, 2, {**seconds, "total": 5.0})]
    assert table(rows).splitlines()[2].endswith("1.00") and plot(rows).count("<polyline") == 1 + len(GRAPHS)
    assert plot(rows, {"jax": [(10, 0.1), (100, 0.2)]}).count("<polyline") == 2 + len(GRAPHS)


def test_long_calculations_with_a_number() -> None:
    def function(x: Any, rate: float) -> Any:
        for _ in range(900):
            rate = rate * 0.99 + 1e-3
        return x * rate

    jitted = torch.jit(function, fullgraph=True)
    for rate in (0.5, 20.0):
        assert jitted(torch.ones(3), rate).tolist() == function(torch.ones(3), rate).tolist()
    assert jitted.cache_info().compiles == 1


def test_repeated_layers_are_compiled_once() -> None:
    """A kernel whose text is known is not compiled again: a deep model has the kernels of a shallow one."""

    def kernels(depth: int) -> tuple[int, int]:
        nn = torch.nn
        layers = [nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU()) for _ in range(depth)]
        model = nn.Sequential(*layers)
        jitted = torch.jit(lambda x: model(x).sum())
        jitted(torch.ones(4, 8)).backward()
        variant = jitted.variants[0]
        return len(variant.report.compiled.kernels), len(variant.backward.report.compiled.kernels)

    forward, backward = kernels(3)
    assert kernels(12) == (forward, backward)
