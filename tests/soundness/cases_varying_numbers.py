"""Python numbers that differ from call to call: compared, raised to powers, given to `math`, kept in objects."""

from __future__ import annotations

import math
from types import SimpleNamespace

import eagerjit as torch
from tests.soundness.framework import case

RATE = 0.5


@case
def compared_floats(jit):

    @jit
    def f(x, a, b):
        out = x
        if a < b:
            out = out + 1
        if a <= b:
            out = out * 2
        if a == b:
            out = out - 3
        if a != 1.0:
            out = out / 2
        if b > 0.25 >= a:
            out = -out
        return out

    nan, inf = float("nan"), float("inf")
    for a, b in ((0.1, 0.2), (0.2, 0.1), (0.5, 0.5), (nan, 1.0), (1.0, nan), (nan, nan), (inf, inf)):
        yield f(torch.ones(3), a, b)
    for a, b in ((-0.0, 0.0), (1.0, 2), (1.0, True)):
        yield f(torch.ones(3), a, b)


@case
def compared_with_large_integers(jit):

    @jit
    def f(x, a, n):
        return x + (a < 2**53 + 1) + 2 * (a == n) + 4 * (a > n)

    for a, n in ((1.5, 1), (2.0**53, 2**53), (2.0**53, 2**53 + 1), (2.0**53 + 2, 2**53 + 1), (1e300, 3)):
        yield f(torch.zeros(2), a, n)


@case
def truth_of_floats(jit):

    @jit
    def f(x, a):
        return x + 1 if a else (x - 1 if not a * 0.0 else x)

    for a in (1.0, 0.0, -0.0, float("nan"), float("inf"), 1e-320):
        yield f(torch.ones(2), a)


@case
def decays(jit):

    @jit
    def f(x, step):
        rate = 0.1 * 0.9**step
        return x * rate, x / (1 - 0.95 ** (step + 1))

    for i in range(12):
        yield f(torch.arange(4.0), i)


@case
def cosine_schedule(jit):

    @jit
    def f(x, step, total):
        if step < 3:
            rate = step / 3
        else:
            rate = 0.5 * (1 + math.cos(math.pi * min(1.0, (step - 3) / (total - 3))))
        return x * max(rate, 0.05)

    for i in range(14):
        yield f(torch.arange(4.0), i, 10)


@case
def powers_without_a_float(jit):

    @jit
    def f(x, a, b):
        try:
            return x * abs(a**b)
        except ZeroDivisionError:
            return x - 1
        except OverflowError:
            return x - 2

    for a, b in ((2.0, 0.5), (3.0, 1.5), (-8.0, 1 / 3), (0.0, -1.0), (10.0, 400.0), (-2.0, 3.0), (0.0, 0.0)):
        yield f(torch.ones(2), a, b)


@case
def divided_by_zero(jit):

    @jit
    def f(x, a, b):
        return x * (a / b)

    for a, b in ((1.0, 2.0), (1.0, 0.5), (3.0, -4.0), (float("inf"), 2.0)):
        yield f(torch.ones(2), a, b)
    for b in (0.0, -0.0, 2.0):
        try:
            yield f(torch.ones(2), 1.0, b)
        except ZeroDivisionError as error:
            yield str(error)


@case
def remainders_of_floats(jit):

    @jit
    def f(x, a, b):
        return x + a % b, x * (a // b), x - abs(a)

    for a, b in ((5.5, 2.0), (-5.5, 2.0), (5.5, -2.0), (-0.0, 3.0), (1e18, 0.3), (7.0, 7.0)):
        yield f(torch.ones(2), a, b)


@case
def functions_of_math(jit):

    @jit
    def f(x, a):
        more = x * math.tanh(a), x * math.pow(a, 1.5), x + math.floor(a)
        return x * math.exp(-a), x + math.log1p(a), x - math.sqrt(a), *more

    for a in (0.1, 0.2, 0.35, 2.5, 9.0):
        yield f(torch.ones(2), a)
    for a in (-1.5, float("inf"), 0.5):
        try:
            yield f(torch.ones(2), a)
        except (ValueError, OverflowError) as error:
            yield type(error).__name__, str(error)


@case
def numbers_kept_in_objects(jit):
    settings = SimpleNamespace(temperature=2.0, steps=3, name="a")

    @jit
    def f(x):
        return x / settings.temperature + settings.steps if settings.name == "a" else x

    for i in range(7):
        settings.temperature *= 0.7
        settings.steps += 2
        settings.name = "b" if i == 5 else "a"
        yield f(torch.ones(3))


@case
def numbers_in_globals_and_cells(jit):
    global RATE
    scale = 1.0

    @jit
    def f(x):
        return x * RATE - scale

    for i in range(6):
        RATE = 0.5**i
        scale = scale + 1.5
        yield f(torch.ones(3))
    RATE = 0.5


@case(versions=8)
def numbers_read_where_a_line_decides(jit):
    scale, n_small = 1.0, 0

    @jit
    def count(x):
        nonlocal n_small
        n_small, y = (n_small, x * 2) if x.sum() > 1 else (n_small + 1, x)
        return y

    chosen = jit(lambda x: x if x.sum() > 1 else x * scale)
    attribute = jit(lambda x, settings: x if x.sum() > 1 else x * settings.rate)
    settings = SimpleNamespace(rate=0.5)
    for i in range(12):
        x = torch.tensor([1.0 if i % 3 == 0 else -1.0, 0.5])
        yield count(x), n_small, chosen(x), attribute(x, settings)
        scale *= 0.9
        settings.rate += 0.125


@case
def varying_numbers_and_gradients(jit):
    settings = SimpleNamespace(rate=1.0)
    w = torch.linspace(-1, 1, 5).requires_grad_()

    @jit
    def f(x, step):
        return (x * w.tanh() * settings.rate * 0.9**step).sum() if step % 3 else (w * settings.rate).exp().sum()

    for i in range(8):
        settings.rate *= 0.75
        x = torch.ones(5).requires_grad_()
        (g,) = torch.autograd.grad(f(x, i), w, create_graph=True)
        yield g
        if g.requires_grad:
            yield torch.autograd.grad((g * g).sum(), w)


@case
def a_gradient_after_numbers_changed(jit):
    settings = SimpleNamespace(rate=1.0)
    w = torch.linspace(-1, 1, 5).requires_grad_()

    @jit
    def f(x):
        return (x * w * w * settings.rate).sum()

    x = torch.ones(5)
    for i in range(4):
        settings.rate = 0.5**i
        out = f(x)
        out.backward()
        yield w.grad.clone(), out


@case
def a_counter_read_by_one_function_and_advanced_by_another(jit):
    state = SimpleNamespace(step=0)

    @jit
    def warm(x):
        return x * min(1.0, state.step / 4)

    @jit
    def advance(x):
        state.step += 1
        return x + state.step

    for _ in range(7):
        yield warm(torch.ones(2)), advance(torch.ones(2)), state.step


@case(versions=1)
def floats_and_integers_of_tensors(jit):
    losses, total = [], 0.0

    @jit
    def f(x, y):
        nonlocal total
        correct = int((x > 0).sum())
        losses.append(float(x.mean()))
        total += float(x.sum()) * int(x.shape[0])
        return correct / int((y > 0).sum()), correct / len(x), float(x.shape[0]) * x, float(x[0] > 1), total

    for n in range(3, 8):
        yield f(torch.arange(float(n)) - 1, torch.ones(n)), losses, total


@case(versions=4)
def integers_of_float_tensors(jit):
    f = jit(lambda x: (int(x[0] * 1.5), int(x[0] > 1), x + int(x[1])))
    for value in (1.0, 2.0, -2.0, 1.0):
        yield f(torch.full((2,), value))


@case(versions=2)
def powers_of_a_count_under_vmap(jit):
    f = jit(lambda x, step: torch.vmap(lambda row: (row * 0.9**step).sum())(x))
    for step in range(1, 7):
        yield f(torch.linspace(0.0, 1.0, 6).reshape(3, 2), step), f(torch.linspace(0.0, 1.0, 8).reshape(4, 2), step)


@case(versions=2)
def functions_of_numbers_under_nested_transforms(jit):
    def f(x, angle):
        inner = torch.func.grad(lambda row: (row**2 * math.cos(angle)).sum())
        rows = torch.vmap(inner)(x)
        pairs = torch.vmap(torch.vmap(lambda e: e * math.exp(angle) // 0.1))(x)
        return rows, pairs, torch.func.jacrev(lambda v: v.sum(0) * angle**3)(x)

    f = jit(f)
    for i in range(6):
        yield f(torch.linspace(0.0, 1.0, 6).reshape(3, 2), i / 5 + 0.1)


@case(versions=1)
def functions_of_a_tensors_number_under_vmap(jit):
    def f(x):
        scale = x.sum().item()
        return torch.vmap(lambda row: row / math.sqrt(scale) + scale**2)(x)

    f = jit(f)
    for n in (2, 3, 4):
        yield f(torch.linspace(0.5, 1.0, 2 * n).reshape(n, 2))


@case(versions=3)
def rounded_numbers_under_vmap(jit):
    f = jit(lambda x, s: torch.vmap(lambda row: row * math.floor(s * 2) + int(s))(x))
    for s in (0.4, 1.6, 2.2, 7.9, -3.5):
        yield f(torch.ones(3, 2), s)
