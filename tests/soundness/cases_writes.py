"""In-place operations on arguments, captured tensors and results."""

from __future__ import annotations

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case


@case
def add_to_argument(jit):

    @jit
    def f(x, y):
        x.add_(y)
        return x * 2

    for n in (3, 3, 5, 1, 0):
        x, y = (torch.ones(n), torch.arange(float(n)))
        yield f(x, y)
        yield x
        yield x._version


@case
def out_argument(jit):

    @jit
    def f(a, b, o):
        torch.add(a, b, out=o)
        return o.sum()

    for n in (3, 4, 1):
        o = torch.zeros(n)
        yield f(torch.ones(n), torch.arange(float(n)), o)
        yield o
        yield o._version


@case(outcome=FELL_BACK)
def out_resized(jit):

    @jit
    def f(a, o):
        return torch.mul(a, 2, out=o)

    for n in (3, 4):
        o = torch.zeros(0)
        r = f(torch.ones(n), o)
        yield (r is o)
        yield o


@case
def iadd_type_refused(jit):

    @jit
    def f(x, y):
        x += y
        return x

    yield f(torch.zeros(2), torch.ones(2))
    yield attempt(lambda: f(torch.zeros(2, dtype=torch.int64), torch.ones(2)))
    yield f(torch.zeros(2), torch.ones(2, dtype=torch.int64))


@case
def expanded_write_refused(jit):

    @jit
    def f(x):
        x.add_(1)
        return x

    yield f(torch.zeros(3))
    yield attempt(lambda: f(torch.zeros(1).expand(3)))
    x = torch.zeros(3)
    yield f(x)
    yield x


@case
def expanded_inside_refused(jit):

    @jit
    def f(x):
        y = x.expand(3, 3) if x.ndim == 1 else x
        y.add_(1)
        return y

    for shape in ((3, 3), (3,), (3, 3), (1, 3)):
        yield attempt(f, torch.zeros(shape))


@case
def split_written(jit):

    @jit
    def f(x):
        a, b = x.split(2)[:2]
        a.add_(1)
        b.mul_(3)
        return x

    for n in (4, 5, 6, 4):
        yield f(torch.ones(n))


@case
def chunk_written(jit):

    @jit
    def f(x):
        a, b = x.chunk(2)
        a.add_(1)
        b.mul_(3)
        return a.sum() + b.sum()

    for n in (4, 5, 6, 7):
        x = torch.ones(n, 2)
        yield f(x)
        yield x


@case
def unbind_written(jit):

    @jit
    def f(x):
        for i, r in enumerate(x.unbind(0)):
            r.add_(i)
        return x

    for n in (2, 3):
        yield f(torch.ones(n, 2))


@case
def iterate_rows_written(jit):

    @jit
    def f(x):
        for i, r in enumerate(x):
            r.mul_(i)
        return x

    for n in (2, 3):
        yield f(torch.ones(n, 2))


@case
def leaf_inplace_refused(jit):

    @jit
    def f(w):
        w.add_(1)
        return w

    for needs_gradient in (False, True, False, True):
        w = torch.ones(2, requires_grad=needs_gradient)
        yield attempt(f, w)
        yield w


@case
def leaf_inplace_no_grad(jit):

    @jit
    def f(w, g):
        with torch.no_grad():
            w.sub_(g, alpha=0.5)
        return (w**2).sum()

    w = torch.ones(2, requires_grad=True)
    for _i in range(3):
        f(w, torch.ones(2)).backward()
        yield w
        yield w.grad
        yield w._version


@case
def data_write(jit):
    w = torch.ones(2, requires_grad=True)

    @jit
    def f(x):
        w.data.add_(x)
        return (w * x).sum()

    for i in range(3):
        f(torch.full((2,), 1.0 + i)).backward()
        yield w
        yield w.grad
        yield w._version


@case(outcome=FELL_BACK)
def saved_overwritten_inside(jit):

    @jit
    def f(w):
        y = w.exp()
        z = y * 2
        y.add_(1)
        return z.sum()

    for _i in range(2):
        w = torch.ones(2, requires_grad=True)

        loss = f(w)
        yield attempt(loss.backward)


@case
def saved_overwritten_between(jit):

    @jit
    def f(w, x):
        return (w * x).sum()

    for _i in range(3):
        w, x = (torch.ones(2, requires_grad=True), torch.ones(2))
        loss = f(w, x)
        x.add_(1)
        yield attempt(loss.backward)


@case
def jit_writes_saved(jit):

    @jit
    def f(x):
        x.add_(1)
        return x.sum()

    for _i in range(3):
        w, x = (torch.ones(2, requires_grad=True), torch.ones(2))
        loss = (w * x).sum()
        f(x)
        try:
            loss.backward()
        except RuntimeError as e:
            yield ("modified by an inplace operation" in str(e))
        else:
            yield False


@case
def swap_contents(jit):
    a, b = (torch.zeros(2), torch.ones(2))

    @jit
    def f():
        t = a.clone()
        a.copy_(b)
        b.copy_(t)

    for _i in range(3):
        f()
        yield a
        yield b


@case
def written_by_itself_shifted(jit):

    @jit
    def f(x):
        x[1:] = x[:-1].clone()
        return x

    for n in (4, 5):
        yield f(torch.arange(float(n)))


@case
def copy_dtype(jit):

    @jit
    def f(x, y):
        x.copy_(y)
        return x

    for d in (torch.float32, torch.int64, torch.float64):
        yield f(torch.zeros(3), torch.arange(3).to(d) + 1)


@case
def clamp_relu_inplace(jit):

    @jit
    def f(x):
        x.clamp_(min=-1)
        x.relu_()
        x.sqrt_()
        x.neg_()
        return x

    for n in (3, 4):
        yield f(torch.arange(float(n)) - 1)


@case
def result_versions(jit):

    @jit
    def f(x):
        y = x * 2
        y.add_(1)
        y[0] = 3
        return (y, y[1:])

    for n in (2, 3):
        a, b = f(torch.ones(n))
        yield a._version
        yield b._version


@case(outcome=FELL_BACK)
def version_read_inside(jit):

    @jit
    def f(x):
        x.add_(1)
        return x._version

    x = torch.ones(2)
    for _i in range(3):
        yield f(x)


@case(outcome=FELL_BACK)
def requires_grad_flag_inside(jit):

    @jit
    def f(x):
        return (x.requires_grad, (x * 2).requires_grad, x.is_leaf, x.grad_fn is None)

    for r in (True, False, True):
        x = torch.ones(2, requires_grad=r)
        yield f(x)
        yield f(x * 1)


@case(outcome=FELL_BACK)
def outside_buffer_gets_history(jit):

    @jit
    def f(buf, w):
        buf.copy_(w * 2)
        return (buf * w).sum()

    for _i in range(2):
        w, b = (torch.ones(3, requires_grad=True), torch.zeros(3))
        f(b, w).backward()
        yield w.grad
        yield b.requires_grad


@case
def detach_inplace(jit):

    @jit
    def f(w):
        y = w * 2
        y.detach_()
        return y * w

    for _i in range(2):
        w = torch.ones(3, requires_grad=True)
        f(w).sum().backward()
        yield w.grad


@case
def zero_dim_scalar_state(jit):
    s = torch.zeros(())

    @jit
    def f(x):
        s.mul_(0.9).add_(x.mean())
        return x - s

    for n in (2, 3):
        yield f(torch.arange(float(n)))
        yield s


@case
def set_inside_no_grad_buffer(jit):
    m = torch.nn.Module()
    m.register_buffer("ema", torch.zeros(2))

    @jit
    def f(x):
        m.ema.lerp_(x, 0.1)
        return m.ema * 2

    for i in range(3):
        yield f(torch.ones(2) * i)
        yield m.ema
