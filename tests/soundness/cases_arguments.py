"""Kinds of arguments and of callables."""

from __future__ import annotations

import array
import collections
import copy
import dataclasses
import enum
import functools
import heapq
import pickle
import types
from typing import Any, ClassVar, NamedTuple

import numpy as np

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, attempt, case


def ones(*shape):
    return torch.ones(*shape)


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class Batch:
    inputs: Any
    targets: Any
    scale: float = 1.0


@dataclasses.dataclass(frozen=True)
class Settings:
    rate: float
    kind: str


class Mode(enum.Enum):
    ADD = 1
    MUL = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 10


@case(versions=2)
def nested_lists_and_tuples(jit):
    f = jit(lambda pairs: sum((a * b for a, b in pairs), torch.zeros(1)))
    f([(ones(2), 2.0), (ones(2), 3.0)])
    f([(ones(3), 4.0), (ones(3), 5.0)])
    yield f([(ones(2), 2.0)])


@case
def dictionaries_with_other_keys(jit):
    f = jit(lambda d: {k: v * 2 for k, v in d.items()})
    f({"a": ones(1)})
    f({"a": ones(1), "b": ones(2)})
    f({"b": ones(2), "a": ones(1)})
    yield f({})


@case
def nested_structures_of_results(jit):
    f = jit(lambda d, pair: {"a": [d["x"] + pair[0], (d["y"]["z"] * pair[1],)], "n": None, "s": "text"})
    for number in (1.0, 2.0):
        yield f({"x": ones(1), "y": {"z": ones(2)}}, (number, 3))


@case
def named_tuples(jit):
    f = jit(lambda pair: Pair(pair.right, pair.left + pair[1]))
    for n in (1, 2, 3):
        yield f(Pair(ones(n), ones(n) * 2))


@case(versions=1)
def dataclasses_as_arguments_and_results(jit):
    f = jit(lambda b: Batch(b.inputs * b.scale, b.inputs - b.targets, b.scale + 1))
    for n in (2, 3, 4):
        yield f(Batch(ones(n), ones(n), n / 4))


@case
def frozen_dataclasses(jit):
    f = jit(lambda x, s: (x * s.rate if s.kind == "mul" else x + s.rate, dataclasses.replace(s, rate=s.rate * 2)))
    for rate, kind in ((0.5, "mul"), (0.25, "mul"), (0.5, "add")):
        yield f(ones(2), Settings(rate, kind))


@case
def ordered_and_default_dictionaries(jit):
    f = jit(lambda d: d["a"] + d["b"])
    yield f(collections.OrderedDict(a=ones(2), b=ones(2)))
    yield f(collections.OrderedDict(b=ones(2) * 2, a=ones(2)))
    d = collections.defaultdict(lambda: torch.zeros(2), a=ones(2))
    yield f(d), list(d)


@case(versions=2)
def numpy_arrays(jit):
    def f(x, array):
        return x + torch.from_numpy(array)

    f = jit(f)
    for n in (2, 3, 4):
        f(ones(n), np.arange(n, dtype=np.float32) + n)
    array = np.zeros(2, np.float32)
    f(ones(2), array)
    array += 5
    yield f(ones(2), array)


@case(versions=1)
def numpy_arrays_written_through_a_tensor(jit):
    f = jit(lambda array: torch.from_numpy(array).add_(1))
    array = np.zeros(3, np.float32)
    for _ in range(3):
        f(array)
    yield array


@case
def numpy_arrays_computed_by_numpy(jit):
    f = jit(lambda x, array: x * torch.tensor(np.sqrt(array)))
    for n in (1.0, 4.0, 9.0):
        yield f(ones(2), np.full(2, n, np.float32))


@case
def numpy_scalars(jit):
    f = jit(lambda x, k: x * k)
    for value in (np.float64(2.0), np.float64(3.0), np.float32(0.5), np.int64(3), np.bool_(True)):
        yield attempt(f, ones(2), value)


@case
def comparisons_of_numpy_scalars(jit):
    f = jit(lambda x, k: (x * 2, (k > 1) + (k > 0), ~(k == 2), type(k < 3), repr(0 < k < 5)))
    for kind in (np.float64, np.int64, np.int32, np.uint8):
        for value in (0, 1, 2, 7):
            yield attempt(f, ones(2), kind(value))


@case(versions=1)
def numbers_as_run_time_inputs(jit):
    f = jit(lambda x, lr, k: (x * lr).sum() / x.shape[0] + k)
    for n, lr, k in ((3, 0.1, 2), (9, 0.5, 7), (100, 1e-3, -1), (17, float("inf"), 0)):
        f(ones(n), lr, k)
    yield "done"


@case(versions=2)
def zeros_and_infinities_as_numbers(jit):
    f = jit(lambda x, k: x * k)
    for k in (0.0, -0.0, float("nan"), float("inf"), 1e308, 5e-324):
        f(ones(1), k)
    for k in (0, -1, 2**40, -(2**62)):
        f(torch.ones(1, dtype=torch.int64), k)
    yield "done"


@case
def ints_floats_and_bools_promote_as_they_do(jit):
    f = jit(lambda x, k: x + k)
    for k in (2, 2.0, True, False, 2, 3.5):
        yield f(torch.ones(2, dtype=torch.int64), k)


@case
def an_int_beyond_64_bits(jit):
    f = jit(lambda x, k: x * float(k % 7))
    for k in (3, 2**62, 2**70, 10**30, 5):
        yield f(ones(1), k)


@case(versions=3)
def strings(jit):
    f = jit(lambda x, how: x + 1 if how == "add" else x * 5)
    for how in ("add", "mul", "add", "".join(("m", "ul"))):
        yield f(ones(1), how)


@case
def enumerations(jit):
    f = jit(lambda x, mode, level: (x + 1 if mode is Mode.ADD else x * 5) * level)
    for mode, level in ((Mode.ADD, Level.LOW), (Mode.MUL, Level.LOW), (Mode.ADD, Level.HIGH), (Mode.ADD, Level.LOW)):
        yield f(ones(1), mode, level)


@case
def none_or_a_tensor(jit):
    f = jit(lambda x, bias=None: x if bias is None else x + bias)
    yield f(ones(2))
    yield f(ones(2), ones(2))
    yield f(ones(2), None)


@case
def callables_as_arguments(jit):
    f = jit(lambda x, g: g(x) + 1)
    scale = 2.0
    for g in (torch.exp, lambda x: x * scale, torch.exp, nn.ReLU(), functools.partial(torch.add, other=2)):
        yield f(ones(2), g)
    scale = 5.0
    g = lambda x: x * scale  # noqa: E731
    yield f(ones(2), g)
    scale = 7.0
    yield f(ones(2), g)


@case
def a_module_as_an_argument(jit):
    f = jit(lambda model, x: model(x).sum())
    torch.manual_seed(0)
    a, b = nn.Linear(3, 2), nn.Linear(3, 2)
    for model in (a, b, a):
        f(model, ones(1, 3)).backward()
    a.bias = None
    f(a, ones(1, 3)).backward()
    yield a.weight.grad, b.weight.grad


@case
def dtypes_and_devices_as_arguments(jit):
    f = jit(lambda x, dtype: x.to(dtype) / 3)
    for dtype in (torch.float64, torch.int32, torch.float32, torch.float64):
        yield f(ones(2), dtype)


@case
def slices_and_ranges_as_arguments(jit):
    f = jit(lambda x, s, r: x[s] * sum(r))
    for s, r in ((slice(0, 2), range(3)), (slice(1, 3), range(3)), (slice(None, None, 2), range(4))):
        yield f(torch.arange(4.0), s, r)


@case
def sets_and_frozensets_as_arguments(jit):
    f = jit(lambda x, s: x * len(s) + (1 if 3 in s else 0))
    chosen = {1, 2}
    yield f(ones(1), chosen)
    chosen.add(3)
    yield f(ones(1), chosen)
    yield f(ones(1), frozenset({3}))
    yield f(ones(1), frozenset({3, 4}))


@case
def keywords_defaults_and_their_order(jit):
    @jit
    def f(x, scale=2.0, *, shift=1.0):
        return x * scale + shift

    f(ones(1))
    f(ones(1), 3.0)
    f(ones(1), shift=0.5)
    f(scale=4.0, x=ones(1))
    f(x=ones(1), scale=4.0)
    yield attempt(f), attempt(f, ones(1), wrong=1)


@case
def any_number_of_arguments(jit):
    @jit
    def f(*xs, **named):
        return sum(xs) + sum(named.values()) * 10, list(named)

    f(ones(1), ones(1))
    f(ones(1), a=ones(1), b=ones(1))
    f(ones(1), b=ones(1), a=ones(1))
    yield f(*[ones(1)] * 5)


@case
def a_default_that_was_replaced(jit):
    def f(x, scale=2.0):
        return x * scale

    g = jit(f)
    yield g(ones(1))
    f.__defaults__ = (5.0,)
    yield g(ones(1))


@case
def a_mutable_default(jit):
    def f(x, table={"scale": 2.0}):  # noqa: B006
        return x * table["scale"]

    g = jit(f)
    yield g(ones(1))
    f.__defaults__[0]["scale"] = 3.0
    yield g(ones(1))


@case
def a_tensor_as_a_default(jit):
    bias = torch.zeros(2)

    def f(x, bias=bias):
        return x + bias

    f = jit(f)
    for _ in range(3):
        f(ones(2))
        bias += 1
    yield bias


@case
def methods_of_several_instances(jit):
    class Model:
        def __init__(self, scale):
            self.scale = scale

        @jit
        def forward(self, x):
            return x * self.scale

    a, b = Model(2.0), Model(3.0)
    for m in (a, b, a):
        yield m.forward(ones(1))
    a.scale = 5.0
    yield a.forward(ones(1)), b.forward(ones(1))


@case
def a_bound_method(jit):
    class Model:
        scale = 2.0

        def forward(self, x):
            return x * self.scale

    model = Model()
    f = jit(model.forward)
    for model.scale in (2.0, 3.0, 2.0):
        yield f(ones(1))


@case
def static_and_class_methods(jit):
    class Model:
        scale = 2.0

        @staticmethod
        @jit
        def double(x):
            return x * 2

        @classmethod
        def scaled(cls, x):
            return x * cls.scale

    yield Model.double(ones(1)), Model().double(ones(2))
    f = jit(Model.scaled)
    for Model.scale in (2.0, 3.0):
        yield f(ones(1))


@case
def properties_read_inside(jit):
    class Model:
        base = 2.0

        @property
        def scale(self):
            return self.base * 10

        def forward(self, x):
            return x * self.scale

    model = Model()
    f = jit(model.forward)
    for model.base in (2.0, 3.0):
        yield f(ones(1))
    Model.scale = property(lambda self: 7.0)
    yield f(ones(1))


@case
def partials(jit):
    def f(x, scale, shift=0.0):
        return x * scale + shift

    g = jit(functools.partial(f, scale=2.0))
    yield g(ones(1)), g(ones(1), shift=3.0), g(ones(1), scale=5.0)
    h = jit(functools.partial(f, ones(2)))
    yield h(2.0), h(3.0)


@case
def callable_objects_that_change(jit):
    class Scale:
        def __init__(self):
            self.factor = 2.0

        def __call__(self, x):
            return x * self.factor

    scale = Scale()
    f = jit(scale)
    for scale.factor in (2.0, 3.0, 3.0):
        yield f(ones(1))


@case
def a_jitted_module_keeps_its_state(jit):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    jitted = jit(model)
    yield list(jitted.state_dict()), jitted(ones(1, 2))
    other = copy.deepcopy(jitted)
    with torch.no_grad():
        model[0].weight.fill_(1.0)
    yield jitted(ones(1, 2)), other(ones(1, 2))
    again = pickle.loads(pickle.dumps(jitted))
    yield again(ones(1, 2)), isinstance(again, nn.Sequential)
    jitted.load_state_dict(other.state_dict())
    yield jitted(ones(1, 2)), model(ones(1, 2))


@case
def tensors_of_every_dtype(jit):
    f = jit(lambda x: x + x)
    for dtype in (torch.float32, torch.float64, torch.int32, torch.bool, torch.float16, torch.uint8, torch.float32):
        yield f(torch.ones(3, dtype=dtype))


@case
def the_same_object_twice(jit):
    f = jit(lambda x, y: (x, y, x + y, x is y))
    x = ones(2)
    yield f(x, x)
    yield f(x, ones(2))
    yield f(x, x)


@case
def objects_with_attributes(jit):
    f = jit(lambda x, config: x * config.scale + config.bias)
    config = types.SimpleNamespace(scale=2.0, bias=ones(1))
    yield f(ones(1), config)
    config.scale = 3.0
    yield f(ones(1), config)
    config.bias = ones(1) * 10
    yield f(ones(1), config)
    yield f(ones(1), types.SimpleNamespace(scale=1.0, bias=torch.zeros(1)))


@case
def objects_with_slots(jit):
    class Config:
        __slots__ = ("bias", "scale")

    config = Config()
    config.scale, config.bias = 2.0, ones(1)
    f = jit(lambda x: x * config.scale + config.bias)
    yield f(ones(1))
    config.scale = 4.0
    yield f(ones(1))
    config.bias = torch.zeros(1)
    yield f(ones(1))


@case
def a_list_argument_that_a_library_changes(jit):
    f = jit(lambda x, heap: (heapq.heappush(heap, x.shape[0]), x * heap[0])[1])
    heap = [5, 7]
    for n in (3, 4, 3):
        yield f(ones(n), heap), heap


@case
def a_counter_argument_that_its_class_updates(jit):
    f = jit(lambda x, counts: (counts.update("ab"), x * counts["a"])[1])
    counts: Any = collections.Counter()
    for _ in range(3):
        yield f(ones(2), counts), dict(counts)


@case
def an_array_of_the_standard_library_as_an_argument(jit):
    f = jit(lambda x, weights: x * weights[0] + len(weights))
    weights = array.array("d", [1.0, 2.0])
    yield f(ones(2), weights)
    weights[0] = 5.0
    yield f(ones(2), weights)
    weights.append(1.0)
    yield f(ones(2), weights)


@case(outcome=FELL_BACK)
def which_tuple_an_argument_is(jit):
    default = (1, 2)
    kept = types.SimpleNamespace(value=default)
    f = jit(lambda x, chosen: x * 2 if kept.value is chosen else x * 3)
    for chosen in (default, (1, 2), default):
        yield f(ones(2), chosen)


@case
def lists_with_methods_of_their_own_as_arguments(jit):
    class Items(list):
        log: ClassVar[list[Any]] = []

        def __iter__(self):
            self.log.append("iterate")
            return super().__iter__()

    f = jit(lambda x, items: x * items[0])
    items = Items([2.0])
    for _ in range(3):
        yield f(ones(2), items), list(items.log)


@case
def objects_made_inside_and_returned(jit):
    class Output:
        def __init__(self, logits, size):
            self.logits, self.size = logits, size

    f = jit(lambda x: Output(x * 2, x.shape[0]))
    for n in (1, 2, 3):
        out = f(ones(n))
        yield out.logits, out.size
    yield f(ones(3)) is f(ones(3))


@case
def sets_made_inside_and_returned(jit):
    f = jit(lambda x: (x + 1, {1, 2}))
    for n in range(3):
        _, found = f(ones(2))
        found.add(10 + n)
        yield found


@case
def containers_made_inside_are_new_in_every_call(jit):
    f = jit(lambda x: ([x * 2], {"n": [1, 2]}))
    first, table = f(ones(2))
    first.append("more")
    table["n"].append(3)
    yield f(ones(2))


@case
def arrays_made_inside_and_returned(jit):
    f = jit(lambda x: (x + 1, np.zeros(2)))
    for _ in range(2):
        _, array = f(ones(2))
        array += 1
        yield array
