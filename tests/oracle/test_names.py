"""Names that are no operations, and the account of every name that public programs use: each has samples or a test."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from catalog.account import TABLE_OF_NAMES, agrees, table, updating
from catalog.entries import ENTRIES, LISTED, MORE
from catalog.named import NAMED, NO_SAMPLES
from oracle import same

import eagerjit as ej
from eagerjit.tools import names

ROOT = Path(__file__).resolve().parents[2]


def _function_of_the_users(t: Any) -> Any:
    class Doubled(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0]

    x = t.tensor([1.0, 2.0, 3.0], requires_grad=True)
    out = Doubled.apply(x)
    out.sum().backward()
    return out, x.grad


def _grown(t: Any) -> Any:
    module = t.nn.Module()
    module.add_module("inner", t.nn.Linear(2, 3))
    module.register_parameter("scale", t.nn.Parameter(t.ones(2)))
    module.register_parameter("none", None)
    kinds = [type(m).__name__ for m in module.children()]
    return kinds, [n for n, _ in module.named_parameters()], module.none


def _without_gradients(t: Any) -> Any:
    module = t.nn.Linear(2, 1)
    module(t.ones(3, 2)).sum().backward()
    before = [p.grad is None for p in module.parameters()]
    module.zero_grad()
    after = [p.grad is None for p in module.parameters()]
    module(t.ones(3, 2)).sum().backward()
    module.zero_grad(set_to_none=False)
    return before, after, [p.grad for p in module.parameters()]


def _filled(name: str, *arguments: Any) -> Callable[[Any], Any]:
    return lambda t: [getattr(t.nn.init, name)(t.empty(shape), *arguments) for shape in ((3, 4), (2, 0), (5,), ())]


def _drawn(name: str, *arguments: Any) -> Callable[[Any], Any]:
    """The moments of many numbers drawn, to one digit, and that they were written to the tensor itself."""

    def use(t: Any) -> Any:
        t.manual_seed(3)
        target = t.nn.Parameter(t.empty(400, 300))
        made = getattr(t.nn.init, name)(target, *arguments)
        limit = target.detach().abs().max()
        spread = limit if "uniform" in name else target.detach().std()
        return made is target, made.requires_grad, round(float(spread), 1), round(float(target.detach().mean()), 1)

    return use


def _proxies(t: Any) -> Any:
    graph = t.fx.Graph()
    tracer = t.fx.proxy.GraphAppendingTracer(graph)
    x = t.fx.Proxy(graph.placeholder("x"), tracer)
    graph.output((x * 2 + 1).node)
    module = t.fx.GraphModule(t.nn.Module(), graph)
    return [(node.op, isinstance(node, t.fx.Node)) for node in graph.nodes], module(t.tensor([1.0, 2.0]))


USES: dict[str, Callable[[Any], Any]] = {
    "torch.Tensor": lambda t: (t.Tensor(2, 3).shape, t.Tensor([1, 2.5]), t.Tensor(np.ones(2, np.float32))),
    "torch.uint8": lambda t: (str(t.uint8).rpartition(".")[2], t.tensor([255, 1], dtype=t.uint8) + 1, t.uint8.itemsize),
    "torch.finfo": lambda t: [
        (f.eps, f.max, f.min, f.tiny, f.bits)
        for f in (t.finfo(d) for d in (t.float32, t.float64, t.float16, t.bfloat16))
    ],
    "torch.autograd.Function": _function_of_the_users,
    "Module|Function.apply": _function_of_the_users,
    "torch.fx.Proxy": _proxies,
    "torch.fx.Node": _proxies,
    "torch.fx.proxy.GraphAppendingTracer": _proxies,
    "Module.add_module": _grown,
    "Module.register_parameter": _grown,
    "Module.children": _grown,
    "Module.zero_grad": _without_gradients,
    "torch.nn.init.zeros_": _filled("zeros_"),
    "torch.nn.init.ones_": _filled("ones_"),
    "torch.nn.init.constant_": _filled("constant_", 2.5),
    "torch.nn.init.normal_": _drawn("normal_", 1.0, 3.0),
    "torch.nn.init.uniform_": _drawn("uniform_", -2.0, 2.0),
    "torch.nn.init.kaiming_uniform_": _drawn("kaiming_uniform_"),
    "torch.nn.init.xavier_uniform_": _drawn("xavier_uniform_"),
}


@pytest.mark.parametrize("name", USES)
def test_use(name: str) -> None:
    found, expected = (USES[name](library) for library in (ej, torch))
    same(found, expected)


WRONG: dict[str, Callable[[Any], Any]] = {
    "torch.finfo": lambda t: t.finfo(t.int32),
    "Module.add_module": lambda t: t.nn.Module().add_module("a.b", None),
    "Module.register_parameter": lambda t: t.nn.Module().register_parameter("p", t.ones(2)),
    "Module.apply": lambda t: t.nn.Module().apply(None),
    "torch.nn.init.xavier_uniform_": lambda t: t.nn.init.xavier_uniform_(t.empty(3)),
    "torch.nn.init.kaiming_uniform_": lambda t: t.nn.init.kaiming_uniform_(t.empty(())),
    "torch.nn.init.orthogonal_": lambda t: t.nn.init.orthogonal_(t.empty(3)),
    "torch.nn.init.calculate_gain": lambda t: t.nn.init.calculate_gain("zz"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use(name: str) -> None:
    with pytest.raises(Exception) as expected:
        WRONG[name](torch)
    with pytest.raises(expected.type):
        WRONG[name](ej)


@pytest.mark.parametrize("name", NO_SAMPLES)
def test_names_with_a_test_in_place_of_samples(name: str) -> None:
    assert not ENTRIES[name].variations
    agrees(name, {"samples": NAMED[name], "gpu": NO_SAMPLES[name]})


def test_every_name_is_accounted_for() -> None:
    assert [n for n in LISTED if names.exists(n)] == list(names.account())
    assert [n for n in MORE if not ENTRIES[n].variations] == []
    for account in names.account().values():
        sampled = account.samples.isdigit()
        assert sampled == (account.name not in NO_SAMPLES)
        assert account.gpu.startswith(("kernels", "on the host: ", "no work: ")), account
        assert not sampled or account.forward or account.name in RAISES, account
        tried = set(account.forward + account.refused)
        assert not sampled or tried >= KINDS or account.forward in ("", "u"), account
        assert not sampled or int(account.errors) or account.name in TAKES_ANYTHING, account


KINDS = set("ue01tsx")
"""What every name that takes tensors is tried with."""
RAISES = ("torch.accelerator.set_device_index", "Tensor|Module.cuda")
"""Names that do nothing else where there is no accelerator."""
TAKES_ANYTHING = ("torch.nn.Identity",)


@pytest.mark.parametrize("name", [n for n, e in ENTRIES.items() if e.tests])
def test_the_tests_that_are_named_exist(name: str) -> None:
    for test in ENTRIES[name].tests:
        file, _, function = test.partition("::")
        text = (ROOT / file).read_text()
        assert f"def {function}(" in text
        assert re.search(rf"\b{re.escape(name.rpartition('.')[2])}\b", text), f"{file} does not say {name}"
    assert name in USES or "test_names.py" not in NAMED[name]


def test_the_table_is_up_to_date() -> None:
    if updating():
        TABLE_OF_NAMES.write_text(table())
    assert TABLE_OF_NAMES.read_text() == table(), "run this test with EAGERJIT_UPDATE_TABLES=1"
