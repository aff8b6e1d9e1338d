"""The machine code of Fourier transforms of one line: an element is a row of as many numbers as a vector has lanes.

The first stage's butterflies are side by side and their outputs are turned, so that those of each lie in a row. From
then on neighbours have the same factors, and stages do what they do with lanes of different lines.
"""

from __future__ import annotations

import ast

from eagerjit.runtime.native.expressions import ExpressionTranslator, Value
from eagerjit.runtime.native.fourier_code import HALF, Pair, Pairs, combined, on_elements, store_pair, transformed
from eagerjit.runtime.native.vector_code import loop

FIRST_RADIX = 8
"""Of the first stage."""


def fourier_start(code: ExpressionTranslator, node: ast.Call) -> Value:
    """The first stage of a line: butterflies `groups` numbers apart, in elements or as they lie in memory."""
    kinds = ("i64", "ptr", "ptr", "ptr", "i64")
    given = [code.typed(argument, kind).text for argument, kind in zip(node.args[2:], kinds, strict=True)]
    groups, to, source, roots, swap = given
    v = Pairs(code, code.constant(node.args[0], "whether numbers are doubles"))
    lie_apart = code.constant(node.args[1], "whether real and imaginary parts lie apart")
    swapped = code.emit("i1", f"icmp ne i64 {swap}, 0").text
    other = code.emit("i64", f"sub i64 {HALF}, {swap}").text
    count = code.emit("i64", f"udiv i64 {groups}, {v.lanes}").text
    far = code.emit("i64", f"mul i64 {count}, {2 * HALF}").text
    with loop(code, count) as at:
        before = v.place(source, code.emit("i64", f"mul i64 {at}, {2 * HALF}").text)
        values = []
        for k in range(FIRST_RADIX):
            place = v.place(before, code.emit("i64", f"mul i64 {far}, {k}").text)
            if lie_apart:
                values.append((v.load(v.place(place, swap)), v.load(v.place(place, other))))
            else:
                values.append(_exchanged(v, v.apart(place), swapped))
        table = v.place(roots, code.emit("i64", f"mul i64 {at}, {2 * HALF * (FIRST_RADIX - 1)}").text)
        found = transformed(v, values)
        for k in range(1, FIRST_RADIX):
            found[k] = v.times(found[k], v.pair(v.place(table, 2 * HALF * (k - 1))))
        out = v.place(to, code.emit("i64", f"mul i64 {at}, {2 * HALF * FIRST_RADIX}").text)
        for part, offset in ((0, swap), (1, other)):
            for first in range(0, FIRST_RADIX, v.lanes):
                rows = v.turned([pair[part] for pair in found[first : first + v.lanes]])
                for lane, row in enumerate(rows):
                    element = lane * (FIRST_RADIX // v.lanes) + first // v.lanes
                    v.store(row, v.place(v.place(out, 2 * HALF * element), offset))
    return Value("void", "")


def _exchanged(v: Pairs, a: Pair, condition: str) -> Pair:
    """With real and imaginary parts in each other's place if the condition holds."""
    first = f"select i1 {condition}, {v.type} {a[1]}, {v.type} {a[0]}"
    second = f"select i1 {condition}, {v.type} {a[0]}, {v.type} {a[1]}"
    return v.code.emit("vector", first).text, v.code.emit("vector", second).text


def join_numbers(code: ExpressionTranslator, node: ast.Call) -> Value:
    """The lower element of `combine_pairs`: a row of numbers k from those and numbers n - k, as they lie in memory."""
    v, (to, low, high, factors) = on_elements(code, node, 4)
    store_pair(v, v.add(*combined(v, v.apart(low), _backwards(v, v.apart(high)), v.pair(factors))), to)
    return Value("void", "")


def split_numbers(code: ExpressionTranslator, node: ast.Call) -> Value:
    """`combine_pairs` for a row of numbers k, where the numbers n - k end with the first of an element."""
    v, (low_to, high_to, low, high, after, factors) = on_elements(code, node, 6)
    before, following = v.pair(high), v.pair(after)
    lanes = [v.lanes, *range(v.lanes - 1, 0, -1)]
    other = v.shuffled(before[0], following[0], lanes), v.shuffled(before[1], following[1], lanes)
    mean, rest = combined(v, v.pair(low), other, v.pair(factors))
    v.put(v.add(mean, rest), low_to)
    v.put(_backwards(v, v.conjugate(v.subtract(mean, rest))), high_to)
    return Value("void", "")


def mirror_numbers(code: ExpressionTranslator, node: ast.Call) -> Value:
    """The conjugates of as many numbers as a vector has lanes, the last one's first."""
    v, (to, source) = on_elements(code, node)
    v.put(v.conjugate(_backwards(v, v.apart(source))), to)
    return Value("void", "")


def _backwards(v: Pairs, a: Pair) -> Pair:
    lanes = list(range(v.lanes - 1, -1, -1))
    return v.shuffled(a[0], "poison", lanes), v.shuffled(a[1], "poison", lanes)
