"""Python control flow on values, exceptions, and functions that call functions."""

from __future__ import annotations

import contextlib
import functools

import eagerjit as torch
from tests.soundness.framework import FELL_BACK, attempt, case


def ones(*shape):
    return torch.ones(*shape)


def full(value, n=2):
    return torch.full((n,), float(value))


@case
def a_branch_on_a_sum(jit):
    f = jit(lambda x: x + 1 if x.sum() > 0 else x - 1)
    for v in (1, -1, 2, -2, 0, float("nan")):
        yield f(full(v))


@case
def a_while_loop_on_a_value(jit):
    @jit
    def f(x):
        steps = 0
        while x.sum() < 20:
            x = x * 2
            steps += 1
        return x, steps

    for v in (1, 3, 50, 1):
        yield f(full(v))


@case(versions=1)
def an_item_used_as_a_number(jit):
    f = jit(lambda x: x * x.sum().item())
    for v in (1, 2, -3):
        yield f(full(v))


@case
def int_float_and_bool_of_a_tensor(jit):
    f = jit(lambda x: (x * int(x[0]), x + float(x[1]), bool(x[0] > 1)))
    for v in (1.5, 2.5, -3.5, 1.5):
        yield f(full(v))


@case
def a_tensor_as_an_index(jit):
    f = jit(lambda x, i: [10, 20, 30][i] * x)
    for i in (0, 2, 1, 0):
        yield f(ones(2), torch.tensor(i))
    yield attempt(f, ones(2), torch.tensor(3))


@case
def a_range_of_a_tensor(jit):
    @jit
    def f(x, n):
        for _ in range(int(n)):
            x = x + 1
        return x

    for n in (2, 0, 3, 2):
        yield f(ones(2), torch.tensor(n))


@case
def lists_of_a_tensor(jit):
    f = jit(lambda x: [v * 2 for v in x.tolist()])
    for v in (1, 2, 1):
        yield f(full(v))


@case
def iteration_over_a_tensor(jit):
    @jit
    def f(x):
        total = torch.zeros(2)
        for row in x:
            total = total * 0.5 + row
        return total

    for n in (2, 3, 2, 0):
        yield f(torch.arange(2.0 * n).reshape(n, 2))


@case
def unpacking_a_tensor(jit):
    @jit
    def f(x):
        a, b = x
        return a - b, b

    yield f(torch.arange(4.0).reshape(2, 2))
    yield attempt(f, torch.arange(6.0).reshape(3, 2))
    yield f(torch.arange(6.0).reshape(2, 3))


@case
def chained_comparisons_of_values(jit):
    f = jit(lambda x: x * 2 if 0 < x.sum() < 10 else x)
    for v in (1, -1, 20, 2):
        yield f(full(v))


@case
def membership_of_values(jit):
    @jit
    def f(x):
        return (x + 1 if 3.0 in x else x), (x.max().item() in (1.0, 2.0))

    for v in (3, 2, 1, 3):
        yield f(full(v))


@case
def and_or_and_not_of_values(jit):
    f = jit(lambda x, y: x if (x.sum() > 0 and not y.sum() > 0) or y.max() > 10 else y)
    for a, b in ((1, -1), (1, 1), (-1, 20), (-1, -1)):
        yield f(full(a), full(b))


@case
def asserts_on_values(jit):
    @jit
    def f(x):
        assert (x >= 0).all(), "negative input"
        return x.sqrt()

    for v in (1, 4, -1, 9):
        yield attempt(f, full(v))


@case
def match_statements(jit):
    @jit
    def f(x, command):
        match command:
            case ("scale", k):
                return x * k
            case {"shift": k}:
                return x + k
            case str():
                return x
            case _:
                return -x

    for command in (("scale", 2.0), {"shift": 3.0}, "none", None, ("scale", 4.0)):
        yield f(ones(2), command)


@case
def early_returns_breaks_and_else(jit):
    @jit
    def f(x, limit):
        for i in range(5):
            if i == 3 and limit < 3:
                continue
            x = x + i
            if x.sum() > limit:
                break
        else:
            return x * 100
        if limit > 20:
            return x * 2
        return x

    for limit in (1, 5, 12, 25, 1000):
        yield f(ones(2), limit)


@case
def try_except_else_and_finally(jit):
    @jit
    def f(x, y):
        steps = []
        try:
            z = x + y
        except RuntimeError as error:
            steps.append(type(error).__name__)
            z = x * 0
        else:
            steps.append("fine")
        finally:
            steps.append("done")
        return z, steps

    yield f(ones(2), ones(2))
    yield f(ones(2), ones(3))
    yield f(ones(4), ones(4))


@case
def an_exception_raised_by_the_user(jit):
    @jit
    def f(x):
        if x.shape[0] > 2:
            raise KeyError("too long")
        return x + 1

    for n in (2, 3, 2, 4):
        yield attempt(f, ones(n))


@case
def an_exception_raised_on_a_value(jit):
    @jit
    def f(x):
        y = x * 2
        if y.sum() > 10:
            raise ValueError(f"sum is {y.sum().item()}")
        return y

    for v in (1, 5, 2, 7):
        yield attempt(f, full(v))


@case
def an_exception_chained_and_raised_again(jit):
    @jit
    def f(x, y):
        try:
            return x @ y
        except RuntimeError as error:
            if x.shape[0] == 3:
                raise
            raise TypeError("bad shapes") from error

    yield attempt(f, ones(2, 3), ones(3, 2))
    yield attempt(f, ones(3, 3), ones(2, 2))
    error = attempt(f, ones(2, 3), ones(2, 2))
    yield error, error.__cause__


@case
def an_exception_of_the_library(jit):
    f = jit(lambda x, y: x @ y)
    yield f(ones(2, 3), ones(3, 2))
    yield attempt(f, ones(2, 3), ones(2, 2))
    yield f(ones(4, 3), ones(3, 2))


@case
def an_index_out_of_range(jit):
    f = jit(lambda x, i: x[i] * 2)
    yield f(ones(3), torch.tensor([0, 2]))
    yield attempt(f, ones(3), torch.tensor([0, 3]))
    yield f(ones(3), torch.tensor([1]))


@case
def integers_divided_by_zero(jit):
    f = jit(lambda x, y: x // y)
    yield f(torch.tensor([7]), torch.tensor([2]))
    yield attempt(f, torch.tensor([7]), torch.tensor([0]))
    yield f(torch.tensor([9]), torch.tensor([2]))
    g = jit(lambda x, y: torch.div(x, y, rounding_mode="trunc") % y)
    yield attempt(g, torch.tensor([7]), torch.tensor([0]))


@case
def python_numbers_divided_by_zero(jit):
    f = jit(lambda x, k: x * (1.0 / k))
    for k in (2.0, 4.0, 0.0, 5.0):
        yield attempt(f, ones(2), k)


@case(outcome=FELL_BACK)
def an_exception_that_hides_what_cannot_be_traced(jit):
    @jit
    def f(x):
        try:
            value = float(x.data_ptr() > 0)
        except Exception:
            value = 5.0
        return x + value

    for v in (0, 1, 2):
        yield f(full(v))


@case
def a_bare_except(jit):
    @jit
    def f(x):
        try:
            return x.reshape(3, 3)
        except:  # noqa: E722
            return x

    for n in (4, 9, 4):
        yield f(ones(n))


@case
def with_statements_of_the_library(jit):
    w = torch.ones(2, requires_grad=True)

    @jit
    def f(x):
        with torch.no_grad():
            y = w * x
        z = w * x
        with torch.enable_grad():
            u = w + y
        return y, z, u

    yield f(ones(2))
    with torch.no_grad():
        yield f(ones(2))
    yield f(ones(2))


@case
def a_context_manager_of_ones_own(jit):
    class Doubled:
        def __init__(self, scale):
            self.scale = scale

        def __enter__(self):
            return self.scale * 2

        def __exit__(self, *exc):
            return exc[0] is ValueError

    @jit
    def f(x, k):
        with Doubled(k) as scale:
            x = x * scale
            if x.shape[0] > 2:
                raise ValueError
            x = x + 1
        return x

    for n, k in ((2, 1.0), (3, 2.0), (2, 3.0)):
        yield f(ones(n), k)


@case
def a_context_manager_made_of_a_generator(jit):
    @contextlib.contextmanager
    def scaled(x):
        yield x * 2

    @jit
    def f(x):
        with scaled(x) as y:
            return y + 1

    for n in (2, 3):
        yield f(ones(n))


@case
def a_context_manager_that_changes_a_setting(jit):
    class Settings:
        scale = 1.0

    @contextlib.contextmanager
    def scaled(value):
        before = Settings.scale
        Settings.scale = value
        try:
            yield
        finally:
            Settings.scale = before

    @jit
    def f(x):
        with scaled(3.0):
            x = x * Settings.scale
        return x + Settings.scale

    for Settings.scale in (1.0, 2.0, 1.0):
        yield f(ones(2)), Settings.scale


@case
def recursion(jit):
    @jit
    def f(x, n):
        return x if n == 0 else f(x * 2, n - 1)

    for n in (3, 0, 5):
        yield f(ones(1), n)


@case
def mutual_recursion_on_structures(jit):
    def total(tree):
        return sum(map(total, tree)) if isinstance(tree, (list, tuple)) else tree.sum()

    f = jit(total)
    yield f([ones(2), [ones(3), (ones(1),)]])
    yield f([[ones(2)]])


@case
def nested_jit(jit):
    inner = jit(lambda x: x * 3)
    outer = jit(lambda x: inner(x) + inner(x + 1))
    x = torch.ones(2, requires_grad=True)
    for _ in range(2):
        x.grad = None
        outer(x).sum().backward()
        yield x.grad
    inner(ones(2))


@case
def a_function_jitted_inside(jit):
    @jit
    def f(x):
        g = torch.jit(lambda y: y * 2)
        return g(x) + 1

    for n in (2, 3):
        yield f(ones(n))


@case
def generators_and_comprehensions_inside(jit):
    @jit
    def f(x, n):
        def powers():
            y = x
            for _ in range(n):
                yield y
                y = y * 2

        return sum(powers()), [p.sum() for p in powers() if p.shape[0] > 1], {i: p for i, p in enumerate(powers())}

    for n in (2, 3, 2):
        yield f(ones(2), n)


@case
def closures_made_inside(jit):
    @jit
    def f(x, k):
        functions = [lambda y, i=i: y * i + k for i in range(3)]
        return functools.reduce(lambda y, g: g(y), functions, x)

    for k in (1.0, 2.0):
        yield f(ones(2), k)


@case
def decorated_helpers(jit):
    def twice(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(function(*args, **kwargs))

        return wrapper

    @twice
    def step(x):
        return x * 2 + 1

    f = jit(lambda x: step(x))
    g = jit(step)
    for n in (2, 3):
        yield f(ones(n)), g(ones(n))


@case
def loops_over_a_number(jit):
    @jit
    def f(x, count):
        for _ in range(count):
            x = x * 2
        return x

    for n in (3, 0, 1, 3, 5):
        yield f(ones(1), n)


@case
def decisions_on_numbers(jit):
    f = jit(lambda x, k: x + 1 if k > 2 else x * 10)
    for k in (3, 1, 5, 2, 0.75, 2.5):
        yield f(ones(1), k)


@case
def decisions_on_sizes(jit):
    f = jit(lambda x: x.sum() if x.shape[0] > 3 else x.sum() * 100)
    for n in (5, 3, 4, 2, 1, 0):
        yield f(ones(n))


@case
def types_of_numbers(jit):
    f = jit(lambda x, y: (x + (y if isinstance(y, float) else 10), type(y) is float, type(y).__name__))
    for y in (1.0, 1, True, 2.0, 3):
        yield f(ones(1), y)


@case
def types_of_sizes(jit):
    f = jit(lambda x: x * (2 if type(x.shape[0]) is int else 3) + (1 if isinstance(x.shape, tuple) else 0))
    for n in (1, 2, 3):
        yield f(ones(n))


@case
def numbers_formatted_rounded_and_hashed(jit):
    @jit
    def f(x, k, n):
        table = {1: 10.0, 2: 20.0}
        return x * round(k, 1) + table.get(n, 0.0), f"{k:.2f}/{n:03d}", str(n), [n] * n, divmod(n, 2), max(n, 2)

    for k, n in ((0.26, 1), (0.31, 2), (0.31, 3), (0.26, 1)):
        yield f(ones(2), k, n)


@case
def arithmetic_on_numbers(jit):
    f = jit(lambda x, a, b: (x * (a**2 - b / 3 + a // b + a % b), a + b, a - b * 2, -a, abs(b), a < b))
    for a, b in ((3.0, 2.0), (5.0, -2.0), (7, 2), (-7, 3), (2.5, 4)):
        yield f(ones(2), a, b)


@case
def bits_of_numbers(jit):
    f = jit(lambda x, n: (x * (n & 3), n | 8, n ^ 1, n << 2, n >> 1, ~n))
    for n in (5, 6, 12):
        yield f(ones(2), n)


@case
def masks_and_where(jit):
    f = jit(lambda x: (torch.where(x > 0, x, -x), x.masked_fill(x < 0, 0.0), (x > 0).sum().item()))
    for v in (1, -1):
        yield f(torch.tensor([1.0, -2.0, 3.0]) * v)


@case
def a_training_loop_inside(jit):
    w = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)

    @jit
    def fit(x, steps):
        losses = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = ((w - x) ** 2).sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    for steps in (2, 3, 2):
        yield fit(ones(2), steps), w


@case
def a_convergence_loop(jit):
    @jit
    def root(a):
        x = a
        for _ in range(50):
            new = 0.5 * (x + a / x)
            if (new - x).abs().max() < 1e-6:
                break
            x = new
        return new

    for v in (4, 9, 2):
        yield root(full(v))


@case
def equality_of_tensors(jit):
    f = jit(lambda x, y: x * 2 if torch.equal(x, y) else x + y)
    yield f(ones(2), ones(2))
    yield f(ones(2), torch.zeros(2))
    yield f(ones(2), ones(2))
    yield jit(lambda x, y: x if torch.allclose(x, y) else y)(ones(2), ones(2))
