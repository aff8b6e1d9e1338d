"""What can be jitted: Modules, which stay Modules, methods, partials, callable objects; recompiles and `clear`."""

from __future__ import annotations

import copy
import functools
import pickle
import warnings
from typing import Any

import pytest

import eagerjit as torch
from eagerjit import nn
from eagerjit.guards.comparing import state_of
from eagerjit.jit import JitWarning


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 2)
        self.dropout = nn.Dropout(0.5)
        self.scale = 2.0

    def forward(self, x: Any) -> Any:
        return self.second(self.dropout(torch.relu(self.first(x)))) * self.scale

    def described(self) -> str:
        return f"scaled by {self.scale}"


def same(a: Any, b: Any) -> bool:
    return a.shape == b.shape and bool((a == b).all())


@pytest.fixture
def pair() -> Any:
    torch.manual_seed(0)
    module = Net().eval()
    return module, torch.jit(module)


X = torch.arange(12.0).reshape(3, 4)


def test_a_jitted_module_is_the_module_with_compiled_calls(pair: Any) -> None:
    module, jitted = pair
    assert same(jitted(X), module(X)) and jitted.cache_info().compiles == 1
    assert isinstance(jitted, Net) and jitted._orig_mod is module and torch.jit(jitted) is jitted
    assert list(jitted.state_dict()) == list(module.state_dict())
    assert all(a is b for a, b in zip(jitted.parameters(), module.parameters(), strict=True))
    assert repr(jitted) == repr(module) and jitted.described() == "scaled by 2.0"
    assert [name for name, _ in jitted.named_modules()] == [name for name, _ in module.named_modules()]


def test_changes_go_both_ways(pair: Any) -> None:
    module, jitted = pair
    jitted(X)
    jitted.scale = 3.0
    assert module.scale == 3.0 and same(jitted(X), module(X))
    module.first = nn.Linear(4, 5)
    assert jitted.first is module.first and same(jitted(X), module(X))
    jitted.train()
    assert module.training and module.dropout.training
    torch.manual_seed(1)
    expected = module(X)
    torch.manual_seed(1)
    assert same(jitted(X), expected)


def test_gradients_reach_the_module(pair: Any) -> None:
    module, jitted = pair
    module(X).sum().backward()
    expected = [p.grad for p in module.parameters()]
    module.zero_grad()
    jitted(X).sum().backward()
    assert all(same(p.grad, g) for p, g in zip(module.parameters(), expected, strict=True))


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies_are_jitted_modules_of_their_own(pair: Any, again: Any) -> None:
    module, jitted = pair
    copied = again(jitted)
    assert type(copied) is type(jitted) and copied.first.weight is not module.first.weight
    expected = jitted(X)
    assert same(copied(X), expected)
    with torch.no_grad():
        copied.first.weight.zero_()
    assert same(jitted(X), expected) and not same(copied(X), expected)


def test_a_jitted_module_inside_another(pair: Any) -> None:
    _, jitted = pair
    outer = nn.Sequential(jitted, nn.ReLU())
    assert next(iter(outer.state_dict())) == "0.first.weight"
    expected = outer(X)
    assert same(torch.jit(outer, fullgraph=True)(X), expected)


def test_hooks_run_in_jitted_modules(pair: Any) -> None:
    module, jitted = pair
    jitted.register_forward_hook(lambda m, args, result: result + 1)
    assert same(jitted(X), module(X))


class Positive(nn.Module):
    """A parametrization."""

    def forward(self, x: Any) -> Any:
        return x.exp()

    def right_inverse(self, x: Any) -> Any:
        return x.log()


class Noting(nn.Linear):
    """A Module that sees what is assigned to it."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        self.__dict__.setdefault("seen", []).append(name)


@pytest.mark.parametrize("before", [True, False])
def test_parametrized_modules(before: bool) -> None:
    parametrize = nn.utils.parametrize
    module, x = Noting(3, 4), torch.ones(2, 3)
    given = module if before else torch.jit(module)
    assert parametrize.register_parametrization(given, "weight", Positive()) is given
    jitted = torch.jit(module) if before else given
    for owner, value in ((module, 2.0), (jitted, 3.0)):
        owner.weight = torch.full((4, 3), value)
        owner.flag = value
        assert torch.equal(jitted(x), module(x)) and torch.allclose(jitted.weight, torch.tensor(value))
        assert jitted.flag == module.flag == value and module.seen[-1] == "flag"
    assert parametrize.remove_parametrizations(jitted, "weight") is jitted
    assert torch.equal(jitted(x), module(x)) and isinstance(module.weight, nn.Parameter)


def test_module_compile_compiles_in_place() -> None:
    module = Net().eval()
    expected = module(X)
    assert module.compile(mode="reduce-overhead") is None
    compiled = module.__dict__["_compiled_call_impl"]
    assert same(module(X), expected) and same(module(X), expected) and compiled.cache_info().compiles == 1
    copied = copy.deepcopy(module)
    with torch.no_grad():
        copied.first.weight.zero_()
    assert "_compiled_call_impl" not in copied.__dict__ and not same(copied(X), expected)
    assert same(pickle.loads(pickle.dumps(module))(X), expected)


class Scaler:
    factor = 2.0

    def __init__(self, offset: float):
        self.offset = offset

    @torch.jit
    def method(self, x: Any) -> Any:
        return x * self.factor + self.offset

    @torch.jit
    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x * cls.factor

    @classmethod
    @torch.jit
    def of_class_too(cls, x: Any) -> Any:
        return x * cls.factor

    @torch.jit
    @staticmethod
    def static(x: Any) -> Any:
        return x + 1

    def __call__(self, x: Any) -> Any:
        return x - self.offset


def test_methods_and_callable_objects() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for offset in (1.0, -2.0):
            one = Scaler(offset)
            for _ in range(2):
                assert same(one.method(X), X * 2 + offset)
                assert same(torch.jit(one)(X), X - offset)
                assert same(torch.jit(one.method)(X), X * 2 + offset)
        for _ in range(2):
            assert same(Scaler.of_class(X), X * 2) and same(Scaler.of_class_too(X), X * 2)
            assert same(Scaler.static(X), X + 1)
        assert same(torch.jit(functools.partial(lambda x, by: x * by, by=3.0))(X), X * 3)
        assert same(torch.jit(lambda x: x * 5)(X), X * 5)
    one.offset = 7.0
    assert same(one.method(X), X * 2 + 7)


@torch.jit
def at_module_level(x: Any) -> Any:
    return x * 2


def test_jitted_functions_pickle_by_name() -> None:
    assert pickle.loads(pickle.dumps(at_module_level)) is at_module_level
    assert copy.deepcopy(at_module_level) is at_module_level


def test_compile_is_jit_under_pytorchs_name() -> None:
    assert same(torch.compile(lambda x: x * 2, mode="max-autotune", dynamic=True, backend="inductor")(X), X * 2)

    @torch.compile(fullgraph=True)
    def refused(x: Any) -> Any:
        return open(x)

    with pytest.raises(RuntimeError, match="cannot be compiled"):
        refused(X)

    def plain(x: Any) -> Any:
        return x

    assert torch.compile(plain, disable=True) is plain
    with pytest.raises(TypeError, match="fulgraph"):
        torch.compile(plain, fulgraph=True)


def test_names_of_torch_jit() -> None:
    def plain(x: Any) -> Any:
        return x

    for name in ("script", "ignore", "unused", "export"):
        assert getattr(torch.jit, name)(plain) is plain
    assert torch.jit.trace(plain, (X,)) is plain and torch.jit.ignore(drop=True)(plain) is plain
    assert torch.jit.is_scripting() is False and torch.jit.is_tracing() is False


def test_recordings_are_not_told_that_they_are() -> None:
    function = torch.jit(lambda x: x * (2 if torch.jit.is_tracing() or torch.compiler.is_compiling() else 3))
    assert same(function(X), X * 3) and same(function(X), X * 3)
    assert function.cache_info().compiles == 1


FACTOR = 1.0


def test_what_keeps_changing_is_said_with_its_line() -> None:
    global FACTOR

    @torch.jit(on_recompile="warn")
    def scaled(x: Any) -> Any:
        return x * len(FACTOR)

    FACTOR = "a"
    scaled(X)
    FACTOR = "bb"
    with pytest.warns(JitWarning, match=r"FACTOR was 'a', is 'bb' \(.*test_callables\.py:\d+\)"):
        assert same(scaled(X), X * 2)
    FACTOR = "ccc"
    with pytest.warns(JitWarning, match=r"FACTOR was .*, is 'ccc' .*change number 2 of FACTOR"):
        assert same(scaled(X), X * 3)
    with pytest.warns(JitWarning, match=r"x was f32\[s0, s1\].*, is f32\[s0\]"):
        scaled(X[0])
    first, _, third = scaled.cache_info().reasons
    assert (first.what, first.old, first.new) == ("FACTOR", "'a'", "'bb'") and third.what == "x"
    assert scaled.cache_info().recompiles == 3


def test_a_number_that_changes_becomes_an_input() -> None:
    global FACTOR

    @torch.jit(on_recompile="warn")
    def scaled(x: Any) -> Any:
        return x * FACTOR

    FACTOR = 1.0
    scaled(X)
    FACTOR = 2.0
    with pytest.warns(JitWarning, match=r"FACTOR was 1\.0, is a float \(.*test_callables\.py:\d+\)"):
        assert same(scaled(X), X * 2)
    for FACTOR in (3.0, 4.5, -0.25):
        assert same(scaled(X), X * FACTOR)
    assert scaled.cache_info().recompiles == 1


def test_a_recompile_can_be_an_error() -> None:
    @torch.jit(on_recompile="error")
    def doubled(x: Any) -> Any:
        return x * 2

    assert same(doubled(X), X * 2)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"doubled is compiled again: x was f32\[.*, is f64\["):
            doubled(X.double())
    assert same(doubled(X[:2]), X[:2] * 2) and doubled.cache_info().compiles == 1
    doubled.clear()
    assert doubled.cache_info().compiles == 0 and same(doubled(X.double()), X.double() * 2)
    with pytest.raises(ValueError, match="on_recompile"):
        torch.jit(on_recompile="maybe")


def test_clear_forgets_that_a_function_ran_eagerly() -> None:
    seen: list[int] = []

    @torch.jit
    def noted(x: Any) -> Any:
        if seen is not None:
            return x * 2
        return x

    noted(X)
    noted(X)
    noted.clear()
    assert noted.variants == [] and noted.executables == []
    assert same(noted(X), X * 2) and noted.cache_info().compiles == 1


def test_what_an_object_holds_is_compared_in_time_however_it_is_shared() -> None:
    plain = type("Holder", (), {})()
    plain.parts = plain.first = [1]
    for _ in range(100):
        plain.parts = [plain.parts, plain.parts, plain]
    before = state_of(plain, [])
    assert state_of(plain, []) == before
    plain.first[0] = 2
    assert state_of(plain, []) != before
    plain.first[0] = 1
    assert state_of(plain, []) == before
