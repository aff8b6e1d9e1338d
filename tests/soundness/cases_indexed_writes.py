"""Writes by subscripts, with every form of index."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import attempt, case


@case
def setitem_int(jit):

    @jit
    def f(x, i, v):
        x[i] = v
        return x.sum()

    for i in (0, 1, 2, -1, -3):
        x = torch.zeros(4)
        yield f(x, i, 2.5 + i)
        yield x


@case
def setitem_int_out_of_range(jit):

    @jit
    def f(x, i):
        x[i] = 1.0
        return x

    for i in (0, 3, 4, -4, -5):
        x = torch.zeros(4)
        yield attempt(f, x, i)
        yield x


@case
def setitem_slice(jit):

    @jit
    def f(x, a, b, v):
        x[a:b] = v
        return x * 1

    for a, b in ((0, 2), (1, 3), (2, 2), (-2, 4), (1, 100)):
        x = torch.zeros(4)
        yield f(x, a, b, 7.0)
        yield x


@case
def setitem_step(jit):

    @jit
    def f(x, v):
        x[1::2] = v
        x[:, ::2] = 1
        return x * 1

    for n in (4, 5, 2, 1):
        x = torch.zeros(n, n)
        yield f(x, torch.full((n,), 3.0))
        yield x


@case
def setitem_ellipsis_none(jit):

    @jit
    def f(x, v):
        x[..., 0] = v
        x[None, 1] = 5
        x[...] += 1
        return x

    for n in (3, 4):
        x = torch.zeros(n, n)
        yield f(x, torch.arange(float(n)))


@case
def setitem_tensor_index(jit):

    @jit
    def f(x, i, v):
        x[i] = v
        return x

    for idx in ([0, 2], [1, 1, 3], [3], [-1]):
        yield f(torch.zeros(4), torch.tensor(idx), 2.0)


@case
def setitem_tensor_index_values(jit):

    @jit
    def f(x, i, v):
        x[i] = v
        return x

    for idx in ([0, 2], [1, 0, 3], [3]):
        yield f(torch.zeros(4, 2), torch.tensor(idx), torch.arange(2.0 * len(idx)).reshape(-1, 2))


@case
def setitem_mask(jit):

    @jit
    def f(x, v):
        x[x > 0] = v
        return x

    for n in (3, 4):
        yield f(torch.arange(float(n)) - 1, 9.0)


@case
def setitem_mask_values(jit):

    @jit
    def f(x, v):
        x[x > 0] = v
        return x

    for n in (3, 4):
        yield f(torch.arange(float(n)) - 1, torch.arange(float(n - 2)) + 10)


@case
def setitem_mixed(jit):

    @jit
    def f(x, i, v):
        x[1:, i] = v
        x[0, i, None] = 2
        return x

    for idx in ([0, 2], [1, 0]):
        yield f(torch.zeros(3, 4), torch.tensor(idx), 3.0)


@case
def setitem_two_index(jit):

    @jit
    def f(x, i, j):
        x[i, j] = 1
        x[i, j] += 2
        return x

    for a, b in (([0, 1], [1, 1]), ([2], [0])):
        yield f(torch.zeros(3, 3), torch.tensor(a), torch.tensor(b))


@case
def setitem_list(jit):

    @jit
    def f(x):
        x[[0, 2]] = 4
        return x

    for n in (3, 5):
        yield f(torch.zeros(n))


@case
def setitem_grad(jit):

    @jit
    def f(w, v):
        y = w * 2
        y[1] = v
        y[2:] = v * 3
        return (y**2).sum()

    for i in range(3):
        w = torch.arange(4.0, requires_grad=True)
        v = torch.tensor(2.0 + i, requires_grad=True)
        f(w, v).backward()
        yield w.grad
        yield v.grad


@case
def setitem_tensor_dtype(jit):

    @jit
    def f(x, v):
        x[0] = v
        return x

    for v in (1.7, 2, True):
        yield f(torch.zeros(3, dtype=torch.int64), v)
    yield f(torch.zeros(3, dtype=torch.int64), torch.tensor(2.9))


@case
def masked_fill_inplace(jit):

    @jit
    def f(x, m):
        x.masked_fill_(m, float("-inf"))
        return x.softmax(-1)

    for n in (3, 4):
        yield f(torch.ones(n, n), torch.ones(n, n).triu(1).bool())


@case
def index_put_accumulate(jit):

    @jit
    def f(x, i, v):
        x.index_put_((i,), v, accumulate=True)
        return x

    for i in ([0, 0, 1], [2, 2, 2]):
        yield f(torch.zeros(3), torch.tensor(i), torch.tensor([1.0, 2.0, 3.0]))


@case
def index_add_inplace(jit):

    @jit
    def f(x, i, v):
        x.index_add_(0, i, v)
        return x

    for i in ([0, 0, 1], [2, 2, 2]):
        yield f(torch.zeros(3), torch.tensor(i), torch.tensor([1.0, 2.0, 3.0]))


@case
def scatter_inplace(jit):

    @jit
    def f(x, i, v):
        x.scatter_(0, i, v)
        return x

    for i in ([0, 1], [2, 1]):
        yield f(torch.zeros(3), torch.tensor(i), torch.tensor([1.0, 2.0]))


@case
def kv_cache(jit):
    cache = torch.zeros(2, 6, 3)

    @jit
    def f(k, pos):
        cache[:, pos : pos + k.shape[1]] = k
        return cache[:, : pos + k.shape[1]].sum(1)

    for p in range(5):
        yield f(torch.ones(2, 1, 3) * p, p)
        yield cache


@case
def kv_cache_returned_view(jit):
    cache = torch.zeros(2, 6, 3)

    @jit
    def f(k, pos):
        cache[:, pos] = k
        return cache[:, : pos + 1]

    outs = []
    for p in range(4):
        outs.append(f(torch.ones(2, 3) * p, p))
        yield outs


@case
def replay_ring_buffer(jit):
    buf = torch.zeros(4, 2)

    @jit
    def push(x, i):
        buf[i % buf.shape[0]] = x
        return buf.mean(0)

    for i in range(7):
        yield push(torch.ones(2) * i, i)
