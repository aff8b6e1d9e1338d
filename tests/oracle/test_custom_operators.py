"""Functions of a program as operators under a name, as `torch.library` makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
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


def written(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x.clone()


def given_back(x: torch.Tensor) -> torch.Tensor:
    return x


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.parametrize("function, mutated, is_right", [
    (written, (), False), (written, ("x",), True), (written, "unknown", True), (given_back, (), False),
    (doubled, (), True),
])  # fmt: skip
def test_opcheck_looks_at_what_an_operator_does(function: Any, mutated: Any, is_right: bool) -> None:
    checks: Any = ("test_schema", "test_autograd_registration")
    for t in LIBRARIES:
        operator = t.library.custom_op(f"oracle::{function.__name__}{len(mutated)}", function, mutates_args=mutated)
        found = t.library.opcheck(operator, (t.ones(2),), test_utils=checks, raise_exception=False)
        assert [value == "SUCCESS" for value in found.values()] == [is_right, True] and tuple(found) == checks
        if not is_right:
            with pytest.raises(Exception, match="test_schema failed"):
                t.library.opcheck(operator, (t.ones(2),), test_utils="test_schema")
        with pytest.raises(ValueError, match="test_utils"):
            t.library.opcheck(operator, (t.ones(2),), test_utils="test_nothing")


def test_opcheck_compiles_and_differentiates() -> None:
    operator = eagerjit.library.custom_op("oracle::squared", lambda x: x * x, mutates_args=())
    x = eagerjit.ones(2, requires_grad=True)
    with pytest.raises(Exception, match="no autograd formula"):
        eagerjit.library.opcheck(operator, (x,))
    operator.register_autograd(lambda ctx, grad: grad * 2)
    assert set(eagerjit.library.opcheck(operator, (x,)).values()) == {"SUCCESS"}


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


def _through_numpy(t: Any, name: str) -> Any:
    """An operator that goes through NumPy, with an argument that is given by keyword alone."""

    @t.library.custom_op(f"oracle::{name}", mutates_args=())
    def scaled(x: torch.Tensor, *, scale: float = 2.0) -> torch.Tensor:
        return t.from_numpy(x.numpy() * scale)

    return scaled


def _outcome(function: Any) -> Any:
    try:
        return function()
    except Exception as error:
        return type(error).__name__, str(error)


def test_functions_see_no_history_and_arguments_by_keyword_have_no_gradient() -> None:
    seen = []
    for t in LIBRARIES:
        operator = _through_numpy(t, "scaled")
        told: list[Any] = []

        def setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any, told: Any = told) -> None:
            ctx.scale = keyword_only_inputs["scale"]
            told.append((len(inputs), keyword_only_inputs, tuple(output.shape)))

        x = t.tensor([1.0, 2.0], requires_grad=True)
        without = operator(x, scale=3.0)
        outcomes: list[Any] = [without.tolist(), without.requires_grad, _outcome(lambda y=without: y.sum().backward())]
        operator.register_autograd(lambda ctx, grad: grad * ctx.scale, setup_context=setup)
        (operator(x, scale=3.0) + operator(x)).sum().backward()
        with t.no_grad():
            outcomes.append(operator(x).requires_grad)
        outcomes += [x.grad.tolist(), _outcome(lambda x=x, f=operator: f(x, 3.0))[0], told]
        seen.append(outcomes)
    assert seen[0] == seen[1]
    assert seen[1][4] == [5.0, 5.0]


def test_rules_for_many_examples() -> None:
    seen = []
    for t in LIBRARIES:
        operator = _through_numpy(t, "of_examples")
        told: list[Any] = []

        def rule(info: Any, in_dims: Any, x: Any, *, scale: float, told: Any = told, operator: Any = operator) -> Any:
            told.append((info.batch_size, len(in_dims), x.shape[in_dims[0]], scale))
            return operator(x, scale=scale).movedim(in_dims[0], 1), 1

        operator.register_vmap(rule)
        x = t.arange(6.0).reshape(2, 3)
        mapped = [t.vmap(lambda x: operator(x, scale=4.0) + 1, in_dims=d)(x).tolist() for d in (0, 1)]  # noqa: B023
        seen.append((mapped, told))
    assert seen[0] == seen[1]


def joined_and_split(t: Any) -> Any:
    """Operators of lists of tensors, each of which is the other's gradient."""

    def join(xs: Sequence[torch.Tensor], dim: int) -> torch.Tensor:
        return t.from_numpy(np.concatenate([x.numpy() for x in xs], dim))

    def split(x: torch.Tensor, size: int, dim: int) -> tuple[list[torch.Tensor], int]:
        return [part.clone() for part in x.split(size, dim)], size

    def keep_dim(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.dim, ctx.sizes = inputs[-1], inputs[0]

    joined = t.library.custom_op("oracle::joined", join, mutates_args=())
    parted = t.library.custom_op("oracle::parted", split, mutates_args=())
    joined.register_autograd(
        lambda ctx, g: (list(g.split([x.shape[ctx.dim] for x in ctx.sizes], ctx.dim)), None), setup_context=keep_dim
    )
    parted.register_autograd(lambda ctx, parts, _: (joined(parts, ctx.dim), None, None), setup_context=keep_dim)
    return joined, parted


def test_lists_of_tensors() -> None:
    seen = []
    for t in LIBRARIES:
        joined, parted = joined_and_split(t)
        x, y = t.ones(2, 3, requires_grad=True), t.ones(2, 1)
        (first, second), size = parted(joined([x, y], 1), 2, 1)
        (first * t.arange(4.0).reshape(2, 2)).sum().add(second.sum() * 7).backward()
        seen.append((first.tolist(), second.tolist(), size, x.grad.tolist(), y.grad))
    assert seen[0] == seen[1]
