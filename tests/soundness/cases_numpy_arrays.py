"""NumPy's arrays and numbers: as arguments, and read from globals, variables and attributes."""

from __future__ import annotations

import dataclasses
import math
import types
from typing import Any

import numpy as np

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, attempt, case

TABLE = np.arange(4, dtype=np.float32)
LARGE = np.zeros(1 << 15, np.float32)


def ones(*shape):
    return torch.ones(*shape)


def values(*shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@dataclasses.dataclass
class Sample:
    image: Any
    label: Any


@case(versions=3)
def arrays_of_many_sizes_with_gradients(jit):
    weight = torch.ones(3, requires_grad=True)

    def f(array):
        loss = (torch.from_numpy(array).float() * weight).sum()
        loss.backward()
        return loss

    f = jit(f)
    for n in (1, 2, 5, 9):
        yield f(values(n, 3)), weight.grad
    yield f(values(4, 3, dtype=np.float64)), weight.grad


@case(versions=1)
def arrays_copied_by_tensor(jit):
    f = jit(lambda x, array: (torch.tensor(array).add_(x), torch.as_tensor(array) + x, torch.asarray(array) - x))
    for n in (2, 3, 4):
        yield f(ones(n), values(n))


@case(versions=1)
def arrays_converted_by_tensor(jit):
    f = jit(lambda array: (torch.tensor(array, dtype=torch.float64), torch.as_tensor(array, dtype=torch.int32)))
    for n in (2, 3, 4):
        yield f(values(n) * 1e9)


@case(versions=3)
def operators_with_arrays_on_either_side(jit):
    def f(x, a):
        return x + a, a - x, x * a, a / x, x**a, a**x, x < a, a == x, np.maximum(x, a), np.add(a, x)

    f = jit(f)
    for n in (2, 3, 4):
        yield f(ones(n) * 2, values(n))
    yield f(ones(3), values(3, dtype=np.float64))
    yield f(ones(3), values(3, dtype=np.int64))


@case(versions=2)
def products_with_arrays(jit):
    f = jit(lambda x, a: (x @ a, a @ x, np.matmul(a, x)))
    for n in (2, 3, 4):
        yield f(ones(n, n), values(n, n)), f(ones(n), values(n))


@case
def lists_among_what_numpy_computes_of_tensors(jit):
    limits = [1.0, 2.0]
    f = jit(lambda x, scale: (np.multiply(x, [scale, 2.0]), np.less(limits, x), np.matmul(x, (3, 4))))
    for step in range(4):
        yield f(ones(2) * step, step / 2)
        limits[step % 2] = -step
    limits.append(5.0)
    yield attempt(f, ones(2), 2.0)


@case
def operations_refuse_arrays_as_eagerly(jit):
    f = jit(lambda x, a: x.mul(a))
    yield f(ones(2), ones(2))
    yield attempt(f, ones(2), values(2))


@case(versions=1)
def what_arrays_say_of_themselves(jit):
    def f(x, a):
        rows, columns = a.shape
        same = isinstance(a, np.ndarray) and type(a) is np.ndarray and a.dtype == np.float32 and a.ndim == 2
        return x.reshape(rows, columns) + len(a) * a.size if same else x

    f = jit(f)
    for n in (2, 3, 5):
        yield f(ones(n * 4), values(n, 4))


@case(versions=2)
def arrays_in_dictionaries_and_dataclasses(jit):
    def f(batch, samples):
        return [torch.from_numpy(batch["x"]) * torch.from_numpy(s.image) + s.label for s in samples]

    f = jit(f)
    for n in (2, 3):
        yield f({"x": values(n)}, [Sample(values(n), i) for i in range(2)])
        yield f({"x": values(n)}, [Sample(values(n), i) for i in range(3)])


@case(versions=1)
def an_array_written_in_place_and_returned(jit):
    def f(a, x):
        t = torch.from_numpy(a)
        t += x
        t[0] = 7.0
        return a, t, t.sum()

    f = jit(f)
    a = values(3)
    for k in (1.0, 2.0):
        out, t, _ = f(a, ones(3) * k)
        yield out is a, a, t
    t.mul_(2)
    yield a


@case(versions=1)
def two_tensors_over_one_array(jit):
    def f(a):
        first, second = torch.from_numpy(a), torch.from_numpy(a)
        before = first.clone()
        second.add_(1)
        return before, first * 1, second * 1, first is second

    f = jit(f)
    for _ in range(3):
        yield f(values(3))


@case
def one_array_in_two_places(jit):
    f = jit(lambda a, b: (a is b, torch.from_numpy(a) * 2 + torch.from_numpy(b)))
    for _ in range(2):
        a, b = values(3), values(3) + 1
        yield f(a, b), f(a, a), f(b, b)


@case(outcome=FELL_BACK)
def arrays_that_overlap_a_tensor_that_is_written(jit):
    f = jit(lambda a, x: torch.from_numpy(a) + x.add_(1))
    a = values(4)
    for _ in range(2):
        yield f(values(2), ones(2)), f(a[:2], torch.from_numpy(a)[1:3]), a


@case
def views_of_arrays_are_returned(jit):
    f = jit(lambda a: (torch.from_numpy(a)[1:], torch.from_numpy(a).reshape(-1)))
    for n in (2, 3):
        a = values(n, 2)
        tail, flat = f(a)
        tail.add_(10)
        flat.mul_(2)
        yield a, tail, flat


@case
def arrays_in_other_orders(jit):
    f = jit(lambda a, x: torch.from_numpy(a) * x)
    for n in (2, 3):
        yield f(values(n, 3), ones(3)), f(values(3, n).T, ones(3)), f(values(n, 6)[:, ::2], ones(3))
    yield f(np.broadcast_to(np.float32(3), (2, 3)), ones(3))


@case
def arrays_without_dimensions_and_elements(jit):
    f = jit(lambda a, x: (torch.from_numpy(a) * x, x * a, torch.tensor(a)))
    for value in (2.0, 3.0):
        yield f(np.array(value), ones(2)), f(np.array(value, np.float32), ones(2))
    yield f(np.zeros((0,), np.float32), ones(1)), f(np.zeros((1,), np.float32), ones(2))


@case
def arrays_of_all_types(jit):
    f = jit(lambda a: torch.from_numpy(a) + 1)
    for kind in (np.float16, np.float64, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint16, np.bool_):
        yield f(values(3, dtype=kind)), f(values(4, dtype=kind))


@case(versions=6)
def numbers_of_numpy_are_inputs(jit):
    f = jit(lambda x, k: (x * k, k - x, x + k, torch.full((2,), k), torch.tensor(k), torch.where(x > 0, x, k)))
    for kind in (np.float64, np.float32, np.int64):
        for value in (2, 3, 5, 7):
            yield f(ones(2), kind(value))


@case(versions=2)
def comparisons_of_numpy_numbers(jit):
    f = jit(lambda x, k: x + k if k > 2 else x - k)
    for value in (1.0, 2.0, 3.0, 4.0, 0.5):
        yield f(ones(2), np.float64(value))


@case
def numpy_numbers_as_sizes_and_indices(jit):
    f = jit(lambda x, n: (x[n], x[:n], torch.zeros(n), x.view(n, -1), int(n)))
    for n in (2, 3, 2):
        yield f(torch.arange(6.0), np.int64(n))


@case
def numpy_computes_with_numbers(jit):
    f = jit(lambda x, k: x * np.sqrt(k))
    for value in (1.0, 4.0, 9.0):
        yield f(ones(2), np.float32(value))


@case
def numpy_reduces_an_array(jit):
    f = jit(lambda x, a: x * float(np.sum(a)))
    for n in (1, 2, 3):
        yield f(ones(2), np.ones(n))


@case(versions=4)
def an_element_of_an_array(jit):
    f = jit(lambda x, a, i: (x * float(a[0]), x + a[-1], a[1] * x, torch.zeros(2) + a[1:][0], i * float(a[i])))
    for kind in (np.float32, np.float64, np.int64):
        for n in (1.0, 2.0, 3.0):
            yield f(ones(2), np.arange(4).astype(kind) * kind(n), 2)
    yield attempt(f, ones(2), np.ones(2), 2)


@case(versions=2)
def parts_of_arrays(jit):
    def f(x, a):
        first, rest = torch.from_numpy(a[0]), torch.from_numpy(a[1:, None])
        rest.mul_(2)
        return x + first, rest * x, torch.tensor(a[..., 0]), len(a[1:]), a[:2].shape

    f = jit(f)
    for n in (3, 4, 5):
        a = values(n, 2)
        yield f(ones(2), a), a


@case(versions=2)
def arrays_with_dimensions_in_other_orders(jit):
    def f(x, image):
        channels = torch.from_numpy(image.transpose(2, 0, 1)).float() * x
        flat = torch.from_numpy(image.reshape(-1, image.shape[2]).copy())
        turned = torch.from_numpy(image.T)
        turned.add_(1)
        return channels, flat.add_(1), turned.stride(), torch.from_numpy(image.transpose((1, 0, 2))), image.size

    f = jit(f)
    for n in (3, 4, 5):
        image = values(n, n + 1, 3, dtype=np.uint8)
        yield f(ones(1), image), image


@case(versions=3)
def arithmetic_of_arrays(jit):
    def f(a, mean, scale):
        image = a.astype(np.float32) / 255.0
        image = (image - mean) * scale + a.astype(np.float32) * 0.5
        return torch.from_numpy(image), torch.from_numpy(1.0 - image), torch.as_tensor(image * image)

    f = jit(f)
    for kind in (np.uint8, np.float32, np.int64):
        for n in (2, 3):
            yield f(values(n, 3, dtype=kind), 0.4, n / 7)


@case(versions=2)
def arithmetic_of_numpys_numbers(jit):
    f = jit(lambda x, k: (x * (k * 0.5 + 1), x - (2 - k), math.sqrt(k) * x, x.add(float(k) / 3), int(k)))
    for value in (1.0, 2.5, 4.0):
        yield f(ones(2), np.float64(value))


@case
def elements_picked_by_numpy(jit):
    f = jit(lambda x, a: x * torch.from_numpy(a[a > 1]))
    for n in (2, 3):
        yield f(ones(1), values(n + 1))


@case
def an_array_written_by_numpy(jit):
    def f(x, a):
        a[0] += 1
        return x + torch.from_numpy(a)

    f = jit(f)
    a = np.zeros(2, np.float32)
    for _ in range(3):
        yield f(ones(2), a), a


@case
def an_array_that_tensors_write(jit):
    def f(x, a):
        a += x
        return a

    f = jit(f)
    a = np.zeros(2, np.float32)
    yield attempt(f, ones(2), a), a


@case(outcome=FELL_BACK)
def arrays_of_objects(jit):
    f = jit(lambda x, a: x + len(a))
    yield f(ones(2), np.array([None, "a"], dtype=object))


@case
def an_array_that_is_read_only(jit):
    f = jit(lambda a: torch.from_numpy(a).add_(1))
    a = values(2)
    yield f(a)
    a.flags.writeable = False
    yield attempt(f, a), a


@case(versions=2)
def a_global_array_that_changes(jit):
    def f(x):
        return x + torch.from_numpy(TABLE)

    f = jit(f)
    try:
        for k in range(4):
            TABLE[:] = k
            yield f(ones(4))
    finally:
        TABLE[:] = range(4)


@case(versions=2)
def a_large_global_array(jit):
    def f(x):
        return x * torch.tensor(LARGE)[:2] + torch.from_numpy(LARGE).sum()

    f = jit(f)
    try:
        for k in range(4):
            LARGE[:] = k
            yield f(ones(2))
    finally:
        LARGE[:] = 0


@case(versions=3)
def an_array_in_a_variable_that_is_replaced(jit):
    table = values(3)

    def f(x):
        return x + torch.as_tensor(table)

    f = jit(f)
    for n in (3, 4, 5, 6):
        table = values(n) + 1
        yield f(ones(n))
        table += 1
        yield f(ones(n))


@case(versions=3)
def arrays_in_attributes_and_dictionaries(jit):
    config = types.SimpleNamespace(mean=values(3))
    settings = {"deviation": values(3) + 1}

    def f(x):
        return (x - torch.from_numpy(config.mean)) / torch.from_numpy(settings["deviation"])

    f = jit(f)
    for k in range(4):
        yield f(ones(3))
        config.mean = config.mean + k
        settings["deviation"][0] = k + 2


@case(versions=3)
def arrays_of_a_module(jit):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = values(3)

        def forward(self, x):
            return x * torch.from_numpy(self.scale)

    module = Scaled()
    jitted = jit(module)
    for k in range(4):
        yield jitted(ones(3))
        module.scale[1] = k + 5


@case(versions=2)
def a_global_array_written_through_a_tensor(jit):
    table = values(3)

    def f(x):
        torch.from_numpy(table).add_(x)
        return x * 2

    f = jit(f)
    for _ in range(4):
        yield f(ones(3)), table


@case(versions=1)
def numpy_computes_with_a_constant_array(jit):
    table = np.array([1.0, 2.0, 3.0])
    f = jit(lambda x: x * torch.tensor(table / table.sum()) + float(table[0]))
    for k in range(3):
        yield f(ones(3) * k)


@case
def numpy_computes_with_an_array_that_changes(jit):
    table = np.array([1.0, 2.0, 3.0])
    f = jit(lambda x: x * torch.tensor(table / table.sum()) + float(table[0]))
    for k in range(3):
        yield f(ones(3))
        table[0] = k


@case
def an_array_made_inside(jit):
    f = jit(lambda x: (torch.from_numpy(np.arange(3.0)), x + torch.from_numpy(np.ones(2))))
    for _ in range(3):
        made, _ = f(ones(2))
        made.add_(1)
        yield made


@case
def an_array_made_inside_and_written(jit):
    def f(x):
        made = torch.from_numpy(np.zeros(3, np.float32))
        made += x
        return made

    f = jit(f)
    for _ in range(3):
        yield f(ones(3))


@case
def an_array_made_inside_that_numpy_writes(jit):
    def f(x):
        array = np.zeros(3, np.float32)
        made = torch.from_numpy(array)
        before = x + made
        array[0] = 5.0
        return before, x + made

    f = jit(f)
    for _ in range(3):
        yield f(ones(3))


@case(versions=2)
def one_tensor_in_two_places(jit):
    weights = [torch.linspace(0.1, 1.0, 50) ** (i + 1) for i in range(4)]
    f = jit(lambda x, y: ((x * weights[0] + y * weights[1] + x * weights[2] + y * weights[3]).sum(), x is y))
    for _ in range(2):
        a, b = torch.rand(50, requires_grad=True), torch.rand(50, requires_grad=True)
        for pair in ((a, b), (a, a), (b, b)):
            f(*pair)[0].backward()
            yield a.grad, b.grad


@case(versions=2)
def a_tensor_that_the_function_reaches_as_an_argument(jit):
    weights = [torch.linspace(0.1, 1.0, 50) ** (i + 1) for i in range(4)]
    own = torch.rand(50, requires_grad=True)
    f = jit(lambda x: (x * weights[0] + own * weights[1] + x * weights[2] + own * weights[3]).sum())
    for _ in range(2):
        for x in (torch.rand(50, requires_grad=True), own):
            f(x).backward()
            yield x.grad, own.grad


@case(versions=1)
def the_length_of_a_tensor(jit):
    f = jit(lambda x: x.sum() / len(x))
    for n in (2, 3, 4, 5):
        yield f(ones(n, 2))


@case(outcome=FELL_BACK)
def tensors_over_turned_arrays_made_inside(jit):
    def over(x):
        made = torch.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3).T)
        return made, made.stride(), made + x

    f = jit(over)
    for n in (1, 2):
        yield f(ones(1) * n)


@case(versions=3)
def schedules_that_are_arrays(jit):
    rates, table = np.concatenate([np.linspace(0.1, 1, 10), np.ones(20)]), np.arange(60.0).reshape(30, 2)

    @jit
    def f(x, step):
        return x * rates[step] + float(table[step, 1])

    for step in (0, 5, 3, 29, -1):
        yield f(torch.ones(2), step)
    rates[3], table[29] = 7.0, -1.0
    for step in (3, 29):
        yield f(torch.ones(2), step)
    yield attempt(f, torch.ones(2), 30)


@case(versions=1)
def writes_to_an_array_from_outside_that_shows_another_s_memory(jit):
    table = np.arange(6.0).reshape(3, 2)

    @jit
    def f(x):
        table[0, 1] += 1
        return x * 2

    for _ in range(4):
        yield f(torch.ones(2))
        yield table.copy()


@case(versions=4)
def classes_picked_from_an_array_by_what_was_computed(jit):
    weights = np.linspace(1, 2, 3)

    @jit
    def f(x):
        return x * weights[int(x.argmax().item())]

    for i in (0, 1, 2, 1, 0, 2):
        yield f(torch.eye(3)[i])
