"""Optimizers as programs write them: what they keep of parameters they replace, count and change themselves."""

from __future__ import annotations

from collections import defaultdict, deque

import eagerjit as torch
from tests.soundness.framework import attempt, case


class Written(torch.optim.Optimizer):
    """What the optimizers below have in common."""

    def __init__(self, parameters, lr=0.05):
        super().__init__(parameters, {"lr": lr})
        self.begin()

    def begin(self):
        pass

    def before(self):
        pass

    @torch.no_grad()
    def step(self, closure=None):
        self.before()
        for group in self.param_groups:
            for i, p in enumerate(group["params"]):
                if p.grad is not None:
                    self.one(group["lr"], i, p, self.state[p])


class CountingAttribute(Written):
    def begin(self):
        self.count = 0

    def before(self):
        self.count += 1

    def one(self, lr, i, p, state):
        p.add_(p.grad, alpha=-lr / self.count)


class CountingInState(Written):
    def before(self):
        self.state["count"] = self.state.get("count", 0) + 1

    def one(self, lr, i, p, state):
        p.sub_(lr / self.state["count"] * p.grad)


class CountingInGroups(Written):
    """The count is a tensor among a group's options, made in the first step."""

    def before(self):
        for group in self.param_groups:
            if "count" not in group:
                group["count"] = torch.zeros(())
            group["count"] += 1

    def one(self, lr, i, p, state):
        p.sub_(lr / self.param_groups[0]["count"] * p.grad)


class ListOfMomenta(Written):
    def begin(self):
        self.momenta = [torch.zeros_like(p) for group in self.param_groups for p in group["params"]]

    def one(self, lr, i, p, state):
        self.momenta[i] = self.momenta[i] * 0.9 + p.grad
        p.sub_(self.momenta[i] * lr)


class DictionaryOfMomenta(Written):
    def begin(self):
        self.momenta = {}

    def one(self, lr, i, p, state):
        self.momenta[p] = self.momenta.get(p, 0) * 0.9 + p.grad
        p.sub_(self.momenta[p] * lr)


class DefaultOfMomenta(Written):
    def begin(self):
        self.momenta = defaultdict(lambda: torch.zeros(()))

    def one(self, lr, i, p, state):
        self.momenta[p] = self.momenta[p] * 0.9 + p.grad
        p.sub_(self.momenta[p] * lr)


class ReplacedMomenta(Written):
    def one(self, lr, i, p, state):
        if len(state) == 0:
            state["step"], state["momentum"] = 0, torch.zeros_like(p)
        state["step"] += 1
        state["momentum"] = state["momentum"] * 0.9 + p.grad
        p.add_(state["momentum"] / (1 - 0.9 ** state["step"]), alpha=-lr)


class MomentaByDefault(Written):
    def one(self, lr, i, p, state):
        momentum = state.setdefault("momentum", torch.zeros_like(p))
        state["momentum"] = momentum * 0.9 + p.grad
        p.sub_(state["momentum"] * lr)


class PairsOfMoments(Written):
    def one(self, lr, i, p, state):
        first, second = state.get("moments", (torch.zeros_like(p), torch.zeros_like(p)))
        first, second = first * 0.9 + p.grad * 0.1, second * 0.99 + p.grad**2 * 0.01
        state["moments"] = first, second
        p.sub_(lr * first / (second.sqrt() + 1e-8))


class Histories(Written):
    def one(self, lr, i, p, state):
        history = state.setdefault("history", deque(maxlen=2))
        history.append(p.grad.clone())
        p.sub_(sum(history) * lr)


class LookingAhead(Written):
    def one(self, lr, i, p, state):
        if "slow" not in state:
            state["slow"], state["count"] = p.clone(), 0
        p.sub_(p.grad * lr)
        state["count"] += 1
        if state["count"] % 2 == 0:
            state["slow"] = state["slow"] + 0.5 * (p - state["slow"])
            p.copy_(state["slow"])


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))


def trained(jit, model, optimizer):
    @jit
    def step(x):
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def kept(model, optimizer):
    """What there is after a step. A deque is shown as a list."""
    states = [{k: list(v) if isinstance(v, deque) else v for k, v in optimizer.state[p].items()} for p in
              model.parameters()]  # fmt: skip
    return list(model.parameters()), states


def steps(kind, jit, between):
    model = network()
    optimizer = kind(model.parameters())
    step = trained(jit, model, optimizer)
    for i in range(8):
        between(model, optimizer, i)
        yield step(torch.linspace(-1, 1, 15).reshape(5, 3) * (i + 1)), kept(model, optimizer)


def nothing(model, optimizer, i):
    pass


def validating(model, optimizer, i):
    model.eval()
    model.train()


@case(versions=2)
def a_count_that_is_an_attribute(jit):
    yield from steps(CountingAttribute, jit, nothing)


@case(versions=2)
def a_count_that_is_an_attribute_and_validation(jit):
    yield from steps(CountingAttribute, jit, validating)


@case(versions=2)
def a_count_among_the_states(jit):
    yield from steps(CountingInState, jit, validating)


@case(versions=2)
def a_tensor_among_the_options(jit):
    yield from steps(CountingInGroups, jit, nothing)


@case
def a_tensor_among_the_options_that_a_program_changes(jit):
    counts = []

    def changed(model, optimizer, i):
        (group,) = optimizer.param_groups
        counts.append((group.get("count"), sorted(group)))
        if i == 2:
            group["count"] = torch.full((), 5.0)
        if i == 3:
            group["count"].zero_()
        if i == 4:
            group["count"] = 7
        if i == 5:
            del group["count"]
        if i == 6:
            group["lr"] = group["count"]
        if i == 7:
            optimizer.load_state_dict(optimizer.state_dict())

    yield from steps(CountingInGroups, jit, changed)
    yield counts


@case(versions=2)
def a_list_of_momenta(jit):
    yield from steps(ListOfMomenta, jit, validating)


@case(versions=2)
def a_dictionary_of_momenta(jit):
    yield from steps(DictionaryOfMomenta, jit, nothing)


@case(versions=2)
def a_dictionary_of_momenta_and_validation(jit):
    yield from steps(DictionaryOfMomenta, jit, validating)


@case(versions=2)
def a_default_dictionary_of_momenta(jit):
    yield from steps(DefaultOfMomenta, jit, validating)


@case(versions=2)
def momenta_that_are_replaced(jit):
    yield from steps(ReplacedMomenta, jit, nothing)


@case(versions=2)
def momenta_that_are_replaced_and_validation(jit):
    yield from steps(ReplacedMomenta, jit, validating)


@case(versions=2)
def momenta_by_default(jit):
    yield from steps(MomentaByDefault, jit, validating)


@case(versions=2)
def pairs_of_moments(jit):
    yield from steps(PairsOfMoments, jit, validating)


@case(versions=4)
def histories_of_gradients(jit):
    yield from steps(Histories, jit, validating)


@case(versions=4)
def looking_ahead(jit):
    yield from steps(LookingAhead, jit, validating)


def disturbed(model, optimizer, i):
    """What a program may do to states between two steps, of which compiled calls have to take notice."""
    first, second, *_ = model.parameters()
    state, other = optimizer.state[first], optimizer.state[second]
    name = next((n for n, v in state.items() if isinstance(v, torch.Tensor)), None)
    if i == 2 and name is not None:
        state[name] = state[name].double()
    if i == 3 and name is not None:
        state[name] = state[name].float().t().contiguous().t()
    if i == 4 and name is not None:
        optimizer.state[first] = dict(other, **{name: torch.ones_like(first)})
    if i == 5:
        optimizer.state.pop(second)
    if i == 6:
        optimizer.state[second] = optimizer.state[first].copy() if name is None else {name: torch.ones(4)}
    if i == 7:
        optimizer.state.clear()


def exchanged(model, optimizer, i):
    """Momenta of two parameters that become one tensor, a parameter's own, or are exchanged."""
    momenta = getattr(optimizer, "momenta", None)
    if momenta is None or i < 2:
        return
    (a, b) = (0, 1) if isinstance(momenta, list) else list(model.parameters())[:2]
    if i == 2:
        momenta[a], momenta[b] = momenta[b], momenta[a].sum(1)
    if i == 3:
        momenta[a] = momenta[b] = torch.full((), 0.5)
    if i == 4:
        momenta[b] = list(model.parameters())[1]
    if i == 5 and isinstance(momenta, dict):
        momenta.pop(a)
    if i == 6:
        momenta[a] = 2.0


@case
def states_that_a_program_changes_between_steps(jit):
    for kind in (ReplacedMomenta, MomentaByDefault, PairsOfMoments, LookingAhead, CountingInState):
        yield from steps(kind, jit, disturbed)


@case
def momenta_that_a_program_exchanges_between_steps(jit):
    for kind in (ListOfMomenta, DictionaryOfMomenta, DefaultOfMomenta):
        yield from steps(kind, jit, exchanged)


@case
def states_that_are_loaded_between_steps(jit):
    def loading(model, optimizer, i):
        if i in (3, 5):
            optimizer.load_state_dict(optimizer.state_dict())

    for kind in (ReplacedMomenta, PairsOfMoments, MomentaByDefault):
        yield from steps(kind, jit, loading)


@case
def one_state_for_two_parameters(jit):
    def sharing(model, optimizer, i):
        if i == 3:
            first, second, *_ = model.parameters()
            optimizer.state[second] = optimizer.state[first]
            optimizer.state[first]["momentum"] = torch.ones(())

    yield from steps(ReplacedMomenta, jit, sharing)


@case
def items_by_tensors(jit):
    a, b, c = (torch.full((2,), value) for value in (1.0, 2.0, 3.0))
    scales = {a: torch.ones(2), "b": 2.0, b: 4.0}
    f = jit(lambda x, key: (scales.get(key, 0.5) * x, scales[a], a in scales, c in scales, len(scales)))
    for i in range(6):
        for key in (a, b, c):
            yield attempt(f, torch.ones(2) * i, key)
        if i == 1:
            scales[c] = scales.pop(b)
        if i == 2:
            scales[a] = torch.ones(2) * 3
        if i == 3:
            del scales[a]
