"""Losses with a term in the gradient of a compiled model: the plain call's bits, hooks, errors and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eagerjit as ej
from eagerjit.compiled.gradient_tape import GradientOp
from eagerjit.compiled.tape import CallOp


def model() -> tuple[Callable[[ej.Tensor], ej.Tensor], list[ej.Tensor]]:
    """A function of three weights, one of which it uses twice."""
    weights = [((ej.arange(16.0).reshape(4, 4) + i) * 0.37).sin().requires_grad_() for i in range(3)]

    def function(x: ej.Tensor) -> ej.Tensor:
        a, b, c = weights
        return ((x @ a).tanh() @ b).sigmoid() @ c + (x @ a).exp()

    return function, weights


def data() -> ej.Tensor:
    return (ej.arange(8.0).reshape(2, 4) * 0.11).cos().requires_grad_()


def penalty(g: ej.Tensor) -> ej.Tensor:
    return ((g.norm(2, dim=1) - 1) ** 2).mean()


def gradient(out: ej.Tensor, x: Any) -> ej.Tensor:
    return ej.autograd.grad(out.sum(), x, create_graph=True)[0]


def alone(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    penalty(gradient(f(x), x)).backward()


def with_the_result(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    (out.mean() + penalty(gradient(out, x))).backward()


def with_a_decay_made_between(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    decay = sum((w * w).sum() for w in weights)
    (out.mean() + penalty(gradient(out, x)) + decay).backward()


def with_a_decay_made_after(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    loss = out.mean() + penalty(gradient(out, x))
    (loss + sum((w * w).sum() for w in weights)).backward()


def with_two_gradients_of_one_call(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    (penalty(gradient(out, x)) + penalty(gradient(out * out, weights[1])) + out.mean()).backward()


def with_two_calls(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    first, second = f(x), f(x * 2)
    (penalty(gradient(first, x)) + penalty(gradient(second, x)) - first.mean()).backward()


def of_a_gradient_for_weights(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    found = ej.autograd.grad(out.sum(), weights, create_graph=True)
    (out.mean() + sum((g * g).sum() for g in found)).backward()


def of_a_gradient_with_history(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    v = (x * 3).sin()
    (g,) = ej.autograd.grad(out, x, v, create_graph=True)
    (penalty(g) + out.mean()).backward()


def for_an_argument_with_history(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    y = x.exp()
    out = f(y)
    (penalty(gradient(out, y)) + out.mean()).backward()


def for_some_inputs(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    (penalty(gradient(out, x)) + out.mean()).backward(inputs=weights[:2])


def with_a_hook_on_the_result(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    g = gradient(out, x)
    out.register_hook(lambda found: found * 2)
    (penalty(g) + out.mean()).backward()


def with_a_hook_on_the_gradient(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    g = gradient(out, x)
    g.register_hook(lambda found: found * 2)
    (penalty(g) + out.mean()).backward()


def with_the_results_gradient_retained(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    out.retain_grad()
    g = gradient(out, x)
    g.retain_grad()
    (penalty(g) + out.mean()).backward()
    weights[0].grad.add_(out.grad.sum() + g.grad.sum())


def for_the_result_too(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    found = ej.autograd.grad(penalty(gradient(out, x)) + out.mean(), [out, *weights])
    weights[0].grad = found[1] + found[0].sum()


def walked_twice(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    loss = penalty(gradient(out, x)) + out.mean()
    loss.backward(retain_graph=True)
    loss.backward()


def walked_twice_without_retaining(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    loss = penalty(gradient(out, x)) + out.mean()
    loss.backward()
    loss.backward()


def walked_again_by_the_result(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    ej.autograd.grad(penalty(gradient(out, x)), weights[2])
    ej.autograd.grad(out.sum(), weights[0])


def of_a_third_order(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    second = gradient(penalty(gradient(out, x)), x)
    ((second * second).sum() + out.mean()).backward()


def after_a_weight_was_written(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    g = gradient(out, x)
    with ej.no_grad():
        weights[1].mul_(2)
    (penalty(g) + out.mean()).backward()


def after_the_gradient_was_written(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    g = gradient(out, x)
    g.mul_(2)
    (g.sum() + out.mean()).backward()


def of_a_third_order_with_a_hook(f: Any, weights: list[ej.Tensor], x: ej.Tensor) -> None:
    out = f(x)
    g = gradient(out, x)
    g.register_hook(lambda found: found * 2)
    out.register_hook(lambda found: found * 3)
    second = gradient(penalty(g) + out.mean(), x)
    ((second * second).sum() + out.mean()).backward()


LOSSES = [
    alone, with_the_result, with_a_decay_made_between, with_a_decay_made_after, with_two_gradients_of_one_call,
    with_two_calls, of_a_gradient_for_weights, of_a_gradient_with_history, for_an_argument_with_history,
    for_some_inputs, with_a_hook_on_the_result, with_a_hook_on_the_gradient, with_the_results_gradient_retained,
    for_the_result_too, walked_twice, walked_twice_without_retaining, walked_again_by_the_result, of_a_third_order,
    of_a_third_order_with_a_hook,
    after_a_weight_was_written, after_the_gradient_was_written,
]  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES, ids=lambda f: f.__name__)
def test_what_the_plain_call_does(loss: Callable[..., None]) -> None:
    def outcome(jitted: bool) -> list[Any]:
        function, weights = model()
        f = ej.jit(function) if jitted else function
        out: list[Any] = []
        for _ in range(3):
            x = data()
            try:
                loss(f, weights, x)
            except RuntimeError as error:
                out.append("second time" if "second time" in str(error) else str(error)[:60])
            out += [None if t.grad is None else t.grad.tolist() for t in (x, *weights)]
        return out

    assert outcome(True) == outcome(False)


def test_a_penalty_is_one_compiled_gradient() -> None:
    """The gradient's gradient and the call's run as one, where nothing lies between them."""
    function, _ = model()
    x = data()
    out = ej.jit(function)(x)
    g = gradient(out, x)
    call, made = out.grad_fn.op, g.grad_fn.op
    assert isinstance(call, CallOp) and isinstance(made, GradientOp)
    (out.mean() + penalty(g)).backward()
    assert len(made.twice.joined) == 1 and not made.twice.parts


def test_a_gradient_keeps_its_products_for_its_own_gradient() -> None:
    function, _ = model()
    x = data()
    f = ej.jit(function)
    out = f(x)
    g = gradient(out, x)
    (out.mean() + penalty(g)).backward()
    twice = g.grad_fn.op.twice
    ((key, kept),) = twice.joined.items()
    twice.joined.clear()
    twice.kept_nodes = []
    alone = twice.part_with_call(*key, (x,))

    def products(part: Any) -> int:
        return str(part.plain.report.trace.graph).count("matmul")

    assert products(kept) < products(alone)


def test_the_operand_of_a_product_is_kept_rather_than_what_it_is_computed_from() -> None:
    a, b = (((ej.arange(16.0).reshape(4, 4) + i) * 0.37).sin().requires_grad_() for i in range(2))
    out = ej.jit(lambda x: (x @ a + 1).tanh() @ b)(data())
    backward = out.grad_fn.op.differentiable
    assert [n.op.name for n in backward.kept_nodes] == ["tanh"]
    assert "tanh" not in str(backward.report.trace.graph)


def test_a_result_among_others_is_a_target_of_a_walk_that_frees_its_operation() -> None:
    x = data()
    first, _ = x.unbind()
    (found,) = ej.autograd.grad((first * 2).sum(), first)
    assert found.tolist() == [2.0] * 4
