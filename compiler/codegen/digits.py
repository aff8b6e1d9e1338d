"""Tasks that are numbered over dimensions: `rem t s` and `floordiv t s` count along with t.

Two divisions take as long as a row of a few elements. So only the first task's number is divided; its indices are
carried through the loop: the last one goes up with the task, and where it reaches its size begins again at 0 and moves
the one before it up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eagerjit.compiler.codegen import integer
from eagerjit.compiler.codegen.builder import Value
from eagerjit.compiler.loops import Let, Loop
from eagerjit.runtime.records import record


@record(frozen=True)
class Digit:
    """A size, and the names that `rem` and `floordiv` by it have in the loop, if they are asked for."""

    size: str
    rem: str | None
    above: str | None


@record(frozen=True)
class Digits:
    """The indices of a task, last dimension first. A state holds them all, and what the last division leaves."""

    found: tuple[Digit, ...]
    sizes: tuple[Value, ...]

    def first(self, task: Value) -> list[Value]:
        """The state of the first task; nothing where its number is not taken apart."""
        if not self.found:
            return []
        state = []
        for size in self.sizes:
            above = integer.divide(task, size)
            state.append(task - above * size)
            task = above
        return [*state, task]

    def following(self, state: Sequence[Value], count: Value) -> list[Value]:
        """The state `count` tasks on, which must not lie beyond the last index's next beginning."""
        if not self.found:
            return []
        following, carry = [], count
        for index, size in zip(state[:-1], self.sizes, strict=True):
            raised = index + carry
            full = raised.eq(size)
            following.append(raised.builder.select(full, 0, raised))
            carry = raised.builder.convert("zext", full, "i64")
        return [*following, state[-1] + carry]

    def values(self, state: Sequence[Value]) -> dict[str, Value]:
        """What the statements' names stand for."""
        named: dict[str, Value] = {}
        above = state[-1:]
        for digit, size, index in reversed(list(zip(self.found, self.sizes, state[:-1], strict=True))):
            if digit.above:
                named[digit.above] = above[0]
            if digit.rem:
                named[digit.rem] = index
            above = [above[0] * size + index]
        return named


def digits(loop: Loop, values: Mapping[str, Value]) -> Digits:
    """How a loop over tasks takes their numbers apart, by sizes that are known before it."""
    found: list[Digit] = []
    number: str | None = loop.var
    while number and (digit := _digit(loop, number)) and digit.size in values:
        found.append(digit)
        number = digit.above
    return Digits(tuple(found), tuple(values[digit.size] for digit in found))


def _digit(loop: Loop, number: str) -> Digit | None:
    """The statements that divide a number by the size that does so first."""
    lets = [s for s in loop.body if isinstance(s, Let) and s.op in ("rem", "floordiv") and s.args[0] == number]
    if not lets:
        return None
    size = lets[0].args[1]
    named = {s.op: s.name for s in lets if s.args[1] == size}
    return Digit(size, named.get("rem"), named.get("floordiv"))
