"""The instructions of Python code by the names that CPython 3.11 to 3.13 have for them, whatever version runs.

CPython 3.14 has one instruction for operators and subscripts, calls what a `with` enters as any function, and gives
names of their own to what is read without counting a reference. CPython 3.12 looks for names that the body of a class
may have in a dictionary on the stack.
"""

from __future__ import annotations

import dis
import functools
from types import CodeType

_NAMES = {
    "LOAD_FAST_BORROW": "LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW": "LOAD_FAST_LOAD_FAST",
    "LOAD_SMALL_INT": "LOAD_CONST", "LOAD_COMMON_CONSTANT": "LOAD_CONST",
    "LOAD_FROM_DICT_OR_DEREF": "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_GLOBALS": "LOAD_NAME",
}  # fmt: skip
_ASKED_FOR = ("None", "True", "False")  # by programs, with `is`


@functools.lru_cache(maxsize=4096)
def instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    """The instructions of a code object that do something."""
    found = [i for i in dis.get_instructions(code) if i.opname not in ("NOP", "NOT_TAKEN")]
    names = [_NAMES.get(i.opname, i.opname) for i in found]
    for at, i in enumerate(found):
        if i.opname == "BINARY_OP" and i.argrepr == "[]":
            names[at] = "BINARY_SUBSCR"
        elif i.opname == "LOAD_SPECIAL":
            _enter(found, names, at)
        elif i.opname == "LOAD_COMMON_CONSTANT" and i.argrepr not in _ASKED_FOR and names[at + 1] == "IS_OP":
            names[at + 1] = ""  # asks whether `any` is still Python's own
    return tuple([i._replace(opname=name) for i, name in zip(found, names, strict=True) if name])


def _enter(found: list[dis.Instruction], names: list[str], at: int) -> None:
    """A context's methods are looked up where its copy has been made; the next call enters it."""
    names[at] = ""
    if names[at - 1] == "COPY":
        names[at - 1] = "BEFORE_WITH" if found[at].argrepr == "__exit__" else "BEFORE_ASYNC_WITH"
    elif found[at].argrepr in ("__enter__", "__aenter__"):
        names[at + 1] = ""
