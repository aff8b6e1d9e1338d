"""Long rows whose exponentials are summed, read once: the sum is scaled anew where the maximum rises.

    maximum over x          for each x:  top = max(top before, x)
    sum of exp(x - m)  ->                sum = sum * exp(top before - top) + exp(x - top)

Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018). Every lane has a maximum and a sum of its
own, which are put together at the end. A short row is a block that registers hold: it needs none of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from eagerjit.compiler.loops import Accumulate, Finish, Init, Let, Load, Loop, Stmt, Store, walk


@dataclass(frozen=True, slots=True)
class Rescale:
    """Accumulates a value in the accumulator `maximum`, and its exponential over the maximum's in `total`."""

    maximum: str
    total: str
    value: str


@dataclass(frozen=True, slots=True)
class FinishScaled:
    """The finish of that sum, of exponentials of values less `less`."""

    finish: Finish
    maximum: str
    less: str


def merged(body: Sequence[Stmt]) -> list[Any]:
    """A task's statements, with two loops of this kind as one."""
    inits = {s.name: s for s in body if isinstance(s, Init)}
    vectors = [s for s in body if isinstance(s, Loop) and s.kind == "vector"]
    for first, second in pairwise(vectors):
        less = _subtracted(first, second)
        if less is None:
            continue
        (*reads, highest), added = first.body, second.body[-1]
        assert isinstance(highest, Accumulate) and isinstance(added, Accumulate)
        kinds = [(inits[a.name].op, inits[a.name].dtype) for a in (highest, added)]
        between = body[body.index(first) : body.index(second)]
        written = {s.param for s in walk(between) if isinstance(s, Store)}
        if kinds != [("maximum", "f32"), ("add", "f32")] or written & {s.param for s in reads if isinstance(s, Load)}:
            continue
        one = replace(first, body=(*reads, Rescale(highest.name, added.name, highest.value)))  # type: ignore[arg-type]
        found = list[Any]()
        for s in body:
            if s is first:
                found += [inits[added.name], one]
            elif isinstance(s, Finish) and s.accumulator == added.name:
                found.append(FinishScaled(s, highest.name, less))
            elif s is not second and s is not inits[added.name]:
                found.append(s)
        return found
    return list(body)


def _subtracted(first: Loop, second: Loop) -> str | None:
    """What the second loop takes off the values whose maximum the first one finds; None where they do other things."""
    if (first.start, first.stop, first.lanes) != (second.start, second.stop, second.lanes) or len(second.body) < 3:
        return None
    *reads, highest = first.body
    *again, difference, exponential, added = second.body
    names = _same(reads, again, {first.var: second.var})
    if names is None or not isinstance(highest, Accumulate) or not isinstance(added, Accumulate):
        return None
    match difference, exponential:
        case Let(d, "sub", (value, less), "f32"), Let(e, "exp", (given,), "f32"):
            same = value == names.get(highest.value) and given == d and added.value == e
            return less if same and less not in names.values() else None
    return None


def _same(one: Sequence[Stmt], other: Sequence[Stmt], names: dict[str, str]) -> Mapping[str, str] | None:
    """The second's names of the first's values, where both read and compute the same."""
    if len(one) != len(other):
        return None
    for a, b in zip(one, other, strict=True):
        match a, b:
            case Let(), Let():
                same = replace(a, args=tuple(names.get(x, x) for x in a.args), name=b.name) == b
            case Load(), Load():
                same = replace(a, index=tuple((names.get(x, x), step) for x, step in a.index), name=b.name) == b
            case _:
                return None
        if not same:
            return None
        names[a.name] = b.name
    return names
