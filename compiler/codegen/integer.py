"""Integer arithmetic: it wraps, and no operand makes it trap."""

from __future__ import annotations

from eagerjit.compiler.codegen.builder import SIGNED, Value
from eagerjit.compiler.codegen.cast import resize


def divide(a: Value, c: Value) -> Value:
    """a / c toward zero; a zero divisor counts as one, and the smallest integer / -1 wraps."""
    b = a.builder
    zero = c.eq(0)
    if a.bits <= 32:
        return _divide_by_floats(a, b.select(zero, 1, c))
    if a.dtype not in SIGNED:
        return b.binary("udiv", a, b.select(zero, 1, c))
    minus = c.eq(-1)
    a, c = b.align(a, b.select(zero | minus, 1, c))
    return b.select(minus, -a, _divide_by_doubles(a, c) if a.lanes else b.binary("sdiv", a, c))


def _divide_by_doubles(a: Value, c: Value) -> Value:
    """i64 vectors of numbers that an f64 shows in its low bits; where a lane's is larger, all lanes one by one."""
    b = a.builder
    double, shown = 2.0**52 + 2.0**51, 0x4338000000000000

    def real(value: Value) -> Value:
        return (value + shown).bitcast("f64") - double

    large = ((a + 2**51) | (c + 2**51)).view("u64") >= 2**52
    quotient = (b.intrinsic("trunc", real(a) / real(c)) + double).bitcast("i64") - shown
    before, apart, done = b.block, b.name("apart"), b.name("done")
    kept = set(b.frames[-1].known)
    b.emit(f"br i1 {b.any_lane(large).text}, label %{apart}, label %{done}")
    b.label(apart)
    exact = b.binary("sdiv", a, c)
    b.emit(f"br label %{done}")
    b.forget_since(kept)
    b.label(done)
    return b.phi("i64", a.lanes, [(quotient.text, before), (exact.text, apart)], b.depth)


def _divide_by_floats(a: Value, c: Value) -> Value:
    """No vector unit divides integers; a float with enough digits gives the exact quotient once cut."""
    b = a.builder
    single = a.bits <= 16
    opcode, real = ("sitofp" if a.dtype in SIGNED else "uitofp"), ("f32" if single else "f64")
    quotient = b.convert(opcode, a, real) / b.convert(opcode, c, real)
    return resize(b.convert("fptosi", quotient, "i32" if single else "i64"), a.dtype)


def floor_divide(a: Value, c: Value) -> Value:
    """a // c, rounded down; a zero divisor counts as one."""
    quotient = divide(a, c)
    if a.dtype not in SIGNED:
        return quotient
    remainder = a - quotient * c
    below = remainder.ne(0) & ((remainder ^ c) < 0) & c.ne(0)
    return a.builder.select(below, quotient - 1, quotient)


def remainder(a: Value, c: Value) -> Value:
    """a % c with the sign of c."""
    rest = a - divide(a, c) * c
    if a.dtype not in SIGNED:
        return rest
    return a.builder.select(rest.ne(0) & ((rest ^ c) < 0), rest + c, rest)


def remainder_truncated(a: Value, c: Value) -> Value:
    """The remainder with the sign of a, as C's %."""
    return a - divide(a, c) * c


def shift_left(a: Value, count: Value) -> Value:
    """a << count; counts beyond the width give 0."""
    inside = count.view(_unsigned(count.dtype)) < a.bits
    return a.builder.select(inside, a << a.builder.select(inside, count, 0), 0)


def shift_right(a: Value, count: Value) -> Value:
    """a >> count, copying the sign; counts beyond the width shift every bit out."""
    b = a.builder
    inside = count.view(_unsigned(count.dtype)) < a.bits
    if a.dtype in SIGNED:
        return a >> b.select(inside, count, a.bits - 1)
    return b.select(inside, a >> b.select(inside, count, 0), 0)


def _unsigned(dtype: str) -> str:
    return dtype.replace("i", "u")


def power(base: Value, exponent: Value) -> Value:
    """base ** exponent by repeated squaring, wrapping; a negative exponent gives 1 / base cut toward zero."""
    b = base.builder
    base, exponent = b.align(base, exponent)
    negative = exponent < 0 if base.dtype in SIGNED else b.constant("bool", False)
    odd = (exponent & 1).ne(0)
    inverse = b.select(base.eq(1), b.constant(base.dtype, 1), 0)
    if base.dtype in SIGNED:
        inverse = b.select(base.eq(-1), b.select(odd, b.constant(base.dtype, -1), 1), inverse)
    return b.select(negative, inverse, _power_loop(base, b.select(negative, 0, exponent)))


def _power_loop(base: Value, exponent: Value) -> Value:
    """Squares and multiplies until every lane's exponent is used up."""
    b = base.builder
    one = b.broadcast(b.constant(base.dtype, 1), base.lanes)

    def step(square: Value, rest: Value, result: Value) -> tuple[list[Value], Value]:
        odd = (rest & 1).ne(0)
        product = b.select(odd, result * square, result)
        halved = rest.view(_unsigned(rest.dtype)) >> 1
        return [square * square, halved.view(rest.dtype), product], halved.ne(0)

    return b.repeat((base, exponent, one), step)[2]


def gcd(a: Value, c: Value) -> Value:
    """The greatest common divisor, by Euclid's algorithm on absolute values; that of zeros is 0."""
    x, y = _magnitudes(a, c)
    return _euclid(x, y).view(a.dtype)


def lcm(a: Value, c: Value) -> Value:
    """The least common multiple, 0 where either is 0; where it wraps, what is left, without a sign from 32 bits on."""
    x, y = _magnitudes(a, c)
    product = (divide(x, _euclid(x, y)) * y).view(a.dtype)
    return a.builder.select(product < 0, -product, product) if a.dtype in ("i32", "i64") else product


def _magnitudes(a: Value, c: Value) -> list[Value]:
    """Absolute values as numbers without sign, which can hold that of the smallest integer."""
    b = a.builder
    a, c = b.align(a, c)
    if a.dtype not in SIGNED:
        return [a, c]
    return [b.select(v < 0, -v, v).view(_unsigned(v.dtype)) for v in (a, c)]


def _euclid(x: Value, y: Value) -> Value:
    def step(larger: Value, smaller: Value) -> tuple[list[Value], Value]:
        b = larger.builder
        done = smaller.eq(0)
        rest = b.select(done, 0, larger - divide(larger, smaller) * smaller)
        return [b.select(done, larger, smaller), rest], rest.ne(0)

    return x.builder.repeat((x, y), step)[0]
