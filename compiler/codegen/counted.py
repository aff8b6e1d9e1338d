"""Counted loops in LLVM text."""

from __future__ import annotations

from collections.abc import Callable

from eagerjit.compiler.codegen.builder import Builder, Value


def repeat(b: Builder, start: Value, step: int, stop: Value, body: Callable[[Value], object]) -> Value:
    """A loop of its own from the open block, entered at least once; the variable's value behind it."""
    before, after = b.name("before"), b.name("after")
    b.emit(f"br label %{before}")
    b.label(before)
    b.open_loop()
    following = counted(b, start, step, stop, body, after)
    b.close_loop()
    b.label(after)
    return Value(b, "i64", 0, following.text, b.depth)


def counted(b: Builder, start: Value, step: int, stop: Value, body: Callable[[Value], object], after: str) -> Value:
    """`body` for start, start + step, ... while below stop, then on to block `after`; the variable's next value."""
    before, head = b.block, b.name("loop")
    b.emit(f"br label %{head}")
    b.label(head)
    variable = Value(b, "i64", 0, b.name("%v"), b.depth)
    place = len(b.lines)
    b.lines.append("")
    body(variable)
    following = Value(b, "i64", 0, b.name("%v"), b.depth)
    b.emit(f"{following.text} = add i64 {variable.text}, {step}")
    b.lines[place] = f"  {variable.text} = phi i64 [ {start.text}, %{before} ], [ {following.text}, %{b.block} ]"
    b.emit(f"br i1 {(following < stop).text}, label %{head}, label %{after}")
    return following
