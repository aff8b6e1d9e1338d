"""Tensors that share memory: overlapping arguments, views returned and written afterwards, captured views."""

from __future__ import annotations

import types

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, attempt, case


@case
def out_returned(jit):

    @jit
    def f(a, o):
        return torch.mul(a, 2, out=o)

    for n in (3, 4):
        o = torch.zeros(n)
        r = f(torch.ones(n), o)
        yield (r is o)
        yield o


@case
def out_captured_view(jit):
    base = torch.zeros(2, 3)
    row = base[1]

    @jit
    def f(a):
        torch.exp(a, out=row)
        return base.sum()

    for i in range(3):
        yield f(torch.full((3,), float(i)))
        yield base
        yield row._version


@case
def views_of_argument(jit):

    @jit
    def f(x):
        x.t().mul_(torch.arange(float(x.shape[0])))
        x.view(-1)[::2].add_(1)
        x.diagonal().zero_() if hasattr(x, "diagonal") else None
        x.narrow(0, 1, 1).fill_(5)
        x.select(1, 0).sub_(2)
        x.unsqueeze(0).squeeze(0).add_(1)
        return x.flatten()

    for n in (3, 4, 2):
        x = torch.ones(n, n)
        yield f(x)
        yield x
        yield x._version


@case
def same_tensor_twice(jit):

    @jit
    def f(x, y):
        x.add_(1)
        y.mul_(3)
        return x + y

    yield f(torch.ones(3), torch.ones(3))
    a = torch.ones(3)
    yield f(a, a)
    yield a
    yield a._version
    yield f(torch.ones(4), torch.ones(4))
    a = torch.ones(5)
    yield f(a, a)
    yield a


@case
def overlapping_slices(jit):

    @jit
    def f(x, y):
        x.add_(1)
        y.mul_(3)
        return x + y

    for _i in range(3):
        base = torch.ones(6)
        yield f(base[:4], base[2:])
        yield base
        yield f(torch.ones(4), torch.ones(4))


@case
def disjoint_slices(jit):

    @jit
    def f(x, y):
        x.add_(1)
        y.mul_(3)
        return x + y

    for _i in range(3):
        base = torch.ones(6)
        yield f(base[:3], base[3:])
        yield base


@case
def interleaved_slices(jit):

    @jit
    def f(x, y):
        x.add_(1)
        y.mul_(3)
        return x + y

    for _i in range(3):
        base = torch.ones(6)
        yield f(base[::2], base[1::2])
        yield base


@case
def base_and_view(jit):

    @jit
    def f(x, y):
        x.zero_()
        return y + 1

    for _i in range(3):
        base = torch.ones(4)
        yield f(base, base[1:])
        yield base
        yield f(torch.ones(4), torch.ones(3))


@case
def argument_and_captured(jit):
    c = torch.ones(3)

    @jit
    def f(x):
        c.add_(x)
        return x * 2

    yield f(torch.ones(3))
    yield f(c)
    yield c
    yield f(c[:])
    yield c
    yield f(torch.ones(3))
    yield c


@case
def captured_two_views(jit):
    base = torch.zeros(4)
    a, b = (base[:3], base[1:])

    @jit
    def f(x):
        a.add_(x)
        b.mul_(2)
        return a.sum() + b.sum()

    for _i in range(3):
        yield f(torch.ones(3))
        yield base
        yield base._version


@case
def param_and_its_view_captured(jit):
    base = torch.zeros(4)
    v = base.view(2, 2)

    @jit
    def f(x):
        base.add_(x)
        return v.sum(0)

    for _i in range(3):
        yield f(torch.ones(4))
        yield v


@case
def returns_input(jit):

    @jit
    def f(x, y):
        return (x, y, x)

    for _i in range(2):
        x, y = (torch.ones(2), torch.zeros(2))
        a, b, c = f(x, y)
        yield (a is x, b is y, c is x)


@case
def returns_view_write_outside(jit):

    @jit
    def f(x):
        return (x[1:], x.t(), x.view(-1))

    for n in (3, 4):
        x = torch.zeros(n, n)
        a, b, c = f(x)
        a.add_(1)
        b[0] = 5
        c[-1] = 9
        yield x
        yield a
        yield b
        yield c
        yield x._version
        yield a._version


@case
def returns_view_of_written(jit):

    @jit
    def f(x):
        x.mul_(2)
        return (x[0], x)

    for n in (3, 4):
        x = torch.ones(n, n)
        r, y = f(x)
        r.zero_()
        yield x
        yield (y is x)
        yield x._version


@case
def outputs_share(jit):

    @jit
    def f(x):
        y = x * 2
        return (y, y[1:], y.t(), y)

    for n in (3, 4):
        y, r, t, z = f(torch.ones(n, n))
        r.zero_()
        t[0] = 4
        yield y
        yield (z is y)
        yield y._version


@case
def output_view_grad_then_write(jit):

    @jit
    def f(w):
        y = w * 2
        return (y, y[1:])

    for n in (3, 4):
        w = torch.ones(n, requires_grad=True)
        y, r = f(w)
        yield attempt(r.mul_, 3)
        y2 = y
        y2.sum().backward()
        yield w.grad


@case
def output_write_then_backward(jit):

    @jit
    def f(w):
        return w * 2

    for n in (3, 4):
        w = torch.ones(n, requires_grad=True)
        y = f(w)
        y.mul_(3)
        y[0] = 0
        y.sum().backward()
        yield w.grad
        yield y


@case
def input_view_returned_grad(jit):

    @jit
    def f(x):
        return x[1:]

    for n in (3, 4):
        w = torch.arange(float(n), requires_grad=True)
        x = w * 1
        r = f(x)
        r.mul_(2)
        (x**2).sum().backward()
        yield w.grad
        yield x


@case
def saved_output_overwritten(jit):

    @jit
    def f(w):
        return w.exp()

    for _i in range(3):
        w = torch.ones(2, requires_grad=True)
        y = f(w)
        y.add_(1)
        total = y.sum()
        yield attempt(total.backward)


@case
def captured_write_order(jit):
    c = torch.zeros(2)

    @jit
    def f(x):
        a = c + x
        c.copy_(a * 2)
        b = c + x
        c.zero_()
        c[0] = b.sum()
        return (a, b)

    for i in range(3):
        yield f(torch.full((2,), float(i)))
        yield c
        yield c._version


@case
def version_counter_in_two_views(jit):

    @jit
    def f(x):
        x[0].add_(1)
        x[1].mul_(2)
        x.add_(1)

    x = torch.ones(3, 2)
    v = x[2]
    for _i in range(3):
        f(x)
        yield x._version
        yield v._version
        yield v


@case
def detach_shares(jit):

    @jit
    def f(w):
        y = w * 2
        d = y.detach()
        d.add_(1)
        return (y.sum(), d)

    for _i in range(2):
        w = torch.ones(2, requires_grad=True)
        loss, d = f(w)
        loss.backward()
        yield loss
        yield d
        yield w.grad


@case
def argument_is_captured_first(jit):
    c = torch.ones(3)

    @jit
    def f(x):
        c.add_(x)
        return x * 2

    yield f(c)
    yield c
    yield f(torch.ones(3))
    yield c
    yield f(c[:])
    yield c


@case
def argument_is_parameter_first(jit):
    m = torch.nn.Linear(2, 2)
    with torch.no_grad():
        m.weight.fill_(1.0)
        m.bias.fill_(0.0)

    @jit
    def f(w, x):
        return m(x) + w.sum()

    x = torch.ones(2, 2)
    yield f(m.weight, x)
    yield f(torch.zeros(2, 2, requires_grad=True), x)


@case
def argument_view_of_captured_first(jit):
    c = torch.ones(4)

    @jit
    def f(x):
        c.add_(1)
        return x * 2

    yield f(c[1:])
    yield c
    yield f(torch.ones(3))
    yield c
    yield f(c[:3])
    yield c


@case
def argument_base_first(jit):

    @jit
    def f(x, y):
        x.zero_()
        return y + 1

    b = torch.ones(4)
    yield f(b, b[1:])
    yield f(torch.ones(4), torch.ones(3))


@case
def captured_in_list(jit):
    cs = [torch.ones(3), torch.zeros(3)]

    @jit
    def f(x):
        cs[0].add_(x)
        return cs[0] + cs[1]

    yield f(cs[0])
    yield f(torch.ones(3))
    yield cs


@case
def hidden_base_two_views(jit):

    @jit
    def f(w):
        y = w * 2
        return (y[:2], y[1:])

    for _i in range(2):
        w = torch.ones(3, requires_grad=True)
        a, b = f(w)
        a.mul_(3)
        yield a
        yield b
        b.sum().backward()
        yield w.grad
        yield b._version


@case
def hidden_base_no_grad(jit):

    @jit
    def f(x):
        y = x * 2
        return (y[:2], y[1:].t())

    for _i in range(2):
        x = torch.ones(3)
        a, b = f(x)
        a.mul_(3)
        yield a
        yield b
        yield b._version
        w = torch.ones(2, requires_grad=True)
        a.mul_(w)
        b.sum().backward()
        yield w.grad


@case
def chain_of_views(jit):

    @jit
    def f(x):
        return (x[1:].t()[:, 1:], x.view(-1)[2:])

    for n in (3, 4):
        w = torch.arange(float(n * n)).reshape(n, n).requires_grad_()
        x = w * 1
        a, b = f(x)
        a[0, 0] = 7.0
        b.mul_(2)
        (x**2).sum().backward()
        yield w.grad
        yield x


@case
def returned_detach(jit):

    @jit
    def f(w):
        y = w.exp()
        return (y, y.detach())

    for _i in range(2):
        w = torch.ones(2, requires_grad=True)
        y, d = f(w)
        d.add_(1)
        yield y
        try:
            y.sum().backward()
        except RuntimeError as e:
            yield ("modified" in str(e))


@case(versions=5)
def tensors_from_outside_are_returned(jit):
    """What nothing computes with is given as itself, too."""
    weight, listed = nn.Parameter(torch.ones(3)), [torch.ones(3), torch.ones(3) * 2]
    thing = types.SimpleNamespace(kept=torch.ones(3), undo=[])

    def pushed(x):
        thing.undo.append(thing.kept)
        thing.kept = thing.kept + x
        return thing.kept

    def popped():
        thing.kept = thing.undo.pop()
        return thing.kept

    f, pushed, popped = jit(lambda x: (weight, listed[0], {"last": listed[-1]}, x)), jit(pushed), jit(popped)
    for _ in range(2):
        found = f(torch.ones(3))
        found[1].add_(1)
        yield found[0] is weight, found[1] is listed[0], found[2]["last"] is listed[1], listed
    listed.reverse()
    yield f(torch.ones(3)), listed
    first = thing.kept
    second, third = pushed(torch.ones(3)), pushed(torch.ones(3))
    yield popped() is second, third, popped() is first, thing


@case
def an_argument_is_the_tensor_of_an_attribute_that_is_added_to(jit):
    """`holder.total += x` where x is the total: another argument is another input."""
    holder = types.SimpleNamespace(total=torch.ones(3), count=0)

    @jit
    def f(x):
        holder.total += x.detach()
        return x * 2

    for x in ("total", torch.ones(3), torch.zeros(3), "total", torch.full((3,), 5.0), "total"):
        f(holder.total if isinstance(x, str) else x)
        yield holder


@case
def returned_data_counts_writes_of_the_call(jit):
    def f(x):
        shown, made = x.data, x * 2
        shown[0] = 1
        shown.mul_(3)
        made.data.add_(1)
        return shown, shown[1:], made

    f = jit(f)
    for n in (3, 4):
        x = torch.arange(float(n))
        yield [(t, t._version) for t in (*f(x), x)]


@case
def returned_data_counts_its_own_writes(jit):
    w = torch.nn.Parameter(torch.arange(3.0))
    f = jit(lambda x: (w.data, (w * w * x).sum()))
    g = jit(lambda x: (w.data[1:], (x * 2).data))
    h = jit(lambda x: [shown := w.data, shown[:2], shown[1:]])
    for written in (lambda x: f(x)[0], lambda x: g(x)[0], lambda x: g(x)[1], lambda x: h(x)[1]):
        for _ in range(2):
            before, loss, shown = w._version, f(torch.ones(3))[1], written(torch.ones(3))
            shown.add_(1)
            loss.backward()
            yield shown, shown._version, w, w._version - before, w.grad
    first, second, third = h(torch.ones(3))
    second.mul_(2)
    yield first._version, third._version, first, third


@case(versions=4)
def returned_data_lies_in_the_same_memory(jit):
    w = torch.nn.Parameter(torch.arange(9.0)[2:])
    f = jit(lambda x: (x.data, x[1:].data, x.detach()[1:].data[1:], w.data, w[1:].data))
    g = jit(lambda x: [made := x * 2, made[1:].data])
    for x in (torch.arange(6.0), torch.arange(6.0)[1:], torch.arange(8.0)[3:].data, torch.ones(3, 4).T[1:]):
        for t in (*f(x), *g(x)):
            yield t, t.storage_offset(), len(t.untyped_storage())


@case(outcome=FELL_BACK)
def a_tensor_found_was_a_view_of_what_the_call_writes(jit):
    state = types.SimpleNamespace(leaf=torch.ones(4).requires_grad_(), t=torch.ones(3, 4))

    @jit
    def f(x):
        nn.init.normal_(state.leaf)
        state.t = state.t * 2
        return x + 1

    yield f(torch.ones(1)), state.t
    state.t = state.leaf[0]
    for _ in range(3):
        yield f(torch.ones(1)), state.t, state.leaf
