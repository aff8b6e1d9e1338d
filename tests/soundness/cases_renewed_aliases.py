"""Containers that calls replace, held elsewhere too, changed before, or asked which ones they are."""

from __future__ import annotations

import types

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import attempt, case


def ramp(*sizes):
    n = torch.Size(sizes).numel()
    return (torch.arange(float(n)) / n - 0.3).reshape(*sizes)


@case
def a_replaced_list_under_another_name(jit):
    box = types.SimpleNamespace(state=[torch.zeros(2)])
    last = types.SimpleNamespace(v=box.state)

    @jit
    def f(x):
        box.state.append(x)
        r = x * len(last.v)
        box.state = [x * 2]
        return r

    for i in range(4):
        if i % 2:
            last.v = box.state
        yield (f(ramp(2) + i), box, last)


@case
def a_replaced_list_becomes_another_one(jit):
    box = types.SimpleNamespace(state=[torch.zeros(2)], other=[torch.ones(2)])

    @jit
    def f(x):
        box.state.append(x)
        n = len(box.other)
        box.state = [box.other[0] * 2]
        return x * n

    for i in range(4):
        yield (f(ramp(2) + i), box)
    box.state = box.other
    yield (f(ramp(2)), box)
    yield (f(ramp(2)), box)


@case(versions=2)
def a_list_changed_and_then_replaced(jit):
    box = types.SimpleNamespace(state=[torch.zeros(2)])

    @jit
    def f(x):
        box.state.append(x)
        box.state[0] = x * 3
        out = torch.stack(box.state).sum(0)
        box.state = [out]
        return out

    for i in range(4):
        old = box.state
        yield (f(ramp(2) + i), old, box)


@case(versions=2)
def a_list_within_what_is_replaced(jit):
    box = types.SimpleNamespace(state={"l": [torch.zeros(2)], "n": 0})

    @jit
    def f(x):
        inner = box.state["l"]
        inner.append(x)
        box.state["n"] += 1
        box.state = {"l": [inner[0] + x], "n": box.state["n"]}
        return x * box.state["n"]

    for i in range(4):
        old = box.state
        yield (f(ramp(2) + i), old, box)


@case(versions=2)
def what_was_replaced_is_kept_and_returned(jit):
    box = types.SimpleNamespace(state=[torch.zeros(2)], prev=None)

    @jit
    def f(x):
        box.prev = box.state
        box.state = [box.prev[0] + x]
        return (box.prev, box.state[0])

    for i in range(4):
        yield (f(ramp(2) + i), box)


@case(versions=2)
def second_derivatives_after_a_state_was_replaced(jit):
    w = torch.ones(2, requires_grad=True)
    box = types.SimpleNamespace(state={"h": torch.zeros(2)})

    @jit
    def f(x):
        h = torch.tanh(box.state["h"] * w + x)
        box.state = {"h": h.detach()}
        return (h**3).sum()

    for i in range(4):
        y = f(ramp(2) + i)
        (g,) = torch.autograd.grad(y, w, create_graph=True)
        (g2,) = torch.autograd.grad(g.sum(), w)
        yield (g, g2, box)
    outs = [f(ramp(2) + i) for i in range(3)]
    for o in outs:
        (g,) = torch.autograd.grad(o, w, create_graph=True)
        yield (g, torch.autograd.grad(g.sum(), w))


@case(versions=2)
def second_derivatives_after_a_list_was_changed(jit):
    w = torch.ones(2, requires_grad=True)
    box = types.SimpleNamespace(state=[torch.zeros(2), torch.ones(2)])

    @jit
    def f(x):
        h = torch.tanh(box.state[0] * w + x * box.state[1])
        box.state.append(x)
        box.state.pop(0)
        box.state = [*box.state, h.detach()][:2]
        return (h**3).sum()

    for i in range(4):
        old = box.state
        y = f(ramp(2) + i)
        (g,) = torch.autograd.grad(y, w, create_graph=True)
        (g2,) = torch.autograd.grad(g.sum(), w)
        yield (g, g2, box, old)


@case
def a_weight_in_a_replaced_list(jit):
    m = nn.Linear(2, 2, bias=False)
    box = types.SimpleNamespace(state=[m.weight])

    @jit
    def f(x):
        y = box.state[0] * x + m.weight * x
        box.state = [m.weight]
        return y.sum()

    for i in range(4):
        m.zero_grad()
        f(ramp(2, 2) + i).backward()
        yield m.weight.grad
        if i == 3:
            box.state = [torch.ones(2, 2, requires_grad=True)]


@case
def two_replaced_lists_become_one(jit):
    box = types.SimpleNamespace(a=[], b=[])

    @jit
    def f(x):
        box.a.append(x)
        n = len(box.b)
        box.a = [x]
        box.b = [x * 2]
        return x * n

    for i in range(4):
        if i == 3:
            box.a = box.b
        yield (f(ramp(2) + i), box)


@case
def a_replaced_list_is_an_argument(jit):
    box = types.SimpleNamespace(a=[])

    @jit
    def f(lst, x):
        lst.append(x)
        n = len(box.a)
        box.a = [x]
        return x * n

    for i in range(4):
        yield (f([], ramp(2) + i), box)
    given = box.a
    yield (f(given, ramp(2)), box, given)
    yield (f(given, ramp(2)), box, given)


@case
def numbers_and_flags_in_a_replaced_dictionary(jit):
    box = types.SimpleNamespace(s={"n": 0, "avg": 0.0, "name": "a", "on": True})

    @jit
    def f(x):
        n = box.s["n"] + 1
        box.s = {"n": n, "avg": box.s["avg"] * 0.9 + n * 0.1, "name": box.s["name"], "on": box.s["on"]}
        return x * box.s["avg"] + n

    for i in range(4):
        yield (f(ramp(2) + i), box)
    box.s["name"] = "b"
    yield (f(ramp(2)), box)
    box.s["on"] = 1
    yield (f(ramp(2)), box)
    box.s["n"] = 2.5
    yield (f(ramp(2)), box)
    box.s["avg"] = 3
    yield (f(ramp(2)), box)
    del box.s["name"]
    yield (attempt(f, ramp(2)), box)


@case
def a_list_of_layers_replaced(jit):
    box = types.SimpleNamespace(layers=[nn.Linear(2, 2) for _ in range(2)])

    @jit
    def f(x):
        for layer in box.layers:
            x = layer(x)
        box.layers = box.layers[::-1]
        return x

    for i in range(4):
        yield f(ramp(1, 2) + i)


@case
def an_error_after_a_list_was_replaced(jit):
    box = types.SimpleNamespace(state=[torch.zeros(2)])

    @jit
    def f(x):
        box.state.append(x)
        s = box.state
        box.state = [x]
        if x.sum() > 3:
            raise ValueError("big")
        return s[0] + x

    for i in range(4):
        old = box.state
        yield (attempt(f, ramp(2) + i), box, old)


class Node:
    def __init__(self, parent, v):
        self.parent = parent
        self.v = v


@case
def objects_that_know_their_parents_replaced(jit):
    root = Node(None, torch.zeros(2))
    root.child = Node(root, torch.ones(2))
    box = types.SimpleNamespace(r=root)

    @jit
    def f(x):
        box.r.v = x
        y = box.r.child.parent.v + x
        new = Node(None, x)
        new.child = Node(new, y)
        box.r = new
        return y

    for i in range(4):
        yield f(ramp(2) + i)


@case
def keys_of_other_kinds(jit):
    box = types.SimpleNamespace(s={1: torch.ones(2)})

    @jit
    def f(x):
        k = next(iter(box.s))
        y = box.s[k] + x
        box.s = {k: y}
        return (y, str(k))

    for i in range(4):
        if i == 3:
            box.s = {True: torch.ones(2)}
        if i == 5:
            box.s = {1.0: torch.ones(2)}
        yield (f(ramp(2) + i), box)


@case
def a_replaced_list_read_by_getattr(jit):
    box = types.SimpleNamespace(s=[torch.zeros(2)])

    @jit
    def f(x):
        a = box.s
        b = box.s
        b.append(x)
        r = a[-1] * 2 + x
        box.s = [r]
        return r

    for i in range(4):
        yield (f(ramp(2) + i), box)


@case
def a_list_of_the_last_argument(jit):
    box = types.SimpleNamespace(s=[torch.zeros(2)])

    @jit
    def f(x):
        y = box.s[0] * 2 + x
        box.s = [x]
        return y

    xs = [ramp(2) + i for i in range(3)]
    for i in range(8):
        yield (f(xs[i % 3]), box, box.s[0] is xs[i % 3])
    yield f(xs[1])
    yield f(xs[1])
    yield f(xs[1])


@case
def a_list_of_the_last_argument_written(jit):
    box = types.SimpleNamespace(s=[torch.zeros(2)])

    @jit
    def f(x):
        x.add_(1)
        y = box.s[0] * 2 + x
        box.s = [x]
        return y

    xs = [ramp(2) + i for i in range(3)]
    for i in range(6):
        yield (f(xs[i % 3]), box)
    yield f(xs[1])
    yield f(xs[1])
    yield f(xs[1])


@case
def which_keys_the_last_call_left(jit):
    box = types.SimpleNamespace(s={"a": torch.zeros(2)})

    @jit
    def f(x):
        if "b" in box.s:
            y = box.s["b"] + x
        else:
            y = box.s.get("a", x) * 2
        box.s = {"a": y, **({"b": x} if len(box.s) == 1 else {})}
        return y

    for i in range(4):
        yield (f(ramp(2) + i), box)


@case(versions=2)
def an_item_popped_before_all_is_replaced(jit):
    box = types.SimpleNamespace(s={"a": torch.zeros(2)})

    @jit
    def f(x):
        a = box.s.pop("a")
        box.s = {"a": a + x}
        return a

    for i in range(4):
        old = box.s
        yield (f(ramp(2) + i), box, old)


@case(versions=2)
def two_lists_exchanged_and_written(jit):
    box = types.SimpleNamespace(a=[torch.zeros(2)], b=[torch.ones(2)])

    @jit
    def f(x):
        box.a, box.b = (box.b, box.a)
        box.a[0] = box.a[0] + x
        return box.a[0] * box.b[0]

    for i in range(4):
        a, b = (box.a, box.b)
        yield (f(ramp(2) + i), box, a, b)
