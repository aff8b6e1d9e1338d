"""Loads and stores before their addresses are written out."""

from __future__ import annotations

from eagerjit.compiler.affine import Affine
from eagerjit.runtime.dtypes import REAL_OF
from eagerjit.runtime.records import record

PARTS = {complex_.short: real.short for complex_, real in REAL_OF.items()}
"""What the parts of complex numbers are."""


@record(frozen=True)
class Access:
    """A load or store before its address is written out: `into` is a value's name, or None for a store of `value`.

    A `second` value goes to the element after it.
    """

    param: str
    place: Affine
    dtype: str
    into: str | None
    value: str = ""
    second: str = ""


@record(frozen=True)
class Position:
    """An affine function of the loop variables as an i64 value."""

    into: str
    place: Affine


@record(frozen=True)
class Indexed:
    """A load (or a store of `value`) at an affine address plus a computed index times a stride."""

    param: str
    place: Affine
    index: str
    stride: int | str
    dtype: str
    into: str | None
    value: str = ""


def parts(place: Affine) -> tuple[Affine, Affine]:
    """Where the parts of a complex number lie, counted in parts."""
    re = place.scaled(2)
    return re, re.plus(Affine((), 1))
