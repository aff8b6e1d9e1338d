"""Long rows whose exponentials are summed, read once: the sum is scaled anew where the maximum rises.

    maximum over x            for each x:  top = max(top before, x)
    sum of exp_sub(x, m)  ->               sum = sum * exp(top before - top) + exp(x - top)

Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018). Every lane has a maximum and a sum of its
own, which are put together at the end. So are all sums of `exp_sub` over long rows computed, those that have their
maximum from elsewhere too: they have the same bits. A short row is a block that registers hold: it needs none of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from eagerjit.compiler.loops import Accumulate, Init, Let, Load, Loop, Stmt, Store, walk
from eagerjit.runtime.records import record, replace


@record(frozen=True)
class Exponentials:
    """What an accumulator is the sum of: of exp_sub(value, less), of which every lane has a largest value."""

    value: str
    less: str
    largest: str


@record(frozen=True)
class OnePass:
    """A task's statements with two loops as one: what its loop accumulates in `maximum` it takes for `total` too."""

    body: tuple[Stmt, ...]
    maximum: str
    total: str


def exponentials(body: Sequence[Stmt]) -> dict[str, Exponentials]:
    """The accumulators of a task that are sums of exponentials in single precision."""
    sums = {s.name for s in walk(body) if isinstance(s, Init) and (s.op, s.dtype) == ("add", "f32")}
    found: dict[str, Exponentials] = {}
    for loop in walk(body):
        if isinstance(loop, Loop) and loop.kind == "vector":
            made = {s.name: s.args for s in loop.body if isinstance(s, Let) and (s.op, s.dtype) == ("exp_sub", "f32")}
            for s in loop.body:
                if isinstance(s, Accumulate) and s.name in sums and s.value in made:
                    value, less = made[s.value]
                    found[s.name] = Exponentials(value, less, f"{s.name}_top")
    return found


def one_pass(body: Sequence[Stmt]) -> OnePass | None:
    """How a task reads a row once; None where it has no two such loops."""
    inits = {s.name: s for s in body if isinstance(s, Init)}
    sums = exponentials(body)
    vectors = [s for s in body if isinstance(s, Loop) and s.kind == "vector"]
    for first, second in pairwise(vectors):
        top, total = first.body[-1], second.body[-1]
        if not isinstance(top, Accumulate) or not isinstance(total, Accumulate) or total.name not in sums:
            continue
        kind = inits[top.name].op, inits[top.name].dtype
        written = {s.param for s in walk(body[body.index(first) : body.index(second)]) if isinstance(s, Store)}
        read = {s.param for s in first.body if isinstance(s, Load)}
        if kind == ("maximum", "f32") and _is_of(sums[total.name], first, second) and not written & read:
            init, place = inits[total.name], body.index(first)
            kept = [[s for s in part if s is not second and s is not init] for part in (body[:place], body[place:])]
            return OnePass((*kept[0], init, *kept[1]), top.name, total.name)
    return None


def _is_of(total: Exponentials, first: Loop, second: Loop) -> bool:
    """Whether the second loop sums exponentials of the values whose maximum the first one finds, and does no more."""
    if (first.start, first.stop, first.lanes) != (second.start, second.stop, second.lanes) or len(second.body) < 2:
        return False
    *reads, highest = first.body
    *again, _, _ = second.body
    names = _same(reads, again, {first.var: second.var})
    if names is None or not isinstance(highest, Accumulate):
        return False
    return total.value == names.get(highest.value) and total.less not in names.values()


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
