"""Calls that find other Modules and optimizers, or loaded states: one version where they are like those recorded."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit import nn

Event = Callable[[Any, int], Any]


def made() -> Any:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))


def adam(model: Any, **options: Any) -> Any:
    return torch.optim.Adam(model.parameters(), **{"lr": 0.01} | options)


def trained(model: Any, optimizer: Any, x: Any) -> Any:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def world() -> Any:
    torch.manual_seed(0)
    model = made()
    w = SimpleNamespace(model=model, optimizer=adam(model), first=copy.deepcopy(model.state_dict()), kept=[])
    w.begun = copy.deepcopy(w.optimizer.state_dict())
    return w


def other_model(w: Any, i: int) -> None:
    w.kept.append((w.model, w.optimizer))
    w.model = made()
    w.optimizer = adam(w.model)


def other_optimizer(w: Any, i: int) -> None:
    w.optimizer = adam(w.model, lr=0.01 * (i + 1))


def loaded(w: Any, i: int) -> None:
    w.optimizer.load_state_dict(copy.deepcopy(w.optimizer.state_dict()))


def loaded_first(w: Any, i: int) -> None:
    w.model.load_state_dict(w.first)
    w.optimizer.load_state_dict(w.begun)


def assigned(w: Any, i: int) -> None:
    w.model.load_state_dict({name: value.clone() for name, value in w.first.items()}, assign=True)
    w.optimizer = adam(w.model)


def copied(w: Any, i: int) -> None:
    w.model = copy.deepcopy(w.model)
    w.optimizer = adam(w.model)


def assigned_past_optimizer(w: Any, i: int) -> None:
    if i % 3 == 1:
        w.optimizer.load_state_dict(copy.deepcopy(w.begun))
    else:
        w.model.load_state_dict({name: value.clone() for name, value in w.first.items()}, assign=True)


def other_layer(w: Any, i: int) -> None:
    w.model[3] = nn.Linear(6, 1)
    w.optimizer = adam(w.model)


def states_cleared(w: Any, i: int) -> None:
    w.optimizer.state.clear()


EVENTS: list[Event] = [
    other_model, other_optimizer, loaded, loaded_first, assigned, copied, other_layer, states_cleared,
]  # fmt: skip


def in_closure(w: Any, decorate: Any) -> tuple[Any, Any]:
    model, optimizer = w.model, w.optimizer
    step = decorate(lambda x: trained(model, optimizer, x))

    def call(x: Any) -> Any:
        nonlocal model, optimizer
        model, optimizer = w.model, w.optimizer
        return step(x)

    return call, step


def given(w: Any, decorate: Any) -> tuple[Any, Any]:
    step = decorate(trained)
    return lambda x: step(w.model, w.optimizer, x), step


def in_attributes(w: Any, decorate: Any) -> tuple[Any, Any]:
    step = decorate(lambda x: trained(w.model, w.optimizer, x))
    return step, step


def in_dictionary(w: Any, decorate: Any) -> tuple[Any, Any]:
    held: dict[str, Any] = {}
    step = decorate(lambda x: trained(held["model"], held["optimizer"], x))

    def call(x: Any) -> Any:
        held.update(model=w.model, optimizer=w.optimizer)
        return step(x)

    return call, step


def run(way: Any, event: Event, decorate: Any, times: int = 6) -> tuple[list[Any], Any]:
    w = world()
    call, step = way(w, decorate)
    found = []
    for i in range(times):
        found += [call(torch.full((3, 4), 0.1 * (i + 1)).cumsum(0)).tolist() for _ in range(2)]
        torch.manual_seed(i)
        event(w, i)
    kept = [[s[name].tolist() for name in s] for s in w.optimizer.state.values()]
    groups = str(w.optimizer.state_dict()["param_groups"])
    return [found, [p.tolist() for p in w.model.parameters()], kept, groups], step


@pytest.mark.parametrize("way", [in_closure, given, in_attributes, in_dictionary])
@pytest.mark.parametrize("event", EVENTS)
def test_one_version(way: Any, event: Event) -> None:
    plain, _ = run(way, event, lambda f: f)
    compiled, step = run(way, event, torch.jit)
    assert compiled == plain
    assert step.cache_info().compiles == 1 and step.cache_info().eager_calls == 0


def test_many_loads_never_end_in_plain_calls() -> None:
    plain, _ = run(given, loaded, lambda f: f, 40)
    compiled, step = run(given, loaded, torch.jit, 40)
    assert compiled == plain and step.cache_info().eager_calls == 0
    assert len(step.variants) == 1  # what was for the states before is forgotten


def test_versions_of_one_program_are_few() -> None:
    _, step = run(given, other_model, torch.jit, 12)
    assert step.cache_info().compiles == 1 and len(step.variants) <= 4


def test_alternating_models_keep_their_versions() -> None:
    w = world()
    pairs = [(w.model, w.optimizer), (other := made(), adam(other))]
    step = torch.jit(trained)
    for i in range(8):
        step(*pairs[i % 2], torch.ones(3, 4).cumsum(0))
    assert step.cache_info().compiles == 1 and len(step.variants) == 2


# -- what is not alike, and what leads to the old objects -------------------------------------------------------------


def is_special(w: Any) -> Callable[[Any], Any]:
    models = [made() for _ in range(4)]
    w.special, w.models = [models[2]], models
    special = w.special
    return lambda x: trained(w.model, w.optimizer, x) * (2.0 if w.model in special else 1.0)


def next_model(w: Any, i: int) -> None:
    w.model = w.models[i % 4]
    w.optimizer = adam(w.model)


def has_states_in_list(w: Any) -> Callable[[Any], Any]:
    trained(w.model, w.optimizer, torch.ones(3, 4).cumsum(0))
    averages = [w.optimizer.state[w.model[0].weight]["exp_avg"]]
    return lambda x: trained(w.model, w.optimizer, x) + averages[0].sum()


def has_model_in_tuple(w: Any) -> Callable[[Any], Any]:
    first = (w.model, 1)
    return lambda x: trained(w.model, w.optimizer, x) + first[0](x).detach().sum()


def has_model_as_default(w: Any) -> Callable[[Any], Any]:
    def step(x: Any, model: Any = w.model) -> Any:
        return trained(w.model, w.optimizer, x) + model(x).detach().sum()

    return step


def has_partial(w: Any) -> Callable[[Any], Any]:
    first = functools.partial(w.model)
    return lambda x: trained(w.model, w.optimizer, x) + first(x).detach().sum()


def has_method(w: Any) -> Callable[[Any], Any]:
    first = w.model.forward
    return lambda x: trained(w.model, w.optimizer, x) + first(x).detach().sum()


def asks_which(w: Any) -> Callable[[Any], Any]:
    first = w.model
    return lambda x: trained(w.model, w.optimizer, x) * (2.0 if w.model is first else 1.0)


def counts_by_place(w: Any) -> Callable[[Any], Any]:
    counts: dict[int, float] = {}

    def step(x: Any) -> Any:
        counts[id(w.model)] = counts.get(id(w.model), 0.0) + 1.0
        return trained(w.model, w.optimizer, x) * counts[id(w.model)]

    return step


def plain_step(w: Any) -> Callable[[Any], Any]:
    return lambda x: trained(w.model, w.optimizer, x)


def with_hook(w: Any, i: int) -> None:
    other_model(w, i)
    if i % 2:
        w.model[0].weight.register_hook(lambda gradient: gradient * 2.0)


def with_forward_hook(w: Any, i: int) -> None:
    other_model(w, i)
    if i % 2:
        w.model[0].register_forward_hook(lambda module, inputs, output: output * 2.0)


def with_step_hook(w: Any, i: int) -> None:
    def halve(*_: Any) -> None:
        for parameter in w.model.parameters():
            parameter.grad.mul_(0.5)

    other_optimizer(w, i)
    if i % 2:
        w.optimizer.register_step_pre_hook(halve)


def with_momentum(w: Any, i: int) -> None:
    other_model(w, i)
    w.model[1].momentum = 0.1 * (i + 1)


def frozen(w: Any, i: int) -> None:
    other_model(w, i)
    w.model[0].requires_grad_(i % 2 == 0)


def with_decay(w: Any, i: int) -> None:
    w.optimizer = adam(w.model, weight_decay=0.1 * (i % 2), amsgrad=i % 3 == 0)


def tied(w: Any, i: int) -> None:
    w.model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    if i % 2:
        w.model[1].weight = w.model[0].weight
    w.optimizer = adam(w.model)


def steps_apart(w: Any, i: int) -> None:
    loaded(w, i)
    if i == 3:
        kept = w.optimizer.state[w.model[0].weight]
        kept["step"] = kept["step"] + 5.0


def fewer_parameters(w: Any, i: int) -> None:
    loaded(w, i)
    if i == 2:
        w.optimizer.param_groups[0]["params"].pop()


def reads_options(w: Any) -> Callable[[Any], Any]:
    return lambda x: trained(w.model, w.optimizer, x) * w.optimizer.param_groups[0]["lr"] * w.optimizer.defaults["lr"]


def reads_presence(w: Any) -> Callable[[Any], Any]:
    return lambda x: trained(w.model, w.optimizer, x) * (2.0 if hasattr(w.model, "flag") else 1.0)


def with_flag(w: Any, i: int) -> None:
    other_model(w, i)
    if i % 2:
        w.model.flag = True


def reads_mark(w: Any) -> Callable[[Any], Any]:
    def step(x: Any) -> Any:
        loss = trained(w.model, w.optimizer, x)
        return loss + sum(p.detach().sum() * getattr(p, "scale", 0.0) for p in w.model.parameters())

    return step


def with_mark(w: Any, i: int) -> None:
    other_model(w, i)
    if i % 2:
        w.model[0].weight.scale = float(i)


def reads_set(w: Any) -> Callable[[Any], Any]:
    w.model.names = {"a", "b"}
    return lambda x: trained(w.model, w.optimizer, x) * (2.0 if "c" in w.model.names else 1.0)


def with_set(w: Any, i: int) -> None:
    if i % 2:
        w.model.names.add("c")
        return
    other_model(w, i)
    w.model.names = {"a", "b"}


def reads_array(w: Any) -> Callable[[Any], Any]:
    w.model.factors = np.ones(2, np.float32)
    return lambda x: trained(w.model, w.optimizer, x) * float(w.model.factors[1])


def with_array(w: Any, i: int) -> None:
    if i % 2:
        w.model.factors[1] = 3.0
        return
    other_model(w, i)
    w.model.factors = np.ones(2, np.float32)


def holds_groups(w: Any) -> Callable[[Any], Any]:
    groups = w.optimizer.param_groups
    return lambda x: trained(w.model, w.optimizer, x) * len(groups[0]["params"]) * groups[0]["lr"]


def lowers_rate(w: Any) -> Callable[[Any], Any]:
    def step(x: Any) -> Any:
        for group in w.optimizer.param_groups:
            group["lr"] *= 0.9
        return trained(w.model, w.optimizer, x)

    return step


def counts_in_model(w: Any) -> Callable[[Any], Any]:
    w.model.seen = 0

    def step(x: Any) -> Any:
        w.model.seen += 1
        return trained(w.model, w.optimizer, x) * w.model.seen

    return step


def with_count(w: Any, i: int) -> None:
    other_model(w, i)
    w.model.seen = 10 * i


UNLIKE: list[tuple[Any, Event]] = [
    *((has_states_in_list, event) for event in (loaded, loaded_first)),
    *((of, other_model) for of in (has_model_in_tuple, has_model_as_default, has_partial, has_method, asks_which)),
    *((plain_step, event) for event in (with_hook, with_forward_hook, with_step_hook, with_momentum, frozen)),
    *((plain_step, event) for event in (with_decay, tied, steps_apart, fewer_parameters)),
    (plain_step, assigned_past_optimizer),
    *((holds_groups, event) for event in (loaded, other_optimizer)),
    *((lowers_rate, event) for event in (loaded, other_optimizer, other_model)), (counts_in_model, with_count),
    (is_special, next_model), (counts_by_place, other_model), (reads_options, other_optimizer),
    (reads_presence, with_flag), (reads_mark, with_mark), (reads_set, with_set), (reads_array, with_array),
]  # fmt: skip


def as_step(of: Any) -> Any:
    """The way of a program whose step a function makes of its world."""

    def way(w: Any, decorate: Any) -> tuple[Any, Any]:
        step = decorate(of(w))
        return step, step

    return way


@pytest.mark.parametrize(("of", "event"), UNLIKE, ids=lambda f: f.__name__)
def test_what_is_not_alike(of: Any, event: Event) -> None:
    way = as_step(of)
    plain, _ = run(way, event, lambda f: f)
    compiled, _ = run(way, event, torch.jit)
    assert compiled == plain


@pytest.mark.parametrize("of", [lowers_rate, lambda w: lambda x: trained(w.model, w.optimizer, x) * rate_of(w)])
@pytest.mark.parametrize("event", [loaded, other_optimizer, other_model])
def test_rates_are_read_and_written(of: Any, event: Event) -> None:
    way = as_step(of)
    plain, _ = run(way, event, lambda f: f)
    compiled, step = run(way, event, torch.jit)
    assert compiled == plain and step.cache_info().compiles <= 2


def rate_of(w: Any) -> Any:
    return w.optimizer.param_groups[0]["lr"]


def test_states_are_taken_back_where_another_version_is_needed() -> None:
    w = world()
    step = torch.jit(lambda x: trained(w.model, w.optimizer, x))
    step(torch.ones(3, 4).cumsum(0))
    other_model(w, 0)
    w.model[0].register_forward_hook(lambda *_: w.kept.append(len(w.optimizer.state)))
    step(torch.ones(3, 4).cumsum(0))
    assert w.kept[-1] == 0
