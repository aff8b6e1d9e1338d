"""Native functions for test_translate: one or more per feature of the subset."""

from __future__ import annotations

from enum import IntEnum

from eagerjit.runtime.native.language import (
    address_of,
    atomic_add,
    atomic_add_i32,
    atomic_compare_exchange,
    atomic_exchange,
    atomic_load,
    atomic_store,
    bits_of_f64,
    buffer,
    c_string,
    call_f64,
    call_i64,
    copy_bytes,
    external,
    external_data,
    f32,
    f64,
    f64_of_bits,
    fence,
    fill_bytes,
    global_bytes,
    i32,
    i64,
    leading_zeros,
    less_unsigned,
    likely,
    load_bf16,
    load_f16,
    load_f32,
    load_i8,
    load_i16,
    load_i32,
    load_i64,
    load_ptr,
    load_u8,
    load_u16,
    load_u32,
    multiply_overflows,
    pause,
    ptr,
    shift_right_unsigned,
    store_bf16,
    store_f16,
    store_i8,
    store_i16,
    store_i32,
    store_i64,
    trailing_zeros,
    u8,
    unlikely,
)

strlen = external("i64 strlen(ptr)")
qsort = external("void qsort(ptr, i64, i64, ptr)")
snprintf = external("i32 snprintf(ptr, i64, ptr, ...)")
PyExc_KeyError = external_data("PyExc_KeyError")

LIMIT = 10
HALF = 0.5
counters = global_bytes(64)
_hidden = global_bytes(8)


class Color(IntEnum):
    RED = 3
    GREEN = 5
    BLUE = 9


def fibonacci(n):
    a = 0
    b = 1
    for _ in range(n):
        following = a + b
        a = b
        b = following
    return a


def collatz(n: i64) -> i64:
    """The docstring is no statement."""
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n //= 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def factorial(n: i64) -> i64:
    return 1 if n < 2 else n * factorial(n - 1)


def arithmetic(a: i64, b: i64, which: i64) -> i64:
    match which:
        case 0:
            return a + b
        case 1:
            return a - b
        case 2:
            return a * b
        case 3:
            return a // b
        case 4:
            return a % b
        case 5:
            return a & b
        case 6:
            return a | b
        case 7:
            return a ^ b
        case 8:
            return a << b
        case 9:
            return a >> b
        case 10:
            return ~a
        case 11:
            return -a
        case 12:
            return shift_right_unsigned(a, b)
        case 13:
            return less_unsigned(a, b)
        case 14:
            return multiply_overflows(a, b)
        case 15:
            return trailing_zeros(a)
        case 16:
            return leading_zeros(a)
        case _:
            return (1 << 4) - LIMIT


def compare(a: i64, b: i64) -> i64:
    result = (a == b) * 1 + (a != b) * 2 + (a < b) * 4
    return result + (a <= b) * 8 + (a > b) * 16 + (a >= b) * 32


def between(a: i64, b: i64, c: i64) -> bool:
    return a < b <= c


def color(number: i64) -> i64:
    result = 0
    match number:
        case Color.RED | Color.GREEN:
            result = 1
        case Color.BLUE:
            if likely(LIMIT > 3):
                return 2
        case 7:
            pass
        case _:
            result = -1
    return result


def count_call() -> i64:
    """Counts how often it is called, and says yes."""
    atomic_add(counters, 56, 1)
    return 1


def short_circuit(a: i64) -> i64:
    store_i64(counters, 56, 0)
    both = a and count_call()
    either = a or count_call()
    if not (both or not either):
        return 100 + load_i64(counters, 56)
    return load_i64(counters, 56)


def choose(a: i64) -> i64:
    return 1 if a > LIMIT else 2 if a > 5 else 3


def loops(n: i64) -> i64:
    total = 0
    for i in range(n, 0, -2):
        if i == 4:
            continue
        for j in range(3, i):
            if j > 5:
                break
            total += j
        i = 100  # the loop goes on as if this were not there
    for k in range(0, n, 5):
        total += 1000 * k
    return total


def endless(n: u8) -> i64:
    while True:
        n += 1
        pause()
        fence()
        if unlikely(n > 300):
            return n


def floats(x: f64, n: i64) -> f64:
    total = 0.0
    single: f32 = 0.1
    for i in range(n):
        total += x * f64(i) / 2 - HALF
    if total > 1e6:
        return -total
    return total + f64(single * 3)


def float_to_integer(x: f64) -> i64:
    return i64(x) + i64(f32(x))


def flip_sign(x: f64) -> f64:
    return f64_of_bits(bits_of_f64(x) ^ (1 << 63))


def narrow(n: i64) -> i64:
    memory: ptr = buffer(64)
    fill_bytes(memory, 255, 64)
    store_i8(memory, 0, n)
    store_i16(memory, 8, n)
    store_i32(memory, 16, n)
    signed = load_i8(memory) + load_i16(memory, 8) + load_i32(memory, 16)
    unsigned = load_u8(memory) + load_u16(memory, 8) + load_u32(memory, 16)
    if i32(n) != load_i32(memory, 16) or load_i64(memory, 24) != -1 or (memory & 63) != 0:
        return 0
    return signed * 1000000 + unsigned


def pointers(memory: ptr, n: i64) -> i64:
    end: ptr = memory + n * 8
    at = memory
    total = 0
    while at < end:
        total += load_i64(at)
        at += 8
    if at == end and at != 0 and end - 8 >= memory:
        return total * 100 + (end - memory)
    return -1


def _ascending(a: ptr, b: ptr) -> i32:
    if load_i64(a) < load_i64(b):
        return -1
    return load_i64(a) > load_i64(b)


def sort(memory: ptr, n: i64) -> None:
    qsort(memory, n, 8, address_of(_ascending))


def text(number: i64, memory: ptr) -> i64:
    written = snprintf(memory, 32, c_string('"%d" \\ é'), i32(number))
    return written * 100 + strlen(memory)


def indirect(function: ptr, number: i64) -> i64:
    return call_i64(function, number)


def indirect_float(function: ptr, number: f64) -> f64:
    return call_f64(function, number)


def atomics(step: i64) -> i64:
    atomic_store(counters, 0, 5)
    old = atomic_add(counters, 0, step)
    swapped = atomic_compare_exchange(counters, 0, 5 + step, 50)
    missed = atomic_compare_exchange(counters, 0, 5 + step, 60)
    before = atomic_exchange(counters, 0, 70)
    atomic_add_i32(counters, 8, -1)
    return old + 10 * swapped + 100 * missed + 1000 * before + 1000000 * atomic_load(counters, 0)


def remember(number: i64) -> i64:
    old = load_i64(_hidden)
    store_i64(_hidden, 0, number)
    return old


def key_error() -> ptr:
    return load_ptr(PyExc_KeyError)


def convert_bf16(memory: ptr, n: i64) -> None:
    for i in range(n):
        store_bf16(memory, i * 2, load_bf16(memory, i * 2) * 3.0)


def round_bf16(to: ptr, source: ptr, n: i64) -> None:
    for i in range(n):
        store_bf16(to, i * 2, load_f32(source, i * 4))


def round_f16(to: ptr, source: ptr, n: i64) -> None:
    for i in range(n):
        store_f16(to, i * 2, load_f32(source, i * 4))


def convert_f16(memory: ptr, n: i64) -> None:
    for i in range(n):
        store_f16(memory, i * 2, load_f16(memory, i * 2) * 3.0)


def sum_f32(memory: ptr, n: i64) -> f32:
    total: f32 = 0.0
    for i in range(n):
        total += load_f32(memory, i * 4)
    return total


def copy(to: ptr, source: ptr, n: i64) -> None:
    copy_bytes(to, source, n)
