"""Modules as graphs: the code that PyTorch writes for them, and what the code computes."""

from __future__ import annotations

import copy
import gc
import importlib
import linecache
import traceback
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit

LIBRARIES = (eagerjit, torch)


def fx_of(t: Any) -> Any:
    return importlib.import_module(f"{t.__name__}.fx")


def network(t: Any) -> Any:
    class Network(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = t.nn.Linear(4, 5)
            self.param = t.nn.Parameter(t.ones(3, 4))
            self.register_buffer("offset", t.ones(5))
            self.seq = t.nn.Sequential(t.nn.Linear(5, 5), t.nn.ReLU())

        def forward(self, x, scale=2.0):
            y = self.linear(x + self.param.t().t()).clamp(min=0.0, max=1.0)
            y = self.seq(y) * scale + self.offset
            a, b = y.chunk(2, dim=1)
            z = t.cat([a, t.relu(a), b], dim=1)
            return z[:, 1:4].sum(-1), {"mean": -y.mean(), "rows": x.shape[0]}

    made = Network()
    with t.no_grad():
        for parameter in made.parameters():
            parameter.fill_(0.1)
    return made


def values(found: Any) -> Any:
    return np.round(found[0].detach().numpy(), 4).tolist(), round(float(found[1]["mean"]), 4), found[1]["rows"]


def traced(t: Any) -> Any:
    return fx_of(t).symbolic_trace(network(t))


def swapped(t: Any) -> Any:
    """relu replaced by sigmoid in the graph."""
    g = traced(t)
    (node,) = g.graph.find_nodes(op="call_function", target=t.relu)
    with g.graph.inserting_after(node):
        new = g.graph.call_function(t.sigmoid, (node.args[0],))
    node.replace_all_uses_with(new)
    g.graph.erase_node(node)
    g.graph.lint()
    g.recompile()
    return g


def transformed(t: Any) -> Any:
    fx = fx_of(t)

    class Tanh(fx.Transformer):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            return super().call_function(t.tanh if target is t.relu else target, args, kwargs)

    return Tanh(traced(t)).transform()


def larger_leaves(t: Any) -> Any:
    fx = fx_of(t)

    class Coarse(fx.Tracer):
        def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
            return isinstance(m, t.nn.Sequential) or super().is_leaf_module(m, module_qualified_name)

    model = network(t)
    return fx.GraphModule(model, Coarse().trace(model))


MADE = {
    "traced": traced, "swapped": swapped, "transformed": transformed, "larger leaves": larger_leaves,
    "copied": lambda t: copy.deepcopy(traced(t)), "traced again": lambda t: fx_of(t).symbolic_trace(traced(t)),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_code_and_results(name: str) -> None:
    seen = []
    for t in LIBRARIES:
        g = MADE[name](t)
        x = t.ones(3, 4)
        nodes = [(n.op, n.name, sorted(str(u) for u in n.users)) for n in g.graph.nodes]
        out = g(x)
        out[0].sum().backward()
        gradients = {name: round(float(p.grad.sum()), 3) for name, p in g.named_parameters() if p.grad is not None}
        again = values(fx_of(t).Interpreter(g).run(x))
        seen.append((g.code, nodes, values(out), values(g(x, 3.0)), again, gradients, sorted(g.state_dict())))
    assert seen[0] == seen[1]


def test_a_graph_by_hand() -> None:
    seen = []
    for t in LIBRARIES:
        fx = fx_of(t)
        graph = fx.Graph()
        a = graph.placeholder("a")
        b = graph.call_function(t.add, (a, 1))
        c = graph.call_method("relu", (b,))
        graph.output(c)
        module = fx.GraphModule({}, graph)
        text, before = str(graph), module.code
        with pytest.raises(RuntimeError, match="users"):
            graph.erase_node(b)
        with graph.inserting_before(c):
            graph.call_function(t.mul, (a, a))
        assert graph.eliminate_dead_code() and len(list(graph.nodes)) == 4
        with graph.inserting_after(b):
            product = (fx.Proxy(b) * 3).node
        c.replace_input_with(b, product)
        module.recompile()
        seen.append((text, before, module.code, module(t.ones(2)).tolist(), [str(n) for n in c.all_input_nodes]))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("t", LIBRARIES)
def test_what_a_graph_cannot_say(t: Any) -> None:
    fx = fx_of(t)

    def branch(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    for function, error in ((branch, "control flow"), (lambda x: [e for e in x], "iterated"), (len, "len")):
        with pytest.raises((ValueError, RuntimeError), match=error):
            fx.symbolic_trace(function if function is not len else lambda x: len(x))


@pytest.mark.parametrize("t", LIBRARIES)
def test_assertions_are_nodes(t: Any) -> None:
    def checked(x: Any) -> Any:
        t._assert(x.shape[0] == 3, "three rows")
        t._assert(x.sum() > 0, "positive")
        return x + 1

    g = fx_of(t).symbolic_trace(checked)
    assert [str(n.target).split()[1] for n in g.graph.nodes if n.target is t._assert] == ["_assert"] * 2
    assert g(t.ones(3)).tolist() == [2.0] * 3
    for given, text in ((t.ones(2), "three rows"), (-t.ones(3), "positive")):
        with pytest.raises(AssertionError, match=text):
            g(given)


@pytest.mark.parametrize("t", LIBRARIES)
def test_functions_of_a_parts_file_are_leaves(t: Any) -> None:
    space: dict[str, Any] = {"__name__": "parts", "t": t, "table": np.arange(3)}  # of which `==` gives no bool
    text = """
def branch(x):
    return x if float(x.sum()) > 0 else -x

class Part(t.nn.Module):
    def forward(self, x):
        return branch(x) + 1
"""
    exec(text, space)
    tracer = fx_of(t).Tracer(autowrap_functions=(space["branch"],))
    whole = t.nn.Sequential(space["Part"]())
    graph = tracer.trace(whole)
    assert next(n.target for n in graph.nodes if n.op == "call_function") is (before := space["branch"])
    assert fx_of(t).GraphModule(whole, graph)(-t.ones(2)).tolist() == [2.0, 2.0] and before(t.ones(1)).tolist() == [1.0]


@pytest.mark.parametrize("t", LIBRARIES)
def test_questions_about_scripts_are_asked_while_tracing(t: Any) -> None:
    g = fx_of(t).symbolic_trace(lambda x: x if t.jit.is_scripting() else x + 1)
    assert g(t.ones(2)).tolist() == [2.0, 2.0]


def test_functions_are_themselves_again() -> None:
    before = eagerjit.relu, eagerjit.nn.functional.relu, eagerjit.nn.Module.__call__
    traced(eagerjit)
    assert before == (eagerjit.relu, eagerjit.nn.functional.relu, eagerjit.nn.Module.__call__)


def test_a_graph_is_compiled_as_any_module_is() -> None:
    g = traced(eagerjit)
    compiled = eagerjit.jit(lambda x: g(x)[0], fullgraph=True)
    for size in (1.0, 2.0):
        x = eagerjit.ones(3, 4) * size
        assert eagerjit.equal(compiled(x), g(x)[0])


@pytest.mark.parametrize("t", LIBRARIES, ids=lambda t: t.__name__)
def test_weights_of_the_model_load(t: Any) -> None:
    model, other = network(t), network(t)
    with t.no_grad():
        model.param.mul_(2)
    g = fx_of(t).symbolic_trace(other)
    g.load_state_dict(model.state_dict())
    x = t.ones(3, 4)
    assert t.equal(g(x)[0], model(x)[0]) and list(g.state_dict()) == list(model.state_dict())


def shapes(t: Any) -> Any:
    """What `ShapeProp` notes of a network's values, and what it says of a call that fails."""

    class Network(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.linear = t.nn.Conv2d(3, 4, 3), t.nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            x = t.relu(self.conv(x))
            best, places = x.flatten(2).max(-1)
            return {"out": self.linear(best), "places": places, "rows": x.shape[0]}, x.permute(0, 2, 3, 1)

    prop = importlib.import_module(f"{t.__name__}.fx.passes.shape_prop").ShapeProp
    traced = fx_of(t).symbolic_trace(Network())
    prop(traced).propagate(t.ones(2, 3, 6, 6))
    found = []
    for node in traced.graph.nodes:
        noted: list[Any] = []
        fx_of(t).node.map_aggregate((node.meta.get("tensor_meta"),), noted.append)
        found.append((node.name, "type" in node.meta, [str(x) for x in noted]))
    with pytest.raises(RuntimeError, match="ShapeProp error for: node=%conv"):
        prop(traced).propagate(t.ones(2, 5, 6, 6))
    return found


def test_shapes_are_noted() -> None:
    assert shapes(eagerjit) == shapes(torch)


def test_lines_of_code_are_kept_as_long_as_the_code() -> None:
    def sources() -> set[str]:
        gc.collect()
        return {file for file in linecache.cache if file.startswith("<eagerjit.fx")}

    before = sources()
    module = fx_of(eagerjit).symbolic_trace(network(eagerjit))
    module.recompile()
    assert len(sources() - before) == 1
    with pytest.raises(RuntimeError) as raised:
        module(eagerjit.ones(7, 9))
    assert "add = x + t_1" in "".join(traceback.format_exception(raised.value))
    del module, raised
    assert sources() <= before
