"""Kernels of rows that lie across memory: consecutive tasks are the lanes.

Task t reduces `P[... + t + i*S]` over i: strided, although task t + 1 wants the elements beside them. So as many tasks
as a cache line has elements are run together, every statement once for all of them, and the loop over i takes one
element of each at a time. An accumulator, whose lanes are elements of the loop, then has as many vectors as lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eagerjit.compiler.codegen.builder import BITS
from eagerjit.compiler.codegen.transpose import wrapping
from eagerjit.compiler.loops import Accumulate, Check, Finish, Index, Init, Let, Load, Loop, Stmt, Store, walk

_LINE = 64
"""Bytes of a cache line: what one step of a loop reads."""

_KINDS = (Let, Load, Store, Init, Accumulate, Finish, Check, Loop)


@dataclass(frozen=True, slots=True)
class Plan:
    """How many tasks run together, and the `rem` and `floordiv` statements that number them over dimensions."""

    wraps: tuple[Let, ...]
    lanes: int


def plan(tasks: Loop) -> Plan | None:
    """The plan for a loop over tasks most of whose accesses along inner loops are next to the next task's."""
    statements = list(walk(tasks.body))
    if not all(isinstance(s, _KINDS) for s in statements):
        return None
    lets = [s for s in statements if isinstance(s, Let)]
    wraps = wrapping(tasks.body, tasks.var)
    if wraps is None:
        return None
    consecutive = {s.name for s in wraps if s.op == "rem"} | {tasks.var}
    steady = {s.name for s in wraps if s.op == "floordiv"}
    varying = _varying(statements, tasks.var) - steady
    loops = [s for s in statements if isinstance(s, Loop)]
    if any(bound in varying for s in loops for bound in (s.start, s.stop)):
        return None
    if any(let.op in ("rem", "floordiv") and let.args[0] in varying for let in lets if let not in wraps):
        return None
    vectors = [s for s in loops if s.kind == "vector"]
    accesses = [(s.index, v.var) for v in vectors for s in v.body if isinstance(s, Load | Store)]
    stores = [s.index for s in statements if isinstance(s, Store)]
    if not all(any(name in consecutive for name, _ in index) for index in stores):
        return None
    across = sum(_crosses(index, variable, consecutive) for index, variable in accesses)
    if across <= sum(any(i == (variable, 1) for i in index) for index, variable in accesses):
        return None
    wide = any(BITS[s.dtype] == 64 for s in statements if isinstance(s, Load))
    return Plan(wraps, _LINE // (8 if wide else 4))


def _varying(statements: Sequence[Stmt], task: str) -> set[str]:
    """Names of values that may differ between tasks."""
    found = {task}
    accumulators: set[str] = set()
    for s in [*statements, *statements]:  # what a loop accumulates may vary by what comes after
        if isinstance(s, Accumulate) and s.value in found:
            accumulators.add(s.name)
        elif (
            (isinstance(s, Finish) and s.accumulator in accumulators)
            or (isinstance(s, Let) and found.intersection(s.args))
            or (isinstance(s, Load) and found.intersection(name for name, _ in s.index))
        ):
            found.add(s.name)
    return found


def _crosses(index: Index, variable: str, consecutive: set[str]) -> bool:
    """Whether elements of consecutive tasks are adjacent, and those along the inner loop are not."""
    along = [stride for name, stride in index if name == variable]
    return [stride for name, stride in index if name in consecutive] == [1] and along not in ([], [1], [-1])
