"""Contexts as decorators, of generators above all: when their bodies are inside, compared with PyTorch."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

import eagerjit as ej
import eagerjit.utils._contextlib as ours

theirs = importlib.import_module("torch.utils._contextlib")

DECORATORS: dict[str, Callable[[Any], Any]] = {
    "no_grad": lambda t: t.no_grad,
    "no_grad()": lambda t: t.no_grad(),
    "inference_mode": lambda t: t.inference_mode,
    "inference_mode()": lambda t: t.inference_mode(),
    "enable_grad()": lambda t: t.enable_grad(),
    "set_grad_enabled": lambda t: lambda function: t.set_grad_enabled(False)(function),
    "autocast": lambda t: t.autocast("cpu", dtype=t.bfloat16),
}


def modes(t: Any) -> Any:
    x = t.ones(2, 2, requires_grad=True)
    return t.is_grad_enabled(), t.is_inference_mode_enabled(), (x * 2).requires_grad, str((x @ x).dtype)[-8:]


@pytest.mark.parametrize("name", DECORATORS)
def test_every_stretch_of_a_generator_is_inside_and_its_caller_is_not(name: str) -> None:
    def seen(t: Any) -> list[Any]:
        found: list[Any] = []

        @DECORATORS[name](t)
        def parts(count: int, *, last: str) -> Any:
            try:
                for i in range(count):
                    try:
                        found.append(("sent", (yield i, modes(t))))
                    except ValueError as problem:
                        found.append((repr(problem), modes(t)))
                        yield "caught", modes(t)
                return last
            finally:
                found.append(("end", modes(t)))

        def through() -> Any:
            found.append((yield from parts(2, last="done")))

        found += [parts.__name__, modes(t), list(through()), modes(t)]
        one = parts(3, last="")
        found += [modes(t), next(one), one.send("text"), modes(t), one.throw(ValueError("thrown")), modes(t), next(one)]
        one.close()
        two = parts(1, last="")
        next(two)
        with pytest.raises(KeyError):
            two.throw(KeyError("not caught"))
        three = parts(1, last="never begun")
        three.close()
        return [*found, modes(t), list(parts(0, last="nothing"))]

    assert seen(ej) == seen(torch)


def test_contexts_of_a_program_decorate_too() -> None:
    def seen(module: Any) -> list[Any]:
        found: list[Any] = []

        class Noted(module._DecoratorContextManager):  # type: ignore[misc,name-defined]
            def __init__(self, name: str):
                self.name = name

            def __enter__(self) -> None:
                found.append(f"in {self.name}")

            def __exit__(self, *error: object) -> None:
                found.append(f"out {self.name} {error[0]}")

            def clone(self) -> Noted:
                return Noted(self.name + "'")

        class Bare(module._NoParamDecoratorContextManager):  # type: ignore[misc,name-defined]
            def __enter__(self) -> None:
                found.append("in")

            def __exit__(self, *error: object) -> None:
                found.append("out")

        @Noted("a")
        def function(x: int) -> int:
            return 6 // x

        @Bare
        def bare() -> Any:
            yield 1

        @Bare()
        def called() -> int:
            return 2

        found += [function(3), function.__name__, list(bare()), called(), isinstance(Bare(), Bare)]
        with pytest.raises(ZeroDivisionError):
            function(0)
        with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):
            made = Noted("class")(dict)
        with pytest.raises(AssertionError):
            module.context_decorator(Noted("both"), len)
        with pytest.raises(RuntimeError, match="Cannot decorate classes"):
            module.context_decorator(lambda: Noted("c"), dict)
        found.append(made(a=1))
        found.append(module.context_decorator(lambda: Noted("d"), abs)(-1))
        with pytest.raises(NotImplementedError):
            module._DecoratorContextManager().__enter__()
        return found

    assert seen(ours) == seen(theirs)


@pytest.mark.parametrize("name", ["no_grad()", "enable_grad()", "inference_mode()", "set_grad_enabled"])
def test_modes_are_such_contexts(name: str) -> None:
    def seen(t: Any, module: Any) -> Any:
        context = t.set_grad_enabled(True) if name == "set_grad_enabled" else DECORATORS[name](t)
        return isinstance(context, module._DecoratorContextManager), type(context.clone()) is type(context)

    assert seen(ej, ours) == seen(torch, theirs) == (True, True)
