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

from eagerjit.compiler.loops import Accumulate, Init, Let, Load, Loop, Stmt, Store, walk


@dataclass(frozen=True, slots=True)
class OnePass:
    """A task's statements with the two loops as one: what its loop accumulates in `maximum` it takes for `total` too.

    `less` is what `total` is to be the sum of exponentials of values less of.
    """

    body: tuple[Stmt, ...]
    maximum: str
    total: str
    less: str


def one_pass(body: Sequence[Stmt]) -> OnePass | None:
    """How a task reads a row once; None where it has no two such loops."""
    inits = {s.name: s for s in body if isinstance(s, Init)}
    vectors = [s for s in body if isinstance(s, Loop) and s.kind == "vector"]
    for first, second in pairwise(vectors):
        less, top, total = _subtracted(first, second), first.body[-1], second.body[-1]
        if less is None or not isinstance(top, Accumulate) or not isinstance(total, Accumulate):
            continue
        kinds = [(inits[a.name].op, inits[a.name].dtype) for a in (top, total)]
        written = {s.param for s in walk(body[body.index(first) : body.index(second)]) if isinstance(s, Store)}
        read = {s.param for s in first.body if isinstance(s, Load)}
        if kinds == [("maximum", "f32"), ("add", "f32")] and not written & read:
            init, place = inits[total.name], body.index(first)
            kept = [[s for s in part if s is not second and s is not init] for part in (body[:place], body[place:])]
            return OnePass((*kept[0], init, *kept[1]), top.name, total.name, less)
    return None


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
