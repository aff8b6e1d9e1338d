"""Objects of the program's classes that are made anew for each call: taken apart, unless code tells them apart."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import operator
import types
from typing import Any

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, case


class Batch:
    def __init__(self, inputs, targets, kind="train"):
        self.inputs, self.targets, self.kind = inputs, targets, kind

    def scaled(self, factor):
        return Batch(self.inputs * factor, self.targets, self.kind)

    @property
    def difference(self):
        return self.inputs - self.targets

    @functools.cached_property
    def doubled(self):
        return self.inputs * 2


@dataclasses.dataclass(eq=False)
class Record:
    inputs: Any
    targets: Any


def batches(kind=Batch, sizes=(3, 4, 3, 5)):
    """Objects of a class with other tensors each."""
    return [kind(torch.arange(float(n)), torch.ones(n) * i) for i, n in enumerate(sizes)]


SEVERAL = (0, 1, 2, 1, 3, 0)


@case(versions=2)
def methods_and_properties_of_objects(jit):
    f = jit(lambda batch: batch.scaled(2.0).difference.sum())
    for batch in batches():
        yield f(batch)


@case(versions=2)
def gradients_of_their_tensors(jit):
    f = jit(lambda batch: (batch.inputs * batch.difference).sum())
    for batch in batches():
        batch.inputs.requires_grad_()
        f(batch).backward()
        yield batch.inputs.grad


@case(versions=2)
def a_module_that_keeps_its_batch(jit):
    class Keeping(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.last = nn.Parameter(torch.tensor(2.0)), None

        def forward(self, batch):
            self.last = batch
            return batch.inputs * self.scale

    module = Keeping()
    f = jit(module)
    for batch in batches():
        yield f(batch), module.last is batch


@case(versions=3)
def objects_within_objects(jit):
    class Outer:
        def __init__(self, first, second, third):
            self.first, self.others, self.by_name = first, [second], {"third": third}

    f = jit(lambda outer: outer.first.inputs + outer.others[0].inputs * outer.by_name["third"].targets)
    for n in (2, 3, 4, 5):
        yield f(Outer(*batches(sizes=(n, n, n))))


@case(versions=4)
def methods_of_several_objects(jit):
    class World:
        def __init__(self, state):
            self.state, self.steps, self.log = state, 0, []

        @jit
        def step(self, action):
            self.state = self.state + action
            self.steps += 1
            self.log.append(self.steps)
            if self.steps > 3:
                self.state, self.steps = self.state * 0, 0
            return self.state.sum()

    worlds = [World(torch.ones(n)) for n in (2, 3, 2, 4)]
    for i in (0, 1, 2, 3, 0, 0, 1, 0, 0, 0, 2):
        yield worlds[i].step(0.5), [(w.state, w.steps, list(w.log)) for w in worlds]


@case(versions=3)
def trainers(jit):
    class Trainer:
        def __init__(self):
            self.model, self.steps = nn.Linear(2, 2), 0
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

        @jit
        def fit(self, x):
            self.optimizer.zero_grad()
            loss = self.model(x).pow(2).mean()
            loss.backward()
            self.optimizer.step()
            self.steps += 1
            return loss

    torch.manual_seed(0)
    all_of_them = [Trainer() for _ in range(3)]
    for i in (0, 1, 2, 0, 1, 2):
        yield all_of_them[i].fit(torch.ones(1, 2)), all_of_them[i].steps, all_of_them[i].model.weight


@case(versions=4)
def namespaces(jit):
    for kind in (types.SimpleNamespace, argparse.Namespace):
        f = jit(lambda x, options: x * options.rate + options.count)
        for count in (2, 3, 4, 5):
            yield f(torch.ones(2), kind(rate=count / 4, count=count))


@case(versions=2)
def a_class_derived_from_user_dict(jit):
    class Encoding(collections.UserDict):
        def __getattr__(self, name):
            return self.data[name]

        def to(self, dtype):
            self.data = {name: value.to(dtype) for name, value in self.data.items()}
            return self

    f = jit(lambda encoding: encoding.to(torch.float64)["ids"] * 2 + encoding.mask)
    for n in (2, 3, 4):
        encoding = Encoding(ids=torch.arange(n), mask=torch.ones(n))
        yield f(encoding), encoding.mask.dtype


class Named(dict):
    """A dictionary whose items are attributes too, as many programs have one for options and batches."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self[name] = value


class Output(collections.OrderedDict):
    """A dictionary whose items lie in its attributes as well, as outputs of models do."""

    def __init__(self, **items):
        super().__init__()
        for name, value in items.items():
            setattr(self, name, value)

    def __setattr__(self, name, value):
        super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __getitem__(self, key):
        return super().__getitem__(key) if isinstance(key, str) else tuple(self.values())[key]


class Stack(list):
    def top(self):
        return self[-1]


@case(versions=6)
def classes_derived_from_dictionaries_and_lists(jit):
    read = jit(lambda batch: batch["x"] * 2 + batch.y)
    for kind in (Named, Output):
        for n in (2, 3, 4, 5):
            yield read(kind(x=torch.ones(n), y=torch.ones(n) * n))
        read = jit(lambda batch: batch["x"] * 2 + batch.y)
    top = jit(lambda stack: stack.top() * len(stack) + stack[0])
    for n in (2, 3, 4, 5):
        yield top(Stack([torch.ones(n), torch.ones(n) * 2]))


@case(versions=6)
def items_and_attributes_that_are_changed(jit):
    def f(batch, count):
        batch.x = batch.x + count
        batch["new"] = batch["x"].sum()
        batch.parts.append(count)
        return batch

    for kind in (Named, Output):
        compiled = jit(f)
        for n in (2, 3, 4, 5):
            given = kind(x=torch.ones(n), parts=[n])
            yield compiled(given, n) is given, dict(given), vars(given)

    def g(stack):
        stack.append(stack[0] + 1)
        stack.seen = len(stack)
        return stack.pop(0)

    compiled = jit(g)
    for n in (2, 3, 4, 5):
        stack = Stack([torch.ones(n)])
        yield compiled(stack), list(stack), vars(stack)


@case
def a_derived_dictionary_that_is_reached_besides(jit):
    for kind in (Named, Output):
        held = [kind(x=torch.ones(n)) for n in (2, 2, 2)]
        registry = types.SimpleNamespace(current=held[2])

        def f(batch, registry=registry):
            registry.current["x"] = registry.current["x"] + 1
            return batch["x"] * 2, batch is registry.current

        compiled = jit(f)
        for i in (0, 1, 2, 0, 2, 1):
            yield compiled(held[i])


@case(outcome=FELL_BACK)
def addresses_of_containers(jit):
    for kind in (list, dict, Named, Stack):
        told = []

        def f(given, told=told):
            told.append(id(given))
            return torch.ones(2) * len(given)

        compiled = jit(f)
        for _ in range(4):
            given = kind()
            yield compiled(given), told[-1] == id(given)


@case(versions=2)
def attributes_assigned_and_deleted(jit):
    def f(batch, count):
        batch.inputs += count
        batch.kind = batch.kind + "!"
        batch.total = batch.inputs.sum()
        del batch.targets
        return batch

    compiled = jit(f)
    for count, batch in enumerate(batches()):
        yield compiled(batch, count) is batch, vars(batch)


@case(versions=2)
def setters_of_their_own(jit):
    class Doubling:
        def __init__(self, x):
            object.__setattr__(self, "x", x)

        def __setattr__(self, name, value):
            object.__setattr__(self, name, value * 2)

    def f(given):
        given.y = given.x + 1
        return given.y

    compiled = jit(f)
    for n in (2, 3, 4):
        given = Doubling(torch.ones(n))
        yield compiled(given), vars(given)


@case
def an_object_in_two_places(jit):
    def f(a, b):
        a.inputs = a.inputs + 1
        return b.inputs * 2

    for kind in (Batch, Record):
        compiled, given = jit(f), batches(kind)
        for i, j in ((0, 1), (1, 2), (2, 2), (1, 1), (3, 0), (0, 0)):
            yield compiled(given[i], given[j]), [b.inputs for b in given]


@case
def an_object_that_is_reached_besides(jit):
    for kind in (Batch, Record):
        given, registry = batches(kind), types.SimpleNamespace()
        registry.current = given[3]

        def f(batch, registry=registry):
            registry.current.inputs = registry.current.inputs + 1
            return batch.inputs * 2

        def g(batch, registry=registry):
            batch.inputs = batch.inputs + 1
            return registry.current.inputs * 2

        for function in (f, g):
            compiled = jit(function)
            for i in (0, 1, 3, 2, 3):
                yield compiled(given[i]), given[i].inputs


@case
def identity_of_what_is_given(jit):
    for kind in (Batch, Record):
        given, kept = batches(kind), types.SimpleNamespace(last=None)
        compiled = jit(lambda batch, kept=kept: batch.inputs * 10 if batch is kept.last else batch.inputs + 1)
        for i, j in ((0, 3), (0, 1), (0, 0), (3, 0), (3, 3)):
            kept.last = given[i]
            yield compiled(given[j])


@case
def equality_of_what_is_given(jit):
    for kind in (Batch, Record):
        compiled, given = jit(lambda a, b: a.inputs * 2 if a == b else a.inputs * 3), batches(kind)
        for i, j in ((0, 1), (1, 2), (2, 2), (1, 1), (3, 0), (0, 0)):
            yield compiled(given[i], given[j])


@case
def objects_as_keys(jit):
    def cached(batch, known):
        if batch in known:
            return known[batch]
        known[batch] = batch.inputs * 2
        return known[batch]

    def counted(batch, known):
        known.setdefault(batch, []).append(1)
        return batch.inputs * len(known[batch])

    for kind in (Batch, Record):
        for function in (cached, counted):
            given, known = batches(kind), {}
            compiled = jit(lambda batch, function=function, known=known: function(batch, known))
            for i in SEVERAL:
                yield compiled(given[i]), [given.index(k) for k in known]


@case
def objects_in_sets_and_lists(jit):
    def in_set(batch, met, _):
        if batch in met:
            return batch.inputs * 100
        met.add(batch)
        return batch.inputs

    def in_list(batch, _, listed):
        if batch in listed:
            return batch.inputs * listed.index(batch)
        listed.append(batch)
        return batch.inputs

    for kind in (Batch, Record):
        for function in (in_set, in_list):
            given, met, listed = batches(kind), set(), []
            compiled = jit(lambda b, function=function, met=met, listed=listed: function(b, met, listed))
            for i in SEVERAL:
                yield compiled(given[i]), sorted(given.index(b) for b in (*met, *listed))


def told_in(jit, tell, kind=Batch):
    """Whether what code tells of the objects that it is given is what is told of them outside."""
    given, told = batches(kind), []

    def f(batch):
        told.append(tell(batch))
        return batch.inputs

    compiled = jit(f)
    for i in SEVERAL:
        yield compiled(given[i]), told[-1] == tell(given[i])


@case
def addresses_of_objects(jit):
    for kind in (Batch, Record):
        for tell in (id, hash, lambda batch: batch.__hash__(), lambda batch: {batch: 1}.popitem()[0] is batch):
            yield from told_in(jit, tell, kind)


@case
def texts_that_name_an_address(jit):
    for tell in (repr, str, lambda batch: f"{batch}", lambda batch: "%s" % batch):  # noqa: UP031
        yield from told_in(jit, tell)


@case
def cached_properties_and_functions(jit):
    kept, given = functools.lru_cache(lambda batch: batch.inputs * 3), batches()
    compiled = jit(lambda batch: kept(batch) + 1)
    for i in SEVERAL:
        yield compiled(given[i]), kept.cache_info()
    compiled, given = jit(lambda batch: batch.doubled + batch.doubled), batches()
    for i in SEVERAL:
        yield compiled(given[i]), ["doubled" in vars(b) for b in given]


@case
def objects_that_hold_themselves(jit):
    class Linked:
        def __init__(self, x):
            self.x, self.me = x, self

    f = jit(lambda linked: linked.me.x * 2)
    for n in (2, 3, 4):
        yield f(Linked(torch.ones(n)))


@case
def objects_with_slots_or_finalizers(jit):
    class Slotted:
        __slots__ = ("x",)

    class Finalized:
        gone = 0

        def __del__(self):
            Finalized.gone += 1

    for kind in (Slotted, Finalized):
        f = jit(lambda given: given.x * 2)
        alive = []
        for n in (2, 3, 4):
            given = kind()
            given.x = torch.ones(n)
            alive.append(given)
            yield f(given), Finalized.gone


@case
def a_ring_of_objects(jit):
    for kind in (Batch, Record):
        given = batches(kind, sizes=(2, 2, 2, 2))
        for i, batch in enumerate(given):
            batch.next, batch.number = given[(i + 1) % 4], i

        def f(batch):
            batch.next.inputs = batch.next.inputs + batch.inputs
            return batch.next.next.inputs * batch.number

        compiled = jit(f)
        for i in SEVERAL:
            yield compiled(given[i]), [b.inputs for b in given]


@case(outcome=FELL_BACK)
def an_object_that_is_changed_through_its_dictionary(jit):
    def f(batch):
        batch.__dict__["inputs"] = batch.inputs + 1
        return batch.inputs * 2

    compiled, given = jit(f), batches()
    for i in SEVERAL:
        yield compiled(given[i]), given[i].inputs


@case
def objects_of_which_some_hold_more(jit):
    f = jit(lambda batch: batch.inputs * (2 if hasattr(batch, "weight") else 3))
    for i, batch in enumerate(batches()):
        if i % 2:
            batch.weight = torch.ones(())
        yield f(batch)


@case
def an_error_in_one_call(jit):
    f = jit(lambda batch: batch.inputs @ batch.targets)
    for i, batch in enumerate(batches(sizes=(3, 4, 5, 6, 7))):
        if i == 2:
            batch.targets = torch.ones(1, 1)
        try:
            yield f(batch)
        except RuntimeError as error:
            yield type(error)


class Counted(Batch):
    """Equal to others, though its text is its own."""

    def __eq__(self, other):
        return isinstance(other, Counted) and self.kind == other.kind

    def __hash__(self):
        return hash(self.kind)


class Called(Batch):
    def __str__(self):
        return self.kind


Holder = collections.namedtuple("Holder", "held")


def asked_of(jit, question, kind=Batch, among=lambda batch: batch):
    """Answers to a question about what is given and about one of those that are."""
    given = batches(kind)
    known = among(given[1])
    compiled = jit(lambda batch: batch.inputs * (2 if question(batch, known) else 3))
    for i in (2, 3, 2, 1, 3, 0, 1):
        yield compiled(given[i])


@case
def equality_of_containers_that_hold_what_is_given(jit):
    for among in (
        lambda batch: {"a": batch}, lambda batch: {"a": [batch]}, lambda batch: [[batch]], Holder,
        lambda batch: types.SimpleNamespace(held=batch), lambda batch: batch.scaled,
        lambda batch: collections.deque([((batch,), 1)]),
    ):  # fmt: skip
        yield from asked_of(jit, lambda batch, known, among=among: among(batch) == known, among=among)
        yield from asked_of(jit, lambda batch, known, among=among: known != among(batch), among=among)
        yield from asked_of(jit, lambda batch, known, among=among: among(batch) in [1, known], among=among)
        yield from asked_of(jit, lambda batch, known, among=among: known in [among(batch)], among=among)
        yield from asked_of(jit, lambda batch, known, among=among: operator.eq(among(batch), known), among=among)
        yield from asked_of(jit, lambda batch, known, among=among: [known].count(among(batch)), among=among)


@case
def keys_that_hold_what_is_given(jit):
    for among in (Holder, lambda batch: ((batch,), 1), lambda batch: batch.scaled):
        known = lambda batch, among=among: {among(batch): 1}  # noqa: E731
        yield from asked_of(jit, lambda batch, known, among=among: among(batch) in known, among=known)
        yield from asked_of(jit, lambda batch, known, among=among: known.get(among(batch)), among=known)
        yield from asked_of(jit, lambda batch, known, among=among: {among(batch), *known} == set(known), among=known)
    yield from asked_of(jit, lambda batch, known: len(list(iter([known, batch].pop, batch))))


@case
def texts_of_what_holds_what_is_given(jit):
    for tell in (
        lambda batch: f"{[batch]}", lambda batch: f"{ {'k': [batch]} }", lambda batch: str([[batch]]),
        lambda batch: repr(Holder(batch)), lambda batch: f"{batch.scaled}", lambda batch: f"{batch!r:>99}",
        lambda batch: "{k}".format(k=batch), lambda batch: "%(k)s" % {"k": batch}, lambda batch: f"{batch!a}",  # noqa: UP031, UP032
        lambda batch: "{k}".format_map({"k": batch}), lambda batch: "{!r}".format([batch]),  # noqa: UP032
        lambda batch: f"{types.SimpleNamespace(k=batch)}",
    ):  # fmt: skip
        yield from asked_of(jit, lambda batch, known, tell=tell: tell(batch) == known, among=tell)


@case
def addresses_of_objects_with_methods_of_their_own(jit):
    for ask in (
        id, repr, object.__repr__, object.__hash__, lambda batch: f"{batch}", lambda batch: f"{[batch]}",
        lambda batch: super(Counted, batch).__hash__(), lambda batch: super(Counted, batch).__repr__(),
    ):  # fmt: skip
        yield from asked_of(jit, lambda batch, known, ask=ask: ask(batch) == known, Counted, ask)
    yield from asked_of(jit, lambda batch, known: operator.is_(batch, known), Counted)
    yield from asked_of(jit, lambda batch, known: object.__eq__(batch, known) is True, Counted)
    for ask in (
        lambda batch: f"{batch!r}", lambda batch: "%r" % batch, lambda batch: "{!r}".format(batch),  # noqa: UP031, UP032
        lambda batch: f"{batch=}", lambda batch: str([batch]), object.__str__,
    ):  # fmt: skip
        yield from asked_of(jit, lambda batch, known, ask=ask: ask(batch) == known, Called, ask)


@case(versions=2)
def texts_that_name_no_address(jit):
    f = jit(lambda batch: (batch.inputs * 2, f"{batch} {batch!s}", str(batch), "%s" % batch, "{}".format(batch)))  # noqa: UP031, UP032
    for batch in batches(Called):
        yield f(batch)


@case(versions=2)
def objects_beside_what_is_no_object(jit):
    def f(batch, options):
        kept = {"a": batch}
        found = kept.get("a", batch), kept.pop("b", batch), kept.setdefault("c", batch), Holder(1)._replace(held=batch)
        told = batch == None, batch != "auto", "auto" == batch, batch in (None, "auto"), [batch] == [], batch in options  # noqa: E711
        return functools.reduce(lambda total, one: total + one.inputs, found[:3], 0), found[3].held.inputs, told

    compiled = jit(f)
    for batch in batches():
        yield compiled(batch, ("auto", None))


@case
def tables_of_attributes_that_live_on(jit):
    for kind in (Batch, Record):
        given, kept = batches(kind), types.SimpleNamespace()

        def stored(batch, kept=kept):
            kept.table = batch.__dict__
            return batch.inputs * 2

        compiled, storing = jit(lambda batch: (batch.__dict__, batch.inputs * 2)), jit(stored)
        for i in SEVERAL:
            table, _ = compiled(given[i])
            table["targets"] = table["targets"] + 1
            yield table is vars(given[i]), given[i].targets
            yield storing(given[i]), kept.table is vars(given[i])


@dataclasses.dataclass
class Partial:
    """Its instances may hold more than the fields, or fewer, in any order."""

    x: Any
    y: Any
    z: float = 5.0


@case
def fields_in_another_order(jit):
    f = jit(lambda given: (given.x * 10 + given.y + given.z, given))
    for i in range(8):
        given = Partial.__new__(Partial)
        for name, value in (("x", 1.0), ("y", 2.0), ("extra", 3.0))[:: 1 if i % 2 else -1]:
            if name != "extra" or i < 4:
                setattr(given, name, torch.full((2,), value))
        total, same = f(given)
        yield total, same is given, vars(given)


class Doubled:
    def __init__(self, inputs):
        self.inputs = inputs
        self.doubled = self.inputs * 2


@case
def a_gradient_of_some_results_where_code_met_later_assigns_what_was_read(jit):
    @jit
    def f(given):
        return given.inputs * 2, Doubled(given.inputs * 3)

    for k in range(4):
        x = torch.full((3,), float(k), requires_grad=True)
        first, made = f(Doubled(x))
        (first.sum() + made.inputs.sum()).backward()
        yield x.grad


@case
def classes_that_come_to_answer_for_attributes_themselves(jit):
    for make in (Batch, dataclasses.make_dataclass("Pair", ["inputs", "targets"])):
        kind = type("Derived", (make,), {})
        f = jit(lambda given: given.inputs * given.targets)
        made = [kind(torch.ones(3), k) for k in (2, 2, 2, 3)]
        yield [f(given) for given in made]
        kind.targets = property(lambda self: 7)
        yield [f(given) for given in made]
        del kind.targets
        yield [f(given) for given in made]
        kind.__getattribute__ = lambda self, name: 5 if name == "targets" else object.__getattribute__(self, name)
        yield [f(given) for given in made]
        del kind.__getattribute__
        yield [f(given) for given in made]
