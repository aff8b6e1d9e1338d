"""Sizes that change between calls, and what Python code does with them."""

from __future__ import annotations

import math

import eagerjit as torch
import eagerjit.nn.functional as F
from tests.soundness.framework import attempt, case


@case
def sizes_small(jit):

    @jit
    def f(x):
        return (x.softmax(-1), x.sum(0), x - x.mean(), x.reshape(-1), x.shape[0] * x.shape[1])

    for s in ((2, 3), (1, 3), (3, 1), (1, 1), (5, 7), (2, 2)):
        yield f(torch.arange(float(s[0] * s[1])).reshape(s))


@case
def sizes_zero(jit):

    @jit
    def f(x):
        return (x.sum(0), x.reshape(-1), (x * 2 + 1).sum(), x.shape[0])

    for s in ((2, 3), (0, 3), (3, 0), (0, 0)):
        yield f(torch.zeros(s))


@case
def size_arithmetic(jit):

    @jit
    def f(x):
        n, m = x.shape
        return x.reshape(n * m // 2, 2).sum(0) / n**2 + (n - m) * 0.5 + n % 3 + -m + n / m

    for s in ((2, 4), (4, 2), (6, 5), (10, 3)):
        yield f(torch.ones(s))


@case
def half_slice(jit):

    @jit
    def f(x):
        h = x.shape[0] // 2
        return (x[:h], x[h:], x[h], x[-h:], x[h - 1 : h + 1])

    for n in (2, 4, 5, 9):
        yield f(torch.arange(float(n)))


@case
def range_over_size(jit):

    @jit
    def f(x):
        out = 0
        for i in range(x.shape[0]):
            out = out + x[i] * i
        return out

    for n in (2, 3, 5, 2, 1):
        yield f(torch.arange(float(n)))


@case
def view_minus_one(jit):

    @jit
    def f(x):
        return (x.view(-1), x.view(x.size(0), -1), x.view(-1, 2), x.flatten(1))

    for s in ((2, 4), (3, 2, 2), (5, 2)):
        yield f(torch.arange(float(math.prod(s))).reshape(s))


@case
def arange_of_size(jit):

    @jit
    def f(x):
        n = x.shape[0]
        return (
            torch.arange(n),
            torch.arange(1, n + 1) * 2,
            torch.zeros(n, n + 1),
            torch.eye(n),
        )

    for n in (2, 3, 7):
        yield f(torch.zeros(n))


@case
def linspace_of_size(jit):

    @jit
    def f(x):
        return torch.linspace(0, 1, x.shape[0]) * x

    for n in (2, 3, 7):
        yield f(torch.ones(n))


@case
def chunk_symbolic(jit):

    @jit
    def f(x):
        a, b = x.chunk(2, -1)
        return a * b.sigmoid()

    for n in (2, 4, 8, 6):
        yield f(torch.arange(float(3 * n)).reshape(3, n))


@case
def chunk_odd(jit):

    @jit
    def f(x):
        return [c * i for i, c in enumerate(x.chunk(3))]

    for n in (3, 4, 5, 7, 2, 1):
        yield f(torch.arange(float(n)))


@case
def split_symbolic(jit):

    @jit
    def f(x):
        return [c.sum() for c in x.split(4)]

    for n in (3, 4, 5, 8, 13):
        yield f(torch.arange(float(n)))


@case
def split_sections(jit):

    @jit
    def f(x):
        n = x.shape[0]
        a, b = x.split([n // 2, n - n // 2])
        return (a, b)

    for n in (3, 4, 5):
        yield f(torch.arange(float(n)))


@case
def qkv_heads(jit):

    @jit
    def f(x, heads):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, heads, c // 3 // heads).transpose(1, 2) for y in x.split(c // 3, dim=2))
        a = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(k.size(-1)))
        a = a.masked_fill(torch.tril(torch.ones(t, t)) == 0, float("-inf")).softmax(-1)
        return (a @ v).transpose(1, 2).contiguous().view(b, t, c // 3)

    for b, t, c, h in ((2, 3, 12, 2), (1, 5, 12, 2), (3, 1, 24, 4), (2, 4, 24, 4)):
        yield f(torch.arange(float(b * t * c)).reshape(b, t, c).sin(), h)


@case
def loop_over_tensor(jit):

    @jit
    def f(x):
        return [r * 2 for r in x]

    for n in (2, 3, 2, 1, 0):
        yield f(torch.ones(n, 2))


@case
def noncontiguous_kinds(jit):

    @jit
    def f(x):
        return (x * 2, x.sum(0), x.sum(1), x.t() @ x, x.reshape(-1))

    b = torch.arange(36.0).reshape(6, 6)
    for x in (
        b,
        b.t(),
        b[::2],
        b[:, ::2],
        b[1:, 1:],
        b[1].expand(6, 6),
        b.flip(0),
        b[:, 0:1].expand(6, 3),
        b[:1],
        b[:, :1],
        b[::2, ::3].t(),
    ):
        yield f(x)


@case
def zero_d(jit):

    @jit
    def f(x, y):
        return (x + y, x * 2, x.sum(), x.reshape(1), x.unsqueeze(0) + y)

    for y in (torch.tensor(2.0), torch.ones(3), torch.ones(1), torch.tensor(2, dtype=torch.int64)):
        yield f(torch.tensor(1.5), y)


@case
def rank_changes(jit):

    @jit
    def f(x):
        return (x.sum(-1) if x.dim() else x, x.ndim, tuple(x.shape), len(x.shape))

    for s in ((), (3,), (2, 3), (2, 2, 3), (1, 1)):
        yield f(torch.ones(s))


@case
def size_condition(jit):

    @jit
    def f(x):
        return x * 2 if x.shape[0] > 4 else x + 1

    for n in (2, 6, 3, 5, 4, 1, 0):
        yield f(torch.ones(n))


@case
def size_equal_sizes(jit):

    @jit
    def f(x, y):
        return x @ y if x.shape[1] == y.shape[0] else x @ y.t()

    yield f(torch.ones(2, 3), torch.ones(3, 4))
    yield f(torch.ones(2, 3), torch.ones(4, 3))
    yield f(torch.ones(5, 5), torch.ones(5, 5).triu())
    yield f(torch.ones(2, 7), torch.ones(7, 4))


@case
def broadcast_to_one(jit):

    @jit
    def f(x, y):
        return ((x + y).sum(), x * y)

    for a, b in (
        ((3, 1), (1, 4)),
        ((3, 4), (3, 4)),
        ((3, 4), (1, 4)),
        ((1, 1), (3, 4)),
        ((4,), (3, 4)),
        ((1,), (1,)),
        ((0, 4), (1, 4)),
    ):
        yield f(torch.ones(a), torch.arange(float(math.prod(b))).reshape(b))


@case
def broadcast_grad(jit):

    @jit
    def f(x, y):
        return ((x + y) * y).sum()

    for a, b in (((3, 1), (1, 4)), ((3, 4), (3, 4)), ((3, 4), (1, 4)), ((1, 1), (3, 4)), ((4,), (3, 4))):
        x, y = (torch.ones(a, requires_grad=True), torch.arange(float(math.prod(b))).reshape(b).requires_grad_())
        f(x, y).backward()
        yield x.grad
        yield y.grad


@case
def stack_of_loop(jit):

    @jit
    def f(x, n):
        return torch.stack([x * i for i in range(n)])

    for n in (1, 2, 4, 2):
        yield f(torch.ones(2), n)


@case
def rnn_loop(jit):
    w = torch.full((3, 3), 0.1, requires_grad=True)

    @jit
    def f(x):
        h = torch.zeros(x.shape[1], 3)
        for t in range(x.shape[0]):
            h = (x[t] + h @ w).tanh()
        return h.sum()

    for t, b in ((2, 4), (3, 4), (3, 2), (5, 1)):
        w.grad = None
        f(torch.ones(t, b, 3)).backward()
        yield w.grad


@case
def pad_to_multiple(jit):

    @jit
    def f(x):
        n = x.shape[0]
        p = (4 - n % 4) % 4
        return torch.cat([x, x.new_zeros(p)]).view(-1, 4)

    for n in (1, 2, 4, 5, 8, 7):
        yield f(torch.ones(n))


@case
def sliding_window(jit):

    @jit
    def f(x, w):
        return torch.stack([x[i : i + w].mean() for i in range(x.shape[0] - w + 1)])

    for n, w in ((4, 2), (5, 2), (5, 3)):
        yield f(torch.arange(float(n)), w)


@case
def negative_step_size(jit):

    @jit
    def f(x):
        return (x[: x.shape[0] - 1], x[1:] - x[:-1], x[-2:], x[: -x.shape[0] + 1])

    for n in (2, 3, 5):
        yield f(torch.arange(float(n)))


@case
def narrow_select_symbolic(jit):

    @jit
    def f(x, i):
        return (x.narrow(0, i, 2), x.select(0, i), x[i, i:], x[i : i + 1])

    for n, i in ((4, 0), (4, 1), (5, 3), (4, 2)):
        yield f(torch.arange(float(n * n)).reshape(n, n), i)


@case
def repeat_tile_expand(jit):

    @jit
    def f(x, k):
        return (
            x.repeat(k, 2),
            x.expand(k, x.shape[0]),
            x.unsqueeze(1).expand(-1, k).reshape(-1),
            x.repeat_interleave(2),
        )

    for n, k in ((2, 3), (3, 1), (4, 2)):
        yield f(torch.arange(float(n)), k)


@case
def symbolic_reshape_mismatch(jit):

    @jit
    def f(x):
        return x.view(2, -1)

    for n in (4, 3, 6, 5):
        yield attempt(f, torch.ones(n))


@case
def shape_tuple_key(jit):
    table = {(2, 3): 1.0, (3, 2): 2.0}

    @jit
    def f(x):
        return x * table[tuple(x.shape)]

    for s in ((2, 3), (3, 2), (2, 3)):
        yield f(torch.ones(s))


@case
def batch_loop_variants(jit):

    @jit
    def f(x, lr):
        return (x.softmax(-1).sum(0) * lr).sum() / x.shape[0]

    for n in range(1, 20):
        yield f(torch.arange(float(n * 3)).reshape(n, 3), 0.1 / n)


@case
def empty_list_structure(jit):

    @jit
    def f(xs):
        return (sum(xs, torch.zeros(2)), len(xs))

    for n in (0, 1, 3, 2):
        yield (f([torch.ones(2) for _ in range(n)]))


@case
def embedding_sizes(jit):
    w = torch.arange(12.0).reshape(6, 2).requires_grad_()

    @jit
    def f(i):
        return w[i].sum(0)

    for n in (1, 2, 5):
        w.grad = None
        f(torch.arange(n)).sum().backward()
        yield w.grad


@case
def counts_expanded_and_flattened(jit):
    @jit
    def f(n):
        first, second = torch.arange(n)[:, None].expand(n, 2), torch.arange(2)[None].expand(n, 2)
        pairs = torch.stack([first.reshape(-1), second.reshape(-1)], 1)
        return pairs, torch.cartesian_prod(torch.arange(n), torch.arange(2)), first.flatten() + 1, second.reshape(2, -1)

    for n in (2, 3, 5, 1, 0):
        yield attempt(f, n)
    g = jit(lambda x: torch.cartesian_prod(x, torch.arange(2.0)) * 2)
    for n in (2, 3, 5):
        yield g(torch.rand(n))


@case(versions=1)
def windows_of_sizes(jit):
    @jit
    def f(x):
        n = x.shape[0]
        return x * torch.hann_window(n), torch.kaiser_window(n), torch.signal.windows.cosine(n)

    for n in (2, 3, 5, 3, 40):
        yield f(torch.rand(n))


@case(versions=4)
def windows_of_numbers(jit):
    @jit
    def f(n, beta):
        made = torch.hamming_window(n, periodic=False), torch.bartlett_window(n), torch.blackman_window(n)
        windows = torch.signal.windows
        return *made, torch.kaiser_window(n, beta=beta), windows.gaussian(n, std=beta), windows.nuttall(n, sym=False)

    for n, beta in ((0, 2.0), (1, 2.0), (2, 3.0), (9, 0.5), (64, 12.0)):
        yield f(n, beta)
    for n in (-1, 2.5):
        attempt(f, n, 1.0)


@case(versions=2)
def labels_of_any_number_of_steps(jit):
    def f(scores, targets, lengths, counts):
        losses = F.ctc_loss(scores.log_softmax(2), targets, lengths, counts, reduction="none")
        (slope,) = torch.autograd.grad(losses.sum(), scores, create_graph=True)
        return losses, slope, slope.pow(2).sum()

    compiled = jit(f)
    for steps in (6, 4, 9, 5, 6, 1):
        scores = torch.arange(steps * 8.0).reshape(steps, 2, 4).sin().requires_grad_()
        if steps == 9:
            scores.data[2, 1, 3] = math.nan
        lengths = torch.tensor([steps, max(steps - 1, 1)])
        compiled(scores, torch.tensor([[1, 1], [3, 2]]), lengths, torch.tensor([2, steps % 3]))[2].backward()
        yield scores.grad
    for steps, longest in ((4, 5), (0, 0), (5, 5)):
        scores = torch.ones(steps, 2, 4)
        yield attempt(compiled, scores, torch.ones(2, 2).long(), torch.tensor([longest] * 2), torch.tensor([1, 1]))


@case(versions=4)
def coordinates_of_another_number(jit):
    @jit
    def f(x, places):
        return torch.gradient(x, spacing=(places,), dim=0)

    for rows, count in ((5, 5), (6, 6), (5, 2), (5, 1), (5, 3), (5, 0), (2, 2), (6, 5)):
        x = torch.arange(2.0 * rows).reshape(rows, 2).sin()
        yield attempt(f, x, torch.arange(float(count)) ** 2)


@case
def sizes_of_views_below_zero(jit):
    @jit
    def f(x, n):
        return x.split([n, 6 - n])

    @jit
    def g(x, n):
        return x[None].expand(n, 6, 2)

    x = torch.arange(12.0).reshape(6, 2)
    for n in (2, 3, -1, 7, 6, -2, 0):
        yield attempt(f, x, n), attempt(g, x, -3 if n == -1 else n)
