"""GraphModules copied, pickled and saved: what they keep, and methods of tensors that meet Proxies."""

from __future__ import annotations

import copy
import importlib
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit
from eagerjit import overrides

LIBRARIES = (eagerjit, torch)


def doubled(x: Any) -> Any:
    return x * 2


importlib.import_module("eagerjit.fx").wrap("doubled")


def saved(t: Any) -> Callable[[Any], Any]:
    def copied(module: Any) -> Any:
        file = io.BytesIO()
        t.save(module, file)
        file.seek(0)
        return t.load(file, weights_only=False)

    return copied


def graph_module(t: Any) -> Any:
    class Network(t.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = t.nn.Linear(3, 3)
            self.param = t.nn.Parameter(t.full((3,), 0.5))
            self.register_buffer("shift", t.ones(3), persistent=False)

        def forward(self, x, scale=2.0):  # PyTorch pickles no annotations that are text
            hidden = self.linear(x) + self.shift.mul(self.param)
            return hidden.relu().softmax(dim=-1) * scale + t.sin(x)[..., None, :2].sum(-1)

    network = Network().eval()
    with t.no_grad():
        network.linear.weight.copy_(t.arange(9.0).reshape(3, 3))
        network.linear.bias.fill_(0.25)
    made = importlib.import_module(f"{t.__name__}.fx").symbolic_trace(network)
    for node in made.graph.nodes:
        node.meta["place"] = [1]
    made.tag = "kept by pickles"
    made.meta["list"] = [1]
    made.unused = t.nn.Linear(1, 1)
    made.register_buffer("unused_buffer", t.zeros(1), persistent=False)
    return made


def seen(module: Any, before: Any, t: Any) -> dict[str, Any]:
    module.recompile()
    module.graph.lint()
    return {
        "class": (type(module).__name__, type(module).__mro__[1].__name__),
        "training": module.training,
        "meta": (module.meta, module.meta is before.meta, module.meta.get("list") is before.meta["list"]),
        "state": sorted(module.state_dict()),
        "children": [name for name, _ in module.named_children()],
        "tag": getattr(module, "tag", None),
        "same": (module.graph is before.graph, module.linear is before.linear),
        "code": module.code,
        "code of original": module.code == before.code,
        "metas": [node.meta.get("place") for node in module.graph.nodes],
        "owner": module.graph.owning_module is module,
        "result": np.round(module(t.linspace(-1, 1, 6).reshape(2, 3)).detach().numpy(), 5).tolist(),
    }


@pytest.mark.parametrize("way", ["copy", "deepcopy", "pickle", "save"])
def test_what_copies_keep(way: str) -> None:
    def copied(t: Any) -> dict[str, Any]:
        ways = {
            "copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda m: pickle.loads(pickle.dumps(m)),
            "save": saved(t),
        }  # fmt: skip
        module = graph_module(t)
        return seen(ways[way](module), module, t)

    ours, theirs = map(copied, LIBRARIES)
    assert ours == theirs


def test_modules_that_hold_them_share_their_copy() -> None:
    for t in LIBRARIES:
        holder = t.nn.ModuleList([module := graph_module(t), module])
        for made in (copy.deepcopy(holder), pickle.loads(pickle.dumps(holder))):
            assert made[0] is made[1] is not module


def test_subclasses() -> None:
    for t in LIBRARIES:

        class Named(importlib.import_module(f"{t.__name__}.fx").GraphModule):  # type: ignore[misc]
            def __init__(self, module: Any) -> None:
                super().__init__(module, module.graph, "Named")

        made = copy.deepcopy(copy.deepcopy(Named(graph_module(t))))
        assert (isinstance(made, Named), type(made).__name__, type(made).__mro__[1]) == (True, "GraphModule", Named)


def test_hooks_of_the_state_are_copied() -> None:
    for t in LIBRARIES:
        module, calls = graph_module(t), []
        module._register_state_dict_hook(lambda *args, calls=calls: calls.append(args[0]))
        made = copy.deepcopy(module)
        made.state_dict()
        assert calls == [made]


def test_graphs_copy_metas_of_outputs() -> None:
    for t in LIBRARIES:
        graph = graph_module(t).graph
        made = copy.deepcopy(graph)
        assert [node.meta["place"] for node in made.nodes] == [[1]] * len(graph.nodes)
        assert all(a.meta["place"] is b.meta["place"] for a, b in zip(graph.nodes, made.nodes, strict=True))
        assert all(node.graph is made for node in made.nodes)
        assert len(copy.deepcopy(type(graph)()).nodes) == 0


def test_methods_of_tensors_that_meet_proxies() -> None:
    def nodes(t: Any) -> list[tuple[str, str]]:
        class Network(t.nn.Module):
            def forward(self, x: Any) -> Any:
                ones = t.ones(3)
                return ones.outer(x) + t.outer(ones, x) + ones.view_as(x) * ones.mul(x) - t.mul(ones, x)

        made = importlib.import_module(f"{t.__name__}.fx").symbolic_trace(Network())
        return [(n.op, n.target if isinstance(n.target, str) else n.target.__name__) for n in made.graph.nodes]

    assert nodes(eagerjit) == nodes(torch)


def test_methods_are_pickled_by_name() -> None:
    overrides.begin()
    for method in (eagerjit.Tensor.mul, eagerjit.Tensor.__mul__, eagerjit.Tensor.__eq__, eagerjit.Tensor.view_as):
        assert pickle.loads(pickle.dumps(method)) == method
        assert overrides.is_tensor_method_or_property(method)
    assert not overrides.is_tensor_method_or_property(eagerjit.mul)
    assert pickle.loads(pickle.dumps(eagerjit.mul)) == eagerjit.mul


def test_wrapped_functions_stay_one_node() -> None:
    class Network(eagerjit.nn.Module):
        def forward(self, x: Any) -> Any:
            return doubled(x) + 1

    module = eagerjit.fx.symbolic_trace(Network())
    loaded = pickle.loads(pickle.dumps(module))
    assert doubled in [node.target for node in loaded.graph.nodes]
    assert loaded.code == module.code
