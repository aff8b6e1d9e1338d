"""How many values lie on the stack before each instruction of a code object, from the effects that `dis` documents."""

from __future__ import annotations

import dis
import functools
import itertools
from types import CodeType

_LAST = frozenset({
    "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT",
    "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE",
})  # fmt: skip
"""After these the next instruction is not executed, unless something jumps to it."""
_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))


@functools.lru_cache(maxsize=4096)
def depths(code: CodeType) -> dict[int, int]:
    """The depth by offset of instruction; those that nothing reaches are not there."""
    instructions = list(dis.get_instructions(code))
    following = {a.offset: b.offset for a, b in itertools.pairwise(instructions)}
    by_offset = {i.offset: i for i in instructions}
    found: dict[int, int] = {}
    handlers = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]
    # What handles an exception finds the depth that its entry says, the place of the error, and the error.
    work = [(h.target, h.depth + h.lasti + 1) for h in handlers]
    work.append((instructions[0].offset, 0))
    while work:
        offset, depth = work.pop()
        if offset in found:
            continue
        found[offset] = depth
        i = by_offset[offset]
        argument = i.arg if i.opcode >= dis.HAVE_ARGUMENT else None
        if i.opcode in _JUMPS:
            work.append((i.argval, depth + dis.stack_effect(i.opcode, argument, jump=True)))
        if i.opname not in _LAST and offset in following:
            # A generator goes on with a value on its stack, which CPython 3.11 and 3.12 do not count.
            effect = 1 if i.opname == "RETURN_GENERATOR" else dis.stack_effect(i.opcode, argument, jump=False)
            work.append((following[offset], depth + effect))
    return found
