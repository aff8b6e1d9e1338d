"""Programs as people write them: optimizers, containers, numbers, errors of kernels, what is left to the plain call."""

from __future__ import annotations

import collections
import contextlib
import types
import weakref

import eagerjit as torch
import eagerjit.nn as nn
import eagerjit.nn.functional as F
from eagerjit import optim
from tests.soundness.framework import FELL_BACK, case
from tests.soundness.tools import error_of, network


def ones(*sizes):
    return torch.ones(*sizes)


def ramp(*sizes):
    n = torch.Size(sizes).numel()
    return (torch.arange(float(n)) / n - 0.3).reshape(*sizes)


class Signs(optim.Optimizer):
    """Steps along the sign of a running mean, and counts them."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["mean"], state["steps"] = torch.zeros_like(p), 0
                state["steps"] += 1
                p.add_((state["mean"] * 0.9 + p.grad * 0.1).sign(), alpha=-group["lr"])
                state["mean"].mul_(0.99).add_(p.grad, alpha=0.01)


@case(versions=2)
def an_optimizer_with_a_state_of_its_own(jit):
    model = network()
    optimizer = Signs(model.parameters(), 0.01)

    @jit
    def step(x):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(4):
        step(ramp(4, 3))
        optimizer.param_groups[0]["lr"] *= 0.9
        yield [p.detach() for p in model.parameters()], list(optimizer.state.values())


class Momentum(optim.Optimizer):
    """Keeps a buffer that every step replaces."""

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state.setdefault(p, {})
                known = state.get("buffer")
                state["buffer"] = p.grad.clone() if known is None else known * 0.9 + p.grad
                p -= group["lr"] * state["buffer"]


@case
def an_optimizer_that_replaces_its_buffers(jit):
    weight = torch.ones(2, requires_grad=True)
    optimizer = Momentum([weight], {"lr": 0.1})

    @jit
    def step(x):
        optimizer.zero_grad()
        (weight * x).pow(2).sum().backward()
        optimizer.step()

    for _ in range(3):
        step(ramp(2))
        yield weight.detach(), optimizer.state[weight]
    optimizer.state.clear()
    step(ramp(2))
    yield weight.detach(), optimizer.state[weight]


# -- containers --------------------------------------------------------------------------------------------------------


@case
def the_least_recent_is_dropped(jit):
    cache = collections.OrderedDict()

    @jit
    def f(x, key):
        if key in cache:
            cache.move_to_end(key)
        else:
            cache[key] = x * 2
            if len(cache) > 2:
                cache.popitem(last=False)
        return cache[key]

    for key in "abcabbca":
        yield f(ones(1), key), list(cache)


@case
def the_order_of_an_ordered_dictionary(jit):
    table = collections.OrderedDict(a=1.0, b=2.0)
    f = jit(lambda x: x * next(iter(table.values())))
    yield f(ones(2))
    table.move_to_end("a")
    yield f(ones(2))


@case
def dictionaries_behind_other_objects(jit):
    base, over = {"k": 1.0}, {}
    chain, proxy, values = collections.ChainMap(over, base), types.MappingProxyType(base), base.values()
    f = jit(lambda x: x * chain["k"] + proxy["k"] + next(iter(values)))
    yield f(ones(2))
    over["k"] = 3.0
    yield f(ones(2))
    base["k"] = 5.0
    yield f(ones(2))


@case
def dictionaries_and_lists_of_users(jit):
    table, row = collections.UserDict(k=2.0), collections.UserList([1.0])
    f = jit(lambda x: x * table["k"] + row[0] + len(row))
    yield f(ones(2))
    table["k"] = 3.0
    yield f(ones(2))
    row.insert(0, 4.0)
    yield f(ones(2))


@case(outcome=FELL_BACK)
def objects_held_weakly_in_a_dictionary(jit):
    first, second = nn.Linear(2, 1), nn.Linear(2, 1)
    table = weakref.WeakValueDictionary(model=first)
    f = jit(lambda x: table["model"](x))
    yield f(ones(2))
    table["model"] = second
    yield f(ones(2))


@case
def lists_in_a_tuple(jit):
    pair = [1.0], ([2.0], 3.0)
    f = jit(lambda x: x * pair[0][0] + pair[1][0][0])
    yield f(ones(2))
    pair[1][0][0] = 9.0
    yield f(ones(2))


# -- what is left to the plain call ------------------------------------------------------------------------------------


@case
def a_callback_given_to_the_standard_library(jit):
    log = []

    @jit
    def f(x):
        with contextlib.ExitStack() as stack:
            stack.callback(log.append, "end")
            return x * 2

    for _ in range(2):
        yield f(ones(2)), log


@case(outcome=FELL_BACK)
def an_object_that_tells_of_its_end(jit):
    log = []

    class Resource:
        def __del__(self):
            log.append("end")

    @jit
    def f(x):
        resource = Resource()
        y = x * 2
        del resource
        return y

    for _ in range(2):
        yield f(ones(1)), list(log)


# -- numbers -----------------------------------------------------------------------------------------------------------


@case(versions=2)
def numbers_in_a_list_as_an_index(jit):
    @jit
    def f(x, i, j):
        x[[i, j]] = x[[j, i]]
        return x[[i, j]] * 2

    for i, j in ((0, 1), (1, 2), (2, 0), (1, 1)):
        yield f(ramp(3, 2), i, j)


# -- errors of kernels -------------------------------------------------------------------------------------------------


@case
def effects_before_an_index_out_of_range(jit):
    log, counts, buffer = [], types.SimpleNamespace(begun=0, ended=0), torch.zeros(3)

    @jit
    def f(x, rows, columns):
        counts.begun += 1
        log.append(counts.begun)
        buffer.add_(1.0)
        y = x[rows]
        log.append("rows")
        buffer.mul_(2.0)
        y = y[columns]
        counts.ended += 1
        buffer.mul_(3.0)
        return y

    for rows, columns in (([0, 1], [1]), ([0, 5], [1]), ([0, 1], [7]), ([2, 2], [0]), ([-9], [0])):
        rows, columns = torch.tensor(rows), torch.tensor(columns)
        yield error_of(lambda r=rows, c=columns: f(ramp(3), r, c)), log, counts, buffer


@case
def lines_printed_before_an_index_out_of_range(jit):
    @jit
    def f(x, index):
        print("begun", x.shape[0])
        y = x.gather(0, index)
        print("done")
        return y

    for index in ([0, 1], [7, 1], [2, 1]):
        yield error_of(lambda i=index: f(ramp(3), torch.tensor(i)))


@case
def an_index_out_of_range_caught(jit):
    calls = torch.zeros(())

    @jit
    def f(x, index):
        try:
            return x[index]
        except IndexError:
            return torch.zeros(1)

    @jit
    def g(x, index):
        calls.add_(1.0)
        with contextlib.suppress(IndexError):
            x = x[index]
        return x * calls

    for index in ([0], [9], [1]):
        yield f(ramp(3), torch.tensor(index)), g(ramp(3), torch.tensor(index)), calls


@case
def gradients_kept_before_an_index_out_of_range(jit):
    weight = torch.ones(3, requires_grad=True)

    @jit
    def f(x, index):
        (weight * x).sum().backward()
        return weight.detach()[index]

    for index in ([0], [7], [1]):
        yield error_of(lambda i=index: f(ramp(3), torch.tensor(i))), weight.grad


@case
def a_matrix_that_has_no_factor(jit):
    counts = types.SimpleNamespace(begun=0, ended=0)

    @jit
    def f(a):
        counts.begun += 1
        y = torch.linalg.cholesky(a)
        counts.ended += 1
        return y

    for scale in (1.0, -1.0, 2.0):
        yield error_of(lambda s=scale: f(torch.eye(2) * s)), counts


@case(versions=2)
def a_rate_of_dropout_that_grows(jit):
    f = jit(lambda x, p: F.dropout(x, p))
    for p in (0.1, 0.2, 0.5, 0.0, 0.3):
        yield f(ones(4), p)
