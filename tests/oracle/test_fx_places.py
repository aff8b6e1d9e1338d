"""Where new Nodes of a graph come, and what loops over its Nodes see of changes: PyTorch's order."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.fx

import eagerjit
import eagerjit.fx

LIBRARIES = (torch, eagerjit)


def chain(t: Any) -> tuple[Any, Any, Any, Any]:
    graph = t.fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(t.sin, (x,))
    z = graph.call_function(t.cos, (y,))
    graph.output(z)
    return graph, x, y, z


def after(t: Any, graph: Any, x: Any, y: Any, z: Any) -> None:
    with graph.inserting_after(y):
        graph.call_function(t.exp, (y,))
        graph.call_function(t.log, (y,))


def before_one_while_another_goes(t: Any, graph: Any, x: Any, y: Any, z: Any) -> None:
    with graph.inserting_before(z):
        z.replace_input_with(y, graph.call_function(t.exp, (x,)))
        graph.erase_node(y)
        graph.call_function(t.log, (x,))


def for_good(t: Any, graph: Any, x: Any, y: Any, z: Any) -> None:
    graph.inserting_after(y)
    z.replace_input_with(y, graph.call_function(t.exp, (y,)))
    graph.lint()


def at_the_ends(t: Any, graph: Any, x: Any, y: Any, z: Any) -> None:
    with graph.inserting_after():
        graph.call_function(t.exp, (y,))
        graph.call_function(t.log, (y,))
    with graph.inserting_before():
        graph.placeholder("w")
        graph.placeholder("v")


def inside_of_another(t: Any, graph: Any, x: Any, y: Any, z: Any) -> None:
    with graph.inserting_before(z):
        with graph.inserting_before(y):
            graph.call_function(t.exp, (x,))
        graph.call_function(t.log, (y,))


def before_the_statement(t: Any, graph: Any, x: Any, y: Any, z: Any) -> None:
    place = graph.inserting_before(z)
    graph.call_function(t.exp, (x,))
    with place:
        graph.call_function(t.log, (x,))
    graph.call_function(t.tan, (x,))


def moved(t: Any, graph: Any, x: Any, y: Any, z: Any) -> None:
    with graph.inserting_before(z):
        graph.call_function(t.exp, (x,))
        y.append(graph.call_function(t.log, (x,)))
        graph.call_function(t.tan, (x,)).append(y)
    z.append(z)


@pytest.mark.parametrize(
    "change",
    [after, before_one_while_another_goes, for_good, at_the_ends, inside_of_another, before_the_statement, moved],
    ids=lambda change: change.__name__,
)
def test_places(change: Callable[..., None]) -> None:
    found = []
    for t in LIBRARIES:
        graph, *nodes = chain(t)
        change(t, graph, *nodes)
        names = [n.name for n in graph.nodes]
        assert len(graph.nodes) == len(names) and [n.name for n in reversed(graph.nodes)] == names[::-1]
        assert [n.next.name for n in graph.nodes] == [*names[1:], ""]
        found.append([names, [n.prev.name for n in graph.nodes], [str(n.args) for n in graph.nodes]])
    assert found[0] == found[1]


def test_loops_see_changes() -> None:
    found = []
    for t in LIBRARIES:
        graph, _, y, z = chain(t)
        seen = []
        for node in graph.nodes:
            seen.append(node.name)
            if node is y:
                with graph.inserting_after(y):
                    z.replace_input_with(y, graph.call_function(t.relu, (y,)))
            if node is z:
                ahead = graph.call_function(t.exp, (z,))
                unused = graph.call_function(t.tan, (z,))
            if node.op == "output":
                graph.erase_node(unused)
                node.replace_input_with(z, ahead)
        found.append([seen, [n.name for n in graph.nodes]])
    assert found[0] == found[1]


@pytest.mark.parametrize("t", LIBRARIES, ids=lambda t: t.__name__)
def test_nodes_of_other_graphs(t: Any) -> None:
    graph, _, _, z = chain(t)
    _, _, other, _ = chain(t)
    for refused in (graph.inserting_before, graph.inserting_after, z.append, z.prepend):
        with pytest.raises(AssertionError):
            refused(other)
    alone = other.graph.call_function(t.exp, ())
    with pytest.raises(RuntimeError, match="wrong graph"):
        graph.erase_node(alone)
    other.graph.erase_node(alone)
    with warnings.catch_warnings(record=True) as cautions:
        warnings.simplefilter("always")
        other.graph.erase_node(alone)
    assert "already erased" in str(cautions[0].message) and "exp" not in [n.name for n in other.graph.nodes]


def test_an_erased_node_has_no_inputs() -> None:
    found = []
    for t in LIBRARIES:
        graph, _, y, _ = chain(t)
        node = graph.call_function(t.add, (y, 2), {"alpha": 3})
        graph.erase_node(node)
        found.append([node.args, node.kwargs, node.all_input_nodes, [user.name for user in y.users]])
    assert found[0] == found[1]


def test_classes_of_graph_modules_are_told_by_their_text() -> None:
    found = []
    for t in LIBRARIES:
        module = t.fx.symbolic_trace(t.nn.Sequential(t.nn.ReLU()))
        kept = module.forward
        type(module).forward = lambda self, x: x + 1
        before = module(t.tensor([-2.0])).tolist()
        type(module).forward = kept
        *_, output = module.graph.nodes
        with module.graph.inserting_before(output):
            output.replace_input_with(output.args[0], module.graph.call_function(t.exp, (output.args[0],)))
        module.recompile()
        kind = type(module)
        found.append([kind.__name__, kind.__qualname__, "GraphModuleImpl" in str(kind), before,
                      module(t.tensor([-2.0])).tolist()])  # fmt: skip
    assert found[0] == found[1]
