"""Integers beyond 64 bits, and sizes below zero."""

from __future__ import annotations

import types

import numpy as np

import eagerjit as torch
from tests.soundness.framework import attempt, case


@case
def integers_that_grow_beyond_64_bits(jit):

    @jit
    def f(x, n):
        return x + 1, n + n, n - 1, n * 3, -n, abs(n), n + x.shape[0] * n, (n + 1) // 2, (n + n) % 7, n // -1

    for n in (5, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63), -(2**62), -5, 0):
        yield f(torch.ones(3), n)


@case(versions=1)
def sums_of_integers_need_one_version(jit):

    @jit
    def f(x, n):
        return x * (n + 1), n - x.shape[0], n + n

    for n in (5, -7, 2**31, 2**50, 2):
        yield f(torch.ones(3), n)


@case
def a_counter_passes_the_largest_integer(jit):
    kept = types.SimpleNamespace(count=2**63 - 3)

    @jit
    def f(x):
        kept.count += 1
        return x * 2

    for _ in range(6):
        yield f(torch.ones(2)), kept.count


@case
def high_powers_of_sizes(jit):

    @jit
    def f(x, n):
        k = x.shape[0]
        return k**5, k**n, (k * n) ** 4

    for k, n in ((10, 3), (1000, 30), (20000, 40)):
        yield f(torch.ones(k), n)


@case(versions=1)
def products_of_sizes_need_one_version(jit):

    @jit
    def f(x):
        a, b, c, d = x.shape
        return x.sum(), a * b * c * d, (a // 2) * (b // 2) * c

    for shape in ((2, 3, 4, 5), (3, 2, 5, 4), (2, 5000, 2, 3)):
        yield f(torch.ones(shape))


@case
def sizes_below_zero(jit):

    @jit
    def made(x, n):
        return torch.zeros(n - 3), x.new_ones((n - 2, 2))

    @jit
    def repeated(x, n):
        return x.expand(n - 2, *x.shape).clone(), x.repeat(n - 2)

    @jit
    def viewed(x, n):
        return x.view(n - 3, -1) * 2

    for n in (6, 5, 4, 3, 2, 1, 0):
        for f in (made, repeated, viewed):
            yield attempt(f, torch.ones(3), n)


@case
def truths_as_sizes(jit):

    @jit
    def first(b):
        return torch.zeros(b)

    @jit
    def second(b):
        return torch.zeros(2, b)

    for b in (True, 1, False, 0, np.int32(2)):
        yield attempt(first, b)
        yield attempt(second, b)
