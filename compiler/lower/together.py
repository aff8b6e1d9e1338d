"""Elements that don't go up with their place in memory, as those of a slice, brought together in scratch memory.

Lanes of a reduction take elements in the order of the indices. To find where each lane's element lies takes longer than
to write it, row by row, and to read it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eagerjit.compiler import loops
from eagerjit.compiler.lower.build import Writer
from eagerjit.compiler.lower.emit import Scratch

PIECE = 2048
"""Elements that are brought together at a time, in whole lanes: they stay in the first cache."""

WIDEST = 8
"""Bytes of an element at most."""


def brought_together(
    writer: Writer,
    classes: Sequence[int],
    block: tuple[str, str],
    statements: list[Any],
    values: Mapping[str, str],
    lanes: int,
    into: list[loops.Stmt],
) -> tuple[str, dict[str, loops.Load], int]:
    """Computes what is taken of a block of elements, values with their dtypes, row by row.

    Returns how many elements they are, for each value how a loop over them reads it again, and the bytes of scratch
    memory.
    """
    emitter, (start, stop) = writer.emitter, block
    *outer, inner = classes
    first, behind, width = _rows(writer, block, inner, into)
    row: list[loops.Stmt] = []
    writer.unflatten(outer, "r", row)
    writer.variable[inner] = "i"
    base, begin, end, least, most = (emitter.name() for _ in range(5))
    row += [
        loops.Let(base, "mul", ("r", width), "i64"),
        loops.Let(begin, "sub", (start, base), "i64"),
        loops.Let(end, "sub", (stop, base), "i64"),
        loops.Let(least, "maximum", (begin, _number(writer, 0, row)), "i64"),
        loops.Let(most, "minimum", (end, width), "i64"),
    ]
    place, length = emitter.name(), emitter.name()
    row.append(loops.Let(place, "sub", (base, start), "i64"))
    into.append(loops.Let(length, "sub", (stop, start), "i64"))
    body = writer.written(statements)
    again: dict[str, loops.Load] = {}
    for position, (value, dtype) in enumerate(values.items()):
        param = emitter.param(Scratch(position, dtype, position * PIECE * WIDEST), dtype)
        body.append(loops.Store(param, ((place, 1), ("i", 1)), value))
        again[value] = loops.Load(emitter.name(), param, (("i", 1),), dtype)
    row.append(loops.Loop("vector", "i", least, most, tuple(body), lanes))
    into.append(loops.Loop("serial", "r", first, behind, tuple(row)))
    return length, again, len(values) * PIECE * WIDEST


def in_pieces(writer: Writer, block: tuple[str, str], into: list[loops.Stmt]) -> tuple[str, tuple[str, str], list[Any]]:
    """How many pieces a block has, where piece "p" of it begins and ends, and the statements that find this."""
    emitter, (start, stop) = writer.emitter, block
    length, more, count, before, begin, after, end = (emitter.name() for _ in range(7))
    size, less = _number(writer, PIECE, into), _number(writer, PIECE - 1, into)
    into += [
        loops.Let(length, "sub", (stop, start), "i64"),
        loops.Let(more, "add", (length, less), "i64"),
        loops.Let(count, "floordiv", (more, size), "i64"),
    ]
    found = [
        loops.Let(before, "mul", ("p", size), "i64"),
        loops.Let(begin, "add", (start, before), "i64"),
        loops.Let(after, "add", (begin, size), "i64"),
        loops.Let(end, "minimum", (after, stop), "i64"),
    ]
    return count, (begin, end), found


def _rows(writer: Writer, block: tuple[str, str], inner: int, into: list[loops.Stmt]) -> tuple[str, str, str]:
    """The first row of a block, the one behind its last, and how many elements a row has."""
    emitter, (start, stop) = writer.emitter, block
    width, one = writer.operand(writer.extent[inner], into), _number(writer, 1, into)
    first, last, row, behind = (emitter.name() for _ in range(4))
    into += [
        loops.Let(first, "floordiv", (start, width), "i64"),
        loops.Let(last, "sub", (stop, one), "i64"),
        loops.Let(row, "floordiv", (last, width), "i64"),
        loops.Let(behind, "add", (row, one), "i64"),
    ]
    return first, behind, width


def _number(writer: Writer, number: int, into: list[loops.Stmt]) -> str:
    name = writer.emitter.name()
    into.append(loops.Let(name, "const", (), "i64", number))
    return name
