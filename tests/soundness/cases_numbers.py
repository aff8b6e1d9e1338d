"""Python numbers and dtypes that change between calls."""

from __future__ import annotations

import math

import eagerjit as torch
from tests.soundness.framework import attempt, case


@case
def float_step(jit):

    @jit
    def f(x, lr):
        return (x - lr * x, x * lr, x / lr, lr * 2, lr + 1)

    for i in range(5):
        yield f(torch.ones(3), 0.1 * 0.5**i)


@case
def float_specials(jit):

    @jit
    def f(x, v):
        return (x * v, x + v, x.pow(v))

    for v in (0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-45, 1e308, 0.5, 2.0, 3.0):
        yield f(torch.arange(3.0), v)


@case
def int_step(jit):

    @jit
    def f(x, step):
        return (x / (1 - 0.9**step), x * step, step + 1, x**step)

    for i in range(1, 6):
        yield f(torch.arange(3.0), i)


@case
def bool_argument(jit):

    @jit
    def f(x, flag):
        return x * 2 if flag else x + flag

    for b in (True, False, True, 1, 0, 1.0):
        yield f(torch.ones(2), b)


@case
def bool_tensor_arith(jit):

    @jit
    def f(x, b):
        return (x * b, x + b, x & b if x.dtype == torch.bool else x - 0)

    for b in (True, False):
        yield f(torch.ones(2), b)
        yield f(torch.ones(2, dtype=torch.int64), b)


@case
def int_float_same_position(jit):

    @jit
    def f(x, v):
        return x * v

    for v in (2, 2.0, True, 3, 3.5):
        yield f(torch.ones(2, dtype=torch.int64), v)
        yield f(torch.ones(2, dtype=torch.float16), v)


@case
def temperature(jit):

    @jit
    def f(logits, t):
        return (logits / t).softmax(-1)

    for t in (1.0, 0.7, 2, 0.01):
        yield f(torch.arange(5.0), t)


@case
def negative_ints(jit):

    @jit
    def f(x, k):
        return (x.roll(k, 0) if hasattr(x, "roll") else x, x[k], x.sum() // k, k % 3, k // 2, abs(k), -k)

    for k in (1, -1, 2, -2, 3, -3):
        yield f(torch.arange(5.0), k)


@case
def dtype_changes(jit):

    @jit
    def f(x, y):
        return (x + y, x * 2, x.mean() if x.is_floating_point() else x.sum())

    for a in (torch.float32, torch.float64, torch.int64, torch.bool, torch.float16, torch.bfloat16, torch.uint8):
        yield f(torch.ones(3).to(a), torch.ones(3, dtype=torch.float32))
        yield f(torch.ones(3).to(a), torch.ones((), dtype=torch.float64))


@case
def dtype_argument(jit):

    @jit
    def f(x, d):
        return (x.to(d), torch.zeros(2, dtype=d))

    for d in (torch.float32, torch.int64, torch.float64):
        yield f(torch.ones(2) * 1.5, d)


@case
def size_as_scalar(jit):

    @jit
    def f(x):
        return (x.sum() / x.shape[0], x * len(x), torch.full((2,), x.shape[0]), torch.tensor(x.shape[0]), x.numel())

    for n in (2, 3, 5, 1):
        yield f(torch.arange(float(n)))


@case
def int_returned(jit):

    @jit
    def f(x, k):
        return (x.shape[0] + k, k * 2.5, x.numel() // 2, (x.shape[0], "a", None))

    for n, k in ((2, 3), (5, -1)):
        yield f(torch.ones(n), k)


@case
def math_functions(jit):

    @jit
    def f(x, v):
        return (
            x * math.sqrt(v),
            x * math.exp(-v),
            x * math.log(v + 1),
            x * math.cos(v),
            x * round(v, 1),
            x * int(v),
            x * max(v, 1.0),
            x * min(v, 1),
        )

    for v in (1.0, 2.0, 0.25):
        yield f(torch.ones(2), v)


@case
def cosine_lr(jit):

    @jit
    def f(x, step, total):
        return x * (0.5 * (1 + math.cos(math.pi * step / total)))

    for i in range(4):
        yield f(torch.ones(2), i, 10)


@case
def f_string(jit):

    @jit
    def f(d, x):
        return d[f"w{x.shape[0]}"] * x

    for n in (2, 3, 2):
        yield f({"w2": torch.ones(2), "w3": torch.full((3,), 2.0)}, torch.ones(n))


@case
def interpolation_factor(jit):

    @jit
    def f(x, s):
        n = int(x.shape[0] * s)
        return (x[:1].expand(n), n)

    for n, s in ((4, 1.5), (6, 0.5), (4, 2.0)):
        yield f(torch.arange(float(n)), s)


@case
def large_ints(jit):

    @jit
    def f(x, k):
        return (x + k, k + 1)

    for k in (2**31, 2**53 + 1, -(2**62)):
        yield f(torch.zeros(1, dtype=torch.int64), k)


@case
def huge_python_int(jit):

    @jit
    def f(x, k):
        return (x * 2, k + 1)

    for k in (1, 2**70, 3):
        yield f(torch.zeros(1), k)


@case
def signs_of_nan(jit):

    @jit
    def f(x):
        nan = float("nan")
        undefined = x / 0
        full = torch.full((2,), nan, dtype=x.dtype)
        return undefined * nan, undefined + nan, nan - undefined, full / x, (x - x) / 0

    for dtype, as_integer in ((torch.float32, torch.int32), (torch.float64, torch.int64)):
        yield [result.view(as_integer) for result in f(torch.tensor([1.0, -1.0], dtype=dtype))]


@case
def ints_beyond_64_bits_beside_floats(jit):
    f = jit(lambda x, k: x * k)
    for k in (3, 2**62, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 2**70, 5):
        yield attempt(f, torch.ones(2), k)


@case
def weights_of_zero_leave_out_nan(jit):
    f = jit(lambda x, y, b: (torch.baddbmm(x[None], y[None], y[None], beta=b), torch.addmm(x, y, y, beta=b)))
    for weight in (1.0, 0.0, 2.0, 0.0):
        yield f(torch.full((3, 3), float("nan")), torch.ones(3, 3), weight)


@case
def products_of_complex_numbers_that_were_turned(jit):

    @jit
    def f(g, z):
        turned = (z + 1).transpose(-1, -2)
        return g @ turned, g @ turned.conj(), torch.einsum("bij,bkj->bik", g * 2, z * 2), (z + 1) @ g.mT

    for rows in (1, 2, 5, 1):
        g = torch.complex(torch.linspace(-1, 1, 48 * rows), torch.linspace(3, 2, 48 * rows)).reshape(6, rows, 8)
        z = torch.complex(torch.linspace(0, 1, 192).sin(), torch.linspace(1, 7, 192).cos()).reshape(6, 4, 8)
        g.requires_grad_()
        results = f(g, z)
        sum(r.abs().sum() for r in results).backward()
        yield results, g.grad
