"""Arguments that are views of one memory, which a call writes: of each other, of a common base, of what is captured."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case


@case(versions=2)
def views_at_many_places(jit):
    def f(x, y):
        x.add_(1)
        y.mul_(3)
        return x.sum() + y

    f = jit(f)
    for n in range(6, 14):
        for k in (1, 2, 3):
            b = torch.arange(float(n))
            yield f(b[k:-1], b[1 : n - k]), b


@case
def views_of_a_matrix_and_its_transpose(jit):
    def f(x, y):
        x += 1
        y *= 2
        return x.t() @ y

    f = jit(f)
    for n in (3, 4, 5):
        b = torch.arange(float(n * n)).view(n, n)
        yield f(b[:, :2], b.t()[:, 1:3]), b, b._version
        yield f(b[1:], b[:-1]), b


@case
def what_is_asked_of_tensors_in_any_order_of_memory(jit):
    def f(x, row):
        y = x.t() if x.shape[0] > 4 else x
        count = (y > row[0]).sum(0)
        return (x > 1).any(), x.long().amax(-1), count, (y != 0).all(0, keepdim=True), x.sum(0), y.amax()

    f = jit(f)
    for n, m in ((3, 9), (9, 3), (5, 8), (6, 1), (2, 0)):
        b = torch.arange(float(n * m)).view(n, m).sin() * 3
        for x in (b, b.t(), b[::2].t(), b.t()[:, 1:], b[:, None].expand(n, 2, m).transpose(0, 2)[:, 0]):
            yield attempt(f, x, torch.tensor([-0.5, 1.0]))


@case
def related_views_are_returned(jit):
    def f(x, y):
        x.add_(1)
        return x, y, x[1:], x is y, y.view(-1)

    f = jit(f)
    for n in (4, 5):
        b = torch.zeros(n)
        x, y = b[:3], b[1:4]
        r = f(x, y)
        yield r[0] is x, r[1] is y, r
        r[2].add_(1)
        r[4].mul_(2)
        yield b, b._version, x._version


@case
def a_gradient_of_what_a_view_wrote(jit):
    w = torch.ones(3, requires_grad=True)

    def f(x, y):
        x.add_(1)
        return (y * w).sum()

    f = jit(f)
    for _ in range(3):
        b = torch.zeros(4)
        loss = f(b[:3], b[1:])
        loss.backward()
        yield loss, w.grad, b


@case
def a_gradient_twice_over_related_views(jit):
    w = torch.ones(3, requires_grad=True)

    def f(x, y):
        x.add_(1)
        return (y.clone() * w * w).sum()

    f = jit(f)
    for _ in range(2):
        b = torch.ones(4)
        f(b[:3], b[1:]).backward()
        yield w.grad, b


@case
def a_base_and_its_view_in_any_place(jit):
    def f(x, y, z):
        x.add_(1)
        y.mul_(2)
        return z + 1

    f = jit(f)
    for _ in range(2):
        b = torch.ones(4)
        v = b[1:]
        yield f(v, v, b), b
        yield f(b, v, v), b
        yield f(v, b, b), b
        yield f(b, b, b), b


@case
def an_index_out_of_range_after_a_view_was_written(jit):
    def f(x, y, i):
        x.add_(1)
        return y[i] * 1  # a view of an argument, whose place only a call knows, is not returned by compiled code

    f = jit(f)
    for i in (1, 2, 7, 0):
        b = torch.arange(4.0)
        yield attempt(f, b[:3], b[1:], torch.tensor(i)), b


@case
def out_is_a_view_of_the_operands_base(jit):
    def f(x, y):
        return torch.add(x, 1, out=y)

    f = jit(f)
    for _ in range(3):
        b = torch.arange(4.0)
        yield f(b[:3], b[1:]), b


@case
def a_written_view_is_kept(jit):
    log = []

    def f(x, y):
        x.add_(1)
        log.append(x)
        return y * 2

    f = jit(f)
    for _ in range(3):
        b = torch.arange(4.0)
        x = b[:3]
        yield f(x, b[1:]), log[-1] is x


@case
def related_views_in_a_dictionary(jit):
    def f(d):
        d["a"].add_(1)
        d["b"][0] = 5
        return d["a"] + d["b"]

    f = jit(f)
    for _ in range(3):
        b = torch.arange(6.0)
        yield f({"a": b[:3], "b": b[1:4]}), b


@case
def a_view_and_a_captured_view_of_one_base(jit):
    b = torch.zeros(6)
    c1 = b[2:5]

    def f(x):
        c1.add_(x)
        return x * 2

    f = jit(f)
    for s in (0, 1, 3):
        yield f(b[s : s + 3]), b, b._version
    yield f(c1), b
    yield f(torch.ones(3)), b
    yield f(c1[:]), b
    yield f(b[2:5]), b


@case
def a_view_of_what_was_captured_and_is_replaced(jit):
    h = {"c": torch.zeros(4)}

    def f(x):
        h["c"].add_(1)
        return x * 2

    f = jit(f)
    for i in range(3):
        yield f(h["c"][1:]), h["c"]
        h["c"] = torch.ones(4) * i


@case
def halves_of_a_tensor_swapped(jit):
    def f(x, y):
        t = x.clone()
        x.copy_(y)
        y.copy_(t)
        return x, y

    f = jit(f)
    for n in (4, 6):
        b = torch.arange(float(n))
        yield f(b[::2], b[1::2]), b
        yield f(b[:3], b[1:4]), b


@case
def a_branch_between_writes_to_related_views(jit):
    def f(x, y):
        x.add_(1)
        if y.sum() > 8:
            y.mul_(2)
        return x + y

    f = jit(f)
    for k in (0.0, 5.0, 1.0, 6.0):
        b = torch.full((4,), k)
        yield f(b[:3], b[1:]), b


@case
def an_expanded_view_of_what_is_written(jit):
    def f(x, y):
        y.add_(1)
        return x * 2

    f = jit(f)
    for _ in range(2):
        b = torch.ones(1, 3)
        yield f(b.expand(4, 3), b), b


@case
def parts_that_one_call_gave_with_the_whole(jit):
    def f(a, b, whole):
        a.add_(1)
        b.mul_(2)
        return whole.sum()

    f = jit(f)
    for n in (4, 6):
        w = torch.arange(float(n))
        a, b = w.split(n // 2)
        yield f(a, b, w), w
        p, q = w.view(2, -1).unbind(0)
        yield f(p, q, w), w


@case(versions=2)
def a_cache_written_and_a_part_of_it_given(jit):
    cache = torch.zeros(8, 2)

    def f(new, view):
        cache[2:4] = new
        return view.sum(), cache[:4].sum()

    f = jit(f)
    for n in (2, 3, 4, 5):
        yield f(torch.full((2, 2), float(n)), cache[:n]), cache


@case(outcome=FELL_BACK)
def a_view_gets_a_history(jit):
    w = torch.ones(3, requires_grad=True)

    def f(x, y):
        x.mul_(w)
        return y * 2

    f = jit(f)
    for _ in range(3):
        b = torch.ones(4)
        loss = f(b[:3], b[1:])
        loss.sum().backward()
        yield loss.detach(), w.grad, b.detach()


@case(outcome=FELL_BACK)
def views_of_what_has_a_history(jit):
    w = torch.ones(4, requires_grad=True)

    def f(x, y):
        x.mul_(2)
        return y * 2

    f = jit(f)
    for _ in range(3):
        b = w * 1
        loss = f(b[:3], b[1:])
        loss.sum().backward()
        yield loss.detach(), w.grad, b.detach()


@case(outcome=FELL_BACK)
def views_whose_writes_are_not_counted(jit):
    def f(x, y):
        x.add_(1)
        return y * 2

    f = jit(f)
    for _ in range(2):
        b = torch.ones(4)
        yield f(b.data[:3], b[1:]), b, b._version
        yield f(b.detach()[:3], b[1:]), b, b._version


@case(outcome=FELL_BACK)
def a_related_view_requires_a_gradient(jit):
    def f(x, y):
        y.add_(1)
        x.requires_grad_()
        return (x * 2).sum()

    f = jit(f)
    for _ in range(2):
        b = torch.ones(4)
        x = b[:3].detach()
        yield attempt(f, x, b[1:]), x.requires_grad


@case(outcome=FELL_BACK)
def the_version_of_a_view_read_inside(jit):
    f = jit(lambda x: (x[1:]._version, x + 1))
    x = torch.ones(3)
    for _ in range(3):
        yield f(x)
        x.add_(1)
