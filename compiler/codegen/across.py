"""Kernels of rows that lie across memory: consecutive tasks are the lanes.

Task t reduces `P[... + t + i*S]` over i: strided, although task t + 1 wants the elements beside them. So as many tasks
as a cache line has elements are run together, every statement once for all of them, and the loop over i takes one
element of each at a time. An accumulator, whose lanes are elements of the loop, then has as many vectors as lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from eagerjit.compiler.codegen.builder import BITS
from eagerjit.compiler.codegen.math import BINARY, UNARY
from eagerjit.compiler.codegen.transpose import wrapping
from eagerjit.compiler.loops import LANES, Accumulate, Check, Finish, Index, Init, Let, Load, Loop, Stmt, Store, walk
from eagerjit.runtime.records import record

_LINE = 64
"""Bytes of a cache line: what one step of a loop reads."""

LINES, FEW = 4, 12
"""Lines beside each other that are read for kernels of so few statements: getting at a page takes longest."""

SHORT = 16
"""Elements of rows that tasks take one at a time wherever they lie: as vectors they would fill few lanes."""
EXTREMES = frozenset({"maximum", "minimum", "argmax", "argmin"})
DEAR = frozenset(UNARY) | frozenset(BINARY)
"""What it is done for: the first take longest to fold lanes, the others to compute lanes that a row leaves empty."""

_KINDS = (Let, Load, Store, Init, Accumulate, Finish, Check, Loop)


@record(frozen=True)
class Plan:
    """How many tasks run together, and the `rem` and `floordiv` statements that number them over dimensions.

    `blocks` are how many tasks may run together, from most on, `copies` the vectors of an accumulator. Where there is
    an `extent`, tasks run together whose rows are short.
    """

    wraps: tuple[Let, ...]
    blocks: tuple[int, ...]
    copies: int = LANES
    extent: int | str = 0


def plan(tasks: Loop, scratch: set[str]) -> Plan | None:
    """The plan for a loop over tasks most of whose accesses along inner loops are next to the next task's, or that
    reduce rows each in ways worth it where these are short. Rows are kept in `scratch` memory meanwhile."""
    found = _together(tasks, scratch)
    if found is None:
        return None
    wraps, lanes, across = found
    if across:
        several = (LINES * lanes,) if _reads_little(tasks) else ()
        return None if scratch else Plan(wraps, (*several, lanes))
    extent = _reduced_extent(tasks, {s.name for s in wraps if s.op == "rem"} | {tasks.var})
    return Plan(wraps, (lanes,), SHORT, extent) if extent else None


def _together(tasks: Loop, scratch: set[str]) -> tuple[tuple[Let, ...], int, bool] | None:
    """How tasks are numbered, how many may run together, and whether most accesses are next to the next task's."""
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
    kept = [s for s in statements if isinstance(s, Load | Store) and s.param in scratch]
    accesses = [(s.index, v.var) for v in vectors for s in v.body if isinstance(s, Load | Store) and s not in kept]
    stores = [s.index for s in statements if isinstance(s, Store) and s not in kept]
    if not all(any(name in consecutive for name, _ in index) for index in stores):
        return None
    across = sum(_crosses(index, variable, consecutive) for index, variable in accesses)
    own = [(index, variable) for index, variable in accesses if any(name in varying for name, _ in index)]
    along = sum(any(i == (variable, 1) for i in index) for index, variable in own)
    wide = any(BITS[s.dtype] == 64 for s in statements if isinstance(s, Load))
    return wraps, _LINE // (8 if wide else 4), across > along


def _reads_little(tasks: Loop) -> bool:
    """Whether so little is done with what is read that reading takes longest."""
    statements = [s for s in walk(tasks.body) if not isinstance(s, Loop)]
    plain = all(s.op not in DEAR for s in statements if isinstance(s, Let))
    return plain and len(statements) <= FEW and not any(isinstance(s, Init) and s.op in EXTREMES for s in statements)


def _reduced_extent(tasks: Loop, consecutive: set[str]) -> int | str:
    """The size of the rows that a kernel reduces where it does so in ways worth it, and always of one size; else 0."""
    statements = list(walk(tasks.body))
    vectors = [s for s in statements if isinstance(s, Loop) and s.kind == "vector"]
    inner = [s for vector in vectors for s in vector.body]
    found = {s.op for s in statements if isinstance(s, Init)}
    extremes = len(vectors) == 1 and found <= EXTREMES and not any(isinstance(s, Store) for s in inner)
    dear = any(isinstance(s, Let) and s.op in DEAR for s in inner)
    if not found or not (extremes or dear) or any(isinstance(s, Check) for s in inner):
        return 0
    if not any(name in consecutive for s in inner if isinstance(s, Load) for name, _ in s.index):
        return 0
    named = {s.name: s for s in statements if isinstance(s, Let)}
    extents = {_extent(vector, named) for vector in vectors}
    return extents.pop() if len(extents) == 1 else 0


def _extent(loop: Loop, named: dict[str, Let]) -> int | str:
    """The size of the rows that a vector loop goes over, or over a part of which it goes; 0 where rows are long."""
    if isinstance(loop.stop, int):
        return loop.stop if loop.stop <= SHORT else 0
    stop = named.get(loop.stop)
    if stop is None:
        return loop.stop
    ends = [a for a in stop.args if a not in named] if stop.op == "minimum" else []
    return ends[0] if len(ends) == 1 else 0


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
