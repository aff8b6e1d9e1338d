"""Walks backwards that native code does are those of the engine in Python, bit for bit."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.autograd import engine, plain
from eagerjit.nn import functional
from eagerjit.runtime import layout, walking
from eagerjit.runtime.native import improving
from eagerjit.state import state

WALKS = ("native", "python")


@pytest.fixture(autouse=True, scope="module")
def native() -> None:
    """Where the disk does not have it, quick code does not walk."""
    assert layout.ready()
    improving.wait()


@pytest.fixture
def walk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """All walks are done natively, or all by the engine."""

    collect = engine.collect

    def refuse(*given: Any) -> Any:
        assert state.tracer is not None, "the walk is not plain"
        return collect(*given)

    if request.param == "python":
        monkeypatch.setattr(walking, "ready", lambda: False)
    else:
        assert walking.ready()
        monkeypatch.setattr(engine, "collect", refuse)
    return request.param


both = pytest.mark.parametrize("walk", WALKS, indirect=True)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2 * y, x + y

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 2 + h, (g * 2 * x + h)


def overwritten(a: Any, b: Any) -> Any:
    c = a * 1
    c[:, 1:3] = b[:, 1:3].exp()
    c.mul_(b)
    return c.sigmoid_().sum()


def repeated(a: Any, b: Any) -> Any:
    for _ in range(5):
        a, b = (a * b).tanh() + a, b - a
    return (a * b).sum()


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "chain": lambda a, b: (a.sin() * 2).exp().sum(),
    "diamond": lambda a, b: ((a + b) * (a - b) + a).sum(),
    "repeated": repeated,
    "same twice": lambda a, b: (a * a + a + b).sum(),
    "handed on": lambda a, b: (a + b).sum() + (a - 0).sum(),
    "broadcast": lambda a, b: (a * b[0] + b[:, :1]).mean(),
    "expanded": lambda a, b: a.expand(2, 3, 4).sum() + b[0, 0] + b.t().reshape(-1)[3],
    "leaf": lambda a, b: a[0, 0].clone() + 0 * b.sum(),
    "joined": lambda a, b: (torch.cat([a, b, a], 1) * torch.stack([b, a]).sum((0, 2), keepdim=True)[0]).sum(),
    "several results": lambda a, b: a.unbind(0)[1].sum() + b.topk(2).values.sum() + a.max(1)[0].sum(),
    "no gradient": lambda a, b: torch.where(a > b, a, b).sum() + (a.detach() * b).sum() + a.round().sum(),
    "custom": lambda a, b: Twice.apply(a, b)[0].sum() + Twice.apply(b, a)[1].prod(),
    "in place": overwritten,
    "layers": lambda a, b: functional.cross_entropy(functional.linear(a, b, b[:, 0]), torch.tensor([0, 2, 1])),
    "normed": lambda a, b: (functional.layer_norm(a, (4,), b[0], b[1]) * a.softmax(1)).sum(),
    "converted": lambda a, b: (a.double() @ b.double().t()).float().std() + a.half().float().norm(),
    "empty": lambda a, b: a[:0].sum() + (b * 0).sum() + a.sum(),
}


def product(a: Any, b: Any) -> Any:
    return (a * b).tanh() * b


def parts(a: Any, b: Any) -> Any:
    c = a.exp() * b
    return c, c.sin() + a, (b * 2).sum(1)


CALLS: dict[str, Callable[[Any, Any, Callable[..., Any], Callable[..., Any]], Any]] = {
    "one": lambda a, b, f, _: f(a, b).sum(),
    "one after another": lambda a, b, f, _: f(f(a, b), b).sum(),
    "between operations": lambda a, b, f, _: (f(a.sin(), b.t().t()) * a + b).sum(),
    "added to what came before": lambda a, b, f, _: (a * b).sum() + f(a, b).sum() + (a - b).exp().sum(),
    "twice the same": lambda a, b, f, _: (f(a, a) + b).sum(),
    "several results": lambda a, b, f, g: sum(x.sum() for x in g(a, b)) + f(a, b).mean(),
    "one of several results": lambda a, b, _, g: g(a, b)[2].sum() + 0 * a.sum(),
    "a result that others depend on": lambda a, b, f, g: f(*g(a, b)[:2]).sum(),
    "written later": lambda a, b, f, _: f(a, b).mul_(2).add_(a).sum(),
    "slices": lambda a, b, f, _: f(a[:, 1:], b[:, :3]).sum() + f(a[:1], b[1:2]).sum(),
}


def leaves() -> tuple[Any, Any]:
    values = np.random.default_rng(1).standard_normal((2, 3, 4)).astype("f")
    return tuple(torch.tensor(v, requires_grad=True) for v in values)  # type: ignore[return-value]


def bits(tensors: Any) -> list[Any]:
    return [None if t is None else (t.dtype, tuple(t.shape), t.detach().numpy().tobytes()) for t in tensors]


def gradients(program: Callable[[Any, Any], Any]) -> list[Any]:
    """What all kinds of walks find."""
    found = []
    a, b = leaves()
    for _ in range(2):
        program(a, b).backward()
        found += bits([a.grad, b.grad])
    loss = program(a, b)
    loss.backward(retain_graph=True)
    loss.backward()
    found += bits([a.grad, b.grad])
    middle = a * 1.5
    loss = program(middle, b)
    wanted = [middle, b, middle, loss]
    found += bits(torch.autograd.grad(loss, wanted, retain_graph=True, allow_unused=True))
    first = torch.autograd.grad(loss, [a, b], create_graph=True, allow_unused=True)
    found += bits(first)
    total = sum(((g * (i + 1)).sum() for i, g in enumerate(first) if g is not None), loss * 0)
    found += bits(torch.autograd.grad(total, [b, middle], allow_unused=True))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_those_of_the_engine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = gradients(PROGRAMS[name])
    assert walking.ready()
    monkeypatch.setattr(walking, "ready", lambda: False)
    assert here == gradients(PROGRAMS[name])


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n != "in place"])
def test_native_code_walks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = leaves()
    loss = PROGRAMS[name](a, b)
    loss.backward(retain_graph=True)
    monkeypatch.setattr(engine, "collect", lambda *_: pytest.fail("the engine walks"))
    loss.backward(retain_graph=True)
    assert torch.autograd.grad(loss, [a], create_graph=True)[0].shape == (3, 4)
    loss.backward()


@pytest.mark.parametrize("name", CALLS)
def test_gradients_of_compiled_calls_are_those_of_the_engine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, f, g = CALLS[name], torch.jit(product), torch.jit(parts)
    here = gradients(lambda a, b: program(a, b, f, g))
    assert here == gradients(lambda a, b: program(a, b, product, parts))
    assert walking.ready()
    monkeypatch.setattr(walking, "ready", lambda: False)
    assert here == gradients(lambda a, b: program(a, b, f, g))


@pytest.mark.parametrize("name", CALLS)
def test_native_code_walks_through_compiled_calls(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, g = torch.jit(product), torch.jit(parts)
    a, b = leaves()
    for _ in range(2):
        CALLS[name](a, b, f, g).backward()
    loss, frozen = CALLS[name](a, b, f, g), f(a, a.detach())
    monkeypatch.setattr(engine, "collect", lambda *_: pytest.fail("the engine walks"))
    loss.backward(retain_graph=True)
    loss.backward()
    torch.autograd.grad(frozen.sum(), a)
    for used_up in (loss, frozen.sum()):
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            used_up.backward()


@both
def test_what_a_compiled_call_leaves_can_be_walked(walk: str) -> None:
    a, b = leaves()
    x, y, z = torch.jit(parts)(a, b)
    z.sum().backward()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        x.sum().backward()


@both
def test_values_that_a_compiled_call_saved_are_refused_once_overwritten(walk: str) -> None:
    a, b = leaves()
    c = a * 1
    d = torch.jit(product)(c, b)
    c.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        d.sum().backward()


@both
def test_gradients_have_memory_of_their_own(walk: str) -> None:
    a, b = leaves()
    (a + b).backward(given := torch.ones(3, 4))
    a.grad.add_(1)
    assert given.tolist() == b.grad.tolist() == [[1.0] * 4] * 3
    c = torch.zeros(3, requires_grad=True)
    c.sum().backward()
    c.grad[0] = 5
    assert c.grad.tolist() == [5, 1, 1]


@both
def test_what_is_used_up_is_named(walk: str) -> None:
    a, b = leaves()
    part = a.sin()
    loss = (part * b).sum()
    loss.backward()
    for again in (loss, (part + 1).sum()):
        with pytest.raises(RuntimeError, match=r"second time: the values saved by .*test_plain_walk.py"):
            again.backward()
    lasting = torch.cat([a, b])  # saves no values
    for _ in range(2):
        (lasting * 2).sum().backward()


@both
def test_what_lies_before_all_that_is_wanted_may_be_used_up(walk: str) -> None:
    a, b = leaves()
    part = a.sin()
    (part * b).sum().backward()
    middle = part * 2  # of a node whose values are freed
    (found,) = torch.autograd.grad((middle * b).sum(), part)
    assert found.tolist() == (2 * b).tolist()
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad((middle * b).sum(), [part, a])


@both
def test_overwritten_values_are_refused(walk: str) -> None:
    a, b = leaves()
    x = a * 1
    y = x.sin()
    x.add_(1)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*sin"):
        y.sum().backward()
    x = a * 1
    y = x + b
    x.add_(1)  # which no gradient reads
    y.sum().backward()
    assert a.grad.tolist() == [[1.0] * 4] * 3


@both
def test_leaves_hear_of_gradients_in_order(walk: str) -> None:
    a, b = leaves()
    heard = []
    a.register_hook(lambda g: heard.append("a") or g * 2)
    b.register_hook(lambda g: heard.append("b"))
    b.register_post_accumulate_grad_hook(lambda t: heard.append(t.grad.sum().item()))
    ((a * b) + b * 3).sum().backward()
    assert heard == ["a", "b", b.grad.sum().item()]
    assert a.grad.tolist() == (2 * b).tolist()
    heard.clear()
    found = torch.autograd.grad((a * b).sum(), [a, a, b])
    assert sorted(heard) == ["a", "b"] and found[0] is found[1]


@both
def test_an_error_of_a_gradient_leaves_everything_as_it_was(walk: str) -> None:
    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise KeyError("mine")

    a, b = leaves()
    loss = (Failing.apply(a) * b).sum()
    for _ in range(3):
        with pytest.raises(KeyError, match="mine"):
            loss.backward()
    assert a.grad is None and b.grad is None and torch.is_grad_enabled()
    with torch.no_grad(), pytest.raises(KeyError, match="mine"):
        loss.backward()


@both
def test_nothing_is_kept(walk: str) -> None:
    improving.wait()  # that thread looks at the frames of others, and holds them while it does
    a, b = leaves()
    x = a * b
    node, loss = weakref.ref(x.grad_fn), x.exp().sum()
    torch.autograd.grad(loss, [a, x], retain_graph=True, create_graph=True)
    loss.backward()
    del x, loss
    gc.collect()
    assert node() is None


@both
def test_long_chains(walk: str) -> None:
    x = start = torch.ones(2, requires_grad=True)
    for _ in range(50_000):
        x = x * 1.0
    x.sum().backward()
    assert start.grad.tolist() == [1.0, 1.0]
    del x


@both
def test_threads_add_to_the_same_leaves(walk: str) -> None:
    a, b = leaves()

    def add() -> None:
        for _ in range(50):
            (a + a * b).sum().backward()

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.allclose(a.grad.numpy(), 200 * (1 + b.detach().numpy()), rtol=1e-4)


def test_native_code_knows_which_values_gradients_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    check = plain.check_versions
    monkeypatch.setattr(plain, "check_versions", lambda node, edges: asked.append(node.op.name) or check(node, edges))
    x = torch.ones(4, requires_grad=True)
    out = torch.zeros(5, 4)
    for i in range(4):
        out[i + 1] = out[i] + x
    out.sum().backward()
    assert not asked and x.grad.tolist() == [10.0] * 4
    out = torch.zeros(5, 4)
    for i in range(4):
        out[i + 1] = out[i] * x
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
    assert asked == ["mul"]


def test_hooks_of_nodes_are_left_to_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    collect = engine.collect
    monkeypatch.setattr(engine, "collect", lambda *given: asked.append(1) or collect(*given))
    large, small = torch.ones(5000, requires_grad=True), torch.ones(50, requires_grad=True)
    (large[:10].sum() + large[20:].sum() + small[:5].sum() + small[5:].sum()).backward()
    assert not asked
    middle = small * 2
    middle.register_hook(lambda g: g * 3)
    middle.sum().backward()
    assert len(asked) == 1 and small.grad.tolist() == [7.0] * 50


def test_programs_are_forgotten_with_those_of_their_operations() -> None:
    from eagerjit.calling.dispatch import forget_programs

    a, b = leaves()
    (a * b).sum().backward()
    before = a.grad.clone()
    forget_programs()
    a.grad = None
    (a * b).sum().backward()
    assert a.grad.tolist() == before.tolist()


@pytest.mark.parametrize("given", [3, "a", None, 1.5])
def test_what_is_no_tensor_has_no_gradient(given: Any) -> None:
    x = torch.ones(3, requires_grad=True)
    y = (x * x).sum()
    for call in (
        lambda: y.backward(inputs=[given]),
        lambda: torch.autograd.grad(y, [x, given]),
        lambda: torch.autograd.backward([y, given]),
    ):
        with pytest.raises(RuntimeError, match=f"Tensors or GradientEdges, but got {type(given).__name__}"):
            call()
    if given is not None:
        with pytest.raises(TypeError, match=f"either Tensors or None, but got {type(given).__name__}"):
            torch.autograd.grad(y, x, [given])


class Walks(torch.autograd.Function):
    """Its gradient walks back through another graph."""

    @staticmethod
    def forward(ctx: Any, x: Any, other: Any) -> Any:
        ctx.other = other
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        ctx.other[0].backward()
        return g, None


@both
def test_a_walk_inside_of_a_walk_uses_its_graph_up(walk: str) -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    z = Walks.apply(y, [y.sum()])
    with pytest.raises(RuntimeError, match="a second time: the values saved by exp"):
        z.sum().backward()


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [(3, TypeError, "hook returned 'int'"), (torch.ones(4), RuntimeError, "has changed the size of value")],
)
def test_hooks_give_gradients(value: Any, error: type, message: str) -> None:
    def hook(_: Any) -> Any:
        return value

    x = torch.ones(3, requires_grad=True)
    y = x * 2
    for tensor in (x, y):
        handle = tensor.register_hook(hook)
        with pytest.raises(error, match=message):
            y.sum().backward(retain_graph=True)
        with pytest.raises(error, match=message):
            torch.autograd.grad(y.sum(), tensor, retain_graph=True)
        handle.remove()


def test_hooks_of_several_tensors_survive_a_walk_that_fails() -> None:
    def fail(_: Any) -> Any:
        raise ValueError

    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    seen: list[Any] = []
    torch.autograd.graph.register_multi_grad_hook([x, y], seen.append)
    failing = y.register_hook(fail)
    with pytest.raises(ValueError):
        (x * y).sum().backward()
    failing.remove()
    (x * y).sum().backward()
    x.sum().backward()
    found = [[None if g is None else g.tolist() for g in call] for call in seen]
    assert found == [[[1] * 3] * 2, [[1] * 3] * 2, [[1] * 3, None]]  # the walk had come to both before it failed


def test_edges_of_graphs_that_are_used_up() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    edge = torch.autograd.graph.get_gradient_edge(y)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="a second time: the values saved by exp"):
        torch.autograd.grad(edge, x, torch.ones(3))
