"""Sizes: whatever the algebra does to an expression, its value stays what Python computes."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagerjit.compiler import sizes
from eagerjit.compiler.size_text import parse
from eagerjit.compiler.unify import replacements

NAMES = ("s0", "s1", "t2", "n3")
OPERATIONS = {
    "+": (sizes.add, operator.add),
    "-": (operator.sub, operator.sub),
    "*": (sizes.mul, operator.mul),
    "//": (sizes.floordiv, operator.floordiv),
    "%": (sizes.mod, operator.mod),
    "min": (sizes.minimum, min),
    "max": (sizes.maximum, max),
}
LEAVES = st.one_of(st.sampled_from(NAMES), st.integers(-5, 9))
TREES = st.recursive(LEAVES, lambda t: st.tuples(st.sampled_from(sorted(OPERATIONS)), t, t), max_leaves=10)
VALUES = st.fixed_dictionaries(
    {"s0": st.integers(0, 30), "s1": st.integers(0, 30), "t2": st.integers(0, 30), "n3": st.integers(-30, 30)}
)
s0, s1, n3 = map(sizes.symbol, ("s0", "s1", "n3"))


def build(tree):
    """The size that a tree of operations denotes; None where a constant is divided by zero."""
    if isinstance(tree, str):
        return sizes.symbol(tree)
    if isinstance(tree, int):
        return tree
    a, b = build(tree[1]), build(tree[2])
    if a is None or b is None or (tree[0] in ("//", "%") and b == 0):
        return None
    return OPERATIONS[tree[0]][0](a, b)


def calculate(tree, values):
    """The number that the tree denotes; None where something is divided by zero."""
    if isinstance(tree, str):
        return values[tree]
    if isinstance(tree, int):
        return tree
    a, b = calculate(tree[1], values), calculate(tree[2], values)
    if a is None or b is None or (tree[0] in ("//", "%") and b == 0):
        return None
    return OPERATIONS[tree[0]][1](a, b)


@given(TREES, VALUES)
def test_algebra_keeps_values(tree, values):
    size, number = build(tree), calculate(tree, values)
    if size is not None and number is not None:
        assert sizes.evaluate(size, values) == number


@given(TREES)
def test_text_parses_back(tree):
    size = build(tree)
    if size is not None:
        assert parse(str(size)) == size


@given(TREES, VALUES)
def test_substituted_numbers_evaluate(tree, values):
    size, number = build(tree), calculate(tree, values)
    if size is not None and number is not None:
        assert sizes.substitute(size, values) == number


@given(TREES, st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9)))
def test_substitution_leaves_only_unnamed_symbols(tree, values):
    size = build(tree)
    if size is None:
        return
    try:
        rest = sizes.substitute(size, values)
    except ZeroDivisionError:
        return
    assert sizes.symbols(rest) <= sizes.symbols(size) - values.keys()


@given(TREES, TREES, VALUES)
def test_dominating_is_never_less(a, b, values):
    left, right = build(a), build(b)
    x, y = calculate(a, values), calculate(b, values)
    if None not in (left, right, x, y) and sizes.dominates(left, right):
        assert x >= y


@given(TREES, TREES, VALUES)
def test_exact_quotient_divides(a, b, values):
    left, right = build(a), build(b)
    x, y = calculate(a, values), calculate(b, values)
    if None in (left, right, x, y) or right == 0 or y == 0:
        return
    quotient = sizes.exact_quotient(left, right)
    if quotient is not None and calculable(quotient, values):
        assert sizes.evaluate(quotient, values) * y == x


def calculable(size, values):
    try:
        sizes.evaluate(size, values)
    except ZeroDivisionError:
        return False
    return True


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (s0, "s0"),
        (s0 * 2 + 1, "1 + 2*s0"),
        (s1 * s0 - s0, "-1*s0 + s0*s1"),
        ((s0 + 1) // 2 * 3, "3*((1 + s0) // 2)"),
        (s0 % 4, "(s0 % 4)"),
        (s0 // (s1 % 4), "(s0 // (s1 % 4))"),
        (sizes.minimum(s0 + 1, 7), "min(1 + s0, 7)"),
    ],
)
def test_text(size, text):
    assert str(size) == text


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (s0 * s1 // s1, s0),
        ((s0 * 6 + s0 * s1 * 4) // (2 * s0), s1 * 2 + 3),
        (s0 * 4 % 2, 0),
        (s0 - s0, 0),
        (s0 + s1 - s0, s1),
        (sizes.maximum(s0, s0), s0),
    ],
)
def test_simplifies(size, expected):
    assert size == expected
    assert type(size) is type(expected)


@pytest.mark.parametrize("text", ["s0 / 2", "f(s0)", "1.5", "s0 if s1 else 2", "~s0"])
def test_other_text_is_no_size(text):
    with pytest.raises(ValueError, match="not a size"):
        parse(text)


def test_a_size_has_no_truth_value():
    with pytest.raises(TypeError, match="symbolic"):
        bool(s0)


@pytest.fixture
def assumptions():
    before = sizes.active.assumptions
    sizes.active.assumptions = sizes.Assumptions({"s0": 5, "s1": 5, "n3": -1}, where=lambda: "user.py:3")
    yield sizes.active.assumptions
    sizes.active.assumptions = before


def test_what_algebra_settles_needs_no_guard(assumptions):
    assert sizes.equal(s0 + 1, 1 + s0)
    assert not sizes.equal(s0, s0 + 1)
    assert not sizes.less(s0 * s1 + 2, s0 * s1)
    assert sizes.less(s0, s0 + 1)
    assert not sizes.less(s0, 0)
    assert not assumptions.guards


def test_what_this_call_settles_is_guarded(assumptions):
    assert sizes.equal(s0, s1)
    assert not sizes.less(s0, 3)
    assert sizes.less(n3, 0)
    assert list(map(str, assumptions.guards)) == ["s0 == s1", "not s0 < 3", "n3 < 0"]
    assert {g.source for g in assumptions.guards} == {"user.py:3"}


def test_without_a_call_nothing_is_assumed():
    assert not sizes.equal(s0, s1)
    with pytest.raises(ValueError, match="s0 < s1 is not known"):
        sizes.less(s0, s1)


def test_a_hint_leaves_no_guard(assumptions):
    assert sizes.hint(s0 * 2 + sizes.symbol("unheard_of")) == 74
    assert not assumptions.guards


@given(TREES, VALUES)
def test_products_are_replaced_by_what_they_equal(tree, values):
    size = build(tree)
    if size is None or values["t2"] == 0 or values["s0"] * values["s1"] % values["t2"]:
        return
    known = {**values, "s4": values["s0"] * values["s1"] // values["t2"], "s5": values["t2"]}
    try:
        expected = sizes.evaluate(size, known)
    except ZeroDivisionError:
        return
    (monomial, _) = sizes.mul(s0, s1).terms[0]
    replaced = sizes.with_products(size, {monomial: sizes.mul(sizes.symbol("s4"), sizes.symbol("s5"))})
    assert sizes.evaluate(replaced, known) == expected
    if not isinstance(size, int):
        assert not any({"s0", "s1"} <= {*atoms} for atoms, _ in getattr(replaced, "terms", ()))


def test_products_that_guards_say_are_equal():
    a, b, c, d = map(sizes.symbol, ("s0", "s1", "s3", "s4"))
    both = sizes.mul(a, b), sizes.mul(c, d)
    assert sizes.solved_product(*both) == sizes.solved_product(*both[::-1]) == (both[1].terms[0][0], both[0])
    assert sizes.solved_product(a, both[1]) == (both[1].terms[0][0], a)
    assert sizes.solved_product(sizes.mul(2, a), both[1]) == (both[1].terms[0][0], sizes.mul(2, a))
    assert sizes.solved_product(a, sizes.mul(2, both[1])) is None and sizes.solved_product(6, both[1]) is None
    assert sizes.solved_product(sizes.symbol("n5"), both[1]) is None


def test_sizes_known_at_the_beginning_are_not_replaced_by_measured_ones():
    early, late = sizes.symbol("s5"), sizes.symbol("s2")
    equal = [sizes.Guard("==", early, late, True, "")]
    assert replacements(equal) == {"s5": late}
    assert replacements(equal, {"s2"}) == {}
    assert replacements(equal, {"s2", "s5"}) == {"s5": late}
    assert replacements([sizes.Guard("==", late, early, True, "")], {"s5"}) == {"s5": late}
    assert replacements([sizes.Guard("==", early, late, False, ""), sizes.Guard("<", early, late, True, "")]) == {}
