"""Which cache lines a vector loop asks for before it needs them."""

from __future__ import annotations

import pytest

from eagerjit.compiler.codegen.llvm import emit_kernel
from eagerjit.compiler.loops import Kernel, Let, Load, Loop, Param, Store

PLACE = (("i", 1),)


def kernel(count: int, into: str = "y", start: int | str = "m") -> Kernel:
    """x + x + ... + x of so many operations."""
    sums = [Let(f"v{k + 1}", "add", (f"v{k}", "v0"), "f32") for k in range(count)]
    body = (Load("v0", "x", PLACE, "f32"), *sums, Store(into, PLACE, f"v{count}"))
    memory = tuple(Param(name, "memory", "f32") for name in sorted({"x", into}))
    return Kernel("k", (*memory, Param("m", "size", "i64"), Param("n", "size", "i64")),
                  (Loop("vector", "i", start, "n", body, 16),))  # fmt: skip


def asked(kernel: Kernel, width: int = 512) -> list[str]:
    """For each line asked for, whether it is to be read or written."""
    text = emit_kernel(kernel, width)
    return [("read", "write")[int(line.split("i32 ")[1][0])] for line in text.splitlines() if "llvm.prefetch" in line]


@pytest.mark.parametrize("width", [128, 256, 512])
def test_what_is_written_is_asked_for(width: int) -> None:
    assert asked(kernel(1), width) == ["write"]


def test_what_is_read_is_asked_for_where_steps_are_long_or_rows_begin() -> None:
    assert asked(kernel(9)) == asked(kernel(1, start=0)) == ["read", "write"]


def test_what_was_read_is_not_asked_for_to_be_written() -> None:
    assert asked(kernel(1, "x")) == [] and asked(kernel(9, "x")) == ["read"]
