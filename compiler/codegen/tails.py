"""The first lanes of a vector stored by halves."""

from __future__ import annotations

from eagerjit.compiler.codegen.builder import LLVM_TYPES, Builder, Value


def store_first(b: Builder, pointer: Value, value: Value, active: Value, align: int) -> None:
    """Stores the first `active` lanes: some processors' instruction for it takes many times as long."""
    scalar = LLVM_TYPES[value.dtype]
    rest, place = value, pointer
    whole, parts, done = b.name("whole"), b.name("parts"), b.name("stored")
    b.emit(f"br i1 {active.eq(value.lanes).text}, label %{whole}, label %{parts}")
    b.label(whole)
    b.emit(f"store {b.type(value.dtype, value.lanes)} {value.text}, ptr {pointer.text}, align {align}")
    b.emit(f"br label %{done}")
    b.label(parts)
    while rest.lanes > 1:
        half = rest.lanes // 2
        low, high = _part(rest, 0, half), _part(rest, half, half)
        full, then, before = b.name("full"), b.name("then"), b.block
        b.emit(f"br i1 {(active & half).eq(0).text}, label %{then}, label %{full}")
        b.label(full)
        b.emit(f"store {b.type(low.dtype, low.lanes)} {low.text}, ptr {place.text}, align {align}")
        after = b.name("%p")
        b.emit(f"{after} = getelementptr {scalar}, ptr {place.text}, i64 {half}")
        b.emit(f"br label %{then}")
        b.label(then)
        place = b.phi("ptr", 0, [(place.text, before), (after, full)], b.depth)
        rest = b.phi(low.dtype, low.lanes, [(low.text, before), (high.text, full)], b.depth)
    b.emit(f"br label %{done}")
    b.label(done)


def _part(value: Value, start: int, count: int) -> Value:
    """Some of a vector's lanes; a scalar for one of them."""
    b, kind = value.builder, value.builder.type(value.dtype, value.lanes)
    found = Value(b, value.dtype, count if count > 1 else 0, b.name("%v"), b.depth)
    if count == 1:
        b.emit(f"{found.text} = extractelement {kind} {value.text}, i64 {start}")
        return found
    order = ", ".join(f"i32 {start + i}" for i in range(count))
    b.emit(f"{found.text} = shufflevector {kind} {value.text}, {kind} poison, <{count} x i32> <{order}>")
    return found
