"""What a function does to Python objects, files and random states besides computing."""

from __future__ import annotations

import collections
import contextlib
import functools
import io
import itertools
import logging
import os
import random
import tempfile
import time
import types
import warnings
from pathlib import Path

import numpy as np

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, attempt, case

COUNTER = 0
HISTORY: list = []


def ones(*shape):
    return torch.ones(*shape)


# -- attributes, items, variables --------------------------------------------------------------------------------------


@case(versions=1)
def a_counter_in_an_attribute(jit):
    class Model:
        calls = 0

        def __call__(self, x):
            self.calls += 1
            return x * self.calls

    model = Model()
    f = jit(model)
    for _ in range(5):
        f(ones(1))
    model.calls = 100
    f(ones(1))
    yield model.calls


@case
def a_counter_in_a_module(jit):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.steps = 0

        def forward(self, x):
            self.steps += 1
            return self.layer(x) / self.steps

    torch.manual_seed(0)
    model = Model()
    f = jit(model)
    for _ in range(4):
        yield f(ones(1, 2)), model.steps


@case
def a_float_attribute_that_decays(jit):
    state = types.SimpleNamespace(rate=1.0)

    def f(x):
        state.rate *= 0.5
        return x * state.rate

    f = jit(f)
    for _ in range(4):
        f(ones(1))
    yield state.rate


@case(versions=1)
def a_global_counter(jit):
    global COUNTER
    COUNTER = 0

    def f(x):
        global COUNTER
        COUNTER += 1
        return x + COUNTER

    f = jit(f)
    for _ in range(5):
        f(ones(1))
    yield COUNTER


@case
def a_nonlocal_counter(jit):
    count = 0

    def f(x):
        nonlocal count
        count += 2
        return x + count

    f = jit(f)
    for _ in range(5):
        yield f(ones(1)), count


@case
def a_counter_in_a_dictionary(jit):
    stats = {"calls": 0}

    def f(x):
        stats["calls"] += 1
        return x * 2

    f = jit(f)
    for _ in range(5):
        yield f(ones(1)), stats


@case
def a_counter_in_a_list(jit):
    stats = [0, 10]

    def f(x):
        stats[1] -= 1
        return x * stats[1]

    f = jit(f)
    for _ in range(4):
        yield f(ones(1)), stats


@case
def a_counter_that_is_looked_at(jit):
    state = types.SimpleNamespace(step=0)

    def f(x):
        state.step += 1
        if state.step % 3 == 0:
            return x * 100
        return x

    f = jit(f)
    for _ in range(7):
        f(ones(1))
    yield state


@case
def an_attribute_assigned_a_constant(jit):
    state = types.SimpleNamespace(done=False)

    def f(x):
        state.done = True
        return x + 1

    f = jit(f)
    for _ in range(3):
        f(ones(1))
        yield state
        state.done = False


@case
def an_attribute_assigned_a_size(jit):
    state = types.SimpleNamespace(last=None)

    def f(x):
        state.last = tuple(x.shape)
        return x + 1

    f = jit(f)
    for n in (2, 3, 4):
        f(ones(n, 2))
        yield state


@case(versions=1)
def an_attribute_assigned_an_argument(jit):
    state = types.SimpleNamespace(last=None, rate=None)

    def f(x, rate):
        state.last, state.rate = x, rate
        return x * rate

    f = jit(f)
    for n in (2, 3, 4):
        x = ones(n)
        f(x, n / 4)
        yield state, state.last is x


@case
def a_tensor_kept_in_an_attribute(jit):
    class Model(nn.Module):
        def forward(self, x):
            self.hidden = x * 2
            return self.hidden + 1

    model = Model()
    f = jit(model)
    for value in (1.0, 2.0, 3.0):
        out = f(torch.full((2,), value))
        yield out, model.hidden
    kept = model.hidden
    f(ones(2))
    yield kept, model.hidden, kept is model.hidden


@case
def a_tensor_kept_in_a_dictionary(jit):
    kept = {}

    def f(x):
        kept["y"] = x * 2
        return x + 1

    f = jit(f)
    for value in (1.0, 2.0, 3.0):
        f(torch.full((1,), value))
        yield kept


@case
def a_tensor_kept_and_differentiated(jit):
    kept = []
    w = torch.ones(2, requires_grad=True)

    def f(x):
        kept.append((w * x).sum())
        return x + 1

    f = jit(f)
    for n in (1.0, 2.0, 3.0):
        f(torch.full((2,), n))
    sum(kept).backward()
    yield w.grad, kept


@case(versions=1)
def a_moving_average_as_an_attribute(jit):
    class Average:
        def __init__(self):
            self.value = torch.zeros(2)

        def __call__(self, x):
            self.value = self.value * 0.5 + x * 0.5
            return self.value

    average = Average()
    f = jit(average)
    for n in (1.0, 2.0, 3.0, 4.0):
        f(torch.full((2,), n))
    yield average


@case
def a_recurrent_state_is_replaced(jit):
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = None

        def forward(self, x):
            self.hidden = x if self.hidden is None else torch.tanh(self.hidden + x)
            return self.hidden.sum()

    cell = Cell()
    f = jit(cell)
    for n in range(4):
        yield f(torch.full((2,), float(n))), cell.hidden
    cell.hidden = None
    yield f(ones(2))


@case
def an_attribute_deleted(jit):
    state = types.SimpleNamespace(temporary=1)

    def f(x):
        if hasattr(state, "temporary"):
            del state.temporary
            return x
        return x * 2

    f = jit(f)
    yield f(ones(1)), f(ones(1)), state
    state.temporary = 5
    yield f(ones(1)), f(ones(1)), state


@case
def setattr_with_a_computed_name(jit):
    state = types.SimpleNamespace()

    def f(x, name):
        setattr(state, name, x.shape[0])
        return x * getattr(state, name)

    f = jit(f)
    for n, name in ((1, "a"), (2, "b"), (3, "a")):
        yield f(ones(n), name), state


@case
def swapped_attributes(jit):
    state = types.SimpleNamespace(a=torch.zeros(1), b=torch.ones(1))

    def f(x):
        state.a, state.b = state.b, state.a
        return x + state.a

    f = jit(f)
    for _ in range(4):
        yield f(torch.zeros(1))


@case
def an_object_with_slots_assigned(jit):
    class Meter:
        __slots__ = ("count", "total")

        def __init__(self):
            self.total, self.count = 0.0, 0

    meter = Meter()

    def f(x):
        meter.total += x.sum().item()
        meter.count += x.shape[0]
        return x

    f = jit(f)
    for n in (2, 3, 4):
        f(ones(n))
        yield meter


@case
def an_attribute_of_an_argument_assigned(jit):
    def f(x, state):
        state.count += 1
        return x * state.count

    f = jit(f)
    a, b = types.SimpleNamespace(count=0), types.SimpleNamespace(count=10)
    for state in (a, b, a):
        yield f(ones(1), state), state


@case
def a_class_attribute_assigned(jit):
    class Model:
        made = 0

        def __call__(self, x):
            Model.made += 1
            return x * 2

    f = jit(Model())
    for _ in range(3):
        f(ones(1))
        yield Model.made


# -- lists, dictionaries, sets -----------------------------------------------------------------------------------------


@case(versions=1)
def a_list_of_losses(jit):
    losses = []

    def f(x):
        loss = (x * x).sum()
        losses.append(loss.item())
        return loss

    f = jit(f)
    for n in range(2, 6):
        f(torch.full((3,), float(n)))
    yield losses


@case
def a_list_of_tensors(jit):
    kept = []

    def f(x):
        kept.append(x * 2)
        kept.append(x)
        return x + 1

    f = jit(f)
    for n in (1.0, 2.0, 3.0):
        f(torch.full((2,), n))
    yield kept


@case
def a_global_list_of_constants(jit):
    HISTORY.clear()

    def f(x):
        HISTORY.append("called")
        HISTORY.extend((x.shape[0], x.dtype))
        return x + 1

    f = jit(f)
    for n in (2, 3, 4):
        f(ones(n))
    yield HISTORY


@case
def a_list_of_an_object(jit):
    class Logger:
        def __init__(self):
            self.seen = []

        def call(self, x):
            self.seen.append(len(self.seen))
            return x + 1

    logger = Logger()
    f = jit(logger.call)
    for _ in range(4):
        f(ones(1))
    yield logger


@case
def a_list_argument_grows(jit):
    def f(log, x):
        log.append(x.shape[0])
        return x + 1

    f, log = jit(f), []
    for n in (1, 2, 3):
        f(log, ones(n))
    yield log


@case
def a_dictionary_argument_is_filled(jit):
    def f(cache, x):
        cache["y"] = x + 1
        return x

    f = jit(f)
    for _ in range(3):
        cache = {}
        f(cache, ones(1))
        yield cache


@case
def a_list_in_a_list(jit):
    logs = [[], []]

    def f(x):
        logs[0].append(1)
        logs[-1].append(x.shape[0])
        return x + 1

    f = jit(f)
    for n in (2, 3, 4):
        f(ones(n))
        yield logs


@case
def a_method_kept_in_a_variable(jit):
    seen = []
    add = seen.append

    def f(x):
        add(1)
        return x + 1

    f = jit(f)
    for _ in range(3):
        f(ones(2))
        yield seen


@case
def a_queue_of_fixed_length(jit):
    recent = collections.deque(maxlen=2)

    def f(x):
        recent.append(x.sum().item())
        return x + len(recent)

    f = jit(f)
    for n in range(5):
        yield f(torch.full((2,), float(n))), list(recent)


@case
def a_defaultdict_and_a_counter(jit):
    groups, counts = collections.defaultdict(list), collections.Counter()

    def f(x, name):
        groups[name].append(x.shape[0])
        counts[name] += 1
        return x + 1

    f = jit(f)
    for n, name in ((1, "a"), (2, "b"), (3, "a"), (4, "a")):
        f(ones(n), name)
        yield dict(groups), dict(counts)


@case
def a_set_of_what_was_seen(jit):
    seen = set()

    def f(x):
        new = x.shape[0] not in seen
        seen.add(x.shape[0])
        return x * 2 if new else x

    f = jit(f)
    for n in (2, 3, 2, 3, 4):
        f(ones(n))
    yield seen


@case
def a_list_is_sorted_popped_and_cleared(jit):
    numbers = [3, 1, 2]

    def f(x):
        numbers.sort()
        last = numbers.pop()
        return x * last

    f = jit(f)
    for _ in range(3):
        yield f(ones(1)), numbers
        numbers.append(7)


@case
def items_assigned_and_deleted(jit):
    table = {"a": 1, "b": 2}

    def f(x):
        table["c"] = x.shape[0]
        table.pop("a", None)
        table.pop("b", None)
        return x

    f = jit(f)
    for n in (2, 3):
        f(ones(n))
        yield table


@case
def a_slice_of_a_list_assigned(jit):
    window = [0, 0, 0]

    def f(x):
        window[1:] = [x.shape[0], window[1]]
        return x + 1

    f = jit(f)
    for n in (2, 3, 4):
        f(ones(n))
        yield window


@case
def dictionaries_merged_in_place(jit):
    totals = {"n": 0}

    def f(x):
        nonlocal totals
        totals |= {"n": totals["n"] + x.shape[0], "last": x.shape[0]}
        return x

    f = jit(f)
    for n in (2, 3, 4):
        f(ones(n))
        yield totals


@case
def a_list_extended_in_place(jit):
    seen = []
    holder = types.SimpleNamespace(seen=seen)

    def f(x):
        holder.seen += [x.shape[0]]
        return x

    f = jit(f)
    for n in (2, 3, 4):
        f(ones(n))
        yield seen, holder.seen is seen


@case
def a_cache_of_tensors_by_size(jit):
    cache = {}

    def positions(n):
        if n not in cache:
            cache[n] = torch.arange(n).float()
        return cache[n]

    f = jit(lambda x: x + positions(x.shape[0]))
    for n in (2, 3, 2, 3, 4):
        f(ones(n))
    yield cache


@case
def a_cached_function(jit):
    calls = []

    @functools.cache
    def scale(n):
        calls.append(n)
        return n * 2.0

    f = jit(lambda x, k: x * scale(k))
    for k in (1, 2, 1, 2, 3):
        f(ones(2), k)
    yield calls, scale.cache_info().misses


@case
def an_array_written(jit):
    history = np.zeros(4)

    def f(x, i):
        history[i] = x.sum().item()
        return x + 1

    f = jit(f)
    for i in range(4):
        f(torch.full((2,), float(i)), i)
    yield history


@case
def a_helper_with_an_effect(jit):
    log = []

    def helper(x):
        log.append(len(log))
        return x * 2

    f = jit(lambda x: helper(x) + helper(x + 1))
    for _ in range(3):
        f(ones(1))
    yield log


@case
def an_effect_behind_a_flag(jit):
    seen = []

    def f(x, flag):
        if flag:
            seen.append(1)
        return x + 1

    f = jit(f)
    for flag in (False, False, True, True, False):
        f(ones(2), flag)
        yield seen


@case
def an_effect_behind_a_value(jit):
    seen = []

    def f(x):
        if x.sum() > 2:
            seen.append(x.sum().item())
        return x + 1

    f = jit(f)
    for value in (1.0, 5.0, 1.0, 6.0, 7.0):
        f(torch.full((2,), value))
        yield seen


@case
def an_effect_in_a_loop(jit):
    seen = []

    def f(x, n):
        for i in range(n):
            x = x * 2
            seen.append((i, x.sum().item()))
        return x

    f = jit(f)
    for n in (2, 3, 2):
        f(ones(2), n)
        yield seen


@case
def an_effect_before_an_exception(jit):
    seen = []

    def f(x):
        seen.append("start")
        if x.shape[0] > 2:
            raise ValueError("too long")
        seen.append("end")
        return x

    f = jit(f)
    for n in (2, 3, 2, 4):
        with contextlib.suppress(ValueError):
            f(ones(n))
        yield seen


@case
def an_effect_in_a_setter(jit):
    class Model:
        def __init__(self):
            self.log = []
            self._scale = 1.0

        @property
        def scale(self):
            return self._scale

        @scale.setter
        def scale(self, value):
            self.log.append(value)
            self._scale = value

        def __call__(self, x):
            self.scale = x.shape[0] / 2
            return x * self.scale

    model = Model()
    f = jit(model)
    for n in (2, 3, 4):
        yield f(ones(n)), model


@case
def an_effect_in_an_operator(jit):
    class Tracker:
        def __init__(self):
            self.uses = 0

        def __mul__(self, x):
            self.uses += 1
            return x * 3

    tracker = Tracker()
    f = jit(lambda x: tracker * x)
    for _ in range(3):
        yield f(ones(1)), tracker


@case
def effects_in_a_forward_hook(jit):
    model, shapes = nn.Linear(2, 3), []
    torch.manual_seed(0)
    model.register_forward_hook(lambda module, inputs, output: shapes.append(tuple(output.shape)))
    f = jit(model)
    for n in (2, 3, 4):
        f(ones(n, 2))
        yield shapes


@case
def activations_saved_by_a_hook(jit):
    torch.manual_seed(0)
    model, saved = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), {}

    def keep(module, inputs, output):
        saved["hidden"] = output.detach()

    model[0].register_forward_hook(keep)
    f = jit(model)
    for n in (1, 2, 3):
        yield f(torch.full((2, 2), float(n))), saved


@case
def effects_in_a_gradient_hook(jit):
    norms = []
    w = torch.ones(2, requires_grad=True)
    w.register_hook(lambda g: norms.append(g.sum().item()))

    def f(x):
        (w * x).sum().backward()

    f = jit(f)
    for n in (1.0, 2.0, 3.0):
        f(torch.full((2,), n))
    yield norms, w.grad


@case
def effects_in_a_backward_of_ones_own(jit):
    calls = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            calls.append("backward")
            return g * 2

    w = torch.ones(2, requires_grad=True)

    def f(x):
        Double.apply(w * x).sum().backward()

    f = jit(f)
    for n in (1.0, 2.0, 3.0):
        f(torch.full((2,), n))
    yield calls, w.grad


@case(outcome=FELL_BACK)
def effects_in_a_backward_run_outside(jit):
    calls = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            calls.append("forward")
            return x * 2

        @staticmethod
        def backward(ctx, g):
            calls.append("backward")
            return g * 2

    w = torch.ones(2, requires_grad=True)
    f = jit(lambda x: Double.apply(w * x).sum())
    for n in (1.0, 2.0, 3.0):
        f(torch.full((2,), n)).backward()
    yield calls, w.grad


# -- the world ---------------------------------------------------------------------------------------------------------


@case
def printed_constants(jit):
    def f(x):
        print("called")
        print("with", 1, 2.0, None, sep="-", end="!\n")
        return x + 1

    f = jit(f)
    for _ in range(3):
        f(ones(1))
        yield "between"


@case
def printed_sizes_and_numbers(jit):
    def f(x, rate):
        print(f"{x.shape[0]} rows, rate {rate:.3f}", rate)
        return x * rate

    f = jit(f)
    for n, rate in ((2, 0.5), (3, 0.25), (2, 0.125)):
        yield f(ones(n), rate)


@case
def printed_tensors(jit):
    def f(x):
        y = x.sum()
        print("sum:", y, y.item())
        return x + y

    f = jit(f)
    for n in (1.0, 2.0, 3.0):
        yield f(torch.full((2,), n))


@case
def printed_to_a_file_object(jit):
    out = io.StringIO()

    def f(x):
        print("to a file", x.shape, file=out)
        out.write("more\n")
        return x + 1

    f = jit(f)
    for n in (2, 3, 2):
        f(ones(n))
        yield out.getvalue()


@case
def logged_lines(jit):
    logger = logging.getLogger("soundness")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    seen = []

    class Handler(logging.Handler):
        def emit(self, record):
            seen.append((record.levelname, record.getMessage(), record.lineno, record.funcName))

    handler = Handler()
    logger.addHandler(handler)

    def f(x):
        logger.info("rows: %d", x.shape[0])
        logger.debug("not shown")
        return x + 1

    f = jit(f)
    for n in (2, 3):
        f(ones(n))
        yield seen
    logger.setLevel(logging.DEBUG)
    yield f(ones(2)), seen
    logger.removeHandler(handler)


@case
def warnings_given(jit):
    def f(x):
        if x.shape[0] > 2:
            warnings.warn("long input", UserWarning, stacklevel=1)
        return x + 1

    f = jit(f)
    for n in (2, 3, 4, 2):
        yield f(ones(n))


@case
def random_numbers_of_python(jit):
    def f(x):
        return x * random.random() + random.randint(0, 5)

    f = jit(f)
    for _ in range(4):
        yield f(ones(2))
    random.seed(7)
    yield f(ones(2))


@case
def random_choices_of_python(jit):
    def f(x):
        if random.random() < 0.5:
            return x * 2
        return x + 10

    f = jit(f)
    for _ in range(8):
        yield f(ones(2))


@case
def random_numbers_of_numpy(jit):
    def f(x):
        return x + float(np.random.rand()) + torch.tensor(np.random.randn(2).astype(np.float32))

    f = jit(f)
    for _ in range(4):
        yield f(ones(2))


@case
def a_generator_of_random_numbers(jit):
    generator = np.random.default_rng(0)
    ours = random.Random(3)

    def f(x):
        return x + float(generator.random()) * ours.uniform(1, 2)

    f = jit(f)
    for _ in range(4):
        yield f(ones(2))


@case(versions=1)
def random_numbers_of_the_library(jit):
    f = jit(lambda x: (x + torch.rand(3), torch.randn(2, 2)))
    for _ in range(3):
        f(ones(3))
    torch.manual_seed(3)
    yield f(ones(3))


@case
def a_random_number_decides_a_branch(jit):
    def f(x):
        return x * 2 if torch.rand(1).item() < 0.5 else x + 10

    f = jit(f)
    for _ in range(8):
        yield f(ones(2))


@case(versions=1)
def time_that_passes(jit):
    times = []

    def f(x):
        times.append(time.perf_counter())
        return x + 1

    f = jit(f)
    for _ in range(4):
        f(ones(2))
    pairs = list(itertools.pairwise(times))
    times.clear()
    yield all(a < b for a, b in pairs), len(pairs)


@case(outcome=FELL_BACK)
def a_timer_around_the_work(jit):
    spent = types.SimpleNamespace(seconds=0.0, grew=True)

    def f(x):
        start = time.perf_counter()
        y = x * 2
        before = spent.seconds
        spent.seconds += time.perf_counter() - start
        spent.grew = spent.grew and spent.seconds > before
        return y

    f = jit(f)
    for _ in range(3):
        f(ones(2))
    yield spent.grew


@case(outcome=FELL_BACK)
def a_file_read_in_every_call(jit):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scale"

        def f(x):
            with open(path) as file:
                return x * float(file.read())

        f = jit(f)
        for value in (1.0, 2.0, 3.0):
            path.write_text(str(value))
            yield f(ones(2))


@case
def a_file_read_by_its_path(jit):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scale"
        f = jit(lambda x: x * float(path.read_text()))
        for value in (1.0, 2.0, 3.0):
            path.write_text(str(value))
            yield f(ones(2))


@case
def lines_written_to_a_file(jit):
    with tempfile.TemporaryFile("w+") as file:

        def f(x):
            file.write(f"{x.shape[0]} rows\n")
            return x + 1

        f = jit(f)
        for n in (2, 3, 4):
            f(ones(n))
        file.seek(0)
        yield file.read()


@case
def an_environment_variable_set(jit):
    def f(x):
        os.environ["SOUNDNESS_SEEN"] = str(x.shape[0])
        return x + 1

    f = jit(f)
    for n in (2, 3):
        f(ones(n))
        yield os.environ.pop("SOUNDNESS_SEEN")


@case
def an_iterator_moves_on(jit):
    numbers = iter([1.0, 2.0, 3.0])
    f = jit(lambda x: x * next(numbers))
    for _ in range(3):
        yield f(ones(1))


@case
def a_generator_moves_on(jit):
    def count():
        n = 0.0
        while True:
            n += 1
            yield n

    numbers = count()

    def f(x):
        return x * next(numbers)

    f = jit(f)
    for _ in range(4):
        yield f(ones(1))


@case
def an_iterator_argument_is_consumed(jit):
    f = jit(lambda numbers, x: x * next(numbers))
    numbers = iter([1.0, 2.0, 3.0, 4.0])
    for _ in range(4):
        yield f(numbers, ones(1))


@case
def a_counter_of_itertools(jit):
    ids = itertools.count()

    def f(x):
        return x + next(ids)

    f = jit(f)
    for _ in range(4):
        yield f(ones(1))


@case
def local_lists_are_no_effect(jit):
    @jit
    def f(x):
        parts = []
        for i in range(3):
            parts.append(x * i)
        table = {}
        table["sum"] = torch.stack(parts).sum()
        return table["sum"]

    for n in (2, 3):
        yield f(ones(n))


@case
def local_objects_are_no_effect(jit):
    class Builder:
        def __init__(self):
            self.parts, self.count = [], 0

        def add(self, part):
            self.parts.append(part)
            self.count += 1
            return self

    @jit
    def f(x):
        builder = Builder().add(x).add(x * 2)
        builder.add(x * builder.count)
        return torch.cat(builder.parts)

    for n in (2, 3):
        yield f(ones(n))


@case
def closures_that_count_inside(jit):
    @jit
    def f(x):
        count = 0

        def step(y):
            nonlocal count
            count += 1
            return y * count

        return step(step(step(x)))

    for n in (2, 3):
        yield f(ones(n))


@case
def a_gradient_assigned_and_accumulated(jit):
    w = torch.ones(2, requires_grad=True)

    def step(x):
        (w * x).sum().backward()

    step = jit(step)
    for value in (1.0, 2.0, 3.0):
        step(torch.full((2,), value))
        yield w.grad
    w.grad = None
    step(ones(2))
    yield w.grad


@case
def an_object_registered_inside(jit):
    registry = []

    class Event:
        def __init__(self, size):
            self.size = size
            registry.append(self)

    def f(x):
        Event(x.shape[0])
        return x + 1

    f = jit(f)
    for n in (2, 3, 2):
        f(ones(n))
    yield [e.size for e in registry], len(set(map(id, registry)))


@case(versions=1)
def tensors_printed_before_they_are_written(jit):
    @jit
    def f(x):
        print(x)
        x.add_(1)
        print(x, (x, "again"))
        y = x * 2
        print("y", y)
        y.mul_(3)
        y.view(-1)[0] = 7
        print("y", y)
        y.zero_()
        return y

    for value in (1.0, 2.0, 3.0):
        yield f(torch.full((2,), value))


def _with_a_handler(name):
    class Printing(logging.Handler):
        def emit(self, record):
            print(record.levelname, record.getMessage(), type(record.msg).__name__)

    logger = logging.getLogger(name)
    logger.handlers, logger.propagate = [Printing()], False
    logger.setLevel(logging.INFO)
    return logger


@case(versions=1)
def numbers_in_texts_that_are_printed(jit):
    logger = _with_a_handler("texts that are printed")

    @jit
    def f(x, step, rate):
        loss = x.mean()
        print(f"step {step} loss {loss:.4f} rate {rate:.2e} {x.shape[0]:03d}", f"{loss.item():>9.3f}", step, end="\n")
        logger.info(f"loss {loss:.3f} {x.sum().item()}")
        logger.warning(f"{int((x > 0).sum())}/{x.shape[0]}")
        logger.debug(f"{loss}")
        return loss

    for n in range(5):
        yield f(torch.arange(3.0 + n) * (n + 1), n, 0.1 / (n + 1))


@case
def numbers_in_texts_that_others_get(jit):
    texts, given = [], []

    class Writer:
        def say(self, *args, **kwargs):
            given.append((args, kwargs))

    writer = Writer()

    @jit
    def f(x):
        value = x.sum().item()
        text = f"{value:.1f}"
        texts.append(f"{value:.2f}")
        writer.say(f"{value:.3f}", f"{value}{value}", key=f"a{value:.0f}")
        print(text, text + f"{value:.0f}", f"{value!r:>8}", f"{value:{8}.2f}", str(f"{value:.1f}"))
        print(f"a{value:.1f}".upper(), len(f"{value:.5f}"))
        print(f"{'positive' if value > 0 else 'negative'} {value:.2f}", f"{value:.3f}", sep=f"|{value:.0f}|")
        return x

    for value in (1.0, 2.0, 1.0, -1.0):
        yield f(torch.full((2,), value)), texts, given


@case(versions=1)
def numbers_in_texts_of_every_kind(jit):
    f = jit(lambda x: print(f"{x.mean():.2f} {x.max():8.3e} {x.argmax()} {x.size(0):>4}", f"{x.sum()}") or x)
    for value in (1.0, float("nan"), float("inf"), -0.0, 1e-300):
        yield f(torch.tensor([value, 0.5], dtype=torch.float64))


@case
def texts_that_cannot_be_made(jit):
    f = jit(lambda x, n: print(f"{x.mean():d}") or x if n > 1 else x + n)
    for n in (1, 2, 1, 3):
        yield attempt(f, torch.ones(2), n)


@case
def printed_with_unpacked_arguments(jit):
    parts, options = ["a", "b"], {"sep": "-"}

    def f(x):
        print(*parts)
        print(*parts, **options)
        print(*{"c"})
        return x + 1

    f = jit(f)
    for _ in range(3):
        yield f(ones(2))
