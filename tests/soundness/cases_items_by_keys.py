"""Dictionaries of totals, histories and settings, of which code reads items by their keys."""

from __future__ import annotations

import collections
import dataclasses
import types
import weakref

import eagerjit as torch
from tests.soundness.framework import attempt, case


def ones(*shape):
    return torch.ones(*shape)


@case(versions=4)
def totals_by_get(jit):
    totals, count = {}, {"a": 0, "b": 0}

    @jit
    def f(x, name):
        totals[name] = totals.get(name, 0.0) + x.sum().item()
        if name in count:
            count[name] = count[name] + 1
        return x * 2

    for i in range(12):
        yield f(ones(2) * i, "ab"[i % 2]), totals, count
    totals["a"] = -1.0
    totals["c"] = 100.0
    for name in "ab":
        yield f(ones(2), name), totals, count


@case(versions=5)
def totals_that_are_tensors(jit):
    totals, weight = {}, ones(2).requires_grad_()

    @jit
    def f(x, name):
        totals[name] = totals.get(name, 0.0) + (x * weight).sum()
        return totals[name] * 2

    for i in range(10):
        result = f(ones(2) * i, "ab"[i % 2])
        weight.grad = None
        result.backward(retain_graph=True)
        yield result, weight.grad, totals
    totals["a"] = ones(3)
    yield f(ones(2), "a"), totals


@case(versions=4)
def histories_by_setdefault(jit):
    histories = {}

    @jit
    def f(x, name):
        histories.setdefault(name, []).append(x.sum().item())
        histories.setdefault("all", []).append(x)
        return x * 2

    for i in range(10):
        yield f(ones(2) * i, "ab"[i % 2]), histories
    histories["a"].clear()
    yield f(ones(2), "a"), histories


@case
def histories_are_replaced(jit):
    histories, other = {}, []

    @jit
    def f(x):
        histories.setdefault("a", []).append(x.sum().item())
        return x * 2

    for i in range(12):
        yield f(ones(2) * i), histories, other
        if i == 2:
            histories.clear()
        if i == 4:
            histories["a"] = list(histories["a"])
        if i == 6:
            histories["a"] = other
        if i == 8:
            histories["a"] = types.SimpleNamespace(append=lambda value: other.append(-value))


@case
def a_new_list_equal_to_the_one_before(jit):
    histories = {}

    @jit
    def f(x):
        last = histories.setdefault("a", [])
        last.append(1.0)
        return x * len(last)

    @jit
    def g(x):
        if "b" not in histories:
            histories["b"] = []
        histories["b"].append(2.0)
        return x * len(histories["b"])

    for i in range(6):
        yield f(ones(2)), g(ones(2)), histories
        if i == 3:
            histories.clear()


@case
def histories_that_are_one_list(jit):
    same = []
    histories = {"a": same, "b": same}

    @jit
    def f(x):
        histories.setdefault("a", []).append(1.0)
        histories.setdefault("b", []).append(2.0)
        histories["a"].append(3.0)
        return x * len(same)

    for _ in range(3):
        yield f(ones(2)), histories


@case
def items_of_every_kind(jit):
    torch.manual_seed(0)
    table = {"part": torch.nn.Linear(2, 2), "own": types.SimpleNamespace(k=1.0), "list": [1.0], "tensor": ones(2)}

    @jit
    def f(x):
        y = table["part"](x) * table["own"].k * table.get("list")[0] + table["tensor"]
        return y if table.get("flag") is None else y * 2

    def changes():
        yield
        table["own"].k = 2.0
        yield
        table["list"][0] = 3.0
        yield
        table["list"] = [4.0]
        yield
        table["tensor"].add_(1)
        yield
        table["tensor"] = ones(2) * 7
        yield
        table["part"] = torch.nn.Linear(2, 2)
        yield
        table["part"].weight.data.zero_()
        yield
        table["own"] = types.SimpleNamespace(k=9.0)
        yield
        table["flag"] = False
        yield
        del table["flag"], table["tensor"]

    for _ in changes():
        yield attempt(f, ones(2))
    yield attempt(f, ones(2))


@case(versions=6)
def items_beside_others_that_change(jit):
    table = {"a": 1.0, "other": 0}

    @jit
    def f(x):
        y = x * table.get("a", 5.0)
        return y + table["c"] if "c" in table else y

    for i in range(9):
        yield f(ones(2))
        table["other"] += 1
        if i == 2:
            table["c"] = 5.0
        if i == 3:
            del table["a"]
        if i == 4:
            table["a"] = True
        if i == 5:
            table["a"] = None if i > 5 else 2
        if i == 6:
            table.clear()
            table["other"] = 0


@case
def all_items_are_read_too(jit):
    table = {"a": 1.0, "b": 2.0}

    @jit
    def f(x):
        y = x * table.get("a", 0.0)
        return y * sum(table.values()) + len(table)

    for i in range(4):
        yield f(ones(2))
        table["b"] += 1
        if i == 2:
            table["c"] = 5.0


@case
def get_under_another_name(jit):
    table = {"a": 1.0, "b": 2.0}

    @jit
    def f(x):
        get = table.get
        best = max(["a", "b"], key=get)
        return x * sum(map(get, "ab")) + get("a") * (1 if best == "a" else 2)

    for i in range(5):
        yield f(ones(2))
        table["a"] += i


@case
def keys_that_are_equal(jit):
    table = {1: 2.0}
    f = jit(lambda x: x * table.get(True, 5.0) * table.get(1.0, 5.0) * (3 if True in table else 4) * table.get(1, 5.0))
    yield f(ones(2))
    table[True] = 7.0
    yield f(ones(2))
    table.clear()
    yield f(ones(2))


@case
def dictionaries_of_other_classes(jit):
    class Loud(dict):
        def get(self, key, default=None):
            return 100.0

    class Quiet(dict):
        def __missing__(self, key):
            return 3.0

    ordered, loud, quiet = collections.OrderedDict(a=1.0), Loud(a=1.0), Quiet(a=1.0)
    counts, lists = collections.Counter(a=1), collections.defaultdict(list)

    @jit
    def f(x):
        lists["new"].append(1)
        y = x * ordered.get("a") * loud.get("a") * quiet["a"] + quiet["z"] + counts["b"] + counts["a"]
        return y if "z" in quiet else y * 2

    for i in range(5):
        yield f(ones(2)), ordered, quiet, counts, lists
        ordered["a"] += 1
        quiet["a"] += 1
        counts["b"] += 1
        if i == 2:
            quiet["z"] = 1
            ordered.move_to_end("a")


@case(versions=4)
def a_key_comes_and_goes(jit):
    table = {}

    @jit
    def f(x, name):
        if name in table:
            del table[name]
            return x
        table[name] = x
        return x * 2

    for i in range(12):
        yield f(ones(2) * i, "ab"[i // 3 % 2]), table


@case(versions=2)
def counts_that_are_updated(jit):
    counts = collections.Counter()

    @jit
    def f(x):
        counts.update({"n": x.shape[0]})
        counts["calls"] += 1
        return x * 2

    for i in range(10):
        yield f(ones(2 + i % 3)), counts
    counts["n"] = 0
    yield f(ones(2)), counts


@case
def a_second_derivative_of_a_total(jit):
    table = {"a": 1.0}

    @jit
    def f(x):
        table["a"] = table.get("a") * 2
        return (x**3 * table["a"]).sum() if "b" not in table else x.sum()

    for _ in range(4):
        x = ones(2).requires_grad_()
        [gradient] = torch.autograd.grad(f(x), x, create_graph=True)
        table["a"] += 1
        table["b"] = 0
        gradient.sum().backward()
        del table["b"]
        yield x.grad, table


@case
def a_dictionary_that_is_an_argument(jit):
    @jit
    def f(x, table):
        table["n"] = table.get("n", 0) + 1
        table.setdefault("list", []).append(x)
        return x * table["n"]

    table = {}
    for _ in range(4):
        yield f(ones(2), table), table


# -- items under numbers of the call -----------------------------------------------------------------------------------


@case(versions=2)
def a_log_by_steps(jit):
    log, state = {}, types.SimpleNamespace(step=0, log={})

    @jit
    def f(x, step):
        log[step] = x.sum().item()
        log[step * 2 + 1] = x
        state.log[state.step] = step
        state.step += 1
        return x * 2

    for i in (0, 1, 5, 2, 1, -3, 7):
        yield f(ones(2) * i, i), log, list(log), state
    state.step = 100
    log.clear()
    yield f(ones(2), 3), log, list(log), state


@case
def a_log_that_is_read_after(jit):
    log = {0: 1.0}

    @jit
    def f(x, step):
        log[step] = 5.0
        return x * log[0]

    @jit
    def g(x, step):
        log[step] = 7.0
        return x * (2 if 3 in log else 1) * log.get(4, 1.0)

    for i in (1, 0, 2, 3, 4, 0):
        yield f(ones(2), i), g(ones(2), i), log
        log[0] = 1.0
        log.pop(3, None)


@case
def a_log_that_is_read_before(jit):
    log = {0: 1.0}

    @jit
    def f(x, step):
        y = x * log.get(step, 3.0) * log[0]
        log[step] = 2.0
        return y

    for i in (1, 0, 2, 2, 3, 1, 0):
        yield f(ones(2), i), log


@case
def a_log_that_is_read_as_a_whole(jit):
    log, logs = {}, {"a": {}}
    same = types.SimpleNamespace(log=log)

    def found():
        return same.log

    @jit
    def f(x, step):
        log[step] = 2.0
        other = found()
        return x * (1 if other == {0: 2.0} else 3)

    @jit
    def g(x, step):
        logs["a"][step] = 2.0
        return x * len(logs["a"])

    @jit
    def h(x, step):
        found()[step] = 1.0
        return x * sum(log) if log else x

    for i in (0, 1, 0, 2, 1):
        yield f(ones(2), i), g(ones(2), i), h(ones(2), i), log, logs
        log.clear()
        log[i] = 0.0


@case
def a_log_of_an_argument_and_of_the_call(jit):
    @jit
    def f(x, step, log):
        log[step] = x
        own = {}
        own[step] = 1
        own[step + 1] = 2
        return own, x * len(own)

    log = {}
    for i in (0, 1, 5, 1):
        yield f(ones(2), i, log), log


@case
def a_log_of_two_numbers_that_may_be_equal(jit):
    log = {}

    @jit
    def f(x, a, b):
        log[a] = x
        log[b] = x * 2
        return x

    for a, b in ((0, 1), (2, 2), (1, 0), (3, 3)):
        yield f(ones(2), a, b), log, list(log)


@case
def a_log_with_a_gradient_of_a_gradient(jit):
    log = {}

    @jit
    def f(x, step):
        log[step] = step
        return (x**3).sum()

    for i in range(4):
        x = ones(2).requires_grad_()
        [gradient] = torch.autograd.grad(f(x, i), x, create_graph=True)
        log[0] = -1
        gradient.sum().backward()
        yield x.grad, log


@case
def keys_of_sizes(jit):
    known, counts = {}, {}

    @jit
    def f(x):
        shape = tuple(x.shape)
        if shape in known:
            return known[shape], {"again": tuple(x.shape)}
        known.update({shape: x.detach() * 2})
        counts[frozenset({x.shape[0], "rows"})] = {x.shape: x.shape[0]}
        return {tuple(x.shape): x + 1}, {(x.shape[0], (tuple(x.shape[1:]), "n")): x.sum()}

    for rows in (2, 2, 3, 4, 3, 2, 5):
        yield f(torch.ones(rows, 3)), known, counts


@case(versions=3)
def pairs_of_states_under_a_key(jit):
    state, weight = {"hidden": (torch.zeros(2), torch.ones(2))}, torch.full((2,), 0.5, requires_grad=True)

    @jit
    def step(x):
        h, c = tuple(each.detach() for each in state["hidden"])
        h, c = torch.tanh(h * weight + x), c + h
        state["hidden"] = h, c
        (h * c).sum().backward()
        return h.sum().item()

    for i in range(12):
        yield step(ones(2) * i), state, weight.grad
    state["hidden"] = torch.ones(2), torch.zeros(2)
    yield step(ones(2)), state, weight.grad


@case(versions=3)
def caches_of_layers(jit):
    caches = [None, (ones(1, 2), ones(1, 2) * 2), None]
    caches[0] = caches[2] = ones(1, 2), ones(1, 2) * 3

    @jit
    def extend(x):
        for i in range(len(caches)):
            key, value = caches[i]
            caches[i] = torch.cat([key, x]), torch.cat([value, x * 2])
            x = x + caches[i][1].sum(0, keepdim=True)
        return x

    for i in range(8):
        yield extend(ones(1, 2) * i), caches


@case(versions=6)
def pairs_that_are_arguments_too(jit):
    state = {"pair": (ones(2), ones(2) * 2)}

    @jit
    def f(x):
        a, b = state["pair"]
        x.mul_(2)
        state["pair"] = a + x, b * a
        return a - b

    shared = ones(2)
    for _ in range(4):
        yield f(shared), state, shared
    state["pair"] = shared, ones(2)
    yield f(shared), state, shared
    for _ in range(3):
        yield f(ones(2)), state, shared
    yield f(state["pair"][0]), state


@case(versions=4)
def pairs_reached_by_another_name(jit):
    first = ones(2)
    state, other = {"pair": (first, ones(2) * 2)}, [first]

    @jit
    def f(x):
        a, b = state["pair"]
        other[0].mul_(2)
        state["pair"] = a + x, b * 1
        return a - other[0]

    for i in range(6):
        yield f(ones(2) * i), state, other
        if i % 2:
            state["pair"] = other[0], ones(2)
            yield f(ones(2)), state, other


@case(versions=3)
def parameters_made_anew_under_a_key(jit):
    state = {"params": {"w": ones(3), "b": torch.zeros(3)}, "steps": 0}

    @jit
    def step(x):
        loss = lambda p: ((p["w"] * x + p["b"] - 1) ** 2).sum()  # noqa: E731
        gradients = torch.func.grad(loss)(state["params"])
        state["params"] = {k: state["params"][k] - 0.1 * g for k, g in gradients.items()}
        state["steps"] += 1
        return state["params"]["w"].sum()

    for i in range(10):
        yield step(ones(3) * i), state
    state["params"] = {"w": ones(3) * 2, "b": ones(3)}
    yield step(ones(3)), state
    state["params"]["b"] = torch.zeros(3)
    yield step(ones(3)), state


@case(versions=4)
def lists_made_anew_under_a_key(jit):
    state = {"kept": [torch.zeros(2), ones(2)], "all": []}

    @jit
    def step(x):
        state["kept"] = [k + x for k in state["kept"]]
        state["kept"].append(state["kept"][0] * 2)
        first = state["kept"].pop(0)
        state["kept"][0] = state["kept"][0] - first
        return first, len(state["kept"])

    for i in range(8):
        yield step(ones(2) * i), state
    state["kept"] = [ones(2), ones(2), ones(2)]
    for i in range(3):
        yield step(ones(2) * i), state
    state["kept"][0] = ones(2) * 9
    yield step(ones(2)), state


@case
def lists_under_a_key_that_others_hold(jit):
    kept = [torch.zeros(2), ones(2)]
    state, other = {"kept": kept}, {"kept": kept}

    @jit
    def step(x):
        other["kept"][0] = other["kept"][0] + x
        found = state["kept"][0] * 2
        state["kept"] = [found, state["kept"][1] + 1]
        return found + other["kept"][1]

    for i in range(4):
        yield step(ones(2) * i), state, other
        other["kept"] = state["kept"]
        yield step(ones(2) * i), state, other
    state["kept"] = [ones(2), ones(2) * 3]
    for i in range(3):
        yield step(ones(2) * i), state, other
    other["kept"] = state["kept"]
    for i in range(3):
        yield step(ones(2) * i), state, other, kept


@case
def lists_under_a_key_that_are_arguments(jit):
    state = {"kept": [torch.zeros(2), ones(2)]}

    @jit
    def step(given, x):
        given.append(x)
        state["kept"] = [k + 1 for k in state["kept"]]
        return sum(state["kept"]) - given[0]

    for i in range(5):
        yield step([ones(2)], ones(2) * i), state
    yield step(state["kept"], ones(2)), state
    for i in range(4):
        yield step([ones(2)], ones(2) * i), state
    state["kept"] = state["kept"][:2]
    yield step(state["kept"], ones(2)), state


@dataclasses.dataclass(frozen=True, order=True)
class Place:
    """A key with a number of the call."""

    number: int
    name: str = "a"


@case(versions=4)
def records_as_keys_of_results(jit):
    @jit
    def f(x, n):
        place = Place(n)
        return {place: x * n, (n, Place(n, "b")): x + 1}, {Place(n + 1), place}

    for n in (1, 2, 3, 4, 2):
        yield f(ones(2), n)


@case(versions=6)
def totals_by_records(jit):
    totals = {}

    @jit
    def f(x, n):
        totals[Place(n)] = totals.get(Place(n), 0) + 1
        return x * totals[Place(n)], max(totals)

    for n in (1, 2, 3, 2, 1):
        yield f(ones(2), n), totals


@case(versions=3)
def a_list_in_a_dictionary_in_a_dictionary(jit):
    metrics = {"train": {"loss": [], "steps": 0}, "test": {"loss": []}}

    @jit
    def f(x):
        metrics["train"]["loss"].append(x.sum().item())
        metrics["train"]["steps"] += 1
        return x * 2

    for i in range(20):
        yield f(ones(2) * i), metrics
    metrics["test"]["loss"].append(1.0)
    metrics["test"] = None
    yield f(ones(2)), metrics
    before = metrics["train"]["loss"]
    metrics["train"]["loss"] = []
    yield f(ones(2)), metrics, before
    before = metrics["train"]
    metrics["train"] = {"loss": [5.0], "steps": 7}
    yield f(ones(2)), metrics, before
    del metrics["train"]["loss"]
    yield attempt(f, ones(2)), metrics


@case(versions=5)
def a_number_in_a_dictionary_in_an_attribute(jit):
    config = types.SimpleNamespace(parts={"optim": {"lr": 0.5, "steps": [1, 2]}, "log": {"every": 2}})

    @jit
    def f(x):
        if "decay" in config.parts["optim"]:
            x = x * config.parts["optim"]["decay"]
        return x * config.parts["optim"]["lr"]

    for i in range(4):
        config.parts["log"]["every"] = i
        config.parts["optim"]["steps"].append(i)
        yield f(ones(2))
    for config.parts["optim"]["lr"] in (0.25, 2.0, 3.0):
        yield f(ones(2))
    config.parts["optim"]["decay"] = 0.1
    yield f(ones(2))
    config.parts["optim"] = {"lr": 1.0}
    yield f(ones(2))
    config.parts = {"optim": {"lr": -1.0, "decay": 2.0}}
    yield f(ones(2))


@case
def a_dictionary_in_another_that_is_also_read_as_a_whole(jit):
    table = {"a": {"x": [1.0], "y": 2.0}}

    @jit
    def f(x):
        table["a"]["x"].append(x.sum().item())
        y = x * table["a"]["y"]
        return y * len(table["a"]), sorted(table["a"])

    for i in range(3):
        yield f(ones(2) * i), table["a"]
    table["a"]["z"] = None
    yield f(ones(2)), table["a"]
    table["a"]["y"] = 3.0
    yield f(ones(2)), table["a"]
    table["a"] = {"x": [], "y": 1.0}
    yield f(ones(2)), table["a"]


@case
def one_dictionary_under_two_keys(jit):
    inner = {"n": 1.0, "seen": []}
    table = {"a": inner, "b": inner}

    @jit
    def f(x):
        table["a"]["n"] = table["a"]["n"] + 1.0
        table["b"]["seen"] += [table["b"]["n"]]
        return x * table["b"]["n"]

    for _ in range(4):
        yield f(ones(2)), table
    table["b"] = {"n": 10.0, "seen": [0.0]}
    yield f(ones(2)), table
    yield f(ones(2)), table


@case
def a_number_is_replaced_and_then_another_key_is_removed(jit):
    table = {"n": 1.0, "v": 3}

    @jit
    def f(x):
        if x.shape[0] == 3:
            table["n"] += 1.5
        table.pop("v", None)
        return x * table["n"]

    for size in (3, 4, 3, 4, 3):
        yield f(ones(size)), table


class Named:
    """A key that is found by code of its own."""

    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return isinstance(other, Named) and self.name == other.name


@case
def counts_under_keys_with_a_hash_of_their_own(jit):
    counts, name = collections.Counter(), Named("a")

    @jit
    def f(x):
        counts[name] += 1
        return x * 2

    for _ in range(4):
        yield f(ones(2)), list(counts.values())
    counts[Named("a")] = 20
    yield f(ones(2)), list(counts.values())


@case
def numbers_under_tuples_with_a_hash_of_their_own(jit):
    pair = "a", Named("b")
    table = {pair: 1.0}

    @jit
    def f(x):
        table[pair] *= 2
        return x * 2

    for _ in range(4):
        yield f(ones(2)), list(table.values())


@case(outcome="fell back")
def items_assigned_and_then_deleted(jit):
    table, alive = {"a": 1.0, "b": 2.0, "c": 3.0}, weakref.WeakSet()

    @jit
    def f(x):
        keys = list(table)
        table["a"] = 5.0
        for key in keys:
            del table[key]
        return x * len(alive), keys

    yield f(ones(2)), table
    table.update(c=1.0, b=2.0, a=3.0)
    yield f(ones(2)), table


@case
def a_default_factory_replaced(jit):
    totals = collections.defaultdict(lambda: 5.0, a=1.0)
    f = jit(lambda x: x * totals["a"] + totals["missing"])
    for factory in (totals.default_factory, lambda: 77.0, lambda: 7.0):
        totals.default_factory = factory
        totals.pop("missing", None)
        yield f(ones(2)), totals
        yield f(ones(2)), totals
