"""Machine code of kernels, made once in a process for all programs that have the same ones.

An operation and a compiled function that calls it alone, two versions of a function that differ in what they guard, a
call that is recorded once more: their graphs differ where their kernels do not. Kernels are the same if they print the
same but for their names, so in machine code they have none: they are numbered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from eagerjit.runtime import cache, cpu
from eagerjit.runtime.once import lock

if TYPE_CHECKING:
    from eagerjit.compiler.loops import Kernel

MOST = 16 << 20
"""Bytes that are kept; what was used least recently goes first."""

_known: OrderedDict[str, bytes] = OrderedDict()


def machine_code(kernels: Sequence[Kernel]) -> bytes:
    """Object code of kernels, in which they have the names that `symbol` gives their positions; nothing for none."""
    if not kernels:
        return b""
    from eagerjit.compiler.codegen.llvm import emit_module
    from eagerjit.compiler.loops import body_text

    width = cpu.vector_width_bits()
    key = cache.content_key(str(width), *map(body_text, kernels))
    with lock:
        if key in _known:
            _known.move_to_end(key)
            return _known[key]
    code = cpu.compile_text(emit_module([replace(k, name=symbol(i)) for i, k in enumerate(kernels)], width))
    with lock:
        _known[key] = code
        while sum(map(len, _known.values())) > MOST:
            _known.popitem(last=False)
    return code


def symbol(position: int) -> str:
    """What machine code calls the kernel at a position of its program."""
    return f"kernel{position}"


def forget() -> None:
    """Forget all machine code: whatever is compiled next is compiled anew."""
    with lock:
        _known.clear()
