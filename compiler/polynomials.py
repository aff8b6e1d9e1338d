"""Polynomials over unknown sizes, in one canonical form: equal ones compare equal and hash alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

_KEPT = 1 << 14
"""Results that each operation keeps: a compiler asks the same few questions about the same few sizes all the time."""


class Quotient:
    """An opaque term: `a // b`, `a % b`, `min` or `max` that does not simplify."""

    __slots__ = ("_hash", "a", "b", "op", "text")

    def __init__(self, op: str, a: int | Size, b: int | Size):
        self.op, self.a, self.b = op, a, b
        self.text = f"{op}({a}, {b})" if op in ("min", "max") else f"({_operand(a)} {op} {_operand(b)})"
        self._hash = hash(self.text)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Quotient) and self.text == other.text)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def _operand(x: int | Size) -> str:
    """A size inside of a quotient, in parentheses if it is a sum or a product, so that text parses back as it was."""
    single = isinstance(x, int) or (len(x.terms) == 1 and x.terms[0][1] == 1 and len(x.terms[0][0]) == 1)
    return str(x) if single else f"({x})"


Atom = str | Quotient
Monomial = tuple[Atom, ...]


class Size:
    """A polynomial with integer coefficients: sorted (monomial, coefficient) pairs."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]):
        self.terms = terms
        self._hash = hash(terms)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Size) and self._hash == other._hash and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: int | Size) -> int | Size:
        return add(self, other)

    __radd__ = __add__

    def __mul__(self, other: int | Size) -> int | Size:
        return mul(self, other)

    __rmul__ = __mul__

    def __sub__(self, other: int | Size) -> int | Size:
        return add(self, mul(other, -1))

    def __rsub__(self, other: int | Size) -> int | Size:
        return add(other, mul(self, -1))

    def __neg__(self) -> int | Size:
        return mul(self, -1)

    def __floordiv__(self, other: int | Size) -> int | Size:
        return floordiv(self, other)

    def __rfloordiv__(self, other: int | Size) -> int | Size:
        return floordiv(other, self)

    def __mod__(self, other: int | Size) -> int | Size:
        return mod(self, other)

    def __rmod__(self, other: int | Size) -> int | Size:
        return mod(other, self)

    def __bool__(self) -> bool:
        raise TypeError(f"the size {self} is symbolic: ask sizes.equal or sizes.less")

    def __str__(self) -> str:
        return _print(self)

    __repr__ = __str__


Expr = int | Size


@lru_cache(_KEPT)
def _print(size: Size) -> str:
    """Terms joined by +, factors by *, a coefficient of 1 left out."""
    parts = []
    for monomial, coefficient in size.terms:
        factors = [str(a) for a in monomial]
        if coefficient != 1 or not factors:
            factors.insert(0, str(coefficient))
        parts.append("*".join(factors))
    return " + ".join(parts)


@lru_cache(_KEPT)
def symbol(name: str) -> Size:
    """The size that is one unknown."""
    return Size((((name,), 1),))


def _text(atom: Atom) -> str:
    """What atoms are sorted by."""
    return atom if isinstance(atom, str) else atom.text


def _texts(term: tuple[Monomial, int]) -> list[str]:
    """What terms are sorted by."""
    return [_text(atom) for atom in term[0]]


@lru_cache(_KEPT)
def _atom(op: str, a: Expr, b: Expr) -> Size:
    return Size((((Quotient(op, a, b),), 1),))


def _terms(x: Expr) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(x, Size):
        return x.terms
    return (((), x),) if x else ()


def _build(terms: dict[Monomial, int]) -> Expr:
    kept = [(m, c) for m, c in terms.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    return Size(tuple(sorted(kept, key=_texts) if len(kept) > 1 else kept))


def add(a: Expr, b: Expr) -> Expr:
    """a + b."""
    if isinstance(a, int):
        if isinstance(b, int):
            return a + b
        if a == 0:
            return b
    elif isinstance(b, int) and b == 0:
        return a
    return _sum(a, b)


@lru_cache(_KEPT)
def _sum(a: Expr, b: Expr) -> Expr:
    terms = dict(_terms(a))
    for monomial, coefficient in _terms(b):
        terms[monomial] = terms.get(monomial, 0) + coefficient
    return _build(terms)


def mul(a: Expr, b: Expr) -> Expr:
    """a * b."""
    if isinstance(a, int):
        if isinstance(b, int):
            return a * b
        if a == 1:
            return b
    elif isinstance(b, int) and b == 1:
        return a
    return _product(a, b)


@lru_cache(_KEPT)
def _product(a: Expr, b: Expr) -> Expr:
    terms: dict[Monomial, int] = {}
    for left, p in _terms(a):
        for right, q in _terms(b):
            monomial = tuple(sorted(left + right, key=_text)) if left and right else left or right
            terms[monomial] = terms.get(monomial, 0) + p * q
    return _build(terms)


def exact_quotient(a: Expr, b: Expr) -> Expr | None:
    """a / b where the polynomials show that it is exact, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    return _exact_quotient(a, b)


@lru_cache(_KEPT)
def _exact_quotient(a: Expr, b: Expr) -> Expr | None:
    if a == b:
        return 1
    divisor = _terms(b)
    if len(divisor) != 1:
        return _long_division(a, b) if divisor else None
    atoms, coefficient = divisor[0]
    out: dict[Monomial, int] = {}
    for monomial, c in _terms(a):
        rest = list(monomial)
        for atom in atoms:
            if atom not in rest:
                return None
            rest.remove(atom)
        if c % coefficient:
            return None
        out[tuple(rest)] = c // coefficient
    return _build(out)


_STEPS = 8
"""Terms of a quotient that a long division looks for."""


def _long_division(a: Expr, b: Expr) -> Expr | None:
    """a / b for a divisor of several terms, where it leaves nothing."""
    leading = _leading(b)
    found: Expr = 0
    for _ in range(_STEPS):
        if a == 0:
            return found
        term = exact_quotient(_leading(a), leading)
        if term is None:
            return None
        found, a = add(found, term), add(a, mul(mul(term, b), -1))
    return None


def _leading(x: Expr) -> Expr:
    """The term of highest degree."""
    monomial, coefficient = max(_terms(x), key=lambda term: (len(term[0]), _texts(term)))
    return _build({monomial: coefficient})


def floordiv(a: Expr, b: Expr) -> Expr:
    """Python's a // b."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    exact = exact_quotient(a, b)
    return _atom("//", a, b) if exact is None else exact


def mod(a: Expr, b: Expr) -> Expr:
    """Python's a % b."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    return _atom("%", a, b) if exact_quotient(a, b) is None else 0


def minimum(a: Expr, b: Expr) -> Expr:
    """The smaller one."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return a if a == b else _atom("min", a, b)


def maximum(a: Expr, b: Expr) -> Expr:
    """The larger one."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return a if a == b else _atom("max", a, b)


def product(shape: tuple[Expr, ...]) -> Expr:
    """The number of elements of a shape."""
    out: Expr = 1
    for size in shape:
        out = mul(out, size)
    return out


def evaluate(x: Expr, values: Mapping[str, int]) -> int:
    """The number that x stands for, given every symbol's value."""
    if isinstance(x, int):
        return x
    total = 0
    for monomial, coefficient in x.terms:
        for atom in monomial:
            coefficient *= values[atom] if isinstance(atom, str) else _evaluate_atom(atom, values)
        total += coefficient
    return total


def _evaluate_atom(atom: Quotient, values: Mapping[str, int]) -> int:
    a, b = evaluate(atom.a, values), evaluate(atom.b, values)
    if atom.op == "//":
        return a // b
    if atom.op == "%":
        return a % b
    return min(a, b) if atom.op == "min" else max(a, b)


def least(x: Expr) -> int:
    """A bound that a size of tensors is not below, where sizes named s are at least 2; 0 where more has to be known."""
    if isinstance(x, int):
        return x
    plain = all(c >= 0 and all(isinstance(a, str) and a.startswith("s") for a in atoms) for atoms, c in x.terms)
    return sum(c * 2 ** len(atoms) for atoms, c in x.terms) if plain else 0


def is_symbol(x: Expr) -> bool:
    """Whether x is one unknown by itself."""
    if isinstance(x, int) or len(x.terms) != 1:
        return False
    monomial, coefficient = x.terms[0]
    return coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], str)


def symbols(x: Expr) -> frozenset[str]:
    """The names of the symbols in x."""
    return frozenset() if isinstance(x, int) else _symbols(x)


@lru_cache(_KEPT)
def _symbols(x: Size) -> frozenset[str]:
    found: set[str] = set()
    for monomial, _ in x.terms:
        for atom in monomial:
            found |= {atom} if isinstance(atom, str) else symbols(atom.a) | symbols(atom.b)
    return frozenset(found)


def substitute(x: Expr, values: Mapping[str, Expr]) -> Expr:
    """x with symbols replaced by sizes."""
    if isinstance(x, int):
        return x
    total: Expr = 0
    for monomial, coefficient in x.terms:
        term: Expr = coefficient
        for atom in monomial:
            if isinstance(atom, str):
                term = mul(term, values.get(atom, symbol(atom)))
            else:
                a, b = substitute(atom.a, values), substitute(atom.b, values)
                term = mul(term, OPERATIONS[atom.op](a, b))
        total = add(total, term)
    return total


OPERATIONS = {"//": floordiv, "%": mod, "min": minimum, "max": maximum}


def dominates(a: Expr, b: Expr) -> bool:
    """Whether a >= b for all values of the symbols, as far as the coefficients show it.

    Symbols are sizes and strides, not negative; those that begin with n are a call's Python ints, which may be.
    """
    return a >= b if isinstance(a, int) and isinstance(b, int) else _dominates(a, b)


@lru_cache(_KEPT)
def _dominates(a: Expr, b: Expr) -> bool:
    return _is_natural(add(a, mul(b, -1)))


def _is_natural(x: Expr) -> bool:
    """Whether no term of x can be negative."""
    if isinstance(x, int):
        return x >= 0
    return all(c >= 0 and all(map(_is_natural_atom, atoms)) for atoms, c in x.terms)


def _is_natural_atom(atom: Atom) -> bool:
    if isinstance(atom, str):
        return not atom.startswith("n")
    if atom.op == "%":
        return _is_natural(atom.b)
    either = any if atom.op == "max" else all
    return either(map(_is_natural, (atom.a, atom.b)))


def without_common_factors(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Two equal products without the factors that they share; sizes named s are not 0."""
    left, right = _terms(a), _terms(b)
    if len(left) != 1 or len(right) != 1:
        return a, b
    common = math.gcd(left[0][1], right[0][1])
    rest, shared = list(right[0][0]), []
    for atom in left[0][0]:
        if atom in rest:
            rest.remove(atom)
            shared.append(atom)
    if not all(isinstance(atom, str) and atom.startswith("s") for atom in shared):
        return a, b
    factor = _build({tuple(shared): common})
    quotients = exact_quotient(a, factor), exact_quotient(b, factor)
    return (a, b) if None in quotients else quotients  # type: ignore[return-value]
