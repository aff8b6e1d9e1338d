"""Calls that change Python objects cost little: native code serves them, and nothing is compared that cannot differ."""

from __future__ import annotations

import io
import math
import random
from typing import Any

import pytest

import eagerjit as torch
from eagerjit import nn
from eagerjit.compiled import variants
from eagerjit.compiled.variants import Variant
from eagerjit.guards import comparing, structures
from eagerjit.jit import JitWarning
from eagerjit.nn import functional as F
from eagerjit.runtime import host


def test_calls_with_effects_are_served_by_native_code() -> None:
    class Counter:
        n = 0

    counter, losses, out = Counter(), list[float](), io.StringIO()

    def step(scores: Any, target: Any) -> Any:
        counter.n += 1
        loss = F.cross_entropy(scores, target)
        losses.append(loss.item())
        print(f"loss {loss.item():.2f}", file=out)
        return {"loss": loss}

    jitted = torch.jit(step, fullgraph=True)
    scores, target = torch.zeros(2, 3), torch.tensor([0, 2])
    for _ in range(12):
        jitted(scores, target)
    info = jitted.cache_info()
    served = info.hits
    for _ in range(10):
        jitted(scores, target)
    assert info.hits == served
    assert counter.n == len(losses) == len(out.getvalue().splitlines()) == 22
    with pytest.raises(IndexError):
        jitted(scores, torch.tensor([0, 3]))
    assert counter.n == 23 and len(losses) == 22


def test_a_state_that_a_call_replaces_is_no_reason_to_compare_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    class Keeper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)
            self.last = torch.zeros(3)
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.last = self.inner(x) + self.last
            self.mean = self.mean + self.last
            return self.mean

    model, compared = Keeper(), list[int]()
    before = structures.Structure.holds

    def holds(structure: Any) -> bool:
        compared.append(1)
        return before(structure)

    jitted = torch.jit(lambda x: model(x), fullgraph=True)
    x = torch.ones(3)
    for _ in range(6):
        jitted(x)
    monkeypatch.setattr(structures.Structure, "holds", holds)
    for _ in range(10):
        jitted(x)
    assert not compared
    model.inner.weight = nn.Parameter(torch.zeros(3, 3))
    expected = model.inner.bias + model.last + model.mean
    assert torch.equal(jitted(x), expected) and compared


def test_versions_that_do_not_fit_are_not_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    losses: list[float] = []

    def step(x: Any) -> Any:
        losses.append(x.sum().item())
        return sum(losses) / len(losses), losses[-1]

    jitted = torch.jit(step, fullgraph=True)
    x = torch.ones(3)
    for _ in range(12):
        jitted(x)
    compared: list[int] = []
    before = comparing.contents
    monkeypatch.setattr(comparing, "contents", lambda *args: compared.append(1) or before(*args))  # type: ignore
    for _ in range(10):
        jitted(x)
    assert not compared and len(losses) == 22


def test_calls_that_mostly_fit_no_version_run_eagerly() -> None:
    jitted = torch.jit(lambda flags, x: sum(x * (2 + i if flag else 1) for i, flag in enumerate(flags)))
    x = torch.ones(2)
    ways = [[bool(n >> i & 1) for i in range(7)] for n in range(128)]
    with pytest.warns(JitWarning, match="versions were compiled"):
        for way in ways:
            assert torch.equal(jitted(way, x), jitted(way, x))
    assert jitted.cache_info().compiles < 64


def test_a_number_drawn_is_compared_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    jitted = torch.jit(lambda x: x * random.random(), fullgraph=True)
    x = torch.ones(3)
    jitted(x)
    monkeypatch.setattr(Variant, "_known", lambda *args: pytest.fail("it looks for tensors"))
    random.seed(3)
    found = [jitted(x) for _ in range(5)]
    random.seed(3)
    assert [y.tolist() for y in found] == [(x * random.random()).tolist() for _ in range(5)]


def test_modules_are_compared_table_by_table(monkeypatch: pytest.MonkeyPatch) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
            self.steps, self.names, self.empty = 0, ["a"], list[str]()

        def forward(self, x: Any) -> Any:
            return self.parts(x) * len(self.names)

    model = Model().eval()
    jitted = torch.jit(lambda x: model(x), fullgraph=True)
    x = torch.ones(2, 3)
    for model.steps in range(4):
        jitted(x)
    compiles, compared = jitted.cache_info().compiles, list[int]()
    before = nn.Module._jit_state
    monkeypatch.setattr(nn.Module, "_jit_state", lambda *args: compared.append(1) or before(*args))  # type: ignore
    for model.steps in range(4, 1000, 100):
        jitted(x)
    assert not compared and jitted.cache_info().compiles == compiles == 2
    model.parts[0].bias = nn.Parameter(torch.zeros(3))
    assert torch.equal(jitted(x), model(x)) and compared
    model.names.append("b")
    assert torch.equal(jitted(x), model(x))
    model.parts.append(nn.ReLU())
    assert torch.equal(jitted(x), model(x))


def test_calls_that_renew_items_look_at_keys_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Averages of many parameters: nothing of the values is asked of Python, neither before the call nor after it."""
    values = {f"p{i}": torch.full((2,), float(i)) for i in range(3)}
    shadow = {name: torch.zeros(2) for name in values}

    @torch.jit
    def average() -> None:
        for name, before in shadow.items():
            shadow[name] = before * 0.5 + values[name]

    for _ in range(4):
        average()
    with monkeypatch.context() as context:
        for module, name in ((variants, "read_all"), (comparing, "contents"), (comparing, "_but")):
            context.setattr(module, name, None)
        average()
    assert [v.tolist() for v in shadow.values()] == [[i * 1.9375] * 2 for i in range(3)]
    shadow["p0"] = shadow.pop("p0")
    average()
    assert average.cache_info().eager_calls == 0 and list(shadow) == ["p1", "p2", "p0"]
    assert shadow["p2"].tolist() == [2 * 1.96875] * 2


@pytest.mark.parametrize("function", [math.cos, math.sqrt, math.gcd])
def test_functions_of_numbers_are_given_no_arrays(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [(6, 4), (8, 4), (9, 6)] if function is math.gcd else [(0.25,), (0.5,), (0.75,)]
    x = torch.ones(2)

    @torch.jit
    def scaled(*given: Any) -> Any:
        return x * function(*given)

    for given in numbers[:2] * 2:
        scaled(*given)
    monkeypatch.setattr(host, "_lent", None)
    assert scaled(*numbers[2]).equal(x * function(*numbers[2])) and scaled.cache_info().compiles == 2
