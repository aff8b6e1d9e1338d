"""Tensors written part by part while views of them are read: gradients as PyTorch has them, at a cost per write that
does not grow with the views that there are.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej
from eagerjit.autograd.node import GradNode

Program = Callable[[Any, Any, int], Any]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


@program
def from_the_row_before(t: Any, x: Any, n: int) -> Any:
    out = t.zeros(n, 3)
    out[0] = x
    for i in range(n - 1):
        out[i + 1] = out[i] * 0.9 + x.sin()
    return out


@program
def from_all_rows_before(t: Any, x: Any, n: int) -> Any:
    out = t.zeros(n, 3)
    out[0] = x
    for i in range(1, n):
        out[i] = out[:i].sum(0) * 0.3 + x
    return out


@program
def by_elements_of_two_dimensions(t: Any, x: Any, n: int) -> Any:
    out = t.zeros(n + 1, 4)
    for i in range(n):
        for j in range(3):
            out[i + 1, j + 1] = out[i, j] * 0.5 + (out[i, j + 1] - out[i + 1, j]) * 0.25 + x[j] * (i + 1)
    return out


@program
def with_rows_kept(t: Any, x: Any, n: int) -> Any:
    out, rows = t.zeros(n, 3), []
    out[0] = x
    for i in range(n - 1):
        rows.append(out[i])
        out[i + 1] = rows[-1] * 0.5 + rows[i // 2] + x
    return t.stack(rows).prod(0) + t.cat([out[1], *rows[::-1]]).sum() + out.sum(0)


@program
def with_rows_made_before(t: Any, x: Any, n: int) -> Any:
    out = t.ones(n, 3) * x
    rows = [out[i] for i in range(n)]
    for i in range(n - 1):
        out[i + 1] = rows[i] * 0.5 + rows[n - 1]
    return t.stack(rows) * rows[0]


@program
def through_views_of_views(t: Any, x: Any, n: int) -> Any:
    out = t.zeros(n, 3)
    part, turned = out[1:], out.t()
    inner, column = part[:, 1:], turned[0]
    for i in range(n - 1):
        part[i] = x * (i + 1)
        inner[i].add_(column[i + 1], alpha=0.5)
        column[i] += inner[i].sum()
    return out * 2 + turned.sum() + inner.prod()


@program
def without_gradients_between(t: Any, x: Any, n: int) -> Any:
    out = t.zeros(n, 3) + x
    row, last = out[0], out[n - 1]
    for i in range(n - 1):
        with t.no_grad():
            out[i + 1] = out[i] * 0.5
            row += 1
        out[i] = x + last
    return out + row * last


@program
def with_two_buffers(t: Any, x: Any, n: int) -> Any:
    places, speeds = t.zeros(n, 3), t.zeros(n, 3)
    places[0], speeds[0] = x, x.cos()
    place, speed = places[0], speeds[0]
    for i in range(n - 1):
        speeds[i + 1] = speed - 0.1 * place
        places[i + 1] = place + 0.1 * speeds[i + 1]
        place, speed = places[i + 1], speeds[i + 1]
    return places + speeds * place


def gradients(t: Any, function: Program, call: Callable[..., Any], n: int) -> tuple[Any, Any]:
    x = t.tensor([0.5, 0.75, 1.25], requires_grad=True)
    made = call(lambda x: function(t, x, n))(x)
    made.sum().backward()
    return made.detach().numpy(), x.grad.numpy()


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_those_of_pytorch(name: str) -> None:
    expected = gradients(torch, PROGRAMS[name], lambda f: f, 5)
    plain = gradients(ej, PROGRAMS[name], lambda f: f, 5)
    jitted = gradients(ej, PROGRAMS[name], ej.jit, 5)
    for ours, compiled, theirs in zip(plain, jitted, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
        assert ours.tobytes() == compiled.tobytes()


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """What is made stays in the youngest generation of objects: to count it nobody looks at all there are."""
    gc.collect(1)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("name", PROGRAMS)
def test_nodes_grow_with_the_number_of_rows(name: str) -> None:
    counts = []
    for n in (10, 20, 40):
        with uncollected():
            made = PROGRAMS[name](ej, ej.tensor([0.5, 0.75, 1.25], requires_grad=True), n)
            counts.append(sum(type(x) is GradNode for x in gc.get_objects(0)))
        del made
    assert counts[0] > 0
    assert counts[2] - counts[1] <= 2 * (counts[1] - counts[0]) + 4


@pytest.mark.parametrize("name", ["from_the_row_before", "with_rows_kept", "with_rows_made_before"])
def test_compiled_operations_grow_with_the_number_of_rows(name: str) -> None:
    x = ej.tensor([0.5, 0.75, 1.25], requires_grad=True)
    counts = [len(ej.jit(lambda x, n=n: PROGRAMS[name](ej, x, n)).explain(x).graph.nodes) for n in (4, 8, 16)]
    assert counts[2] - counts[1] <= 2 * (counts[1] - counts[0]) + 4


def test_walks_look_for_what_was_read_in_steps_that_grow_with_the_number_of_rows() -> None:
    """Where a node has a hook, Python walks."""
    looks = 0

    class Counted(GradNode):
        __slots__ = ()

        def __getattribute__(self, name: str) -> Any:
            nonlocal looks
            looks += name == "replaced"
            return super().__getattribute__(name)

    counts = []
    for n in (10, 20, 40):
        x = ej.ones(1000, requires_grad=True)
        out = ej.zeros(n, 1000)
        out[0] = x
        for i in range(n - 1):
            out[i + 1] = out[i] * 0.5 + x
            out._node.__class__ = Counted
        out.grad_fn.register_hook(lambda *gradients: None)
        looks = 0
        out.sum().backward()
        counts.append(looks)
    assert 0 < counts[2] - counts[1] <= 2 * (counts[1] - counts[0]) + 4


class Doubled:
    """A function of one's own, in either library."""

    def __init__(self, t: Any):
        class Function(t.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g * 2

        self.apply = Function.apply


def written_since(t: Any) -> tuple[Any, Any, Any, Any]:
    """An input, a tensor, a row of that and a part of the row: the row was written by way of the tensor."""
    x = t.tensor([0.5, 0.75, 1.25], requires_grad=True)
    out = t.ones(4, 3) * x
    row = out[1]
    part = row[1:]
    out[1] = x * x
    out[2] = x * 3
    return x, out, row, part


def seen(x: Any, result: Any) -> list[Any]:
    result.sum().backward()
    return [result.tolist(), x.grad.tolist()]


def hooked(t: Any) -> list[Any]:
    x, out, row, part = written_since(t)
    found: list[Any] = []
    assert row.grad_fn is not None and part.grad_fn is not None  # without that PyTorch's process ends at the next line
    row.register_hook(lambda g: found.append(g.tolist()))
    part.register_hook(lambda g: g * 2)
    out[3] = row * 2
    return [*seen(x, part * 3), found]


def retained(t: Any) -> list[Any]:
    x, _, row, _ = written_since(t)
    row.retain_grad()
    return [*seen(x, row * 2), row.grad.tolist()]


def asked_for(t: Any) -> list[Any]:
    _, out, row, _ = written_since(t)
    return [g.tolist() for g in t.autograd.grad((row * row[0]).sum(), [row], retain_graph=True)] + [
        (row.grad_fn is None, row.is_leaf, row.requires_grad, out._version, row._version)
    ]


USES: dict[str, Callable[[Any], Any]] = {
    "a row": lambda t: (lambda x, out, row, part: seen(x, row * 1))(*written_since(t)),
    "a part of a row": lambda t: (lambda x, out, row, part: seen(x, part * out[0, 1:]))(*written_since(t)),
    "a row itself": lambda t: (lambda x, out, row, part: seen(x, row))(*written_since(t)),
    "a new view": lambda t: (lambda x, out, row, part: seen(x, part[:1]))(*written_since(t)),
    "a list": lambda t: (lambda x, out, row, part: seen(x, t.cat([part, row])))(*written_since(t)),
    "written": lambda t: (lambda x, out, row, part: seen(x, part.mul_(x[0])))(*written_since(t)),
    "added": lambda t: (lambda x, out, row, part: seen(x, out.add_(row * 2)))(*written_since(t)),
    "a function of one's own": lambda t: (lambda x, out, row, part: seen(x, Doubled(t).apply(row)))(*written_since(t)),
    "a checkpoint": lambda t: (
        lambda x, out, row, part: seen(
            x, t.utils.checkpoint.checkpoint(lambda r, p: r.exp() * p[0], row, part, use_reentrant=False)
        )
    )(*written_since(t)),
    "a hook": hooked,
    "a kept gradient": retained,
    "a gradient": asked_for,
}


@pytest.mark.parametrize("name", USES)
def test_views_are_up_to_date_whatever_uses_them(name: str) -> None:
    assert USES[name](ej) == USES[name](torch)


@pytest.mark.parametrize("t", [torch, ej])
def test_instances_of_subclasses_keep_their_history(t: Any) -> None:
    class Image(t.Tensor):
        pass

    x = t.ones(3, 2).as_subclass(Image).requires_grad_()
    out = (x * 3).as_subclass(Image)
    row = out[0]
    out[0] = x[1] * 5
    (row * 2).sum().backward()
    assert out.requires_grad and x.grad.tolist() == [[0, 0], [10, 10], [0, 0]]


def test_compiled_calls_and_views_written_since() -> None:
    found = []
    for call in (lambda f: f, ej.jit):
        x, out, row, part = written_since(ej)
        made = call(lambda row, part, x: row * 3 + part[0] + x.exp())(row, part, x)
        out[1] = made
        found.append(seen(x, call(lambda row: row * 2)(row) + out[0]))
    assert found[0] == found[1]


def test_compiled_calls_that_give_views_written_since() -> None:
    def function(x: Any) -> Any:
        out = ej.ones(4, 3) * x
        rows = [out[i] for i in range(4)]
        for i in range(3):
            out[i + 1] = rows[i] * 0.3 + x.exp()
        return out, rows

    found = []
    for call in (function, ej.jit(function, fullgraph=True)):
        x = ej.tensor([0.1, 0.7, 1.3], requires_grad=True)
        out, rows = call(x)
        out[0] = rows[3] * 0.3 + rows[2]
        total = (out * 0.1).sum() + (rows[3] * 0.7).sum() + (rows[1] * rows[0]).sum() + (out.exp()).sum()
        found.append(seen(x, total))
    assert found[0] == found[1]
