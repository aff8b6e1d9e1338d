"""Transforms that are compiled after some calls: what they compute, and do, is what plain calls compute and do."""

from __future__ import annotations

import bdb
import functools
import gc
import inspect
import sys
import threading
import time
import warnings
import weakref

import pytest

import eagerjit as torch
from eagerjit import nn
from eagerjit.compiled import background
from eagerjit.func import functional_call, grad, hessian, jacrev, jvp, repeated, vmap
from eagerjit.jit import JitFunction
from tests.soundness.framework import Run, attempt, first_difference


@pytest.fixture(autouse=True)
def policy(monkeypatch):
    """The second call of a kind is compiled, and waited for."""
    monkeypatch.setattr(repeated.Policy, "after", 1)
    monkeypatch.setattr(repeated.Policy, "background", False)
    monkeypatch.setattr(repeated, "_kinds", repeated.OrderedDict())
    monkeypatch.setattr(repeated, "_counts", repeated.OrderedDict())


X = torch.arange(12.0).reshape(4, 3)


def closures_made_anew():
    for scale in (1.0, 2.0, -0.0, 3.0):
        w = torch.ones(3) * scale
        yield vmap(lambda x: (x * w).sum() + scale)(X)  # noqa: B023


def tensors_in_closures_change():
    w = torch.ones(3)
    f = vmap(lambda x: x * w)
    for step in range(5):
        yield f(X)
        w.add_(step)
    w = torch.zeros(3)
    yield f(X)


def a_closure_is_written():
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return x * count

    for _ in range(4):
        yield vmap(f)(X)
    yield count


def another_function_writes_the_closure():
    w = torch.ones(3)

    class Holder:
        @staticmethod
        def bump():
            nonlocal w
            w = w + 1

    def f(x):
        Holder.bump()
        return x * w

    for _ in range(4):
        yield vmap(lambda x: f(x) + w)(X)
        yield vmap(f)(X)
        yield w


def another_function_reads_the_closure():
    w = torch.ones(3)

    def read():
        return w * 2

    def f(x):
        return x * w + read()

    for step in range(4):
        w = torch.ones(3) * step
        yield vmap(f)(X)


def a_function_that_calls_itself():
    def f(x, depth=3):
        return x if depth == 0 else f(x * 2, depth - 1)

    for _ in range(4):
        yield vmap(f)(X)


def containers_in_closures():
    parameters, seen = {"w": torch.ones(3)}, []

    def f(x):
        seen.append(len(seen))
        return x * parameters["w"]

    for step in range(5):
        yield vmap(f)(X)
        parameters["w"] = torch.ones(3) * step
        yield list(seen)
    parameters["more"] = torch.ones(1)
    yield vmap(f)(X)


def globals_change():
    for X_SCALE in (1.0, 2.0, 3.0):
        globals()["SCALE"] = X_SCALE
        for _ in range(3):
            yield vmap(_scaled)(X)


def _scaled(x):
    return x * SCALE  # noqa: F821


def modes_of_modules():
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    f = vmap(model, randomness="different")
    for training in (True, False, True, True, False):
        model.train(training)
        yield f(X)
        yield torch.rand(2)
    with torch.no_grad():
        model[0].weight.mul_(2)
    yield f(X)
    model[2] = nn.Linear(4, 1)
    yield f(X)


def random_numbers():
    for randomness in ("same", "different"):
        f = vmap(lambda x: x * torch.rand(3), randomness=randomness)
        for _ in range(4):
            yield f(X)
            yield torch.randn(1)


def per_sample_gradients():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss(parameters, x, y):
        return nn.functional.cross_entropy(functional_call(model, parameters, (x[None],)), y[None])

    for _ in range(5):
        found = vmap(grad(loss), in_dims=(None, 0, 0))(
            {k: v.detach() for k, v in model.named_parameters()}, X, torch.tensor([0, 1, 0, 1])
        )
        for name, p in model.named_parameters():
            p.grad = found[name].mean(0)
        optimizer.step()
        yield found


def losses_of_derivatives():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))

    def u(x):
        return model(x).squeeze()

    for second in (hessian, lambda u: jacrev(grad(u)), lambda u: vmap(hessian(u))):
        for _ in range(3):
            model.zero_grad()
            found = second(u)(X) if second is not hessian else vmap(lambda x: hessian(u)(x).diagonal())(X)
            (found**2).sum().backward()
            yield [p.grad for p in model.parameters()]
        break


def gradients_through():
    w = torch.ones(3, requires_grad=True)
    for _ in range(4):
        yield grad(lambda w: vmap(lambda x: (x * w).sin().sum())(X).sum())(w)
        yield jvp(lambda w: vmap(lambda x: (x * w).sin())(X), (w,), (torch.ones(3),))
        (first,) = torch.autograd.grad(vmap(lambda x: (x * w) ** 3)(X).sum(), w, create_graph=True)
        yield torch.autograd.grad(first.sum(), w)
        with torch.no_grad():
            w.add_(0.5)


def gradients_are_turned_off_and_on():
    w = torch.ones(3, requires_grad=True)
    for enabled in (True, False, True, True, False):
        with torch.set_grad_enabled(enabled):
            yield vmap(lambda x: x * w)(X).requires_grad


def sizes_and_dtypes():
    for n in (2, 3, 4, 5, 1, 0):
        yield vmap(lambda x: x.sum() * n)(torch.ones(n, 3))  # noqa: B023
        yield vmap(lambda x: x.cumsum(0))(torch.ones(3, n, dtype=torch.float64))


def arguments_are_written():
    shared = torch.zeros(3)

    def f(x):
        x.add_(1)
        return x * 2

    for _ in range(4):
        x = torch.ones(4, 3)
        yield (vmap(f)(x), x, x._version)
        yield vmap(lambda x: x + shared.add_(1))(x)
        yield (shared, shared._version)


def results_that_are_arguments():
    for _ in range(4):
        x = torch.ones(4, 3)
        y = vmap(lambda x: x)(x)
        yield (y is x, y.data_ptr() == x.data_ptr(), vmap(lambda x: x[1:])(x)._base is x)
        yield vmap(lambda x, y: x + y, in_dims=(0, None))(x, x)


def partials_and_methods():
    class Scaled:
        def __init__(self, scale):
            self.scale = scale

        def __call__(self, x):
            return x * self.scale

        def times(self, x):
            return x * self.scale

    held = Scaled(2.0)
    for scale in (2.0, 3.0, 4.0, 5.0):
        held.scale = scale
        yield vmap(held)(X)
        yield vmap(held.times)(X)
        yield vmap(functools.partial(torch.add, alpha=scale), in_dims=(0, None))(X, torch.ones(3))
        yield vmap(torch.ones(3).mul)(X)


def errors():
    limit = [10.0]

    def f(x):
        if limit[0] > 20:
            raise KeyError(limit[0])
        return x.reshape(3, 1) @ x.reshape(1, -1)

    for value in (10.0, 11.0, 30.0, 5.0):
        limit[0] = value
        yield attempt(vmap(f), X)
        yield attempt(vmap(f), torch.ones(2, 2))
        yield attempt(vmap(lambda x: x if x.sum() > 0 else -x), X)
        yield attempt(vmap(lambda x: x.sum().item()), X)


def output():
    def f(x, name):
        print("called", name)
        return x + 1

    for name in ("a", "b", "c", "c", "d"):
        yield vmap(f, in_dims=(0, None))(X, name)


def options_change():
    dims = [0, None]
    f = vmap(lambda x, y: x * y, in_dims=dims)
    for _ in range(3):
        yield f(X[:3], X[:3])
    dims[1] = 1
    for _ in range(3):
        yield f(X[:3], X[:3])


def in_parts():
    for _ in range(4):
        yield vmap(lambda x: {"a": x, "b": x.sum()}, out_dims={"a": 1, "b": 0}, chunk_size=3)(X)


def jacobians_by_their_other_names():
    for scale in (1.0, 2.0, 3.0, 4.0):
        yield torch.autograd.functional.jacobian(lambda x: x**2 * scale, X[0])  # noqa: B023
        yield torch.autograd.functional.hessian(lambda x, y: (x**2 * y).sum() * scale, (X[0], X[1]))  # noqa: B023


PROGRAMS = [value for value in list(globals().values()) if callable(value) and getattr(value, "__code__", None)]
PROGRAMS = [p for p in PROGRAMS if p.__module__ == __name__ and inspect.isgeneratorfunction(p)]


def run(program):
    """What a program yields, with its output and the random numbers that it leaves."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return Run(False)(lambda jit: program()).log


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_program_is_what_it_is_without(program, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(repeated.Policy, "after", 1 << 40)
        plain = run(program)
    assert first_difference(plain, run(program)) is None


def compiled():
    return [kind.jitted.cache_info().compiles for kind in repeated._kinds.values()]


def test_functions_made_anew_are_compiled_once():
    for scale in range(8):
        w, b = torch.ones(3) * scale, {"b": torch.ones(3)}
        vmap(grad(lambda x: (x * w + b["b"]).sum() * scale))(X)  # noqa: B023
    assert compiled() == [1]


def test_what_is_never_the_same_ends_with_few_versions():
    for number in range(300):
        vmap(lambda x, number=str(number): x + len(number))(X)
    assert sum(compiled()) <= 8
    f = vmap(lambda x, name: x + len(name), in_dims=(0, None))
    for number in range(300):
        f(X, str(number))
    assert sum(compiled()) <= 8


def test_the_inner_ones_are_compiled_with_the_outer_one():
    for _ in range(4):
        hessian(lambda x: (x**3).sum())(X[0])
    assert compiled() == [1]


def test_nothing_is_kept_that_is_not_called():
    model = nn.Linear(3, 3)
    for _ in range(4):
        vmap(model)(X)
    assert compiled() == [1]
    alive = weakref.ref(model)
    del model
    for _ in range(3):
        gc.collect()
    assert alive() is None


def test_every_line_runs_for_debuggers():
    def f(x):
        return x * 2

    def run():
        entered.clear()
        vmap(f)(X)
        return "f" in entered

    entered = []

    class Debugger(bdb.Bdb):
        def user_call(self, frame, argument_list):
            entered.append(frame.f_code.co_name)
            self.set_step()

    for _ in range(4):
        vmap(f)(X)
    known, before = compiled(), sys.gettrace()
    try:
        assert Debugger().runcall(run)
    finally:
        sys.settrace(before)
    assert compiled() == known


class SlowlyBegun(background.Job):
    """What the compiler's thread begins a little later, as one does that waits for the interpreter's lock."""

    def __init__(self, work):
        super().__init__(lambda: (time.sleep(0.001), work()))


def test_what_is_compiled_fast_serves_the_next_call(monkeypatch):
    monkeypatch.setattr(repeated.Policy, "background", True)
    monkeypatch.setattr(background, "Job", SlowlyBegun)
    monkeypatch.setattr(JitFunction, "_compile", lambda self, compile, *others: self.compiled.append(compile))
    monkeypatch.setattr(JitFunction, "compiled", [], raising=False)
    f = vmap(lambda x: (x * 2).sum())
    f(X), f(X)
    assert len(JitFunction.compiled) == 1


def test_what_is_compiled_slowly_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(repeated.Policy, "background", True)
    go_on = threading.Event()
    compiled = JitFunction._compile
    monkeypatch.setattr(JitFunction, "_compile", lambda *given: go_on.wait(30) and compiled(*given))
    f = vmap(lambda x: (x * 2).sum())
    for _ in range(3):
        assert f(X).equal((X * 2).sum(1))
    (kind,) = repeated._kinds.values()
    assert kind.jitted.cache_info().compiles == 0
    go_on.set()
    assert kind.jitted.wait(30) and kind.jitted.cache_info().compiles == 1


def test_compiling_goes_on_beside_the_calls(monkeypatch):
    monkeypatch.setattr(repeated.Policy, "background", True)
    f = vmap(lambda x: (x * 2).sum())
    expected = (X * 2).sum(1)
    for _ in range(3):
        assert f(X).equal(expected)
    (kind,) = repeated._kinds.values()
    assert kind.jitted.wait(30)
    served = kind.jitted.served
    assert f(X).equal(expected) and kind.jitted.served == served + 1


@pytest.mark.parametrize("after", [1, 1 << 40])
def test_what_a_closure_holds_is_freed_with_the_call(after, monkeypatch):
    monkeypatch.setattr(repeated.Policy, "after", after)

    def call():
        w = torch.ones(3)
        vmap(grad(lambda x: (x * w).sum()))(X)
        return weakref.ref(w)

    for _ in range(4):
        call()
    gc.collect()
    gc.disable()
    try:
        assert call()() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["topk", "max", "cummax", "kthvalue"])
def test_reverse_over_forward_mode_of_operations_with_indices(name):
    def f(x):
        return (getattr(x, name)(*((2,) if name in ("topk", "kthvalue") else (0,))).values * x.sum()).sum()

    x = torch.tensor([0.5, 2.0, 1.0])
    assert jacrev(torch.func.jacfwd(f))(x).equal(jacrev(jacrev(f))(x))
