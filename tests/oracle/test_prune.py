"""Pruning against PyTorch: masks, names, gradients, and what is refused."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit


def network(t: Any) -> Any:
    made = t.nn.Sequential(t.nn.Linear(4, 6), t.nn.ReLU(), t.nn.Linear(6, 3))
    generator = np.random.default_rng(0)
    with t.no_grad():
        for parameter in made.parameters():
            parameter.copy_(t.tensor(generator.normal(size=tuple(parameter.shape)).astype(np.float32)))
    return made


def every_other(prune: Any) -> Any:
    class EveryOther(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t: Any, default_mask: Any) -> Any:
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    return EveryOther


def several(prune: Any, m: Any, t: Any) -> None:
    prune.l1_unstructured(m[0], "weight", 0.5)
    prune.ln_structured(m[0], "weight", amount=2, n=2, dim=0)
    prune.l1_unstructured(m[0], "weight", 3)


def over_all(prune: Any, m: Any, t: Any) -> None:
    parameters = [(m[0], "weight"), (m[2], "weight")]
    prune.global_unstructured(parameters, pruning_method=prune.L1Unstructured, amount=0.4)


def removed(prune: Any, m: Any, t: Any) -> None:
    several(prune, m, t)
    prune.remove(m[0], "weight")


WAYS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "least": lambda prune, m, t: prune.l1_unstructured(m[0], "weight", 0.5),
    "by scores": lambda prune, m, t: prune.l1_unstructured(m[2], "bias", 1, importance_scores=t.tensor([3.0, 1, 2])),
    "rows": lambda prune, m, t: prune.ln_structured(m[0], "weight", 0.5, n=1, dim=0),
    "columns": lambda prune, m, t: prune.ln_structured(m[0], "weight", 1, n=2, dim=-1),
    "mask": lambda prune, m, t: prune.custom_from_mask(m[2], "bias", t.tensor([1.0, 0, 1])),
    "nothing": lambda prune, m, t: prune.identity(m[0], "bias"),
    "several": several,
    "over all": over_all,
    "removed": removed,
    "own method": lambda prune, m, t: every_other(prune).apply(m[2], "bias"),
    "share too large": lambda prune, m, t: prune.l1_unstructured(m[2], "weight", 1.5),
    "too many": lambda prune, m, t: prune.l1_unstructured(m[2], "weight", 1000),
    "no number": lambda prune, m, t: prune.l1_unstructured(m[2], "weight", "a"),
    "a vector's rows": lambda prune, m, t: prune.ln_structured(m[2], "bias", 1, n=2, dim=0),
    "no such dimension": lambda prune, m, t: prune.ln_structured(m[2], "weight", 1, n=2, dim=5),
    "no such parameter": lambda prune, m, t: prune.l1_unstructured(m[2], "nope", 1),
    "not pruned": lambda prune, m, t: prune.remove(m[2], "weight"),
}


def outcome(t: Any, way: str) -> Any:
    prune = importlib.import_module(f"{t.__name__}.nn.utils.prune")
    model = network(t)
    try:
        WAYS[way](prune, model, t)
    except Exception as error:
        return type(error)
    y = model(t.tensor(np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)))
    y.sum().backward()
    gradients = {name: np.round(p.grad.numpy(), 4).tolist() for name, p in model.named_parameters()}
    state = {name: np.round(value.numpy(), 5).tolist() for name, value in model.state_dict().items()}
    return np.round(y.detach().numpy(), 4).tolist(), gradients, state, prune.is_pruned(model)


@pytest.mark.parametrize("way", WAYS)
def test_pruned_as_in_torch(way: str) -> None:
    assert outcome(eagerjit, way) == outcome(torch, way)


def test_random_ways_prune_as_many() -> None:
    from eagerjit.nn.utils import prune

    model = network(eagerjit)
    prune.random_unstructured(model[0], "weight", 0.25)
    assert int(model[0].weight_mask.sum()) == 18
    prune.random_structured(model[2], "weight", 2, dim=1)
    assert sorted(model[2].weight_mask.sum(0).tolist()) == [0.0, 0.0, 3.0, 3.0, 3.0, 3.0]


def test_a_pruned_network_trains_compiled() -> None:
    from eagerjit.nn.utils import prune

    losses = []
    for compiled in (False, True):
        model = network(eagerjit)
        prune.l1_unstructured(model[0], "weight", 0.5)
        optimizer = eagerjit.optim.SGD(model.parameters(), 0.1)

        def step(x: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = model(x).pow(2).sum()
            loss.backward()
            optimizer.step()
            return loss

        run = eagerjit.jit(step, fullgraph=True) if compiled else step
        losses.append([float(run(eagerjit.ones(2, 4) / 10)) for _ in range(4)])
        assert int((model[0].weight == 0).sum()) == 12
    assert losses[0] == losses[1]
