"""Patterns replaced in graphs, and graphs split into parts: PyTorch's matches, code and values."""

from __future__ import annotations

import importlib
import operator
from typing import Any

import numpy as np
import pytest
import torch
import torch.fx
import torch.fx.passes.split_module

import eagerjit
import eagerjit.fx.passes.split_module

LIBRARIES = (torch, eagerjit)


def rewriter(t: Any) -> Any:
    return importlib.import_module(f"{t.__name__}.fx.subgraph_rewriter")


def network(t: Any) -> Any:
    class Network(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = t.nn.Linear(4, 4), t.nn.Sequential(t.nn.Linear(4, 4), t.nn.ReLU())
            self.scale = t.nn.Parameter(t.full((4,), 0.5))

        def forward(self, x, w, flag=True):
            a = self.first(x) * self.scale
            b = self.second(t.relu(a) + w)
            c = t.cat([a, b]).sum() + t.cat([b, w]).sum()
            d = t.relu(b) + w
            return {"c": c, "d": (d, a.add(1.5))}

    made = Network()
    with t.no_grad():
        for i, parameter in enumerate(made.parameters()):
            parameter.copy_(t.linspace(-1, 1 + i, parameter.numel()).view(parameter.shape))
    return made


def traced(t: Any) -> Any:
    return t.fx.symbolic_trace(network(t))


def outcome(t: Any, graph: Any) -> Any:
    graph.graph.lint()
    x, w = t.linspace(-1, 2, 12).view(3, 4), t.linspace(2, -1, 12).view(3, 4)
    found = graph(x, w)
    return [np.round(v.detach().numpy().astype(float), 3).tolist() for v in (found["c"], *found["d"])]


def stacked(t: Any) -> Any:
    return rewriter(t).replace_pattern(
        traced_ := traced(t), lambda a, b: t.cat([a, b]), lambda a, b: t.stack([a, b])
    ), traced_  # fmt: skip


def sums_of_positive(t: Any) -> Any:
    graph = traced(t)
    return rewriter(t).replace_pattern(graph, lambda x, y: t.relu(x) + y, lambda x, y: t.sigmoid(y) * x), graph


def chained(t: Any) -> Any:
    """One match gives what another one gets."""
    graph = traced(t)
    return rewriter(t).replace_pattern(graph, lambda x: t.relu(x), lambda x: t.tanh(t.abs(x))), graph


def two_results(t: Any) -> Any:
    graph = traced(t)

    def pattern(a, b):
        c = t.cat([a, b])
        return c, c.sum()

    return rewriter(t).replace_pattern(graph, pattern, lambda a, b: (a * b, (a * b).mean())), graph


def inner_is_used_elsewhere(t: Any) -> Any:
    graph = traced(t)
    return rewriter(t).replace_pattern(graph, lambda x, s: (x * s).add(1.5), lambda x, s: x), graph


def numbers(t: Any, ignore: bool = False, value: float = 1.5) -> Any:
    graph = traced(t)
    found = rewriter(t).replace_pattern_with_filters(
        graph, lambda x: x.add(value), lambda x: x.sub(3.0), ignore_literals=ignore
    )
    return found, graph


def filtered(t: Any) -> Any:
    graph = traced(t)

    def keeps_cat_of_two(match: Any, original: Any, pattern: Any) -> bool:
        return match.placeholder_nodes[1].op == "placeholder"

    def other(match: Any, original: Any, pattern: Any) -> Any:
        return t.fx.symbolic_trace(lambda a, b: t.stack([b, a])).graph

    found = rewriter(t).replace_pattern_with_filters(
        graph, lambda a, b: t.cat([a, b]), match_filters=[keeps_cat_of_two], replacement_callback=other
    )
    return found, graph


def of_a_module(t: Any) -> Any:
    class Other(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.shift = t.nn.LayerNorm(4), t.nn.Parameter(t.ones(4))

        def forward(self, x, y):
            return self.norm(x) + self.shift - y

    graph = traced(t)
    replacement = t.fx.symbolic_trace(Other())
    return rewriter(t).replace_pattern(graph, lambda x, y: t.relu(x) + y, replacement), graph


CASES = {
    "stacked": stacked, "sums": sums_of_positive, "chained": chained, "two results": two_results,
    "inner use": inner_is_used_elsewhere, "numbers": numbers, "other numbers": lambda t: numbers(t, value=2.0),
    "any number": lambda t: numbers(t, True, 2.0), "filtered": filtered, "module": of_a_module,
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_patterns_are_replaced_as_pytorch_does(name: str) -> None:
    found = []
    for t in LIBRARIES:
        matches, graph = CASES[name](t)
        shown = [(str(m.anchor), {str(k): str(v) for k, v in m.nodes_map.items()}) for m in matches]
        shown += [[str(n) for n in m.replacements] for m in matches if hasattr(m, "replacements")]
        names = sorted(n for n, _ in graph.named_parameters())
        found.append((len(matches), shown, graph.code, outcome(t, graph), names))
    assert found[0] == found[1]


def test_what_does_not_fit_is_refused() -> None:
    for t in LIBRARIES:
        replace = rewriter(t)
        for call in (
            lambda t=t, r=replace: r.replace_pattern(traced(t), lambda x: t.relu(x), lambda x, y: x + y),
            lambda t=t, r=replace: r.replace_pattern(traced(t), lambda x: t.relu(x), lambda x: (x, x)),
            lambda t=t, r=replace: r.replace_pattern_with_filters(traced(t), lambda x: t.relu(x)),
            lambda t=t, r=replace: r.replace_pattern(traced(t), lambda x: (x + 1, x)[1], lambda x: x),
        ):
            with pytest.raises(AssertionError):
                call()
        assert t.fx.replace_pattern is replace.replace_pattern


PLACES: dict[str, Any] = {
    "halves": lambda n: int(n.name > "cat"),
    "one each": lambda n: n.name,
    "modules": lambda n: n.op == "call_module",
    "all": lambda n: 0,
}
OPTIONS: dict[str, Any] = {
    "plain": {}, "order": {"keep_original_order": True}, "names": {"keep_original_node_name": True},
    "numbered": {"keep_original_input_name": False, "partition_affix": "part"}, "tuples": {"tuple_return": True},
}  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("place", PLACES)
def test_graphs_are_split_as_pytorch_does(place: str, option: str) -> None:
    found: list[Any] = []
    for t in LIBRARIES:
        graph, names = traced(t), {}
        count = iter(range(100))
        order = {n.name: next(count) for n in graph.graph.nodes}
        halves = lambda n, order=order: int(order[n.name] > 8)  # noqa: E731
        split = t.fx.passes.split_module.split_module
        try:
            parts = split(graph, None, halves if place == "halves" else PLACES[place], names, **OPTIONS[option])
        except RuntimeError as error:
            found.append(str(error))
            continue
        inner = [(n, part.code) for n, part in parts.named_children()]
        found.append([parts.code, inner, names, outcome(t, parts), outcome(t, graph)])
    assert found[0] == found[1]
    assert isinstance(found[0], str) or found[0][-1] == found[0][-2]


def test_a_graph_of_inputs_alone() -> None:
    found = []
    for t in LIBRARIES:
        graph = t.fx.symbolic_trace(lambda x, y: (y, x))
        found.append([t.fx.passes.split_module.split_module(graph, None, lambda n: 0, keep_original_order=k).code
                      for k in (False, True)])  # fmt: skip
    assert found[0] == found[1]


def test_matches_of_items() -> None:
    for t in LIBRARIES:
        graph = t.fx.symbolic_trace(lambda x: x[1] + x[2])
        assert len(t.fx.replace_pattern(graph, lambda x: operator.getitem(x, 2), lambda x: x * 3)) == 1
        assert graph(t.arange(3)).tolist() == [1, 4, 7]
