"""The machine code of Fourier transforms of one line: an element is a row of as many numbers as a vector has lanes.

The first stage's butterflies are side by side and their outputs are turned, so that those of each lie in a row. From
then on neighbours have the same factors, and stages do what they do with lanes of different lines.
"""

from __future__ import annotations

import ast

from eagerjit.runtime.native.expressions import ExpressionTranslator, Value
from eagerjit.runtime.native.fourier_code import HALF, Pair, Pairs, on_elements, separated, store_pair, transformed
from eagerjit.runtime.native.vector_code import loop

FIRST_RADIX = 8
"""Of the first stage."""


def fourier_start(code: ExpressionTranslator, node: ast.Call) -> Value:
    """The first stage of a line: butterflies `groups` numbers apart."""
    kinds = ("i64", "ptr", "ptr", "ptr", "i64", "ptr", "i64")
    given = [code.typed(argument, kind).text for argument, kind in zip(node.args[1:], kinds, strict=True)]
    groups, to, reals, imaginary, step, roots, swap = given
    v = Pairs(code, code.constant(node.args[0], "whether numbers are doubles"))
    other = code.emit("i64", f"sub i64 {HALF}, {swap}").text
    count = code.emit("i64", f"udiv i64 {groups}, {v.lanes}").text
    far = code.emit("i64", f"mul i64 {count}, {step}").text
    with loop(code, count) as at:
        before = code.emit("i64", f"mul i64 {at}, {step}").text
        values = []
        for k in range(FIRST_RADIX):
            place = code.emit("i64", f"add i64 {before}, {code.emit('i64', f'mul i64 {far}, {k}').text}").text
            values.append((v.load(v.place(reals, place)), v.load(v.place(imaginary, place))))
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


def separate_numbers(code: ExpressionTranslator, node: ast.Call) -> Value:
    """`separate_pairs` for a row of numbers k, where the numbers n - k end with the first of an element."""
    v, (first, second, low, high, after) = on_elements(code, node, 5)
    separated(v, v.pair(low), _backwards(v, high, after), first, second)
    return Value("void", "")


def join_numbers(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Numbers k of a + i b from those of a and b, spectra of real signals."""
    v, (to, first, second) = on_elements(code, node, 3)
    store_pair(v, v.plus_i(v.pair(first), v.pair(second)), to)
    return Value("void", "")


def join_conjugates(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Numbers k of a + i b from numbers n - k of a and b, each of which end with the first of an element."""
    v, (to, first, first_after, second, second_after) = on_elements(code, node, 5)
    a, b = _backwards(v, first, first_after), _backwards(v, second, second_after)
    store_pair(v, v.plus_i((a[0], v.negative(a[1])), (b[0], v.negative(b[1]))), to)
    return Value("void", "")


def _backwards(v: Pairs, element: str, after: str) -> Pair:
    """The first number of an element and then the last ones of that before it."""
    lanes = [v.lanes, *range(v.lanes - 1, 0, -1)]
    before, following = v.pair(element), v.pair(after)
    return v.shuffled(before[0], following[0], lanes), v.shuffled(before[1], following[1], lanes)
