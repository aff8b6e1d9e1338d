"""What compiled calls depend on wherever it is held: Modules in containers, options, arrays, what tensors are like."""

from __future__ import annotations

import array
import copy
import fractions
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit import nn, optim

ONE = torch.ones(1)


def agree(make: Callable[[], tuple[Callable[[], Any], list[Callable[[], Any]]]]) -> None:
    """A function and the same one jitted, before and after every change of their surroundings."""
    results = []
    for wrap in (lambda f: f, torch.jit):
        function, changes = make()
        call, found = wrap(function), []
        for change in (lambda: None, *changes):
            change()
            found += [plain(call()), plain(call())]
        results.append(found)
    assert results[0] == results[1]


def plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [*map(plain, value)]
    return value.tolist() if isinstance(value, torch.Tensor) else value


def layer() -> Any:
    made = nn.Linear(1, 1)
    nn.init.ones_(made.weight)
    made.k = 1.0
    return made


HOLDERS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "list": lambda m: (lambda held: lambda: held[0])([m]),
    "nested": lambda m: (lambda held: lambda: held[0][0])(([m],)),
    "iteration": lambda m: (lambda held: lambda: next(x for x in held))([m]),
    "dictionary": lambda m: (lambda held: lambda: next(iter(held.values())))({"m": m}),
    "default": lambda m: lambda q=m: q,
    "partial": lambda m: functools.partial(lambda q: q, m),
    "zip": lambda m: (lambda held: lambda: next(iter(zip(held, held, strict=True)))[0])([m]),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_modules_that_are_not_called(holder: str) -> None:
    def attribute() -> Any:
        module = layer()
        get = HOLDERS[holder](module)
        return lambda: ONE * get().k, [lambda: setattr(module, "k", 5.0)]

    def training() -> Any:
        module = layer()
        get = HOLDERS[holder](module)
        return lambda: nn.functional.dropout(ONE, 1.0, get().training), [module.eval, module.train]

    def parameter() -> Any:
        module = layer()
        get = HOLDERS[holder](module)
        other = nn.Parameter(torch.full((1, 1), 9.0))
        return lambda: ONE * get().weight.detach(), [lambda: setattr(module, "weight", other)]

    for make in (attribute, training, parameter):
        agree(make)


def test_modules_in_lists_of_modules_and_their_methods() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts, self.q = [nn.Dropout(0.5)], 1.0

        def forward(self, x: Any) -> Any:
            return x * self.parts[0].p

        def scaled(self, x: Any) -> Any:
            return x * self.q

    def listed() -> Any:
        net = Net()
        return lambda: net(ONE), [lambda: setattr(net.parts[0], "p", 0.25)]

    def method() -> Any:
        net = Net()
        held = [net.scaled]
        return lambda: held[0](ONE), [lambda: setattr(net, "q", 3.0)]

    for make in (listed, method):
        agree(make)


ASKED: dict[str, Callable[[Any], Any]] = {
    "requires_grad": lambda t: t.requires_grad,
    "dtype": lambda t: t.dtype is torch.float32,
    "ndim": lambda t: t.ndim,
    "dim": lambda t: t.dim(),
    "is_floating_point": lambda t: t.is_floating_point(),
    "is_complex": lambda t: t.is_complex(),
    "element_size": lambda t: t.element_size(),
    "is_leaf": lambda t: t.is_leaf,
    "type_as": lambda t: ONE.type_as(t).dtype.itemsize,
    "to": lambda t: ONE.to(t).dtype.itemsize,
    "all": lambda t: all(x.requires_grad for x in (t, t)),
}


@pytest.mark.parametrize("name", ASKED)
def test_tensors_that_are_only_asked(name: str) -> None:
    def make() -> Any:
        tensor = torch.ones(1)

        def data(shape: tuple[int, ...], dtype: Any) -> None:
            tensor.data = torch.ones(shape, dtype=dtype)

        changes = [
            lambda: tensor.requires_grad_(True), lambda: tensor.requires_grad_(False),
            lambda: data((2, 2), torch.float32), lambda: data((2, 2), torch.float64),
            lambda: data((1,), torch.complex64),
        ]  # fmt: skip
        if name == "is_leaf":
            changes = [lambda: tensor.mul_(torch.ones(1, requires_grad=True))]
        return lambda: ONE * float(ASKED[name](tensor)), changes

    agree(make)


def test_dtypes_of_buffers() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("like", torch.zeros(1))

        def forward(self, x: Any) -> Any:
            return x.to(self.like.dtype).dtype.itemsize

    def make() -> Any:
        net = Net()
        return lambda: net(ONE), [net.double, net.float]

    agree(make)


class Scaling(optim.Optimizer):
    def __init__(self, parameters: Any, **options: Any):
        super().__init__(parameters, {"betas": (0.5, 0.25), **options})

    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            first, second = group["betas"]
            for parameter in group["params"]:
                parameter.data.mul_(first).add_(second)


@pytest.mark.parametrize("value", [(0.25, 0.125), [0.25, 0.125]])
def test_options_that_a_programs_own_optimizer_reads(value: Any) -> None:
    def make() -> Any:
        parameter = nn.Parameter(torch.ones(1))
        optimizer = Scaling([parameter])

        def step() -> Any:
            optimizer.step()
            return parameter.detach().clone()

        other = type(value)(value)
        return step, [lambda: optimizer.param_groups[0].update(betas=other), lambda: list_changed(optimizer)]

    def list_changed(optimizer: Any) -> None:
        if isinstance(optimizer.param_groups[0]["betas"], list):
            optimizer.param_groups[0]["betas"][0] = 2.0

    agree(make)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("betas", [(0.5, 0.2), [0.5, 0.2]])
def test_other_betas_for_adam(betas: Any, asked: bool) -> None:
    def make() -> Any:
        parameter = nn.Parameter(torch.tensor([1.0, 2.0]))
        optimizer = optim.Adam([parameter], lr=0.1)

        def step() -> Any:
            optimizer.zero_grad()
            (parameter**3).sum().backward()
            optimizer.step()
            first = optimizer.param_groups[0]["betas"][0] if asked else 0.0
            return parameter.detach().clone(), first

        return step, [lambda: optimizer.param_groups[0].update(betas=type(betas)(betas))]

    agree(make)


def test_a_schedule_of_betas_in_the_function() -> None:
    def make() -> Any:
        parameter = nn.Parameter(torch.tensor([1.0, 2.0]))
        optimizer = optim.Adam([parameter], lr=0.1)
        group = optimizer.param_groups[0]

        def step() -> Any:
            optimizer.zero_grad()
            (parameter**3).sum().backward()
            optimizer.step()
            group["betas"] = group["betas"][0] * 0.5, 0.9
            return parameter.detach().clone(), group["betas"]

        return step, [lambda: None, lambda: None]

    agree(make)


def module_with(value: Any) -> Callable[[], Any]:
    module = layer()
    module.held = value
    return lambda: module.held


def optimizer_with(value: Any) -> Callable[[], Any]:
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    optimizer.held = value  # type: ignore[attr-defined]
    return lambda: optimizer.held  # type: ignore[attr-defined]


def group_with(value: Any) -> Callable[[], Any]:
    group = optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1).param_groups[0]
    group["held"] = value
    return lambda: group["held"]


PLACES: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "module": module_with,
    "optimizer": optimizer_with,
    "group": group_with,
    "default": lambda value: lambda q=value: q,
    "partial": lambda value: functools.partial(lambda q: q, value),
    "dictionary": lambda value: (lambda held: lambda: held["a"])({"a": value}),
    "list": lambda value: (lambda held: lambda: held[0])([value]),
}
CHANGING: dict[str, Callable[[], Any]] = {
    "list": lambda: [1.0],
    "NumPy array": lambda: np.ones(1),
    "array": lambda: array.array("d", [1.0]),
}


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("kind", CHANGING)
@pytest.mark.parametrize("place", PLACES)
def test_contents_that_change(place: str, kind: str, within: bool) -> None:
    def make() -> Any:
        value = CHANGING[kind]()
        get = PLACES[place]((0, value) if within else value)

        def change() -> None:
            value[0] = 5.0

        return lambda: ONE * float((get()[1] if within else get())[0]), [change]

    agree(make)


def identities(holder: Any) -> Iterator[tuple[Callable[[], Any], Callable[[int], None]]]:
    yield lambda: ONE * holder.held[0], lambda i: setattr(holder, "held", range(i, 99))
    yield lambda: ONE * len(holder.held), lambda i: setattr(holder, "held", b"a" * i)
    yield lambda: ONE * len(holder.held), lambda i: setattr(holder, "held", frozenset(range(i)))
    yield lambda: ONE * float(holder.held), lambda i: setattr(holder, "held", fractions.Fraction(i, 1))


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("kind", ["module", "optimizer"])
def test_objects_at_the_addresses_of_others_that_are_gone(kind: str, number: int) -> None:
    holder = layer() if kind == "module" else optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    function, assign = [*identities(holder)][number]
    jitted, found = torch.jit(function), []
    for i in range(2, 12):
        assign(i)
        found.append(jitted().item())
    assert found == [*range(2, 12)]


def test_a_copy_of_an_object_with_a_jitted_method_has_its_own() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.k, self.run = 1.0, torch.jit(self.counted)

        def counted(self, x: Any) -> Any:
            self.k += 1
            return x * self.k

    first = Net()
    first.run(ONE)
    second = copy.deepcopy(first)
    second.run(ONE)
    second.run(ONE)
    assert (first.k, second.k) == (2.0, 4.0)
    function = torch.jit(lambda x: x + 1)
    assert copy.deepcopy(function) is function


def test_a_method_of_an_optimizers_own_that_is_deleted() -> None:
    def make() -> Any:
        parameter = nn.Parameter(torch.ones(1))
        optimizer = optim.SGD([parameter], lr=1.0)
        optimizer.step = lambda: None  # type: ignore[method-assign]
        parameter.grad = torch.ones(1)

        def step() -> Any:
            optimizer.step()
            return parameter.detach().clone()

        return step, [lambda: delattr(optimizer, "step")]

    agree(make)


def test_another_lower_precision() -> None:
    module, y = layer(), torch.ones(1, 1)

    def call() -> Any:
        with torch.autocast("cpu"):
            return module(y)

    jitted = torch.jit(call)
    try:
        assert jitted().dtype is torch.bfloat16
        torch.set_autocast_dtype("cpu", torch.float16)
        assert jitted().dtype is torch.float16
    finally:
        torch.set_autocast_dtype("cpu", torch.bfloat16)


def test_a_state_that_a_program_gives_a_name() -> None:
    class Counting(optim.Optimizer):
        def __init__(self, parameters: Any):
            super().__init__(parameters, {})
            self.state["steps"] = 0

        def step(self) -> None:  # type: ignore[override]
            self.state["steps"] += 1

    optimizer = Counting([nn.Parameter(torch.ones(1))])
    jitted = torch.jit(lambda: optimizer.step())
    for _ in range(4):
        jitted()
    assert optimizer.state["steps"] == 4
