"""Objects that keep their attributes in slots, made anew for each call: taken apart as those with dictionaries are."""

from __future__ import annotations

import copy
import dataclasses
import types
import weakref
from typing import Any

import eagerjit as torch
from tests.soundness.cases_objects_given import asked_of, batches, told_in
from tests.soundness.framework import FELL_BACK, case


class Batch:
    __slots__ = ("__weakref__", "extra", "inputs", "targets")

    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, targets

    def scaled(self, factor):
        return Batch(self.inputs * factor, self.targets)

    @property
    def difference(self):
        return self.inputs - self.targets


class Weighted(Batch):
    __slots__ = ("weight",)

    def __init__(self, inputs, targets):
        super().__init__(inputs, targets)
        self.weight = 3.0


@dataclasses.dataclass(slots=True, eq=False)
class Record:
    inputs: Any
    targets: Any
    total: Any = dataclasses.field(init=False)


@dataclasses.dataclass(slots=True, frozen=True, weakref_slot=True)
class Frozen:
    inputs: Any
    targets: Any


KINDS = (Batch, Weighted, Record)


@case(versions=4)
def methods_and_properties_with_slots(jit):
    for kind in (Batch, Weighted):
        f = jit(lambda batch: batch.scaled(2.0).difference.sum() * getattr(batch, "weight", 2.0))
        for batch in batches(kind):
            yield f(batch)


@case(versions=8)
def gradients_of_tensors_in_slots(jit):
    for kind in (*KINDS, Frozen):
        f = jit(lambda batch: (batch.inputs * (batch.inputs - batch.targets)).sum())
        for batch in batches(kind):
            batch.inputs.requires_grad_()
            f(batch).backward()
            yield batch.inputs.grad


@case(versions=6)
def slots_assigned_and_deleted(jit):
    def f(batch, count):
        batch.inputs = batch.inputs + count
        batch.inputs *= 2
        total = batch.inputs.sum() + batch.targets
        del batch.targets
        return batch, total

    for kind in KINDS:
        compiled = jit(f)
        for count, batch in enumerate(batches(kind)):
            same, total = compiled(batch, count)
            yield same is batch, total, batch.inputs, hasattr(batch, "targets")


@case(versions=3)
def slots_filled_at_last(jit):
    def f(batch):
        if not hasattr(batch, "extra"):
            batch.extra = batch.inputs * 2
        return batch.extra + 1

    compiled, given = jit(f), batches()
    for i in (0, 1, 2, 0, 1, 2, 3, 3):
        yield compiled(given[i]), given[i].extra


@case
def slots_that_are_emptied_between_calls(jit):
    f = jit(lambda batch: batch.inputs * getattr(batch, "extra", 5.0))
    given = batches()
    for i in (0, 1, 2, 3):
        yield f(given[i])
        given[i].extra = 2.0 + i
        yield f(given[i])
        del given[i].extra
        yield f(given[i])


@case(versions=4)
def objects_with_slots_that_are_made(jit):
    def f(x):
        first, second = Batch(x * 2, 1.0), Weighted(x + 1, x)
        first.extra = [second]
        return first, second

    compiled = jit(f)
    for n in (2, 3, 4):
        first, second = compiled(torch.ones(n))
        yield first.inputs, first.targets, second.inputs, second.weight, first.extra[0] is second
    kept = types.SimpleNamespace(last=None)

    def g(x):
        kept.last = Record(x * 2, kept.last.inputs if kept.last else None)
        return x + 1

    keeping = jit(g)
    for n in (2, 3, 2, 3):
        yield keeping(torch.ones(n)), kept.last.inputs, kept.last.targets, hasattr(kept.last, "total")


@case
def records_with_slots_beside_a_dictionary(jit):
    class Plain:
        pass

    @dataclasses.dataclass(slots=True)
    class Mixed(Plain):
        x: Any
        y: Any

    f = jit(lambda x: Mixed(x * 2, 3.0))
    for n in (2, 3, 4):
        made = f(torch.ones(n))
        yield made.x, made.y, vars(made)


@case
def slots_beside_a_dictionary(jit):
    class Loose(Batch):
        pass

    f = jit(lambda batch: batch.inputs * batch.targets + batch.bias)
    for i, batch in enumerate(batches(Loose)):
        batch.bias = i
        vars(batch)["inputs"] = None
        yield f(batch)


@case
def a_slot_hidden_by_another(jit):
    class Hiding(Batch):
        __slots__ = ("inputs",)

        def both(self):
            return self.inputs + super().inputs

    class Reading(Batch):
        __slots__ = ()
        inputs = property(lambda self: self.targets + 2, lambda self, x: None)

        def both(self):
            return self.inputs + super().inputs

    for kind in (Hiding, Reading):
        compiled = jit(lambda batch: batch.both())
        for batch in batches(kind):
            Batch.inputs.__set__(batch, batch.targets + 5)
            yield compiled(batch)


@case
def a_slot_of_the_class_replaced(jit):
    class Replaced(Batch):
        __slots__ = ("rate",)

    f = jit(lambda batch: batch.inputs * batch.rate)
    given = batches(Replaced)
    for batch in given:
        batch.rate = 2.0
        yield f(batch)
    slot = Replaced.rate
    Replaced.rate = property(lambda self: 7.0)
    for batch in given:
        yield f(batch)
    Replaced.rate = slot
    for batch in given:
        yield f(batch)


@case(versions=4)
def empty_slots_that_are_computed(jit):
    class Lazy:
        __slots__ = ("x", "y")

        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(name)
            return self.x * 10

    f = jit(lambda given: given.x + given.y)
    for i, n in enumerate((2, 3, 2, 3, 4, 4)):
        given = Lazy()
        given.x = torch.ones(n)
        if i % 2:
            given.y = torch.ones(n) * 2
        yield f(given)


@case
def an_object_with_slots_in_two_places(jit):
    def f(a, b):
        a.inputs = a.inputs + 1
        return b.inputs * 2

    for kind in KINDS:
        compiled, given = jit(f), batches(kind, sizes=(2, 2, 2, 2))
        for i, j in ((0, 1), (1, 2), (2, 2), (1, 1), (3, 0), (0, 0)):
            yield compiled(given[i], given[j]), [b.inputs for b in given]


@case
def an_object_with_slots_that_is_reached_besides(jit):
    for kind in KINDS:
        given, registry = batches(kind, sizes=(2, 2, 2, 2)), types.SimpleNamespace()
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
def which_object_with_slots_is_given(jit):
    for kind in KINDS:
        yield from asked_of(jit, lambda batch, known: batch is known, kind)
        yield from asked_of(jit, lambda batch, known: batch == known, kind)
        yield from asked_of(jit, lambda batch, known: {batch: 1}.get(known), kind)
        yield from asked_of(jit, lambda batch, known: batch in [[], known], kind)
        for tell in (id, hash, object.__repr__):
            yield from told_in(jit, tell, kind)


@case(outcome=FELL_BACK)
def weak_references_to_what_is_given(jit):
    f = jit(lambda batch, known: batch.inputs * (2 if known() is batch else 3))
    given = batches()
    for i, j in ((0, 1), (1, 2), (2, 2), (1, 1), (3, 0), (0, 0)):
        yield f(given[i], weakref.ref(given[j]))
    kept = []

    def g(batch):
        kept.append(weakref.ref(batch))
        return batch.inputs * 2

    compiled = jit(g)
    for i in (0, 1, 2, 1, 3):
        yield compiled(given[i]), kept[-1]() is given[i]


@case(versions=6)
def copies_of_objects_with_slots(jit):
    def f(batch):
        copied = copy.copy(batch)
        copied.inputs = copied.inputs + 1
        return copied, batch.inputs * 2

    for kind in KINDS:
        compiled = jit(f)
        for batch in batches(kind):
            copied, doubled = compiled(batch)
            yield copied is batch, copied.inputs, copied.targets, doubled, batch.inputs


@case
def a_ring_of_objects_with_slots(jit):
    def f(batch):
        batch.extra.inputs = batch.extra.inputs + batch.inputs
        return batch.extra.extra.inputs * 2

    given = batches(sizes=(2, 2, 2, 2))
    for i, batch in enumerate(given):
        batch.extra = given[(i + 1) % 4]
    compiled = jit(f)
    for i in (0, 1, 2, 1, 3, 0):
        yield compiled(given[i]), [b.inputs for b in given]


@case(versions=3)
def an_object_with_slots_that_is_replaced(jit):
    world = types.SimpleNamespace(batch=None)
    f = jit(lambda x: x * world.batch.inputs + world.batch.targets)
    for world.batch in batches(sizes=(3, 3, 3, 3, 3)):
        yield f(torch.ones(3))


class Named(dict):
    __slots__ = ()

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Stack(list):
    __slots__ = ()

    def top(self):
        return self[-1]


@case(versions=4)
def containers_of_nothing_but_items(jit):
    f = jit(lambda batch, stack: (batch.x * stack.top(), Named(y=batch.x + 1), Stack([stack[0]])))
    for n in (2, 3, 4, 5):
        made, named, stack = f(Named(x=torch.ones(n)), Stack([torch.ones(n), torch.ones(n) * 3]))
        yield made, type(named), dict(named), type(stack), list(stack)

    def g(batch, stack):
        batch["z"] = batch.x + len(stack)
        stack.append(batch.z)
        return batch, stack

    compiled = jit(g)
    for n in (2, 3, 4, 5):
        batch, stack = Named(x=torch.ones(n)), Stack()
        found = compiled(batch, stack)
        yield found[0] is batch, found[1] is stack, dict(batch), list(stack)


class Answering:
    """Has an answer to every name, also to those that Python code asks of any object."""

    __slots__ = ("count", "weight")

    def __init__(self):
        self.count, self.weight = 0, torch.ones(2)

    def __getattr__(self, name):
        return lambda *args: name


class Forwarding(Answering):
    __slots__ = ()

    def __getattr__(self, name):
        return {"weight": 5.0, "count": 7} if name == "__dict__" else getattr(self.weight, name)


class Raising(Answering):
    __slots__ = ()

    def __getattr__(self, name):
        raise KeyError(name)


class Lying(Answering):
    __slots__ = ("__dict__",)

    def __getattribute__(self, name):
        return {} if name == "__dict__" else super().__getattribute__(name)


@case
def objects_that_answer_for_their_dictionary(jit):
    def counted(held, x):
        held.count += 1
        held.weight = held.weight + x
        return held.weight * 2

    def looked_for(held, x):
        held.weight.add_(x)
        return {"held": [held]}["held"][0].weight * x, hasattr(held, "foo")

    for kind in (Answering, Forwarding, Raising, Lying):
        held = kind()
        f, g = jit(counted), jit(looked_for)
        for i in range(3):
            yield f(held, torch.ones(2) * i), held.count, held.weight
            if kind is not Raising:
                yield g(held, torch.ones(2) * i)


@case
def objects_that_answer_found_outside(jit):
    for kind in (Answering, Forwarding, Raising, Lying):
        held = kind()
        held.count = torch.ones(2)
        f = jit(lambda x: (held.weight * x + held.count, held))  # noqa: B023
        for i in range(3):
            held.weight = torch.ones(2) * i
            result, found = f(torch.ones(2))
            yield result, found is held
