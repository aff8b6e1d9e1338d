"""How much Python runs in calls that are known: what changes objects is one function written for the call."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from python_calls import python_in

import eagerjit as torch
from eagerjit import nn


class Kept:
    def __init__(self) -> None:
        self.count, self.total, self.last, self.done = 0, 0.0, None, False
        self.log, self.recent, self.named, self.seen = list[Any](), deque[Any](maxlen=3), dict[str, Any](), {"n": 0}


def counts(kept: Any, x: Any) -> Any:
    kept.count += 1
    kept.total += 0.5
    return x + 1


def assigns(kept: Any, x: Any) -> None:
    kept.last, kept.done = x, True


def appends(kept: Any, x: Any) -> Any:
    kept.log.append(x + kept.count)
    kept.recent.append(x)
    return x


def renews(kept: Any, x: Any) -> Any:
    kept.named["loss"] = x.sum()
    kept.seen["n"] += 2
    return x


@pytest.mark.parametrize("change", [counts, assigns, appends, renews])
def test_changes_of_objects_are_one_function(change: Any) -> None:
    kept, alike = Kept(), Kept()
    jitted = torch.jit(lambda x: change(kept, x), fullgraph=True)
    for i in range(12):
        x = torch.full((3,), float(i))
        jitted(x)
        change(alike, x)
    names = python_in(lambda: jitted(x))
    change(alike, x)
    assert names == ["made"]
    assert repr(vars(kept)) == repr(vars(alike))
    assert kept.named.get("loss") is None or len(kept.named) == 1


def test_a_class_that_assigns_by_itself_later_is_noticed() -> None:
    kept = Kept()
    jitted = torch.jit(lambda x: assigns(kept, x), fullgraph=True)
    for i in range(4):
        jitted(torch.full((2,), float(i)))
    assert kept.last is not None and kept.last.tolist() == [3.0, 3.0]

    def assign(self: Any, name: str, value: Any) -> None:
        object.__setattr__(self, name, value if name == "done" else [value])

    Kept.__setattr__ = assign  # type: ignore[assignment]
    try:
        jitted(torch.ones(2))
        assert type(kept.last) is list and kept.last[0].tolist() == [1.0, 1.0]
    finally:
        del Kept.__setattr__


def test_changes_come_after_all_values_and_in_their_order() -> None:
    log = list[Any]()
    kept = Kept()

    def step(x: Any) -> Any:
        log.append(kept.count)
        kept.count = kept.count + 1
        log.extend([kept.count, (x, [x * 2])])
        kept.named[str(kept.done)] = log[-1][1]
        log.insert(0, "first")
        return kept.named

    def once() -> Any:
        log.clear()
        kept.__init__()  # type: ignore[misc]
        jitted(torch.ones(1)), jitted(torch.ones(1))
        return repr((log, vars(kept)))

    jitted = step
    plain = once()
    jitted = torch.jit(step)
    assert [once() for _ in range(4)] == [plain] * 4


def test_modules_that_count_and_keep_what_they_saw() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count, self.last = 0, None
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.count += 1
            self.last = x
            self.mean = self.mean * 0.5 + x
            return self.mean + self.count

    layer, alike = Layer(), Layer()
    jitted = torch.jit(layer)
    for i in range(8):
        x = torch.full((3,), float(i))
        assert jitted(x).tolist() == alike(x).tolist()
    jitted(x)
    names = python_in(lambda: jitted(x))
    alike(x), alike(x)
    assert not {"_slow", "_jit_state", "<genexpr>", "own_method"} & {*names}
    assert layer.last is x
    assert (layer.count, layer.mean.tolist()) == (10, alike.mean.tolist()) == (alike.count, alike.mean.tolist())


def test_a_list_among_the_arguments_is_told_apart_by_few_steps() -> None:
    def keep(x: Any, kept: Any) -> None:
        kept.append(x + 1)

    jitted, log = torch.jit(keep, fullgraph=True), list[Any]()
    for _ in range(12):
        jitted(torch.zeros(2), log)
    x = torch.zeros(2)
    names = python_in(lambda: jitted(x, log))
    assert "parts_in" not in names and "keys_of" not in names and len(names) < 42
    assert len(log) == 13


def test_lists_that_are_the_same_are_told_apart_as_before() -> None:
    def keep(x: Any, first: Any, second: Any) -> int:
        first.append(x + 1)
        second.append(x + 2)
        return len(first)

    jitted = torch.jit(keep)
    for same in (False, False, False, True, False, True):
        first = list[Any]()
        second = first if same else list[Any]()
        assert jitted(torch.zeros(1), first, second) == 1 + same
        assert [t.item() for t in first] == [1.0, 2.0][: 1 + same]
