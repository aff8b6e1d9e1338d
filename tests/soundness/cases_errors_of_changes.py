"""Changes of objects that fail, caught by the function: in the first call, and in calls after one that succeeded."""

from __future__ import annotations

import collections
import contextlib
import types

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case


def world():
    """What the functions change."""
    out = types.SimpleNamespace(log=[], left=torch.zeros(3))
    full(out)
    return out


def full(w):
    """The world with everything there."""
    w.t, w.table, w.items, w.members = 1, {"a": 1, "b": 2}, [1, 2, 3], {1, 9}
    w.queue = collections.deque([1, 2])


def empty(w):
    """The same objects with nothing in them."""
    vars(w).pop("t", None)
    for container in (w.table, w.items, w.members, w.queue):
        container.clear()


def called(f, w, order="feeffeff"):
    """Calls of a function, with everything there before those of letter f, and nothing before others."""
    for letter in order:
        full(w) if letter == "f" else empty(w)
        yield attempt(f, torch.ones(2)), w


@case
def a_key_deleted_that_may_be_missing(jit):
    w = world()

    @jit
    def f(x):
        try:
            del w.table["b"]
            w.log.append("deleted")
        except KeyError:
            w.table["b"] = 3
        return x * 2

    w.table = {"b": 1}
    for _ in range(4):
        yield f(torch.ones(2)), w
    del w.table["b"]
    yield f(torch.ones(2)), w


@case
def an_attribute_deleted_that_may_be_missing(jit):
    w = types.SimpleNamespace(t=1, log=[])

    @jit
    def f(x):
        try:
            del w.t
        except AttributeError:
            w.log.append("missing")
        return x * 2

    for _ in range(3):
        yield f(torch.ones(2)), w
        yield f(torch.ones(2)), w
        w.t = 5


@case
def a_key_that_is_missing_ends_the_call_before_it_writes(jit):
    w = world()

    @jit
    def f(x):
        w.log.append(1)
        del w.table["b"]
        w.left.add_(x[0])
        return x * 2

    kept = w.table
    for there in (True, True, False, True, False):
        kept.update(b=1) if there else kept.pop("b", None)
        yield attempt(f, torch.ones(2)), w


@case(outcome=FELL_BACK)
def an_item_popped_of_what_may_be_empty(jit):
    w = world()

    @jit
    def f(x):
        try:
            w.log.append(w.queue.popleft())
        except IndexError:
            w.log.append("empty")
        return x * 2

    w.queue = collections.deque([1])
    for _ in range(4):
        yield f(torch.ones(2)), w


@case(outcome=FELL_BACK)
def keys_and_members_taken_that_may_be_missing(jit):
    w = world()
    table, members = w.table, w.members

    @jit
    def f(x):
        try:
            table.pop("b")
            members.remove(9)
        except KeyError as error:
            w.log.append(str(error))
        return x * 2

    for _ in range(3):
        yield f(torch.ones(2)), w
    table["b"] = 2
    yield f(torch.ones(2)), w
    members.add(9)
    yield f(torch.ones(2)), w


@case(outcome=FELL_BACK)
def an_item_replaced_in_a_list_that_may_be_short(jit):
    items, log = [1, 2, 3], []

    @jit
    def f(x):
        try:
            items[2] = 5
            del items[-1]
        except IndexError:
            log.append(len(items))
        return x * 2

    for _ in range(2):
        yield f(torch.ones(2)), items
        yield f(torch.ones(2)), items
        items.append(3)


@case
def an_item_replaced_and_deleted_where_it_is(jit):
    items = [1, 2, 3]

    @jit
    def f(x):
        items[0] = 5
        del items[-1]
        return x * 2

    for _ in range(5):
        yield attempt(f, torch.ones(2)), items


@case
def what_cannot_be_a_key_is_one(jit):
    table, log = {}, []

    @jit
    def f(x):
        for key in ("a", ["a"], ("a", ["a"])):
            try:
                table[key] = 1
            except TypeError:
                log.append("no key")
            with contextlib.suppress(TypeError, KeyError):
                del table[key]
        return x * 2

    for _ in range(3):
        yield f(torch.ones(2)), table, log


@case(outcome=FELL_BACK)
def a_change_that_fails_in_a_context(jit):
    w = world()

    @contextlib.contextmanager
    def counted():
        w.log.append("in")
        try:
            yield
        finally:
            w.log.append("out")

    @jit
    def f(x):
        with counted():
            with contextlib.suppress(TypeError):
                w.items.extend(5)
        return x * 2

    yield from called(f, w)


@case
def a_recording_that_ends_where_code_is_left_with_care(jit):
    """What `finally` does when a recording is given up is taken back as well."""
    queue, log = collections.deque([1, 2], maxlen=3), []

    @contextlib.contextmanager
    def counted():
        try:
            yield
        finally:
            log.append("left")

    @jit
    def f(x):
        with counted():
            queue[0] = len(log)
        return x * 2

    for n in (1, 3, 3, 4, 4, 5):
        yield f(torch.ones(n)), queue, log
        log.append(n)


@case
def an_attribute_of_a_class_assigned_and_read_of_a_subclass(jit):
    class Base:
        kept = 2.0

    class Thing(Base):
        @classmethod
        def scaled(cls, x):
            return x * cls.kept

    thing = Thing()

    @jit
    def f(x):
        Base.kept = 3.0
        x = Thing.scaled(x) + thing.kept
        Thing.kept = 5.0
        return x * thing.kept

    for value in (2.0, 7.0, -1.0, 4.0):
        Base.kept = value
        yield f(torch.ones(2)), Base.kept, Thing.kept
        del Thing.kept


@case
def an_integer_beyond_64_bits_among_numbers_that_change(jit):
    w = types.SimpleNamespace(n=3, items=[1, 2], log=[])

    @jit
    def f(x):
        w.items[0] += 1
        w.log.append((w.n in w.items, w.items[0] < w.n, w.items[0] >= w.n))
        return x * 2

    for n in (3, 4, 10**20, -(10**20), 5, 2**63, -(2**63)):
        w.n = n
        yield f(torch.ones(2)), w
