"""Objects that run code of their own when they are read, written or asked, and what code can ask of identities."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import itertools
import math
import weakref
from collections import OrderedDict
from typing import Any, ClassVar

import numpy as np

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, attempt, case


def ones(*shape):
    return torch.ones(*shape)


class Kind(enum.Enum):
    A = 1


# -- attributes that are computed --------------------------------------------------------------------------------------


@case(versions=5)
def getattr_that_counts_its_calls(jit):
    class Store:
        def __init__(self):
            self.values, self.asked = {"a": 1.0, "b": ones(2)}, []

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            self.asked.append(name)
            try:
                return self.values[name]
            except KeyError:
                raise AttributeError(name) from None

    store = Store()
    f = jit(lambda x: x * store.a + store.b - getattr(store, "c", 3.0))
    yield f(ones(2)), store
    store.values["a"] = 2.0
    yield f(ones(2)), store
    store.values["c"] = 10
    yield f(ones(2)), store
    store.a = 100.0
    yield f(ones(2)), store
    store.values["b"] = torch.zeros(2)
    yield f(ones(2)), store


@case
def properties_that_count_their_calls(jit):
    class Counted:
        n = 0

        @property
        def weight(self):
            self.n += 1
            return 2.0

        @functools.cached_property
        def table(self):
            self.n += 100
            return torch.arange(3.0)

        def __len__(self):
            self.n += 10
            return 3

        def __contains__(self, key):
            self.n += 1000
            return key == 1

    counted = Counted()
    f = jit(lambda x: x * counted.weight + len(counted) + (1 in counted) + counted.table.sum())
    for _ in range(4):
        yield f(ones(2)), counted.n
    counted = Counted()
    yield f(ones(2)), counted


@case
def descriptors_of_the_program(jit):
    class Doubled:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, instance, owner):
            return getattr(instance, self.name) * 2 if instance is not None else self

        def __set__(self, instance, value):
            setattr(instance, self.name, value)
            instance.writes += 1

    class Holder:
        w = Doubled()
        writes = 0

    holder = Holder()
    holder.w = ones(3)

    @jit
    def f(x):
        holder.w = holder.w + x
        return holder.w.sum()

    for i in range(3):
        yield f(torch.full((3,), float(i))), holder.writes, holder._w


@case
def attributes_kept_in_a_dictionary(jit):
    class Bag:
        def __init__(self):
            self.__dict__["data"] = {}

        def __setattr__(self, name, value):
            self.data[name] = value

        def __getattr__(self, name):
            try:
                return self.__dict__["data"][name]
            except KeyError:
                raise AttributeError(name) from None

        def __delattr__(self, name):
            del self.data[name]

    bag = Bag()
    bag.n, bag.t = 0, torch.zeros(2)

    @jit
    def f(x):
        bag.n += 1
        bag.t = bag.t + x
        if hasattr(bag, "odd"):
            del bag.odd
        else:
            bag.odd = True
        return bag.t * bag.n

    for _ in range(4):
        yield f(ones(2)), bag.data


@case(versions=2)
def a_tensor_default_of_the_class_replaced(jit):
    class State:
        t = ones(2)

    state = State()

    @jit
    def f(x):
        state.t = state.t * 2
        return x * state.t if x.sum() > 0 else x - state.t

    for sign in (1.0, 1.0, -1.0, 1.0, -1.0):
        yield f(torch.full((2,), sign)), state.t


@case(versions=2)
def a_counter_beside_a_branch(jit):
    state = collections.namedtuple("Box", "values")([0])
    count = 0

    @jit
    def f(x):
        nonlocal count
        count += 1
        return x * count if x.sum() > 0 else x - count

    for sign in (1.0, 1.0, -1.0, 1.0, -1.0):
        yield f(torch.full((2,), sign)), count, state


@case
def containers_with_methods_of_their_own(jit):
    class Table(dict):
        log: ClassVar[list[Any]] = []

        def __setitem__(self, key, value):
            self.log.append(key)
            super().__setitem__(key, value)

        def __getitem__(self, key):
            self.log.append("get item")
            return super().__getitem__(key)

        def __missing__(self, key):
            self.log.append("missing")
            return 7.0

    class Items(list):
        log: ClassVar[list[Any]] = []

        def append(self, value):
            self.log.append("append")
            super().append(value * 2)

        def __len__(self):
            return 100 + super().__len__()

        def __iter__(self):
            self.log.append("iterate")
            return super().__iter__()

    table, items = Table(a=1.0), Items([1.0])

    @jit
    def f(x):
        table["a"] = table["a"] + 1
        items.append(table.get("a"))
        y = x * table["other"] + len(items) + items[0]
        for value in items:
            y = y + value
        return y

    for _ in range(3):
        yield f(ones(2)), dict(table), list.copy(items), list(table.log), list(items.log)


# -- buffers -----------------------------------------------------------------------------------------------------------


class Averaged(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("average", torch.zeros(3))
        self.register_buffer("count", torch.tensor(0))
        self.register_buffer("later", None)
        self.weight = nn.Parameter(ones(3))

    def forward(self, x):
        self.average = self.average * 0.5 + x.detach().mean(0)
        self.count = self.count + 1
        self.count += 1
        self.later = ones(3) if self.later is None else self.later + self.average
        return (x * self.weight + self.average + self.count).sum()


@case(versions=2)
def buffers_replaced_by_the_function(jit):
    module = Averaged()
    f = jit(lambda x: module(x))
    for n in (2, 3, 2, 4):
        loss = f(ones(n, 3))
        loss.backward()
        yield loss, module.average, module.count, module.later, module.weight.grad
    module.average.zero_()
    yield f(ones(2, 3)), module.average
    module.average = ones(3)
    yield f(ones(2, 3)), module.average
    module.later = None
    yield f(ones(2, 3)), module.later, list(module.state_dict())


# -- dictionaries and other containers ---------------------------------------------------------------------------------


@case
def items_added_to_under_many_kinds_of_keys(jit):
    counts: dict[Any, Any] = {}
    table: dict[Any, Any] = {(1, 2): 0, None: 0.0, Kind.A: 1, 2.5: 1, True: 3, b"x": 0, frozenset([1]): 5}

    @jit
    def f(x):
        try:
            counts["n"] += 1
        except KeyError:
            counts["n"] = 1
        for key in list(table):
            table[key] += 1
        table[1, 2] += 2
        counts[Kind.A] = counts.get(Kind.A, 0) + 1
        counts["x", 1] = x
        return x * counts["n"] + table[1, 2] + table[Kind.A]

    for _ in range(4):
        yield f(ones(2)), counts, list(table.values())
    counts.clear()
    yield f(ones(2)), counts


@case(versions=2)
def a_counter_of_calls(jit):
    calls: Any = collections.Counter()

    def counted(function):
        @functools.wraps(function)
        def wrapper(*args):
            calls[function.__name__] += 1
            return function(*args)

        return wrapper

    @counted
    def square(x):
        return x * x

    @jit
    @counted
    def f(x):
        return square(x) + square(x + 1)

    for n in range(2, 6):
        yield f(ones(n)), dict(calls)


@case
def a_cache_filled_by_the_function(jit):
    cache: dict[Any, Any] = {}
    found: dict[Any, Any] = {}

    @jit
    def f(x):
        if "a" not in cache:
            cache["a"] = x * 2
        key = x.shape[0], str(x.dtype)
        value = found.get(key)
        if value is None:
            value = found[key] = torch.arange(x.shape[0]) * len(found)
        return cache["a"].sum() + x + value

    for n in (2, 3, 2, 4, 3):
        yield f(torch.full((n,), float(n))), cache, list(found)
    cache.clear()
    yield f(ones(2)), cache


@case(versions=1)
def a_history_of_lists(jit):
    history: dict[str, list[float]] = {"loss": [], "norm": []}

    class Log:
        entries: ClassVar[dict[str, Any]] = {"all": []}

    log = Log()

    @jit
    def f(x):
        loss = x.square().mean()
        history["loss"].append(loss.item())
        history["norm"].append(float(x.norm()))
        log.entries["all"].append(loss)
        return loss

    for n in range(2, 7):
        yield f(torch.arange(float(n))), history, log.entries


@case
def a_history_that_is_read_too(jit):
    history: dict[str, list[float]] = {"loss": [1.0]}

    @jit
    def f(x):
        history["loss"].append(float(x.sum()))
        return x * history["loss"][-2] + len(history["loss"])

    for n in range(2, 5):
        yield f(ones(n)), history
    history["loss"][-1] = 7.0
    yield f(ones(2)), history
    history["loss"] = [3.0]
    yield f(ones(2)), history


@case(versions=1)
def counters_in_lists(jit):
    count, totals = [0], [0.0, 5.0]

    @jit
    def f(x):
        count[0] += 1
        totals[0] += float(x.sum())
        return x * count[0] + totals[0]

    for n in range(2, 6):
        yield f(ones(n)), count, totals


@case
def numbers_in_a_list_that_shrinks(jit):
    numbers = [1.0, 2.0, 3.0]

    @jit
    def f(x):
        numbers[1] += 1
        numbers[0] = numbers[1] * 2
        return x * numbers[0] + numbers[-1]

    yield f(ones(2)), numbers
    yield f(ones(2)), numbers
    numbers[2] = 9.0
    yield f(ones(2)), numbers
    numbers.insert(0, 4.0)
    yield f(ones(2)), numbers
    del numbers[1:]
    yield attempt(f, ones(2)), numbers


@case
def keywords_of_a_partial_replaced(jit):
    def scaled(x, a, b=1.0):
        return x * a + b

    outer, inner = functools.partial(scaled, a=2.0), functools.partial(scaled, a=3.0)
    f, g = jit(outer), jit(lambda x: inner(x) + outer(x))
    yield f(ones(2)), g(ones(2)), f(ones(2), b=5.0)
    outer.keywords["a"] = 7.0
    yield f(ones(2)), g(ones(2))
    inner.keywords["b"] = 11.0
    yield f(ones(2)), g(ones(2))


@case
def a_counter_that_its_class_updates(jit):
    calls: Any = collections.Counter()

    @jit
    def f(x):
        calls.update("ab")
        return x * calls["a"]

    for _ in range(3):
        yield f(ones(2)), dict(calls)


@case
def a_chain_of_dictionaries_written(jit):
    chain: Any = collections.ChainMap({"a": 1}, {"b": 2})

    @jit
    def f(x):
        chain["a"] = chain["a"] + 1
        return x * chain["a"]

    for _ in range(3):
        yield f(ones(2)), dict(chain)


@case
def an_item_of_an_array_added_to(jit):
    array = np.zeros(3)

    @jit
    def f(x):
        array[0] += 1
        return x + float(array[0])

    for _ in range(3):
        yield f(ones(2)), array


@case
def an_array_in_a_dictionary_added_to(jit):
    table = {"a": np.zeros(2)}

    @jit
    def f(x):
        table["a"] += 1
        return x + float(table["a"][0])

    for _ in range(3):
        yield f(ones(2)), table["a"]


@case
def an_array_changed_by_numpy(jit):
    array = np.array([3.0, 1.0, 2.0])

    @jit
    def f(x):
        np.add(array, 1, out=array)
        return x + 1

    for _ in range(3):
        yield f(ones(2)), array


@case
def an_array_sorted(jit):
    array = np.array([3.0, 1.0, 2.0])

    @jit
    def f(x):
        array.sort()
        return x + 1

    yield f(ones(2)), array
    array[:] = [5.0, 4.0, 3.0]
    yield f(ones(2)), array


# -- iterators ---------------------------------------------------------------------------------------------------------


def iterator_case(name):
    """A case in which a function takes items of an iterator in one of the ways that the language has."""

    def register(take):
        def script(jit):
            iterators = [iter([1.0, 2.0, 3.0]) for _ in range(3)]
            count = 0

            @jit
            def f(x):
                nonlocal count
                count += 1
                return x + take(iterators[count - 1])

            for _ in range(3):
                yield attempt(f, ones(2)), count, [list(i) for i in iterators[:count]]

        script.__name__, script.__module__, script.__code__ = name, __name__, script.__code__
        return case(script)

    return register


@iterator_case("an_iterator_unpacked")
def _unpacked(items):
    a, b, c = items
    return a + b * c


@iterator_case("an_iterator_unpacked_into_a_list")
def _starred(items):
    a, *rest = items
    return a + len(rest)


@iterator_case("an_iterator_in_a_display")
def _display(items):
    return sum([*items])


@iterator_case("an_iterator_as_arguments")
def _arguments(items):
    return max(*items)


@iterator_case("a_search_in_an_iterator")
def _search(items):
    return float(2.0 in items)


@iterator_case("an_iterator_given_to_a_library")
def _sliced(items):
    return sum(itertools.islice(items, 2))


# -- identities --------------------------------------------------------------------------------------------------------


@case(versions=2)
def one_tensor_for_several_arguments(jit):
    @jit
    def f(q, k, v):
        return torch.softmax(q @ k.T, -1) @ v

    for n in range(2, 7):
        x = torch.arange(2.0 * n).view(n, 2)
        yield f(x, x, x)
        yield f(x, x, x + 1)


@case(versions=1)
def attention_of_a_tensor_to_itself(jit):
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    f = jit(lambda q, k, v: attention(q, k, v)[0])
    for n in range(2, 6):
        x = torch.rand(2, n, 4)
        yield f(x, x, x)


@case
def tensors_compared_by_identity(jit):
    kept = ones(2)

    @jit
    def same(x, y):
        return x + 1 if x is y else x + y * 10

    @jit
    def among(x, others):
        return [x is other for other in others], x + 1

    @jit
    def numbered(xs):
        return len({id(x): i for i, x in enumerate(xs)}), len(set(xs)), xs[0] * 2

    @jit
    def chosen(x, y):
        return {x: 1, y: 2}[x], x + y

    @jit
    def special(x):
        return x + 1 if x is kept else x + 2

    other = torch.full((2,), 2.0)
    for x, y in ((kept, other), (kept, kept), (other, other), (other, kept), (kept, kept)):
        yield same(x, y), among(x, [y, kept]), numbered([x, y]), chosen(x, y), special(x), special(y)


@case(outcome=FELL_BACK)
def a_dictionary_with_tensors_as_keys(jit):
    f = jit(lambda x, y: {x: y * 2, y: x * 3})
    x = ones(2)
    for y in (torch.zeros(2), x, torch.full((2,), 2.0)):
        made = f(x, y)
        yield len(made), list(made.values()), [key is x for key in made]


@case(outcome=FELL_BACK)
def an_object_known_weakly(jit):
    class Known:
        scale = 2.0

    known = Known()
    reference = weakref.ref(known)

    @jit
    def f(x):
        found = reference()
        return x * 0 if found is None else x * found.scale

    yield f(ones(2))
    known.scale = 4.0
    yield f(ones(2))
    del known
    yield f(ones(2))


@case(outcome=FELL_BACK)
def the_text_of_an_argument(jit):
    f = jit(lambda x: (x + 1, f"{x}"))
    for value in (1.0, 2.0, 2.0):
        yield f(torch.full((2,), value))


@case(outcome=FELL_BACK)
def the_text_of_a_result(jit):
    f = jit(lambda x: (x + 1, str([x * 2])))
    for value in (1.0, 2.0, 2.0):
        yield f(torch.full((2,), value))


@case
def the_code_of_a_function_replaced(jit):
    def g(x, w=2.0):
        return x * w

    f = jit(lambda x: g(x))
    yield f(ones(2))
    g.__code__ = (lambda x, w: x - w).__code__
    yield f(ones(2))
    g.__defaults__ = (5.0,)
    yield f(ones(2))


# -- numbers -----------------------------------------------------------------------------------------------------------


@case
def products_of_large_integers(jit):
    @jit
    def f(x, n):
        return x, n * n, n + 1, n * n * n, n**4, n * 1000003, -n * n % 7, n * x.shape[0] * 10**12

    for n in (3, 5, 2**20, 2**31, 2**40, 2**62, 2**63 - 1, -(2**40), 7, 0, 1):
        yield f(ones(2), n)


@case(versions=4)
def integers_that_math_makes_of_sizes(jit):
    @jit
    def f(x):
        n, m = x.shape
        return math.comb(m, 2), math.gcd(n, m), math.isqrt(n * m), math.factorial(n), x + 1

    for n, m in ((2, 3), (3, 4), (5, 4), (6, 9)):
        yield f(ones(n, m))


@case
def booleans_added_to_integers(jit):
    @jit
    def f(x, flag, n):
        return x * flag, flag + n, n * flag, n - flag, flag * x.shape[0], n // True, True - n

    for flag, n in ((True, 3), (False, 3), (True, 5)):
        yield f(ones(2), flag, n)


@case
def rarer_attributes_of_numbers(jit):
    @jit
    def f(x, a, n):
        return x * a, a.hex(), a.as_integer_ratio(), a.real, a.imag, n.real, n.bit_count(), n.conjugate()

    for a, n in ((0.5, 3), (1.5, 7), (-2.25, 3)):
        yield f(ones(2), a, n)


@dataclasses.dataclass
class Sample:
    x: Any
    y: Any = None


@case
def a_dataclass_with_more_than_its_fields(jit):
    sample = Sample(ones(2))
    sample.extra = 4.0

    @jit
    def f(s):
        s.x = s.x + 1
        s.n = getattr(s, "n", 0) + 1
        return s.x * s.extra, s

    for extra in (4.0, 4.0, 9.0):
        sample.extra = extra
        result, same = f(sample)
        yield result, same is sample, sample, list(vars(sample))


@case(versions=1)
def an_ordered_dictionary_in_another_order(jit):
    kept = {}

    @jit
    def f(x):
        made = OrderedDict(a=x * 2, b=x + 1, c=x.sum())
        made.move_to_end("a")
        made.move_to_end("c", last=False)
        kept["made"] = made
        return OrderedDict(made)

    for i in range(3):
        yield f(ones(2) * i), kept


class Output(OrderedDict):
    """As libraries of models return their results: items that are attributes too, and positions."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __setattr__(self, name, value):
        if name in self.keys():
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __getitem__(self, key):
        return super().__getitem__(key) if isinstance(key, str) else tuple(self.values())[key]


class Options(dict):
    __getattr__ = dict.__getitem__


class Steps(list):
    def __call__(self, x):
        for step in self:
            x = step(x)
        return x


@case(versions=2)
def results_of_classes_derived_from_containers(jit):
    @jit
    def f(x, n):
        out = Output()
        out["loss"], out["logits"] = x.sum(), x * n
        out.loss = out.loss + 1
        out.hidden = (x, out["logits"])
        options = Options(n=n, part=out)
        steps = Steps([x, options])
        steps.name = "steps"
        return out, options, steps

    for n in (2, 3):
        for x in (torch.ones(n, requires_grad=True), torch.ones(4)):
            out, options, steps = f(x, n)
            yield type(out), list(out), vars(out), out[0], out.logits, out.hidden is vars(out)["hidden"]
            yield type(options), options.n, options.part is out, type(steps), steps.name, steps[1] is options
            if out.loss.requires_grad:
                out.loss.backward()
                yield x.grad


@case(versions=1)
def steps_of_a_list_that_is_called(jit):
    steps = Steps([torch.sin, torch.cos])
    f = jit(lambda x: steps(x))
    for n in (2, 3, 4):
        yield f(torch.ones(n))


@case
def steps_that_are_arguments(jit):
    f = jit(lambda steps: steps[0] + len(steps))
    for n in (2, 3):
        yield f(Steps([torch.ones(n), 1]))
        yield f(Options({0: torch.ones(n)}))


@case(versions=7)
def default_arguments_that_are_written(jit):
    def f(x, kept={"rate": 1.0, "mean": torch.ones(3)}, *, counts={}):  # noqa: B006, B008
        kept["n"] = kept.get("n", 0) + 1
        kept["mean"] = kept["mean"] * 0.5 + x
        counts["calls"] = counts.get("calls", 0) + 1
        return x * kept["rate"] * kept["n"] * counts["calls"]

    g = jit(f)
    for i in range(8):
        yield g(ones(3) * i), f.__defaults__, f.__kwdefaults__
    kept = f.__defaults__[0]
    kept["rate"] = 5.0
    yield g(ones(3)), kept
    kept["n"], kept["mean"], f.__kwdefaults__["counts"]["calls"] = 50, torch.zeros(3), 7
    yield g(ones(3)), kept
    del kept["n"]
    yield g(ones(3)), kept
    f.__defaults__ = ({"rate": 2.0, "mean": torch.zeros(3)},)
    yield g(ones(3)), f.__defaults__, kept
    yield g(ones(3), {"rate": 1.0, "mean": torch.ones(3)}), f.__defaults__
