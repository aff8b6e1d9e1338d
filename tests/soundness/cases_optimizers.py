"""Every optimizer, stepped inside and outside of compiled functions, with a learning rate that changes."""

from __future__ import annotations

import copy
import operator

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import case
from tests.soundness.tools import network

optim = torch.optim


def steps(jit, make):
    """A few training steps; the learning rate and then another setting change on the way."""
    model = network()
    optimizer = make(model.parameters())

    @jit
    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for i in range(4):
        step(torch.ones(2, 3) * (i + 1))
        yield list(model.parameters())
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * 0.5
            if i == 2 and "weight_decay" in group:
                group["weight_decay"] = 0.125
    yield optimizer.state_dict()


@case(versions=2)
def sgd_with_nesterov_momentum(jit):
    yield from steps(jit, lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01))


@case(versions=3)
def momentum_that_becomes_zero(jit):
    """With and without momentum are two updates, though it is a number like any other."""
    model = network()
    optimizer = optim.SGD(model.parameters(), 0.1, momentum=0.9, dampening=0.5)

    @jit
    def step(x):
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()

    for momentum, dampening in ((0.9, 0.5), (0.9, 0.5), (0.0, 0.5), (0.0, 0.25), (0.5, 0.0), (0.5, 0.0), (0.9, 0.0)):
        optimizer.param_groups[0].update(momentum=momentum, dampening=dampening)
        step(torch.ones(2, 3))
        yield list(model.parameters())
    yield optimizer.state_dict()


def _steps_at_given_rates(jit, make, **options):
    """Steps whose options are arguments, and set before the first step makes the states."""
    model = network()
    optimizer = make(model.parameters())

    @jit
    def step(x, lr, **options):
        for group in optimizer.param_groups:
            group.update(lr=lr, **options)
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()

    for lr in (0.1, 0.05, 0.025, 1):
        step(torch.ones(2, 3), lr, **options)
        yield list(model.parameters()), optimizer.state_dict()
    optimizer.state.clear()
    step(torch.ones(2, 3), 0.75, **options)
    yield optimizer.state_dict()


@case(versions=3)
def rates_given_before_the_first_step_of_rprop(jit):
    yield from _steps_at_given_rates(jit, optim.Rprop)


@case(versions=3)
def rates_given_before_the_first_step_of_asgd(jit):
    yield from _steps_at_given_rates(jit, optim.ASGD)


@case(versions=4)
def momentum_given_before_the_first_step(jit):
    yield from _steps_at_given_rates(jit, lambda p: optim.SGD(p, 0.5), momentum=0.9)


@case(versions=3)
def rates_of_tensors_before_the_first_step(jit):
    model = network()
    optimizer = optim.Rprop(model.parameters())

    @jit
    def step(x):
        optimizer.param_groups[0]["lr"] = x.sum().item()
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()

    for scale in (0.125, 0.25, 0.5):
        step(torch.ones(2, 3) * scale)
        yield list(model.parameters()), optimizer.state_dict()


@case(versions=2)
def adam_with_amsgrad(jit):
    yield from steps(jit, lambda p: optim.Adam(p, 0.1, amsgrad=True))


@case(versions=2)
def adamw(jit):
    yield from steps(jit, lambda p: optim.AdamW(p, 0.1))


@case(versions=2)
def rmsprop_centered(jit):
    yield from steps(jit, lambda p: optim.RMSprop(p, 0.1, momentum=0.5, centered=True))


@case(versions=2)
def adagrad_with_a_decaying_rate(jit):
    yield from steps(jit, lambda p: optim.Adagrad(p, 0.1, lr_decay=0.1))


@case(versions=2)
def adadelta(jit):
    yield from steps(jit, lambda p: optim.Adadelta(p, 0.5))


@case(versions=2)
def adamax(jit):
    yield from steps(jit, lambda p: optim.Adamax(p, 0.1))


@case(versions=2)
def nadam(jit):
    yield from steps(jit, lambda p: optim.NAdam(p, 0.1))


@case(versions=2)
def radam(jit):
    yield from steps(jit, lambda p: optim.RAdam(p, 0.1))


@case(versions=2)
def rprop(jit):
    yield from steps(jit, lambda p: optim.Rprop(p, 0.1))


@case(versions=2)
def asgd(jit):
    yield from steps(jit, lambda p: optim.ASGD(p, 0.1))


@case
def states_replaced_from_the_first_step(jit):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @jit
    def step(x):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
        for p in model.parameters():
            optimizer.state[p]["momentum_buffer"] = optimizer.state[p]["momentum_buffer"] * 0.5

    for i in range(4):
        step(torch.ones(2, 3) * i)
        yield list(model.parameters()), [optimizer.state[p] for p in model.parameters()]


@case
def a_second_step_without_some_gradients(jit):
    """A path length or gradient penalty after the loss's own step: biases have no gradient in it."""
    for make in (torch.optim.Adam, torch.optim.NAdam, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.5)):
        model = network()
        optimizer = make(model.parameters())

        @jit
        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            sum(p.square().sum() for p in model.parameters() if p.dim() > 1).backward()
            optimizer.step()

        for i in range(4):
            step(torch.ones(2, 3) * i)
            yield list(model.parameters()), optimizer.state_dict()


READS_OF_STATES = {
    "its length": lambda optimizer, w: len(optimizer.state),
    "a parameter": lambda optimizer, w: w in optimizer.state,
    "an item": lambda optimizer, w: optimizer.state.get(w) is None,
    "what is saved": lambda optimizer, w: len(optimizer.state_dict()["state"]),
}


def states_read_before_a_step(jit, read, hooked=False):
    """The first step makes states: what code reads before it is another thing in the first call than in later ones."""
    w = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([w])
    seen = []
    if hooked:
        optimizer.register_step_pre_hook(lambda *_: seen.append(read(optimizer, w)))

    def step(x):
        optimizer.zero_grad()
        if not hooked:
            seen.append(read(optimizer, w))
        (w * x).sum().backward()
        optimizer.step()

    step = jit(step)
    for i in range(4):
        step(torch.ones(3) + i)
    yield seen


@case
def a_length_of_states_read_before_a_step(jit):
    yield from states_read_before_a_step(jit, READS_OF_STATES["its length"])


@case
def a_parameter_looked_for_before_a_step(jit):
    yield from states_read_before_a_step(jit, READS_OF_STATES["a parameter"])


@case
def a_state_looked_for_before_a_step(jit):
    yield from states_read_before_a_step(jit, READS_OF_STATES["an item"])


@case
def states_saved_before_a_step(jit):
    yield from states_read_before_a_step(jit, READS_OF_STATES["what is saved"])


@case
def a_length_of_states_read_by_a_hook_before_a_step(jit):
    yield from states_read_before_a_step(jit, READS_OF_STATES["its length"], True)


def _steps_with_shared_memory(jit, make, share):
    """Training steps before and after `share(states)` lets states lie in the same memory."""
    model = network()
    optimizer = make(model.parameters())

    @jit
    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for i in range(6):
        if i == 3:
            share([optimizer.state[p] for p in model.parameters()])
        yield step(torch.ones(2, 3) * (i + 1))
        yield [(p, p._version) for p in model.parameters()], optimizer.state_dict()


@case(versions=4)
def two_states_of_a_parameter_become_one_tensor(jit):
    def share(states):
        for kept in states:
            kept["exp_avg_sq"] = kept["exp_avg"]

    yield from _steps_with_shared_memory(jit, lambda p: optim.Adam(p, 0.1), share)
    yield from _steps_with_shared_memory(jit, lambda p: optim.AdamW(p, 0.1, amsgrad=True), share)


@case(versions=4)
def states_of_two_parameters_become_one_tensor(jit):
    def share(states):
        states[2]["momentum_buffer"] = states[1]["momentum_buffer"].view(1, 4)

    for make in (lambda p: optim.SGD(p, 0.1, momentum=0.9), lambda p: optim.RMSprop(p, 0.01, momentum=0.5)):
        yield from _steps_with_shared_memory(jit, make, share)


@case(versions=2)
def states_become_overlapping_parts_of_one_tensor(jit):
    def share(states):
        size = states[0]["square_avg"].numel()
        shared = torch.full((size + 2,), 0.25)
        for name, start in (("square_avg", 0), ("acc_delta", 2)):
            states[0][name] = shared[start : start + size].view(states[0][name].shape)

    yield from _steps_with_shared_memory(jit, lambda p: optim.Adadelta(p, 0.5), share)


@case
def options_of_optimizers_that_are_read_all_at_once(jit):
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([p], lr=0.5, momentum=0.9)
    group = optimizer.param_groups[0]

    def rate(lr, **_):
        return lr

    for read in (
        lambda: {**group}["lr"], lambda: dict(group)["lr"], lambda: ({"lr": 1.0} | group)["lr"],
        lambda: copy.copy(group)["lr"], lambda: rate(**group), lambda: operator.itemgetter("lr")(group),
        lambda: group == {"lr": 0.25}, lambda: optimizer.state_dict()["param_groups"][0]["lr"], lambda: repr(optimizer),
    ):  # fmt: skip
        f = jit(lambda x, read=read: (x * 2, read()))
        for group["lr"] in (0.5, 0.25, 0.25, 0.125):
            yield f(torch.ones(2))


@case
def parameters_of_a_group_that_are_no_list_any_more(jit):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.5)
    group = optimizer.param_groups[0]
    f = jit(lambda x: x * optimizer.param_groups[0]["lr"])
    for value in (group["params"], 0.5, torch.ones(2), group["params"]):
        group["params"] = value
        yield f(torch.ones(2)), f(torch.ones(3))
