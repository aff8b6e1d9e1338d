"""Sizes: integers known only at run time, as canonical polynomials over symbols.

A size is an `int` or a `Size`. Arithmetic on constants gives ints back, so `isinstance(x, int)` means "known". Equal
polynomials compare equal and hash alike, which settles most questions a compiler asks about shapes without knowing
them. What it cannot settle is answered from the sizes of the call being traced, and the answer becomes a guard
(`Assumptions`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from eagerjit.compiler.polynomials import (
    OPERATIONS,
    Atom,
    Expr,
    Monomial,
    Quotient,
    Size,
    add,
    dominates,
    evaluate,
    exact_quotient,
    floordiv,
    is_symbol,
    least,
    maximum,
    minimum,
    mod,
    mul,
    product,
    substitute,
    symbol,
    symbols,
    without_common_factors,
)
from eagerjit.runtime.records import record

__all__ = [
    "Assumptions", "Atom", "Expr", "Guard", "Monomial", "Quotient", "Size", "active", "add", "after_recording",
    "dominates", "equal", "evaluate", "exact_quotient", "floordiv", "hint", "is_symbol", "least", "less", "maximum",
    "minimum", "mod", "mul", "order", "pinned", "product", "simplified", "solved", "solved_product",
    "substitute", "symbol", "symbols", "with_products", "without_common_factors",
]  # fmt: skip


@record(frozen=True)
class Guard:
    """A fact about sizes that a trace relied on: `a == b` or `a < b` came out as `holds`, at the `source` line."""

    relation: str
    a: Expr
    b: Expr
    holds: bool
    source: str = ""

    def replaced(self, values: Mapping[str, Expr]) -> Guard:
        """The same fact with symbols replaced."""
        return Guard(self.relation, substitute(self.a, values), substitute(self.b, values), self.holds, self.source)

    def is_certain(self) -> bool:
        """Whether algebra alone shows it."""
        difference = add(self.a, mul(self.b, -1))
        if not isinstance(difference, int):
            return False
        return (difference == 0 if self.relation == "==" else difference < 0) == self.holds

    def __str__(self) -> str:
        return f"{'' if self.holds else 'not '}{self.a} {self.relation} {self.b}"


def solved(a: Expr, b: Expr) -> tuple[str, Expr] | None:
    """(symbol, value) for a == b where `a` is a symbol and `b` is known before it."""
    if isinstance(a, int) or not is_symbol(a):
        return None
    name = str(a)
    return (name, b) if all(order(s) < order(name) for s in symbols(b)) else None


def solved_product(a: Expr, b: Expr) -> tuple[Monomial, Expr] | None:
    """(product, value) for a == b where `a` or `b` is a product of dimensions and the other is known before it."""
    for product_, value in ((a, b), (b, a)):
        if not isinstance(product_, Size) or not isinstance(value, Size) or len(product_.terms) != 1:
            continue
        ((atoms, coefficient),) = product_.terms
        dimensions = all(s.startswith("s") for s in (*symbols(product_), *symbols(value)))
        if coefficient == 1 and dimensions and all(isinstance(atom, str) for atom in atoms):
            if max(map(order, symbols(value))) < max(map(order, symbols(product_))):
                return atoms, value
    return None


def with_products(x: Expr, products: Mapping[Monomial, Expr]) -> Expr:
    """x with products of symbols replaced by sizes; each is replaced once."""
    for atoms, value in products.items():
        if isinstance(x, int):
            return x
        total: Expr = 0
        for monomial, coefficient in x.terms:
            term: Expr = coefficient
            rest = Counter(monomial) - Counter(atoms)
            if rest.total() + len(atoms) == len(monomial):
                term = mul(term, value)
                monomial = tuple(rest.elements())
            for atom in monomial:
                if isinstance(atom, str):
                    term = mul(term, symbol(atom))
                else:
                    a, b = with_products(atom.a, {atoms: value}), with_products(atom.b, {atoms: value})
                    term = mul(term, OPERATIONS[atom.op](a, b))
            total = add(total, term)
        x = total
    return x


def order(name: str) -> int:
    """When a symbol was made."""
    return int(name[1:])


@record
class Assumptions:
    """The sizes of the call being traced, and what the trace took from them.

    hints   every symbol's number in this call
    guards  what was asked, and the answers
    facts   symbols that guards say are something known before them
    settled what has been computed from nodes and the facts, once the recording has ended
    """

    hints: dict[str, int] = field(default_factory=dict)
    guards: dict[Guard, None] = field(default_factory=dict)
    where: object = None
    facts: dict[str, Expr] = field(default_factory=dict)
    settled: dict[Any, Any] | None = None

    def decide(self, relation: str, a: Expr, b: Expr) -> bool:
        """Answer from this call's sizes, and remember that the answer was used."""
        left, right = evaluate(a, self.hints), evaluate(b, self.hints)
        holds = left == right if relation == "==" else left < right
        source = self.where() if callable(self.where) else ""
        self.guards[Guard(relation, a, b, holds, source)] = None
        if relation == "==" and holds:
            self._learn(substitute(a, self.facts), substitute(b, self.facts), source)
        return holds

    def _learn(self, a: Expr, b: Expr, source: str) -> None:
        a, b = without_common_factors(a, b)
        found = solved(a, b) or solved(b, a)
        if found is None:
            return
        name, value = found
        if name[0] in "dn" or all(s[0] not in "dn" for s in symbols(value)):  # a count is known when the call runs
            self.facts = {k: substitute(v, {name: value}) for k, v in self.facts.items()}
            self.facts[name] = value
            if self.settled is not None:
                self.settled.clear()
            known = symbol(name)
            if not any((g.a, g.b) in ((known, value), (value, known)) for g in self.guards):
                # What is compiled has to follow from the guards alone.
                self.guards[Guard("==", known, value, True, source)] = None


class _Active(threading.local):
    assumptions: Assumptions | None = None


active = _Active()


@contextmanager
def after_recording(hints: Mapping[str, int]) -> Iterator[None]:
    """Compile what was recorded: its facts have been put in place, and new answers would come too late to be guards."""
    before, active.assumptions = active.assumptions, Assumptions(dict(hints), settled={})
    try:
        yield
    finally:
        active.assumptions = before


def simplified(x: Expr) -> Expr:
    """A size as what the trace has found it to be."""
    assumptions = active.assumptions
    if isinstance(x, int) or assumptions is None or not assumptions.facts:
        return x
    return x if symbols(x).isdisjoint(assumptions.facts) else substitute(x, assumptions.facts)


def pinned(x: Expr) -> int:
    """This call's number of a size, which the trace is tied to."""
    assert active.assumptions is not None
    for name in sorted(symbols(x)):
        equal(symbol(name), active.assumptions.hints[name])
    return evaluate(x, active.assumptions.hints)


def equal(a: Expr, b: Expr) -> bool:
    """a == b: by algebra, else by this call's sizes with a guard, else False."""
    if a is b or a == b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return False
    a, b = simplified(a), simplified(b)
    difference = add(a, mul(b, -1))
    if isinstance(difference, int):
        return difference == 0
    return active.assumptions.decide("==", a, b) if active.assumptions else False


def less(a: Expr, b: Expr) -> bool:
    """a < b, in the same way."""
    a, b = simplified(a), simplified(b)
    difference = add(a, mul(b, -1))
    if isinstance(difference, int):
        return difference < 0
    if dominates(a, b):
        return False
    if active.assumptions is None:
        raise ValueError(f"{a} < {b} is not known")
    return active.assumptions.decide("<", a, b)


def hint(x: Expr) -> int:
    """The value of x in the call being traced, without a guard: for heuristics only."""
    if isinstance(x, int):
        return x
    known = active.assumptions.hints if active.assumptions else {}
    return evaluate(x, {name: known.get(name, 64) for name in symbols(x)})
