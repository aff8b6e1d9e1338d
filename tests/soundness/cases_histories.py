"""Lists that grow from call to call, of which code asks the length, the last items, a sum or the best so far."""

from __future__ import annotations

import types
from collections import deque

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case


def ones(*shape):
    return torch.ones(*shape)


@case(versions=4)
def a_list_that_grows_and_is_read(jit):
    losses = []

    @jit
    def f(x):
        losses.append(x.sum().item())
        return x * (sum(losses) / len(losses))

    for i in range(14):
        yield f(ones(2) * (0.1 + i)), losses
    losses[0] = -50.0
    yield f(ones(2)), losses
    losses[3] = 7
    yield f(ones(2)), losses
    losses.insert(2, float("nan"))
    yield f(ones(2)), losses


@case(versions=6)
def sums_of_whole_and_other_numbers(jit):
    counts = []

    @jit
    def f(x):
        counts.append(x.shape[0])
        return sum(counts), x * len(counts)

    for i in range(8):
        yield f(ones(2 + i)), counts
    counts.append(2**62)
    yield f(ones(2)), counts
    counts.append(2**62)
    yield f(ones(2)), counts
    counts.append(True)
    yield attempt(f, ones(2)), counts


@case(versions=6)
def a_step_from_the_last_one(jit):
    history = [0.0]

    @jit
    def f(x):
        value = x.sum().item()
        change = value - history[-1]
        history.append(value)
        return x * change, history[-1], history[-2]

    for i in range(8):
        yield f(ones(2) * i * i), history
    history[-1] = 100.0
    yield f(ones(2)), history
    history.append(3)
    yield f(ones(2)), history
    history.append("text")
    yield attempt(f, ones(2)), history
    del history[:]
    yield attempt(f, ones(2)), history


@case(versions=6)
def the_mean_of_the_last_few(jit):
    history = []

    @jit
    def f(x):
        history.append(x.sum().item())
        last = history[-3:]
        return x * (sum(last) / len(last)), last

    for i in range(10):
        yield f(ones(2) * i), history
    del history[2:]
    for i in range(3):
        yield f(ones(2) * i), history


@case(versions=8)
def the_best_value_so_far(jit):
    values = []

    @jit
    def f(x):
        value = x.sin().sum().item()
        best = not values or value > max(values)
        values.append(value)
        return (x * 2 if best else x), best, min(values)

    for i in range(14):
        yield f(ones(2) * (i % 5)), values
    values.clear()
    yield f(ones(2)), values


@case(versions=8)
def a_trainer_that_reports(jit):
    class Trainer:
        def __init__(self):
            torch.manual_seed(0)
            self.model = torch.nn.Linear(2, 1)
            self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
            self.losses, self.logs = [], {"loss": [], "norm": []}

        def step(self, x):
            self.optimizer.zero_grad()
            loss = (self.model(x) ** 2).mean()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())
            self.logs["loss"].append(loss.item())
            self.logs["norm"].append(self.model.weight.grad.norm().item())
            if len(self.losses) % 3 == 0:
                mean = sum(self.losses[-3:]) / 3
                print(f"{len(self.losses)}: {self.losses[-1]:.3f}, {mean:.3f}", self.logs["norm"][-2:])
            return loss, len(self.logs["loss"])

    trainer = Trainer()
    step = jit(trainer.step)
    for i in range(14):
        yield step(ones(2 + i, 2) * 0.1), trainer.losses, trainer.logs
    trainer.logs["norm"] = list(trainer.logs["norm"])
    trainer.losses = []
    for _ in range(4):
        yield step(ones(2, 2)), trainer.losses, trainer.logs


@case(versions=6)
def a_buffer_that_is_emptied(jit):
    buffer, means = [], []

    @jit
    def f(x):
        buffer.append(x.sum().item())
        if len(buffer) >= 3:
            means.append(sum(buffer) / len(buffer))
            buffer.clear()
            buffer.extend([0.5])
        return x * len(means), len(buffer)

    for i in range(14):
        yield f(ones(2) * i), buffer, means


@case(versions=4)
def states_kept_in_a_list(jit):
    states = [ones(2)]

    @jit
    def f(x):
        states.append((states[-1] * 0.5 + x).detach())
        return states[-1] + states[-2]

    for i in range(8):
        yield f(ones(2) * i), states
    states.append(states[-1])
    yield f(ones(2)), states
    states.append(torch.ones(2, requires_grad=True))
    yield attempt(f, ones(2)), states


@case
def a_list_that_grows_under_two_names(jit):
    first = []
    holder = types.SimpleNamespace(second=first)

    @jit
    def f(x):
        first.append(1.0)
        return x * len(holder.second) + sum(first)

    for i in range(8):
        if i == 6:
            holder.second = [5.0]
        yield f(ones(2)), first, holder.second


@case
def lists_that_grow_are_arguments_too(jit):
    kept, others = [], [1.0]

    @jit
    def f(x, given):
        kept.append(x.sum().item())
        given.append(2.0)
        return x * len(kept) + len(given)

    for i in range(6):
        yield f(ones(2) * i, others), kept, others
    for i in range(3):
        yield f(ones(2) * i, kept), kept


@case(outcome=FELL_BACK)
def a_list_that_grows_is_looked_through(jit):
    losses = []

    @jit
    def f(x):
        losses.append(x.sum().item())
        return x * len([v for v in losses if v > 1])

    for i in range(14):
        yield f(ones(2) * i), losses


@case
def the_length_of_a_list_that_others_fill(jit):
    losses, weight = [], ones(2).requires_grad_()
    f = jit(lambda x: x * weight * len(losses) if losses else x * weight)
    for i in range(8):
        result = f(ones(2) * i)
        (gradient,) = torch.autograd.grad(result.sum(), weight, create_graph=True)
        yield result, gradient, torch.autograd.grad((result * result).sum(), weight)
        losses.append("a" if i % 2 else 1)
    losses.clear()
    yield f(ones(2))


@case
def second_gradients_of_what_was_last(jit):
    scales, weight = [1.0, 2.0], ones(2).requires_grad_()

    @jit
    def f(x):
        scales.append(scales[-1] + 0.5)
        return (x * weight * scales[-1]) ** 3 + len(scales)

    for i in range(6):
        result = f(ones(2) * i)
        (gradient,) = torch.autograd.grad(result.sum(), weight, create_graph=True)
        scales.append(float(i))
        yield result, gradient, torch.autograd.grad((gradient * gradient).sum(), weight), scales


@case(outcome=FELL_BACK)
def a_length_asked_by_another_len(jit):
    losses = []

    def len(values):
        return 10 if values == [0.0, 1.0, 2.0, 3.0, 4.0] else 1

    @jit
    def f(x):
        losses.append(x.sum().item() / 2)
        return x * len(losses)

    for i in range(14):
        yield f(ones(2) * i), losses


@case(versions=5)
def the_last_item_of_lists_that_others_fill(jit):
    histories = [[1.0, 2.0], [1.0, 2.0]]

    def step(x):
        for history in histories:
            x = x * sum(history) + history[-1]
        return x

    f = jit(step)
    f(ones(2))
    histories[0].append(3.0)
    f(ones(2))
    for value in (5.0, 7.0):
        histories[0][-1] = value
        f(ones(2))
    histories[0].append(1.0)
    f(ones(2))
    yield histories


@case(versions=5)
def a_tensor_of_a_deque(jit):
    window, rewards = deque([1.0, 2.0], maxlen=3), [0.1, 0.2, 0.3]

    @jit
    def f(x):
        returns, total = deque(), 0.0
        for reward in rewards[::-1]:
            total = reward + 0.9 * total
            returns.appendleft(total)
        return x * torch.tensor(returns), torch.tensor(window), torch.as_tensor(window) * x.sum()

    for i in range(7):
        yield f(torch.ones(3))
        rewards[i % 3] += 0.5
        if i == 3:
            window[0] = 5.0
        if i == 4:
            window.append(7.0)


def views_of_leaves(jit, make):
    """The leaf is none of the results: their gradients reach it, and writes to its views are refused."""

    def f(x):
        leaf = make(x)
        return leaf.T, leaf.unflatten(0, (-1, 1))[1:]

    f = jit(f)
    for n in (3, 4):
        x = torch.arange(4.0 * n).reshape(n, 4)
        rows, parts = f(x)
        (rows.sum() + parts.square().sum()).backward()
        leaf = rows._base
        yield type(leaf).__name__, leaf.grad, parts._base is leaf, attempt(rows.add_, 1), attempt(parts.mul_, 2)
        with torch.no_grad():
            rows.mul_(2)
        yield x, leaf, parts


@case(outcome=FELL_BACK)
def views_of_a_leaf_made_inside(jit):
    yield from views_of_leaves(jit, lambda x: (x + 1).requires_grad_())


@case(outcome=FELL_BACK)
def views_of_a_leaf_in_the_memory_of_an_argument(jit):
    yield from views_of_leaves(jit, lambda x: x.detach().requires_grad_())


@case(outcome=FELL_BACK)
def views_of_a_parameter_made_inside(jit):
    yield from views_of_leaves(jit, lambda x: torch.nn.Parameter(x * 2))
