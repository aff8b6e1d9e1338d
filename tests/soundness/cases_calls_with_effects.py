"""Calls that change objects and are served without Python between them: what they find, change, raise and give."""

from __future__ import annotations

import collections
import dataclasses
import io
import random

import eagerjit as torch
from eagerjit import nn
from eagerjit.nn import functional as F
from tests.soundness.framework import attempt, case


class Keeper(nn.Module):
    """Keeps what its last call computed, in an attribute and in a buffer."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.full((3,), 2.0))
        self.inner = nn.Linear(3, 3)
        self.last = torch.zeros(3)
        self.steps = 0
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        y = self.inner(x) * self.scale + self.last
        self.last = y.detach().mean(0)
        self.steps += 1
        self.mean = self.mean * 0.5 + self.last * 0.5
        return y


@case(versions=6)
def a_state_that_a_module_keeps_and_changes_around_it(jit):
    model = Keeper()
    f = jit(lambda x: model(x).sum())
    for i in range(16):
        f(torch.full((2 + i % 2, 3), float(i)))
        if i == 5:
            model.scale = nn.Parameter(torch.full((3,), -1.0))
        if i == 8:
            model.inner.register_forward_hook(lambda module, args, result: result * 2)
        if i == 11:
            model.last = torch.ones(3)
        yield model.last, model.steps, model.mean
    model.eval()
    f(torch.ones(2, 3))
    yield model.last, model.steps


@case
def two_functions_that_change_one_module(jit):
    model = Keeper()
    f, g = jit(lambda x: model(x)), jit(lambda x: model.last * x + model.steps)
    for i in range(8):
        f(torch.full((2, 3), float(i)))
        g(torch.ones(3))
        if i == 4:
            model.inner = nn.Linear(3, 3, bias=False)
    yield model.state_dict()


@case(versions=3)
def what_a_module_keeps_becomes_a_part_of_it(jit):
    model = Keeper()
    model.extra = 1.0

    def step(x):
        y = model(x) * (model.extra if isinstance(model.extra, float) else model.extra(x))
        model.extra = 3.0
        return y

    step = jit(step)
    for i in range(6):
        step(torch.full((2, 3), 1.0 + i))
        if i == 3:
            del model.extra
            model.extra = nn.Linear(3, 3)
    yield model.extra, len(list(model.modules()))


@case
def effects_before_a_check_that_fails(jit):
    seen, out = [], io.StringIO()

    def step(scores, target):
        seen.append(len(seen))
        print("step", len(seen), file=out)
        loss = F.cross_entropy(scores, target)
        seen.append(loss.item())
        return loss

    step = jit(step)
    for i in range(8):
        attempt(step, torch.randn(2, 3), torch.tensor([i % 4, 0]))
        yield list(seen), out.getvalue()


Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Record:
    values: list
    pair: Pair
    name: str


@case(versions=1)
def results_of_many_forms(jit):
    def f(x, n):
        y = x * n
        row = [y, x]
        row.append(row)
        table = collections.defaultdict(list, {"a": [y.sum()], 1: row})
        queue = collections.deque([n, row, (), []], maxlen=6)
        record = Record([row, row[0]], Pair(y, (n, ())), f"{n:.1f}")
        others = {"x": x, None: (y,)}, frozenset([1, 2]), {3, 1}, collections.Counter("aab"), Pair(row, [])
        return record, table, queue, *others

    f = jit(f)
    for n in (0.5, 1.5, -0.0):
        record, table, queue, *_ = f(torch.ones(2), n)
        yield record.values[0] is table[1], table[1][2] is table[1], queue[1] is table[1], table["new"]


@case(versions=4)
def arguments_in_containers_of_the_same_form(jit):
    f = jit(lambda batch, options=None: batch["x"].sum() * batch["pair"].first + (0 if options is None else options[0]))
    x = torch.ones(3)
    for i in range(5):
        f({"x": x * i, "pair": Pair(i, None)})
        f({"x": x * i, "pair": Pair(0.5 * i, None)})
    f({"x": x, "pair": Pair(x, None)})
    f({"x": x, "pair": Pair(x, x)})


@case
def arguments_that_look_alike(jit):
    def weighted(given):
        if isinstance(given, dict):
            return given["a"] - given["b"]
        return sum(x.sum() * (i + 1) for i, x in enumerate(given))

    f = jit(weighted)
    x, y = torch.ones(3), torch.full((3,), 2.0)
    for given in ([x, y], [y, y], (x, y), [x, y, x], {"a": x, "b": y}, {"b": x, "a": y}, Pair(x, y), [x, y]):
        f(given)
        f(given)
    f([torch.ones(3, dtype=torch.float64), y])
    f([x, y.requires_grad_()])


@case(versions=8)
def a_version_for_each_length_and_one_for_all(jit):
    losses = []

    def step(x):
        losses.append(x.sum().item())
        return sum(losses) / len(losses)

    step = jit(step)
    for i in range(12):
        step(torch.full((2,), float(i)))
        if i == 7:
            losses.clear()
        if i == 9:
            losses.append(1)
    yield losses


@case
def numbers_drawn_of_changing_kinds(jit):
    f = jit(lambda x: x * random.choice([1, 2.0, True, -3]))
    for _ in range(24):
        f(torch.ones(2))


@case
def draws_between_other_questions(jit):
    items = iter([0.5, 1, torch.ones(2), 2.0, 3, 4.5, torch.zeros(2), 1, 0.25])

    def f(x):
        if random.random() < 0.5:
            return x * next(items) + random.randint(0, 3)
        return x + random.gauss(0.0, 1.0)

    f = jit(f)
    for _ in range(12):
        f(torch.ones(2))
    yield list(items)
