"""Numbers of optimizers and parameters of lazy modules that a compiled function sets itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import eagerjit as torch
from eagerjit.jit import JitWarning, jit


def one(model: Any, optimizer: Any, x: Any) -> Any:
    optimizer.zero_grad()
    loss = model(x).pow(2).sum()
    loss.backward()
    optimizer.step()
    return loss.detach()


def everywhere(optimizer: Any, key: str, value: Any) -> None:
    for group in optimizer.param_groups:
        group[key] = value


def twice(model: Any, optimizer: Any, x: Any, i: int) -> Any:
    everywhere(optimizer, "lr", 0.5)
    loss = one(model, optimizer, x)
    everywhere(optimizer, "lr", 0.01)
    return loss + one(model, optimizer, x)


def between(model: Any, optimizer: Any, x: Any, i: int) -> Any:
    loss = one(model, optimizer, x)
    optimizer.param_groups[0]["lr"] *= 0.5
    return loss + one(model, optimizer, x)


def other_betas(model: Any, optimizer: Any, x: Any, i: int) -> Any:
    loss = one(model, optimizer, x)
    everywhere(optimizer, "betas", (0.5, 0.9))
    loss = loss + one(model, optimizer, x)
    everywhere(optimizer, "betas", (0.8, 0.95))
    return loss


def setting(key: str, value: Callable[[int], Any]) -> Callable[..., Any]:
    def body(model: Any, optimizer: Any, x: Any, i: int) -> Any:
        everywhere(optimizer, key, value(i))
        return one(model, optimizer, x)

    return body


BODIES: dict[str, Callable[..., Any]] = {
    "of an argument": setting("lr", lambda i: 0.1 * 0.9**i),
    "a literal": setting("lr", lambda i: 0.5),
    "an integer": setting("lr", lambda i: i),
    "betas": setting("betas", lambda i: (0.5, 0.9)),
    "weight decay": setting("weight_decay", lambda i: 0.1),
    "twice": twice,
    "between two steps": between,
    "betas between two steps": other_betas,
}


@pytest.mark.parametrize("optimizer", ["Adam", "SGD"])
@pytest.mark.parametrize("name", BODIES)
def test_options_set_in_the_function(name: str, optimizer: str) -> None:
    if optimizer == "SGD" and "betas" in name:
        return
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        made = getattr(torch.optim, optimizer)(model.parameters(), lr=0.1)

        def step(x: Any, i: int, model: Any = model, made: Any = made) -> Any:
            return BODIES[name](model, made, x, i)

        call = jit(step) if compiled else step
        seen = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", JitWarning)
            for i in range(4):
                loss = call(torch.ones(3, 4), i)
                options = {k: v for k, v in made.param_groups[0].items() if k != "params"}
                seen.append((loss.item(), options, [p.tolist() for p in model.parameters()]))
        found.append(seen)
    assert found[0] == found[1]


@pytest.mark.parametrize("dropout_first", [False, True])
def test_lazy_modules_are_initialised_once(dropout_first: bool) -> None:
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        between = [torch.nn.Dropout(0.5)] if dropout_first else []
        model = torch.nn.Sequential(torch.nn.LazyLinear(5), *between, torch.nn.LazyLinear(2))

        def total(x: Any, model: Any = model) -> Any:
            return model(x).sum().detach()

        call = jit(total) if compiled else total
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", JitWarning)
            losses = [call(torch.ones(3, 4) * i).item() for i in (1, 2, 3)]
        found.append((losses, [p.tolist() for p in model.parameters()]))
    assert found[0] == found[1]
