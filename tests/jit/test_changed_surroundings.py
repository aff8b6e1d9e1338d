"""What native code takes for unchanged in the surroundings of a call: each of these changes has to be noticed."""

from __future__ import annotations

import functools
import gc
import threading
import warnings
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit import nn
from eagerjit.compiled.fallback import JitWarning
from eagerjit.runtime import mode


def model() -> Any:
    """A Module of classes of its own, so that these can be changed."""

    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.arange(1.0, 5.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = Scale()
            self.more = nn.ParameterList([nn.Parameter(torch.full((4,), i + 0.5)) for i in range(3)])
            self.register_buffer("shift", torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.scale(x)
            for weight in self.more:
                x = x * weight
            return (x * 2 if self.training else x) + self.shift

    return Model()


def other_forward(self: Any, x: torch.Tensor) -> torch.Tensor:
    return x - self.weight


def longer_forward(self: Any, x: torch.Tensor, by: float = 3.0) -> torch.Tensor:
    return x * self.weight + by


def set_shape(m: Any) -> None:
    m.shift.numpy().base.shape = (2, 2)
    m.shift.numpy().base.shape = (4,)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a parameter is another": lambda m: setattr(m.scale, "weight", nn.Parameter(torch.ones(4) * 3)),
    "a parameter of a list is another": lambda m: m.more.__setitem__(1, nn.Parameter(torch.ones(4) * 7)),
    "a list has one more": lambda m: m.more.append(nn.Parameter(torch.ones(4) * 9)),
    "its data are others": lambda m: setattr(m.scale.weight, "data", torch.ones(4) * 5),
    "its data have other sizes": lambda m: setattr(m.scale.weight, "data", torch.ones(1) * 5),
    "its data are no longer in order": lambda m: setattr(m.scale.weight, "data", torch.arange(8.0)[::2]),
    "its data are written": lambda m: m.scale.weight.data.mul_(2),
    "its memory is written": lambda m: m.shift.numpy().__setitem__(0, 11.0),
    "its memory is looked at": set_shape,
    "it needs no gradient": lambda m: m.scale.weight.requires_grad_(False),
    "a buffer is another": lambda m: setattr(m, "shift", torch.zeros(4)),
    "a buffer needs a gradient": lambda m: m.shift.requires_grad_(),
    "a part is another": lambda m: setattr(m, "scale", type(m.scale)().double()),
    "a part is of another class": lambda m: setattr(m, "scale", nn.Tanh()),
    "a class has another forward": lambda m: setattr(type(m.scale), "forward", other_forward),
    "a class has another forward with a default": lambda m: setattr(type(m.scale), "forward", longer_forward),
    "a forward has other code": lambda m: setattr(type(m.scale).forward, "__code__", other_forward.__code__),
    "an instance has a forward": lambda m: setattr(m.scale, "forward", lambda x: x + 1),
    "a class has another base": lambda m: setattr(type(m.scale), "__bases__", (type("Base", (nn.Module,), {}),)),
    "a class has another attribute": lambda m: setattr(type(m.scale), "count", 1),
    "a hook": lambda m: m.scale.register_forward_hook(lambda module, inputs, output: output + 1),
    "a hook before": lambda m: m.scale.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,)),
    "a hook of a gradient": lambda m: m.scale.weight.register_hook(lambda gradient: gradient * 2),
    "no training": lambda m: m.eval(),
    "another dtype": lambda m: m.to(torch.float64),
    "another dtype and back": lambda m: m.to(torch.float64).to(torch.float32),
    "another class of tensor": lambda m: setattr(m.shift, "__class__", nn.Parameter),
    "a state is loaded": lambda m: m.load_state_dict({k: v * 2 for k, v in m.state_dict().items()}),
}  # fmt: skip


def outcome(call: Any, m: Any, x: torch.Tensor, recording: bool) -> list[Any]:
    """The result and all gradients."""
    if not recording:
        with torch.no_grad():
            out = call(x)
        return [out.dtype, out.requires_grad, out.tolist()]
    m.zero_grad()
    out = call(x)
    out.sum().backward()
    return [out.dtype, out.tolist(), *(None if p.grad is None else p.grad.tolist() for p in m.parameters())]


@pytest.mark.parametrize("recording", [False, True], ids=["values", "gradients"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed(name: str, recording: bool) -> None:
    x = torch.arange(4.0) - 1.5
    (compiled, m), plain = (lambda made: (torch.jit(made), made))(model()), model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JitWarning)
        for change in (None, CHANGES[name], CHANGES[name]):
            for part in (m, plain) if change is not None else ():
                change(part)  # type: ignore[misc]
            for _ in range(3):
                assert outcome(compiled, m, x, recording) == outcome(plain, plain, x, recording)


def test_a_change_and_the_way_back_compile_no_third_version() -> None:
    m = model().requires_grad_(False)
    kind, first = type(m.scale), type(m.scale).forward
    compiled, x = torch.jit(m), torch.ones(4)
    expected = []
    for _ in range(4):
        for forward in (first, other_forward):
            kind.forward = forward
            expected.append((compiled(x).tolist(), m(x).tolist()))
    assert all(a == b for a, b in expected) and compiled.cache_info().compiles == 2


def test_a_class_that_every_call_changes_stays_compiled() -> None:
    m = model().requires_grad_(False)
    compiled, x = torch.jit(m), torch.ones(4)
    for count in range(2000):
        type(m.scale).count = count
        result = compiled(x)
    assert result.tolist() == m(x).tolist()
    assert compiled.cache_info().compiles == 1 and compiled.cache_info().hits == 0


def test_memory_that_was_replaced_is_free() -> None:
    m = model().requires_grad_(False)
    compiled, x = torch.jit(m), torch.ones(4)
    array = np.arange(4, dtype=np.float32)
    m.scale.weight.data = torch.from_numpy(array)
    alive = weakref.ref(array)
    del array
    for _ in range(3):
        compiled(x)
    m.scale.weight.data = torch.ones(4)
    gc.collect()
    assert alive() is None


def test_a_function_forgotten_in_the_middle_of_its_call_ends_it() -> None:
    """What the call borrows from the compiled version lives until the call ends."""
    weights = [torch.full((300, 300), 1.0 + i) for i in range(3)]
    box: dict[str, Any] = {"weights": weights}

    class Forgetting:
        forget = False

        def __eq__(self, other: object) -> bool:
            if self.forget:
                function.clear()
                box["weights"] = []
                gc.collect()
            return isinstance(other, Forgetting)

        __hash__ = None  # type: ignore[assignment]

    option = Forgetting()
    held = box["weights"]

    def total(x: torch.Tensor) -> torch.Tensor:
        for weight in held:
            x = x @ weight
        return x * (2.0 if option == option else 1.0)

    function = torch.jit(total)
    x = torch.ones(300, 300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JitWarning)
        expected = total(x).tolist()
        assert function(x).tolist() == expected
        Forgetting.forget = True
        assert function(x).tolist() == expected


def test_threads_call_while_parameters_are_replaced() -> None:
    m = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(3))).requires_grad_(False)
    compiled, x = torch.jit(m), torch.ones(512, 64)
    states = [[torch.full((64, 64), scale / 64) for _ in m] for scale in (1.0, 2.0)]
    stop, wrong = threading.Event(), []

    def call() -> None:
        while not stop.is_set():
            found = set(compiled(x).flatten().tolist())
            if not found <= {1.0, 2.0, 4.0, 8.0} or len(found) != 1:
                wrong.append(found)

    for part, weight in zip(m, states[0], strict=True):
        part.weight.data = weight
    compiled(x)
    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(300):
        for part, weight in zip(m, states[turn % 2], strict=True):
            part.weight.data = weight.clone()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_buffer_that_counts_in_place_starts_no_epoch() -> None:
    module = torch.nn.Module()
    module.register_buffer("count", torch.tensor(0))

    @torch.jit
    def step(x: Any) -> Any:
        module.count += 1
        return x * module.count

    step(torch.ones(3))
    before = mode.epoch()
    assert step(torch.ones(3)).tolist() == [2.0] * 3
    module.count += 1
    assert mode.epoch() == before


class Doubled:
    """What can be jitted: an instance, a method and a function of its own."""

    def __call__(self, x: Any) -> Any:
        return x * 2

    def method(self, x: Any) -> Any:
        return x * 2


JITTED: dict[str, Callable[[Any, Any], Any]] = {
    "a function": lambda function, owner: torch.jit(function),
    "a partial": lambda function, owner: torch.jit(functools.partial(function)),
    "an instance": lambda function, owner: torch.jit(owner),
    "a method": lambda function, owner: torch.jit(owner.method),
    "a vmapped function": lambda function, owner: torch.jit(torch.vmap(function)),
}


@pytest.mark.parametrize("name", JITTED)
def test_other_code_of_what_was_jitted_itself_is_noticed(name: str) -> None:
    def function(x: Any) -> Any:
        return x * 2

    kind = type("Kind", (Doubled,), {n: FunctionType(getattr(Doubled, n).__code__, {}) for n in ("__call__", "method")})
    jitted, x = JITTED[name](function, kind()), torch.ones(3)
    assert jitted(x).tolist() == jitted(x).tolist() == [2.0] * 3
    function.__code__ = (lambda x: x * 3).__code__
    for method in (kind.__call__, kind.method):
        method.__code__ = (lambda self, x: x * 3).__code__
    assert jitted(x).tolist() == jitted(x).tolist() == [3.0] * 3


def test_integers_of_more_than_64_bits_run_eagerly() -> None:
    x = torch.arange(6.0)
    for function in (lambda x, n: x.roll(n), lambda x, n: x[::n] * 2, lambda x, n: x[:n] + x[-n:]):
        jitted = torch.jit(function)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for n in (10**30, 2, 2**63, 10**30):
                assert outcome_of(jitted, x, n) == outcome_of(function, x, n)


def outcome_of(function: Any, *args: Any) -> Any:
    try:
        return function(*args).tolist()
    except Exception as error:
        return type(error)
