"""Scans along lines, as kernels for GPUs: programs share long ones."""

from __future__ import annotations

from typing import Any

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.lower.build import Built, whole
from eagerjit.compiler.lower.emit import Argument, Temporary
from eagerjit.compiler.lower.pieces import totals_of
from eagerjit.runtime.records import replace


def scans(
    name: str, node: Node, op: str, out: Argument, source: Argument, dtype: str, real: bool,
    amounts: tuple[sizes.Expr, sizes.Expr], lines: sizes.Expr, work: sizes.Expr,
) -> list[Built]:  # fmt: skip
    """The kernels, for some node, that scan `source` into `out`; `amounts` are as of `loops.Along`."""

    def scan(names: tuple[str, ...], amounts: tuple[int | str, ...]) -> loops.Along:
        (result, x, *totals), (extent, inner) = names, amounts
        return loops.Along(result, x, op, extent, inner, dtype, *totals[:1])

    def of_pieces(names: tuple[str, ...], amounts: tuple[int | str, ...]) -> loops.Along:
        return replace(scan(names, amounts), out="", totals=names[0])

    def built(name: str, statement: Any, memory: list[Argument], dtypes: tuple[str, ...], tasks: sizes.Expr) -> Built:
        return whole(name, node, statement, memory, dtypes, amounts, tasks, work)

    count = totals_of(amounts[0], lines)
    # The product of a piece may overflow where all products are 0.
    if count == 0 or (real and op == "mul"):
        return [built(name, scan, [out, source], (dtype, dtype), lines)]
    wide = "f64" if real else "i64"
    totals = Temporary(f"{name}.totals", wide)
    first = built(f"{name}.totals", of_pieces, [totals, source], (wide, dtype), count)
    first.temporaries = {totals: count}
    return [first, built(name, scan, [out, source, totals], (dtype, dtype, wide), lines)]
