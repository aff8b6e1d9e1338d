"""Sums and products of all elements up to each along a dimension, in order; floats in double precision.

Memory is (outer, n, inner); a *line* is one outer and one inner index: n elements, `inner` apart. A task is eight
lines, whose independent accumulators hide how long one addition takes.
"""

from __future__ import annotations

from eagerjit.runtime.native.language import (
    f32,
    f64,
    i64,
    load_f32,
    load_f64,
    load_i64,
    load_ptr,
    ptr,
    store_f32,
    store_f64,
    store_i64,
)

X, OUT, N, INNER, LINES, ITEM, FLOAT, PRODUCT = 0, 8, 16, 24, 32, 40, 48, 56  # a job's words, in bytes
TOGETHER = 8


def _start(job: ptr, line: i64) -> i64:
    """Where a line begins, in bytes."""
    inner = load_i64(job, INNER)
    place = line // inner * load_i64(job, N) * inner + line % inner
    return place * load_i64(job, ITEM)


def scan_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """The lines of tasks begin to end."""
    first = begin * TOGETHER
    last = end * TOGETHER
    last = last if last < load_i64(job, LINES) else load_i64(job, LINES)
    while first < last:
        if first + TOGETHER <= last:
            if load_i64(job, FLOAT) and load_i64(job, ITEM) == 4:
                if load_i64(job, PRODUCT):
                    _eight_products(job, first)
                else:
                    _eight_sums(job, first)
            elif load_i64(job, FLOAT):
                _eight_of_floats(job, first)
            else:
                _eight_of_integers(job, first)
            first += TOGETHER
        else:
            if load_i64(job, FLOAT):
                _one_of_floats(job, first)
            else:
                _one_of_integers(job, first)
            first += 1
    return 0


def _one_of_floats(job: ptr, line: i64) -> None:
    item = load_i64(job, ITEM)
    product = load_i64(job, PRODUCT)
    step = load_i64(job, INNER) * item
    at = load_ptr(job, X) + _start(job, line)
    out = load_ptr(job, OUT) + _start(job, line)
    total: f64 = 1.0 if product else 0.0
    for _ in range(load_i64(job, N)):
        total = _combined(total, at, out, item, product)
        at = at + step
        out = out + step


def _one_of_integers(job: ptr, line: i64) -> None:
    product = load_i64(job, PRODUCT)
    step = load_i64(job, INNER) * 8
    at = load_ptr(job, X) + _start(job, line)
    out = load_ptr(job, OUT) + _start(job, line)
    total = 1 if product else 0
    if product:
        for _ in range(load_i64(job, N)):
            total *= load_i64(at)
            store_i64(out, 0, total)
            at = at + step
            out = out + step
        return
    for _ in range(load_i64(job, N)):
        total += load_i64(at)
        store_i64(out, 0, total)
        at = at + step
        out = out + step


def _combined(total: f64, at: ptr, out: ptr, item: i64, product: i64) -> f64:
    """Takes one element into a float accumulator, and stores what it is then."""
    value: f64 = load_f64(at) if item == 8 else f64(load_f32(at))
    total = total * value if product else total + value
    if item == 8:
        store_f64(out, 0, total)
    else:
        store_f32(out, 0, f32(total))
    return total


def _counted(total: i64, at: ptr, out: ptr, product: i64) -> i64:
    """Takes one element into an integer accumulator, and stores what it is then."""
    value = load_i64(at)
    total = total * value if product else total + value
    store_i64(out, 0, total)
    return total


def _eight_of_floats(job: ptr, line: i64) -> None:
    item = load_i64(job, ITEM)
    product = load_i64(job, PRODUCT)
    step = load_i64(job, INNER) * item
    x = load_ptr(job, X)
    out = load_ptr(job, OUT)
    p0 = _start(job, line)
    p1 = _start(job, line + 1)
    p2 = _start(job, line + 2)
    p3 = _start(job, line + 3)
    p4 = _start(job, line + 4)
    p5 = _start(job, line + 5)
    p6 = _start(job, line + 6)
    p7 = _start(job, line + 7)
    t0: f64 = 1.0 if product else 0.0
    t1 = t0
    t2 = t0
    t3 = t0
    t4 = t0
    t5 = t0
    t6 = t0
    t7 = t0
    for _ in range(load_i64(job, N)):
        t0 = _combined(t0, x + p0, out + p0, item, product)
        t1 = _combined(t1, x + p1, out + p1, item, product)
        t2 = _combined(t2, x + p2, out + p2, item, product)
        t3 = _combined(t3, x + p3, out + p3, item, product)
        t4 = _combined(t4, x + p4, out + p4, item, product)
        t5 = _combined(t5, x + p5, out + p5, item, product)
        t6 = _combined(t6, x + p6, out + p6, item, product)
        t7 = _combined(t7, x + p7, out + p7, item, product)
        x = x + step
        out = out + step


def _eight_sums(job: ptr, line: i64) -> None:
    """Sums of float32, by far the commonest scan: no choice is left to the loop."""
    step = load_i64(job, INNER) * 4
    x = load_ptr(job, X)
    out = load_ptr(job, OUT)
    p0 = _start(job, line)
    p1 = _start(job, line + 1)
    p2 = _start(job, line + 2)
    p3 = _start(job, line + 3)
    p4 = _start(job, line + 4)
    p5 = _start(job, line + 5)
    p6 = _start(job, line + 6)
    p7 = _start(job, line + 7)
    t0: f64 = 0.0
    t1 = t0
    t2 = t0
    t3 = t0
    t4 = t0
    t5 = t0
    t6 = t0
    t7 = t0
    for _ in range(load_i64(job, N)):
        t0 += f64(load_f32(x, p0))
        store_f32(out, p0, f32(t0))
        t1 += f64(load_f32(x, p1))
        store_f32(out, p1, f32(t1))
        t2 += f64(load_f32(x, p2))
        store_f32(out, p2, f32(t2))
        t3 += f64(load_f32(x, p3))
        store_f32(out, p3, f32(t3))
        t4 += f64(load_f32(x, p4))
        store_f32(out, p4, f32(t4))
        t5 += f64(load_f32(x, p5))
        store_f32(out, p5, f32(t5))
        t6 += f64(load_f32(x, p6))
        store_f32(out, p6, f32(t6))
        t7 += f64(load_f32(x, p7))
        store_f32(out, p7, f32(t7))
        x = x + step
        out = out + step


def _eight_products(job: ptr, line: i64) -> None:
    """Products of float32, likewise."""
    step = load_i64(job, INNER) * 4
    x = load_ptr(job, X)
    out = load_ptr(job, OUT)
    p0 = _start(job, line)
    p1 = _start(job, line + 1)
    p2 = _start(job, line + 2)
    p3 = _start(job, line + 3)
    p4 = _start(job, line + 4)
    p5 = _start(job, line + 5)
    p6 = _start(job, line + 6)
    p7 = _start(job, line + 7)
    t0: f64 = 1.0
    t1 = t0
    t2 = t0
    t3 = t0
    t4 = t0
    t5 = t0
    t6 = t0
    t7 = t0
    for _ in range(load_i64(job, N)):
        t0 *= f64(load_f32(x, p0))
        store_f32(out, p0, f32(t0))
        t1 *= f64(load_f32(x, p1))
        store_f32(out, p1, f32(t1))
        t2 *= f64(load_f32(x, p2))
        store_f32(out, p2, f32(t2))
        t3 *= f64(load_f32(x, p3))
        store_f32(out, p3, f32(t3))
        t4 *= f64(load_f32(x, p4))
        store_f32(out, p4, f32(t4))
        t5 *= f64(load_f32(x, p5))
        store_f32(out, p5, f32(t5))
        t6 *= f64(load_f32(x, p6))
        store_f32(out, p6, f32(t6))
        t7 *= f64(load_f32(x, p7))
        store_f32(out, p7, f32(t7))
        x = x + step
        out = out + step


def _eight_of_integers(job: ptr, line: i64) -> None:
    product = load_i64(job, PRODUCT)
    step = load_i64(job, INNER) * 8
    x = load_ptr(job, X)
    out = load_ptr(job, OUT)
    p0 = _start(job, line)
    p1 = _start(job, line + 1)
    p2 = _start(job, line + 2)
    p3 = _start(job, line + 3)
    p4 = _start(job, line + 4)
    p5 = _start(job, line + 5)
    p6 = _start(job, line + 6)
    p7 = _start(job, line + 7)
    t0 = 1 if product else 0
    t1 = t0
    t2 = t0
    t3 = t0
    t4 = t0
    t5 = t0
    t6 = t0
    t7 = t0
    for _ in range(load_i64(job, N)):
        t0 = _counted(t0, x + p0, out + p0, product)
        t1 = _counted(t1, x + p1, out + p1, product)
        t2 = _counted(t2, x + p2, out + p2, product)
        t3 = _counted(t3, x + p3, out + p3, product)
        t4 = _counted(t4, x + p4, out + p4, product)
        t5 = _counted(t5, x + p5, out + p5, product)
        t6 = _counted(t6, x + p6, out + p6, product)
        t7 = _counted(t7, x + p7, out + p7, product)
        x = x + step
        out = out + step
