"""Operators declared by a schema (`torch.library.Library`, `define`, `impl`), against PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from oracle import same

import eagerjit as ej
import eagerjit.library

SPACES = iter(range(1000))


def _walked(t: Any, call: Callable[[Any], Any]) -> Any:
    x = t.tensor([1.0, 2.0], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of gradients that go through functions
        found = call(x)
        found.sum().backward()
    return found.detach(), x.grad


def _by_library(t: Any, space: str) -> Any:
    declared = t.library.Library(space, "DEF")
    declared.define("add(Tensor x, Tensor y, *, float alpha=1.0) -> Tensor")

    @t.library.impl(declared, "add", "CPU")
    def add(x: Any, y: Any, alpha: float = 1.0) -> Any:
        return x + alpha * y

    return _walked(t, lambda x: getattr(t.ops, space).add(x, x, alpha=2.0))


def _by_name(t: Any, space: str) -> Any:
    t.library.define(f"{space}::sine", "(Tensor x) -> Tensor")

    @t.library.impl(f"{space}::sine", "cpu")
    def sine(x: Any) -> Any:
        return x.sin()

    @t.library.register_fake(f"{space}::sine")
    def shape(x: Any) -> Any:
        return t.empty_like(x)

    return _walked(t, getattr(t.ops, space).sine)


def _for_all(t: Any, space: str) -> Any:
    t.library.define(f"{space}::twice", "(Tensor x) -> Tensor")
    t.library.impl(f"{space}::twice", "CompositeImplicitAutograd", lambda x: x * 2)
    return _walked(t, getattr(t.ops, space).twice)


def _with_a_gradient(t: Any, space: str) -> Any:
    fragment = t.library.Library(space, "FRAGMENT")
    fragment.define("triple(Tensor x) -> Tensor")
    fragment.impl("triple", lambda x: x * 3, "CPU")
    t.library.register_autograd(f"{space}::triple", lambda ctx, g: g * 100)
    return _walked(t, getattr(t.ops, space).triple)


def _with_a_function(t: Any, space: str) -> Any:
    class Times(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 5

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 7

    fragment = t.library.Library(space, "FRAGMENT")
    fragment.define("times(Tensor x) -> Tensor")
    fragment.impl("times", lambda x: x * 5, "CPU")
    fragment.impl("times", Times.apply, "Autograd")
    return _walked(t, getattr(t.ops, space).times), getattr(t.ops, space).times(t.ones(1))


def _that_writes(t: Any, space: str) -> Any:
    schema = "(Tensor(a!) x, float f=2.5, int[] s=[1,2], str t='a', Tensor? o=None, *, bool b=True) -> ()"
    t.library.define(f"{space}::write", schema)
    seen: list[Any] = []

    @t.library.impl(f"{space}::write", "CompositeExplicitAutograd")
    def write(x: Any, f: float = 2.5, s: Any = (1, 2), t: str = "a", o: Any = None, b: bool = True) -> None:
        x.add_(f)
        seen.append((f, *s, t, o, b))

    x = t.ones(2)
    getattr(t.ops, space).write(x)
    return x, seen


USES = [_by_library, _by_name, _for_all, _with_a_gradient, _with_a_function, _that_writes]


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_as_in_pytorch(use: Callable[[Any, str], Any]) -> None:
    space = f"declared{next(SPACES)}"
    same(use(ej, space), use(torch, space))


REFUSED: dict[str, Callable[[Any, str], Any]] = {
    "no namespace": lambda t, s: t.library.define("alone", "(Tensor x) -> Tensor"),
    "no function": lambda t, s: getattr(t.ops, s).bare(t.ones(2)),
    "no argument": lambda t, s: getattr(t.ops, s).bare(),
    "too many arguments": lambda t, s: getattr(t.ops, s).bare(t.ones(1), 4, 5),
    "twice": lambda t, s: t.library.define(f"{s}::bare", "(Tensor x) -> Tensor"),
    "not there": lambda t, s: getattr(t.ops, s).other,
    "another kind": lambda t, s: t.library.Library(s, "XX"),
    "PyTorch's own": lambda t, s: t.library.Library("aten", "DEF"),
    "no callable": lambda t, s: t.library.Library(s, "IMPL").impl("bare", 3, "CPU"),
    "no schema": lambda t, s: t.library.define(f"{s}::text", "some text"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    space, kinds = f"declared{next(SPACES)}", []
    for t in (ej, torch):
        t.library.define(f"{space}::bare", "(Tensor x, int n=3) -> Tensor")
        with pytest.raises(Exception) as caught:
            REFUSED[name](t, space)
        kinds.append(caught.type.__name__)
    assert kinds[0] == kinds[1]


def test_compiled() -> None:
    ej.library.define("declared::scaled", "(Tensor x, float by=2.0) -> Tensor")
    ej.library.impl("declared::scaled", "cpu", lambda x, by: x * by)
    compiled = ej.jit(lambda x, by: ej.ops.declared.scaled(x, by).exp())
    for by in (1.5, 2.5):
        x = ej.tensor([1.0, 2.0], requires_grad=True)
        y = ej.tensor([1.0, 2.0], requires_grad=True)
        found, expected = compiled(x, by), (y * by).exp()
        found.sum().backward()
        expected.sum().backward()
        assert found.tolist() == expected.tolist()
        assert x.grad.tolist() == y.grad.tolist()
