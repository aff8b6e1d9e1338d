"""Subclasses of Tensor, and other classes with a `__torch_function__`."""

from __future__ import annotations

import functools

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, attempt, case


@functools.cache
def plain_class(name="Image"):
    return type(name, (torch.Tensor,), {})


@functools.cache
def described():
    """A class whose results are told what the first argument was told."""

    class Described(torch.Tensor):
        @staticmethod
        def __new__(cls, data, **facts):
            made = torch.as_tensor(data).as_subclass(cls)
            made.facts = facts
            return made

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            result = super().__torch_function__(func, types, args, kwargs or {})
            if isinstance(result, cls):
                known = [a for a in args if isinstance(a, cls) and hasattr(a, "facts")]
                result.facts = dict(known[0].facts) if known else {}
            return result

    return Described


@functools.cache
def wrapped():
    """A class that is no Tensor and has one, as NumPy's protocol of that kind is used."""
    handled = {}

    class Wrapped:
        def __init__(self, values, unit):
            self.values, self.unit = values, unit

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func not in handled:
                return NotImplemented
            return handled[func](*args, **(kwargs or {}))

    handled[torch.add] = lambda a, b: Wrapped(a.values + b.values, a.unit)
    handled[torch.mean] = lambda a: Wrapped(torch.mean(a.values), a.unit)
    return Wrapped


def rows(n, seed=0):
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))


@case(versions=1)
def a_subclass_among_the_arguments(jit):
    @jit
    def f(image, bias):
        moved = (image * 2 + bias).exp()
        return moved, moved.sum(), image.shape[0], isinstance(image, plain_class()), type(moved).__name__

    for n in (2, 3, 5, 4):
        f(rows(n).as_subclass(plain_class()), rows(1)[0])


@case
def classes_that_change(jit):
    @jit
    def f(a, b):
        return a + b, a.sum(), b.relu(), a

    kinds = torch.Tensor, plain_class(), torch.Tensor, plain_class("Mask"), plain_class(), torch.Tensor
    for i, kind in enumerate(kinds):
        f(rows(4, i).as_subclass(kind), rows(4, i + 9))
        f(rows(4, i), rows(4, i + 9).as_subclass(kind))
        attempt(f, rows(4, i).as_subclass(kind), rows(4, i + 9).as_subclass(plain_class()))


@case
def gradients_of_a_subclass(jit):
    @jit
    def f(image, weight):
        return ((image @ weight).tanh() ** 2).sum()

    for i in range(4):
        image, weight = rows(4, i).as_subclass(plain_class()).requires_grad_(), rows(3, i + 5).requires_grad_()
        loss = f(image, weight)
        loss.backward()
        yield loss, image, weight, type(image.grad).__name__, type(weight.grad).__name__
        history = (image * 3).as_subclass(plain_class())
        f(history, weight).backward()
        yield image.grad, weight.grad


@case
def gradients_taken_inside(jit):
    weight = nn.Parameter(rows(3))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    @jit
    def step(image):
        optimizer.zero_grad()
        loss = (image @ weight).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for i in range(5):
        loss = step(rows(4, i).as_subclass(plain_class()))
        yield type(loss).__name__, weight


@case
def a_subclass_written_in_place(jit):
    @jit
    def f(image, n):
        image += n
        image[0] = 7
        image.mul_(2)
        return image

    for i in range(4):
        image = rows(3, i).as_subclass(plain_class())
        yield f(image, i), image


@case
def views_of_a_subclass(jit):
    @jit
    def f(image):
        first = image[0]
        made = image * 2
        return first, image.t(), made, made.view(-1), image.detach(), image.as_subclass(torch.Tensor), image.data

    for i in range(4):
        image = rows(3, i).as_subclass(plain_class())
        first, *others = f(image)
        first.zero_()
        others[1].fill_(2)
        yield image, first, others, first._base is image


@case
def made_a_subclass_inside(jit):
    kind, told = plain_class(), described()

    @jit
    def f(x):
        image = x.as_subclass(kind)
        made = told(x * 2, scale=3)
        return image, made, image + 1, made.sum(), torch.zeros(2).as_subclass(kind), (made + 1).facts

    for i in range(4):
        f(rows(3, i))


@case(versions=3)
def facts_that_follow_results(jit):
    kind = described()

    @jit
    def f(image):
        larger = image * 2
        return larger, larger.mean(0), larger.facts["scale"] * image, len(larger.facts)

    facts = {"scale": 2, "name": "first"}
    for i in range(4):
        image = kind(rows(4, i))
        image.facts = facts
        f(image)
    for i in range(4):
        facts["scale"] = 2 + i // 2
        image = kind(rows(4, i))
        image.facts = facts
        f(image)


@case
def a_torch_function_replaced(jit):
    kind = type("Counted", (torch.Tensor,), {})
    seen = []

    def counting(cls, func, types, args=(), kwargs=None):
        seen.append(func.__name__)
        return torch.Tensor.__torch_function__.__func__(cls, func, types, args, kwargs or {})

    @jit
    def f(image):
        return (image + 1).relu() * 2

    for i in range(3):
        yield f(rows(2, i).as_subclass(kind)), list(seen)
    kind.__torch_function__ = classmethod(counting)
    for i in range(3):
        yield f(rows(2, i).as_subclass(kind)), list(seen)
    del kind.__torch_function__
    for i in range(3):
        yield f(rows(2, i).as_subclass(kind)), list(seen)


@case
def a_torch_function_that_reads_what_changes(jit):
    settings = {"scale": 1.0, "plain": False}

    class Scaled(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                result = func(*args, **(kwargs or {}))
                result = result * settings["scale"] if func is torch.Tensor.add else result
            return result if settings["plain"] or not isinstance(result, torch.Tensor) else result.as_subclass(cls)

    @jit
    def f(image):
        return image + 1, image.sum()

    for i in range(6):
        settings["scale"] = 1.0 + i
        settings["plain"] = i > 3
        f(rows(2, i).as_subclass(Scaled))


@case
def a_class_that_is_no_tensor(jit):
    kind = wrapped()

    @jit
    def f(a, b):
        made = torch.mean(torch.add(a, b))
        return made.values, made.unit

    @jit
    def g(a, b):
        return torch.add(a, b)

    for i in range(4):
        a, b = kind(rows(3, i), "m"), kind(rows(3, i + 7), "m")
        f(a, b)
        yield g(a, b).values
        attempt(jit(torch.mul), a, b)


@case
def nobody_answers(jit):
    class Closed(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    @jit
    def f(image):
        return image + 1

    for i in range(2):
        f(rows(2, i))
        attempt(f, rows(2, i).as_subclass(Closed))


@case
def found_outside(jit):
    kept = {"bias": rows(1)[0].as_subclass(plain_class())}
    module = nn.Linear(3, 3)

    @jit
    def f(x):
        return module(x) * kept["bias"]

    for i in range(3):
        yield type(f(rows(2, i))).__name__
    kept["bias"] = rows(1, 4)[0]
    for i in range(3):
        yield type(f(rows(2, i))).__name__
    kept["bias"] = rows(1, 4)[0].as_subclass(plain_class("Mask"))
    yield type(f(rows(2, 4))).__name__
    module.weight = nn.Parameter(rows(3).as_subclass(plain_class()))
    for i in range(3):
        yield type(f(rows(2, i))).__name__, type(f(rows(2, i).as_subclass(plain_class("Mask")))).__name__
    module.weight = nn.Parameter(rows(3, 5))
    yield type(f(rows(2, 3).as_subclass(plain_class("Mask")))).__name__


@case
def found_outside_beside_an_argument(jit):
    holder = nn.Module()
    holder.bias = rows(1)[0]
    history = []

    @jit
    def f(image):
        history.append(image.mean() + holder.bias.sum())
        holder.last = image + holder.bias
        return holder.last * 2

    for i, kind in enumerate((torch.Tensor, torch.Tensor, plain_class("Mask"), torch.Tensor, plain_class("Mask"))):
        holder.bias = rows(1, i)[0].as_subclass(kind)
        for n in range(2):
            result = f(rows(3, n).as_subclass(plain_class()))
            yield type(result).__name__, type(history[-1]).__name__, type(holder.last).__name__, history[-1]


@case
def kept_from_call_to_call(jit):
    state = {"mean": torch.zeros(3)}

    @jit
    def f(image):
        state["mean"] = state["mean"] * 0.5 + image.mean(0) * 0.5
        return state["mean"].sum()

    for i in range(5):
        f(rows(3, i).as_subclass(plain_class()))
        yield state["mean"], type(state["mean"]).__name__
    state["mean"] = torch.zeros(3)
    for i in range(5):
        f(rows(3, i))
        yield state["mean"], type(state["mean"]).__name__


@case(outcome=FELL_BACK)
def a_class_with_slots(jit):
    kind = type("Slotted", (torch.Tensor,), {"__slots__": ("unit",)})

    @jit
    def f(image):
        return image * 2

    @jit
    def g(image):
        return (image * 2).as_subclass(torch.Tensor)

    for i in range(3):
        image = rows(2, i).as_subclass(kind)
        image.unit = i
        yield type(f(image)).__name__, g(image)


@case(versions=2)
def functions_that_are_asked_about(jit):
    @functools.lru_cache
    def is_moving(func):
        return func.__name__ in ("roll", "flip")

    met = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            met.append(func.__name__)
            result = super().__torch_function__(func, types, args, kwargs or {})
            return result + 1 if is_moving(func) else result

    @jit
    def f(image):
        return image.roll(1, 0) * 2, torch.flip(image, (0,)).relu()

    for i in range(4):
        yield f(rows(3, i).as_subclass(Watched)), list(met)


@case(versions=2)
def plain_tensors_after_a_subclass(jit):
    f = jit(lambda x: x * 2)
    for i, kind in enumerate((plain_class(), torch.Tensor, plain_class(), torch.Tensor)):
        yield type(f(rows(4, i).as_subclass(kind))).__name__
        yield type(f(rows(i + 2, i))).__name__
