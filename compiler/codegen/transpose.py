"""Tasks that read memory across its rows: blocks of consecutive tasks load squares and transpose them in registers.

Task t reads `P[... + t + i*S]` in its vector loop over i: strided, although task t + 1 wants the elements beside them.
So as many tasks as a register has lanes are run together, and as many as one or several cache lines have elements where
lines would not stay in the cache. For as many i, whole vectors along t are loaded, transposed in registers and put on
the stack, and each task's vector body finds its lanes there; or in the registers, where it does little. Tasks may also
be numbered over several dimensions: `rem t s` counts as t while it does not wrap around, `floordiv t s` is then
constant.
"""

from __future__ import annotations

from collections.abc import Sequence

from eagerjit.compiler.codegen.builder import BITS, Value
from eagerjit.compiler.codegen.cast import HALF_FORMATS
from eagerjit.compiler.loops import Index, Let, Load, Loop, Stmt, Store
from eagerjit.runtime.records import record

LINES, FEW = 4, 5
"""Lines beside each other that are read for loops of so few statements: to get at a page takes longer than to read.
Others take more time to compile for it than they save."""

SINGLE = frozenset(
    {"const", "cast", "add", "sub", "mul", "neg", "maximum", "minimum", "where", "eq", "ne", "lt", "le", "gt", "ge"}
)
"""Operations of few instructions: loops of few of them are written out for each task, with squares in registers."""

LINE, PERIOD = 512, 8192
"""Bits of a cache line, and of memory after which lines share places in a cache: of few lines there is room for all."""


@record(frozen=True)
class Plan:
    """How a loop over tasks runs in blocks: its `rem` and `floordiv` statements, the loads to transpose.

    `blocks` are how many tasks may run together, from most on, and `lanes` the elements of a register. `copies`: all
    that is loaded is transposed, and little is done with it.
    """

    rows: tuple[Stmt, ...]
    vector: Loop
    wraps: tuple[Let, ...]
    loads: tuple[Load, ...]
    lanes: int
    blocks: tuple[int, ...]
    copies: bool

    @property
    def numbers(self) -> list[Let]:
        """What of a row is the same for a block of tasks or numbers them: all that needs nothing of what rows load."""
        out: list[Let] = []
        loaded: set[str] = set()
        for s in self.rows:
            if isinstance(s, Let) and loaded.isdisjoint(s.args):
                out.append(s)
            elif isinstance(s, Let | Load):
                loaded.add(s.name)
        return out


def plan(tasks: Loop, stored: set[str], width_bits: int) -> Plan | None:
    """The plan for a loop over tasks whose only inner loop is an elementwise vector loop with a load across rows."""
    *rows, vector = tasks.body or (None,)
    if not isinstance(vector, Loop) or vector.kind != "vector":
        return None
    if not all(isinstance(s, Let | Load) for s in rows) or not all(
        isinstance(s, Let | Load | Store) for s in vector.body
    ):
        return None
    lets = [s for s in rows if isinstance(s, Let)]
    named = {s.name for s in rows if isinstance(s, Let | Load)} | {tasks.var}
    if vector.start in named or vector.stop in named:
        return None
    wraps = wrapping(rows, tasks.var)
    if wraps is None:
        return None
    steady = _steady_names(lets, tasks.var)
    consecutive = {s.name for s in wraps if s.op == "rem"} | {tasks.var}
    loads = tuple(
        s
        for s in vector.body
        if isinstance(s, Load) and s.param not in stored and crosses(s.index, vector.var, consecutive, named - steady)
    )
    if not loads:
        return None
    wide = any(BITS[s.dtype] == 64 for s in loads)
    bits = 64 if wide else 32
    lanes, line = width_bits // bits, LINE // bits
    blocks = (line, lanes) if line > lanes else (lanes,)
    few = len(vector.body) <= FEW
    copies = few and all(isinstance(s, Store) or s in loads or _is_single(s) for s in vector.body)
    if few and len(loads) == 1 and not copies:
        blocks = (LINES * line, *blocks)
    return Plan(tuple(rows), vector, wraps, loads, lanes, blocks, copies)


def _is_single(statement: Stmt) -> bool:
    """Whether this is an operation of one or a few instructions: numbers of 16 bits take several."""
    if not isinstance(statement, Let) or statement.op not in SINGLE:
        return False
    return statement.op == "cast" or statement.dtype not in HALF_FORMATS


def wrapping(statements: Sequence[Stmt], task: str) -> tuple[Let, ...] | None:
    """The statements that number tasks over two dimensions; None where there are more, or a size is computed there."""
    wraps = tuple(s for s in statements if isinstance(s, Let) and s.op in ("rem", "floordiv") and s.args[0] == task)
    sizes = {s.args[1] for s in wraps}
    computed = {s.name for s in statements if isinstance(s, Load) or (isinstance(s, Let) and s.op != "const")}
    return None if len(sizes) > 1 or sizes & computed else wraps


def _steady_names(lets: Sequence[Let], task: str) -> set[str]:
    """Names that depend on the task only through `floordiv task s`: the same in a block."""
    changing, steady = {task}, set()
    for let in lets:
        if (let.op == "floordiv" and let.args[0] == task) or not changing & set(let.args):
            steady.add(let.name)
        else:
            changing.add(let.name)
    return steady


def crosses(index: Index, variable: str, consecutive: set[str], changing: set[str]) -> bool:
    """Whether lanes are a stride apart while consecutive tasks are adjacent, and nothing else in the index changes."""
    strides = [stride for name, stride in index if name == variable]
    along = [stride for name, stride in index if name in consecutive]
    others = {name for name, _ in index if name in changing} - consecutive
    return along == [1] and len(strides) == 1 and strides[0] not in (0, 1, -1) and not others


def transposed(vectors: Sequence[Value]) -> list[Value]:
    """Vector k of the result holds lane k of every vector; as many vectors as lanes, a power of two."""
    b, dtype = vectors[0].builder, vectors[0].dtype
    bits = BITS[dtype]
    if bits < 32:
        wide = transposed([b.convert("zext", v, "u32") for v in vectors])
        return [b.convert("trunc", v, dtype) for v in wide]
    rows = [v.bitcast("f32" if bits == 32 else "f64") for v in vectors]
    distance = len(rows) // 2
    while distance:
        for i in range(len(rows)):
            if i & distance == 0:
                rows[i], rows[i + distance] = _exchange(rows[i], rows[i + distance], distance)
        distance //= 2
    return [v.bitcast(dtype) for v in rows]


def _exchange(low: Value, high: Value, distance: int) -> tuple[Value, Value]:
    """Swaps the upper lanes (those with bit `distance`) of one with the lower lanes of the other."""
    count = low.lanes
    first = [lane if lane & distance == 0 else count + (lane & ~distance) for lane in range(count)]
    second = [lane | distance if lane & distance == 0 else count + lane for lane in range(count)]
    return _shuffle(low, high, first), _shuffle(low, high, second)


def _shuffle(low: Value, high: Value, order: Sequence[int]) -> Value:
    """Lanes of two vectors, numbered on from one to the other."""
    b, count = low.builder, low.lanes
    kind = b.type(low.dtype, count)
    depth = max(low.depth, high.depth)
    if count * (32 if low.dtype == "f32" else 64) != 512:
        numbers = ", ".join(f"i32 {lane}" for lane in order)
        text = f"shufflevector {kind} {low.text}, {kind} {high.text}, <{count} x i32> <{numbers}>"
        return b.pure(low.dtype, count, text, depth)
    # The order comes from memory that LLVM can't see through: finding out how to shuffle costs it 0.1 ms each time.
    index = "i32" if low.dtype == "f32" else "i64"
    table = f"@eagerjit.order_{index}_{'_'.join(map(str, order))}"
    numbers = ", ".join(f"{index} {lane}" for lane in order)
    b.helpers.add(f"{table} = internal global <{count} x {index}> <{numbers}>")
    lanes = b.pure(index, count, f"load <{count} x {index}>, ptr {table}", 0)
    suffix = "ps" if low.dtype == "f32" else "pd"
    operands = f"{kind} {low.text}, <{count} x {index}> {lanes.text}, {kind} {high.text}"
    text = f"call {kind} @llvm.x86.avx512.vpermi2var.{suffix}.512({operands})"
    return b.pure(low.dtype, count, text, depth)
