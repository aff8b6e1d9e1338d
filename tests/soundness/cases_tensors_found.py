"""Tensors that calls find in variables, attributes and dictionaries, where others put a new one before every call."""

from __future__ import annotations

import types

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, attempt, case


def ones(*shape):
    return torch.ones(*shape)


@case(versions=2)
def in_variables_attributes_and_tables(jit):
    holder, table = types.SimpleNamespace(t=None), {}
    globals()["_found"] = ones(2)
    kept = ones(2)

    @jit
    def f(x):
        return x * _found + holder.t * table["t"] - kept  # noqa: F821

    for i in range(6):
        globals()["_found"], kept = ones(2 + i) * i, ones(2 + i) * 2 * i
        holder.t, table["t"] = torch.arange(2.0 + i), ones(1) * i
        yield f(ones(2 + i))


@case(versions=2)
def in_variables_of_a_loop_around(jit):
    weight = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    x, y = ones(4, 3), ones(4)

    @jit
    def step():
        optimizer.zero_grad()
        loss = ((x @ weight - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for i in range(6):
        x, y = torch.randn(4, 3), torch.randn(4)
        yield step().item(), weight, x, y, i


@case
def of_other_kinds(jit):
    holder = types.SimpleNamespace(t=ones(2, 2))

    @jit
    def f(x):
        return x * holder.t, holder.t.shape, holder.t.is_contiguous(), holder.t.dtype

    base = torch.arange(12.0).reshape(3, 4)
    others = [
        ones(2, 2), ones(2, 2) * 2, base[:2, :2], base[:2, :2].T, ones(2, 2).double(), ones(2), ones(1, 2), 3.0, True,
        torch.ones(2, 2, requires_grad=True), nn.Parameter(ones(2, 2)), torch.zeros(2, 0, dtype=torch.int64),
        torch.tensor(2.0), torch.tensor(2), ones(2, 2) * 5, torch.ones(2, 2, requires_grad=True) * 2, None,
    ]  # fmt: skip
    for holder.t in others:
        yield attempt(f, ones(2, 2))


@case
def that_are_returned_kept_and_compared(jit):
    a, b, log = ones(2), ones(2), []

    @jit
    def f(x):
        log.append(a)
        return a, a is b, a is x, x + a, a.view(2)

    for i in range(8):
        a = ones(2) * i
        b = a if i in (3, 6) else ones(2)
        x = a if i in (4, 6) else ones(2)
        found = f(x)
        yield found, found[0] is a, log[-1] is a, len(log)
        found[-1].add_(1.0)
        yield a


@case
def that_are_written(jit):
    a, b = ones(3), ones(3)

    @jit
    def f(x):
        a.mul_(2.0)
        b[1:].add_(a[:2])
        return x + a + b

    whole = torch.arange(6.0)
    for a, b in [
        (ones(3), ones(3)), (ones(3) * 2, ones(3)), (ones(3) * 3, ones(3) * 4), (whole[:3], whole[3:]),
        (ones(3), ones(3)),
    ]:  # fmt: skip
        yield f(ones(3)), a, b, a._version, b._version, whole


@case(outcome=FELL_BACK)
def that_are_written_and_share_memory(jit):
    a, b = ones(3), ones(3)

    @jit
    def f(x):
        a.mul_(2.0)
        b[1:].add_(a[:2])
        return x + a + b

    whole = torch.arange(6.0)
    for a, b in [(ones(3), ones(3)), (whole[:3], whole[1:4]), (whole[:3], whole[:3]), (ones(3), ones(3))]:
        yield f(ones(3)), a, b, a._version, b._version, whole
    a = b = ones(3)
    yield f(ones(3)), a
    a = x = ones(3)
    yield f(x), a, b
    a, b = ones(3), ones(3)
    yield f(b), a, b


@case
def that_a_gradient_reads(jit):
    scale = ones(2)

    @jit
    def f(w):
        return (w * w * scale).sum()

    for i in range(5):
        scale = ones(2) * i
        w = torch.ones(2, requires_grad=True)
        result = f(w)
        before, scale = scale, ones(2) * 100
        if i == 3:
            before.mul_(2.0)
        yield attempt(result.backward), w.grad


@case(outcome=FELL_BACK)
def that_are_shared_by_two_names(jit):
    holder = types.SimpleNamespace(a=ones(2), b=ones(2))

    @jit
    def f(x):
        holder.a.add_(x)
        return holder.a + holder.b

    for i in range(3):
        holder.a, holder.b = ones(2) * i, ones(2)
        yield f(ones(2)), holder
    holder.a = holder.b = ones(2)
    yield f(ones(2)), holder
    yield f(ones(2)), holder
    holder.b = holder.a[:]
    yield f(ones(2)), holder
    holder.b = ones(2)
    yield f(ones(2)), holder


@case
def in_buffers(jit):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x):
            return x + self.seen

    model = Counting()
    f = jit(lambda x: model(x) * 2)
    for i in range(5):
        model.seen = ones(2) * i
        yield f(ones(2)), model.state_dict()
    model.load_state_dict({"seen": ones(2) * 9})
    yield f(ones(2))
    model.double()
    yield f(ones(2)), f(ones(2).double())


@case
def of_lists_and_of_lists_in_tables(jit):
    batches, table = [ones(2), ones(2)], {"all": [ones(2)]}

    @jit
    def f(x):
        return x * batches[0] + batches[-1] * table["all"][0]

    for i in range(5):
        batches[0], table["all"][0] = ones(2) * i, ones(2) + i
        yield f(ones(2))
    batches.append(ones(2) * 7)
    yield f(ones(2))


@case
def with_attributes_and_hooks(jit):
    holder = types.SimpleNamespace(t=ones(2))

    @jit
    def f(x):
        return x * holder.t * getattr(holder.t, "scale", 1.0)

    for i in range(9):
        holder.t = ones(2) * i
        if i % 2 and i > 2:
            holder.t.scale = 2.0 + i
        yield f(ones(2))


@case(outcome=FELL_BACK)
def that_are_given_attributes(jit):
    holder = types.SimpleNamespace(t=ones(2))

    @jit
    def f(x):
        holder.t.seen = True
        return x * holder.t

    for i in range(4):
        holder.t = ones(2) * i
        yield attempt(f, ones(2)), holder.t.seen


@case
def that_lie_elsewhere_too(jit):
    data, holder, model = [ones(2), ones(2) * 2], types.SimpleNamespace(t=None), nn.BatchNorm1d(2)

    @jit
    def f(x):
        return x * holder.t + data[0] * 10 + data[1] * 100, holder.t is data[0]

    @jit
    def g(x):
        return model.running_mean + x * holder.t

    others = [ones(2), data[0], ones(2) * 4, data[1], model.running_mean, ones(2) * 5, data[0], ones(2) * 6]
    for holder.t in (ones(2), *others):
        yield f(ones(2)), g(ones(2))


@case(outcome=FELL_BACK)
def whose_views_are_found_too(jit):
    whole = ones(4)
    view = whole[2:]

    @jit
    def f(x):
        whole.add_(1.0)
        return view * 2 + x

    for i in range(4):
        whole = ones(4) * i
        yield f(ones(2)), whole, view
        view = whole[1:3]
        yield f(ones(2)), whole, view


@case
def that_helpers_get_in_lists(jit):
    first, holder = ones(2), types.SimpleNamespace(t=None)
    data = [first, ones(2) * 2]

    def total(values):
        return sum(v.sum() for v in values)

    @jit
    def f(x):
        return x * holder.t + total(data), [d * holder.t for d in data]

    for holder.t in (ones(2), ones(2) * 3, first, ones(2) * 4, data[1], ones(2) * 5):
        yield f(ones(2)), len(data)
