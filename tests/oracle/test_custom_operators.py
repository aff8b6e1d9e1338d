"""Functions of a program as operators under a name, as `torch.library` makes them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import eagerjit
import eagerjit.library

LIBRARIES = (torch, eagerjit)


def sine(t: Any) -> Any:
    @t.library.custom_op("oracle::sine", mutates_args=())
    def sine(x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        return t.from_numpy(x.detach().numpy() * scale)

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.scale = inputs[1]

    sine.register_autograd(lambda ctx, grad: (grad * ctx.scale + 1, None), setup_context=setup)

    @sine.register_fake
    def _(x: Any, scale: float = 2.0) -> Any:
        return t.empty_like(x)

    return sine


def test_values_gradients_and_names() -> None:
    seen = []
    for t in LIBRARIES:
        operator = sine(t)
        x = t.tensor([1.0, 2.0], requires_grad=True)
        y = t.ops.oracle.sine(x, 3.0) + operator(x, scale=0.5)
        y.sum().backward()
        seen.append((y.tolist(), x.grad.tolist()))
    assert seen[0] == seen[1] == ([3.5, 7.0], [5.5, 5.5])


def test_compiled_functions_call_them() -> None:
    doubled = eagerjit.library.custom_op("oracle::doubled", lambda x: x * 2, mutates_args=())
    compiled = eagerjit.jit(lambda x: doubled(x) + 1, fullgraph=True)
    assert compiled(eagerjit.ones(2)).tolist() == [3.0, 3.0]


def test_errors() -> None:
    with pytest.raises(ValueError, match="namespace"):
        eagerjit.library.custom_op("bare", lambda x: x, mutates_args=())
    for t in LIBRARIES:
        with pytest.raises(AttributeError):
            t.ops.oracle.nothing  # noqa: B018


def test_checks_raise_what_they_say() -> None:
    for t in LIBRARIES:
        t._check(True)
        for check, kind in (("_check", RuntimeError), ("_check_value", ValueError), ("_check_index", IndexError)):
            with pytest.raises(kind, match="it is 3"):
                getattr(t, check)(False, lambda: "it is 3")
        with pytest.raises(RuntimeError, match="some are not"):
            t._check_tensor_all(t.tensor([True, False]), lambda: "some are not")
