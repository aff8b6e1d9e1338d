"""The machine code of Fourier transforms: a stage of butterflies, and what brings numbers into their order.

Lines are transformed side by side, as many as a vector has lanes: the vector of their real parts and the vector of
their imaginary parts lie next to each other, 64 bytes that are called an element. Where the two are exchanged, at
reading and at writing, a transform becomes its inverse: `swap` is the offset of the one taken for the real parts.
"""

from __future__ import annotations

import ast
import math

from eagerjit.runtime.native.expressions import ExpressionTranslator, Value, real
from eagerjit.runtime.native.vector_code import Vectors, local_variable

RADICES = (2, 3, 4, 5, 7, 8)
"""Factors of lengths that there are stages for."""

HALF = 32
"""Bytes of a vector."""

Pair = tuple[str, str]


class Pairs(Vectors):
    """Arithmetic on vectors of real parts beside vectors of imaginary parts."""

    def __init__(self, code: ExpressionTranslator, double: int):
        super().__init__(code, "double" if double else "float", 4 if double else 8)

    def place(self, address: str, offset: str | int) -> str:
        return self.code.emit("ptr", f"getelementptr i8, ptr {address}, i64 {offset}").text

    def constant(self, number: float) -> str:
        return f"splat ({self.scalar} {real(number, self.scalar).text})"

    def pair(self, element: str) -> Pair:
        return self.load(element), self.load(self.place(element, HALF))

    def apart(self, source: str) -> Pair:
        """What lies by turns."""
        low, high = self.pair(source)
        even, odd = (list(range(part, 2 * self.lanes, 2)) for part in (0, 1))
        return self.shuffled(low, high, even), self.shuffled(low, high, odd)

    def put(self, a: Pair, to: str) -> None:
        """By turns."""
        for part in (0, 1):
            half = range(part * self.lanes // 2, (part + 1) * self.lanes // 2)
            order = [lane + which * self.lanes for lane in half for which in (0, 1)]
            self.store(self.shuffled(*a, order), self.place(to, part * HALF))

    def negative(self, a: str) -> str:
        return self.code.emit("vector", f"fneg {self.type} {a}").text

    def conjugate(self, a: Pair) -> Pair:
        return a[0], self.negative(a[1])

    def add(self, a: Pair, b: Pair) -> Pair:
        return self.of("fadd", a[0], b[0]), self.of("fadd", a[1], b[1])

    def subtract(self, a: Pair, b: Pair) -> Pair:
        return self.of("fsub", a[0], b[0]), self.of("fsub", a[1], b[1])

    def minus_i(self, a: Pair, b: Pair) -> Pair:
        """a - i b."""
        return self.of("fadd", a[0], b[1]), self.of("fsub", a[1], b[0])

    def plus_i(self, a: Pair, b: Pair) -> Pair:
        """a + i b."""
        return self.of("fsub", a[0], b[1]), self.of("fadd", a[1], b[0])

    def times(self, a: Pair, factor: Pair) -> Pair:
        lower = self.negative(self.of("fmul", a[1], factor[1]))
        return self.sum(a[0], factor[0], lower), self.sum(a[0], factor[1], self.of("fmul", a[1], factor[0]))

    def scaled_sum(self, total: Pair | None, a: Pair, factor: float) -> Pair:
        """total + factor * a."""
        number = self.constant(factor)
        if total is None:
            return self.of("fmul", a[0], number), self.of("fmul", a[1], number)
        return self.sum(a[0], number, total[0]), self.sum(a[1], number, total[1])


def fourier_stage(code: ExpressionTranslator, node: ast.Call) -> Value:
    """A loop for each radix, with factors of a table and without; a switch picks one."""
    double = code.constant(node.args[0], "whether numbers are doubles")
    types = ("i64", "i64", "i64", "ptr", "ptr", "ptr", "i64")
    given = [code.typed(argument, kind).text for argument, kind in zip(node.args[1:], types, strict=True)]
    radix, groups, *rest = given
    turned = code.emit("i64", f"zext i1 {code.emit('i1', f'icmp ne i64 {groups}, 1').text} to i64").text
    which = code.emit("i64", f"mul i64 {radix}, 2").text
    which = code.emit("i64", f"add i64 {which}, {turned}").text
    done = code.label()
    blocks = [(code.label(), r, turn) for r in RADICES for turn in (0, 1)]
    cases = " ".join(f"i64 {2 * r + turn}, label %{label}" for label, r, turn in blocks)
    code.lines.append(f"  switch i64 {which}, label %{done} [ {cases} ]")
    for label, r, turn in blocks:
        code.place(label)
        _loops(Pairs(code, double), r, bool(turn), groups, *rest)
        code.jump(done)
    code.place(done)
    return Value("void", "")


def _loops(
    v: Pairs, radix: int, turned: bool, groups: str, run: str, to: str, source: str, roots: str, swap: str
) -> None:
    """For every group of `run` butterflies: elements groups * run apart become elements run apart."""
    code = v.code
    total = code.emit("i64", f"mul i64 {groups}, {run}").text
    far = code.emit("i64", f"mul i64 {total}, {2 * HALF}").text
    near = code.emit("i64", f"mul i64 {run}, {2 * HALF}").text
    beyond = code.emit("i64", f"mul i64 {near}, {radix - 1}").text
    other = code.emit("i64", f"sub i64 {HALF}, {swap}").text
    x, y, factors = (local_variable(code, "ptr", start) for start in (source, to, roots))
    group, left = local_variable(code, "i64", groups), local_variable(code, "i64", "0")
    outer, inner, following, finished = (code.label() for _ in range(4))
    code.jump(outer)
    code.place(outer)
    code.lines.append(f"  store i64 {run}, ptr {left}")
    table = code.emit("ptr", f"load ptr, ptr {factors}").text
    numbers = []
    for k in range(2 * (radix - 1) if turned else 0):
        numbers.append(v.number(v.place(table, k * v.item)))
    code.jump(inner)
    code.place(inner)
    at, place = (code.emit("ptr", f"load ptr, ptr {p}").text for p in (x, y))
    values = []
    for k in range(radix):
        element = at if k == 0 else v.place(at, far if k == 1 else code.emit("i64", f"mul i64 {far}, {k}").text)
        values.append((v.load(v.place(element, swap)), v.load(v.place(element, other))))
    for k, value in enumerate(transformed(v, values)):
        if turned and k:
            value = v.times(value, (numbers[2 * k - 2], numbers[2 * k - 1]))
        element = place if k == 0 else v.place(place, near if k == 1 else code.emit("i64", f"mul i64 {near}, {k}").text)
        v.store(value[0], v.place(element, swap))
        v.store(value[1], v.place(element, other))
    code.lines.append(f"  store ptr {v.place(at, 2 * HALF)}, ptr {x}")
    after = v.place(place, 2 * HALF)
    code.lines.append(f"  store ptr {after}, ptr {y}")
    _count_down(code, left, inner, following)
    code.place(following)
    code.lines.append(f"  store ptr {v.place(after, beyond)}, ptr {y}")
    code.lines.append(f"  store ptr {v.place(table, 2 * (radix - 1) * v.item)}, ptr {factors}")
    _count_down(code, group, outer, finished)
    code.place(finished)


def transformed(v: Pairs, a: list[Pair]) -> list[Pair]:
    """X_k = sum over j of a_j exp(-2 pi i j k / r), real and imaginary parts."""
    r = len(a)
    if r == 2:
        return [v.add(a[0], a[1]), v.subtract(a[0], a[1])]
    if r == 4:
        sums, apart = (v.add(a[0], a[2]), v.add(a[1], a[3])), (v.subtract(a[0], a[2]), v.subtract(a[1], a[3]))
        return [v.add(*sums), v.minus_i(*apart), v.subtract(*sums), v.plus_i(*apart)]
    if r == 8:
        return _eight(v, a)
    # Of an odd number, inputs j and r - j go with the same cosine and opposite sines, and so do outputs k and r - k.
    half = range(1, r // 2 + 1)
    added = {j: v.add(a[j], a[r - j]) for j in half}
    differences = {j: v.subtract(a[j], a[r - j]) for j in half}
    out = [a[0]] * r
    for j in half:
        out[0] = v.add(out[0], added[j])
    for k in half:
        even = a[0]
        odd: Pair | None = None
        for j in half:
            angle = 2 * math.pi * (j * k % r) / r
            even = v.scaled_sum(even, added[j], math.cos(angle))
            odd = v.scaled_sum(odd, differences[j], math.sin(angle))
        assert odd is not None
        out[k], out[r - k] = v.minus_i(even, odd), v.plus_i(even, odd)
    return out


def _eight(v: Pairs, a: list[Pair]) -> list[Pair]:
    """Four of sums, and four of differences times the eighth roots of 1."""
    sums = [v.add(a[j], a[j + 4]) for j in range(4)]
    apart = [v.subtract(a[j], a[j + 4]) for j in range(4)]
    root = math.sqrt(0.5)
    first, third = v.minus_i(apart[1], apart[1]), v.minus_i(apart[3], apart[3])
    apart[1] = v.scaled_sum(None, first, root)
    apart[2] = apart[2][1], v.negative(apart[2][0])
    # exp(-3 pi i / 4) is -i times exp(-pi i / 4).
    turned = v.scaled_sum(None, third, root)
    apart[3] = turned[1], v.negative(turned[0])
    even, odd = transformed(v, sums), transformed(v, apart)
    return [value for pair in zip(even, odd, strict=True) for value in pair]


def take_pairs(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Real and imaginary parts by turns, as they lie in memory, become an element."""
    v, (to, source) = on_elements(code, node)
    store_pair(v, v.apart(source), to)
    return Value("void", "")


def put_pairs(code: ExpressionTranslator, node: ast.Call) -> Value:
    """The opposite."""
    v, (to, source) = on_elements(code, node)
    v.put(v.pair(source), to)
    return Value("void", "")


def combine_pairs(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Elements k and n - k of half a line from those of its half's transform, or the opposite, as the factor has it."""
    v, (low_to, high_to, low, high, factor) = on_elements(code, node, 5)
    factors = v.number(factor), v.number(v.place(factor, HALF))
    mean, rest = combined(v, v.pair(low), v.pair(high), factors)
    store_pair(v, v.add(mean, rest), low_to)
    store_pair(v, v.conjugate(v.subtract(mean, rest)), high_to)
    return Value("void", "")


def combined(v: Pairs, a: Pair, b: Pair, factor: Pair) -> tuple[Pair, Pair]:
    """The mean of a and b's conjugate, and their difference times a factor."""
    half = v.constant(0.5)
    mean = v.of("fmul", v.of("fadd", a[0], b[0]), half), v.of("fmul", v.of("fsub", a[1], b[1]), half)
    return mean, v.times((v.of("fsub", a[0], b[0]), v.of("fadd", a[1], b[1])), factor)


def mirror_pairs(code: ExpressionTranslator, node: ast.Call) -> Value:
    """The conjugates of an element."""
    v, (to, source) = on_elements(code, node)
    store_pair(v, v.conjugate(v.pair(source)), to)
    return Value("void", "")


def store_pair(v: Pairs, value: Pair, element: str) -> None:
    v.store(value[0], element)
    v.store(value[1], v.place(element, HALF))


def scale_pairs(code: ExpressionTranslator, node: ast.Call) -> Value:
    """An element times a real number at an address."""
    v, (at, number) = on_elements(code, node)
    factor = v.number(number)
    for offset in (0, HALF):
        place = v.place(at, offset)
        v.store(v.of("fmul", v.load(place), factor), place)
    return Value("void", "")


def turn_pairs(code: ExpressionTranslator, node: ast.Call) -> Value:
    """An element times numbers of its lanes' own, real and imaginary parts at two addresses."""
    swap = code.typed(node.args[4], "i64").text
    v, (at, reals, imaginary) = on_elements(code, node, 3)
    places = v.place(at, swap), v.place(at, code.emit("i64", f"sub i64 {HALF}, {swap}").text)
    found = v.times((v.load(places[0]), v.load(places[1])), (v.load(reals), v.load(imaginary)))
    for value, place in zip(found, places, strict=True):
        v.store(value, place)
    return Value("void", "")


def on_elements(code: ExpressionTranslator, node: ast.Call, addresses: int = 2) -> tuple[Pairs, list[str]]:
    double = code.constant(node.args[0], "whether numbers are doubles")
    return Pairs(code, double), [code.typed(a, "ptr").text for a in node.args[1 : 1 + addresses]]


def _count_down(code: ExpressionTranslator, counter: str, again: str, done: str) -> None:
    left = code.emit("i64", f"load i64, ptr {counter}").text
    left = code.emit("i64", f"sub i64 {left}, 1").text
    code.lines.append(f"  store i64 {left}, ptr {counter}")
    code.branch(code.emit("i1", f"icmp sgt i64 {left}, 0"), again, done)
