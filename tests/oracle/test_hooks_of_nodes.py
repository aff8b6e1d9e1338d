"""Hooks of the tape's nodes: `grad_fn.register_hook` and `grad_fn.register_prehook`, against PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import eagerjit

ANSWERS: dict[str, Callable[..., Any]] = {
    "nothing": lambda t, grads: None,
    "doubled": lambda t, grads: tuple(None if g is None else g * 2 for g in grads),
    "a list": lambda t, grads: [g for g in grads],
    "gone": lambda t, grads: (None,) * len(grads),
    "no tensors": lambda t, grads: (1,) * len(grads),
    "too many": lambda t, grads: grads + grads,
    "another shape": lambda t, grads: tuple(t.ones(3) for _ in grads),
}


def plain(values: Any) -> Any:
    if isinstance(values, (tuple, list)):
        return [plain(v) for v in values]
    return values.tolist() if hasattr(values, "tolist") else values


def walked(t: Any, kind: str, place: str, answer: Callable[..., Any]) -> Any:
    """What a hook sees and makes of a few walks, or the class of the error."""
    x, w = (t.tensor(values, requires_grad=True) for values in ([1.0, 2.0], [3.0, 4.0]))
    product = x * w
    shifted = product + 1
    joined = t.cat([shifted, x, t.ones(1)])
    loss = joined.square().sum()
    seen: list[Any] = []

    def hook(*given: Any) -> Any:
        seen.append(plain(given))
        return answer(t, given[0])

    node = {"product": product, "joined": joined}[place].grad_fn
    handle = getattr(node, kind)(hook)
    try:
        loss.backward(retain_graph=True)
        found = [x.grad, w.grad, *t.autograd.grad(loss, [product, x], retain_graph=True, allow_unused=True)]
    except (TypeError, RuntimeError) as error:
        return type(error)
    handle.remove()
    x.grad = None
    loss.backward()
    return seen, plain(found), plain(x.grad)


CASES = [("register_hook", answer) for answer in ANSWERS]
CASES += [("register_prehook", answer) for answer in ANSWERS if answer != "gone"]  # there it is one of zeros here


@pytest.mark.parametrize(("kind", "answer"), CASES)
@pytest.mark.parametrize("place", ["product", "joined"])
def test_as_pytorch_does(kind: str, place: str, answer: str) -> None:
    ours, theirs = (walked(t, kind, place, ANSWERS[answer]) for t in (eagerjit, torch))
    assert ours == theirs


def test_a_slice_whose_gradient_is_placed_at_once() -> None:
    x = eagerjit.arange(4.0, requires_grad=True)
    part = x[1:3]
    part.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 10,))
    (part * 2).sum().backward()
    assert x.grad.tolist() == [0, 20, 20, 0]


def test_second_derivatives_pass_through_what_a_hook_gives() -> None:
    found = []
    for t in (eagerjit, torch):
        x = t.tensor(2.0, requires_grad=True)
        y = x**3
        y.grad_fn.register_hook(lambda inputs, outputs, x=x: (inputs[0] * x,))
        (first,) = t.autograd.grad(y, x, create_graph=True)
        found.append((first.item(), t.autograd.grad(first, x)[0].item()))
    assert found[0] == found[1]


def test_a_gradient_that_a_hook_keeps_is_its_own() -> None:
    x, kept = eagerjit.ones(2, requires_grad=True), []
    (x * 1).grad_fn  # noqa: B018  # another node beside it
    y = x + 0
    y.grad_fn.register_hook(lambda inputs, outputs: kept.append(inputs[0]))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert [k.tolist() for k in kept] == [[1, 1], [1, 1]] and x.grad.tolist() == [2, 2]


def test_compiled_calls() -> None:
    """A recorded function may not add one; a compiled call is several operations."""
    calls = []

    @eagerjit.jit
    def hooked(x: Any) -> Any:
        y = x * 2
        y.grad_fn.register_hook(lambda inputs, outputs: calls.append(1))
        return y.sum()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            hooked(eagerjit.ones(2, requires_grad=True)).backward()
    assert len(calls) == 3
    result = eagerjit.jit(lambda x: (x * 2).sin())(eagerjit.ones(2, requires_grad=True))
    with pytest.raises(NotImplementedError, match="several operations"):
        result.grad_fn.register_hook(print)


def accumulated(t: Any, kind: str, answer: Callable[..., Any]) -> Any:
    """What hooks of a leaf's end see and make of a few walks, among the leaf's own hooks, or the class of the error."""
    x = t.tensor([1.0, 2.0], requires_grad=True)
    node, seen = (x * 1).grad_fn.next_functions[0][0], []
    x.register_hook(lambda g: (seen.append(plain(g)), g * 10)[1])
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(plain(leaf.grad)))
    handle = getattr(node, kind)(lambda *given: (seen.append(plain([*given, x.grad])), answer(t, given[-1]))[1])
    try:
        for _ in range(2):
            (x * 3).sum().backward()
        t.autograd.grad((x * 3).sum(), x)
    except (TypeError, RuntimeError) as error:
        return type(error)
    handle.remove()
    (x * 3).sum().backward()
    return seen, plain(x.grad)


@pytest.mark.parametrize(("kind", "answer"), [*CASES, ("register_prehook", "gone")])
def test_ends_of_leaves(kind: str, answer: str) -> None:
    ours, theirs = (accumulated(t, kind, ANSWERS[answer]) for t in (eagerjit, torch))
    assert ours == theirs


def test_an_end_is_the_same_one_while_it_is_held() -> None:
    for t in (eagerjit, torch):
        x, other = t.ones(2, requires_grad=True), t.ones(2, requires_grad=True)
        node = x.view(2).grad_fn.next_functions[0][0]
        assert node is (x * other).grad_fn.next_functions[0][0] is t.autograd.graph.get_gradient_edge(x).node
        assert (x * other).grad_fn.next_functions[1][0].variable is other


JOINED: dict[str, Callable[..., Any]] = {
    "without a gradient": lambda t, x, w: w * x,
    "twice": lambda t, x, w: x * x,
    "a list": lambda t, x, w: t.cat([x, w, x]),
    "a result": lambda t, x, w: (x * w).exp(),
    "a part": lambda t, x, w: x.square()[1] * w[0],
    "indices": lambda t, x, w: x[t.tensor([0, 0])].gather(0, t.tensor([1])),
    "a condition": lambda t, x, w: t.where(w > 0, x, w),
}


@pytest.mark.parametrize("name", JOINED)
def test_where_gradients_go(name: str) -> None:
    def told(t: Any) -> Any:
        given = t.ones(2, requires_grad=True), t.ones(2)
        node = JOINED[name](t, *given).grad_fn
        return [(type(n).__name__.rstrip("0") if n is not None else None, i) for n, i in node.next_functions]

    ours, theirs = told(eagerjit), told(torch)
    assert [(n and "Accumulate" in n, i) for n, i in ours] == [(n and "Accumulate" in n, i) for n, i in theirs]


def test_hooks_of_ends_around_compiled_calls() -> None:
    """They are called for walks through, and in, compiled calls; one that is added later too."""
    x, seen = eagerjit.tensor([1.0, 2.0], requires_grad=True), []
    node = x.view(2).grad_fn.next_functions[0][0]

    @eagerjit.jit
    def inside(w: Any) -> None:
        (x * w).sum().backward()

    outside = eagerjit.jit(lambda w: (x * w).sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(4):
            if step == 2:
                node.register_hook(lambda given, grads: seen.append(plain([grads, x.grad])))
                node.register_prehook(lambda grads: (grads[0] * 2,))
            inside(eagerjit.ones(2))
            outside(eagerjit.ones(2)).backward()
    assert seen == [[[[2.0, 2.0]], [v, v]] for v in (6.0, 8.0, 10.0, 12.0)]


def test_names_of_functions() -> None:
    def named(t: Any) -> tuple[str, str]:
        class TwiceAsMuch(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return grad * 2

        y = TwiceAsMuch.apply(t.ones(2, requires_grad=True))
        return y.grad_fn.name(), repr(y)

    assert named(eagerjit) == named(torch) == ("TwiceAsMuchBackward", "tensor([2., 2.], grad_fn=<TwiceAsMuchBackward>)")
