"""Arguments of traced functions: those that are given beforehand, and those with stars; PyTorch's code and values."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch
import torch.fx

import eagerjit

LIBRARIES = (torch, eagerjit)


def chosen(x, flag=True, k=2, mode="sum"):
    return (x * k if flag else x) if mode == "sum" else x


def starred(x, *args, scale, **kwargs):
    return (x + args[0]) * scale - kwargs["a"]


@pytest.mark.parametrize("concrete", [{"flag": False}, {"flag": True, "k": 3}, {"mode": "other"}, {"k": 1.5}, {}])
def test_values_given_beforehand(concrete: dict[str, Any]) -> None:
    found: list[Any] = []
    for t in LIBRARIES:
        graph = t.fx.symbolic_trace(chosen, concrete_args={"flag": True, "mode": "sum", **concrete})
        given = {"flag": True, "k": 2, "mode": "sum", **concrete}
        found.append([graph.code, graph(t.ones(2), *given.values()).tolist()])
        for other in ({"flag": not given["flag"]}, {"mode": "absent"}):
            with pytest.raises(AssertionError, match="specialized to have value"):
                graph(t.ones(2), *{**given, **other}.values())
        graph.graph.eliminate_dead_code()
        graph.recompile()
        found[-1].append(graph.code)
    assert found[0] == found[1]


def test_none_given_beforehand() -> None:
    for t in LIBRARIES:
        graph = t.fx.symbolic_trace(lambda x, y=None: x if y is None else x + y, concrete_args={"y": None})
        assert graph(t.ones(1), None).tolist() == [1] == graph(t.ones(1)).tolist()
        with pytest.raises(AssertionError, match="value None"):
            graph(t.ones(1), 3)


def test_arguments_with_stars() -> None:
    found: list[Any] = []
    for t in LIBRARIES:
        graph = t.fx.symbolic_trace(lambda x, *args, **kwargs: x + args[0] * kwargs["a"])
        values = graph(t.ones(1), 2, 3, a=4, b=5).tolist()

        class Module(t.nn.Module):
            def forward(self, *xs):
                return xs[0] - xs[1]

        inside = t.fx.symbolic_trace(Module())
        found.append([graph.code, values, inside.code, inside(t.ones(1), 3).tolist()])
        named = t.fx.symbolic_trace(starred)
        assert [n.target for n in named.graph.nodes if n.op == "placeholder"] == ["x", "scale", "*args", "**kwargs"]
    assert found[0] == found[1]


def test_lists_of_arguments_are_emptied() -> None:
    for t in LIBRARIES:
        interpreter, given = t.fx.Interpreter(t.fx.symbolic_trace(lambda x, y: x + y)), [t.ones(1), 2]
        assert interpreter.boxed_run(given).tolist() == [3] and given == []


def test_functions_are_wrapped_at_the_top_of_modules(monkeypatch: Any) -> None:
    for t in LIBRARIES:
        with pytest.raises(NotImplementedError, match="top level of a module"):
            t.fx.wrap("absent")
        with pytest.raises(RuntimeError, match="Unsupported type"):
            t.fx.wrap(3)
        module = types.ModuleType("wrapping")
        module.fx = t.fx  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "wrapping", module)
        text = "def half(x):\n    return x / len(x)\nfx.wrap(half)\ndef function(x):\n    return half(x) + 1\n"
        exec(compile(text, "<wrapped>", "exec"), vars(module))
        graph = t.fx.symbolic_trace(module.function)
        assert [n.name for n in graph.graph.nodes if n.op == "call_function"] == ["half", "add"]
        assert graph(t.ones(2)).tolist() == [1.5, 1.5]


def test_functions_with_effects_are_kept() -> None:
    def noted(x: Any) -> None:
        """Notes something elsewhere."""

    def asked(x: Any) -> None:
        """Notes nothing."""

    for t in LIBRARIES:
        assert t.fx.has_side_effect(noted) is noted
        graph = t.fx.Graph()
        x = graph.placeholder("x")
        graph.call_function(noted, (x,))
        graph.call_function(asked, (x,))
        graph.output(x)
        assert graph.eliminate_dead_code()
        assert [n.target for n in graph.nodes if n.op == "call_function"] == [noted]
