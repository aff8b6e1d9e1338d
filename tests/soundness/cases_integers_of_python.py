"""Ints that Python's own functions make of ints that differ from call to call: powers, shifts, divisors."""

from __future__ import annotations

import math
from types import SimpleNamespace

import eagerjit as torch
from tests.soundness.framework import attempt, case


@case(versions=3)
def powers_of_two(jit):
    @jit
    def f(x, n):
        return x * 2**n, x + (1 << n), torch.zeros(2**n).numel()

    for n in (3, 4, 0, 1, 7, 12):
        yield f(torch.arange(3.0), n)


@case
def powers_and_shifts_of_all_kinds_of_ints(jit):
    @jit
    def f(x, n, m):
        return x * n**m

    @jit
    def g(x, n, m):
        return x.long() + (n << m), x.long() + (n >> m)

    for n, m in ((2, 3), (3, 3), (-2, 3), (0, 0), (2, -1), (0, -2), (2, 62), (2, 63), (-2, 63), (2, 64), (1, 2)):
        attempt(f, torch.ones(2), n, m)
    for n, m in ((1, 3), (3, 3), (-3, 2), (1, 62), (1, 63), (-1, 63), (0, 200), (1, -1), (5, 70), (-5, 70)):
        attempt(g, torch.ones(2), n, m)


@case(versions=3)
def shifts_that_are_refused(jit):
    log = []

    @jit
    def f(x, n):
        log.append(n)
        x.add_(1)
        return x * (1 << n)

    x = torch.ones(2)
    for n in (1, 2, 3, -1, -2, 63, 64, 4):
        attempt(f, x, n)
        yield x, log


@case(versions=2)
def signs_that_alternate(jit):
    @jit
    def f(x):
        n = x.shape[0]
        return x * (-1) ** n, x * (-1) ** (n + 1)

    for n in (2, 3, 4, 5, 9):
        yield f(torch.ones(n))


@case(versions=2)
def functions_of_ints(jit):
    @jit
    def f(x, n, m):
        divisors = math.gcd(n, m) + math.lcm(n, 3)
        return x * divisors, x + math.isqrt(n), x - math.comb(n, 2), x * math.perm(n, 2) + math.factorial(n % 5)

    for n, m in ((4, 6), (9, 6), (15, 25), (100, 7), (0, 0), (12, -18)):
        yield f(torch.ones(2), n, m)


@case
def functions_of_ints_that_refuse(jit):
    @jit
    def f(x, n):
        try:
            return x * math.isqrt(n) + math.comb(n, 2)
        except ValueError:
            return x - 1

    @jit
    def g(x, n):
        return x + math.factorial(n)

    for n in (4, 9, -1, 16, 2**62, 2**63 - 1, True, 2.0):
        attempt(f, torch.ones(2), n)
    for n in (3, 4, -1, 20, 21, 5, 2.0):
        attempt(g, torch.ones(2), n)


@case
def powers_with_a_modulus(jit):
    @jit
    def f(x, n, m):
        return x * pow(3, n, m), x * pow(n, 2, 7)

    for n, m in ((1, 7), (2, 7), (5, 11), (-1, 7), (-1, 6), (3, 0), (4, -5), (2, 1), (2.0, 7)):
        attempt(f, torch.ones(2), n, m)


@case(versions=3)
def bits_of_two_numbers(jit):
    @jit
    def f(x, n, m):
        x = x.long()
        return x + (n & m), x + (n | m), x + (n ^ m), x * (n & (n - 1)), x * (True & n)

    for n, m in ((1, 3), (12, 10), (-7, 5), (2**62, -(2**62)), (-(2**63), 2**63 - 1)):
        yield f(torch.ones(2), n, m)


@case(versions=3)
def padded_to_a_power_of_two(jit):
    @jit
    def f(x):
        n = x.shape[0]
        padded = torch.nn.functional.pad(x, (0, (1 << (n - 1).bit_length()) - n))
        return padded, padded.shape[0], torch.fft.rfft(x, 2 ** math.ceil(math.log2(2 * n)))

    for n in (3, 5, 9, 17, 30, 64, 3, 100):
        yield f(torch.arange(float(n)))


@case(versions=3)
def a_square_of_a_size(jit):
    @jit
    def f(x):
        side = math.isqrt(x.shape[1])
        return x.reshape(x.shape[0], side, side).transpose(1, 2) * 2

    for n in (2, 3, 5, 4):
        yield f(torch.arange(2.0 * n * n).reshape(2, n * n))
    attempt(f, torch.arange(2.0 * 7).reshape(2, 7))


@case(versions=2)
def gradients_scaled_by_a_power(jit):
    level = SimpleNamespace(n=0)

    @jit
    def f(x):
        level.n += 1
        return (x**2 * 2**level.n / (1 << level.n + 1)).sum()

    for _ in range(6):
        x = torch.arange(3.0).requires_grad_()
        f(x).backward()
        yield x.grad, level


@case(versions=2)
def powers_inside_of_vmap(jit):
    @jit
    def f(x, n):
        return torch.func.vmap(lambda row: row.sum() * 2**n + math.gcd(n, 6))(x)

    for n in (1, 2, 3, 6):
        yield f(torch.arange(6.0).reshape(2, 3), n)


@case(versions=3)
def branches_on_ints_of_python(jit):
    @jit
    def f(x, n):
        if math.gcd(n, 4) == 1:
            return x - n
        return x * 2**n

    for n in (1, 2, 3, 4, 5, 6, 9):
        yield f(torch.ones(2), n)
