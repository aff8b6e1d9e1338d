"""`cuda.make_graphed_callables`: calls that launch graphs, with the numbers of plain calls."""

from __future__ import annotations

from typing import Any

import pytest
from machines import Machine

import eagerjit as ej
from eagerjit import nn

pytestmark = pytest.mark.usefixtures("tensors")


def inputs(seed: int, requires_grad: bool = True) -> Any:
    return ej.randn(4, 6, generator=ej.Generator().manual_seed(seed)).cuda().requires_grad_(requires_grad)


def launches(target: Machine) -> int:
    return sum(name == "cuGraphLaunch" for name, *_ in target.library.calls) if target.library is not None else 99


def test_functions(target: Machine) -> None:
    def plain(x: Any, pair: Any) -> Any:
        return {"sum": x * pair[0], "rest": (pair[1] + 1).detach()}

    x, y, z = inputs(0), inputs(1), inputs(2, False)
    graphed = ej.cuda.make_graphed_callables(plain, (x, (y, z)))
    before, held = launches(target), []
    for seed in range(3, 7):
        given = inputs(seed), (inputs(seed + 1), z)
        results = []
        for call in (graphed, plain):
            found = call(*given)
            found["sum"].square().sum().backward()
            results.append([found["sum"].tolist(), found["rest"].tolist(), given[0].grad.tolist()])
            given[0].grad = given[1][0].grad = None
        assert results[0] == results[1] and not found["rest"].requires_grad
        held.append((found["sum"], results[0][0]))
    assert launches(target) >= before + 6
    assert all(x.tolist() == values for x, values in held)


def test_modules(target: Machine) -> None:
    losses = []
    for graphs in (False, True):
        ej.manual_seed(0)
        parts = tuple(nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.1)).cuda() for _ in range(2))
        if graphs:
            given = parts
            parts = ej.cuda.make_graphed_callables(parts, ((inputs(0),), (inputs(1),)), num_warmup_iters=2)
            assert parts[0] is given[0] and parts[1] is given[1]
        parameters = [p for part in parts for p in part.parameters()]
        optimizer = ej.optim.SGD(parameters, lr=0.1)
        ej.manual_seed(1)
        before = launches(target)
        for seed in range(4):
            optimizer.zero_grad()
            loss = parts[1](parts[0](inputs(seed))).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert not graphs or launches(target) > before + 8
        losses.append(parts[0].eval()(inputs(9)).sum().item())
    assert losses[:5] == losses[5:]


def test_unused_inputs() -> None:
    x, y = inputs(0), inputs(1)
    with pytest.raises(RuntimeError, match="not have been used"):
        ej.cuda.make_graphed_callables(lambda x, y: x * 2, (x, y))
    graphed = ej.cuda.make_graphed_callables(lambda x, y: x * 2, (x, y), allow_unused_input=True)
    graphed(x, y).sum().backward()
    assert y.grad is None and x.grad.tolist() == [[2.0] * 6] * 4


def test_what_is_refused() -> None:
    module = nn.Linear(6, 6).cuda()
    with pytest.raises(AssertionError, match="must contain only Tensors"):
        ej.cuda.make_graphed_callables(module, (inputs(0), 3))
    with module.register_forward_hook(lambda *given: None), pytest.raises(AssertionError, match="must not have hooks"):
        ej.cuda.make_graphed_callables(module, (inputs(0),))
    module.register_buffer("scale", ej.ones(1, requires_grad=True))
    with pytest.raises(AssertionError, match="only parameters may be trainable"):
        ej.cuda.make_graphed_callables(module, (inputs(0),))
