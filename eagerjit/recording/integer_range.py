"""Integers of a call are 64 bits wide in compiled code, and as wide as they need to be in Python's."""

from __future__ import annotations

from collections.abc import Callable

from eagerjit.compiler import sizes

_LIMITS = tuple(2**bits for bits in (62, 52, 40, 31, 20, 15, 12))
_SIZE, _ELEMENTS = 2**31, 2**40
"""What one size is below, and what a product of several is: no guard asks."""


def equal(a: sizes.Expr, b: sizes.Expr) -> bool:
    """Whether integers are equal: as a number of a call, which has 64 bits, and one of more bits never are."""
    return not is_wide(b) and sizes.equal(a, b)


def less(a: sizes.Expr, b: sizes.Expr) -> bool:
    """Whether an integer is less than another, where one may have more bits than numbers of a call have."""
    if is_wide(a) or is_wide(b):
        return a < 0 if is_wide(a) else b > 0  # type: ignore[operator]
    return sizes.less(a, b)


def is_wide(value: object) -> bool:
    """Whether this is a known int of more than 64 bits."""
    return isinstance(value, int) and not -(2**63) <= value < 2**63


Operation = Callable[[sizes.Expr, sizes.Expr], sizes.Expr]


def in_range(function: Operation) -> Operation:
    """An operation whose result is an int64 in every call, as guards see to; else it raises OverflowError."""

    def calculate(a: sizes.Expr, b: sizes.Expr) -> sizes.Expr:
        result = function(a, b)
        if not _is_in_range(result):
            raise OverflowError
        return result

    return calculate


def _is_in_range(result: sizes.Expr) -> bool:
    """Whether a result is an int64 in this call and in all for which the symbols in it stay below the same limit."""
    if isinstance(result, int) or sizes.is_symbol(result):
        return True
    limit = next((x for x in _LIMITS if _magnitude(result, x) < 2**63), None)
    return limit is not None and all(_is_below(name, limit) for name in sorted(_limited(result)))


def _is_below(name: str, limit: int) -> bool:
    symbol = sizes.symbol(name)
    return sizes.less(symbol, limit) and (not _is_number(name) or sizes.less(-limit, symbol))


def _is_number(name: str) -> bool:
    """Whether a symbol is no size of a tensor: it may be negative, and of any magnitude."""
    return name.startswith("n")


def _limited(value: sizes.Expr) -> set[str]:
    """The symbols on whose magnitude an expression's depends."""
    if isinstance(value, int):
        return set()
    powers = {s for monomial, _ in value.terms if _is_power(monomial) for atom in monomial for s in _symbols(atom)}
    return powers | {s for s in sizes.symbols(value) if _is_number(s)}


def _symbols(atom: sizes.Atom) -> frozenset[str]:
    return sizes.symbols(sizes.Size((((atom,), 1),)))


def _is_power(monomial: sizes.Monomial) -> bool:
    """Whether it is no product of sizes as tensors have them."""
    return any(monomial.count(atom) > 2 for atom in monomial)


def _magnitude(value: sizes.Expr, limit: int) -> int:
    """How large an expression may become whose limited symbols are below a limit."""
    if isinstance(value, int):
        return abs(value)
    return sum(abs(coefficient) * _product(monomial, limit) for monomial, coefficient in value.terms)


def _product(monomial: sizes.Monomial, limit: int) -> int:
    power, total, extents = _is_power(monomial), 1, 0
    for atom in monomial:
        if power or any(map(_is_number, _symbols(atom))):
            parts = (atom.a, atom.b) if isinstance(atom, sizes.Quotient) else ()
            total *= max((_magnitude(part, limit) for part in parts), default=limit)
        else:
            extents += 1
    return total * (1, _SIZE, _ELEMENTS)[min(extents, 2)]


def subtract(a: sizes.Expr, b: sizes.Expr) -> sizes.Expr:
    """a - b."""
    return sizes.add(a, sizes.mul(b, -1))


def checked_division(function: Operation, pythons: Callable[[int, int], int]) -> Operation:
    """Division that raises Python's error for a zero divisor and assumes otherwise from then on."""

    def divide(a: sizes.Expr, b: sizes.Expr) -> sizes.Expr:
        if sizes.equal(b, 0):
            pythons(1, 0)
        if isinstance(b, int) and not -(1 << 63) <= b < 1 << 63:
            raise OverflowError("int too big to convert")
        return function(a, b) if isinstance(b, int) and b != -1 else in_range(function)(a, b)

    return divide
