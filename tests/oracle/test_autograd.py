"""The autograd interface against PyTorch: grad, hooks, modes, custom functions, higher orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import compare, draw, outcome, same

import eagerjit as ej

EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "polynomial": lambda t, x, y: (x**3 + x * y).sum(),
    "shared": lambda t, x, y: ((z := x * y) * z + z.exp()).sum(),
    "broadcast": lambda t, x, y: (x[:, None] * y + x).mean(),
    "views": lambda t, x, y: (x[1:] * y[:-1]).sum() + x.view(2, 2).T.reshape(-1).dot(y),
    "index": lambda t, x, y: (x[t.tensor([0, 0, 3])] * y[t.tensor([True, False, True, True])]).sum(),
    "matmul": lambda t, x, y: (t.outer(x, y) @ y).sin().sum(),
    "softmax": lambda t, x, y: (t.softmax(x, 0) * t.log_softmax(y, 0)).sum(),
    "gelu": lambda t, x, y: t.nn.functional.gelu(x * y).sum(),
    "norm": lambda t, x, y: t.nn.functional.layer_norm(t.outer(x, y), (4,), x, y).square().sum(),
    "cross entropy": lambda t, x, y: t.nn.functional.cross_entropy(t.outer(x, y), t.tensor([0, 1, 2, 3])),
    "variance": lambda t, x, y: t.outer(x, y).var(1).sum() + x.std(),
    "where": lambda t, x, y: t.where(x > y, x * x, y.exp()).sum(),
    "cat": lambda t, x, y: (t.cat([x, y, x]).cumsum(0) ** 2).sum(),
    "attention": lambda t, x, y: t.nn.functional.scaled_dot_product_attention(*[t.outer(x, y)[None, None]] * 3).sum(),
    "inplace": lambda t, x, y: ((z := x * 1).mul_(y), z[1:3].exp_(), z.square().sum())[-1],
}


@pytest.mark.parametrize("name", [n for n in EXPRESSIONS if n != "attention"])  # PyTorch's is not differentiable twice
def test_gradients_of_gradients(name: str) -> None:
    """Second derivatives in a random direction."""

    def run(t: Any, x: Any, y: Any) -> Any:
        first = t.autograd.grad(EXPRESSIONS[name](t, x, y), (x, y), create_graph=True)
        return (first[0] * first[1]).sum()

    compare(run, draw((4,), "float64", 0.3, 1.5, 1), draw((4,), "float64", 0.3, 1.5, 2), tolerance=1e-8)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_gradcheck(name: str) -> None:
    x = ej.tensor(draw((4,), "float64", 0.3, 1.5, 1), requires_grad=True)
    y = ej.tensor(draw((4,), "float64", 0.3, 1.5, 2), requires_grad=True)
    assert ej.autograd.gradcheck(lambda a, b: EXPRESSIONS[name](ej, a, b), (x, y))
    assert ej.autograd.gradgradcheck(lambda a, b: EXPRESSIONS[name](ej, a, b), (x, y), atol=1e-4)


def test_gradcheck_finds_a_wrong_gradient() -> None:
    class Wrong(ej.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    x = ej.ones(3, dtype=ej.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="mismatch"):
        ej.autograd.gradcheck(Wrong.apply, x)
    assert not ej.autograd.gradcheck(Wrong.apply, x, raise_exception=False)
    with pytest.raises(ValueError):
        ej.autograd.gradcheck(lambda a: a, ej.ones(3))


@pytest.mark.parametrize("t", [torch, ej], ids=["torch", "eagerjit"])
def test_gradcheck_moves_the_inputs_themselves(t: Any) -> None:
    """A function may find them elsewhere, and only they are Parameters."""
    layer = t.nn.Linear(2, 1, dtype=t.float64)
    kinds = set()

    def loss(weight: Any) -> Any:
        kinds.add(type(weight))
        return layer(t.ones(2, dtype=t.float64)).sin()

    before = layer.weight.tolist()
    assert t.autograd.gradcheck(loss, layer.weight) and t.autograd.gradgradcheck(loss, layer.weight)
    assert kinds == {t.nn.Parameter} and layer.weight.tolist() == before

    def failing(x: Any) -> Any:
        if calls.append(x) or len(calls) > 2:
            raise KeyError("later")
        return x * 2

    calls: list[Any] = []
    x = t.ones(3, dtype=t.float64, requires_grad=True)
    with pytest.raises(KeyError):
        t.autograd.gradcheck(failing, x)


@pytest.mark.parametrize("t", [torch, ej], ids=["torch", "eagerjit"])
def test_gradcheck_in_single_precision(t: Any) -> None:
    x = t.tensor([0.5, 1.0], requires_grad=True)
    with pytest.warns(UserWarning, match="not a double precision"):
        assert t.autograd.gradcheck(t.sin, x, eps=1e-2, atol=1e-2, rtol=1e-2)
    with pytest.raises(RuntimeError, match="dimension with stride 0"):
        t.autograd.gradcheck(t.sin, t.ones(1, dtype=t.float64).expand(3).requires_grad_())
    half = t.tensor([0.5, 1.0], requires_grad=True)
    with pytest.warns(UserWarning, match="not a double precision"), pytest.raises(RuntimeError, match="mismatch"):
        t.autograd.gradcheck(t.sin, half, eps=1e-8)


@pytest.mark.parametrize("t", [torch, ej], ids=["torch", "eagerjit"])
def test_more_gradients_than_results(t: Any) -> None:
    """The first are taken; none are missing where there is no result."""
    x, one = t.ones(2, requires_grad=True), t.ones(2)
    y = x * 3
    assert t.autograd.grad([y], [x], [one, one * 5], retain_graph=True)[0].tolist() == [3, 3]
    t.autograd.backward([y], [one, one], retain_graph=True)
    assert x.grad.tolist() == [3, 3]
    assert t.autograd.grad([], [x], [one], allow_unused=True) == (None,)
    with pytest.raises(RuntimeError, match="got 2 tensors and 1 gradients"):
        t.autograd.grad([y, y], [x], [one])


def scaled(t: Any, x: Any) -> Any:
    """x * x through a custom function of each library."""

    class Square(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, factor: float) -> Any:
            ctx.save_for_backward(a)
            ctx.factor = factor
            return a * a * factor

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (a,) = ctx.saved_tensors
            assert ctx.needs_input_grad == (True, False)
            return 2 * g * a * ctx.factor, None

    return Square.apply(x, 3.0)


def several(t: Any, x: Any) -> Any:
    """A custom function with several results, one of them without gradient."""

    class Split(t.autograd.Function):
        @staticmethod
        def forward(a: Any) -> Any:
            return a * 2, a.sign(), a.exp()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_non_differentiable(output[1])
            ctx.save_for_backward(output[2])

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any, third: Any) -> Any:
            return first * 2 + third * ctx.saved_tensors[0]

    return Split.apply(x)


def identity(t: Any, x: Any) -> Any:
    """A custom function that returns its argument and reverses the gradient."""

    class Reverse(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a.view_as(a)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return -g

    return Reverse.apply(x * 1) + x


def counted(t: Any, x: Any) -> Any:
    """A custom function that returns too many gradients."""

    class Bad(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g

    return Bad.apply(x)


def fitted(change: Callable[..., Any]) -> Callable[..., Any]:
    """A custom function whose gradient is changed before it returns it."""

    def call(t: Any, x: Any) -> Any:
        class Changed(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, a: Any) -> Any:
                ctx.save_for_backward(a)
                ctx.save_for_forward(a)
                return a * 3

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return change(t, g)

        return t.autograd.grad(Changed.apply(x * 1).sum(), x)

    return call


USES: dict[str, Callable[..., Any]] = {
    "custom": scaled,
    "custom gradient broadcast": fitted(lambda t, g: g.expand(4, *g.shape)),
    "custom gradient with a dimension more": fitted(lambda t, g: g.unsqueeze(0)),
    "custom gradient of other sizes": fitted(lambda t, g: t.ones(7)),
    "custom gradient without dimensions": fitted(lambda t, g: g.sum()),
    "custom gradient wider": fitted(lambda t, g: g.double()),
    "custom gradient narrower": fitted(lambda t, g: g.half()),
    "custom gradient of integers": fitted(lambda t, g: g.long()),
    "custom gradient complex": fitted(lambda t, g: g.to(t.complex64)),
    "custom gradient no tensor": fitted(lambda t, g: 1.0),
    "custom several": several,
    "custom identity": identity,
    "custom bad": counted,
    "no forward": lambda t, x: t.autograd.Function.apply(x),
    "name of a node": lambda t, x: ((x * 3).sum().grad_fn.name(), x.exp().grad_fn.name()),
    "integers as data": lambda t, x: setattr(x, "data", t.ones(3, dtype=t.int32)),
    "write to a leaf that is a view": lambda t, x: t.ones(4).reshape(2, 2).requires_grad_()[0].mul_(2),
    "item of a leaf that is a view": lambda t, x: t.ones(4).reshape(2, 2).requires_grad_().__setitem__(0, 5.0),
    "grad": lambda t, x: t.autograd.grad((x * x).sum(), x)[0],
    "grad outputs": lambda t, x: t.autograd.grad(x * x, x, t.ones_like(x) * 2),
    "grad of vector": lambda t, x: t.autograd.grad(x * x, x),
    "grad unused": lambda t, x: t.autograd.grad((x * x).sum(), t.ones(1, requires_grad=True)),
    "grad unused allowed": lambda t, x: (
        t.autograd.grad((x * x).sum(), t.ones(1, requires_grad=True), allow_unused=True)[0] is None
    ),
    "grad materialized": lambda t, x: t.autograd.grad(
        x.sum(), t.ones(1, requires_grad=True), materialize_grads=True, allow_unused=True
    ),
    "grad of leaf": lambda t, x: t.autograd.grad(x, x, t.ones_like(x)),
    "grad of middle": lambda t, x: t.autograd.grad(((y := x * 2) * y).sum(), y),
    "grad of constant": lambda t, x: t.autograd.grad(x.sum(), t.ones(1)),
    "backward of constant": lambda t, x: t.ones(1).backward(),
    "backward of vector": lambda t, x: (x * 2).backward(),
    "backward of a gradient's shape": lambda t, x: (x * 2).backward(t.ones(1)),
    "backward twice": lambda t, x: [(y := (x * x).sum()).backward(), y.backward()],
    "backward twice retained": lambda t, x: [(y := (x * x).sum()).backward(retain_graph=True), y.backward(), x.grad][
        -1
    ],
    "backward accumulates": lambda t, x: [(x * 2).sum().backward(), (x * 3).sum().backward(), x.grad][-1],
    "backward inputs": lambda t, x: [
        w := t.ones(3, requires_grad=True),
        (x * w).sum().backward(inputs=[w]),
        x.grad is None,
        w.grad,
    ][2:],
    "no_grad": lambda t, x: without(t, x),
    "no_grad decorator": lambda t, x: t.no_grad()(lambda: x * 2)().requires_grad,
    "enable_grad": lambda t, x: enabled(t, x),
    "set_grad_enabled": lambda t, x: switched(t, x),
    "inference_mode": lambda t, x: inferred(t, x),
    "asked for in inference_mode": lambda t, x: asked_in_inference(t, x),
    "detach": lambda t, x: (x.detach() * x).sum(),
    "detach_": lambda t, x: ((y := x * 2).detach_(), y.requires_grad, y.is_leaf)[1:],
    "hook": lambda t, x: [y := x * 2, y.register_hook(lambda g: g * 3), y.sum()][-1],
    "hook on leaf": lambda t, x: [x.register_hook(lambda g: g * 3), (x * x).sum()][-1],
    "hook removed": lambda t, x: [x.register_hook(lambda g: g * 3).remove(), (x * x).sum()][-1],
    "hook without grad": lambda t, x: t.ones(1).register_hook(lambda g: g),
    "retain_grad": lambda t, x: [y := x * 2, y.retain_grad(), (y * y).sum().backward(), y.grad][-1],
    "hook behind retain_grad": lambda t, x: [
        y := x * 2, y.retain_grad(), y.register_hook(lambda g: g * 3), y.sum().backward(), y.grad + x.grad
    ][-1],
    "retain_grad of constant": lambda t, x: t.ones(1).retain_grad(),
    "grad of integer": lambda t, x: t.ones(2, dtype=t.int64).requires_grad_(),
    "grad assigned": lambda t, x: [setattr(x, "grad", t.ones(3)), (x * 2).sum().backward(), x.grad][-1],
    "grad assigned wrong": lambda t, x: setattr(x, "grad", t.ones(2)),
    "grad assigned number": lambda t, x: setattr(x, "grad", 1.0),
    "requires_grad off": lambda t, x: x.requires_grad_(False).requires_grad,
    "jacobian": lambda t, x: t.autograd.functional.jacobian(lambda a: a[:, None] * a, x.detach()),
    "jacobian several": lambda t, x: t.autograd.functional.jacobian(lambda a, b: a * b.sum(), (x.detach(), x.detach())),
    "hessian": lambda t, x: t.autograd.functional.hessian(lambda a: (a**3).sum() * a[0], x.detach()),
    "vjp": lambda t, x: t.autograd.functional.vjp(lambda a: a * a, x.detach(), t.ones(3)),
    "deep": lambda t, x: deep(t, x),
}


def without(t: Any, x: Any) -> Any:
    with t.no_grad():
        y = x * 2
        with t.enable_grad():
            z = x * 3
    return [y.requires_grad, z.requires_grad, t.is_grad_enabled()]


def enabled(t: Any, x: Any) -> Any:
    @t.no_grad()
    def quiet() -> Any:
        return [t.is_grad_enabled(), t.enable_grad()(t.is_grad_enabled)()]

    return quiet()


def switched(t: Any, x: Any) -> Any:
    t.set_grad_enabled(False)
    first = (x * 2).requires_grad
    t.set_grad_enabled(True)
    with t.set_grad_enabled(False):
        second = t.is_grad_enabled()
    return [first, second, t.is_grad_enabled()]


def inferred(t: Any, x: Any) -> Any:
    with t.inference_mode():
        return (x * 2).requires_grad


def told(t: Any) -> list[bool]:
    return [t.is_grad_enabled(), t.is_inference_mode_enabled()]


def asked_in_inference(t: Any, x: Any) -> Any:
    found = []
    with t.inference_mode():
        for inner in (t.enable_grad, t.no_grad, lambda: t.set_grad_enabled(True), lambda: t.inference_mode(False)):
            with inner():
                found += [(x * 2).requires_grad, *told(t)]
            found += told(t)
    with t.no_grad(), t.inference_mode(False):
        found += [(x * 2).requires_grad, *told(t)]
    decorated = t.inference_mode()(lambda: told(t))
    return [*found, *decorated(), *t.inference_mode(lambda: told(t))(), *told(t)]


def test_compiled_calls_know_inference_mode() -> None:
    def recorded(x: Any) -> Any:
        with ej.enable_grad():
            y = x * 2
        return y, ej.is_grad_enabled()

    jitted, x = ej.jit(recorded), ej.ones(2, requires_grad=True)
    for outer in (ej.no_grad, ej.inference_mode, ej.enable_grad, ej.inference_mode, ej.no_grad):
        with outer():
            (found, told_now), (expected, told_then) = jitted(x), recorded(x)
        assert (found.requires_grad, told_now) == (expected.requires_grad, told_then)
    with ej.inference_mode(), ej.enable_grad():
        assert jitted(x)[1] and not jitted(x)[0].requires_grad


def deep(t: Any, x: Any) -> Any:
    for _ in range(3000):
        x = x + 1
    return x.sum()


@pytest.mark.parametrize("name", USES)
def test_use(name: str) -> None:
    compare(USES[name], draw((3,), "float32", 0.5, 2, 1))


def test_post_accumulate_hook() -> None:
    seen = []
    for library in (ej, torch):
        x = library.ones(2, requires_grad=True)
        x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
        (x * 3).sum().backward()
        (x * 3).sum().backward()
    assert seen[:2] == seen[2:]


@pytest.mark.parametrize("wrap", [lambda f: f, ej.jit])
def test_post_accumulate_hooks_return_nothing(wrap: Any) -> None:
    for library, wrapped in ((ej, wrap), (torch, lambda f: f)):
        x = library.ones(2, requires_grad=True)
        x.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(2))
        with pytest.raises(RuntimeError, match="should return None"):
            wrapped(lambda x: (x * 3).sum().backward())(x)


def test_errors_name_both_lines() -> None:
    x = ej.ones(3, requires_grad=True)
    y = x * 2
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError) as caught:
        z.sum().backward()
    message = str(caught.value)
    assert message.count("test_autograd.py:") == 2, message


def test_grad_mode_belongs_to_a_thread() -> None:
    import threading

    modes: list[bool] = []
    with ej.no_grad():
        thread = threading.Thread(target=lambda: modes.append(ej.is_grad_enabled()))
        thread.start()
        thread.join()
        assert not ej.is_grad_enabled()
    assert modes == [True]


def test_exceptions_restore_the_mode() -> None:
    with pytest.raises(ZeroDivisionError), ej.no_grad():
        _ = 1 / 0
    assert ej.is_grad_enabled()


def test_gradients_have_memory_of_their_own() -> None:
    x, y = ej.ones(3, requires_grad=True), ej.ones(3, requires_grad=True)
    (x + y).sum().backward()
    x.grad.add_(1)
    np.testing.assert_array_equal(y.grad.numpy(), 1)
    same(x.grad, torch.full((3,), 2.0))
    _, error = outcome(lambda t: x.grad.requires_grad, ej, [])
    assert error is None and not x.grad.requires_grad


@pytest.mark.parametrize("library", [ej, torch])
def test_grad_of_many_gradients_and_its_old_option(library: Any) -> None:
    x = library.arange(3.0).requires_grad_()
    y = x * x
    rows = library.eye(3)
    (jacobian,) = library.autograd.grad(y, x, rows, retain_graph=True, is_grads_batched=True)
    assert jacobian.tolist() == [[0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 4.0]]
    (gradient,) = library.autograd.grad(y.sum(), x, None, True, True, True)
    assert gradient.tolist() == [0.0, 2.0, 4.0] and gradient.requires_grad
