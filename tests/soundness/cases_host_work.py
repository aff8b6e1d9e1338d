"""What NumPy computes of arrays that are inputs, and writes to them, in compiled calls."""

from __future__ import annotations

import numpy as np

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case


def ones(*shape):
    return torch.ones(*shape)


@case
def arrays_of_other_dtypes_and_sizes_reduced(jit):
    f = jit(lambda x, a: x * float(a.mean()) + torch.from_numpy(np.cumsum(a)).sum())
    for k in (np.float32, np.float64, np.int64, np.uint8):
        for n in (1, 2, 3, 7):
            yield f(ones(2), np.arange(n).astype(k))


@case
def an_array_that_becomes_read_only_is_written(jit):
    def f(a):
        a[0] += 1
        return torch.from_numpy(a) * 2

    f = jit(f)
    a = np.zeros(3)
    yield f(a), a
    yield f(a), a
    b = a.view()
    b.flags.writeable = False
    yield attempt(f, b), b
    a.flags.writeable = False
    yield attempt(f, a), a


@case
def views_of_an_array_written_by_numpy(jit):
    def f(a):
        b = a[1:]
        b += 1
        c = a[::2]
        c *= 3
        return float(a.sum()), torch.from_numpy(b)

    f = jit(f)
    for n in (3, 4, 5):
        a = np.arange(float(n))
        yield f(a), a


@case
def parts_of_an_array_written_with_others(jit):
    def f(a):
        a[1:] = a[:-1]
        a[:2] += a[1:3]
        return torch.from_numpy(a) * 1

    f = jit(f)
    for n in (4, 5):
        a = np.arange(float(n))
        yield f(a), a


@case
def an_index_out_of_range_after_a_write(jit):
    def f(a, i):
        a[0] += 1
        try:
            v = float(a[i])
        except IndexError:
            v = -1.0
        return torch.from_numpy(a) * v

    f = jit(f)
    for i in (0, 1, 7, 2):
        a = np.arange(3.0)
        yield f(a, i), a


@case
def numpy_refuses_arrays_that_do_not_fit(jit):
    def f(x, a, b):
        return x + torch.from_numpy(np.concatenate([a, b]))

    f = jit(f)
    yield f(ones(4), np.ones(2), np.ones(2))
    yield attempt(f, ones(4), np.ones((2, 2)), np.ones(2))
    yield f(ones(4), np.ones(2), np.ones(2))


@case
def an_exception_of_numpy_is_caught(jit):
    def f(a):
        try:
            return torch.from_numpy(np.linalg.inv(a))
        except np.linalg.LinAlgError:
            return torch.zeros(1)

    f = jit(f)
    for m in (np.eye(2), np.zeros((2, 2)), np.eye(2) * 2):
        yield f(m)


@case
def numpy_warns_of_a_number(jit):
    f = jit(lambda x, k: x * np.sqrt(k))
    for k in (4.0, -1.0, 9.0):
        yield f(ones(2), np.float64(k))


@case
def numpy_warns_of_an_array(jit):
    f = jit(lambda x, a: x / torch.from_numpy(np.log(a)))
    for k in (4.0, 0.0, 9.0):
        yield f(ones(2), np.full(2, k))


@case
def numpy_errors_ignored_inside(jit):
    def f(x, a):
        with np.errstate(divide="ignore"):
            logarithms = np.log(a)
        return x + torch.from_numpy(logarithms)

    f = jit(f)
    for v in (1.0, 0.0, 2.0):
        yield f(ones(2), np.full(2, v))
    with np.errstate(divide="raise"):
        yield attempt(f, ones(2), np.full(2, 0.0))


@case
def numpy_errors_ignored_outside(jit):
    f = jit(lambda x, a: x + torch.from_numpy(np.log(a)))
    yield f(ones(2), np.full(2, 1.0))
    with np.errstate(divide="ignore"):
        yield attempt(f, ones(2), np.full(2, 0.0))
    with np.errstate(divide="raise"):
        yield attempt(f, ones(2), np.full(2, 0.0))
    yield f(ones(2), np.full(2, 0.0))


@case
def a_branch_on_what_numpy_finds(jit):
    f = jit(lambda x, a: x + 1 if np.any(a > 2) else x - 1)
    for v in (1.0, 3.0, 1.0, 5.0):
        yield f(ones(2), np.full(3, v))


@case
def writes_of_numpy_between_branches_on_tensors(jit):
    def f(x, a):
        if x.sum() > 0:
            a[0] = 1
        b = np.sort(a)
        if x.max() > 2:
            a[1] = 5
        return torch.from_numpy(b) + torch.from_numpy(a) + x

    f = jit(f)
    for k in (-1.0, 1.0, 3.0, -2.0, 1.0):
        a = np.array([3.0, 2.0, 1.0])
        yield f(torch.full((3,), k), a), a


@case
def gradients_of_what_numpy_scales(jit):
    w = torch.ones(3, requires_grad=True)

    def f(a):
        s = a.std() + 1
        loss = (w * torch.from_numpy((a - a.mean()) / s).float()).sum() * float(s)
        loss.backward()
        return loss

    f = jit(f)
    for k in range(3):
        yield f(np.arange(3.0) * (k + 1)), w.grad


@case
def second_gradients_of_what_numpy_computes(jit):
    w = torch.ones(3, requires_grad=True)

    def f(a):
        s = a.std() + 1
        return (w * torch.from_numpy(np.exp(a)).float()).pow(2).sum() * float(s)

    f = jit(f)
    for k in range(3):
        w.grad = None
        f(np.arange(3.0) * (k + 1)).backward()
        yield w.grad
        (g,) = torch.autograd.grad(f(np.arange(3.0) * (k + 1)), w, create_graph=True)
        g.sum().backward()
        yield w.grad


@case
def an_array_with_a_gradient_is_written_by_numpy(jit):
    w = torch.ones(3, requires_grad=True)

    def f(a):
        t = torch.from_numpy(a)
        y = (w * t).sum()
        a[0] = 50
        return y

    f = jit(f)
    for n in range(3):
        w.grad = None
        a = np.arange(3.0, dtype=np.float32) + n
        y = f(a)
        y.backward()
        yield y, w.grad, a


@case
def an_array_is_written_before_the_gradient(jit):
    w = torch.ones(3, requires_grad=True)

    def f(a):
        return (w * torch.from_numpy(np.exp(a))).sum()

    f = jit(f)
    for n in range(3):
        w.grad = None
        a = np.arange(3.0, dtype=np.float32) + n
        y = f(a)
        a[:] = 0
        y.backward()
        yield y, w.grad, a


@case
def what_numpy_computes_is_returned(jit):
    def f(a, x):
        b = np.exp(a)
        return b, torch.from_numpy(b).add_(x), b.sum(), a, b

    f = jit(f)
    for k in range(3):
        b, t, s, _a, b2 = f(np.arange(3.0) + k, ones(3))
        t.mul_(2)
        yield b, t, s, b is b2, type(s)
        b[0] = 7
        yield t


@case
def what_numpy_computes_is_kept(jit):
    log = []

    def f(x, a):
        log.append(np.sum(a))
        log.append(np.sqrt(a))
        log.append(float(a[0]))
        return x

    f = jit(f)
    for v in (1.0, 2.0):
        yield f(ones(2), np.full(2, v)), log, [type(q) for q in log]


@case
def what_numpy_computes_is_printed(jit):
    def f(x, a):
        print(np.sum(a), a.mean())
        return x * float(a.max())

    f = jit(f)
    for v in (1.0, 2.0):
        yield f(ones(2), np.full(2, v))


@case
def a_history_in_an_array(jit):
    hist = np.zeros(10)
    st = {"i": 0}

    def f(x):
        loss = (x * x).sum()
        hist[st["i"]] = loss.item()
        st["i"] += 1
        return loss

    f = jit(f)
    for k in range(5):
        yield f(torch.full((2,), float(k))), hist, st


@case
def an_array_of_an_object_changed_and_replaced(jit):
    class Holder:
        pass

    holder = Holder()
    holder.counts = np.zeros(3)

    def f(x):
        holder.counts += 1
        holder.counts[0] = 9
        np.maximum(holder.counts, 2, out=holder.counts)
        return x * float(holder.counts.sum())

    f = jit(f)
    for _ in range(3):
        yield f(ones(2)), holder.counts
    holder.counts = np.ones(4)
    yield f(ones(2)), holder.counts


@case
def two_arrays_written_from_each_other(jit):
    a = np.arange(4.0)
    b = np.zeros(4)

    def f(x):
        b[:] = a
        a[:] = np.roll(a, 1)
        return x + torch.from_numpy(b)

    f = jit(f)
    for _ in range(3):
        yield f(ones(4)), a, b


@case(versions=2)
def an_image_normalized_by_numpy(jit):
    def f(img):
        x = img.astype(np.float32) / 255
        x = (x - x.mean(axis=(0, 1))) / x.std(axis=(0, 1))
        return torch.from_numpy(x.transpose(2, 0, 1).copy())

    f = jit(f)
    for n in (4, 5):
        yield f(np.arange(n * n * 3, dtype=np.uint8).reshape(n, n, 3))


@case(versions=2)
def an_array_made_for_a_size_and_written(jit):
    def f(y, x):
        out = np.zeros((len(y), 4), np.float32)
        out[np.arange(len(y)), y] = 1
        return x * torch.from_numpy(out)

    f = jit(f)
    for n in (3, 4):
        yield f(np.arange(n) % 4, ones(n, 4))


@case
def rows_of_an_array(jit):
    def f(a, x):
        for r in a:
            x = x + torch.from_numpy(r)
        return x * sum(float(v) for v in a[0])

    f = jit(f)
    for n in (2, 3):
        yield f(np.arange(n * 3.0).reshape(n, 3), ones(3))


@case
def positions_and_lists_of_numpy(jit):
    def f(a, x):
        i = int(np.argmax(a))
        n = int(a.max())
        return x[i], x[:n], list(a.tolist()), a.dtype, np.unique(a)

    f = jit(f)
    for v in ([1, 2, 3], [3, 1, 2], [2, 2, 1]):
        yield f(np.array(v), torch.arange(5.0))


@case
def arrays_of_arrays(jit):
    def f(a, x):
        b = np.asarray(a)
        c = np.array(a)
        b += 1
        c += 1
        d = np.asarray(a, dtype=np.float32)
        d[0] = 9
        return torch.from_numpy(b), torch.from_numpy(c) * 1, torch.from_numpy(d), b is a

    f = jit(f)
    for v in (1.0, 2.0):
        a = np.full(3, v)
        yield f(a, ones(3)), a


@case
def masks_made_and_written_by_numpy(jit):
    def f(x, a, k):
        m = np.where(a > k, a, 0.0)
        m[m == 0] = -1
        i = np.nonzero(m > 0)[0]
        return x[torch.from_numpy(i)], torch.from_numpy(m), len(i)

    f = jit(f)
    for k in (0.5, 1.5, 2.5, 10.0, 0.0):
        yield f(torch.arange(4.0), np.arange(4.0), k)


@case
def an_array_and_a_captured_tensor_added(jit):
    w = torch.ones(3)

    def f(a):
        a += w
        return torch.from_numpy(a) * 2

    f = jit(f)
    for k in (0.5, 1.5):
        a = np.full(3, k, np.float32)
        yield f(a), a
        w.add_(1)


@case(outcome=FELL_BACK)
def numpy_gives_a_view_and_a_tensor_writes(jit):
    def f(a, x):
        b = np.ravel(a)
        t = torch.from_numpy(a)
        t.add_(x)
        return torch.from_numpy(b) * 1, b.sum()

    f = jit(f)
    for _ in range(3):
        a = np.ones(3, np.float32)
        yield f(a, ones(3))
        yield a


@case(outcome=FELL_BACK)
def arrays_that_share_memory_are_returned(jit):
    def f(x):
        a = np.zeros(3)
        return a, a[1:], x + 1

    f = jit(f)
    for _ in range(2):
        a, b, _ = f(ones(2))
        b[0] = 5
        yield a, b


@case(outcome=FELL_BACK)
def an_array_and_its_tensor_are_returned(jit):
    def f(x):
        a = np.zeros(3)
        return a, torch.from_numpy(a), x + 1

    f = jit(f)
    for _ in range(2):
        a, b, _ = f(ones(2))
        b[0] = 5
        yield a, b


@case(outcome=FELL_BACK)
def a_slot_gets_an_array_that_is_written(jit):
    a = np.zeros(3)
    h = {"a": np.ones(3)}

    def f(x):
        a[0] += 1
        s = float(np.sum(h["a"]))
        return x * s

    f = jit(f)
    yield f(ones(2)), a
    h["a"][1] = 5
    yield f(ones(2)), a
    h["a"] = a
    yield f(ones(2)), a
    h["a"][1] = 4
    yield f(ones(2)), a


@case(outcome=FELL_BACK)
def numpy_reads_what_another_argument_writes(jit):
    def f(x, a, b):
        a[0] += 1
        return x * float(b.sum())

    f = jit(f)
    for _ in range(2):
        yield f(ones(2), np.zeros(2), np.ones(2))
        b = np.ones(3)
        yield f(ones(2), b, b), b
        yield f(ones(2), b[:2], b[1:]), b


@case(outcome=FELL_BACK)
def numpy_reads_what_a_tensor_writes(jit):
    def f(x, b):
        x.add_(1)
        return x * float(b.sum())

    f = jit(f)
    for _ in range(2):
        yield f(ones(2), np.ones(2))
        b = np.ones(3, np.float32)
        yield f(torch.from_numpy(b), b), b


@case(outcome=FELL_BACK)
def a_constant_array_is_written_as_an_argument(jit):
    T = np.zeros(3, np.float32)

    def f(b):
        torch.from_numpy(b).add_(1)
        return torch.ones(2) * float(T[0])

    f = jit(f)
    yield f(np.ones(3, np.float32)), T
    yield f(T), T
    yield f(T), T


@case(outcome=FELL_BACK)
def a_constant_array_is_written_in_the_first_call(jit):
    T = np.zeros(3, np.float32)

    def f(b):
        b.add_(1)
        return torch.ones(2) * float(T.sum())

    f = jit(f)
    yield f(torch.from_numpy(T)), T
    yield f(torch.from_numpy(T)), T


@case
def custom_function_of_numpy_returned(jit):

    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.from_numpy(np.sin(x.detach().numpy()))

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x.cos()

    f = jit(lambda x: Sine.apply(x))
    for _i in range(3):
        x = torch.arange(3.0, requires_grad=True)
        y = f(x)
        y.sum().backward()
        yield y.detach()
        yield x.grad


@case(outcome=FELL_BACK)
def custom_function_whose_gradient_is_numpy(jit):

    class Spectrum(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.as_tensor(np.abs(np.fft.rfft2(x.detach().numpy())), dtype=x.dtype)

        @staticmethod
        def backward(ctx, g):
            return torch.as_tensor(np.fft.irfft2(g.numpy()), dtype=g.dtype)

    f = jit(lambda x: Spectrum.apply(x) * 2)
    for _i in range(3):
        x = torch.arange(64.0).reshape(8, 8).requires_grad_()
        f(x).sum().backward()
        yield x.grad


@case(outcome=FELL_BACK)
def custom_function_that_returns_what_is_outside(jit):

    class Known(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return constant

        @staticmethod
        def backward(ctx, g):
            return g * 3

    f = jit(lambda x: Known.apply(x) * 2)
    for _i in range(3):
        constant = torch.ones(3)
        x = torch.arange(3.0, requires_grad=True)
        f(x).sum().backward()
        yield x.grad
        yield constant.requires_grad
