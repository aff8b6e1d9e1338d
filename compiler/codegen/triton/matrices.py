"""Small matrices in Triton: a program holds one in registers, in double precision, whatever its dtype.

An element, a row or a column of a block is picked by a sum of which one term is not 0. Only the one-sided Jacobi method
works on memory, where in every round all pairs of columns that have none in common are rotated at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import Shape, blocks_of, known
from eagerjit.compiler.codegen.triton.operations import Function
from eagerjit.compiler.codegen.triton.source import (
    INT32,
    Launch,
    StatementKernel,
    TritonSource,
    multiples,
    warps_for,
)  # fmt: skip
from eagerjit.compiler.codegen.triton.tiles import DEFAULT, power_of_two
from eagerjit.compiler.loops import Kernel, Matrices

RIGHT = 64
"""Columns of a right side that one program solves for."""
ELEMENTS = 256
"""Elements of a program that goes along a polynomial's recurrence."""

FUNCTIONS = {
    "add": "return x + y",
    "larger": "return tl.maximum(x, y)",
    "smaller": "return tl.minimum(x, y)",
}
PICK = '''@triton.jit
def column_of(a, c, k):
    return tl.reduce(tl.where(c == k, a, 0.0), 1, add, keep_dims=True)
''', '''@triton.jit
def row_of(a, r, k):
    return tl.reduce(tl.where(r == k, a, 0.0), 0, add, keep_dims=True)
'''

LOAD = """
r = tl.arange(0, ROWS)[:, None]
c = tl.arange(0, COLUMNS)[None, :]
"""

CHOLESKY = """
at = program * ({0} * {0})
below = (r >= c) & (r < {0})
a = tl.load(x0 + at + tl.maximum(r, c) * {0} + tl.minimum(r, c), mask=(r < {0}) & (c < {0}), other=0.0).to(tl.float64)
failed = tl.full((1, 1), 0, tl.int32)
for k in range(0, {0}):
    column = column_of(a, c, k)
    row = row_of(a, r, k)
    pivot = row_of(column, r, k)
    failed = tl.where((failed == 0) & ~((pivot > 0.0) & (pivot < float("inf"))), k + 1, failed)
    root = tl.sqrt(tl.where(failed == 0, pivot, 1.0))
    column = tl.where(r == k, root, column / root)
    row = row / root
    a = tl.where(c == k, column, tl.where((r > k) & (c > k), a - column * row, a))
"""
CHOLESKY_FACTOR = """
given = tl.load(x0 + at + r * {0} + c, mask=below, other=0.0).to(tl.float64)
a = tl.where((failed > 0) & (r >= failed - 1), given, a)
tl.store(factor + at + r * {0} + c, tl.where(below, a, 0.0), mask=(r < {0}) & (c < {0}))
"""
CHOLESKY_INFO = """
tl.store(info + program + r * 0, failed + r * 0, mask=r == 0)
"""

LU = """
at = program * ({0} * {1})
steps = tl.minimum({0}, {1})
inside = (r < {0}) & (c < {1})
a = tl.load(x0 + at + r * {1} + c, mask=inside, other=0.0).to(tl.float64)
for k in range(0, steps):
    column = column_of(a, c, k)
    size = tl.where(column == column, tl.abs(column), float("inf"))
    size = tl.where((r >= k) & (r < {0}), size, -1.0)
    largest = tl.reduce(size, 0, larger, keep_dims=True)
    p = tl.reduce(tl.where(size == largest, r, ROWS), 0, smaller, keep_dims=True)
    upper = row_of(a, r, k)
    row = row_of(a, r, p)
    a = tl.where(r == k, row, tl.where(r == p, upper, a))
    column = column_of(a, c, k)
    pivot = row_of(column, r, k)
    column = column / tl.where(pivot == 0.0, 1.0, pivot)
    a = tl.where(r > k, tl.where(c == k, column, tl.where(c > k, a - column * row, a)), a)
"""
LU_PIVOTS = """    tl.store(pivots + program * steps + k + r * 0, p + 1 + r * 0, mask=r == 0)
"""
LU_FACTORS = """
tl.store(factors + at + r * {1} + c, a, mask=inside)
"""

QR = """
at = program * ({0} * {1})
inside = (r < {0}) & (c < {1})
a = tl.load(x0 + at + r * {1} + c, mask=inside, other=0.0).to(tl.float64)
a = tl.where((c - {1} == r) & (r < {0}), 1.0, a)
for k in range(0, tl.minimum({0} - 1, {1})):
    column = column_of(a, c, k)
    alpha = row_of(column, r, k)
    below = tl.where(r > k, column, 0.0)
    scale = tl.reduce(tl.abs(tl.where(r >= k, column, 0.0)), 0, larger, keep_dims=True)
    scale = tl.where(scale > 0.0, scale, 1.0)
    part = below / scale
    left = tl.reduce(part * part, 0, add, keep_dims=True)
    first = alpha / scale
    beta = tl.sqrt(first * first + left) * tl.where(alpha > 0.0, -scale, scale)
    beta = tl.where(left == 0.0, alpha, beta)
    tau = tl.where(left == 0.0, 0.0, (beta - alpha) / tl.where(beta == 0.0, 1.0, beta))
    v = tl.where(r == k, 1.0, below / tl.where(left == 0.0, 1.0, alpha - beta))
    v = tl.where(r < k, 0.0, v)
    a = a - tau * v * tl.reduce(v * a, 0, add, keep_dims=True)
    a = tl.where(c == k, tl.where(r == k, beta, tl.where(r > k, 0.0, a)), a)
"""
QR_R = """
tl.store(r_of + program * ({2} * {1}) + r * {1} + c, tl.where(r <= c, a, 0.0), mask=(r < {2}) & (c < {1}))
"""
QR_Q = """
tl.store(q + program * ({0} * {2}) + (c - {1}) * {2} + r, a, mask=(r < {2}) & (c >= {1}) & (c < {1} + {0}))
"""

RIGHT_SIDE = f"\nblocks = {blocks_of('{1}', 'COLUMNS')}" + """
c = program % blocks * COLUMNS + c
program = program // blocks
matrix = {matrix} + program * ({0} * {0})
at = program * ({0} * {1})
inside = (r < {0}) & (c < {1})
x = tl.load({right} + at + r * {1} + c, mask=inside, other=0.0).to(tl.float64)
"""
EXCHANGES = """
for k in range(0, {0}):
    p = tl.load(x1 + program * {0} + k) - 1
    upper = row_of(x, r, k)
    row = row_of(x, r, p)
    x = tl.where(r == k, row, tl.where(r == p, upper, x))
"""
SUBSTITUTION = """
for step in range(0, {0}):
    k = {row}
    column = tl.load(matrix + r * {0} + k, mask=r < {0}, other=0.0).to(tl.float64)
    row = row_of(x, r, k){divided}
    x = tl.where(r == k, row, tl.where(r {beyond} k, x - column * row, x))
"""
DIVIDED = " / row_of(column, r, k)"
SOLVED = """
tl.store(out + at + r * {1} + c, x, mask=inside)
"""

EXPONENTIAL = """
at = program * ({0} * {0})
inside = (r < {0}) & (c < {0})
a = tl.load(x0 + at + r * {0} + c, mask=inside, other=0.0).to(tl.float64)
sums = tl.reduce(tl.abs(a), 0, add, keep_dims=True)
norm = tl.reduce(tl.reduce(sums, 1, larger), 0, larger)
norm = tl.where(norm < float("inf"), norm, 0.0)
halvings = 0
while norm > 0.25:
    norm = norm * 0.5
    a = a * 0.5
    halvings += 1
unit = ((r == c) & inside).to(tl.float64)
x = unit
for term in range(0, 12):
    total = x * 0.0
    for k in range(0, {0}):
        total += column_of(a, c, k) * row_of(x, r, k)
    x = total / (12 - term) + unit
for squaring in range(0, halvings):
    total = x * 0.0
    for k in range(0, {0}):
        total += column_of(x, c, k) * row_of(x, r, k)
    x = total
tl.store(out + at + r * {0} + c, x, mask=inside)
"""

PERMUTATION = """
i = tl.arange(0, ROWS)
order = i
for k in range(0, {0}):
    p = tl.load(x0 + program * {0} + k) - 1
    here = tl.reduce(tl.where(i == k, order, 0), 0, add)
    there = tl.reduce(tl.where(i == p, order, 0), 0, add)
    order = tl.where(i == k, there, tl.where(i == p, here, order))
tl.store(out + program * {1} + order, i.to(tl.int64), mask=i < {1})
"""

JACOBI = """
lane = tl.arange(0, COLUMNS)[None, :]
pair = tl.arange(0, ROWS)[:, None]
start = out + program * ({0} * {1})
for line in range(0, {0}):
    value = tl.load(x0 + program * ({0} * {1}) + line * {1} + lane, mask=lane < {1})
    tl.store(start + line * {1} + lane, value, mask=lane < {1})
players = {0} + {0} % 2
turns = tl.maximum(players - 1, 1)
turned = 1
sweep = 0
while (turned > 0) & (sweep < {SWEEPS}):
    turned = 0
    for turn in range(0, turns):
        p = tl.where(pair == 0, players - 1, (turn + pair) % turns)
        q = tl.where(pair == 0, turn, (turn - pair + turns) % turns)
        among = (pair < players // 2) & (tl.maximum(p, q) < {0})
        first = start + tl.minimum(p, q) * {1} + lane
        second = start + tl.maximum(p, q) * {1} + lane
        tl.debug_barrier()
        x = tl.load(first, mask=among & (lane < {1}), other=0.0)
        y = tl.load(second, mask=among & (lane < {1}), other=0.0)
        left, right = tl.where(lane < {1} - {0}, x, 0.0), tl.where(lane < {1} - {0}, y, 0.0)
        xx = tl.reduce(left * left, 1, add, keep_dims=True)
        yy = tl.reduce(right * right, 1, add, keep_dims=True)
        xy = tl.reduce(left * right, 1, add, keep_dims=True)
        turn_it = among & (tl.abs(xy) > 1e-15 * (tl.sqrt(xx) * tl.sqrt(yy)))
        zeta = (yy - xx) / tl.where(turn_it, 2.0 * xy, 1.0)
        tangent = 1.0 / (tl.abs(zeta) + tl.sqrt(1.0 + zeta * zeta))
        tangent = tl.where(zeta < 0.0, -tangent, tangent)
        cosine = 1.0 / tl.sqrt(1.0 + tangent * tangent)
        sine = cosine * tangent
        tl.debug_barrier()
        tl.store(first, cosine * x - sine * y, mask=turn_it & (lane < {1}))
        tl.store(second, sine * x + cosine * y, mask=turn_it & (lane < {1}))
        turned += tl.reduce(tl.reduce(turn_it.to(tl.int32), 1, add), 0, add)
    sweep += 1
"""

POLYNOMIAL = """
i = program * ROWS + tl.arange(0, ROWS)
x = tl.load(x0 + i, mask=i < tasks, other=0.0).to(tl.float64)
degree = tl.load(x1 + i, mask=i < tasks, other=0.0).to(tl.float64)
degree = tl.where(degree < 0.0, tl.ceil(degree), tl.floor(degree))  # cut to integers
{shifted}
before = x * 0.0 + 1.0
now = {slope} * x + {constant}
value = tl.where(degree == 0.0, 1.0, tl.where(degree == 1.0, now, 0.0))
top = tl.reduce(tl.where(degree == degree, degree, 0.0), 0, larger)
k = tl.full((), 1.0, tl.float64)
while k < top:
    after = ({a} * x + {b}) * now - {c} * before
    before = now
    now = after
    k += 1.0
    value = tl.where(degree == k, now, value)
tl.store(out + i, value, mask=i < tasks)
"""
SWEEPS = 40
"""Rounds over all pairs at most; ten are enough but for matrices with NaN."""


class MatricesText(KernelText):
    """Writes one such kernel."""

    def __init__(self, kernel: Kernel, statement: Matrices):
        super().__init__(kernel, Shape(False, "whole"))
        self.statement = statement
        self.names = {name for name, _ in statement.memory}

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        s = self.statement
        for name, both in FUNCTIONS.items():
            self.functions[name] = Function(name, f"@triton.jit\ndef {name}(x, y):\n    {both}\n")
        for name, text in zip(("column_of", "row_of"), PICK, strict=True):
            self.functions[name] = Function(name, text)
        text = getattr(self, f"_{s.op}")()
        lines = ["program = tl.program_id(0)", "if WIDE:", "    program = program.to(tl.int64)"]
        for line in (*lines, *text.format(*s.sizes, SWEEPS=SWEEPS).split("\n")):
            if line.strip():
                self.emit(line)
        return self.lines

    def _linalg_cholesky_ex(self) -> str:
        return LOAD + CHOLESKY + CHOLESKY_FACTOR * ("factor" in self.names) + CHOLESKY_INFO * ("info" in self.names)

    def _linalg_lu_factor(self) -> str:
        return LOAD + LU + LU_PIVOTS * ("pivots" in self.names) + LU_FACTORS * ("factors" in self.names)

    def _linalg_qr(self) -> str:
        return LOAD + QR + QR_R * ("r_of" in self.names) + QR_Q * ("q" in self.names)

    def _linalg_matrix_exp(self) -> str:
        return LOAD + EXPONENTIAL

    def _orthogonal_columns(self) -> str:
        return JACOBI

    def _lu_permutation(self) -> str:
        return PERMUTATION

    def _linalg_solve_triangular(self) -> str:
        upper, unitriangular = self.statement.numbers
        return LOAD + _right_side("x0", "x1") + _substitution(bool(upper), bool(unitriangular)) + SOLVED

    def _substituted(self) -> str:
        both = _substitution(False, True) + _substitution(True, False)
        return LOAD + _right_side("x0", "x2") + EXCHANGES + both + SOLVED

    def _orthogonal_polynomial(self) -> str:
        slope, constant, *coefficients, divided, shifted = self.statement.numbers
        a, b, c = (
            f"(({first!r} + {rising!r} * k){' / (k + 1.0)' * bool(divided)})"
            for first, rising in zip(coefficients[::2], coefficients[1::2], strict=True)
        )
        known = {"slope": slope, "constant": constant, "a": a, "b": b, "c": c}
        return POLYNOMIAL.format(shifted="x = 2.0 * x - 1.0" if shifted else "", **known)


def _right_side(matrix: str, right: str) -> str:
    """Where a matrix lies, and a block of columns of its right side."""
    return RIGHT_SIDE.replace("{matrix}", matrix).replace("{right}", right)


def _substitution(upper: bool, unitriangular: bool) -> str:
    """The solution row by row, from the one that depends on no other."""
    row, beyond = ("{0} - 1 - step", "<") if upper else ("step", ">")
    text = SUBSTITUTION.replace("{row}", row).replace("{beyond}", beyond)
    return text.replace("{divided}", "" if unitriangular else DIVIDED)


class MatricesKernel(StatementKernel[Matrices]):
    """Small matrices of the IR for the GPU, used like a `TritonKernel`."""

    @cached_property
    def sources(self) -> tuple[TritonSource, ...]:
        """The file."""
        return (self.file_as_named(MatricesText(self.kernel, self.statement), ("ROWS", "COLUMNS", "WIDE")),)

    def launch(self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT) -> Launch:
        """The file and grid for so many matrices of these sizes."""
        op, extents = self.statement.op, [known(x, sizes) for x in self.statement.sizes]
        programs, reach = tasks, tasks * max(extents[0] * extents[1], extents[-1] ** 2) if extents else tasks
        if op == "orthogonal_polynomial":
            rows, columns, programs = ELEMENTS, 1, -(-tasks // ELEMENTS)
        elif op == "lu_permutation":
            rows, columns = extents[1], 1
        elif op == "orthogonal_columns":
            rows, columns = (extents[0] + 1) // 2, extents[1]
        elif op in ("substituted", "linalg_solve_triangular"):
            rows, columns = extents[0], min(extents[1], RIGHT)
            programs = tasks * max(-(-extents[1] // RIGHT), 1)
        else:
            rows, columns = extents[0], extents[1] + (extents[0] if op == "linalg_qr" else 0)
        constants = {"ROWS": power_of_two(rows), "COLUMNS": power_of_two(columns), "WIDE": int(reach >= INT32)}
        constants = {name: n for name, n in constants.items() if name in self.sources[0].constants}
        warps = warps_for(2 * constants["ROWS"] * constants.get("COLUMNS", 1))
        source = self.sources[0]
        return Launch(source, constants, warps, max(programs, 1), multiples(source, tasks, sizes), 1)
