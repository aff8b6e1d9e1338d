"""Scans along lines, as kernels for GPUs: programs share long ones."""

from __future__ import annotations

from typing import Any

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.lower.build import Built, whole
from eagerjit.compiler.lower.emit import Argument, Temporary
from eagerjit.compiler.lower.pieces import totals_of


def scans(
    name: str, node: Node, op: str, out: Argument, source: Argument, dtype: str, real: bool,
    amounts: tuple[sizes.Expr, sizes.Expr], lines: sizes.Expr, work: sizes.Expr,
) -> list[Built]:  # fmt: skip
    """The kernels, for some node, that scan `source` into `out`; `amounts` are as of `loops.Along`."""

    def scan(names: tuple[str, ...], amounts: tuple[int | str, ...]) -> loops.Along:
        (result, x, *parts), (extent, inner) = names, amounts
        return loops.Along(result, x, op, extent, inner, dtype, *parts)

    def of_pieces(names: tuple[str, ...], amounts: tuple[int | str, ...]) -> loops.Along:
        *parts, x = names
        return scan(("", x, *parts), amounts)

    def built(name: str, statement: Any, memory: list[Argument], dtypes: tuple[str, ...], tasks: sizes.Expr) -> Built:
        return whole(name, node, statement, memory, dtypes, amounts, tasks, work)

    count = totals_of(amounts[0], lines)
    if count == 0:
        return [built(name, scan, [out, source], (dtype, dtype), lines)]
    parts = [Temporary(f"{name}.totals", "f64" if real else "i64")]
    parts += [Temporary(f"{name}.powers", "i64")] * (real and op == "mul")
    wide = tuple([part.dtype for part in parts])
    first = built(f"{name}.totals", of_pieces, [*parts, source], (*wide, dtype), count)
    first.temporaries = dict.fromkeys(parts, count)
    return [first, built(name, scan, [out, source, *parts], (dtype, dtype, *wide), lines)]
